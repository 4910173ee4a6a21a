"""The workflow's notebook code runs as it was given, with only the package's name changed.

The graph is a real LangGraph graph with a scripted model.
"""

# The concatenation of lists stands in the workflow's own code.
# ruff: noqa: RUF005
from __future__ import annotations

import copy
from typing import Any

import pytest

pytest.importorskip("langgraph")
pytest.importorskip("langchain")

from langchain.agents import create_agent
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from uaef_frames import (
    AgentTrace,
    LangGraphAdapter,
    MultiAgentEvaluator,
    SingleAgentEvaluator,
    batch_evaluate,
    build_ground_truth,
    build_multi_turn_ground_truth,
    evaluate,
    parse_ground_truth_row,
)

METRICS = [
    "tool_selection_accuracy",
    "tool_sequence_correctness",
    "parameter_quality",
    "latency_score",
    "prompt_injection_detection",
    "turn_efficiency",
]


@tool
def search_flights(origin: str, destination: str) -> str:
    """Search flights."""
    return f"{origin} to {destination}: KL1001"


@tool
def get_weather(city: str) -> str:
    """Get the weather."""
    return f"{city}: 18C"


class Scripted(GenericFakeChatModel):
    """Says what it is told to, one message after the other."""

    def bind_tools(self, *_: Any, **__: Any) -> Scripted:
        return self


def calls(name: str, **arguments: Any) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": name, "args": arguments, "id": f"c-{name}"}])


def graph_that_says(*script: AIMessage) -> Any:
    return create_agent(
        Scripted(messages=iter(script)),
        tools=[search_flights, get_weather],
        checkpointer=InMemorySaver(),
    )


def test_single_turn_batch() -> None:
    gt_json = [
        {
            "Question": "A flight from AMS to LIS?",
            "Answer": "KL1001.",
            "expected_tool_calls": [
                {"name": "search_flights", "arguments": {"origin": "AMS", "destination": "LIS"}}
            ],
        },
        {"Question": "Weather in Lisbon?", "Answer": "18C.", "tools": '[{"name": "get_weather"}]'},
    ]
    graph = graph_that_says(
        calls("search_flights", origin="AMS", destination="LIS"),
        AIMessage("KL1001."),
        calls("get_weather", city="Lisbon"),
        AIMessage("18C."),
    )
    adapter = LangGraphAdapter()
    latency = 2.5
    turn_payloads = []
    ground_truths = []
    for i, row in enumerate(gt_json):
        run_config = {"configurable": {"thread_id": f"t{i}"}}
        query = parse_ground_truth_row(row, query_only=True)
        events = list(
            graph.stream(
                {"messages": [HumanMessage(content=query)]}, run_config, stream_mode="updates"
            )
        )
        turn_payloads.append(
            {
                "session_id": f"batch_booking_{i}",
                "turn_id": 1,
                "stream_events": [{"__human__": {"messages": [HumanMessage(content=query)]}}]
                + events,
                "latency": latency,
            }
        )
        _, gt = build_ground_truth(row, events=events)
        ground_truths.append(gt)
    traces = adapter.transform_to_canonical(turn_payloads)
    batch_results = batch_evaluate(traces=traces, ground_truths=ground_truths, metrics=METRICS)

    assert [r.session_id for r in batch_results] == ["batch_booking_0", "batch_booking_1"]
    assert ground_truths[0].context_documents == ["AMS to LIS: KL1001"]
    first, second = (scores(r) for r in batch_results)
    assert first["tool_selection_accuracy"] == first["parameter_quality"] == 1.0
    assert first["latency_score"] == 0.8
    # No argument was expected and one was given: 0 of 1 keys.
    assert (second["tool_selection_accuracy"], second["parameter_quality"]) == (1.0, 0.0)


