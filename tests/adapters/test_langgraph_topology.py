from __future__ import annotations

from typing import Any

import pytest

from tests.samples.langgraph_records import (
    ai,
    asked,
    call,
    called,
    human,
    passed,
    read,
    read_turn,
    tool,
    update,
)
from uaef_frames.adapters.langgraph.reader import ReadOptions
from uaef_frames.errors import AdapterTransformationError

SOLO = [asked("q1"), update("model", ai("one", "m1"))]
TEAM = [asked("q2"), update("boss", ai("two", "b1")), update("clerk", ai("three", "c1"))]


@pytest.mark.parametrize(
    ("emitted", "agent"),
    [
        (update("model", ai("x", "1", name="travel")), "travel"),
        ([ai("x", "1"), {"langgraph_node": "model", "lc_agent_name": "travel"}], "travel"),
        ([["team:1", "flights:2"], update("agent", ai("x", "1"))], "flights"),
        ([["tools:1"], update("agent", ai("x", "1"))], "agent"),
        (update("model", ai("x", "1")), "model"),
    ],
)
def test_an_agent_is_called_by_the_first_name_there_is(emitted: Any, agent: str) -> None:
    turn = read_turn(emitted)
    assert turn.agents == [agent]
    assert turn.messages[0].agent == agent


@pytest.mark.parametrize(
    "node",
    [
        "Todo.before_agent",
        "PII.before_model",
        "HITL.after_model",
        "X.after_agent",
        "pre_model_hook",
        "post_model_hook",
    ],
)
def test_middleware_is_no_agent(node: str) -> None:
    session = read([asked("q"), update("model", ai("x", "a1")), update(node, ai("y", "a2"))])
    assert session.topology == "single"
    assert session.turns[0].agents == ["model"]


def test_a_tool_node_is_no_agent_and_a_node_that_does_both_is_one() -> None:
    both = update("agent", ai("", "a1", call("f", "c1")), tool("r", "c1", "t1"), ai("x", "a2"))
    session = read([both, update("my_tools", tool("r2", "c9", "t2"))])
    assert (session.topology, session.turns[0].agents) == ("single", ["agent"])


def test_an_unnamed_message_of_a_named_agents_model_is_that_agents() -> None:
    turn = read_turn(
        update("model", ai("x", "a1", name="travel")), update("model", ai("cached", "a2"))
    )
    assert turn.agents == ["travel"]


def test_a_formatter_counts_as_an_agent_and_is_named_in_a_note() -> None:
    turn = read_turn(update("writer", ai("x", "a1", usage=(5, 1))), update("format", ai("X", "a2")))
    assert turn.agents == ["writer", "format"]
    assert any("format" in note and "usage" in note for note in turn.notes)


def test_a_session_that_mixes_topologies_is_rejected_in_words() -> None:
    with pytest.raises(AdapterTransformationError) as caught:
        read(SOLO, TEAM)
    reason = caught.value.reason
    for words in (
        "turn 1 (single-agent: model)",
        "turn 2 (multi-agent: boss, clerk)",
        "topology='multi'",
    ):
        assert words in reason
    assert caught.value.session_id == "s"


@pytest.mark.parametrize("topology", ["single", "multi"])
def test_a_stated_topology_stands(topology: Any) -> None:
    assert read(SOLO, TEAM, options=ReadOptions(topology=topology)).topology == topology
    assert read(SOLO, TEAM, topology=topology).topology == topology


def test_named_agents_say_what_the_session_is() -> None:
    options = ReadOptions(agents=("model", "boss"))
    session = read(SOLO, TEAM, options=options)
    assert session.topology == "multi"
    assert session.turns[1].agents == ["boss"]
    assert session.turns[1].messages[2].agent is None
    assert read(SOLO, TEAM, agents=["boss"]).topology == "single"


def test_a_turn_that_shares_an_agent_belongs_to_the_team() -> None:
    session = read(TEAM, [asked("q3"), update("clerk", ai("four", "c2"))])
    assert session.topology == "multi"
    assert session.turns[1].agents == ["clerk"]


def test_a_turn_that_shares_a_silent_router_belongs_to_the_team() -> None:
    routed = [
        asked("q"),
        {"router": None},
        update("boss", ai("x", "x1")),
        update("clerk", ai("y", "y1")),
    ]
    alone = [asked("q"), {"router": None}, update("billing", ai("z", "z1"))]
    assert read(routed, alone).topology == "multi"


