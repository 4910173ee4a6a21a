"""OpenAI chat messages: one list a conversation, split into turns at each user message."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pydantic import BaseModel

from tests.helpers import TOOL_METRICS, expects, scores
from uaef_frames import (
    AdapterTransformationError,
    AgentTrace,
    ConfigError,
    OpenAIMessagesAdapter,
    batch_evaluate,
    evaluate,
    get_adapter,
)

if TYPE_CHECKING:
    from uaef_frames import Conversations, ToolCall

ADAPTER = OpenAIMessagesAdapter()


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def assistant(content: Any = None, *calls: dict[str, Any], **more: Any) -> dict[str, Any]:
    called = {"tool_calls": list(calls)} if calls else {}
    return {"role": "assistant", "content": content, **called, **more}


def call(call_id: str | None, name: str, arguments: Any = "{}") -> dict[str, Any]:
    named = {} if call_id is None else {"id": call_id}
    return {**named, "type": "function", "function": {"name": name, "arguments": arguments}}


def answer(call_id: str | None, content: Any, **more: Any) -> dict[str, Any]:
    named = {} if call_id is None else {"tool_call_id": call_id}
    return {"role": "tool", **named, "content": content, **more}


def tables(*messages: Any, **fields: Any) -> Conversations:
    return ADAPTER.to_conversations([{"session_id": "s", "messages": list(messages), **fields}])


def by_turn(*messages: Any) -> list[str]:
    """Each turn as the contents of its messages."""
    turns = ADAPTER.transform_to_canonical(list(messages))[0]["per_turn_traces"]
    return [" ".join(m.content for m in turn.messages) for turn in turns]


def calls_of(*messages: Any) -> list[ToolCall]:
    return ADAPTER.transform_to_canonical(list(messages))[0]["full_trace"].tool_calls


def outcomes(*messages: Any) -> list[tuple[Any, ...]]:
    return [(c.name, c.arguments, c.result, c.status) for c in calls_of(*messages)]


# Turns


def test_a_turn_begins_at_each_user_message() -> None:
    assert by_turn(
        user("q1"),
        assistant("", call("c", "f")),
        answer("c", "r1"),
        assistant("a1"),
        user("q2"),
        user("q3"),
        assistant("a3"),
        assistant("more"),
    ) == ["q1  r1 a1", "q2", "q3 a3 more"]


@pytest.mark.parametrize("role", ["system", "developer"])
def test_what_stands_before_the_first_user_message_belongs_to_the_first_turn(role: str) -> None:
    opening = {"role": role, "content": "Be brief."}
    assert by_turn(opening, user("q1"), assistant("a1"), user("q2")) == ["Be brief. q1 a1", "q2"]
    greeting = assistant("Hello!")
    assert by_turn(opening, greeting, user("q1"), user("q2")) == ["Be brief. Hello! q1", "q2"]
    # One later belongs to the turn that it stands in.
    assert by_turn(user("q1"), opening, user("q2")) == ["q1 Be brief.", "q2"]
    roles = tables(opening, user("q")).messages["role"].to_list()
    assert roles == ["system", "user"]


def test_without_any_user_message_there_is_one_turn() -> None:
    assert by_turn(assistant("Hello!"), assistant("Anyone?")) == ["Hello! Anyone?"]
    result = evaluate([assistant("Hello!")], metrics=["turn_efficiency"], adapter="openai")
    assert (result.overall_score, result.metadata["num_turns"]) == (None, 1)


def test_turns_have_query_and_response() -> None:
    found = tables(
        {"role": "system", "content": "Be brief."},
        user("q1"),
        assistant("I look", call("c", "f")),
        answer("c", "r"),
        assistant("a1"),
        assistant("  "),
        user("q2"),
        assistant("I look", call("d", "f")),
    )
    # What goes with a call is no answer, nor are blanks.
    assert found.turns.select("turn_id", "query", "response").rows() == [
        (1, "q1", "a1"),
        (2, "q2", None),
    ]
    assert found.turns["topology"].unique().to_list() == ["single"]


# Calls and their results


def test_arguments_are_read_from_json_text() -> None:
    found = outcomes(
        user("q"),
        assistant(
            None,
            call("a", "f", '{"city": "Lisbon", "near": {"km": 5.0}}'),
            call("b", "g", ""),
            call("c", "h", None),
            call("d", "i", {"x": 1}),
        ),
    )
    assert found == [
        ("f", {"city": "Lisbon", "near": {"km": 5}}, None, "pending"),
        ("g", {}, None, "pending"),
        ("h", {}, None, "pending"),
        ("i", {"x": 1}, None, "pending"),
    ]


@pytest.mark.parametrize("text", ['{"city": "Lis', "[1]", '"Lisbon"', "Lisbon", "null"])
def test_malformed_arguments_keep_the_call_and_its_text(text: str) -> None:
    messages = [
        user("q"),
        assistant(None, call("a", "f", text), call("b", "g", "{}")),
        answer("a", "Error: bad arguments"),
        answer("b", "ok"),
    ]
    bad, good = calls_of(*messages)
    assert (bad.name, bad.status, bad.raw_arguments, bad.arguments) == ("f", "invalid", text, {})
    assert (good.status, good.result) == ("ok", "ok")
    row = tables(*messages).tool_calls.row(0, named=True)
    assert (row["arguments"], row["raw_arguments"], row["status"]) == (None, text, "invalid")
    # It was called, in its place, with arguments that are not the expected ones.
    result = batch_evaluate([messages], [expects("f", "g")], metrics=TOOL_METRICS, adapter="openai")
    assert scores(result[0]) == dict(zip(TOOL_METRICS, (1.0, 1.0, 0.5), strict=True))


def test_parallel_calls_get_their_own_results_in_any_order() -> None:
    found = outcomes(
        user("q"),
        assistant(None, call("a", "f"), call("b", "g"), call("c", "h")),
        answer("c", "H"),
        answer("a", "F"),
    )
    assert found == [
        ("f", {}, "F", "ok"),
        ("g", {}, None, "pending"),
        ("h", {}, "H", "ok"),
    ]


def test_ids_that_are_used_again_in_one_message_are_answered_in_order() -> None:
    found = outcomes(
        user("q"),
        assistant(None, call("x", "f", '{"n": 1}'), call("x", "f", '{"n": 2}')),
        answer("x", "r1"),
        answer("x", "r2"),
    )
    assert found == [("f", {"n": 1}, "r1", "ok"), ("f", {"n": 2}, "r2", "ok")]


def test_ids_that_are_used_again_in_later_messages_answer_the_latest() -> None:
    found = outcomes(
        user("q1"),
        assistant(None, call("call_0", "f")),
        answer("call_0", "r1"),
        assistant(None, call("call_0", "g")),
        answer("call_0", "r2"),
        user("q2"),
        assistant(None, call("call_0", "h")),
        user("q3"),
        assistant(None, call("call_0", "i")),
        answer("call_0", "r4"),
    )
    # Nobody answered h; the last result is of the call before it.
    assert [(name, result) for name, _, result, _ in found] == [
        ("f", "r1"),
        ("g", "r2"),
        ("h", None),
        ("i", "r4"),
    ]


def test_without_ids_results_go_by_position() -> None:
    found = outcomes(
        user("q"),
        assistant(None, call(None, "f"), call(None, "g")),
        answer(None, "F"),
        answer(None, "G"),
    )
    assert [(name, result) for name, _, result, _ in found] == [("f", "F"), ("g", "G")]


def test_a_result_may_come_in_a_later_turn() -> None:
    held = ADAPTER.transform_to_canonical(
        [user("q1"), assistant(None, call("a", "f")), user("wait"), answer("a", "late")]
    )[0]
    first, second = held["per_turn_traces"]
    assert [(c.name, c.result) for c in first.tool_calls] == [("f", "late")]
    assert second.tool_calls == []


def test_results_that_answer_no_call_are_told() -> None:
    messages = [user("q"), answer("zz", "r"), assistant("a")]
    result = batch_evaluate([messages], metrics=["turn_efficiency"], adapter="openai")[0]
    assert result.warnings == ["a tool result answers no call (zz)"]
    assert result.overall_score == 1.0


def test_results_that_are_data_are_json_and_errors_are_errors() -> None:
    found = outcomes(
        user("q"),
        assistant(None, call("a", "f"), call("b", "g"), call("c", "h")),
        answer("a", {"b": 1, "a": [True]}),
        answer("b", [{"type": "text", "text": "one "}, {"type": "text", "text": "two"}]),
        answer("c", "no such city", status="error"),
    )
    assert [(result, status) for _, _, result, status in found] == [
        ('{"a":[true],"b":1}', "ok"),
        ("one two", "ok"),
        ("no such city", "error"),
    ]


def test_calls_in_the_form_before_tool_calls_are_read() -> None:
    found = outcomes(
        user("q"),
        assistant(None, function_call={"name": "f", "arguments": '{"x": 1}'}),
        {"role": "function", "name": "f", "content": "r"},
        assistant("a", function_call=None),
    )
    assert found == [("f", {"x": 1}, "r", "ok")]
    # Where both are there, the newer one counts, once.
    both = assistant(None, call("c", "f"), function_call={"name": "f", "arguments": "{}"})
    assert len(calls_of(user("q"), both)) == 1


# Contents


def test_blocks_are_read_as_their_text() -> None:
    picture = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
    found = tables(
        user([{"type": "text", "text": "What is "}, picture, {"type": "text", "text": "this?"}]),
        assistant([{"type": "text", "text": "A boat."}]),
    )
    assert found.messages["content"].to_list() == ["What is this?", "A boat."]
    assert found.turns.select("query", "response").row(0) == ("What is this?", "A boat.")


def test_content_may_be_null() -> None:
    found = tables(user("q"), assistant(None, call("c", "f")), assistant(None, refusal="No."))
    assert found.messages["content"].to_list() == ["q", "", ""]
    assert found.turns["response"].to_list() == [None]


def test_tokens_reasoning_and_names_are_kept() -> None:
    usage = {"prompt_tokens": 5, "completion_tokens": 2}
    full = ADAPTER.transform_to_canonical(
        [
            user("q"),
            assistant("hm", call("c", "f"), usage=usage, reasoning_content="I wonder", name="bot"),
            answer("c", "r"),
            assistant("a", usage=usage, id="msg_1"),
        ]
    )[0]["full_trace"]
    assert (full.input_tokens, full.output_tokens) == (10, 4)
    assert [(m.agent, m.reasoning) for m in full.messages if m.role == "assistant"] == [
        ("bot", "I wonder"),
        (None, None),
    ]
    assert full.messages[-1].message_id == "msg_1"
    assert full.tool_calls[0].agent == "bot"
    silent = ADAPTER.transform_to_canonical([user("q"), assistant("a")])[0]["full_trace"]
    assert (silent.input_tokens, silent.output_tokens) == (None, None)


class Function(BaseModel):
    name: str
    arguments: str


class Call(BaseModel):
    id: str
    function: Function
    type: str = "function"


class ChatCompletionMessage(BaseModel):
    """As OpenAI's client gives it, for people to append to their list of messages."""

    role: str = "assistant"
    content: str | None = None
    refusal: str | None = None
    tool_calls: list[Call] | None = None
    function_call: Function | None = None


