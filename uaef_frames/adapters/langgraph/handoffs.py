"""Settles which calls were handoffs and how work passed between the agents of a session.

It must not know how messages are read or told apart.

A call is a handoff when the harness marked it so (`__handoff_destination`, `__is_handoff_back`).
It is one, too, when it is named like one (`transfer_to_x`, `handoff_to_x`) and x is an agent or
node of the session, or another agent works next, or none does and the result says that the
transfer succeeded; or when its name ends in `_to_x` and the agent x works next.
`transfer_to_human_agents` of an agent that goes on alone is a tool like any other, and so is a
handoff that failed.

A change of agent without such a call is taken for a handoff only in a multi-agent session, and only
where work is passed by decision: the session shows real handoffs elsewhere, or an agent comes back
to work in the same turn after another one (a supervisor that delegates by Command), or an agent
that runs its own tools had no last word after one (a tool that returned Command(goto=...)). Nodes
that run one after the other, or side by side, are a pipeline and hand nothing off.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from uaef_frames.adapters.langgraph.ledger import HANDOFF, TOOL, VOID, Made, Seen
from uaef_frames.adapters.langgraph.session import HANDOFF_OPENINGS, Activity, Session, Turn
from uaef_frames.rows import HandoffRow

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_BACK = "Transferring back to "
_TO = "Successfully transferred to "


def normal(name: str) -> str:
    """A name as handoff tools spell it."""
    return "_".join(name.split()).lower()


def settle_handoffs(session: Session) -> None:
    """Mark the calls that are handoffs, and their messages as the harness's own."""
    if len(session.agents) < 2 and not session.hands_off:
        return
    names = _names(session)
    for turn in session.turns:
        for made in turn.made:
            if made.kind == TOOL and _is_handoff(made, turn, names):
                made.kind = HANDOFF
                if made.answer is not None:
                    made.answer.row.is_synthetic = True
    if len(session.agents) > 1 and any(has_handoffs(t) for t in session.turns):
        # Of handoffs asked for at once, a graph may take one: the others are no tool use either.
        for made in (m for t in session.turns for m in t.made):
            if not made.answered and made.row.name.startswith(HANDOFF_OPENINGS):
                made.kind = HANDOFF if made.kind == HANDOFF else VOID


def has_handoffs(turn: Turn) -> int:
    """How many handoffs a turn shows by itself, without a look at who works after whom."""
    return sum(m.kind == HANDOFF for m in turn.made) + len(_orphans(turn))


def handoff_rows(session: Session, is_multi: bool) -> list[list[HandoffRow]]:
    """The handoffs of every turn, in the order they happened."""
    if not is_multi and not session.hands_off:
        return [[] for _ in session.turns]
    names = _names(session)
    explicit = any(has_handoffs(t) or t.active_agents for t in session.turns)
    rows: list[list[HandoffRow]] = []
    for turn in session.turns:
        infer = is_multi and (explicit or _someone_returns(turn, session))
        rows.append(_Walk(session, turn, names).rows(infer))
    return rows


class _Walk:
    """Goes through a turn's work and notes where it passes from one agent to the next."""

    def __init__(self, session: Session, turn: Turn, names: dict[str, str]) -> None:
        self.session, self.turn, self.names = session, turn, names
        self.found: list[HandoffRow] = []
        self.current: str | None = None
        self.last: Seen | None = None
        self.expected: set[str] = set()
        self.giver: dict[str, str] = {}

    def rows(self, infer: bool) -> list[HandoffRow]:
        tasks: set[tuple[str, tuple[str, ...]]] = set()
        for work in _work(self.turn, self.session):
            agent = work.agent
            if agent is not None:
                goes_on = bool(work.ns) and (agent, work.ns) in tasks
                self._passed_to(agent, infer and not goes_on)
                tasks.add((agent, work.ns))
                self.current, self.last = agent, work.seen
            if work.seen is not None:
                self._told_by(work.seen)
        return self.found

    def _passed_to(self, agent: str, infer: bool) -> None:
        giver = self.current
        if giver is None or agent == giver:
            return
        if agent in self.expected:
            self.expected.discard(agent)
        elif infer or _left_by_tool(self.last):
            self._note(giver, agent, self.giver.get(giver) == agent, None)

    def _told_by(self, seen: Seen) -> None:
        for made in seen.calls:
            if made.kind == HANDOFF:
                to = _destination(made, self.turn, self.names)
                back = seen.msg.handoff_back or _says_back(made)
                self._note(seen.row.agent, to, back, _told(made))
                self._expect(to, back)
        if seen.answers is None and seen.row.role == "tool":
            to = seen.msg.handoff_to or _ending(seen.msg.text, self.names)
            self._note(self.current, to, seen.msg.handoff_back, seen.row.content)
            self._expect(to, seen.msg.handoff_back)

    def _note(self, giver: str | None, to: str | None, back: bool, text: str | None) -> None:
        self.found.append(HandoffRow(giver, to, "handoff_back" if back else "handoff", text))
        if to is not None and giver is not None and not back:
            self.giver[to] = giver

    def _expect(self, agent: str | None, back: bool) -> None:
        if agent is not None:
            self.expected.add(agent)
            if back:
                self.current = agent  # whoever works next was sent by the one who got it back