def test_a_swarm_that_moved_on_to_a_third_agent_is_one_session() -> None:
    def hand(giver: str, taker: str, n: int) -> list[Any]:
        return [
            asked(f"q{n}"),
            update(giver, ai("", f"g{n}", call(f"transfer_to_{taker}", f"c{n}"), name=giver)),
            update(taker, ai("hi", f"t{n}", name=taker)),
        ]

    session = read(
        hand("alice", "bob", 1),
        hand("bob", "carol", 2),
        [asked("q3"), update("carol", ai("x", "x"))],
    )
    assert session.topology == "multi"


def test_a_quiet_turn_says_nothing_about_topology() -> None:
    interrupt = [asked("q0"), {"__interrupt__": [{"value": "?"}]}]
    assert read(interrupt, TEAM).topology == "multi"
    assert read(interrupt, SOLO).topology == "single"
    assert read([asked("q")], [asked("q")]).topology == "single"


def test_one_agent_a_turn_but_another_each_time_is_a_team() -> None:
    session = read(
        [asked("q1"), {"router": None}, update("billing", ai("x", "1"))],
        [asked("q2"), {"router": None}, update("tech", ai("y", "2"))],
    )
    assert session.topology == "multi"


def test_a_swarms_state_shows_a_team_though_one_agent_spoke() -> None:
    session = read([asked("q"), update("alice", ai("x", "1"), active_agent="alice")])
    assert session.topology == "multi"


def transfer(giver: str, name: str, call_id: str, text: str, **more: Any) -> list[Any]:
    return [
        ai("", f"{giver}-{call_id}", call(name, call_id), name=giver),
        tool(text, call_id, f"t-{call_id}", name=name, **more),
    ]


def test_a_marked_handoff_is_no_tool_use_whatever_its_name() -> None:
    marked = transfer(
        "boss", "delegate", "c1", "ok", response_metadata={"__handoff_destination": "clerk"}
    )
    turn = read_turn(
        asked("q"), update("boss", *marked), update("clerk", ai("done", "x", name="clerk"))
    )
    assert called(turn) == []
    assert passed(turn) == [("boss", "clerk", "handoff")]
    assert turn.messages[2].is_synthetic


def test_a_swarms_handoff_is_known_by_state_even_if_the_other_never_spoke() -> None:
    moved = transfer("alice", "transfer_to_bob", "c1", "Successfully transferred to bob")
    turn = read_turn(
        asked("q"), update("alice", *moved, active_agent="bob"), {"__interrupt__": [{"value": 1}]}
    )
    assert passed(turn) == [("alice", "bob", "handoff")]
    assert called(turn) == []


def test_a_handoff_names_the_agent_as_it_is_called() -> None:
    moved = transfer("boss", "transfer_to_flight_agent", "c1", "ok")
    turn = read_turn(update("boss", *moved), update("x", ai("hi", "f", name="Flight Agent")))
    assert passed(turn) == [("boss", "Flight Agent", "handoff")]


def test_a_transfer_to_people_by_an_agent_that_goes_on_alone_is_a_tool() -> None:
    name = "transfer_to_human_agents"
    turn = read_turn(
        asked("help"),
        update("agent", ai("", "a1", call(name, "c1", summary="angry"))),
        update("tools", tool("Transfer successful", "c1", "t1")),
        update("agent", ai("You are being transferred", "a2")),
    )
    assert called(turn) == [(name, '{"summary":"angry"}', "ok", "Transfer successful")]
    assert (turn.handoffs, turn.agents) == ([], ["agent"])


def test_a_handoff_that_failed_is_a_failed_call() -> None:
    failed = transfer("boss", "transfer_to_nobody", "c1", "Error: not a valid tool", status="error")
    turn = read_turn(update("boss", *failed), update("clerk", ai("hi", "x", name="clerk")))
    assert [(c[0], c[2]) for c in called(turn)] == [("transfer_to_nobody", "error")]
    assert not any(h.to_agent == "nobody" for h in turn.handoffs)


