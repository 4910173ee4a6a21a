"""Scoring: metrics over numbered tables, as one frame of scores.

The whole pipeline reads here: tables -> features -> expressions -> long rows. Nothing here knows
what a metric means.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl

from uaef_frames.errors import ConfigError
from uaef_frames.evaluation.judging import Preparer, judged_scores, warning_columns
from uaef_frames.metrics.features import FEATURES, MetricTables
from uaef_frames.metrics.spec import (
    INVALID,
    METRIC_ERROR,
    MISSING,
    NO_JUDGE,
    NOT_APPLICABLE,
    Constants,
    MetricSpec,
    Scored,
    Unless,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from uaef_frames.evaluation.judging import Prepared
    from uaef_frames.evaluation.plan import Plan
    from uaef_frames.evaluation.units import Subject
    from uaef_frames.judge.session import JudgeSession

JUDGE_COLUMNS = {
    "model": pl.String,
    "request_key": pl.String,
    "cached": pl.Boolean,
    "latency_s": pl.Float64,
    "input_tokens": pl.Int64,
    "cached_input_tokens": pl.Int64,
    "output_tokens": pl.Int64,
    "cost_usd": pl.Float64,
}
SCORE_COLUMNS = {
    "unit": pl.Int64,
    "metric": pl.String,
    "dimension": pl.String,
    "score": pl.Float64,
    "warning": pl.String,
    "reasoning": pl.String,
    "details": pl.String,
    **JUDGE_COLUMNS,
}


def score(subject: Subject, plan: Plan, judges: JudgeSession | None = None) -> pl.DataFrame:
    """Score every metric on every unit it applies to: unit, metric, dimension, score, warning, ….

    Rows come metric by metric in the order given, units in order. A metric that fails gives null
    scores with the warning `metric_error`; the others go on. Without a judge, judge metrics are
    null.

    Raises:
        JudgeError: The judge cannot be asked at all.
    """
    made: dict[str, pl.DataFrame] = {}
    tables = subject.tables
    known: dict[str, pl.DataFrame] = {}
    for stage in (1, 2):
        for spec in plan.metrics:
            if spec.stage == stage and spec.by == "expr":
                made[spec.name] = _score_one(spec, plan, subject, tables, known)
        if stage == 1:
            made |= _judged(plan, tables, judges)
            tables = replace(tables, stage_one=_stage_one(list(made.values())))
            known = {k: v for k, v in known.items() if k not in ("quality", "completeness")}
    frames = [pl.DataFrame(schema=SCORE_COLUMNS), *(made[spec.name] for spec in plan.metrics)]
    return pl.concat(frames, how="diagonal_relaxed").select(list(SCORE_COLUMNS))


def prepare(
    tables: MetricTables, plan: Plan
) -> tuple[dict[str, Prepared], dict[str, pl.DataFrame]]:
    """The questions of every judged metric that has a judge, and the scores of those that fail."""
    preparer = Preparer(tables)
    prepared: dict[str, Prepared] = {}
    failed: dict[str, pl.DataFrame] = {}
    for spec in plan.metrics:
        judge = plan.judge_of(spec.name) if spec.by == "judge" else None
        if judge is None:
            continue
        units = _units_of(spec, plan, tables)
        try:
            prepared[spec.name] = preparer.prepare(spec, units, judge)
        except Exception as error:  # a user's own expression may raise anything
            failed[spec.name] = _failed(spec, units, error)
    return prepared, failed


def _judged(
    plan: Plan, tables: MetricTables, judges: JudgeSession | None
) -> dict[str, pl.DataFrame]:
    """The scores of judged metrics, asked for all together."""
    made: dict[str, pl.DataFrame] = {}
    if judges is not None:
        prepared, made = prepare(tables, plan)
        outcomes = judges.ask({name: p.questions() for name, p in prepared.items()})
        for name, found in prepared.items():
            try:
                made[name] = judged_scores(found, outcomes[name])
            except pl.exceptions.PolarsError as error:  # a user's own expression again
                made[name] = _failed(found.spec, _units_of(found.spec, plan, tables), error)
    for spec in plan.metrics:
        if spec.by == "judge" and spec.name not in made:
            made[spec.name] = _without_judge(spec, _units_of(spec, plan, tables))
    return made


def _units_of(spec: MetricSpec, plan: Plan, tables: MetricTables) -> pl.DataFrame:
    units = tables.turns if spec.phase == "turn" else tables.sessions
    if spec.requires_multi_agent and not plan.explicit:
        units = units.filter(pl.col("topology") == "multi")
    return units


def _score_one(
    spec: MetricSpec,
    plan: Plan,
    subject: Subject,
    tables: MetricTables,
    known: dict[str, pl.DataFrame],
) -> pl.DataFrame:
    units = _units_of(spec, plan, tables)
    try:
        if spec.expression is None:
            raise ConfigError(f"{spec.name} has no expression")
        frame = _with_features(spec, units, subject, tables, known)
        written = spec.expression(Constants(spec.constants))
        scored = written if isinstance(written, Scored) else Scored(written)
        return _evaluate(spec, frame, scored)
    except Exception as error:  # a user's own function may raise anything
        return _failed(spec, units, error)


def _with_features(
    spec: MetricSpec,
    units: pl.DataFrame,
    subject: Subject,
    tables: MetricTables,
    known: dict[str, pl.DataFrame],
) -> pl.DataFrame:
    for need in spec.needs:
        if need not in FEATURES:
            raise ConfigError(f"{spec.name} needs feature {need!r}; there is {', '.join(FEATURES)}")
        if need not in known:
            known[need] = FEATURES[need](tables)
    frame = units.with_columns(whole_conversation=pl.lit(value=False))
    if "tool_match" in spec.needs and spec.phase == "turn":
        frame = _with_whole_conversations(units, subject, tables)
    for need in spec.needs:
        frame = frame.join(known[need], on="unit", how="left", maintain_order="left")
    return frame


def _with_whole_conversations(
    turns: pl.DataFrame, subject: Subject, tables: MetricTables
) -> pl.DataFrame:
    """Turns, and the conversations whose tools are compared once, as a whole.

    `whole_conversation` marks the turns of those: they carry no score of their own.
    """
    whole = subject.whole
    marked = turns.with_columns(
        whole_conversation=pl.col("session_unit").is_in(whole["unit"].implode())
    )
    if whole.is_empty():
        return marked
    sessions = tables.sessions.join(whole, on="unit", how="semi", maintain_order="left")
    shared = [c for c in sessions.columns if c in turns.columns]
    return pl.concat(
        [marked, sessions.select(shared).with_columns(whole_conversation=pl.lit(value=False))],
        how="diagonal",
    )


def _evaluate(spec: MetricSpec, frame: pl.DataFrame, scored: Scored) -> pl.DataFrame:
    raw = scored.score.cast(pl.Float64)
    unless = [
        Unless(
            pl.col("whole_conversation"),
            NOT_APPLICABLE,
            "tools are expected of the conversation as a whole; see its own score",
        ),
        *(
            [Unless(pl.col("topology") == "single", NOT_APPLICABLE, "a single-agent conversation")]
            if spec.requires_multi_agent
            else []
        ),
        *scored.unless,
    ]
    columns = frame.select("unit", _raw=raw, *warning_columns(unless), *_words(scored))
    outside = ~pl.col("_raw").is_finite() | (pl.col("_raw") < 0) | (pl.col("_raw") > 1)
    warning = (
        pl.when(pl.col("_warning").is_not_null())
        .then(pl.col("_warning"))
        .when(outside)
        .then(pl.lit(INVALID))
        .when(pl.col("_raw").is_null())
        .then(pl.lit(MISSING))
    )
    why_not = (
        pl.when(pl.col("_warning").is_not_null())
        .then(pl.col("_why_not"))
        .when(outside)
        .then(pl.format("the metric gave {}, outside 0 to 1", "_raw"))
    )
    return columns.select(
        "unit",
        metric=pl.lit(spec.name),
        dimension=pl.lit(spec.dimension),
        score=pl.when(warning.is_null()).then(pl.col("_raw")),
        warning=warning,
        reasoning=pl.coalesce(why_not, "_reasoning"),
        # JSON has no NaN: what was invalid is told in words.
        details=pl.when(warning.is_null())
        .then(pl.col("_details"))
        .when(warning == INVALID)
        .then(pl.struct(invalid=why_not).struct.json_encode()),
    )


def _words(scored: Scored) -> list[pl.Expr]:
    reasoning = pl.lit(None, dtype=pl.String) if scored.reasoning is None else scored.reasoning
    details = (
        pl.lit(None, dtype=pl.String)
        if scored.details is None
        else scored.details.struct.json_encode()
    )
    return [reasoning.alias("_reasoning"), details.alias("_details")]


def _without_judge(spec: MetricSpec, units: pl.DataFrame) -> pl.DataFrame:
    single = pl.col("topology") == "single" if spec.requires_multi_agent else pl.lit(value=False)
    return units.select(
        "unit",
        metric=pl.lit(spec.name),
        dimension=pl.lit(spec.dimension),
        score=pl.lit(None, dtype=pl.Float64),
        warning=pl.when(single).then(pl.lit(NOT_APPLICABLE)).otherwise(pl.lit(NO_JUDGE)),
        reasoning=pl.when(single)
        .then(pl.lit("a single-agent conversation"))
        .otherwise(pl.lit("no judge is configured")),
        details=pl.lit(None, dtype=pl.String),
    )


def _failed(spec: MetricSpec, units: pl.DataFrame, error: Exception) -> pl.DataFrame:
    text = f"{type(error).__name__}: {error}".partition("\n")[0]
    return units.select(
        "unit",
        metric=pl.lit(spec.name),
        dimension=pl.lit(spec.dimension),
        score=pl.lit(None, dtype=pl.Float64),
        warning=pl.lit(METRIC_ERROR),
        reasoning=pl.lit(text),
        details=pl.lit(None, dtype=pl.String),
    )


def _stage_one(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    return pl.concat(
        [
            pl.DataFrame(schema={"unit": pl.Int64, "metric": pl.String, "score": pl.Float64}),
            *(f.select("unit", "metric", "score") for f in frames),
        ]
    )
