from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.samples.langgraph_records import ai, asked, read, update
from uaef_frames.adapters.langgraph.payloads import check_payload, group_payloads
from uaef_frames.adapters.langgraph.reader import ReadOptions, read_session, read_single
from uaef_frames.errors import AdapterTransformationError
from uaef_frames.rows import stack

WORDS = st.sampled_from(
    [
        "messages",
        "model",
        "tools",
        "agent",
        "__human__",
        "__interrupt__",
        "__start__",
        "type",
        "event",
        "data",
        "ns",
        "content",
        "role",
        "id",
        "name",
        "tool_calls",
        "args",
        "function",
        "arguments",
        "tool_call_id",
        "status",
        "additional_kwargs",
        "response_metadata",
        "usage_metadata",
        "payload",
        "result",
        "interrupts",
        "error",
        "params",
        "method",
        "lc",
        "kwargs",
        "constructor",
        "updates",
        "values",
        "debug",
        "tasks",
        "task_result",
        "on_chat_model_end",
        "on_tool_end",
        "output",
        "metadata",
        "langgraph_node",
        "human",
        "ai",
        "tool",
        "remove",
        "chat",
        "AIMessageChunk",
        "tool_call_chunks",
        "index",
        "text",
        "messages/complete",
        "messages|a:1",
        "active_agent",
        "structured_response",
        "hitl_edited_tool_calls",
        "goto",
        "update",
        "$writes",
        "__overwrite__",
        "value",
        "transfer_to_model",
        "__handoff_destination",
        "__is_handoff_back",
        "lc_source",
        "generations",
        "message",
        "content-block-finish",
        "message-start",
        "run_id",
        "HITL.after_model",
        "c1",
        "lifecycle",
        "protocol",
        "__return__",
    ]
)
LEAVES = st.one_of(
    WORDS,
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=5),
    st.binary(max_size=3),
    st.just("\ud800"),
    st.just(10**30),
    st.just("AIMessage(content='x')"),
)
KEYS = st.one_of(WORDS, WORDS, WORDS, st.text(max_size=3), st.integers(), st.none(), st.booleans())
GARBAGE = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(KEYS, inner, max_size=5),
        st.tuples(inner, inner),
        st.sets(st.integers(), max_size=2),
    ),
    max_leaves=25,
)
MESSAGES = st.fixed_dictionaries(
    {
        "type": st.sampled_from(
            ["human", "ai", "tool", "system", "remove", "AIMessageChunk", "function"]
        )
    },
    optional={
        "content": GARBAGE,
        "id": st.one_of(st.sampled_from([None, "1", "2"]), GARBAGE),
        "name": st.one_of(st.sampled_from([None, "a", "b", "transfer_to_a"]), GARBAGE),
        "tool_calls": st.one_of(
            st.lists(
                st.fixed_dictionaries(
                    {
                        "name": st.sampled_from(["f", "transfer_to_a", "pass_to_b", None]),
                        "args": st.one_of(st.just({}), GARBAGE),
                        "id": st.sampled_from(["c1", "c2", None]),
                    }
                ),
                max_size=3,
            ),
            GARBAGE,
        ),
        "tool_call_id": st.sampled_from(["c1", "c2", None, 5]),
        "status": st.sampled_from(["success", "error", None]),
        "response_metadata": GARBAGE,
        "additional_kwargs": GARBAGE,
        "usage_metadata": GARBAGE,
        "tool_call_chunks": GARBAGE,
    },
)
UPDATES = st.dictionaries(
    st.sampled_from(["a", "b", "tools", "__human__", "X.after_model", "__interrupt__"]),
    st.one_of(
        st.fixed_dictionaries(
            {"messages": st.one_of(st.lists(MESSAGES, max_size=4), GARBAGE)},
            optional={
                "active_agent": LEAVES,
                "structured_response": GARBAGE,
                "hitl_edited_tool_calls": GARBAGE,
            },
        ),
        GARBAGE,
    ),
    max_size=2,
)
EVENTS = st.one_of(
    UPDATES,
    st.tuples(st.lists(st.sampled_from(["a:1", "tools:2"]), max_size=2), UPDATES),
    st.tuples(MESSAGES, st.fixed_dictionaries({"langgraph_node": GARBAGE})),
    st.fixed_dictionaries({"messages": st.lists(MESSAGES, max_size=4)}),
    st.tuples(
        st.sampled_from(["updates", "values", "messages", "tasks", "debug", "custom"]), GARBAGE
    ),
    st.fixed_dictionaries({"event": WORDS, "data": GARBAGE}, optional={"metadata": GARBAGE}),
    st.fixed_dictionaries({"type": WORDS, "ns": GARBAGE, "data": GARBAGE, "interrupts": GARBAGE}),
    st.fixed_dictionaries({"type": st.just("event"), "method": WORDS, "params": GARBAGE}),
    GARBAGE,
)
RUNS = settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))


