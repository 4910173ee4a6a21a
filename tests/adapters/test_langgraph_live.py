"""Real graphs, run here: live objects and every stream mode give the same rows."""

from __future__ import annotations

import asyncio
import json
import warnings
from typing import TYPE_CHECKING, Any

import pytest

from tests.samples.langgraph_records import called, passed, read, read_turn, said

pytest.importorskip("langgraph")
messages = pytest.importorskip("langchain_core.messages")

from langchain.agents import create_agent  # noqa: E402
from langchain.agents.middleware import HumanInTheLoopMiddleware, ModelCallLimitMiddleware  # noqa: E402
from langchain_core.language_models import BaseChatModel  # noqa: E402
from langchain_core.load import dumpd  # noqa: E402
from langchain_core.messages import (  # noqa: E402
    AIMessage,
    AIMessageChunk,
    HumanMessage,
    RemoveMessage,
    ToolMessage,
    messages_to_dict,
)
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult  # noqa: E402
from langchain_core.tools import tool  # noqa: E402
from langgraph.checkpoint.memory import InMemorySaver  # noqa: E402
from langgraph.graph import START, MessagesState, StateGraph  # noqa: E402
from langgraph.types import Command, Interrupt, Overwrite, interrupt  # noqa: E402

if TYPE_CHECKING:
    from uaef_frames.rows import TurnRow

CONFIG: Any = {"configurable": {"thread_id": "1"}}
MODES = [
    "updates",
    "values",
    "messages",
    "tasks",
    "debug",
    ["updates", "values", "messages", "debug", "custom"],
]


class Scripted(BaseChatModel):
    """Says what it was given, in chunks if it is asked to stream."""

    script: list[AIMessage]
    chunked: bool = False

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, *_: Any, **__: Any) -> Any:
        return self

    def _generate(self, *_: Any, **__: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self.script.pop(0))])


class Streaming(Scripted):
    def _stream(self, *_: Any, **__: Any) -> Any:
        message = self.script.pop(0)
        for call in message.tool_calls:
            text = json.dumps(call["args"])
            for start, part in ((True, ""), (False, text[:4]), (False, text[4:])):
                fragment = {
                    "name": call["name"] if start else None,
                    "id": call["id"] if start else None,
                    "args": part,
                    "index": 0,
                    "type": "tool_call_chunk",
                }
                yield chunk(message, tool_call_chunks=[fragment])
        for word in str(message.content).split():
            yield chunk(message, content=word if word == "18C" else f"{word} ")
        yield chunk(message, usage_metadata=message.usage_metadata, chunk_position="last")


def chunk(message: AIMessage, content: str = "", **more: Any) -> ChatGenerationChunk:
    return ChatGenerationChunk(message=AIMessageChunk(content=content, id=message.id, **more))


def says(text: str, id: str, name: str = "", args: Any = None, tokens: int = 10) -> AIMessage:
    calls = [{"name": name, "args": args or {}, "id": f"call-{id}"}] if name else []
    usage = {"input_tokens": tokens, "output_tokens": 2, "total_tokens": tokens + 2}
    return AIMessage(text, id=id, tool_calls=calls, usage_metadata=usage)


@tool
def get_weather(city: str) -> str:
    """Weather of a city."""
    return f"{city}: 18C"


def weather_agent(model: type[Scripted] = Scripted, **more: Any) -> Any:
    script = [says("", "a1", "get_weather", {"city": "LIS"}), says("It is 18C", "a2")]
    return create_agent(model(script=script), [get_weather], name="travel", **more)


