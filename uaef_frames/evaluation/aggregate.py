"""From scores to dimensions to one overall score a session, as the last section of METRICS.md says.

Knows weights and thresholds; what a metric measured is not its business.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from uaef_frames.judge.outcomes import FAILED_VERDICTS
from uaef_frames.metrics.spec import METRIC_ERROR, NO_JUDGE
from uaef_frames.schemas import ROUNDING

if TYPE_CHECKING:
    from uaef_frames.evaluation.plan import Plan, Profile
    from uaef_frames.evaluation.units import Subject


@dataclass(frozen=True, slots=True)
class Aggregated:
    """What a session's scores come to.

    Attributes:
        scores: The scores with session_id, turn_id, turn_index and session_unit.
        metrics: session_unit, metric, dimension, score: the mean of each metric in its session.
        dimensions: session_unit and the columns of `schemas.Dimensions`.
        sessions: session_unit and the columns of `schemas.Sessions`, labels aside.
    """

    scores: pl.DataFrame
    metrics: pl.DataFrame
    dimensions: pl.DataFrame
    sessions: pl.DataFrame


def aggregate(
    scores: pl.DataFrame, subject: Subject, plan: Plan, profile: Profile | None = None
) -> Aggregated:
    """Means of metrics, dimensions and sessions.

    `profile` sets the weights of every session; None takes them from the session's topology.
    """
    keyed = _with_keys(scores, subject)
    metrics = keyed.group_by("session_unit", "metric", "dimension", maintain_order=True).agg(
        score=pl.col("score").mean()
    )
    sessions = subject.tables.sessions.select(
        "session_id", "topology", "num_turns", session_unit="unit"
    )
    dimensions = _dimensions(metrics, sessions, plan, profile)
    return Aggregated(
        keyed, metrics, dimensions, _sessions(keyed, dimensions, sessions, subject, plan)
    )


def _with_keys(scores: pl.DataFrame, subject: Subject) -> pl.DataFrame:
    turns, sessions = subject.tables.turns, subject.tables.sessions
    keys = pl.concat(
        [
            turns.select("session_id", "turn_id", "turn_index", "session_unit"),
            sessions.select("session_id", session_unit="unit"),
        ],
        how="diagonal",
    )
    # Units number the rows of turns and then of sessions, so a unit is a row of `keys`.
    return pl.concat([keys[scores["unit"]], scores], how="horizontal")


def _dimensions(
    metrics: pl.DataFrame, sessions: pl.DataFrame, plan: Plan, profile: Profile | None
) -> pl.DataFrame:
    profiles: tuple[Profile, ...] = (profile,) if profile else ("single", "multi")
    rules = pl.DataFrame(
        [
            (name, p, place, plan.weight(name, p), plan.threshold(name, p))
            for place, name in enumerate(plan.dimensions)
            for p in profiles
        ],
        schema={
            "dimension": pl.String,
            "profile": pl.String,
            "place": pl.Int64,
            "weight": pl.Float64,
            "threshold": pl.Float64,
        },
        orient="row",
    )
    of = pl.lit(profile) if profile else pl.col("topology").cast(pl.String)
    return (
        metrics.group_by("session_unit", "dimension", maintain_order=True)
        .agg(
            score=pl.col("score").mean(),
            metrics_scored=pl.col("score").count().cast(pl.Int64),
            metrics_total=pl.len().cast(pl.Int64),
        )
        .join(sessions.with_columns(profile=of), on="session_unit", how="left")
        .join(rules, on=["dimension", "profile"], how="left")
        .sort("session_unit", "place")
        .select(
            "session_unit",
            "session_id",
            "dimension",
            "score",
            "weight",
            "threshold",
            passed=pl.col("score") >= pl.col("threshold") - ROUNDING,
            metrics_scored="metrics_scored",
            metrics_total="metrics_total",
        )
    )


def _sessions(
    scores: pl.DataFrame,
    dimensions: pl.DataFrame,
    sessions: pl.DataFrame,
    subject: Subject,
    plan: Plan,
) -> pl.DataFrame:
    counts = pl.col("score").is_not_null()
    weight = pl.col("weight").filter(counts)
    weighed = (pl.col("weight") * pl.col("score")).filter(counts)
    below = pl.format(
        "{} {} is below its threshold {}",
        "dimension",
        pl.col("score").round(3),
        pl.col("threshold").round(3),
    ).filter(~pl.col("passed"))
    judged = dimensions.group_by("session_unit", maintain_order=True).agg(
        overall_score=pl.when(weight.sum() > 0).then(weighed.sum() / weight.sum()),
        scored=counts.any(),
        failures=below,
    )
    nothing = (
        pl.when(~pl.col("scored"))
        .then(pl.lit("nothing could be scored"))
        .when(pl.col("overall_score").is_null())
        .then(pl.lit("no dimension that has a weight could be scored"))
    )
    warnings = _warnings(scores, subject)
    return (
        sessions.join(judged, on="session_unit", how="left", maintain_order="left")
        .join(warnings, on="session_unit", how="left", maintain_order="left")
        .with_columns(
            pl.col("scored").fill_null(value=False),
            pl.col("failures").fill_null(pl.lit([], dtype=pl.List(pl.String))),
            pl.col("warnings").fill_null(pl.lit([], dtype=pl.List(pl.String))),
            session_index=pl.int_range(pl.len(), dtype=pl.Int64),
        )
        .with_columns(failures=pl.concat_list("failures", nothing).list.drop_nulls())
        .with_columns(passed=pl.col("scored") & (pl.col("failures").list.len() == 0))
        .select(
            "session_unit",
            "session_id",
            "session_index",
            "topology",
            "num_turns",
            "overall_score",
            "passed",
            "failures",
            "warnings",
        )
    )


def _warnings(scores: pl.DataFrame, subject: Subject) -> pl.DataFrame:
    """What a reader of a session should know: session_unit, warnings."""
    turns = subject.tables.turns
    noted = turns.filter(pl.col("notes").list.len() > 0)
    several = pl.col("num_turns") > 1
    notes = noted.explode("notes").select(
        "session_unit",
        warning=pl.when(several)
        .then(pl.format("turn {}: {}", "turn_id", "notes"))
        .otherwise(pl.col("notes")),
    )
    lengths = subject.warnings.join(
        subject.tables.sessions.select("session_id", session_unit="unit"), on="session_id"
    ).select("session_unit", "warning")
    unjudged = (
        scores.filter(pl.col("warning") == NO_JUDGE)
        .group_by("session_unit")
        .agg(n=pl.col("metric").n_unique())
        .select(
            "session_unit",
            warning=pl.format("no_judge: {} metrics have no score, no judge is configured", "n"),
        )
    )
    failed = (
        scores.filter(pl.col("warning") == METRIC_ERROR)
        .unique(["session_unit", "metric"], maintain_order=True)
        .select("session_unit", warning=pl.format("metric {} failed: {}", "metric", "reasoning"))
    )
    unanswered = (
        scores.filter(pl.col("warning").is_in(FAILED_VERDICTS))
        .group_by("session_unit", "warning", maintain_order=True)
        .agg(n=pl.len(), metrics=pl.col("metric").unique(maintain_order=True).head(3))
        .select(
            "session_unit",
            warning=pl.format(
                "{}: {} scores have no verdict ({})",
                "warning",
                "n",
                pl.col("metrics").list.join(", "),
            ),
        )
    )
    return (
        pl.concat([lengths, notes, failed, unjudged, unanswered])
        .group_by("session_unit", maintain_order=True)
        .agg(warnings=pl.col("warning"))
    )
