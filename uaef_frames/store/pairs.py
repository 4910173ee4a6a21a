"""What of two runs is held against each other: like with like.

A score that one run has and the other lacks would move the means of its session, dimension and
overall without any change of the agent: a judge that failed is no better answer. So values are
made of what both runs could score, and what is left out is counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import polars as pl

from uaef_frames.arrow import is_file_error
from uaef_frames.errors import StoreError
from uaef_frames.store.summary import steady_mean

if TYPE_CHECKING:
    from uaef_frames.store.run import Run

Unit: TypeAlias = Literal["session", "turn"]

_KEYS = ["session_id", "turn_id", "metric"]
_COLUMNS = ["kind", "name", "session_id", "turn_id", "a", "b", "scored_a", "scored_b", "unlike"]


def pairs(a: Run, b: Run, unit: Unit) -> pl.DataFrame:
    """The values of the sessions that both runs have, side by side.

    Columns: kind (overall, dimension, metric), name, session_id, turn_id (of metrics by turn; else
    null), a, b (null: nothing that the other has too), scored_a, scored_b (whether the run has a
    score at all), unlike (whether scores of one run alone were left out).

    A metric's value in a session is the mean of its turns, but for turns that the other run has
    without a score; turns that the other run does not have count. A dimension's is the mean of the
    metrics that both have, overall the weighted mean of these dimensions.
    """
    scores_a, scores_b = _common(a, b), _common(b, a)
    by_metric = _read(_by_metric(scores_a, scores_b), a, b)
    by_dimension = _by_dimension(by_metric)
    overall = _overall(by_dimension, _weights(a), _weights(b))
    metrics = by_metric if unit == "session" else _read(_by_turn(scores_a, scores_b), a, b)
    none = pl.lit(None, dtype=pl.Int64)
    parts = [
        overall.with_columns(kind=pl.lit("overall"), name=pl.lit("overall"), turn_id=none),
        by_dimension.with_columns(kind=pl.lit("dimension"), name="dimension", turn_id=none),
        metrics.with_columns(kind=pl.lit("metric"), name="metric"),
    ]
    order = ["session_id", "turn_id"]
    return pl.concat([part.select(_COLUMNS).sort(order) for part in parts])


def by_session(found: pl.DataFrame) -> pl.DataFrame:
    """session_id, metric, score_a, score_b, difference of the metrics that both have."""
    return (
        found.filter(kind="metric")
        .drop_nulls(["a", "b"])
        .group_by("session_id", metric="name")
        .agg(score_a=steady_mean("a"), score_b=steady_mean("b"))
        .with_columns(difference=pl.col("score_b") - pl.col("score_a"))
        .sort("session_id", "metric")
    )


def names(a: Run, b: Run, found: pl.DataFrame) -> list[tuple[str, str]]:
    """kind and name of everything to be compared: overall, dimensions and metrics in their order
    in the runs.
    """
    asked = [("metric", name) for run in (a, b) for name in run.info["metrics"] or ()]
    listed = [
        ("dimension", name)
        for run in (a, b)
        for name in run.collect(run.dimensions.select("dimension"))["dimension"].unique(
            maintain_order=True
        )
    ]
    held = found.select("kind", "name").unique(maintain_order=True).rows()
    there = set(held)
    wanted = dict.fromkeys([("overall", "overall"), *listed, *asked, *held])
    return [one for one in wanted if one in there]


def _read(frame: pl.LazyFrame, a: Run, b: Run) -> pl.DataFrame:
    try:
        return frame.collect()
    except BaseException as error:
        if not is_file_error(error):
            raise
        reason = str(error).partition("\n")[0]
        raise StoreError(
            f"runs {a.run_id} and {b.run_id} cannot be read: {reason}; `uaef-frames runs verify` "
            "tells the file that is broken"
        ) from error


def _common(run: Run, other: Run) -> pl.LazyFrame:
    sessions = other.sessions.select("session_id")
    columns = run.scores.select(*_KEYS, "dimension", "score")
    return columns.join(sessions, on="session_id", how="semi")


def _by_metric(scores_a: pl.LazyFrame, scores_b: pl.LazyFrame) -> pl.LazyFrame:
    side_a, side_b = _like(scores_a, scores_b), _like(scores_b, scores_a)
    joined = side_a.join(side_b, on=["session_id", "metric"], how="full", coalesce=True)
    scored = [pl.col(f"scored{s}").fill_null(value=False) for s in ("", "_right")]
    dropped = pl.any_horizontal(
        pl.col(f"dropped{s}").fill_null(value=False) for s in ("", "_right")
    )
    return joined.select(
        "session_id",
        "metric",
        pl.coalesce("dimension", "dimension_right").alias("dimension"),
        turn_id=pl.lit(None, dtype=pl.Int64),
        a="value",
        b="value_right",
        scored_a=scored[0],
        scored_b=scored[1],
        unlike=dropped | (scored[0] != scored[1]),
    )


def _like(scores: pl.LazyFrame, other: pl.LazyFrame) -> pl.LazyFrame:
    """The mean of each metric in each session, over the turns that the other run could score."""
    blank = other.filter(pl.col("score").is_null()).select(*_KEYS, blank=True)
    kept = pl.when(pl.col("blank").is_null()).then(pl.col("score"))
    return (
        scores.join(blank, on=_KEYS, how="left", nulls_equal=True)
        .with_columns(kept=kept)
        .group_by("session_id", "metric", "dimension")
        .agg(
            value=steady_mean("kept"),
            scored=pl.col("score").count() > 0,
            dropped=pl.col("kept").count() < pl.col("score").count(),
        )
    )


def _by_dimension(by_metric: pl.DataFrame) -> pl.DataFrame:
    both = pl.col("a").is_not_null() & pl.col("b").is_not_null()
    return (
        by_metric.with_columns(pl.when(both).then(pl.col(s)).alias(s) for s in "ab")
        .group_by("session_id", "dimension")
        .agg(
            steady_mean("a").alias("a"),
            steady_mean("b").alias("b"),
            pl.col("scored_a", "scored_b", "unlike").any(),
        )
    )


def _overall(by_dimension: pl.DataFrame, *weights: pl.DataFrame) -> pl.DataFrame:
    keys = ["session_id", "dimension"]
    joined = by_dimension
    for side, held in zip("ab", weights, strict=True):
        joined = joined.join(held.rename({"weight": f"weight_{side}"}), on=keys, how="left")
    has_weight = {s: (pl.col(f"weight_{s}") > 0) & pl.col(f"scored_{s}") for s in "ab"}

    def mean(side: str) -> Any:
        weight = pl.col(f"weight_{side}").filter(pl.col("a").is_not_null()).sum()
        return pl.when(weight > 0).then((pl.col(side) * pl.col(f"weight_{side}")).sum() / weight)

    return (
        joined.sort(keys)
        .group_by("session_id", maintain_order=True)
        .agg(
            mean("a").alias("a"),
            mean("b").alias("b"),
            *(has_weight[s].any().alias(f"scored_{s}") for s in "ab"),
            pl.col("unlike").any(),
        )
    )


def _weights(run: Run) -> pl.DataFrame:
    columns = run.dimensions.select("session_id", "dimension", pl.col("weight").fill_null(0.0))
    return run.collect(columns)


def _by_turn(scores_a: pl.LazyFrame, scores_b: pl.LazyFrame) -> pl.LazyFrame:
    joined = scores_a.join(scores_b, on=_KEYS, how="full", coalesce=True, nulls_equal=True)
    return joined.select(
        *_KEYS,
        a="score",
        b="score_right",
        scored_a=pl.col("score").is_not_null(),
        scored_b=pl.col("score_right").is_not_null(),
        unlike=False,
    )
