"""Recognises messages that a session has already seen, with and without ids.

It must not know how a row is written; it only answers "which one is this?".
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from uaef_frames.adapters.langgraph.emissions import STATE, Emission
from uaef_frames.adapters.langgraph.topology import is_middleware

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from uaef_frames.adapters.langgraph.ledger import Ledger, Seen
    from uaef_frames.adapters.langgraph.messages import Msg

Key = tuple[object, ...]

_LATEST = 8
"""How many equal messages are looked at for one that comes alone; a session may hold thousands."""


@dataclass(slots=True)
class Pass:
    """One emission on its way through the session.

    `again` says that it repeats messages of before; `pointer` is the latest message it has got to
    (infinite for plain news, which stand after everything). `used` are the messages it matched.
    """

    emission: Emission
    turn: int
    again: bool
    pointer: float
    floor: int = 0
    used: set[int] = field(default_factory=set[int])

    def met(self, seen: Seen) -> None:
        """Note that a message of the emission is this one."""
        self.used.add(seen.order)
        if self.again and seen.order > self.pointer:
            self.pointer = seen.order


class Known:
    """The messages of a session by id and, once it is needed, by what they say."""

    def __init__(self, ledger: Ledger) -> None:
        self.all: list[Seen] = []
        self.by_id: dict[str, Seen] = {}
        self.without_id = 0
        self._deep = False
        self._ledger = ledger
        self._twins: dict[str, list[Seen]] = {}
        self._by_key: dict[Key, list[Seen]] = {}
        self._indexed = 0

    def add(self, seen: Seen) -> None:
        """Remember a new message."""
        self.all.append(seen)
        self._deep = self._deep or bool(seen.ns)
        message_id = seen.msg.id
        if message_id is None:
            self.without_id += seen.msg.role != "user"
        elif message_id in self.by_id:
            self._twins.setdefault(message_id, [self.by_id[message_id]]).append(seen)
            self.by_id[message_id] = seen
        else:
            self.by_id[message_id] = seen

    def adopt(self, seen: Seen, message_id: str | None) -> None:
        """Give a message that came without an id the one under which it came again."""
        if message_id is None or message_id in self.by_id:
            return
        self.by_id[message_id] = seen
        if seen.msg.id is None:
            self.without_id -= seen.msg.role != "user"
            seen.msg.id = seen.row.message_id = message_id

    def changed(self, seen: Seen) -> None:
        """Know a message by what it says now, too."""
        self._by_key.setdefault(_key(seen.msg), []).append(seen)

    def start(self, emission: Emission, turn: int, current: list[Seen]) -> tuple[Pass, int]:
        """Look at a whole emission: what it repeats, and how many of its messages are history.

        Everything up to and including the last occurrence of this turn's human message is history.
        """
        msgs = emission.messages
        cut, human = 0, None
        if current and (len(msgs) > 1 or msgs[0].role == "user"):
            cut, human = self._cut(msgs, current)
        if human is not None:
            found = Pass(emission, turn, True, human.order, floor=turn)
            self.adopt(human, msgs[cut - 1].id)
            human.top = human.top or not emission.ns
            return found, cut
        again = emission.kind == STATE or self._repeats(emission)
        pointer = -1 if again and len(msgs) > 1 else math.inf
        return Pass(emission, turn, again, pointer), 0

    def find(self, msg: Msg, way: Pass) -> Seen | None:
        """The message that this one is, if it has been seen; by id, else by what it says."""
        message_id = msg.id
        if message_id is not None:
            found = self.by_id.get(message_id)
            if found is not None:
                return self._by_same_id(found, msg, way)
            if not self.without_id and msg.role != "user":
                return None
        for seen in self._likely(msg, way):
            if seen.order in way.used or (message_id is not None and seen.msg.id is not None):
                continue
            if self._is_same(seen, msg, way):
                return seen
        return None

    def _likely(self, msg: Msg, way: Pass) -> Iterable[Seen]:
        """Messages that say the same: for a repetition in order, for news the latest few."""
        found = self._candidates(msg)
        if not way.again:
            return reversed(found[-_LATEST:])
        if not way.floor or msg.lc_source is not None:
            return found
        return found[bisect_left(found, way.floor, key=lambda seen: seen.turn) :]

    def _cut(self, msgs: Sequence[Msg], current: list[Seen]) -> tuple[int, Seen | None]:
        humans = [(i, m) for i, m in enumerate(msgs) if m.role == "user" and m.lc_source is None]
        for i, m in reversed(humans):
            for seen in current:
                if m.id is not None and self.by_id.get(m.id) is seen:
                    return i + 1, seen
        for i, m in reversed(humans):
            for seen in reversed(current):
                if m.text.strip() == seen.msg.text.strip():
                    return i + 1, seen
        return 0, None

    def _repeats(self, emission: Emission) -> bool:
        for msg in emission.messages:
            if msg.id is not None and msg.id in self.by_id:
                return True
        if not self._deep:
            return False
        return any(
            _encloses(emission, seen)
            for msg in emission.messages
            for seen in self._candidates(msg)[-_LATEST:]
        )

    def _by_same_id(self, found: Seen, msg: Msg, way: Pass) -> Seen | None:
        """One id is one message, except where ids are plainly given twice."""
        if found.msg.role != msg.role or self._is_another(found, msg, way):
            return None
        twins = self._twins.get(msg.id or "", [found])
        same = [t for t in twins if says_same(t.msg, msg)]
        if same:
            return next((t for t in same if t.order not in way.used), same[-1])
        return found if found.order not in way.used else None

    def _is_another(self, seen: Seen, msg: Msg, way: Pass) -> bool:
        """Whether an id was given anew to another message, as runs that count from 1 do.

        A later version of a message keeps the usage of the model call that made it, a tool result
        the call that it answers.
        """
        old = seen.msg
        if old.role == "tool":
            return old.tool_call_id != msg.tool_call_id or self._is_awaited(seen, msg, way)
        if old.input_tokens is None or msg.input_tokens is None or says_same(old, msg):
            return False
        return (old.input_tokens, old.output_tokens) != (msg.input_tokens, msg.output_tokens)

    def _is_awaited(self, seen: Seen, msg: Msg, way: Pass) -> bool:
        """Whether a call made after that result still waits for this one: it tells them apart."""
        return any(
            seen.order < made.caller.order <= way.pointer
            for made in self._ledger.waiting(msg.tool_call_id)
        )

    def _is_same(self, seen: Seen, msg: Msg, way: Pass) -> bool:
        again = way.again or _encloses(way.emission, seen)
        if msg.role == "tool":
            return again if msg.tool_call_id is None else not self._is_awaited(seen, msg, way)
        one_has_id = (msg.id is None) != (seen.msg.id is None)
        if msg.calls:
            return (
                again
                or one_has_id
                or is_middleware(way.emission.node)
                or (seen.turn == way.turn and any(not made.answered for made in seen.calls))
            )
        return again or (one_has_id and seen.msg.id is None)

    def _candidates(self, msg: Msg) -> list[Seen]:
        for seen in self.all[self._indexed :]:
            self._by_key.setdefault(_key(seen.msg), []).append(seen)
        self._indexed = len(self.all)
        return self._by_key.get(_key(msg), [])


def _key(msg: Msg) -> Key:
    if msg.role == "tool":
        return ("tool", msg.tool_call_id, msg.text)
    if msg.calls:
        return tuple((c.tool_call_id, c.name, c.arguments, c.raw_arguments) for c in msg.calls)
    return (msg.role, msg.name, msg.text)


def says_same(one: Msg, other: Msg) -> bool:
    """Whether two messages have the same text and calls."""
    return one.text == other.text and _key(one) == _key(other)


def _encloses(emission: Emission, seen: Seen) -> bool:
    """Whether an emission is what an enclosing graph repeats of the subgraph that spoke."""
    depth = len(emission.ns)
    return (
        emission.node is not None
        and len(seen.ns) > depth
        and seen.ns[:depth] == emission.ns
        and seen.ns[depth].partition(":")[0] == emission.node
    )