def test_multi_turn_batch() -> None:
    sessions = {
        "s1": [
            {
                "query": "A flight from AMS to LIS?",
                "Answer": "KL1001.",
                "tools": [
                    {"name": "search_flights", "args": {"origin": "AMS", "destination": "LIS"}}
                ],
            },
            {
                "query": "And the weather?",
                "Answer": "18C.",
                "tools": [{"name": "get_weather", "args": {"city": "LIS"}}],
            },
            {"query": "Thanks", "Answer": "Welcome.", "tools": []},
        ],
        "s2": [
            {
                "query": "Weather in Rome?",
                "Answer": "18C.",
                "tools": [{"name": "get_weather", "args": {"city": "Rome"}}],
            }
        ],
    }
    graph = graph_that_says(
        calls("search_flights", origin="AMS", destination="LIS"),
        AIMessage("KL1001."),
        calls("search_flights", origin="LIS", destination="LIS"),
        AIMessage("No idea."),
        AIMessage("Welcome."),
        calls("get_weather", city="Rome"),
        AIMessage("18C."),
    )
    adapter = LangGraphAdapter()
    turn_latency = 1.0
    all_turn_payloads = []
    mt_batch_gts = []
    for sid, turns in sessions.items():
        session_config = {"configurable": {"thread_id": sid}}
        all_events = []
        for i, turn in enumerate(turns):
            query = str(turn["query"])
            events = list(
                graph.stream(
                    {"messages": [HumanMessage(content=query)]},
                    session_config,
                    stream_mode="updates",
                )
            )
            all_events.extend(events)
            all_turn_payloads.append(
                {
                    "session_id": sid,
                    "turn_id": i + 1,
                    "stream_events": [{"__human__": {"messages": [HumanMessage(content=query)]}}]
                    + events,
                    "latency": turn_latency,
                }
            )
        mt_batch_gts.append(build_multi_turn_ground_truth(turns, events=all_events))
    mt_batch_traces = adapter.transform_to_canonical(all_turn_payloads)
    before = copy.deepcopy(mt_batch_traces)
    mt_batch_results = batch_evaluate(
        traces=mt_batch_traces, ground_truths=mt_batch_gts, metrics=METRICS
    )

    result = mt_batch_results[0]
    assert result.metadata["is_multi_agent"] is False
    assert result.metadata["num_turns"] == 3
    assert [t["metric_scores"]["tool_selection_accuracy"] for t in result.metadata["per_turn"]] == [
        1.0,
        0.0,
        1.0,
    ]
    assert result.metadata["per_turn_averages"]["tool_selection_accuracy"] == pytest.approx(2 / 3)
    score = next(
        s
        for dim in result.dimension_results
        for s in dim.metric_scores
        if s.metric_name == "tool_selection_accuracy"
    )
    assert [entry["turn"] for entry in score.metadata["per_turn"]] == [1, 2, 3]
    assert score.reasoning.splitlines() == [
        "Average across 3 turns:",
        "  Turn 1 (1.00): all expected tools called (1)",
        "  Turn 2 (0.00): 0 of 2 tools match; missing: get_weather; not expected: search_flights",
        "  Turn 3 (1.00): no tool expected, none called",
    ]
    assert result.overall_score is not None
    assert result.passed is False
    assert result.failures == ["Tool Calling 0.611 is below its threshold 0.7"]
    # Evaluated again: the same result, and the traces are as they were.
    again = batch_evaluate(mt_batch_traces, mt_batch_gts, metrics=METRICS)[0]
    assert again.model_dump(exclude={"timestamp"}) == result.model_dump(exclude={"timestamp"})
    assert mt_batch_traces == before


def test_sessions_come_as_the_contract_says() -> None:
    payloads = [
        {"session_id": sid, "turn_id": turn, "stream_events": said(f"{sid}{turn}")}
        for sid, turn in [("a", 1), ("b", 3), ("b", 1), ("b", 2), ("c", 1)]
    ]
    sessions = LangGraphAdapter().transform_to_canonical(payloads)
    assert [s["session_id"] for s in sessions] == ["a", "b", "c"]
    assert [len(s["per_turn_traces"]) for s in sessions] == [1, 3, 1]
    assert [t.messages[0].content for t in sessions[1]["per_turn_traces"]] == ["b1", "b2", "b3"]
    assert [m.content for m in sessions[1]["full_trace"].messages[::2]] == ["b1", "b2", "b3"]
    assert isinstance(sessions[0]["full_trace"], AgentTrace)


def test_what_the_contract_refuses() -> None:
    session = LangGraphAdapter().transform_to_canonical(
        [{"session_id": "s", "turn_id": 1, "stream_events": said("hi")}]
    )[0]
    with pytest.raises(ValueError, match="batch_evaluate"):
        evaluate([session])
    with pytest.raises(ValueError, match="takes MultiAgentTrace"):
        MultiAgentEvaluator(metrics=METRICS).evaluate_multi_turn(
            session["per_turn_traces"], session["full_trace"]
        )
    result = SingleAgentEvaluator(metrics=METRICS).evaluate_multi_turn(
        session["per_turn_traces"], session["full_trace"]
    )
    assert result.session_id == "s"


def said(text: str) -> list[Any]:
    return [
        {"__human__": {"messages": [HumanMessage(text)]}},
        {"model": {"messages": [AIMessage("ok")]}},
    ]


def scores(result: Any) -> dict[str, float | None]:
    return {s.metric_name: s.score for d in result.dimension_results for s in d.metric_scores}
