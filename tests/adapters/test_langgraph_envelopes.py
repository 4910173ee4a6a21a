from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.samples.langgraph_records import (
    Event,
    ai,
    asked,
    call,
    called,
    human,
    read,
    read_turn,
    said,
    tool,
    update,
)
from uaef_frames.adapters.langgraph.reader import ReadOptions
from uaef_frames.errors import AdapterTransformationError

if TYPE_CHECKING:
    from uaef_frames.rows import TurnRow

HUMAN = human("weather?", "h1")
ASKS = ai("", "a1", call("get_weather", "c1", city="LIS"), usage=(30, 5))
RESULT = tool("18C", "c1", "t1", name="get_weather", status="success")
ANSWERS = ai("It is 18C", "a2", usage=(50, 6))
THREAD = [HUMAN, ASKS, RESULT, ANSWERS]
NODES = ["model", "tools", "model"]

UPDATES = [{n: {"messages": [m]}} for n, m in zip(NODES, THREAD[1:], strict=True)]
STATES = [{"messages": THREAD[:n]} for n in range(1, 5)]


def meta(node: str, **more: Any) -> dict[str, Any]:
    return {"langgraph_node": node, "langgraph_checkpoint_ns": f"{node}:1", **more}


TUPLES = [[m, meta(n)] for n, m in zip(NODES, THREAD[1:], strict=True)]
TASKS = [
    {"id": str(i), "name": n, "error": None, "result": {"messages": [m]}, "interrupts": []}
    for i, (n, m) in enumerate(zip(NODES, THREAD[1:], strict=True))
]
STARTS = [
    {"id": str(i), "name": n, "input": {"messages": THREAD[:-1]}, "triggers": ["x"]}
    for i, n in enumerate(NODES)
]


def debug(kind: str, payload: Any) -> Event:
    return {"step": 1, "timestamp": "t", "type": kind, "payload": payload}


def wrapped(mode: str, items: list[Any]) -> dict[str, list[Event]]:
    """The same data in each envelope that carries a mode."""
    return {
        "pair": [(mode, d) for d in items],
        "json pair": [[mode, d] for d in items],
        "triple": [((), mode, d) for d in items],
        "v2": [{"type": mode, "ns": (), "data": d} for d in items],
        "sdk": [{"event": mode, "data": d} for d in items],
        "sdk tuple": [(mode, d, None) for d in items],
        "sdk v2": [{"type": mode, "ns": [], "data": d, "interrupts": []} for d in items],
    }


def v3(method: str, items: list[Any]) -> list[Event]:
    return [
        {"type": "event", "seq": i, "method": method, "params": {"namespace": [], "data": d}}
        for i, d in enumerate(items)
    ]


ENVELOPES: dict[str, list[Event]] = {
    "bare updates": UPDATES,
    "subgraph pairs": [((), u) for u in UPDATES],
    "bare values": STATES,
    "bare message tuples": TUPLES,
    "live tuples": [tuple(t) for t in TUPLES],
    "bare tasks": [e for pair in zip(STARTS, TASKS, strict=True) for e in pair],
    "debug": [
        debug("checkpoint", {"values": {"messages": THREAD}}),
        *[debug("task", s) for s in STARTS],
        *[debug("task_result", t) for t in TASKS],
    ],
    "debug of 0.4": [
        debug("task_result", {**t, "result": [["messages", t["result"]["messages"]]]})
        for t in TASKS
    ],
    "messages/complete": [
        e
        for n, m in zip(NODES, THREAD[1:], strict=True)
        for e in (
            {"event": "messages/metadata", "data": {m["id"]: {"metadata": meta(n)}}},
            {"event": "messages/partial", "data": [{**m, "content": "It"}]},
            {"event": "messages/complete", "data": [m]},
        )
    ],
    "astream_events": [
        {
            "event": "on_chain_start",
            "name": "g",
            "data": {"input": {"messages": [HUMAN]}},
            "metadata": {},
        },
        {"event": "on_chat_model_end", "data": {"output": ASKS}, "metadata": meta("model")},
        {
            "event": "on_chain_stream",
            "data": {"chunk": {"messages": [ASKS]}},
            "metadata": meta("model"),
        },
        {"event": "on_tool_end", "data": {"output": RESULT}, "metadata": meta("tools")},
        {"event": "on_chat_model_end", "data": {"output": ANSWERS}, "metadata": meta("model")},
        {
            "event": "on_chain_end",
            "name": "g",
            "data": {"output": {"messages": THREAD}},
            "metadata": {},
        },
    ],
    "v3 updates": v3("updates", UPDATES),
    "v3 values": v3("values", STATES),
    "v3 messages": v3("messages", TUPLES),
    **{f"updates {k}": v for k, v in wrapped("updates", UPDATES).items()},
    **{f"values {k}": v for k, v in wrapped("values", STATES).items()},
    **{f"messages {k}": v for k, v in wrapped("messages", TUPLES).items()},
    **{f"tasks {k}": v for k, v in wrapped("tasks", [*STARTS, *TASKS]).items()},
}