@RUNS
@given(GARBAGE)
def test_no_payload_raises_anything_but_the_adapters_error(record: Any) -> None:
    for read_it in (
        lambda: check_payload(record, 1),
        lambda: group_payloads(record),
        lambda: read_single(record, ReadOptions()),
    ):
        with contextlib.suppress(AdapterTransformationError):
            read_it()


@RUNS
@given(
    st.lists(st.lists(EVENTS, max_size=4), min_size=1, max_size=3),
    st.sampled_from(["auto", "multi", "single"]),
)
def test_whatever_is_in_the_events_rows_fit_their_tables_or_the_error_is_the_adapters(
    turns: list[list[Any]], topology: Any
) -> None:
    with contextlib.suppress(AdapterTransformationError):
        session = read(*turns, options=ReadOptions(topology=topology))
        frames = stack([session])
        assert frames["turns"].height == len(turns)
        for turn in session.turns:
            for call in turn.tool_calls:
                assert call.message_index is not None
            assert all(m.role in ("user", "assistant", "system", "tool") for m in turn.messages)


@RUNS
@given(st.lists(UPDATES, max_size=5))
def test_reading_twice_gives_the_same(events: list[Any]) -> None:
    def outcome() -> Any:
        try:
            return read(events)
        except AdapterTransformationError as error:
            return error.reason

    assert outcome() == outcome()


def deep(levels: int) -> Any:
    value: Any = "x"
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "event",
    [
        deep(5000),
        {"model": deep(5000)},
        {"model": {"messages": deep(5000)}},
        update("model", ai("", "a", {"name": "f", "args": {"x": deep(5000)}, "id": "c"})),
    ],
)
def test_what_is_nested_too_deeply_is_the_adapters_error(event: Any) -> None:
    with pytest.raises(AdapterTransformationError):
        read([asked("q"), event])


def test_a_record_that_breaks_while_it_is_read_is_the_adapters_error() -> None:
    class Broken(dict[str, Any]):
        def get(self, *args: Any) -> Any:
            raise KeyError("broken")

        def items(self) -> Any:
            raise TypeError("broken")

    for attempt in (
        lambda: check_payload(Broken(), 1),
        lambda: read([Broken(a=1)]),
        lambda: read([update("model", Broken(type="ai", content="x"))]),
        lambda: read_single(Broken(), ReadOptions()),
    ):
        with pytest.raises(AdapterTransformationError) as caught:
            attempt()
        assert caught.value.original_error is not None


def test_an_error_in_one_turn_names_it() -> None:
    payloads = [
        {"session_id": "s", "turn_id": 1, "stream_events": [asked("q")]},
        {"session_id": "s", "turn_id": 2, "stream_events": [asked("q"), 5]},
    ]
    [(session_id, turns)] = group_payloads(payloads)
    with pytest.raises(AdapterTransformationError) as caught:
        read_session(session_id, turns, ReadOptions())
    assert (caught.value.session_id, caught.value.turn_id) == ("s", 2)
    assert "event 1" in caught.value.reason
