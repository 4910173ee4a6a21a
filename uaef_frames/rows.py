"""Rows on their way into the tables: what a reader of records fills, and the sink that stacks them.

Readers of single records work in Python objects; this is the one place where those become columns.
Nothing here knows a source format.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import polars as pl

from uaef_frames import schemas
from uaef_frames.arrow import text_lists

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import dataframely as dy


@dataclass(slots=True)
class MessageRow:
    """One row of `messages`, without its keys."""

    role: str
    content: str = ""
    agent: str | None = None
    reasoning: str | None = None
    message_id: str | None = None
    tool_call_id: str | None = None
    is_error: bool = False
    is_synthetic: bool = False
    input_tokens: int | None = None
    output_tokens: int | None = None


@dataclass(slots=True)
class CallRow:
    """One row of `tool_calls`, without its keys; `arguments` None: they are malformed."""

    name: str
    arguments: str | None = "{}"
    message_index: int | None = None
    agent: str | None = None
    tool_call_id: str | None = None
    raw_arguments: str | None = None
    result: str | None = None
    status: str = "pending"


@dataclass(slots=True)
class HandoffRow:
    """One row of `handoffs`, without its keys."""

    from_agent: str | None = None
    to_agent: str | None = None
    event_type: str = "handoff"
    message: str | None = None


@dataclass(slots=True)
class TurnRow:
    """One turn with everything that happened in it; keys and order are given by the sink."""

    turn_id: int
    agents: list[str] = field(default_factory=list[str])
    query: str | None = None
    response: str | None = None
    interrupted: bool = False
    latency_s: float | None = None
    input_tokens: float | None = None
    output_tokens: float | None = None
    cost_usd: float | None = None
    throughput_rps: float | None = None
    quality_score: float | None = None
    completeness_score: float | None = None
    workflow_status: str | None = None
    metadata: str | None = None
    notes: list[str] = field(default_factory=list[str])
    messages: list[MessageRow] = field(default_factory=list[MessageRow])
    tool_calls: list[CallRow] = field(default_factory=list[CallRow])
    handoffs: list[HandoffRow] = field(default_factory=list[HandoffRow])


@dataclass(slots=True)
class SessionRows:
    """One conversation: its turns sorted by turn_id, and the topology that all of them share."""

    session_id: str
    topology: str
    turns: list[TurnRow]


def stack(sessions: Iterable[SessionRows], first_index: int = 0) -> dict[str, pl.DataFrame]:
    """Stack sessions into the four conversation tables, in the order given.

    `first_index` is the `session_index` of the first session.
    """
    held = list(sessions)
    keyed = [(s.session_id, t) for s in held for t in s.turns]
    turns = [t for _, t in keyed]
    turn_keys = {"session_id": [sid for sid, _ in keyed], "turn_id": [t.turn_id for t in turns]}
    counts = [len(s.turns) for s in held]
    frames = {
        "turns": _frame(
            schemas.Turns,
            turns,
            {
                **turn_keys,
                "session_index": [i for i, n in enumerate(counts, first_index) for _ in range(n)],
                "turn_index": [i for n in counts for i in range(1, n + 1)],
                "topology": [s.topology for s in held for _ in s.turns],
            },
        )
    }
    children: list[tuple[str, type[dy.Schema], str, Callable[[TurnRow], Sequence[Any]]]] = [
        ("messages", schemas.Messages, "message_index", lambda t: t.messages),
        ("tool_calls", schemas.ToolCalls, "call_index", lambda t: t.tool_calls),
        ("handoffs", schemas.Handoffs, "event_index", lambda t: t.handoffs),
    ]
    for name, schema, index, rows_of in children:
        sizes = [len(rows_of(t)) for t in turns]
        frames[name] = _frame(
            schema,
            [row for t in turns for row in rows_of(t)],
            {
                "session_id": [
                    sid for (sid, _), n in zip(keyed, sizes, strict=True) for _ in range(n)
                ],
                "turn_id": [t.turn_id for t, n in zip(turns, sizes, strict=True) for _ in range(n)],
                index: [i for n in sizes for i in range(n)],
            },
        )
    return frames


def table(schema: type[dy.Schema], data: Mapping[str, Sequence[Any]]) -> pl.DataFrame:
    """A frame of that schema from Python columns, which are all there."""
    types = schemas.columns(schema)
    return pl.DataFrame([_column(name, data[name], dtype) for name, dtype in types.items()])


def _column(name: str, values: Sequence[Any], dtype: pl.DataType) -> pl.Series:
    if isinstance(dtype, pl.List):
        return text_lists(name, values)
    return pl.Series(name, values, dtype=dtype, strict=dtype != pl.Float64)


def _frame(
    schema: type[dy.Schema], rows: Sequence[Any], keys: dict[str, list[Any]]
) -> pl.DataFrame:
    names = schemas.columns(schema)
    return table(
        schema, {n: keys[n] if n in keys else list(map(attrgetter(n), rows)) for n in names}
    )


@dataclass(frozen=True, slots=True)
class Reject:
    """One row of `rejects`: an input record that could not be used, and why."""

    source: str
    line: int | None
    reason: str
    session_id: str | None = None
    turn_id: str | None = None
    raw: str | None = None


_RAW_LIMIT = 64 << 10


def rejects_frame(rejects: Sequence[Reject]) -> pl.DataFrame:
    """The table of rejects, raw text cut at 64 KiB."""
    names = schemas.columns(schemas.Rejects)
    data = {n: [getattr(r, n) for r in rejects] for n in names}
    data["raw"] = [None if r is None else r[:_RAW_LIMIT] for r in data["raw"]]
    return table(schemas.Rejects, data)
