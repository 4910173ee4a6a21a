"""The one engine: `evaluate` on one trace and a batch of thousands take this way.

Puts units, scores, aggregation and results in a row; each of them knows its own part.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from uaef_frames.conversations import Conversations
from uaef_frames.errors import UaefError, warn
from uaef_frames.evaluation.aggregate import aggregate
from uaef_frames.evaluation.results import failed_result, results
from uaef_frames.evaluation.score import score
from uaef_frames.evaluation.subjects import Entry, entry_of, entry_of_rows, full_traces
from uaef_frames.evaluation.units import lay_out
from uaef_frames.expectations import Expectations, SessionTruth, session_truth

if TYPE_CHECKING:
    from uaef_frames.adapters.base import Adapter
    from uaef_frames.evaluation.plan import Plan, Profile
    from uaef_frames.models import EvaluationResult, GroundTruth
    from uaef_frames.traces import Trace


def evaluate_entries(
    entries: Sequence[Entry],
    truths: Sequence[GroundTruth | None],
    plan: Plan,
    profile: Profile | None = None,
    now: datetime | None = None,
) -> list[EvaluationResult]:
    """Evaluate entries with their ground truths, one each.

    Raises:
        GroundTruthError: A ground truth cannot be read.
    """
    expected = [
        session_truth(entry.rows.session_id, truth)
        for entry, truth in zip(entries, truths, strict=True)
        if truth is not None
    ]
    return _evaluate(entries, expected, plan, profile, now or datetime.now(UTC))


def evaluate_batch(
    items: Sequence[Trace | Mapping[str, Any]],
    truths: Sequence[GroundTruth | None],
    plan: Plan,
    now: datetime | None = None,
) -> list[EvaluationResult]:
    """Evaluate many items; one that is broken gets a result that says so, the others go on."""
    when = now or datetime.now(UTC)
    with _collector_paused():
        return _with_failures(
            items,
            truths,
            plan,
            when,
            entry=entry_of,
            name=lambda item, at: (f"item-{at}", None),
        )


def evaluate_records(
    records: Sequence[Any],
    truths: Sequence[GroundTruth | None] | Mapping[str, GroundTruth | None],
    plan: Plan,
    adapter: Adapter,
    now: datetime | None = None,
) -> list[EvaluationResult]:
    """Evaluate raw records, grouped into sessions by the adapter, in first-seen order.

    Raises:
        AdapterTransformationError: The records cannot be grouped at all.
        ValueError: A list of ground truths of another length than the sessions.
    """
    groups = adapter.group(records)
    in_order = truths_in_order([sid for sid, _ in groups], truths)
    with _collector_paused():
        return _with_failures(
            groups,
            in_order,
            plan,
            now or datetime.now(UTC),
            entry=lambda group, key: entry_of_rows(adapter.read(*group), key),
            name=lambda group, _: (group[0], group[0]),
        )


def truths_in_order(
    session_ids: Sequence[str | None],
    truths: Sequence[GroundTruth | None] | Mapping[str, GroundTruth | None] | None,
) -> list[GroundTruth | None]:
    """Ground truths one an item, from a list in order or a mapping by session_id.

    Raises:
        ValueError: The list's length is not the number of items, or the mapping names a session
            that is not among them.
    """
    if truths is None:
        return [None] * len(session_ids)
    if isinstance(truths, Mapping):
        unknown = [k for k in truths if k not in session_ids]
        if unknown:
            warn(
                f"ground truth for sessions that are not there: {', '.join(map(repr, unknown[:5]))}"
            )
        return [None if sid is None else truths.get(sid) for sid in session_ids]
    given = list(truths)
    if len(given) != len(session_ids):
        raise ValueError(
            f"{len(given)} ground truths for {len(session_ids)} items; give one each (None where "
            "there is none), or a mapping by session_id"
        )
    return given


@contextmanager
def _collector_paused() -> Generator[None]:
    """No garbage collection: all rows and results are kept, and to walk them again and again while
    they are made, for garbage that is not there, takes half of the time.
    """
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()


def _with_failures(
    items: Sequence[Any],
    truths: Sequence[GroundTruth | None],
    plan: Plan,
    now: datetime,
    entry: Callable[[Any, str], Entry],
    name: Callable[[Any, int], tuple[str, str | None]],
) -> list[EvaluationResult]:
    made: dict[int, EvaluationResult] = {}
    entries: list[Entry] = []
    expected: list[SessionTruth] = []
    places: list[int] = []
    for at, (item, truth) in enumerate(zip(items, truths, strict=True)):
        key = f"{at:09d}"
        trace_id, session_id = name(item, at)
        try:
            found = entry(item, key)
            trace_id, session_id = found.trace_id, found.session_id
            if truth is not None:
                expected.append(session_truth(key, truth))
        except (UaefError, ValueError, TypeError, AttributeError) as error:
            session_id = getattr(error, "session_id", None) or session_id
            made[at] = failed_result(trace_id, session_id, f"could not be evaluated: {error}", now)
            continue
        entries.append(found)
        places.append(at)
    made.update(zip(places, _evaluate(entries, expected, plan, None, now), strict=True))
    return [made[at] for at in range(len(items))]


def _evaluate(
    entries: Sequence[Entry],
    expected: Sequence[SessionTruth],
    plan: Plan,
    profile: Profile | None,
    now: datetime,
) -> list[EvaluationResult]:
    if not entries:
        return []
    conversations = Conversations.from_rows(e.rows for e in entries)
    subject = lay_out(conversations, Expectations.from_truths(expected), full_traces(entries))
    warn_without_judge(plan)
    return results(entries, aggregate(score(subject, plan), subject, plan, profile), plan, now)


def warn_without_judge(plan: Plan) -> None:
    """One visible warning for a whole run that asks for judge metrics while there is no judge."""
    unjudged = [spec.name for spec in plan.metrics if spec.by == "judge"]
    if unjudged:
        shown = ", ".join(unjudged[:3]) + (", …" if len(unjudged) > 3 else "")
        warn(
            f"no judge is configured: {len(unjudged)} judge metrics ({shown}) have no score; "
            'metric_set="deterministic" leaves them out'
        )
