"""Keeps the tool calls of a session and finds the call that a tool result answers.

It must not know how messages arrive, or what is told twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from uaef_frames.adapters.langgraph.messages import Msg
    from uaef_frames.rows import CallRow, MessageRow

TOOL = "tool"
HANDOFF = "handoff"
STRUCTURED = "structured"
VOID = "void"
"""What a call was: a tool use, a handoff, a form of the answer, or a handoff that was not taken."""


@dataclass(slots=True, eq=False)
class Seen:
    """A message of the session with its row, where it stands and what it has to do with calls.

    `order` counts the messages of the session, `index` those of the turn. `top` says that the
    outermost graph emitted it. `calls` are those it made, `answers` the one it answers.
    """

    msg: Msg
    row: MessageRow
    order: int
    turn: int
    index: int
    event: int
    node: str | None
    ns: tuple[str, ...]
    top: bool
    calls: Sequence[Made] = ()
    answers: Made | None = None


@dataclass(slots=True, eq=False)
class Made:
    """A call that was made: its row, its caller and its answer; `kind` is settled at the end.

    `edited` says that a person changed it before it ran, so its message no longer tells it.
    """

    row: CallRow
    caller: Seen
    answer: Seen | None = None
    answered: bool = False
    edited: bool = False
    kind: str = TOOL


class Ledger:
    """The calls of a session, answered and open."""

    def __init__(self) -> None:
        self.latest: dict[str, Made] = {}
        self._waiting: dict[str, list[Made]] = {}
        self._open: dict[int, Made] = {}

    def add(self, made: Made) -> None:
        """Enter a call that was just made."""
        call_id = made.row.tool_call_id
        if call_id is not None:
            self.latest[call_id] = made
            waiting = self._waiting.get(call_id)
            if waiting is None:
                self._waiting[call_id] = [made]
            else:
                waiting.append(made)
        self._open[id(made)] = made

    def waiting(self, call_id: str | None) -> list[Made]:
        """The open calls of an id, oldest first."""
        return self._waiting.get(call_id, []) if call_id is not None else []

    def answer(self, seen: Seen) -> Made | None:
        """Give a tool result to the call it answers; None: there is none that waits for it.

        The call is the nearest preceding open one with the result's id (of calls in one message the
        first; of parallel ones that of the same tool). A result without an id, or with an id that
        no call ever had, takes the first open call of its turn, then of earlier ones: of that tool
        where the result names it, and without an id of its own where the result has one.
        """
        made = self._find(seen)
        if made is None:
            return None
        made.answered, made.answer, seen.answers = True, seen, made
        self.forget(made)
        fill(made, seen.msg)
        return made

    def forget(self, made: Made) -> None:
        """Wait no longer for an answer to a call."""
        self._open.pop(id(made), None)
        waiting = self._waiting.get(made.row.tool_call_id or "")
        if waiting and made in waiting:
            waiting.remove(made)

    def _find(self, seen: Seen) -> Made | None:
        call_id, name = seen.msg.tool_call_id, seen.msg.name
        if call_id is not None:
            waiting = self._waiting.get(call_id)
            if waiting:
                return waiting[0] if len(waiting) == 1 else _nearest(waiting, name)
            if call_id in self.latest:
                return None  # a second result of an answered call
        open_calls = [
            m
            for m in self._open.values()
            if m.row.status != "invalid" and (call_id is None or m.row.tool_call_id is None)
        ]
        if name is not None:
            open_calls = [m for m in open_calls if m.row.name == name]
        here = [m for m in open_calls if m.caller.turn == seen.turn]
        return next(iter(here or open_calls), None)


def fill(made: Made, msg: Msg) -> None:
    """Write what a tool answered into the row of its call."""
    made.row.result = msg.text
    if made.row.status != "invalid":
        made.row.status = "error" if msg.is_error else "ok"


def replace_arguments(made: Made, row: CallRow) -> str | None:
    """Let a call stand as a person, or a later version of its message, changed it.

    Returns what changed, for a note; None if nothing did.
    """
    old = made.row
    if (old.name, old.arguments) == (row.name, row.arguments):
        return None
    told = f"{old.name}({old.arguments}) became {row.name}({row.arguments})"
    old.name, old.arguments, old.raw_arguments = row.name, row.arguments, row.raw_arguments
    if row.status == "invalid" or old.status == "invalid":
        old.status = row.status
    return told


def _nearest(waiting: list[Made], name: str | None) -> Made:
    same = [m for m in waiting if m.row.name == name] or waiting
    last = max(m.caller.order for m in same)
    return next(m for m in same if m.caller.order == last)