def test_of_parallel_handoffs_copies_are_not_new_calls_of_the_model() -> None:
    two = ai(
        "",
        "b1",
        call("transfer_to_a", "c1"),
        call("transfer_to_b", "c2"),
        name="boss",
        usage=(9, 1),
    )
    turn = read_turn(
        asked("q", "h"),
        [["boss:1"], update("agent", two)],
        [
            [],
            update(
                "a",
                human("q", "h"),
                ai("", "x1", call("transfer_to_a", "c1"), name="boss"),
                tool("ok", "c1", "t1"),
                ai("of a", "a1", name="a"),
            ),
        ],
        [
            [],
            update(
                "b",
                human("q", "h"),
                ai("", "x2", call("transfer_to_b", "c2"), name="boss"),
                tool("ok", "c2", "t2"),
                ai("of b", "b2", name="b"),
            ),
        ],
    )
    assert passed(turn) == [("boss", "a", "handoff"), ("boss", "b", "handoff")]
    assert [m.content for m in turn.messages if m.role == "assistant"] == ["", "of a", "of b"]
    assert called(turn) == []


def test_a_supervisor_that_goes_by_command_hands_off_and_gets_back() -> None:
    turn = read_turn(
        asked("q"),
        update("boss", ai("clerk, please", "1")),
        update("clerk", ai("facts", "2")),
        update("boss", ai("so it is", "3")),
    )
    assert passed(turn) == [("boss", "clerk", "handoff"), ("clerk", "boss", "handoff_back")]


def test_a_supervisor_without_handoff_messages_is_known_by_the_nodes_that_ran() -> None:
    turn = read_turn(
        asked("q", "h"),
        update("boss", human("q", "h")),
        update("clerk", human("q", "h"), ai("facts", "2", name="clerk")),
        update(
            "boss", human("q", "h"), ai("facts", "2", name="clerk"), ai("done", "3", name="boss")
        ),
    )
    assert passed(turn) == [("boss", "clerk", "handoff"), ("clerk", "boss", "handoff_back")]


def test_an_agent_that_leaves_through_its_own_tool_hands_off() -> None:
    left = [ai("", "1", call("escalate", "c1"), name="alice"), tool("escalated", "c1", "t1")]
    turn = read_turn(asked("q"), update("alice", *left), update("bob", ai("hi", "2", name="bob")))
    assert passed(turn) == [("alice", "bob", "handoff")]
    assert [c[0] for c in called(turn)] == ["escalate"]


@pytest.mark.parametrize(
    "events",
    [
        [update("draft", ai("x", "1")), update("polish", ai("y", "2"))],
        [
            update("ask", ai("", "1", call("search", "c1"))),
            update("retrieve", tool("r", "c1", "t")),
            update("answer", ai("y", "2")),
        ],
        [
            [["a:1"], update("agent", ai("", "1", call("f", "c1"), name="a"))],
            [["b:2"], update("agent", ai("", "2", call("f", "c2"), name="b"))],
            [["a:1"], update("tools", tool("r", "c1", "t1"))],
            [["a:1"], update("agent", ai("of a", "3", name="a"))],
            [["b:2"], update("tools", tool("r", "c2", "t2"))],
            [["b:2"], update("agent", ai("of b", "4", name="b"))],
            [
                [],
                update(
                    "a",
                    ai("", "1", call("f", "c1"), name="a"),
                    tool("r", "c1", "t1"),
                    ai("of a", "3", name="a"),
                ),
            ],
        ],
    ],
)
def test_a_pipeline_hands_nothing_off(events: list[Any]) -> None:
    session = read([asked("q"), *events])
    assert session.topology == "multi"
    assert session.turns[0].handoffs == []


def test_work_that_comes_back_without_a_word_is_a_handoff_back_where_others_are_marked() -> None:
    out = transfer(
        "boss",
        "transfer_to_clerk",
        "c1",
        "ok",
        response_metadata={"__handoff_destination": "clerk"},
    )
    turn = read_turn(
        asked("q"),
        update("boss", *out),
        update("clerk", ai("facts", "2", name="clerk")),
        update("boss", ai("done", "3", name="boss")),
    )
    assert passed(turn) == [("boss", "clerk", "handoff"), ("clerk", "boss", "handoff_back")]


def test_the_words_that_went_with_a_handoff_are_kept() -> None:
    says = ai("Let me get Bob", "1", call("transfer_to_bob", "c1"), name="alice")
    asks = ai("", "2", call("transfer_to_alice", "c2", task="check it"), name="bob")
    turn = read_turn(
        update("alice", says, tool("ok", "c1", "t1")),
        update("bob", asks, tool("ok", "c2", "t2")),
        update("alice", ai("x", "3", name="alice")),
    )
    assert [h.message for h in turn.handoffs] == ["Let me get Bob", '{"task":"check it"}']
