"""Builds traces, payloads and ground truth for tests, and reads results; nothing here asserts."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.samples.langgraph_records import asked
from uaef_frames import (
    AgentTrace,
    GroundTruth,
    Message,
    ToolCall,
    evaluate_dataset,
    metric,
    register_metric,
    unregister_metric,
)
from uaef_frames.metrics import get_metric

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from uaef_frames import EvaluationResult, MetricScore, Run

DATA = Path(__file__).parents[1] / "data"
TOOL_METRICS = ("tool_selection_accuracy", "tool_sequence_correctness", "parameter_quality")

Call = str | tuple[str, dict[str, Any]]
"""A call in short: its name, or name and arguments."""


def trace(query: str | None = "q", answer: str | None = "a", **fields: Any) -> AgentTrace:
    """One exchange; fields are those of AgentTrace."""
    said = [("user", query), ("assistant", answer)]
    messages = [Message(role=r, content=c) for r, c in said if c is not None]
    return AgentTrace(**{"messages": messages, **fields})


def tool_calls(*calls: Call) -> list[ToolCall]:
    named = [(c, {}) if isinstance(c, str) else c for c in calls]
    return [ToolCall(name=name, arguments=arguments) for name, arguments in named]


def called(*calls: Call, **fields: Any) -> AgentTrace:
    return trace(tool_calls=tool_calls(*calls), **fields)


def expects(*calls: Call, **fields: Any) -> GroundTruth:
    return GroundTruth(expected_tool_calls=tool_calls(*calls), **fields)


def session(session_id: str, *traces: Any, full: Any = None) -> dict[str, Any]:
    return {"session_id": session_id, "per_turn_traces": list(traces), "full_trace": full}


def payload(
    session_id: str, turn_id: Any, *events: Any, said: str | None = "q", **fields: Any
) -> dict[str, Any]:
    """A LangGraph turn payload whose user says `said` (None: nobody says anything)."""
    opening = [] if said is None else [asked(said)]
    return {
        "session_id": session_id,
        "turn_id": turn_id,
        "stream_events": [*opening, *events],
        **fields,
    }


def shipped_run(agent: str, out: Path) -> Run:
    """The shipped conversations with an agent, scored without a judge."""
    return evaluate_dataset(
        DATA / f"{agent}.jsonl",
        DATA / "ground-truth-booking.xlsx",
        metric_set="deterministic",
        constants={"throughput": {"target_rps": 0.5}},
        out=out,
        name=agent,
    )


def metric_scores(result: EvaluationResult) -> dict[str, MetricScore]:
    return {s.metric_name: s for d in result.dimension_results for s in d.metric_scores}


def scores(result: EvaluationResult) -> dict[str, float | None]:
    return {name: s.score for name, s in metric_scores(result).items()}


def whys(result: EvaluationResult) -> dict[str, str | None]:
    """Why each metric has no score; None for those that have one."""
    return {name: s.metadata.get("warning") for name, s in metric_scores(result).items()}


def dimensions(result: EvaluationResult) -> dict[str, float | None]:
    return {d.dimension_name: d.aggregate_score for d in result.dimension_results}


def timeless(results: EvaluationResult | Sequence[EvaluationResult]) -> Any:
    """Results as plain data, without the time at which they were made."""
    if isinstance(results, list | tuple):
        return [timeless(r) for r in results]
    return results.model_dump(exclude={"timestamp"})


def rounded(value: Any) -> Any:
    """Plain data, its floats to 12 places: sums over many rows may end otherwise in the last."""
    if isinstance(value, float):
        return round(value, 12)
    if isinstance(value, dict):
        return {k: rounded(v) for k, v in value.items()}
    return [rounded(v) for v in value] if isinstance(value, list) else value


@contextmanager
def registered(
    name: str, dimension: str, expression: Callable[..., Any], **spec: Any
) -> Iterator[None]:
    """A metric of the user's own, for as long as it is needed."""
    metric(name, dimension, **spec)(expression)
    try:
        yield
    finally:
        unregister_metric(name)


@contextmanager
def standing_in(expressions: Mapping[str, Any]) -> Iterator[None]:
    """Column expressions in place of registered metrics, such as those of a judge."""
    before = [get_metric(name) for name in expressions]
    for spec in before:
        metric(
            spec.name,
            spec.dimension,
            phase=spec.phase,
            requires_multi_agent=spec.requires_multi_agent,
            replace_existing=True,
        )(lambda _, expression=expressions[spec.name]: expression)
    try:
        yield
    finally:
        for spec in before:
            register_metric(spec, replace_existing=True)
