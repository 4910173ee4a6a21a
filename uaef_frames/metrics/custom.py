"""A user's own judge metrics: a rubric, what to show, and a scale; nothing else to write."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from uaef_frames.errors import ConfigError
from uaef_frames.metrics.registry import judged

if TYPE_CHECKING:
    from uaef_frames.metrics.spec import MetricSpec, Phase

_Function = TypeVar("_Function", bound=Callable[..., Any])

JudgeScale = Literal["0-1", "1-5", "boolean"]


def register_judge_metric(
    name: str,
    dimension: str,
    *,
    rubric: str | Path,
    inputs: tuple[str, ...] | list[str],
    scale: JudgeScale = "0-1",
    phase: Phase = "turn",
    optional_inputs: tuple[str, ...] | list[str] = (),
    description: str = "",
    ground_truth: str = "",
    requires_multi_agent: bool = False,
    in_default: bool = True,
    replace_existing: bool = False,
) -> MetricSpec:
    """Register a metric that an LLM judge scores by your rubric.

    Args:
        name: Unique; names the metric everywhere.
        dimension: The dimension it counts in; may be a new one.
        rubric: Markdown: criteria, a scale with anchors, what to do when it does not apply; or the
            path of such a file (ending in .md). Without an `## Output` section the verdict has a
            quote, reasoning and a score on the scale.
        inputs: Materials that the judge is shown and that must be there, such as `("query",
            "response")`; all are listed in `uaef_frames.metrics.materials`. Turn metrics take
            query, response, expected_output, context, reasoning, team, conversation,
            workflow_status; session metrics transcript, exchange, expected_output, chatbot_role,
            instructions.
        scale: `0-1`; `1-5` (scored (raw - 1) / 4); `boolean` (0 or 1).
        phase: `turn` or `session`.
        optional_inputs: Materials that are shown where they are there.
        description: One line, for tables; default: the rubric's first sentence.
        ground_truth: What it needs of the ground truth, in words.
        requires_multi_agent: Null, `not_applicable`, on a single-agent conversation.
        in_default: Part of `metrics=None`.
        replace_existing: Replace a metric of that name.

    Raises:
        ConfigError: The name is taken, the rubric cannot be read, or an input or scale is unknown.

    Examples:
        >>> from uaef_frames import register_judge_metric, unregister_metric
        >>> register_judge_metric("brief", "Response Quality", rubric="Is the answer brief?",
        ...     inputs=("query", "response"), scale="boolean")
        MetricSpec('brief', 'Response Quality', phase='turn', by='judge')
        >>> unregister_metric("brief")
    """
    if scale not in ("0-1", "1-5", "boolean"):
        raise ConfigError(f"{name}: scale is '0-1', '1-5' or 'boolean', not {scale!r}")
    text = _text(name, rubric)
    shown = tuple(inputs)
    _check_phase(name, phase, (*shown, *optional_inputs))
    return judged(
        name,
        dimension,
        description or _first_sentence(text),
        shows=shown,
        may_show=tuple(optional_inputs),
        phase=phase,
        ground_truth=ground_truth,
        scale=scale,
        requires_multi_agent=requires_multi_agent,
        in_default=in_default,
        rubric=text,
        replace_existing=replace_existing,
    )


def judge_metric(
    name: str, dimension: str, *, inputs: tuple[str, ...] | list[str], **options: Any
) -> Callable[[_Function], _Function]:
    """Declare a judge metric by a function that returns its rubric, or has it as its docstring.

    Options are those of `register_judge_metric`.

    Examples:
        >>> from uaef_frames import judge_metric, unregister_metric
        >>> @judge_metric("on_brand", "Response Quality", inputs=("response",), scale="1-5")
        ... def on_brand():
        ...     '''Does the answer sound like us: warm, plain, short?'''
        >>> unregister_metric("on_brand")

    Raises:
        ConfigError: As for `register_judge_metric`.
    """

    def declare(function: _Function) -> _Function:
        returned = function()
        rubric = returned if isinstance(returned, str | Path) else inspect.getdoc(function)
        if not rubric:
            raise ConfigError(f"{name}: the function returns no rubric and has no docstring")
        register_judge_metric(name, dimension, rubric=rubric, inputs=inputs, **options)
        return function

    return declare


_TURN_ONLY = (
    "query",
    "response",
    "context",
    "reasoning",
    "team",
    "conversation",
    "workflow_status",
)
_SESSION_ONLY = ("transcript", "exchange", "chatbot_role", "instructions")


def _check_phase(name: str, phase: Phase, shown: tuple[str, ...]) -> None:
    """A material of turns says nothing of conversations, and the other way round."""
    wrong = _SESSION_ONLY if phase == "turn" else _TURN_ONLY
    for material in shown:
        if material in wrong:
            other = "session" if phase == "turn" else "turn"
            raise ConfigError(
                f"{name}: {material!r} belongs to metrics with phase={other!r}, this one has "
                f"phase={phase!r}"
            )


def _text(name: str, rubric: str | Path) -> str:
    is_path = isinstance(rubric, Path) or (rubric.endswith(".md") and "\n" not in rubric)
    if not is_path:
        return str(rubric)
    try:
        return Path(rubric).read_text("utf-8")
    except OSError as error:
        raise ConfigError(f"{name}: the rubric {rubric} cannot be read: {error}") from error


def _first_sentence(text: str) -> str:
    lines = [s.strip() for s in text.splitlines() if s.strip() and not s.startswith("#")]
    return lines[0].partition(". ")[0][:200] if lines else ""
