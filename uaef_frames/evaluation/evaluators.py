"""The evaluator classes: who may be evaluated how. Thin over the one engine.

Each checks the type of what it is given and brings its default weights; the rest is shared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from uaef_frames.evaluation.engine import evaluate_batch, evaluate_entries, truths_in_order
from uaef_frames.evaluation.plan import THRESHOLDS, WEIGHTS, Profile, make_plan
from uaef_frames.evaluation.subjects import entry_of, session_id_of
from uaef_frames.models import (
    AgentTrace,
    EvaluationResult,
    GroundTruth,
    Message,
    MultiAgentTrace,
    ToolCall,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from uaef_frames.judge.config import Judge
    from uaef_frames.metrics import MetricSpec
    from uaef_frames.traces import Trace


class Planned:
    """A checked request: which metrics, with which constants, weights and thresholds.

    Args:
        metrics: Names of metrics; None: those of `metric_set`, or the default set.
        metric_set: A name from `metric_sets()`; `metrics` wins, with a warning.
        dimension_weights: By Title Case dimension; they replace the defaults whole.
        thresholds: By Title Case dimension; the others keep their defaults.
        constants: By metric: `{"latency_score": {"threshold_ms": 3000}}`.
        judge: Who scores the judge metrics: a `Judge` or a model's name; None: as the variable
            UAEF_JUDGE_MODEL says, False: nobody.
        judges: Judges of single metrics, by name.

    Raises:
        ConfigError: Anything of this is unknown or makes no sense.
    """

    def __init__(
        self,
        metrics: Iterable[str] | None = None,
        metric_set: str | None = None,
        *,
        dimension_weights: Mapping[str, float] | None = None,
        thresholds: Mapping[str, float] | None = None,
        constants: Mapping[str, Mapping[str, Any]] | None = None,
        judge: Judge | str | bool | None = None,
        judges: Mapping[str, Judge | str] | None = None,
    ) -> None:
        self._plan = make_plan(
            metrics,
            metric_set,
            dimension_weights=dimension_weights,
            thresholds=thresholds,
            constants=constants,
            judge=judge,
            judges=judges,
        )


class BaseEvaluator(Planned):
    """What the evaluators of one trace or session share: the way through the engine."""

    profile: ClassVar[Profile]
    accepts: ClassVar[tuple[type[Trace], ...]]
    default_weights: ClassVar[Mapping[str, float]]
    default_thresholds: ClassVar[Mapping[str, float]] = THRESHOLDS

    def evaluate(self, trace: Trace, ground_truth: GroundTruth | None = None) -> EvaluationResult:
        """Evaluate one trace as a conversation of one turn.

        Raises:
            ValueError: The trace is not of the type that this evaluator takes.
        """
        self._check(trace, "trace")
        return self._run([trace], [ground_truth])[0]

    def evaluate_multi_turn(
        self,
        per_turn_traces: Sequence[Trace],
        full_trace: Trace | None = None,
        ground_truth: GroundTruth | None = None,
        *,
        session_id: str | None = None,
    ) -> EvaluationResult:
        """Evaluate a conversation: turn metrics on each turn, session metrics on the full trace.

        Without a full trace the turns in their order stand for it; `session_id` goes before the
        traces' own.

        Raises:
            ValueError: There is no turn, or a trace is not of the type that this evaluator takes.
        """
        if not per_turn_traces:
            raise ValueError("per_turn_traces is empty: a conversation has at least one turn")
        for number, trace in enumerate(per_turn_traces, 1):
            self._check(trace, f"turn {number}")
        if full_trace is not None:
            self._check(full_trace, "full_trace")
        return self._run_multi_turn(list(per_turn_traces), full_trace, ground_truth, session_id)

    def _run_multi_turn(
        self,
        per_turn: list[Trace],
        full_trace: Trace | None,
        ground_truth: GroundTruth | None,
        session_id: str | None,
    ) -> EvaluationResult:
        session = {
            "session_id": session_id,
            "per_turn_traces": per_turn,
            "full_trace": full_trace,
        }
        return self._run([session], [ground_truth])[0]

    def _get_metrics_to_calculate(self) -> list[MetricSpec]:
        """The metrics to score; a subclass may narrow them."""
        return list(self._plan.metrics)

    def _run(
        self, items: Sequence[Any], truths: Sequence[GroundTruth | None]
    ) -> list[EvaluationResult]:
        entries = [entry_of(item, f"{at:09d}") for at, item in enumerate(items)]
        plan = replace(self._plan, metrics=tuple(self._get_metrics_to_calculate()))
        return evaluate_entries(entries, truths, plan, self.profile)

    def _check(self, trace: object, what: str) -> None:
        if not isinstance(trace, self.accepts):
            wanted = " or ".join(t.__name__ for t in self.accepts)
            raise ValueError(
                f"{type(self).__name__} takes {wanted}; {what} is {type(trace).__name__}"
            )


class SingleAgentEvaluator(BaseEvaluator):
    """Evaluates `AgentTrace`."""

    profile = "single"
    accepts = (AgentTrace,)
    default_weights = WEIGHTS["single"]


class MultiAgentEvaluator(BaseEvaluator):
    """Evaluates `MultiAgentTrace`; weighs the Multi-Agent dimension too."""

    profile = "multi"
    accepts = (MultiAgentTrace,)
    default_weights = WEIGHTS["multi"]


class MultiTurnEvaluator(BaseEvaluator):
    """Evaluates a conversation as a whole, by the Multi-Turn dimension alone.

    Nothing routes to it: `evaluate` and `batch_evaluate` use the other evaluators. Without
    `metrics` it takes the Multi-Turn metrics.
    """

    profile = "multi_turn"
    accepts = (AgentTrace, MultiAgentTrace)
    default_weights = WEIGHTS["multi_turn"]
    default_thresholds: ClassVar[Mapping[str, float]] = {**THRESHOLDS, "Multi-Turn": 0.7}

    def __init__(
        self,
        metrics: Iterable[str] | None = None,
        metric_set: str | None = None,
        **options: Any,
    ) -> None:
        if metrics is None and metric_set is None:
            metric_set = "multi_turn"
        super().__init__(metrics, metric_set, **options)

    def evaluate_conversation(
        self,
        messages: Sequence[Message | Mapping[str, Any]],
        ground_truth: GroundTruth | None = None,
        *,
        tool_calls: Sequence[ToolCall | Mapping[str, Any]] = (),
        session_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> EvaluationResult:
        """Evaluate a conversation given as messages (objects, or dicts of role and content).

        Raises:
            ValueError: There is no message, or one cannot be read; the message names it.
        """
        if not messages:
            raise ValueError("messages is empty: a conversation has at least one message")
        trace = AgentTrace(
            trace_id=session_id or "conversation",
            session_id=session_id,
            messages=[_message(m, n) for n, m in enumerate(messages, 1)],
            tool_calls=[
                c if isinstance(c, ToolCall) else ToolCall.model_validate(dict(c))
                for c in tool_calls
            ],
            metadata=dict(metadata or {}),
        )
        return self.evaluate(trace, ground_truth)


class OfflineEvaluator(Planned):
    """Evaluates many traces or session dicts in one pass over the engine.

    One that is broken gets a result that says what failed; the others go on.
    """

    def evaluate_batch(
        self,
        traces: Sequence[Trace | Mapping[str, Any]],
        ground_truths: Sequence[GroundTruth | None]
        | Mapping[str, GroundTruth | None]
        | None = None,
    ) -> list[EvaluationResult]:
        """Evaluate them all; results keep the order of the input.

        Raises:
            ValueError: A list of ground truths of another length.
        """
        items = list(traces)
        truths = truths_in_order([session_id_of(item) for item in items], ground_truths)
        return evaluate_batch(items, truths, self._plan)

    evaluate = evaluate_batch


def _message(message: Message | Mapping[str, Any], number: int) -> Message:
    if isinstance(message, Message):
        return message
    fields: Mapping[str, Any] = message if isinstance(message, Mapping) else {}  # pyright: ignore[reportUnnecessaryIsInstance]
    role, content = fields.get("role"), fields.get("content")
    aliases = {"human": "user", "ai": "assistant", "developer": "system"}
    role = aliases.get(str(role), role)
    if role not in ("user", "assistant", "system", "tool") or not isinstance(content, str | None):
        raise ValueError(
            f"message {number} needs a role (user, assistant, system or tool) and text content, "
            f"not {message!r:.200}"
        )
    return Message(role=role, content=content or "")
