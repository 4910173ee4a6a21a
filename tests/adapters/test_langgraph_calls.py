from __future__ import annotations

from typing import Any

import pytest

from tests.samples.langgraph_records import (
    ai,
    asked,
    call,
    called,
    human,
    read,
    read_turn,
    tool,
    update,
)


def results(*events: Any) -> list[tuple[str, str | None, str]]:
    return [(name, result, status) for name, _, status, result in called(read_turn(*events))]


def test_results_out_of_order_find_their_calls() -> None:
    assert results(
        update("model", ai("", "a1", call("f", "A"), call("g", "B"))),
        update("tools", tool("of g", "B")),
        update("tools", tool("of f", "A", status="error")),
    ) == [("f", "of f", "error"), ("g", "of g", "ok")]


def test_an_id_used_again_belongs_to_the_nearest_open_call() -> None:
    turn = [
        update("agent", ai("", None, call("f", "x", n=1))),
        update("tools", tool("same", "x", name="f")),
        update("agent", ai("", None, call("f", "x", n=1))),
        update("tools", tool("same", "x", name="f")),
        update("agent", ai("", None, call("f", "x", n=2))),
        update("tools", tool("other", "x", name="f")),
    ]
    assert [r for _, r, _ in results(*turn)] == ["same", "same", "other"]
    assert len(read_turn(*turn).messages) == 6


def test_an_id_used_in_every_turn_belongs_to_that_turn() -> None:
    first, second = read(
        [asked("1"), update("agent", ai("", None, call("f", "call_0")))],
        [
            asked("2"),
            update("agent", ai("", None, call("f", "call_0"))),
            update("tools", tool("r", "call_0")),
        ],
    ).turns
    assert [c.status for c in first.tool_calls] == ["pending"]
    assert [c.result for c in second.tool_calls] == ["r"]


def test_one_id_twice_in_one_message_is_answered_in_order() -> None:
    assert results(
        update("model", ai("", "a1", call("f", "x"), call("f", "x"))),
        update("tools", tool("first", "x"), tool("second", "x")),
    ) == [("f", "first", "ok"), ("f", "second", "ok")]


def test_parallel_agents_with_one_id_are_told_apart_by_the_tools_name() -> None:
    assert results(
        update("a", ai("", "a1", call("f", "call_0"))),
        update("b", ai("", "b1", call("g", "call_0"))),
        update("tools", tool("of f", "call_0", name="f")),
        update("tools", tool("of g", "call_0", name="g")),
    ) == [("f", "of f", "ok"), ("g", "of g", "ok")]


def test_calls_and_results_without_ids_go_by_name_and_order() -> None:
    assert results(
        update("model", ai("", "a1", call("f", None, n=1), call("g", None), call("f", None, n=2))),
        update("tools", tool("g1", None, name="g"), tool("f1", None, name="f"), tool("f2", None)),
    ) == [("f", "f1", "ok"), ("g", "g1", "ok"), ("f", "f2", "ok")]


def test_a_result_with_an_id_for_calls_without_is_not_lost() -> None:
    assert results(
        update("model", ai("", "a1", call("f", None))), update("tools", tool("r", "c9"))
    ) == [("f", "r", "ok")]


def test_a_legacy_function_result_goes_by_its_name() -> None:
    function = {"role": "function", "name": "f", "content": "r"}
    legacy = ai(
        "", "a1", additional_kwargs={"function_call": {"name": "f", "arguments": '{"a": 1}'}}
    )
    assert called(read_turn(update("model", legacy), update("tools", function))) == [
        ("f", '{"a":1}', "ok", "r")
    ]


