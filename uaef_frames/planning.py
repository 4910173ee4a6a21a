"""`plan()`: what an evaluation would ask of its judges, in calls, tokens and USD, with nothing
sent.

Reads the data as an evaluation would, and stops where that would begin to ask.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from uaef_frames.arrow import Frame
from uaef_frames.conversations import Conversations
from uaef_frames.dataset import BATCH_TURNS, Payloads, open_dataset
from uaef_frames.errors import ConfigError
from uaef_frames.evaluation.engine import truths_in_order
from uaef_frames.evaluation.plan import Plan, make_plan
from uaef_frames.evaluation.score import prepare
from uaef_frames.evaluation.subjects import entry_of, full_traces, session_id_of
from uaef_frames.evaluation.units import Subject, lay_out
from uaef_frames.expectations import Expectations, session_truth
from uaef_frames.files import scratch_folder
from uaef_frames.judge.planning import JudgePlan, Planner
from uaef_frames.models import AgentTrace, GroundTruth, MultiAgentTrace

if TYPE_CHECKING:
    from collections.abc import Iterable

    from uaef_frames.adapters.base import Adapter
    from uaef_frames.judge.config import Judge

Truths: TypeAlias = (
    Expectations
    | str
    | Path
    | Sequence[Any]
    | Mapping[str, GroundTruth | None]
    | GroundTruth
    | Frame
    | None
)


def plan(
    data: Any,
    ground_truth: Truths = None,
    metrics: Iterable[str] | None = None,
    metric_set: str | None = None,
    *,
    adapter: str | Adapter = "langgraph",
    judge: Judge | str | bool | None = None,
    judges: Mapping[str, Judge | str] | None = None,
    batch_turns: int = BATCH_TURNS,
) -> JudgePlan:
    """What an evaluation would ask of its judges. Nothing is sent, nothing is written.

    Args:
        data: What would be evaluated: a trace, a session dict or a list of them (as for `evaluate`
            and `batch_evaluate`), or a path, glob, list of paths or iterable of raw records (as for
            `evaluate_dataset`).
        ground_truth: As those functions take it.
        metrics: Names of metrics; None: those of `metric_set`, or the default set.
        metric_set: A name from `metric_sets()`.
        adapter: How raw records are read.
        judge: Who would be asked.
        judges: Judges of single metrics, by name.
        batch_turns: Turns that are worked on at once.

    Raises:
        ConfigError: There is no judge, or anything else is unknown.
    """
    asked = make_plan(metrics, metric_set, judge=judge, judges=judges)
    if asked.judge is None and not asked.judges:
        raise ConfigError('there is no judge to plan for: judge=Judge("…"), or UAEF_JUDGE_MODEL')
    planner = Planner(asked.judge_of)
    items = _items(data)
    if items is not None:
        _add(planner, _subject(items, ground_truth), asked)
        return planner.plan()
    with scratch_folder() as scratch:
        batches = open_dataset(
            cast("Payloads", data), cast("Any", ground_truth), adapter, scratch, batch_turns
        )
        for conversations, expectations in batches:
            _add(planner, lay_out(conversations, expectations), asked)
    return planner.plan()


def _add(planner: Planner, subject: Subject, asked: Plan) -> None:
    prepared, _ = prepare(subject.tables, asked)
    for name, found in prepared.items():
        skipped = found.units.filter(found.units["_warning"].is_not_null()).height
        planner.add(name, found.questions(), skipped)


def _items(data: Any) -> list[Any] | None:
    """Traces and session dicts; None for anything that a dataset is read from."""
    if isinstance(data, AgentTrace | MultiAgentTrace) or _is_session(data):
        return [data]
    if isinstance(data, list):
        held = cast("list[Any]", data)
        if held and all(
            isinstance(d, AgentTrace | MultiAgentTrace) or _is_session(d) for d in held
        ):
            return held
    return None


def _is_session(item: Any) -> bool:
    return isinstance(item, Mapping) and "per_turn_traces" in item


def _subject(items: list[Any], ground_truth: Any) -> Subject:
    one = [ground_truth] if isinstance(ground_truth, GroundTruth) else ground_truth
    truths = truths_in_order([session_id_of(item) for item in items], one)
    entries = [entry_of(item, f"{at:09d}") for at, item in enumerate(items)]
    expected = [
        session_truth(entry.rows.session_id, truth)
        for entry, truth in zip(entries, truths, strict=True)
        if truth is not None
    ]
    conversations = Conversations.from_rows(e.rows for e in entries)
    return lay_out(conversations, Expectations.from_truths(expected), full_traces(entries))
