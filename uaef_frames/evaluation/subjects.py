"""What a caller hands in, made ready for the engine: traces, session dicts and raw records as rows.

Checks shapes and names what is wrong; scores nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import polars as pl

from uaef_frames import schemas
from uaef_frames.canonical import scrub
from uaef_frames.errors import ConfigError
from uaef_frames.evaluation.units import FullTraces
from uaef_frames.models import AgentTrace, MultiAgentTrace
from uaef_frames.rows import MessageRow, SessionRows
from uaef_frames.traces import Trace, message_row, per_turn_traces, session_of_traces


@dataclass(frozen=True, slots=True)
class Entry:
    """One item to evaluate.

    `rows.session_id` is a key that is unique in the batch; `trace_id` and `session_id` are what the
    result carries. `own_messages` and `completeness` are the full trace's, where they differ from
    its turns'.
    """

    rows: SessionRows
    trace_id: str
    session_id: str | None
    multi_turn: bool
    own_messages: list[MessageRow] | None = None
    completeness: float | None = None


def entry_of(item: Trace | Mapping[str, Any], key: str) -> Entry:
    """The entry of a trace or session dict.

    Raises:
        ConfigError: It is neither, or its turns do not fit together.
    """
    traces = per_turn_traces(item)
    rows = session_of_traces(key, traces)
    if not isinstance(item, Mapping):
        return Entry(rows, item.trace_id, item.session_id, multi_turn=False)
    full = _full_trace(item, traces)
    named = [item.get("session_id"), *(t.session_id for t in (full, traces[0]) if t is not None)]
    session_id = next((scrub(str(n)) for n in named if n not in (None, "")), None)
    trace_id = session_id or traces[0].trace_id
    if full is not None and full.trace_id != AgentTrace.model_fields["trace_id"].default:
        trace_id = full.trace_id
    return Entry(
        rows,
        trace_id,
        session_id,
        multi_turn=True,
        own_messages=None if full is None else _other_messages(full, traces),
        completeness=None if full is None else _completeness(full),
    )


def session_id_of(item: object) -> str | None:
    """The session that an item names, whatever else is wrong with it."""
    if isinstance(item, Mapping):
        named = cast("Mapping[str, Any]", item).get("session_id")
    else:
        named = getattr(item, "session_id", None)
    return scrub(str(named)) if isinstance(named, str | int) and named != "" else None


def entry_of_rows(rows: SessionRows, key: str) -> Entry:
    """The entry of a session that an adapter read."""
    renamed = SessionRows(key, rows.topology, rows.turns)
    return Entry(renamed, rows.session_id, rows.session_id, multi_turn=True)


def full_traces(entries: Sequence[Entry]) -> FullTraces | None:
    """What the entries' full traces say beyond their turns; None where none does."""
    other = [e for e in entries if e.own_messages is not None]
    complete = [e for e in entries if e.completeness is not None]
    if not other and not complete:
        return None
    types = schemas.columns(schemas.Messages)
    flat = [(e.rows.session_id, m) for e in other for m in e.own_messages or []]
    messages = pl.DataFrame(
        {
            "session_id": [sid for sid, _ in flat],
            "role": [m.role for _, m in flat],
            "content": [m.content for _, m in flat],
            "is_synthetic": [m.is_synthetic for _, m in flat],
        },
        schema={n: types[n] for n in ("session_id", "role", "content", "is_synthetic")},
    )
    completeness = pl.DataFrame(
        {
            "session_id": [e.rows.session_id for e in complete],
            "completeness_score": [e.completeness for e in complete],
        },
        schema={"session_id": pl.String, "completeness_score": pl.Float64},
    )
    return FullTraces(messages, completeness)


def _full_trace(item: Mapping[str, Any], traces: Sequence[Trace]) -> Trace | None:
    full = item.get("full_trace")
    kind = MultiAgentTrace if isinstance(traces[0], MultiAgentTrace) else AgentTrace
    if full is not None and not isinstance(full, kind):
        raise ConfigError(f"full_trace is a {type(full).__name__}, its turns are {kind.__name__}")
    return full


def _other_messages(full: Trace, traces: Sequence[Trace]) -> list[MessageRow] | None:
    """The full trace's messages, or None where they are those of its turns."""
    ours = full.messages
    theirs = [m for t in traces for m in t.messages]
    if len(ours) == len(theirs) and all(a is b for a, b in zip(ours, theirs, strict=True)):
        return None
    said = [(m.role, m.content) for m in ours]
    if not ours or said == [(m.role, m.content) for m in theirs]:
        return None
    return [message_row(m, m.agent) for m in ours]


def _completeness(full: Trace) -> float | None:
    value = full.metadata.get("completeness_score")
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