def _work(turn: Turn, session: Session) -> Iterator[Activity]:
    """The turn's work by agents of the session.

    A node that ran without a new message counts only where the nodes inside it are not streamed:
    else it repeats what they said.
    """
    deep = any(a.ns for a in turn.activity)
    for work in turn.activity:
        if work.seen is not None or (not deep and work.agent in session.agents):
            yield work


def _someone_returns(turn: Turn, session: Session) -> bool:
    """Whether an agent works again after another one, in a new run and not beside it."""
    before: list[Activity] = []
    for work in _work(turn, session):
        agent = work.agent
        if agent is None or (before and before[-1].agent == agent):
            continue
        earlier = [w for w in before if w.agent == agent]
        if earlier and not any(w.ns and w.ns == work.ns for w in earlier):
            waits = earlier[-1].seen
            if waits is None or not waits.calls:
                return True
        before.append(work)
    return False


def _left_by_tool(last: Seen | None) -> bool:
    """Whether work left an agent through one of its tools: the same node, no word after it."""
    if last is None or not last.calls:
        return False
    answers = [m.answer for m in last.calls if m.answer is not None and not m.answer.row.is_error]
    return len(answers) == len(last.calls) and all(_same_place(last, a) for a in answers)


def _same_place(caller: Seen, answer: Seen) -> bool:
    if answer.node is None:
        return False
    depth = len(answer.ns)
    if caller.ns == answer.ns:
        return caller.node == answer.node
    inside = len(caller.ns) > depth and caller.ns[:depth] == answer.ns
    return inside and caller.ns[depth].partition(":")[0] == answer.node


def _is_handoff(made: Made, turn: Turn, names: dict[str, str]) -> bool:
    answer = made.answer
    if made.caller.msg.handoff_back:
        return True
    if answer is not None:
        if answer.msg.handoff_to is not None or answer.msg.handoff_back:
            return True
        if answer.msg.is_error:
            return False
    name = normal(made.row.name)
    opening = next((o for o in HANDOFF_OPENINGS if name.startswith(o)), None)
    to = name[len(opening) :] if opening else name.rpartition("_to_")[2] if "_to_" in name else ""
    if not to:
        return False
    after = _agent_after(made, turn)
    if opening is None:
        return to in names and after is not None and normal(after) == to
    if to in names or (answer is not None and after is not None and after != made.row.agent):
        return True
    if answer is not None and answer.msg.text.startswith(_TO) and after is None:
        return True  # interrupted before the other agent could speak
    return answer is not None and normal(turn.active_agents.get(answer.event, "")) == to


def _agent_after(made: Made, turn: Turn) -> str | None:
    """Who works next after the message that made a call."""
    order = made.caller.order
    for work in turn.activity:
        if work.seen is not None and work.seen.order > order and work.seen.row.role == "assistant":
            return work.agent
    return None


def _destination(made: Made, turn: Turn, names: dict[str, str]) -> str | None:
    """Whom a handoff names: by the harness's marker or state, by its text, by the tool's name."""
    answer = made.answer
    if answer is not None:
        if answer.msg.handoff_to is not None:
            return answer.msg.handoff_to
        active = turn.active_agents.get(answer.event)
        if active is not None:
            return active
    for text, opening in ((made.caller.msg.text, _BACK), (answer.msg.text if answer else "", _TO)):
        if text.startswith(opening):
            return text[len(opening) :]
    name = normal(made.row.name)
    for opening in HANDOFF_OPENINGS:
        if name.startswith(opening):
            return names.get(name[len(opening) :], name[len(opening) :])
    return names.get(name.rpartition("_to_")[2])


def _says_back(made: Made) -> bool:
    return made.row.name.startswith("transfer_back_to_") or (
        made.answer is not None and made.answer.msg.handoff_back
    )


def _told(made: Made) -> str:
    """The text that went with a handoff: the agent's words, else its arguments, else the result."""
    if made.caller.row.content:
        return made.caller.row.content
    if made.row.arguments not in (None, "{}"):
        return made.row.arguments or ""
    return made.row.result or ""


def _orphans(turn: Turn) -> list[Seen]:
    """Handoff results whose call is not in the stream."""
    return [
        s
        for s in turn.seen
        if s.row.role == "tool" and s.answers is None and (s.msg.handoff_to or s.msg.handoff_back)
    ]


def _ending(text: str, names: dict[str, str]) -> str | None:
    words = text.split()
    return names.get(normal(words[-1])) if words else None


def _names(session: Session) -> dict[str, str]:
    """Agents and nodes of the session by their normal form; agents where both have it."""
    nodes: Iterable[str] = (n for t in session.turns for n in t.stream.nodes)
    return {normal(name): name for name in [*nodes, *session.agents]}
