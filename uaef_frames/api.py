"""The public functions: evaluate one thing, evaluate many, evaluate a dataset.

They check what they are handed and pass it on; the work is done in the rooms below.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from uaef_frames.adapters.base import Adapter, get_adapter
from uaef_frames.evaluation.engine import evaluate_records
from uaef_frames.evaluation.evaluators import (
    BaseEvaluator,
    MultiAgentEvaluator,
    OfflineEvaluator,
    SingleAgentEvaluator,
)
from uaef_frames.evaluation.plan import make_plan
from uaef_frames.models import AgentTrace, EvaluationResult, GroundTruth, MultiAgentTrace
from uaef_frames.traces import Trace, per_turn_traces

if TYPE_CHECKING:
    from uaef_frames.judge.config import Judge


def evaluate(
    trace: Trace | Mapping[str, Any] | Sequence[Any],
    ground_truth: GroundTruth | None = None,
    metrics: Iterable[str] | None = None,
    metric_set: str | None = None,
    *,
    adapter: str | Adapter | None = None,
    dimension_weights: Mapping[str, float] | None = None,
    thresholds: Mapping[str, float] | None = None,
    constants: Mapping[str, Mapping[str, Any]] | None = None,
    judge: Judge | str | bool | None = None,
    judges: Mapping[str, Judge | str] | None = None,
) -> EvaluationResult:
    """Evaluate one trace or one session.

    Args:
        trace: An AgentTrace, a MultiAgentTrace, or a session dict of an adapter
            (`per_turn_traces`, `full_trace`); with `adapter=`, a raw record or the raw records of
            one session.
        ground_truth: What was expected; None: metrics that need it are null.
        metrics: Names of metrics; None: those of `metric_set`, or the default set.
        metric_set: A name from `metric_sets()`; `metrics` wins, with a warning.
        adapter: The name of an adapter, or one, when `trace` is raw.
        dimension_weights: By Title Case dimension; they replace the defaults whole.
        thresholds: By Title Case dimension; the others keep their defaults.
        constants: By metric: `{"latency_score": {"threshold_ms": 3000}}`.
        judge: Who scores the judge metrics: a `Judge` or a model's name; None: as the variable
            UAEF_JUDGE_MODEL says, False: nobody.
        judges: Judges of single metrics, by name: `{"safety_score": Judge("…")}`.

    Raises:
        ValueError: A list without an adapter, or records of several sessions (use
            `batch_evaluate`); anything unknown among the other arguments.
        AdapterTransformationError: A raw record cannot be read.
        JudgeError: The judge cannot be asked at all.
    """
    options: dict[str, Any] = {
        "dimension_weights": dimension_weights,
        "thresholds": thresholds,
        "constants": constants,
        "judge": judge,
        "judges": judges,
    }
    item = trace if adapter is None else _from_records(trace, get_adapter(adapter))
    if isinstance(item, list | tuple):
        raise ValueError(
            "evaluate() takes one trace or session dict; use batch_evaluate() for a list of them"
        )
    subject = cast("Trace | Mapping[str, Any]", item)
    turns = per_turn_traces(subject)
    kind = MultiAgentEvaluator if isinstance(turns[0], MultiAgentTrace) else SingleAgentEvaluator
    evaluator: BaseEvaluator = kind(metrics, metric_set, **options)
    if not isinstance(subject, Mapping):
        return evaluator.evaluate(subject, ground_truth)
    return evaluator.evaluate_multi_turn(
        turns, subject.get("full_trace"), ground_truth, session_id=subject.get("session_id")
    )


def batch_evaluate(
    traces: Sequence[Any],
    ground_truths: Sequence[GroundTruth | None] | Mapping[str, GroundTruth | None] | None = None,
    metrics: Iterable[str] | None = None,
    metric_set: str | None = None,
    *,
    adapter: str | Adapter | None = None,
    dimension_weights: Mapping[str, float] | None = None,
    thresholds: Mapping[str, float] | None = None,
    constants: Mapping[str, Mapping[str, Any]] | None = None,
    judge: Judge | str | bool | None = None,
    judges: Mapping[str, Judge | str] | None = None,
) -> list[EvaluationResult]:
    """Evaluate many traces and session dicts, mixed as they come; results keep their order.

    Args:
        traces: AgentTraces, MultiAgentTraces and session dicts; with `adapter=`, raw records, which
            are grouped into sessions (results then come a session, in first-seen order).
        ground_truths: One each, in order (None where there is none), or a mapping by session_id.
        metrics: As for `evaluate`.
        metric_set: As for `evaluate`.
        adapter: As for `evaluate`.
        dimension_weights: As for `evaluate`.
        thresholds: As for `evaluate`.
        constants: As for `evaluate`.
        judge: As for `evaluate`.
        judges: As for `evaluate`.

    One item that cannot be evaluated does not stop the others: its result has no score, and
    `failures` says why.

    Raises:
        ValueError: `traces` is a single trace; a list of ground truths of another length; anything
            unknown among the other arguments.
        AdapterTransformationError: Of the raw records none can be used.
        JudgeError: The judge cannot be asked at all; verdicts that are in are kept in its cache.
    """
    if isinstance(traces, AgentTrace | MultiAgentTrace | Mapping | str):
        raise ValueError("batch_evaluate() takes a list; use evaluate() for one trace or session")
    options: dict[str, Any] = {
        "dimension_weights": dimension_weights,
        "thresholds": thresholds,
        "constants": constants,
        "judge": judge,
        "judges": judges,
    }
    items = list(traces)
    if adapter is not None:
        plan = make_plan(metrics, metric_set, **options)
        truths: Any = ground_truths if ground_truths is not None else {}
        return evaluate_records(items, truths, plan, get_adapter(adapter))
    return OfflineEvaluator(metrics, metric_set, **options).evaluate_batch(items, ground_truths)


def _from_records(records: object, adapter: Adapter) -> Any:
    found = adapter.transform_to_canonical(records)
    if not isinstance(found, list):
        return found
    if len(found) > 1:
        raise ValueError(
            f"the records are of {len(found)} sessions; use batch_evaluate() for several"
        )
    return found[0]
