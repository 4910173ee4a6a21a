"""Result objects from score frames: what a person holds after `evaluate`.

Formats what the engine found; decides nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
import polars as pl

from uaef_frames.models import DimensionResult, EvaluationResult, MetricScore

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from uaef_frames.evaluation.aggregate import Aggregated
    from uaef_frames.evaluation.plan import Plan
    from uaef_frames.evaluation.subjects import Entry


def results(
    entries: Sequence[Entry], found: Aggregated, plan: Plan, now: datetime
) -> list[EvaluationResult]:
    """One result an entry, in the order of the entries."""
    first: int = found.sessions["session_unit"][0] if entries else 0
    metric_scores = _metric_scores(entries, found, first)
    dimensions: list[list[DimensionResult]] = [[] for _ in entries]
    for row in found.dimensions.rows(named=True):
        at: int = row["session_unit"] - first
        dimensions[at].append(
            DimensionResult(
                dimension_name=row["dimension"],
                metric_scores=metric_scores.get((at, row["dimension"]), []),
                aggregate_score=row["score"],
                weight=row["weight"],
                threshold=row["threshold"],
            )
        )
    per_turn = _per_turn(entries, found, plan, first)
    made: list[EvaluationResult] = []
    for at, (entry, row) in enumerate(zip(entries, found.sessions.rows(named=True), strict=True)):
        metadata: dict[str, Any] = {
            "is_multi_agent": entry.rows.topology == "multi",
            "num_turns": row["num_turns"],
        }
        if entry.multi_turn:
            metadata["per_turn"] = per_turn[at]
            metadata["per_turn_averages"] = _averages(dimensions[at])
        made.append(
            EvaluationResult(
                trace_id=entry.trace_id,
                session_id=entry.session_id,
                dimension_results=dimensions[at],
                overall_score=row["overall_score"],
                passed=row["passed"],
                failures=row["failures"],
                warnings=row["warnings"],
                metadata=metadata,
                timestamp=now,
            )
        )
    return made


def failed_result(
    trace_id: str, session_id: str | None, error: str, now: datetime
) -> EvaluationResult:
    """The result of an item that could not be evaluated: no score, not passed, and why."""
    nothing: dict[str, Any] = {"num_turns": 0, "per_turn": [], "per_turn_averages": {}}
    return EvaluationResult(
        trace_id=trace_id,
        session_id=session_id,
        failures=[error],
        metadata={"is_multi_agent": None, **nothing},
        timestamp=now,
    )


_KEYS = ["session_unit", "metric"]


def _metric_scores(
    entries: Sequence[Entry], found: Aggregated, first: int
) -> dict[tuple[int, str], list[MetricScore]]:
    """The metric scores of each (entry, dimension), in the order of the metrics."""
    own = found.scores.filter(
        pl.col("turn_id").is_null() | (pl.col("session_unit") - first).is_in(_singles(entries))
    )
    # A conversation's own score of a turn metric stands for the mean of its turns, which have none.
    own = own.unique(_KEYS, keep="last", maintain_order=True)
    turns = found.scores.filter(pl.col("turn_id").is_not_null()).join(
        own.filter(pl.col("turn_id").is_not_null()), on=_KEYS, how="anti", maintain_order="left"
    )
    averaged = _averaged(turns)
    rows = found.metrics.join(
        own.select(*_KEYS, "warning", "reasoning", "details"),
        on=_KEYS,
        how="left",
        maintain_order="left",
    ).join(averaged, on=_KEYS, how="left", maintain_order="left")
    rows = rows.join(_asked(found.scores), on=_KEYS, how="left", maintain_order="left")
    made: dict[tuple[int, str], list[MetricScore]] = {}
    for (
        unit,
        name,
        dimension,
        value,
        warning,
        reasoning,
        details,
        turn_warning,
        text,
        per_turn,
        judge,
    ) in rows.select(
        *_KEYS,
        "dimension",
        "score",
        "warning",
        "reasoning",
        "details",
        "turn_warning",
        "text",
        "per_turn",
        "judge",
    ).iter_rows():
        metadata: dict[str, Any] = {}
        if per_turn is not None:
            metadata["per_turn"] = per_turn
        if value is None:
            metadata["warning"] = warning or turn_warning
        if judge is not None:
            metadata["judge"] = judge
        if details is not None:
            metadata["details"] = orjson.loads(details)
        words = reasoning if reasoning is not None else text
        made.setdefault((unit - first, dimension), []).append(
            MetricScore(metric_name=name, score=value, reasoning=words or "", metadata=metadata)
        )
    return made


def _asked(scores: pl.DataFrame) -> pl.DataFrame:
    """Per session and metric, what its verdicts took: model, calls kept, tokens, USD."""
    known = [
        pl.when(pl.col(name).count() > 0).then(pl.col(name).sum()).alias(name)
        for name in ("input_tokens", "cached_input_tokens", "output_tokens", "cost_usd")
    ]
    return (
        scores.filter(pl.col("request_key").is_not_null())
        .group_by(_KEYS, maintain_order=True)
        .agg(
            pl.col("model").drop_nulls().first(),
            pl.col("request_key").first(),
            pl.col("cached").all(),
            pl.col("latency_s").max(),
            *known,
        )
        .select(*_KEYS, judge=pl.struct(pl.all().exclude(_KEYS)))
    )


def _singles(entries: Sequence[Entry]) -> pl.Series:
    """Positions of single traces: their turn's score is the metric's score; nothing is averaged."""
    return pl.Series(
        [i for i, e in enumerate(entries) if not e.multi_turn], dtype=pl.Int64
    ).implode()


def _averaged(turns: pl.DataFrame) -> pl.DataFrame:
    """Per session and metric, its turns: as structs, and as the text that a person reads."""
    shown = pl.when(pl.col("score").is_null()).then(pl.lit("N/A")).otherwise(_two_decimals("score"))
    line = pl.format(
        "  Turn {} ({}): {}",
        "turn_index",
        shown,
        pl.col("reasoning").fill_null("").str.replace_all(r"\s*\n\s*", " "),
    )
    return (
        turns.sort("session_unit", "turn_index", maintain_order=True)
        .with_columns(line=line)
        .group_by(_KEYS, maintain_order=True)
        .agg(
            per_turn=pl.struct(turn="turn_index", score="score", reasoning="reasoning"),
            text=pl.format(
                "Average across {} turns:\n{}", pl.len(), pl.col("line").str.join("\n")
            ).first(),
            turn_warning=pl.col("warning").drop_nulls().first(),
        )
    )


def _two_decimals(column: str) -> pl.Expr:
    hundredths = (pl.col(column) * 100).round().cast(pl.Int64)
    return pl.format("{}.{}", hundredths // 100, (hundredths % 100).cast(pl.String).str.zfill(2))


def _per_turn(
    entries: Sequence[Entry], found: Aggregated, plan: Plan, first: int
) -> list[list[dict[str, Any]]]:
    """`metadata["per_turn"]` of each entry: turn, metric_scores, reasoning."""
    turns: list[list[dict[str, Any]]] = [
        [{"turn": i + 1, "metric_scores": {}, "reasoning": {}} for i in range(len(e.rows.turns))]
        for e in entries
    ]
    scores = found.scores.filter(pl.col("turn_id").is_not_null())
    by_metric = scores.select(
        "metric", "session_unit", "turn_index", "score", "reasoning"
    ).partition_by("metric", as_dict=True, include_key=False)
    for spec in plan.metrics:
        rows = by_metric.get((spec.name,))
        if rows is None:
            continue
        units: list[int] = rows["session_unit"].to_list()
        positions: list[int] = rows["turn_index"].to_list()
        values, reasons = rows["score"].to_list(), rows["reasoning"].to_list()
        for unit, turn, value, reason in zip(units, positions, values, reasons, strict=True):
            entry: dict[str, Any] = turns[unit - first][turn - 1]
            entry["metric_scores"][spec.name] = value
            entry["reasoning"][spec.name] = reason
    return turns


def _averages(dimensions: Sequence[DimensionResult]) -> dict[str, float | None]:
    return {
        s.metric_name: s.score
        for d in dimensions
        for s in d.metric_scores
        if "per_turn" in s.metadata
    }