def test_live_message_objects_are_read() -> None:
    function = Function(name="f", arguments='{"x": 1}')
    newer = ChatCompletionMessage(tool_calls=[Call(id="c", function=function)])
    older = ChatCompletionMessage(function_call=function)
    for message in (newer, older):
        chat = [user("q"), message, answer("c" if message is newer else None, "r")]
        assert outcomes(*chat) == [("f", {"x": 1}, "r", "ok")]
        full = ADAPTER.transform_to_canonical({"messages": chat})
        assert [(c.name, c.arguments, c.result) for c in full.tool_calls] == [("f", {"x": 1}, "r")]


# Records


def test_a_list_of_messages_is_one_conversation_and_a_list_of_records_several() -> None:
    chat = [user("q1"), assistant("a1"), user("q2")]
    [alone] = ADAPTER.transform_to_canonical(chat)
    assert (alone["session_id"], len(alone["per_turn_traces"])) == ("conversation-1", 2)
    several = ADAPTER.transform_to_canonical(
        [{"session_id": "x", "messages": chat}, {"session_id": 7, "messages": chat}, chat]
    )
    assert [s["session_id"] for s in several] == ["x", "7", "conversation-3"]
    full = ADAPTER.transform_to_canonical({"session_id": "x", "messages": chat})
    assert isinstance(full, AgentTrace)
    assert [m.content for m in full.messages] == ["q1", "a1", "q2"]


