"""Makes the rows of a session out of what was taken in: answers, tokens, calls, handoffs, notes.

It must not know how messages are read or told apart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from uaef_frames.adapters.langgraph.handoffs import handoff_rows, has_handoffs, settle_handoffs
from uaef_frames.adapters.langgraph.ledger import STRUCTURED, TOOL
from uaef_frames.adapters.langgraph.topology import (
    MULTI,
    Evidence,
    mixing,
    mixing_reason,
    topology_of,
)
from uaef_frames.rows import HandoffRow, SessionRows, TurnRow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from uaef_frames.adapters.langgraph.ledger import Seen
    from uaef_frames.adapters.langgraph.payloads import CheckedPayload
    from uaef_frames.adapters.langgraph.session import Session, Turn


class MixedTopology(ValueError):
    """A session whose turns cannot come from one system."""


def session_rows(
    session_id: str,
    session: Session,
    payloads: Sequence[CheckedPayload],
    stated: str | None,
) -> SessionRows:
    """The rows of a session; `stated` is the topology that the user gave, if any.

    Raises:
        MixedTopology: Single- and multi-agent turns are mixed and nothing was stated.
    """
    settle_handoffs(session)
    evidence = [
        _evidence(t, p.turn_id, has_handoffs(t) if session.hands_off else 0)
        for t, p in zip(session.turns, payloads, strict=True)
    ]
    if stated is None and (mixed := mixing(evidence)) is not None:
        raise MixedTopology(mixing_reason(*mixed))
    topology = stated or topology_of(evidence)
    handoffs = handoff_rows(session, topology == MULTI)
    turns = [
        _turn_row(turn, payload, shown.agents, passed, topology)
        for turn, payload, shown, passed in zip(
            session.turns, payloads, evidence, handoffs, strict=True
        )
    ]
    return SessionRows(session_id, topology, turns)


def _evidence(turn: Turn, turn_id: int, handoffs: int) -> Evidence:
    return Evidence(
        turn_id, list(turn.agents), turn.stream.nodes, handoffs, bool(turn.active_agents)
    )


def _turn_row(
    turn: Turn,
    payload: CheckedPayload,
    agents: list[str],
    handoffs: list[HandoffRow],
    topology: str,
) -> TurnRow:
    interrupted = bool(turn.stream.interrupts) and _is_interrupted(turn)
    users = [s.row.content for s in turn.seen if s.row.role == "user"]
    row = TurnRow(
        payload.turn_id,
        agents,
        "\n\n".join(users) if users else None,
        None if interrupted else _answer(turn),
        interrupted,
        payload.latency_s,
        payload.input_tokens,
        payload.output_tokens,
        payload.cost_usd,
        payload.throughput_rps,
        payload.quality_score,
        payload.completeness_score,
        payload.workflow_status,
        payload.metadata,
        [*_silence(turn), *turn.notes],
        [s.row for s in turn.seen],
        [m.row for m in turn.made if m.kind == TOOL],
        handoffs,
    )
    _count_tokens(row)
    if turn.stream.interrupts or turn.stream.failures:
        _note_the_end(row, turn)
    if topology == MULTI and len(agents) > 1:
        _note_silent_agents(row)
    return row


def _silence(turn: Turn) -> list[str]:
    """Why no agent and no tool speaks in a turn, where there is something to say."""
    if any(s.row.role in ("assistant", "tool") for s in turn.seen):
        return []
    if turn.repeats:
        return ["every message in these events has the id of a message of an earlier turn"]
    return turn.stream.notes


def _is_interrupted(turn: Turn) -> bool:
    """The turn ended with a question to a person: no answer came after the last interrupt."""
    last = max(index for index, _ in turn.stream.interrupts)
    return not any(s.event > last and _is_answer(s) for s in turn.seen)


def _is_answer(seen: Seen) -> bool:
    row = seen.row
    if row.role != "assistant" or row.is_synthetic or seen.calls:
        return False
    return bool(row.content) and not row.content.isspace()


def _answer(turn: Turn) -> str | None:
    """The final answer: of what the outermost graph emitted, else of anything that was emitted."""
    if turn.seen and turn.seen[-1].top and _is_answer(turn.seen[-1]):
        return turn.seen[-1].row.content
    spoken = [s for s in turn.seen if s.row.role in ("assistant", "tool")]
    structured = [s for s in spoken if any(m.kind == STRUCTURED for m in s.calls)]
    last_word = next((s for s in reversed(spoken) if s.row.role == "assistant"), None)
    if structured and last_word is structured[-1]:
        made = next(m for m in structured[-1].calls if m.kind == STRUCTURED)
        if made.row.status == "ok":
            return made.row.arguments
    last = spoken[-1] if spoken else None
    spoken = [s for s in spoken if not s.row.is_synthetic]
    for rows in ([s for s in spoken if s.top], spoken):
        if last is not None and rows and rows[-1] is last:
            direct = _returned_directly(last)
            if direct is not None:
                return direct
        for seen in reversed(rows):
            if _is_answer(seen):
                return seen.row.content
    return "" if spoken and _is_empty_answer(spoken[-1]) else None


def _is_empty_answer(seen: Seen) -> bool:
    """The agent had the last word and said nothing that can be used."""
    return seen.row.role == "assistant" and all(m.row.status == "invalid" for m in seen.calls)


def _returned_directly(last: Seen) -> str | None:
    """The text of a tool that ended the turn: there is no closing message of the agent."""
    made = last.answers
    if made is None or last.row.is_error or not last.row.content or made.kind != TOOL:
        return None
    return last.row.content if all(m.answered for m in made.caller.calls) else None


def _count_tokens(row: TurnRow) -> None:
    """The payload's totals stand; where there are none, what the messages report is summed."""
    read = written = None
    for message in row.messages:
        if message.input_tokens is not None:
            read = message.input_tokens + (read or 0)
        if message.output_tokens is not None:
            written = message.output_tokens + (written or 0)
    row.input_tokens = _total(row, row.input_tokens, read, "input")
    row.output_tokens = _total(row, row.output_tokens, written, "output")


def _total(row: TurnRow, stated: float | None, visible: int | None, name: str) -> float | None:
    if stated is None or visible is None:
        return float(visible) if stated is None and visible is not None else stated
    if stated != visible:
        row.notes.append(token_note(name, stated, visible))
    return stated


def token_note(name: str, stated: float, visible: float) -> str:
    """What to tell where a payload's tokens are not those that its messages report."""
    return (
        f"the payload says {stated:.15g} {name} tokens, the visible messages report {visible:.15g};"
        " the payload's value is used"
    )


def _note_the_end(row: TurnRow, turn: Turn) -> None:
    if row.interrupted:
        asked = next((text for _, text in reversed(turn.stream.interrupts) if text), "")
        row.notes.append(f"interrupted: {asked[:300]}" if asked else "interrupted")
    for failure in dict.fromkeys(turn.stream.failures):
        row.notes.append(f"the run failed: {failure}")
    if turn.stream.failures and row.workflow_status is None:
        row.workflow_status = "failed"


def _note_silent_agents(row: TurnRow) -> None:
    """Name agents for which no model call is seen, where there are others: formatters, routers."""
    paid = {m.agent for m in row.messages if m.input_tokens is not None}
    silent = [a for a in row.agents if a not in paid]
    if paid - {None} and silent:
        row.notes.append(
            f"counted as agents though no model usage is reported: {', '.join(silent)}"
        )
