from __future__ import annotations

from typing import Any

import pytest

from tests.samples.langgraph_records import ai, human, read_turn, tool, update
from uaef_frames.adapters.langgraph.chunks import join
from uaef_frames.adapters.langgraph.messages import Msg, Unreadable, read_message


def lc(name: str, **kwargs: Any) -> dict[str, Any]:
    return {
        "lc": 1,
        "type": "constructor",
        "id": ["langchain_core", "messages", name],
        "kwargs": kwargs,
    }


@pytest.mark.parametrize(
    ("form", "role"),
    [
        ("hello", "user"),
        (("human", "hello"), "user"),
        (["user", "hello"], "user"),
        (["ai", "hello"], "assistant"),
        ({"role": "user", "content": "hello"}, "user"),
        ({"role": "developer", "content": "hello"}, "system"),
        ({"role": "assistant", "content": [{"type": "output_text", "text": "hello"}]}, "assistant"),
        ({"type": "HumanMessage", "content": "hello"}, "user"),
        ({"type": "AIMessageChunk", "content": "hello"}, "assistant"),
        ({"type": "human", "data": {"content": "hello", "type": "human"}}, "user"),
        (lc("SystemMessage", content="hello"), "system"),
        (lc("AIMessage", content="hello", type="ai"), "assistant"),
        ({"type": "chat", "role": "user", "content": "hello"}, "user"),
        ({"type": "ChatMessage", "role": "critic", "content": "hello"}, "assistant"),
        ({"type": "function", "name": "f", "content": "hello"}, "tool"),
        ({"type": "message", "role": "assistant", "content": "hello"}, "assistant"),
    ],
)
def test_every_form_of_a_message_is_read(form: Any, role: str) -> None:
    msg = read_message(form)
    assert (msg.role, msg.text) == (role, "hello")


def test_a_free_role_is_the_name_of_who_speaks() -> None:
    assert read_message({"type": "chat", "role": "critic", "content": "x"}).name == "critic"


@pytest.mark.parametrize(
    "stored",
    [
        "AIMessage(content='hi', id='1')",
        "content='hi' additional_kwargs={} response_metadata={}",
        "[HumanMessage(content='hi')]",
        "Overwrite(value=[AIMessage(content='x')])",
    ],
)
def test_a_stringified_message_says_how_to_serialise(stored: str) -> None:
    with pytest.raises(Unreadable, match=r"messages_to_dict.*dumps.*model_dump"):
        read_message(stored)


@pytest.mark.parametrize(
    "garbage",
    [
        None,
        5,
        True,
        {},
        {"type": "ai"},
        {"type": ["ai"], "content": "x"},
        {"foo": 1},
        [],
        ["ai"],
        {"lc": 1, "type": "not_implemented", "id": ["x"], "repr": "Foo()"},
    ],
)
def test_what_is_no_message_is_refused(garbage: Any) -> None:
    with pytest.raises(Unreadable):
        read_message(garbage)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("plain", "plain"),
        (None, ""),
        ([], ""),
        (["a ", {"type": "text", "text": "b"}, {"type": "image_url", "image_url": {}}], "a b"),
        ([{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "x"}], "x"),
        ([{"type": "tool_use", "id": "1", "name": "f", "input": {}}], ""),
        ([{"text": "as bedrock writes it"}], "as bedrock writes it"),
        ("lone \ud800 surrogate", "lone � surrogate"),
    ],
)
def test_text_is_what_a_person_reads(content: Any, text: str) -> None:
    assert read_message(ai(content)).text == text


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ({"a": [1, 2], "ok": True}, '{"a":[1,2],"ok":true}'),
        ([{"price": 1}, {"price": 2}], '[{"price":1},{"price":2}]'),
        ([{"type": "file", "name": "a.txt"}], '[{"name":"a.txt","type":"file"}]'),
        ([{"type": "text", "text": "18C"}, {"type": "image", "base64": "AA"}], "18C"),
        ([{"type": "image", "base64": "AA"}], ""),
        ([{"type": "json", "json": {"b": 1}}], '{"b":1}'),
        (["a", "b"], "ab"),
        ([], "[]"),
        (True, "true"),
        (0, "0"),
        (1.5, "1.5"),
        (None, ""),
    ],
)
def test_any_result_of_a_tool_is_text_or_json_text(content: Any, text: str) -> None:
    turn = read_turn(update("tools", tool(content, "c1")))
    assert turn.messages[0].content == text


@pytest.mark.parametrize(
    "message",
    [
        ai([{"type": "thinking", "thinking": "plan"}, {"type": "text", "text": "x"}]),
        ai([{"type": "reasoning", "summary": [{"type": "summary_text", "text": "plan"}]}]),
        ai([{"type": "reasoning", "reasoning": "plan"}]),
        ai("x", additional_kwargs={"reasoning_content": "plan"}),
        ai("x", additional_kwargs={"reasoning": {"summary": [{"text": "plan"}]}}),
        {"role": "assistant", "content": "x", "reasoning_content": "plan"},
    ],
)
def test_reasoning_is_kept_apart_from_the_text(message: Any) -> None:
    msg = read_message(message)
    assert msg.reasoning == "plan"
    assert "plan" not in msg.text


def test_call_arguments_become_canonical_json() -> None:
    call = {"name": "f", "args": {"b": 1.0, "a": [True, None, "é"]}, "id": "c1"}
    [row] = read_message(ai("", None, call)).calls
    assert (row.name, row.arguments, row.tool_call_id) == ("f", '{"a":[true,null,"é"],"b":1}', "c1")
    assert row.status == "pending"


