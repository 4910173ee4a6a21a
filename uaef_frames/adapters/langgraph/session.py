"""Takes the emissions of a session's turns in order and keeps each message once, as rows.

It must not know about envelopes or stream modes, nor what the whole of a session amounts to.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from uaef_frames.adapters.langgraph.calls import make_call
from uaef_frames.adapters.langgraph.emissions import HUMAN, STATE, Emission
from uaef_frames.adapters.langgraph.known import Known, Pass, says_same
from uaef_frames.adapters.langgraph.ledger import (
    STRUCTURED,
    Ledger,
    Made,
    Seen,
    fill,
    replace_arguments,
)
from uaef_frames.adapters.langgraph.shapes import Fields, is_fields
from uaef_frames.adapters.langgraph.topology import Names, is_middleware
from uaef_frames.rows import MessageRow

if TYPE_CHECKING:
    from uaef_frames.adapters.langgraph.messages import Msg
    from uaef_frames.adapters.langgraph.streams import TurnStream

HANDOFF_OPENINGS = ("transfer_to_", "transfer_back_to_", "handoff_to_", "hand_off_to_")
_LIMITS = ("Model call limits exceeded", "call limit reached: ", "Tool call limit exceeded. ")
"""In what the limit middlewares write in place of a model or a tool."""
STRUCTURED_OPENING = "Returning structured response: "
STRUCTURED_ERRORS = (
    "Failed to parse structured output for tool",
    "Model incorrectly returned multiple structured responses",
)


@dataclass(slots=True, eq=False)
class Activity:
    """An agent at work: it wrote a message, or (`seen` is None) its node ran without a new one."""

    agent: str | None
    ns: tuple[str, ...]
    seen: Seen | None


@dataclass(slots=True, eq=False)
class Turn:
    """What one turn has come to: its messages, its calls, and signs of who passed work to whom.

    `asked` says that the caller recorded its input. `repeats` counts messages of earlier turns that
    came again. `agents` are those that spoke, in order; `active_agents` says by event whom a swarm
    activated.
    """

    position: int
    stream: TurnStream
    asked: bool
    repeats: int
    seen: list[Seen]
    humans: list[Seen]
    made: list[Made]
    activity: list[Activity]
    agents: dict[str, None]
    active_agents: dict[int, str]
    notes: list[str]


class Session:
    """The messages of one conversation; `add_turn` takes its turns in order.

    `agents` are those that spoke so far. `hands_off` says that something looks like a handoff.
    """

    def __init__(self, agents: frozenset[str] | None) -> None:
        self.turns: list[Turn] = []
        self.names = Names(agents)
        self.agents: dict[str, None] = {}
        self.hands_off = False
        self._ledger = Ledger()
        self._known = Known(self._ledger)

    def add_turn(self, stream: TurnStream) -> None:
        """Take the emissions of the next turn."""
        turn = Turn(len(self.turns), stream, False, 0, [], [], [], [], {}, {}, [])
        self.turns.append(turn)
        for emission in stream.emissions:
            if emission.kind == HUMAN:
                self._add_human(turn, emission)
            else:
                self._add(turn, emission)

    def _add_human(self, turn: Turn, emission: Emission) -> None:
        """The caller's own record of the input: what stands behind the last answer in it is new.

        Its messages are this turn's even where an earlier one had the same id or text, unless they
        lead up to the last one and are known.
        """
        msgs = emission.messages
        start = max(
            (i + 1 for i, m in enumerate(msgs) if m.role in ("assistant", "tool")), default=0
        )
        way = Pass(emission, turn.position, again=True, pointer=-1)
        last = len(msgs) - 1
        for position, msg in enumerate(msgs[start:], start):
            alone = position == last and not turn.humans
            seen = None if alone else self._known.find(msg, way)
            if seen is None or (position == last and seen.turn != turn.position):
                seen = self._append(turn, msg, emission)
            way.met(seen)
        turn.asked = bool(turn.humans)

    def _add(self, turn: Turn, emission: Emission) -> None:
        msgs = emission.messages
        if emission.active_agent is not None:
            turn.active_agents[emission.event] = emission.active_agent
            self.hands_off = True
        news = False
        if len(msgs) == 1 and self._is_news(msgs[0], emission):
            self._append(turn, msgs[0], emission)
            news = True
        elif msgs:
            way, cut = self._known.start(emission, turn.position, turn.humans)
            for position, msg in enumerate(msgs):
                if position < cut and msg.lc_source is None:
                    continue
                seen = self._known.find(msg, way)
                if seen is not None:
                    self._again(turn, seen, msg, emission)
                elif (seen := self._copied_handoff(turn, msg)) is None:
                    seen = self._append(turn, msg, emission)
                    news = True
                way.met(seen)
        if emission.structured:
            self._settle_structured(turn)
        if emission.edited_calls is not None:
            self._edit_calls(turn, emission.edited_calls)
        if not news and not emission.ns and emission.node is not None:
            turn.activity.append(Activity(emission.node, (), None))

    def _is_news(self, msg: Msg, emission: Emission) -> bool:
        """Whether a lone message's id shows that it is new: a quick look before a careful one."""
        return (
            msg.id is not None
            and msg.role != "user"
            and emission.kind != STATE
            and msg.id not in self._known.by_id
            and not self._known.without_id
            and (not msg.calls or msg.input_tokens is not None)
        )

    def _append(self, turn: Turn, msg: Msg, emission: Emission) -> Seen:
        role, agent = msg.role, None
        synthetic = msg.handoff_back or msg.handoff_to is not None
        if role == "user":
            if msg.lc_source is not None:
                role, synthetic = "system", True
            elif self._speaks_as_agent(msg, emission):
                role, agent = "assistant", self.names.of(msg, emission)
            elif not _is_users(turn, emission):
                role, synthetic = "system", True
                turn.notes.append(
                    f"a human message from {emission.node or 'the state'} is kept as system: what"
                    " the user said stands in __human__"
                )
        elif role == "assistant":
            agent = self.names.of(msg, emission)
            synthetic = synthetic or (msg.input_tokens is None and _is_limit(msg, emission))
        elif role == "tool":
            synthetic = (
                synthetic
                or msg.lc_source is not None
                or is_middleware(emission.node)
                or (msg.is_error and _is_limit(msg, emission))
            )
        row = MessageRow(
            role,
            msg.text,
            agent,
            msg.reasoning,
            msg.id,
            msg.tool_call_id,
            msg.is_error,
            synthetic,
            msg.input_tokens,
            msg.output_tokens,
        )
        seen = Seen(
            msg,
            row,
            len(self._known.all),
            turn.position,
            len(turn.seen),
            emission.event,
            emission.node,
            emission.ns,
            not emission.ns,
        )
        self._known.add(seen)
        turn.seen.append(seen)
        if role == "user":
            turn.humans.append(seen)
        elif role == "assistant":
            if msg.calls:
                self._make_calls(turn, seen)
            self._note_work(turn, seen, emission)
        elif role == "tool":
            self._take_result(turn, seen, emission)
        return seen

    def _speaks_as_agent(self, msg: Msg, emission: Emission) -> bool:
        """Nodes of hand-written teams pass on an agent's answer as a human message in its name."""
        if msg.name is None or emission.kind == HUMAN:
            return False
        return msg.name == emission.node or msg.name in self.agents

    def _note_work(self, turn: Turn, seen: Seen, emission: Emission) -> None:
        agent = seen.row.agent
        if agent is not None and not seen.row.is_synthetic and agent not in turn.agents:
            turn.agents[agent] = self.agents[agent] = None
        turn.activity.append(Activity(agent, emission.ns, seen))

    def _make_calls(self, turn: Turn, seen: Seen) -> None:
        index, agent = seen.index, seen.row.agent
        seen.calls = calls = [Made(row, seen) for row in seen.msg.calls]
        turn.made += calls
        for made in calls:
            row = made.row
            row.message_index, row.agent = index, agent
            self._ledger.add(made)
            if row.name.startswith(HANDOFF_OPENINGS):
                self.hands_off = True

    def _take_result(self, turn: Turn, seen: Seen, emission: Emission) -> None:
        made = self._ledger.answer(seen)
        if made is not None:
            seen.row.agent = made.row.agent
            if seen.row.tool_call_id is None:
                seen.row.tool_call_id = made.row.tool_call_id
        elif emission.agent is not None or emission.ns:
            seen.row.agent = self.names.of(seen.msg, _nameless(emission))
        if seen.msg.handoff_to or seen.msg.handoff_back:
            self.hands_off = True
            if made is None:
                turn.activity.append(Activity(None, emission.ns, seen))
        text = seen.msg.text
        if text.startswith(STRUCTURED_OPENING) or any(e in text[:120] for e in STRUCTURED_ERRORS):
            _mark_structured(seen)

    def _settle_structured(self, turn: Turn) -> None:
        """The tool message behind a structured answer is a form of it, whatever its text."""
        last = turn.seen[-1] if turn.seen else None
        if last is None or last.answers is None:
            return
        if last.answers.caller is next((s for s in reversed(turn.seen) if s.calls), None):
            _mark_structured(last)

    def _again(self, turn: Turn, seen: Seen, msg: Msg, emission: Emission) -> None:
        """A message seen before: it may bring its id, its usage, or be a later version."""
        seen.top = seen.top or not emission.ns
        turn.repeats += seen.turn != turn.position
        self._known.adopt(seen, msg.id)
        row = seen.row
        if row.input_tokens is None and row.output_tokens is None:
            row.input_tokens, row.output_tokens = msg.input_tokens, msg.output_tokens
        if msg.id is not None and msg.id == seen.msg.id and not says_same(seen.msg, msg):
            self._edit(turn, seen, msg)

    def _edit(self, turn: Turn, seen: Seen, msg: Msg) -> None:
        seen.row.content = seen.msg.text = msg.text
        if msg.reasoning is not None:
            seen.row.reasoning = msg.reasoning
        seen.row.is_error = seen.msg.is_error = msg.is_error
        if seen.answers is not None:
            fill(seen.answers, msg)
        changed = self._edit_made(seen, msg) if seen.row.role == "assistant" else []
        self._known.changed(seen)
        told = f" ({'; '.join(changed)})" if changed else ""
        where = "" if seen.turn == turn.position else " of an earlier turn"
        turn.notes.append(f"message {msg.id}{where} was replaced by a later version{told}")

    def _edit_made(self, seen: Seen, msg: Msg) -> list[str]:
        """Let the calls of a message stand as its later version has them; what ran stays."""
        changed: list[str] = []
        owner = self.turns[seen.turn]
        calls = list(seen.calls)
        left = list(calls)
        for row in msg.calls:
            made = next((m for m in left if m.row.tool_call_id == row.tool_call_id), None)
            if made is None:
                row.message_index, row.agent = seen.index, seen.row.agent
                made = Made(row, seen)
                calls.append(made)
                owner.made.append(made)
                self._ledger.add(made)
                changed.append(f"{row.name} was added")
                continue
            left.remove(made)
            told = None if made.edited else replace_arguments(made, row)
            if told is not None:
                changed.append(told)
        for made in left:
            if not made.answered and not made.edited:
                calls.remove(made)
                owner.made.remove(made)
                self._ledger.forget(made)
                changed.append(f"{made.row.name} was removed")
        seen.calls, seen.msg.calls = calls, [m.row for m in calls]
        return changed

    def _edit_calls(self, turn: Turn, edited: Fields) -> None:
        """A person changed calls before they ran: rows say what ran, a note what was written."""
        for call_id, action in edited.items():
            made = self._ledger.latest.get(call_id)
            if made is None or made.edited or not is_fields(action):
                continue
            row = make_call(action.get("name") or made.row.name, action.get("args"), call_id)
            told = replace_arguments(made, row)
            if told is not None:
                made.edited = True
                turn.notes.append(f"a person edited a call before it ran: {told}")

    def _copied_handoff(self, turn: Turn, msg: Msg) -> Seen | None:
        """A supervisor's parallel handoffs reach each agent as a copy: a new id, one call."""
        if not msg.calls or msg.input_tokens is not None or msg.handoff_back:
            return None
        made = [self._ledger.latest.get(c.tool_call_id or "") for c in msg.calls]
        first = made[0]
        if first is None or any(m is None or m.caller is not first.caller for m in made):
            return None
        caller = first.caller
        is_part = caller.turn == turn.position and len(caller.calls) > len(msg.calls)
        is_handoff = first.row.name.startswith(HANDOFF_OPENINGS)
        same = caller.msg.name == msg.name and caller.msg.text == msg.text
        return caller if is_part and is_handoff and same else None


def _is_users(turn: Turn, emission: Emission) -> bool:
    """Whether a human message is the user's: nodes write them, too, for themselves or other agents.

    Where the caller recorded the turn's input, only an answer to an interrupt can come from a node.
    """
    if emission.kind == HUMAN or not turn.asked:
        return True
    return any(index < emission.event for index, _ in turn.stream.interrupts)


def _is_limit(msg: Msg, emission: Emission) -> bool:
    """Whether a limit middleware wrote a message; a whole state does not say from which node."""
    node = emission.node
    return (node is None or is_middleware(node)) and any(text in msg.text for text in _LIMITS)


def _mark_structured(seen: Seen) -> None:
    seen.row.is_synthetic = True
    if seen.answers is not None:
        seen.answers.kind = STRUCTURED


def _nameless(emission: Emission) -> Emission:
    """The emission as it places a tool's message, whose own name is the tool's."""
    return Emission(emission.kind, emission.event, None, emission.ns, agent=emission.agent)
