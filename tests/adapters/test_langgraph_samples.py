from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from uaef_frames.adapters.langgraph.payloads import group_payloads
from uaef_frames.adapters.langgraph.reader import ReadOptions, read_session
from uaef_frames.errors import AdapterTransformationError

if TYPE_CHECKING:
    from uaef_frames.rows import SessionRows, TurnRow

FOLDER = Path(__file__).parent.parent / "samples" / "langgraph"
FILES = sorted(p.name for p in FOLDER.glob("*.jsonl"))
UNREADABLE = "single_agent_3turn.repr_UNRECOVERABLE.jsonl"
REJECTED = "mixed_topology_REJECT.model_dump.jsonl"

ROLES = {"user": "human", "assistant": "ai"}
STATUSES = {"ok": "success", "error": "error"}
SAID_ELSEWHERE = {"note", "why", "agent_nodes", "tool_nodes"}
"""Keys that explain a sample, or speak of nodes, which rows do not keep."""


def payloads(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (FOLDER / name).read_text().splitlines()]


def read(name: str) -> SessionRows:
    [(session_id, turns)] = group_payloads(payloads(name))
    return read_session(session_id, turns, ReadOptions())


def usage(turn: TurnRow) -> list[list[int | None]]:
    reported = [m for m in turn.messages if m.input_tokens is not None]
    return [[m.input_tokens, m.output_tokens] for m in reported]


def found(turn: TurnRow, session: SessionRows) -> dict[str, Any]:
    """What a turn's rows say, under the names that the samples use."""
    calls = turn.tool_calls
    answers = [m for m in turn.messages if m.role == "assistant" and m.content == turn.response]
    return {
        "topology": session.topology,
        "session_topology": session.topology,
        "agents": turn.agents,
        "agents_by_message_name": turn.agents,
        "roles": [ROLES.get(m.role, m.role) for m in turn.messages],
        "human": turn.query,
        "texts": [m.content for m in turn.messages if m.role == "assistant" and m.content],
        "answer": turn.response,
        "answer_agent": answers[-1].agent if answers else None,
        "interrupted": turn.interrupted,
        "tool_calls": [
            [c.name, c.tool_call_id, STATUSES[c.status]] for c in calls if c.status != "invalid"
        ],
        "invalid_tool_calls": [[c.name, c.tool_call_id] for c in calls if c.status == "invalid"],
        "handoffs": [[h.from_agent, h.to_agent] for h in turn.handoffs],
        "usage": usage(turn),
        "visible_usage": [sum(n or 0 for n in column) for column in zip(*usage(turn), strict=True)],
        "reject": False,
    }


@pytest.mark.parametrize("name", [f for f in FILES if f not in (UNREADABLE, REJECTED)])
def test_every_expectation_of_a_sample_holds(name: str) -> None:
    session = read(name)
    expected = [p["_expect"] for p in payloads(name)]
    assert len(session.turns) == len(expected)
    for turn, expect in zip(session.turns, expected, strict=True):
        got = found(turn, session)
        claimed = {k: v for k, v in expect.items() if k not in SAID_ELSEWHERE}
        if "agents_by_message_name" in claimed:
            del claimed["agents"]  # left open by the sample, which names them by message
        assert {k: got[k] for k in claimed} == claimed


@pytest.mark.parametrize("name", [f for f in FILES if f not in (UNREADABLE, REJECTED)])
def test_every_call_of_a_sample_stands_with_the_message_that_made_it(name: str) -> None:
    for turn in read(name).turns:
        for call in turn.tool_calls:
            assert call.message_index is not None
            caller = turn.messages[call.message_index]
            assert (caller.role, caller.agent) == ("assistant", call.agent)


def test_the_sample_that_mixes_topologies_is_rejected_with_a_way_out() -> None:
    with pytest.raises(AdapterTransformationError) as caught:
        read(REJECTED)
    error = caught.value
    assert error.session_id == "mixed-topology"
    assert error.adapter == "langgraph"
    for part in ("turn 1", "model", "turn 2", "supervisor", "topology='multi'", "agents=["):
        assert part in str(error)


def test_the_rejected_sample_can_be_read_when_its_topology_is_stated() -> None:
    [(session_id, turns)] = group_payloads(payloads(REJECTED))
    session = read_session(session_id, turns, ReadOptions(topology="multi"))
    assert session.topology == "multi"
    assert session.turns[1].query == "Flight AMS-LIS and weather?"
    assert session.turns[1].response == "KL1001 for 120 and 18C."


def test_messages_stored_as_repr_are_refused_with_ways_to_serialise() -> None:
    with pytest.raises(AdapterTransformationError) as caught:
        read(UNREADABLE)
    assert caught.value.turn_id == 1
    for way in ("messages_to_dict", "langchain_core.load.dumps", "model_dump()"):
        assert way in caught.value.reason


@pytest.mark.parametrize("form", ["messages_to_dict", "class_name", "openai"])
def test_one_conversation_has_the_same_rows_in_every_serialised_form(form: str) -> None:
    plain, other = (
        read("single_agent_3turn.model_dump.jsonl"),
        read(f"single_agent_3turn.{form}.jsonl"),
    )
    assert plain.turns == other.turns


def test_payload_tokens_stand_and_a_difference_is_told() -> None:
    turn = read("supervisor_2turn.last_message.messages_to_dict.jsonl").turns[0]
    assert (turn.input_tokens, turn.output_tokens) == (460, 47)
    assert any("460" in note and "370" in note for note in turn.notes)


def test_what_a_harness_wrote_is_no_answer_and_no_tool_use() -> None:
    turn = read("supervisor_2turn.full_history.model_dump.jsonl").turns[0]
    synthetic = [m.content for m in turn.messages if m.is_synthetic]
    assert synthetic.count("Transferring back to supervisor") == 2
    assert "Successfully transferred to flight_agent" in synthetic
    assert not any(c.name.startswith("transfer_") for c in turn.tool_calls)
    assert [h.event_type for h in turn.handoffs] == ["handoff", "handoff_back"] * 2