def record(graph: Any, given: Any, **how: Any) -> list[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return list(graph.stream(given, CONFIG, **how))


def ask(graph: Any, text: str, **how: Any) -> list[Any]:
    human = {"__human__": {"messages": [HumanMessage(text)]}}
    return [human, *record(graph, {"messages": [HumanMessage(text)]}, **how)]


def is_the_weather(turn: TurnRow) -> None:
    assert said(turn) == [
        ("user", "weather?"),
        ("assistant", ""),
        ("tool", "LIS: 18C"),
        ("assistant", "It is 18C"),
    ]
    assert called(turn) == [("get_weather", '{"city":"LIS"}', "ok", "LIS: 18C")]
    assert [m.agent for m in turn.messages] == [None, "travel", "travel", "travel"]
    assert (turn.query, turn.response, turn.agents) == ("weather?", "It is 18C", ["travel"])
    assert (turn.input_tokens, turn.output_tokens) == (20, 4)
    assert (turn.notes, turn.handoffs) == ([], [])


@pytest.mark.parametrize("model", [Scripted, Streaming])
@pytest.mark.parametrize("version", ["v1", "v2"])
@pytest.mark.parametrize("subgraphs", [False, True])
@pytest.mark.parametrize("mode", MODES, ids=str)
def test_every_stream_mode_gives_the_same_rows(
    mode: Any, subgraphs: bool, version: str, model: type[Scripted]
) -> None:
    how = {"stream_mode": mode, "subgraphs": subgraphs, "version": version}
    is_the_weather(read_turn(*ask(weather_agent(model), "weather?", **how)))


@pytest.mark.parametrize("model", [Scripted, Streaming])
@pytest.mark.parametrize("version", ["v1", "v2", "v3"])
def test_streamed_events_give_the_same_rows(version: str, model: type[Scripted]) -> None:
    graph, given = weather_agent(model), {"messages": [HumanMessage("weather?")]}

    async def events() -> list[Any]:
        return [e async for e in graph.astream_events(given, version=version)]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if version == "v3":
            found = list(graph.stream_events(given, version="v3"))
        else:
            found = asyncio.run(events())
    is_the_weather(read_turn({"__human__": {"messages": [("user", "weather?")]}}, *found))


def serialised(value: Any, how: Any) -> Any:
    if isinstance(value, messages.BaseMessage):
        return how(value)
    if isinstance(value, dict):
        return {k: serialised(v, how) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [serialised(v, how) for v in value]
    return value


@pytest.mark.parametrize(
    "how",
    [
        lambda m: m.model_dump(),
        lambda m: messages_to_dict([m])[0],
        dumpd,
        lambda m: json.loads(m.model_dump_json()),
    ],
    ids=["model_dump", "messages_to_dict", "dumpd", "json"],
)
@pytest.mark.parametrize("mode", ["updates", "values", "messages"])
def test_live_objects_and_their_serialised_forms_are_the_same(mode: str, how: Any) -> None:
    events = ask(weather_agent(Streaming), "weather?", stream_mode=mode)
    assert read(serialised(events, how)) == read(events)


def test_odd_live_messages_are_read() -> None:
    turn = read_turn(
        {"__human__": {"messages": [HumanMessage([{"type": "text", "text": "hi"}])]}},
        {"a": Command(update={"messages": [AIMessage("one", id="1")]}, goto="b")},
        {
            "b": [
                Command(update={"messages": AIMessage("two", id="2")}),
                {"messages": [RemoveMessage("1")]},
            ]
        },
        {"c": {"messages": Overwrite([AIMessage("two", id="2"), AIMessage("three", id="3")])}},
        {"d": {"messages": [RemoveMessage("__remove_all__"), ("ai", "four")]}},
        {"e": AIMessage("five", id="5")},
        {"f": {"messages": [ToolMessage({"a": 1}.__str__(), tool_call_id="x", id="6")]}},
        {"__interrupt__": (Interrupt(value={"question": "sure?"}, id="i"),)},
    )
    texts = ["hi", "one", "two", "three", "four", "five", "{'a': 1}"]
    assert [m.content for m in turn.messages] == texts
    assert turn.interrupted
    assert 'interrupted: {"question":"sure?"}' in turn.notes


@tool
def send(to: str) -> str:
    """Send a mail."""
    return f"sent to {to}"


@pytest.mark.parametrize("mode", ["updates", "tasks", "debug", ["updates", "values"]], ids=str)
@pytest.mark.parametrize(
    ("decision", "arguments", "status"),
    [
        ({"type": "approve"}, '{"to":"bob"}', "ok"),
        ({"type": "reject", "message": "no"}, '{"to":"bob"}', "error"),
        (
            {"type": "edit", "edited_action": {"name": "send", "args": {"to": "eve"}}},
            '{"to":"eve"}',
            "ok",
        ),
        ({"type": "respond", "message": "did it"}, '{"to":"bob"}', "ok"),
    ],
)
def test_a_persons_decision_is_one_conversation(
    decision: Any, arguments: str, status: str, mode: Any
) -> None:
    script = [says("", "a1", "send", {"to": "bob"}), says("All right", "a2")]
    review = HumanInTheLoopMiddleware(interrupt_on={"send": True})
    agent = create_agent(
        Scripted(script=script), [send], middleware=[review], checkpointer=InMemorySaver()
    )
    first = ask(agent, "mail bob", stream_mode=mode)
    second = record(agent, Command(resume={"decisions": [decision]}), stream_mode=mode)
    before, after = read(first, second).turns
    assert (before.interrupted, before.response) == (True, None)
    assert [(c.arguments, c.status) for c in before.tool_calls] == [(arguments, status)]
    assert [m.role for m in after.messages] == ["tool", "assistant"]
    assert (after.query, after.response, after.agents) == (None, "All right", ["model"])
    assert after.tool_calls == []


@pytest.mark.parametrize("mode", ["updates", "values"])
def test_a_question_in_a_subgraph_is_answered_in_the_next_turn(mode: str) -> None:
    def ask_city(_: Any) -> Any:
        city = interrupt({"question": "Which city?"})
        return {"messages": [HumanMessage(city), AIMessage(f"18C in {city}")]}

    team = StateGraph(MessagesState).add_node("ask", ask_city).add_edge(START, "ask").compile()
    graph = StateGraph(MessagesState).add_node("team", team).add_edge(START, "team")
    run = graph.compile(checkpointer=InMemorySaver())
    first, second = read(
        ask(run, "weather?", stream_mode=mode),
        record(run, Command(resume="Lisbon"), stream_mode=mode),
    ).turns
    assert (first.interrupted, first.query) == (True, "weather?")
    assert (second.query, second.response) == ("Lisbon", "18C in Lisbon")


@pytest.mark.parametrize("mode", ["updates", "values", "messages"])
def test_a_limit_is_no_answer(mode: str) -> None:
    agent = weather_agent(middleware=[ModelCallLimitMiddleware(run_limit=1, exit_behavior="end")])
    turn = read_turn(*ask(agent, "weather?", stream_mode=mode))
    assert turn.response is None
    assert turn.messages[-1].is_synthetic
    assert turn.agents == ["travel"]


@pytest.mark.parametrize("subgraphs", [False, True])
def test_agents_side_by_side_hand_nothing_off(subgraphs: bool) -> None:
    graph = StateGraph(MessagesState)
    for name in ("north", "south"):
        script = [says("", f"{name}1", "get_weather", {"city": name}), says("done", f"{name}2")]
        graph.add_node(name, create_agent(Scripted(script=script), [get_weather], name=name))
        graph.add_edge(START, name)
    turn = read_turn(*ask(graph.compile(), "weather?", subgraphs=subgraphs, stream_mode="updates"))
    assert sorted(turn.agents) == ["north", "south"]
    assert turn.handoffs == []
    assert len(turn.messages) == 7
    assert {(c.agent, c.result) for c in turn.tool_calls} == {
        ("north", "north: 18C"),
        ("south", "south: 18C"),
    }


SUPERVISED = ["updates", "values", "tasks", "debug", ["updates", "values", "messages"]]


@pytest.mark.parametrize("serialise", [False, True], ids=["listed", "logged"])
@pytest.mark.parametrize("subgraphs", [False, True])
@pytest.mark.parametrize("mode", SUPERVISED, ids=str)
def test_a_supervisor_reads_the_same_however_it_is_streamed(
    mode: Any, subgraphs: bool, serialise: bool
) -> None:
    supervisor = pytest.importorskip("langgraph_supervisor")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        flights = create_agent(
            Scripted(script=[says("", "f1", "get_weather", {"city": "LIS"}), says("KL1001", "f2")]),
            [get_weather],
            name="flights",
        )
        boss = Scripted(
            script=[
                says("", "s1", "transfer_to_flights"),
                says("Take KL1001", "s2"),
                says("Bye", "s3"),
            ]
        )
        graph = supervisor.create_supervisor([flights], model=boss, output_mode="full_history")
        run = graph.compile(checkpointer=InMemorySaver())

        def events(text: str) -> list[Any]:
            given = {"messages": [HumanMessage(text)]}
            stream = run.stream(given, CONFIG, stream_mode=mode, subgraphs=subgraphs)
            # Logged as it is yielded, before the reducer has given ids to what has none.
            found = [serialised(e, lambda m: m.model_dump()) if serialise else e for e in stream]
            return [{"__human__": {"messages": [("user", text)]}}, *found]

        session = read(events("a flight?"), events("thanks"))
    first, second = session.turns
    assert session.topology == "multi"
    assert first.agents == ["supervisor", "flights"]
    assert passed(first) == [
        ("supervisor", "flights", "handoff"),
        ("flights", "supervisor", "handoff_back"),
    ]
    assert called(first) == [("get_weather", '{"city":"LIS"}', "ok", "LIS: 18C")]
    assert [m.content for m in first.messages if not m.is_synthetic] == [
        "a flight?",
        "",
        "",
        "LIS: 18C",
        "KL1001",
        "Take KL1001",
    ]
    assert (first.response, first.input_tokens) == ("Take KL1001", 40)
    assert said(second) == [("user", "thanks"), ("assistant", "Bye")]
    assert second.handoffs == []