def test_a_result_in_a_later_turn_is_filled_into_the_earlier_call() -> None:
    first, second = read(
        [
            asked("mail bob"),
            update("model", ai("", "a1", call("send", "c1"))),
            {"__interrupt__": [{"value": "ok?"}]},
        ],
        [update("tools", tool("sent", "c1", "t1")), update("model", ai("Done", "a2"))],
    ).turns
    assert called(first) == [("send", "{}", "ok", "sent")]
    assert first.tool_calls[0].message_index == 1
    assert called(second) == []
    assert second.messages[0].agent == "model"
    assert (first.response, second.response) == (None, "Done")


def test_a_result_without_a_call_is_a_message_and_no_call() -> None:
    turn = read_turn(asked("q"), update("tools", tool("r", "gone", name="f")), update("m", ai("x")))
    assert called(turn) == []
    assert [m.role for m in turn.messages] == ["user", "tool", "assistant"]
    assert turn.messages[1].agent is None


def test_a_second_result_of_one_call_changes_nothing() -> None:
    turn = read_turn(
        update("model", ai("", "a1", call("f", "c1"))),
        update("tools", tool("first", "c1", "t1")),
        update("tools", tool("second", "c1", "t2")),
    )
    assert called(turn) == [("f", "{}", "ok", "first")]
    assert len(turn.messages) == 3


def test_an_error_is_kept_in_call_and_message() -> None:
    turn = read_turn(
        update("model", ai("", "a1", call("f", "c1"))),
        update("tools", tool("no", "c1", status="error")),
    )
    assert (turn.tool_calls[0].status, turn.messages[1].is_error) == ("error", True)


def test_a_malformed_call_stays_invalid_whatever_answers_it() -> None:
    bad = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{oops"}}
    turn = read_turn(
        update("model", {"role": "assistant", "content": "", "tool_calls": [bad]}),
        update("tools", tool("cannot parse", "c1")),
    )
    [row] = turn.tool_calls
    assert (row.status, row.arguments, row.raw_arguments, row.result) == (
        "invalid",
        None,
        "{oops",
        "cannot parse",
    )


@pytest.mark.parametrize("again", [True, False])
def test_a_persons_edit_is_what_ran_and_a_note_says_what_was_written(again: bool) -> None:
    original = ai("", "a1", call("send", "c1", to="bob"), usage=(5, 1))
    edit = {
        "HumanInTheLoopMiddleware.after_model": {
            "messages": [original] if again else [],
            "hitl_edited_tool_calls": {"c1": {"name": "send", "args": {"to": "eve"}}},
        }
    }
    repeated = update(
        "agent", human("mail", "h1"), original, tool("sent to eve", "c1", "t1"), ai("ok", "a2")
    )
    first, second = read([asked("mail", "h1"), update("model", original)], [edit, repeated]).turns
    assert called(first) == [("send", '{"to":"eve"}', "ok", "sent to eve")]
    assert any('"bob"' in note for note in second.notes)


def test_a_persons_rejection_answers_the_call_with_an_error() -> None:
    rejection = tool(
        "User rejected the tool call",
        "c1",
        "t1",
        status="error",
        additional_kwargs={"lc_source": "hitl_interrupt_decision"},
    )
    first, second = read(
        [asked("mail"), update("model", ai("", "a1", call("send", "c1")))],
        [
            update(
                "HumanInTheLoopMiddleware.after_model", ai("", "a1", call("send", "c1")), rejection
            ),
            update("model", ai("As you wish", "a2")),
        ],
    ).turns
    assert called(first) == [("send", "{}", "error", "User rejected the tool call")]
    assert [(m.role, m.is_synthetic) for m in second.messages] == [
        ("tool", True),
        ("assistant", False),
    ]
    assert second.agents == ["model"]


def test_calls_carry_the_agent_that_made_them() -> None:
    turn = read_turn(
        [["team:1", "flights:2"], update("agent", ai("", "a1", call("f", "c1")))],
        [["team:1", "flights:2"], update("tools", tool("r", "c1", "t1"))],
    )
    assert turn.tool_calls[0].agent == "flights"
    assert turn.messages[1].agent == "flights"
