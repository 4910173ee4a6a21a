"""Conversations: the tables of any number of sessions, and the way from and to trace objects.

Knows rows and objects. What framework a record came from is the adapters' business.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, ClassVar

import polars as pl

from uaef_frames import schemas
from uaef_frames.errors import ConfigError
from uaef_frames.rows import CallRow, HandoffRow, MessageRow, SessionRows, stack
from uaef_frames.table_set import TableSet
from uaef_frames.traces import (
    SessionDict,
    Trace,
    join_traces,
    per_turn_traces,
    session_of_traces,
    trace_of_row,
)

if TYPE_CHECKING:
    import dataframely as dy


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Conversations(TableSet):
    """The four tables of a set of conversations (columns: `uaef_frames.schemas`).

    Rows stand in the order of sessions, turns and happening.
    """

    tables: ClassVar[Mapping[str, type[dy.Schema]]] = {
        "turns": schemas.Turns,
        "messages": schemas.Messages,
        "tool_calls": schemas.ToolCalls,
        "handoffs": schemas.Handoffs,
    }
    what: ClassVar[str] = "conversations"

    turns: pl.DataFrame
    messages: pl.DataFrame
    tool_calls: pl.DataFrame
    handoffs: pl.DataFrame

    @classmethod
    def from_rows(cls, sessions: Iterable[SessionRows], first_index: int = 0) -> Conversations:
        """Stack what a reader found."""
        return cls(**stack(sessions, first_index))

    @classmethod
    def empty(cls) -> Conversations:
        """No conversation at all, with every column."""
        return cls.from_rows([])

    @classmethod
    def from_traces(cls, items: Iterable[Trace | Mapping[str, Any]]) -> Conversations:
        """Take traces (a conversation of one turn each) and session dicts.

        The key of a conversation is its session_id, else its trace_id, else `session-N`.

        Raises:
            ConfigError: Two items have the same key, or an item is neither trace nor session dict.
        """
        sessions: list[SessionRows] = []
        seen: set[str] = set()
        for number, item in enumerate(items):
            traces = per_turn_traces(item)
            named = item.get("session_id") if isinstance(item, Mapping) else item.session_id
            trace_id = traces[0].trace_id
            key = str(named or (trace_id if trace_id != "trace" else f"session-{number}"))
            if key in seen:
                raise ConfigError(f"two conversations are called {key!r}; session ids are unique")
            seen.add(key)
            sessions.append(session_of_traces(key, traces))
        return cls.from_rows(sessions)

    @classmethod
    def concat(cls, parts: Sequence[Conversations]) -> Conversations:
        """One after the other, sessions numbered anew.

        Raises:
            ConfigError: A session is in two parts.
        """
        if not parts:
            return cls.empty()
        frames = {name: pl.concat([getattr(p, name) for p in parts]) for name in cls.tables}
        joined = cls(**frames)
        ids = [i for p in parts for i in p.session_ids]
        twice = (
            next((i for i in ids if ids.count(i) > 1), None) if len(set(ids)) < len(ids) else None
        )
        if twice is not None:
            raise ConfigError(f"session {twice!r} is in more than one part")
        return joined._renumbered()

    @property
    def session_ids(self) -> list[str]:
        """The sessions in their order."""
        return self.turns["session_id"].unique(maintain_order=True).to_list()

    @property
    def num_turns(self) -> int:
        """Turns over all sessions."""
        return self.turns.height

    def __len__(self) -> int:
        return self.turns["session_id"].n_unique()

    def filter(self, session_ids: Iterable[str]) -> Conversations:
        """Only these sessions, in the order they have here; unknown ids are left aside."""
        wanted = pl.Series(list(session_ids), dtype=pl.String)
        kept = {
            name: getattr(self, name).filter(pl.col("session_id").is_in(wanted.implode()))
            for name in self.tables
        }
        return Conversations(**kept)._renumbered()

    def validate(self) -> Conversations:
        """These conversations, checked against the schemas.

        Raises:
            dataframely.exc.ValidationError: A rule is broken; the message counts rows by rule.
        """
        from uaef_frames.schema_sets import ConversationTables

        ConversationTables.validate(self.frames())
        return self

    def to_traces(self) -> list[SessionDict]:
        """Session dicts: an AgentTrace or MultiAgentTrace a turn, and the full trace of each."""
        grouped = {
            name: _rows_by_turn(getattr(self, name), cls)
            for name, cls in (
                ("messages", MessageRow),
                ("tool_calls", CallRow),
                ("handoffs", HandoffRow),
            )
        }
        by_session: dict[str, list[Trace]] = {}
        for row in self.turns.iter_rows(named=True):
            key = (row["session_id"], row["turn_id"])
            children = [grouped[n].get(key, []) for n in ("messages", "tool_calls", "handoffs")]
            by_session.setdefault(key[0], []).append(trace_of_row(row, *children))
        return [
            {"session_id": sid, "per_turn_traces": traces, "full_trace": join_traces(sid, traces)}
            for sid, traces in by_session.items()
        ]

    def __repr__(self) -> str:
        return (
            f"Conversations({len(self)} sessions, {self.turns.height} turns, "
            f"{self.messages.height} messages, {self.tool_calls.height} tool calls)"
        )

    def _repr_html_(self) -> str:
        shown = self.turns.select("session_id", "turn_id", "topology", "query", "response").head(10)
        return f"<p>{escape(repr(self))}</p>{shown._repr_html_()}"  # pyright: ignore[reportPrivateUsage]

    def _renumbered(self) -> Conversations:
        ids = self.turns.select(pl.col("session_id").unique(maintain_order=True)).with_row_index(
            "at"
        )
        turns = (
            self.turns.drop("session_index")
            .join(ids, on="session_id", how="left", maintain_order="left")
            .with_columns(session_index=pl.col("at").cast(pl.Int64))
            .select(list(schemas.columns(schemas.Turns)))
        )
        return Conversations(turns, self.messages, self.tool_calls, self.handoffs)


def _rows_by_turn(frame: pl.DataFrame, row_type: type[Any]) -> dict[tuple[str, int], list[Any]]:
    fields = [name for name in row_type.__slots__ if name in frame.columns]
    columns = frame.select("session_id", "turn_id", *fields)
    grouped: dict[tuple[str, int], list[Any]] = {}
    for sid, turn, *values in columns.iter_rows():
        grouped.setdefault((sid, turn), []).append(
            row_type(**dict(zip(fields, values, strict=True)))
        )
    return grouped