def test_the_rest_of_a_record_is_metadata() -> None:
    found = tables(
        user("q"),
        assistant("a"),
        scenario="refund",
        _note="left out",
        quality_score=0.5,
        workflow_status="failed",
    )
    row = found.turns.row(0, named=True)
    assert row["metadata"] == '{"scenario":"refund"}'
    assert (row["quality_score"], row["workflow_status"]) == (0.5, "failed")
    full = ADAPTER.transform_to_canonical({"messages": [user("q")], "scenario": "refund"})
    assert full.metadata == {"scenario": "refund"}


@pytest.mark.parametrize(
    ("records", "said"),
    [
        ([], "the list is empty"),
        ([[]], "messages is empty"),
        ({"session_id": "s", "messages": []}, "session 's': messages is empty"),
        ([{"session_id": "s"}], "record 1: expected a list of chat messages"),
        ([{"session_id": "s", "messages": "hello"}], "session 's': messages is a list"),
        ([{"session_id": 1.5, "messages": [user("q")]}], "record 1: session_id is text, not 1.5"),
        ([{"session_id": "s", "messages": [user("q")]}] * 2, "session 's': two records have"),
        (None, "record 1: expected a list of chat messages"),
        ("hello", "record 1: expected a list of chat messages"),
    ],
)
def test_records_that_are_no_conversations_are_errors(records: Any, said: str) -> None:
    with pytest.raises(AdapterTransformationError, match=said) as raised:
        ADAPTER.transform_to_canonical(records)
    assert raised.value.adapter == "openai"


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (7, "message 4: no message can be read from"),
        ({"role": "robot", "content": "x"}, "message 4: "),
        ({"content": "x"}, "message 4: "),
        ({"role": "assistant"}, "message 4: "),
        ("AIMessage(content='a', id='1')", "message 4: .*messages_to_dict"),
    ],
)
def test_errors_name_the_position_of_the_message(message: Any, said: str) -> None:
    record = {"session_id": "s", "messages": [user("q1"), assistant("a"), user("q2"), message]}
    with pytest.raises(AdapterTransformationError, match=said) as raised:
        ADAPTER.to_conversations([record])
    error = raised.value
    assert (error.adapter, error.session_id, error.turn_id) == ("openai", "s", 2)
    assert error.original_error is not None
    # The other conversations of a batch go on.
    good = {"session_id": "t", "messages": [user("q"), assistant("a")]}
    results = batch_evaluate([record, good], metrics=["turn_efficiency"], adapter="openai")
    assert [r.overall_score for r in results] == [None, 1.0]
    assert "message 4" in results[0].failures[0]


def test_adapters_are_found_by_name() -> None:
    assert isinstance(get_adapter("openai"), OpenAIMessagesAdapter)
    assert get_adapter("langgraph").name == "langgraph"
    assert get_adapter(ADAPTER) is ADAPTER
    with pytest.raises(
        ConfigError, match=r"Did you mean 'openai'\? There is 'langgraph', 'openai'"
    ):
        get_adapter("OpenAI")
    with pytest.raises(ConfigError, match=r"unknown adapter 'csv'\. There is"):
        get_adapter("csv")