def is_the_conversation(turn: TurnRow) -> None:
    assert said(turn) == [
        ("user", "weather?"),
        ("assistant", ""),
        ("tool", "18C"),
        ("assistant", "It is 18C"),
    ]
    assert called(turn) == [("get_weather", '{"city":"LIS"}', "ok", "18C")]
    assert (turn.query, turn.response) == ("weather?", "It is 18C")
    assert (turn.input_tokens, turn.output_tokens) == (80, 11)
    assert not turn.interrupted
    assert not turn.handoffs


@pytest.mark.parametrize("name", ENVELOPES)
def test_every_envelope_gives_the_same_rows(name: str) -> None:
    turn = read_turn(asked("weather?", "h1"), *ENVELOPES[name])
    is_the_conversation(turn)
    assert turn.agents == ([] if "values" in name else ["model"])
    assert turn.notes == []


@pytest.mark.parametrize(
    "events",
    [
        [*STATES, *[("updates", u) for u in UPDATES]],
        [
            e
            for u, s, t in zip(UPDATES, STATES[1:], TUPLES, strict=True)
            for e in (("values", s), ("messages", t), ("updates", u), ("custom", 5))
        ],
        [*[("tasks", t) for t in TASKS], *[("values", s) for s in STATES]],
        [
            *[((), "messages", t) for t in TUPLES],
            *[((), "debug", debug("task_result", t)) for t in TASKS],
        ],
        [
            *v3("messages", TUPLES),
            *v3("values", STATES),
            *v3("lifecycle", [{"event": "completed"}]),
        ],
    ],
)
def test_several_modes_at_once_are_counted_once(events: list[Event]) -> None:
    is_the_conversation(read_turn(asked("weather?", "h1"), *events))


def test_the_mode_that_says_more_is_read_where_the_preferred_one_is_silent() -> None:
    silent = [("updates", {"model": None}), ("values", {"messages": THREAD})]
    is_the_conversation(read_turn(asked("weather?", "h1"), *silent))


def test_events_of_the_version_3_protocol_are_put_together_from_blocks() -> None:
    run = {"run_id": "r1", "langgraph_node": "model", "lc_agent_name": "travel"}
    blocks = [
        {"event": "message-start", "role": "ai", "id": "a1"},
        {"event": "content-block-start", "index": 0, "content": {"type": "text", "text": ""}},
        {
            "event": "content-block-delta",
            "index": 0,
            "delta": {"type": "text-delta", "text": "Let me "},
        },
        {
            "event": "content-block-finish",
            "index": 0,
            "content": {"type": "text", "text": "Let me look"},
        },
        {
            "event": "content-block-finish",
            "index": 1,
            "content": {"type": "tool_call", "id": "c1", "name": "f", "args": {"a": 1}},
        },
        {"event": "message-finish", "usage": {"input_tokens": 3, "output_tokens": 2}},
    ]
    finished = {"event": "tool-finished", "tool_call_id": "c1", "output": {"deg": 18}}
    turn = read_turn(*v3("messages", [[b, run] for b in blocks]), *v3("tools", [finished]))
    assert said(turn) == [("assistant", "Let me look"), ("tool", '{"deg":18}')]
    assert called(turn) == [("f", '{"a":1}', "ok", '{"deg":18}')]
    assert (turn.agents, turn.input_tokens) == (["travel"], 3)


def test_token_chunks_and_the_whole_message_are_one_row() -> None:
    chunks = [
        [{"type": "AIMessageChunk", "id": "a1", "content": text}, meta("model")]
        for text in ("It ", "is ", "18C")
    ]
    whole = [[ai("It is 18C", "a1", usage=(3, 4)), meta("model")]]
    assert said(read_turn(*chunks)) == [("assistant", "It is 18C")]
    turn = read_turn(*chunks, *whole)
    assert said(turn) == [("assistant", "It is 18C")]
    assert turn.output_tokens == 4


def test_chunks_without_ids_continue_the_one_before() -> None:
    def chunk(text: str, node: str) -> Event:
        return [{"type": "AIMessageChunk", "id": None, "content": text}, meta(node)]

    turn = read_turn(chunk("a", "x"), chunk("b", "x"), chunk("c", "y"))
    assert said(turn) == [("assistant", "ab"), ("assistant", "c")]


def test_what_middleware_asks_a_model_for_itself_is_no_message() -> None:
    internal = {**meta("SummarizationMiddleware.before_model"), "lc_source": "summarization"}
    turn = read_turn([ai("a summary", "z"), internal], [ai("hello", "a1"), meta("model")])
    assert said(turn) == [("assistant", "hello")]