@pytest.mark.parametrize(
    ("arguments", "canonical", "raw"),
    [
        ('{"city": "LIS"}', '{"city":"LIS"}', None),
        ("", "{}", None),
        (None, "{}", None),
        ('{"city": ', None, '{"city": '),
        ("[1]", None, "[1]"),
        ("null", None, "null"),
        ([1, 2], None, "[1,2]"),
        (7, None, "7"),
    ],
)
def test_arguments_that_are_no_object_make_the_call_invalid(
    arguments: Any, canonical: str | None, raw: str | None
) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": arguments}}
    [row] = read_message({"role": "assistant", "content": None, "tool_calls": [call]}).calls
    assert (row.arguments, row.raw_arguments) == (canonical, raw)
    assert row.status == ("invalid" if canonical is None else "pending")


def test_invalid_tool_calls_stand_beside_the_good_ones() -> None:
    good = {"name": "f", "args": {}, "id": "c1"}
    bad = {"name": "g", "args": "{oops", "id": "c2", "error": "x", "type": "invalid_tool_call"}
    rows = read_message(ai("", None, good, invalid_tool_calls=[bad])).calls
    assert [(r.name, r.status, r.raw_arguments) for r in rows] == [
        ("f", "pending", None),
        ("g", "invalid", "{oops"),
    ]


@pytest.mark.parametrize(
    "message",
    [
        ai(
            "",
            additional_kwargs={
                "tool_calls": [{"id": "c1", "function": {"name": "f", "arguments": '{"a":1}'}}]
            },
        ),
        ai([{"type": "tool_use", "id": "c1", "name": "f", "input": {"a": 1}}]),
        ai([{"type": "function_call", "call_id": "c1", "name": "f", "arguments": '{"a": 1}'}]),
        ai([{"type": "tool_call", "id": "c1", "name": "f", "args": {"a": 1}}]),
    ],
)
def test_raw_forms_are_read_where_tool_calls_is_empty(message: Any) -> None:
    [row] = read_message(message).calls
    assert (row.name, row.arguments, row.tool_call_id) == ("f", '{"a":1}', "c1")


def test_a_call_told_in_three_ways_is_one_call() -> None:
    message = ai(
        [{"type": "tool_use", "id": "c1", "name": "f", "input": {}}],
        None,
        {"name": "f", "args": {}, "id": "c1"},
        additional_kwargs={
            "tool_calls": [{"id": "c1", "function": {"name": "f", "arguments": "{}"}}]
        },
    )
    assert len(read_message(message).calls) == 1


@pytest.mark.parametrize(
    ("fields", "usage"),
    [
        ({"usage_metadata": {"input_tokens": 5, "output_tokens": 2}}, (5, 2)),
        (
            {
                "usage_metadata": {
                    "input_tokens": 105,
                    "output_tokens": 9,
                    "input_token_details": {"cache_read": 100},
                }
            },
            (105, 9),
        ),
        (
            {"response_metadata": {"token_usage": {"prompt_tokens": 5, "completion_tokens": 2}}},
            (5, 2),
        ),
        ({"response_metadata": {"usage": {"prompt_tokens": 5, "completion_tokens": 2}}}, (5, 2)),
        (
            {
                "response_metadata": {
                    "usage": {"input_tokens": 5, "cache_read_input_tokens": 100, "output_tokens": 2}
                }
            },
            (105, 2),
        ),
        (
            {"additional_kwargs": {"usage_metadata": {"input_tokens": 5, "output_tokens": 2}}},
            (5, 2),
        ),
        ({"usage_metadata": None, "response_metadata": {}}, (None, None)),
        ({"usage_metadata": {"input_tokens": True, "output_tokens": "2"}}, (None, None)),
        ({"usage_metadata": {"input_tokens": 10**30, "output_tokens": 2}}, (None, 2)),
    ],
)
def test_usage_is_found_and_cached_tokens_are_counted_once(fields: Any, usage: Any) -> None:
    msg = read_message(ai("x", **fields))
    assert (msg.input_tokens, msg.output_tokens) == usage


def test_unknown_tokens_are_not_zero() -> None:
    turn = read_turn(update("model", ai("x", "a1")))
    assert (turn.input_tokens, turn.output_tokens) == (None, None)


def test_chunks_add_up_and_their_calls_are_parsed_at_the_end() -> None:
    def chunk(text: str = "", usage: Any = None, *fragments: dict[str, Any]) -> Msg:
        return read_message(
            {
                "type": "AIMessageChunk",
                "id": "a",
                "content": text,
                "tool_calls": [{"name": "f", "args": {}, "id": "c1"}] if fragments else [],
                "tool_call_chunks": list(fragments),
                "usage_metadata": usage,
            }
        )

    msg = join(
        [
            chunk("It ", None, {"name": "f", "args": "", "id": "c1", "index": 0}),
            chunk("is", None, {"name": None, "args": '{"ci', "id": None, "index": 0}),
            chunk("", {"input_tokens": 3, "output_tokens": 1}, {"args": 'ty": 1}', "index": 0}),
            chunk(
                "",
                {"input_tokens": 0, "output_tokens": 4},
                {"name": "g", "args": "{}", "id": "c2", "index": 1},
            ),
        ]
    )
    assert msg.text == "It is"
    assert [(c.name, c.arguments, c.tool_call_id) for c in msg.calls] == [
        ("f", '{"city":1}', "c1"),
        ("g", "{}", "c2"),
    ]
    assert (msg.input_tokens, msg.output_tokens) == (3, 5)


def test_a_summary_of_older_versions_is_known_by_its_opening() -> None:
    message = human("Here is a summary of the conversation to date:\n\nHe asked for a flight.")
    assert read_message(message).lc_source == "summarization"
