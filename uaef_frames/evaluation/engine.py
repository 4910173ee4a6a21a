"""The one engine: `evaluate` on one trace and a batch of thousands take this way.

Puts units, scores, aggregation and results in a row; each of them knows its own part.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeAlias

from uaef_frames.conversations import Conversations
from uaef_frames.errors import AdapterTransformationError, GroundTruthError, UaefError, warn
from uaef_frames.evaluation.aggregate import aggregate
from uaef_frames.evaluation.results import failed_result, results
from uaef_frames.evaluation.score import score
from uaef_frames.evaluation.subjects import (
    Entry,
    entry_of,
    entry_of_rows,
    full_traces,
    session_id_of,
)
from uaef_frames.evaluation.units import lay_out
from uaef_frames.expectations import Expectations, SessionTruth, session_truth
from uaef_frames.models import GroundTruth

if TYPE_CHECKING:
    from uaef_frames.adapters.base import Adapter
    from uaef_frames.evaluation.plan import Plan, Profile
    from uaef_frames.models import EvaluationResult
    from uaef_frames.traces import Trace

    _Group: TypeAlias = list[Any] | AdapterTransformationError


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
        _expected_of(entry, truth)
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
            name=lambda item, at: (session_id_of(item) or f"item-{at}", session_id_of(item)),
        )


def evaluate_records(
    records: Sequence[Any],
    truths: Sequence[GroundTruth | None] | Mapping[str, GroundTruth | None],
    plan: Plan,
    adapter: Adapter,
    now: datetime | None = None,
) -> list[EvaluationResult]:
    """Evaluate raw records, grouped into sessions by the adapter, in first-seen order.

    A session one of whose records cannot be used gets a result that says so; the others go on.

    Raises:
        AdapterTransformationError: No record can be used.
        ValueError: A list of ground truths of another length than the sessions.
    """
    groups = _groups(records, adapter)
    in_order = truths_in_order([sid for sid, _ in groups], truths)

    def read(group: tuple[str | None, _Group], key: str) -> Entry:
        sid, held = group
        if isinstance(held, AdapterTransformationError):
            raise held
        return entry_of_rows(adapter.read(sid or "", held), key)

    with _collector_paused():
        return _with_failures(
            groups,
            in_order,
            plan,
            now or datetime.now(UTC),
            entry=read,
            name=lambda group, at: (group[0] or f"item-{at}", group[0]),
        )


def _groups(records: Sequence[Any], adapter: Adapter) -> list[tuple[str | None, _Group]]:
    """The records of each session, or what is wrong with them; a record of no session is alone."""
    try:
        return list(adapter.group(records))
    except AdapterTransformationError as error:
        first = error
    members: dict[str | int, list[Any]] = {}
    wrong: dict[str | int, AdapterTransformationError] = {}
    for position, record in enumerate(records, 1):
        try:
            key = adapter.check(record, position).session_id
        except AdapterTransformationError as error:
            key = error.session_id or position
            wrong.setdefault(key, error)
        members.setdefault(key, []).append(record)
    found: list[tuple[str | None, _Group]] = []
    for key, held in members.items():
        try:
            group = wrong[key] if key in wrong else adapter.group(held)[0][1]
        except AdapterTransformationError as error:
            group = wrong[key] = error
        found.append((key if isinstance(key, str) else None, group))
    if len(wrong) == len(found):
        raise first
    return found


def truths_in_order(
    session_ids: Sequence[str | None],
    truths: Sequence[GroundTruth | None] | Mapping[str, GroundTruth | None] | None,
) -> list[GroundTruth | None]:
    """Ground truths one an item, from a list in order or a mapping by session_id.

    A session of the mapping that is not among the items is told in a warning.

    Raises:
        ValueError: The list's length is not the number of items.
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
    if isinstance(truths, GroundTruth):
        raise ValueError("ground_truths is a list or a mapping by session_id, not one GroundTruth")
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
                expected.append(_expected_of(found, truth))
        except Exception as error:  # whatever one item holds, the others go on
            said = str(error)
            if not isinstance(error, UaefError | ValueError):
                said = f"{type(error).__name__}: {said}"
            made[at] = failed_result(trace_id, session_id, f"could not be evaluated: {said}", now)
            continue
        entries.append(found)
        places.append(at)
    made.update(zip(places, _evaluate(entries, expected, plan, None, now), strict=True))
    return [made[at] for at in range(len(items))]


def _expected_of(entry: Entry, truth: GroundTruth) -> SessionTruth:
    """What is expected of an entry; an error names the session as its owner does."""
    if not isinstance(truth, GroundTruth):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise GroundTruthError(
            f"ground truth is a GroundTruth or None, not a {type(truth).__name__}; "
            "build_ground_truth() returns the question and the ground truth",
            session_id=entry.session_id,
        )
    try:
        return session_truth(entry.rows.session_id, truth)
    except GroundTruthError as error:
        raise GroundTruthError(error.reason, session_id=entry.session_id) from error


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
    with plan.open_judges() as judges:
        scores = score(subject, plan, judges)
    return results(entries, aggregate(scores, subject, plan, profile), plan, now)


def warn_without_judge(plan: Plan) -> None:
    """One visible warning for a whole run that asks for judge metrics while there is no judge."""
    unjudged = plan.unjudged
    if unjudged:
        shown = ", ".join(unjudged[:3]) + (", …" if len(unjudged) > 3 else "")
        warn(
            f"no judge is configured: {len(unjudged)} judge metrics ({shown}) have no score; "
            'judge=Judge("…") scores them, metric_set="deterministic" leaves them out'
        )