def test_the_input_of_a_task_is_never_a_row() -> None:
    turn = read_turn(*STARTS, TASKS[0])
    assert said(turn) == [("assistant", "")]


def test_message_tuples_tell_the_graph_they_come_from() -> None:
    inner = {"langgraph_node": "agent", "langgraph_checkpoint_ns": "flights:1|agent:2"}
    assert read_turn([ai("x", "a1"), inner]).agents == ["flights"]


@pytest.mark.parametrize(
    "value",
    [
        {"messages": [ANSWERS]},
        {"messages": (ANSWERS,)},
        {"messages": ANSWERS},
        {"messages": ("ai", "It is 18C")},
        {"messages": ["ai", "It is 18C"]},
        {"messages": [("ai", "It is 18C")]},
        {"messages": [["ai", "It is 18C"]]},
        {"messages": [{"role": "assistant", "content": "It is 18C"}]},
        {"messages": [None, ANSWERS]},
        {"messages": {"__overwrite__": [ANSWERS]}},
        {"messages": {"value": [ANSWERS], "type": "__overwrite__"}},
        {"messages": {"$writes": [[ANSWERS], {"type": "remove", "id": "h1"}]}},
        [{"messages": [ANSWERS]}, None, {"messages": []}],
        [("messages", [ANSWERS])],
        [{"graph": None, "update": {"messages": [ANSWERS]}, "resume": None, "goto": "end"}],
        {"update": {"messages": [ANSWERS]}, "goto": [], "graph": None, "resume": None},
        ANSWERS,
        [ANSWERS],
        {"messages": [{"type": "remove", "id": "h1"}, ANSWERS]},
        {"messages": [{"type": "remove", "id": "__remove_all__"}, ANSWERS]},
    ],
)
def test_every_value_under_a_node_is_read(value: Any) -> None:
    turn = read_turn(asked("weather?"), {"model": value})
    assert said(turn) == [("user", "weather?"), ("assistant", "It is 18C")]
    assert turn.response == "It is 18C"
    assert turn.agents == ["model"]


def test_a_state_may_hold_one_message_instead_of_a_list() -> None:
    turn = read_turn({"messages": ANSWERS})
    assert (said(turn), turn.agents) == ([("assistant", "It is 18C")], [])


def test_a_tools_bare_output_in_astream_events_answers_by_name() -> None:
    turn = read_turn(
        {"event": "on_chat_model_end", "data": {"output": ASKS}, "metadata": meta("model")},
        {
            "event": "on_tool_end",
            "name": "get_weather",
            "data": {"output": {"deg": 18}},
            "metadata": meta("tools"),
        },
    )
    assert called(turn) == [("get_weather", '{"city":"LIS"}', "ok", '{"deg":18}')]


def test_text_under_messages_is_a_human_message() -> None:
    assert said(read_turn({"ask": {"messages": "hello"}})) == [("user", "hello")]


@pytest.mark.parametrize("silent", [None, {}, {"messages": []}, {"messages": None}, [], 5, "done"])
def test_a_node_that_says_nothing_is_no_error(silent: Any) -> None:
    turn = read_turn(asked("hi"), {"guard": silent}, update("model", ai("hello", "a1")))
    assert said(turn) == [("user", "hi"), ("assistant", "hello")]


def test_history_copies_and_dunder_keys_are_not_read() -> None:
    turn = read_turn(
        {"__start__": {"messages": [human("hi")]}},
        {"pre_model_hook": {"llm_input_messages": [human("hi"), ai("old")]}},
        {"model": {"messages": [ai("hello", "a1")]}, "__metadata__": {"cached": True}},
    )
    assert said(turn) == [("assistant", "hello")]


def test_one_event_can_hold_several_nodes() -> None:
    event = {"a": {"messages": [ai("one", "1")]}, "b": {"messages": [ai("two", "2")]}}
    assert read_turn(event).agents == ["a", "b"]


def test_a_node_may_be_called_messages() -> None:
    turn = read_turn({"messages": {"messages": [ai("hello", "a1")]}})
    assert (said(turn), turn.agents) == ([("assistant", "hello")], ["messages"])


@pytest.mark.parametrize(
    "interrupt",
    [
        {"__interrupt__": [{"value": {"question": "Which city?"}, "id": "1"}]},
        {"__interrupt__": ()},
        {"__interrupt__": []},
        {"__interrupt__": [{"value": "Which city?", "resumable": True, "ns": ["a:1"]}]},
        {
            "__interrupt__": [
                {
                    "lc": 1,
                    "type": "not_implemented",
                    "id": ["Interrupt"],
                    "repr": "Interrupt(value='Which city?')",
                }
            ]
        },
        {"__interrupt__": "(Interrupt(value='Which city?'),)"},
        ("updates", {"__interrupt__": [{"value": "Which city?", "id": "1"}]}),
        {"event": "updates", "data": {"__interrupt__": [{"value": "Which city?"}]}},
        {"messages": [human("weather?", "h1")], "__interrupt__": [{"value": "Which city?"}]},
        {
            "type": "values",
            "ns": [],
            "data": {"messages": []},
            "interrupts": [{"value": "Which city?"}],
        },
        {
            "id": "1",
            "name": "ask",
            "error": None,
            "result": {},
            "interrupts": [{"value": "Which city?"}],
        },
        {
            "type": "event",
            "method": "values",
            "params": {
                "namespace": [],
                "data": {"messages": []},
                "interrupts": [{"value": "Which city?"}],
            },
        },
    ],
)
def test_an_interrupt_is_seen_in_every_form(interrupt: Event) -> None:
    turn = read_turn(asked("weather?", "h1"), interrupt)
    assert turn.interrupted
    assert turn.response is None
    assert any(note.startswith("interrupted") for note in turn.notes)
    assert turn.messages[0].content == "weather?"


def test_an_empty_interrupts_field_is_no_interrupt() -> None:
    part = {"type": "updates", "ns": [], "data": UPDATES[-1], "interrupts": []}
    assert not read_turn(part).interrupted


def test_a_turn_that_was_resumed_and_answered_is_not_interrupted() -> None:
    turn = read_turn(
        asked("weather?"),
        {"__interrupt__": [{"value": "Which city?"}]},
        update("agent", human("Lisbon", "h2"), ai("18C in Lisbon", "a1")),
    )
    assert not turn.interrupted
    assert turn.response == "18C in Lisbon"
    assert turn.query == "weather?\n\nLisbon"


def test_a_failed_run_says_so() -> None:
    turn = read_turn(
        asked("hi"),
        *UPDATES[:1],
        {"event": "error", "data": {"error": "ValueError", "message": "boom"}},
    )
    assert turn.workflow_status == "failed"
    assert any("boom" in note for note in turn.notes)
    assert called(turn)[0][2] == "pending"


def test_a_handoff_that_a_task_reports_as_exception_is_no_failure() -> None:
    task = {**TASKS[0], "error": "ParentCommand(Command(goto='bob'))"}
    assert read_turn(task).workflow_status is None


@pytest.mark.parametrize(
    ("events", "words"),
    [
        (
            [("custom", {"progress": 5}), ("checkpoints", {"values": {}})],
            ["1 checkpoints, 1 custom", "stream_mode='updates'"],
        ),
        ([{"agent": {"chat_history": [ai("x")]}}], ["agent", "messages_key='chat_history'"]),
        ([{"plan": None}], ["plan"]),
        ([{"step": {"total": 5}}], ["step", "total"]),
        ([], ["no stream events"]),
    ],
)
def test_events_without_conversation_leave_a_note_not_silence(
    events: Any, words: list[str]
) -> None:
    turn = read_turn(*events)
    assert turn.messages == []
    [note] = turn.notes
    for word in words:
        assert word in note


def test_another_messages_key_can_be_read() -> None:
    options = ReadOptions(messages_key="chat_history")
    events = [asked("hi"), {"agent": {"chat_history": [ai("hello", "a1")]}}]
    assert said(read_turn(*events, options=options)) == [("user", "hi"), ("assistant", "hello")]
    state = [asked("hi"), {"chat_history": [human("hi"), ai("hello", "a1")], "n": 1}]
    assert said(read_turn(*state, options=options)) == [("user", "hi"), ("assistant", "hello")]


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (7, "event 1"),
        (None, "event 1"),
        ("some token", "event 1"),
        ([1, 2, 3], "event 1"),
        ({1: {"messages": []}}, "event 1"),
        (
            "{'model': {'messages': [AIMessage(content='x', additional_kwargs={})]}}",
            "messages_to_dict",
        ),
        ({"model": {"messages": [{"foo": 1}]}}, "event 1, node 'model'"),
        ({"model": {"messages": 5}}, "event 1, node 'model'"),
        ({"model": "{'messages': [AIMessage(content='x')]}"}, "messages_to_dict"),
        (["AIMessageChunk(content='x')", {"langgraph_node": "model"}], "messages_to_dict"),
    ],
)
def test_an_event_that_cannot_be_read_is_an_error_with_its_place(event: Any, words: str) -> None:
    with pytest.raises(AdapterTransformationError) as caught:
        read([asked("hi"), event])
    assert words in caught.value.reason
    assert (caught.value.session_id, caught.value.turn_id) == ("s", 1)
