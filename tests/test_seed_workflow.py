"""The workflow that the public API is a contract for: its code runs as it is printed there.

The code stands here as text, with `uaef` as `uaef_frames` and nothing else changed, and runs on a
real LangGraph graph whose chat model says what it is told to.
"""

from __future__ import annotations

import importlib
import math
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("langgraph")
pytest.importorskip("langchain")

from langchain.agents import create_agent
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

import uaef_frames
from tests.helpers import called, dimensions, metric_scores, scores, session, trace, whys
from uaef_frames import (
    AgentTrace,
    GroundTruth,
    LangGraphAdapter,
    MultiAgentEvaluator,
    MultiAgentTrace,
    MultiTurnEvaluator,
    OfflineEvaluator,
    SingleAgentEvaluator,
    batch_evaluate,
    build_ground_truth,
    build_multi_turn_ground_truth,
    evaluate,
    list_metrics,
    parse_ground_truth_row,
)

if TYPE_CHECKING:
    from uaef_frames import EvaluationResult

METRICS = [
    "tool_selection_accuracy",
    "tool_sequence_correctness",
    "parameter_quality",
    "prompt_injection_detection",
    "latency_score",
    "turn_efficiency",
]

SINGLE_TURN_BATCH = """
turn_payloads = []
ground_truths = []
for i, row in enumerate(gt_json):
    query = parse_ground_truth_row(row, query_only=True)
    events = list(graph.stream({"messages": [HumanMessage(content=query)]}, run_config, stream_mode="updates"))
    turn_payloads.append({
        "session_id": f"batch_booking_{i}",
        "turn_id": 1,
        "stream_events": [{"__human__": {"messages": [HumanMessage(content=query)]}}] + events,
        "latency": latency,
    })
    _, gt = build_ground_truth(row, events=events)
    ground_truths.append(gt)
# Adapter returns list of session dicts (one per session, each with 1 turn)
traces = adapter.transform_to_canonical(turn_payloads)
batch_results = batch_evaluate(traces=traces, ground_truths=ground_truths, metrics=metrics)
"""  # noqa: E501

MULTI_TURN_BATCH = """
all_turn_payloads = []
mt_batch_gts = []
for sid, turns in sessions.items():
    all_events = []
    for i, turn in enumerate(turns):
        query = str(turn["query"])
        events = list(graph.stream({"messages": [HumanMessage(content=query)]}, session_config, stream_mode="updates"))
        all_events.extend(events)
        all_turn_payloads.append({
            "session_id": sid,
            "turn_id": i + 1,
            "stream_events": [{"__human__": {"messages": [HumanMessage(content=query)]}}] + events,
            "latency": turn_latency,
        })
    mt_batch_gts.append(build_multi_turn_ground_truth(turns, events=all_events))
# Single adapter call groups all turns by session_id
mt_batch_traces = adapter.transform_to_canonical(all_turn_payloads)
mt_batch_results = batch_evaluate(traces=mt_batch_traces, ground_truths=mt_batch_gts, metrics=metrics)
"""  # noqa: E501

PER_TURN_REASONING = """
score = next(
    s for dim in result.dimension_results
    for s in dim.metric_scores
    if s.metric_name == "tool_selection_accuracy"
)
# Structured access — list of {turn, score, reasoning} dicts
for entry in score.metadata["per_turn"]:
    print(entry["turn"], entry["score"], entry["reasoning"])
# Pre-formatted multiline string suitable for direct printing
print(score.reasoning)
"""

BUILDING_GROUND_TRUTH = """
from uaef_frames.ground_truth import build_multi_turn_ground_truth
mt_ground_truth = build_multi_turn_ground_truth(turns, events=all_events)
"""


def run(code: str, **given: Any) -> dict[str, Any]:
    """Run code in a notebook that has imported the public names; what it holds afterwards."""
    imported = {name: getattr(uaef_frames, name) for name in uaef_frames.__all__}
    notebook = {**imported, "HumanMessage": HumanMessage, **given}
    exec(code, notebook)
    return notebook


class Scripted(GenericFakeChatModel):
    """Says what it is told to, one message after the other."""

    def bind_tools(self, *_: Any, **__: Any) -> Scripted:
        return self


@tool
def search_flights(origin: str, destination: str) -> str:
    """Search flights."""
    return f"{origin} to {destination}: KL1001"


@tool
def get_weather(city: str) -> str:
    """Get the weather."""
    return f"{city}: 18C"


@tool
def get_statistics(city: str) -> str:
    """Get statistics."""
    return f"{city}: 300 days of sun"


def says(text: str, name: str = "", **arguments: Any) -> AIMessage:
    calls = [{"name": name, "args": arguments, "id": f"call-{name}"}] if name else []
    usage = {"input_tokens": 40, "output_tokens": 10, "total_tokens": 50}
    return AIMessage(text, tool_calls=calls, usage_metadata=usage)


def graph_of(*script: AIMessage) -> Any:
    """An agent with tools; each thread is a conversation."""
    tools = [search_flights, get_weather, get_statistics]
    model = Scripted(messages=iter(script))
    return create_agent(model, tools=tools, checkpointer=InMemorySaver())


# Notebook Usage: single-turn batch


def test_single_turn_batch() -> None:
    gt_json = [
        {
            "Question": "A flight from AMS to LIS?",
            "Answer": "KL1001.",
            "expected_tool_calls": '[{"name": "search_flights",'
            ' "arguments": {"destination": "LIS", "origin": "AMS"}}]',
        },
        {"Question": "Weather in Rome?", "Answer": "18C.", "tools": ["get_weather"]},
    ]
    graph = graph_of(
        says("", "search_flights", origin="AMS", destination="LIS"),
        says("KL1001."),
        says("", "get_weather", city="Rome"),
        says("18C."),
    )
    notebook = run(
        SINGLE_TURN_BATCH,
        gt_json=gt_json,
        graph=graph,
        run_config={"configurable": {"thread_id": "one"}},
        latency=2.5,
        adapter=LangGraphAdapter(),
        metrics=METRICS,
    )
    traces, results = notebook["traces"], notebook["batch_results"]
    assert [len(s["per_turn_traces"]) for s in traces] == [1, 1]
    first = traces[0]["full_trace"]
    assert [(m.role, m.content) for m in first.messages] == [
        ("user", "A flight from AMS to LIS?"),
        ("assistant", ""),
        ("tool", "AMS to LIS: KL1001"),
        ("assistant", "KL1001."),
    ]
    assert (first.latency, first.input_tokens, first.output_tokens) == (2.5, 80, 20)
    # Context comes from what the tools answered, as the rows bring none.
    assert [g.context_documents for g in notebook["ground_truths"]] == [
        ["AMS to LIS: KL1001"],
        ["Rome: 18C"],
    ]
    assert [r.session_id for r in results] == ["batch_booking_0", "batch_booking_1"]
    right = dict.fromkeys(METRICS, 1.0) | {"latency_score": 0.8}  # 2000 ms of 2500
    assert scores(results[0]) == pytest.approx(right)
    # Of the second row's tool no argument is expected and one is given: 0 of 1 keys.
    assert scores(results[1]) == pytest.approx(right | {"parameter_quality": 0.0})
    # Tool Calling 2/3 is below 0.7, whatever the rest is.
    assert [r.passed for r in results] == [True, False]
    assert results[1].failures == ["Tool Calling 0.667 is below its threshold 0.7"]


# Notebook Usage: multi-turn batch

SESSIONS: dict[str, list[dict[str, Any]]] = {
    "lisbon": [
        {
            "query": "A flight from AMS to LIS?",
            "expected_output": "KL1001.",
            "tools": [
                {"name": "search_flights", "arguments": {"origin": "AMS", "destination": "LIS"}}
            ],
        },
        {
            "query": "Weather and statistics?",
            "expected_output": "18C and 300 days of sun.",
            "tools": [
                {"name": "get_weather", "arguments": {"city": "LIS"}},
                {"name": "get_statistics", "arguments": {"city": "LIS"}},
            ],
        },
        {"query": "Thanks", "expected_output": "You are welcome.", "tools": []},
    ],
    "rome": [{"query": "Weather in Rome?", "expected_output": "18C.", "tools": ["get_weather"]}],
}
SCRIPT = [
    says("", "search_flights", origin="AMS", destination="LIS"),
    says("KL1001."),
    says("", "get_weather", city="LIS"),
    says("18C."),
    says("You are welcome."),
    says("18C, I guess."),
]


@pytest.fixture(scope="module")
def multi_turn() -> dict[str, Any]:
    return run(
        MULTI_TURN_BATCH,
        sessions=SESSIONS,
        graph=graph_of(*SCRIPT),
        session_config={"configurable": {"thread_id": "one"}},
        turn_latency=1.0,
        adapter=LangGraphAdapter(),
        metrics=METRICS,
    )


def test_multi_turn_batch_groups_turns_into_sessions(multi_turn: dict[str, Any]) -> None:
    lisbon, rome = multi_turn["mt_batch_traces"]
    assert (lisbon["session_id"], rome["session_id"]) == ("lisbon", "rome")
    assert [type(t) for t in lisbon["per_turn_traces"]] == [AgentTrace] * 3
    assert [[c.name for c in t.tool_calls] for t in lisbon["per_turn_traces"]] == [
        ["search_flights"],
        ["get_weather"],
        [],
    ]
    full = lisbon["full_trace"]
    assert isinstance(full, AgentTrace)
    assert [m.content for m in full.messages if m.role == "user"] == [
        "A flight from AMS to LIS?",
        "Weather and statistics?",
        "Thanks",
    ]
    # Five model calls of 40 and 10 tokens; three turns of a second.
    assert (full.input_tokens, full.output_tokens, full.latency) == (200, 50, 3.0)


def test_multi_turn_batch_ground_truth(multi_turn: dict[str, Any]) -> None:
    lisbon, rome = multi_turn["mt_batch_gts"]
    assert lisbon.expected_arguments["per_turn_expected"] == [
        "KL1001.",
        "18C and 300 days of sun.",
        "You are welcome.",
    ]
    tools = lisbon.expected_arguments["per_turn_tools"]
    assert [[c.name for c in turn] for turn in tools] == [
        ["search_flights"],
        ["get_weather", "get_statistics"],
        [],
    ]
    assert lisbon.context_documents == ["AMS to LIS: KL1001", "LIS: 18C"]
    assert rome.context_documents == []


def test_multi_turn_batch_results(multi_turn: dict[str, Any]) -> None:
    lisbon, rome = multi_turn["mt_batch_results"]
    # Per turn: 1, 1/2, 1; of arguments 1, 1/2 and nothing to compare.
    assert scores(lisbon) == pytest.approx(
        {
            "tool_selection_accuracy": 5 / 6,
            "tool_sequence_correctness": 5 / 6,
            "parameter_quality": 3 / 4,
            "prompt_injection_detection": 1.0,
            "latency_score": 1.0,
            "turn_efficiency": 1.0,
        }
    )
    tool_calling = (5 / 6 + 5 / 6 + 3 / 4) / 3
    assert dimensions(lisbon) == pytest.approx(
        {"Tool Calling": tool_calling, "Responsible AI": 1.0, "Performance": 1.0, "Multi-Turn": 1.0}
    )
    # Weights 0.25, 0.20, 0.10 and 0.10.
    assert lisbon.overall_score == pytest.approx((0.25 * tool_calling + 0.40) / 0.65)
    assert (lisbon.passed, lisbon.failures, lisbon.warnings) == (True, [], [])
    # The other session calls no tool where one is expected.
    assert dimensions(rome)["Tool Calling"] == 0.0
    assert rome.overall_score == pytest.approx(0.40 / 0.65)
    assert rome.passed is False


# Result Structure


def test_result_structure(multi_turn: dict[str, Any]) -> None:
    result = multi_turn["mt_batch_results"][0]
    assert result.metadata["is_multi_agent"] is False
    turns = result.metadata["per_turn"]
    assert [set(t) for t in turns] == [{"turn", "metric_scores", "reasoning"}] * 3
    assert [t["turn"] for t in turns] == [1, 2, 3]
    per_turn = {
        "tool_selection_accuracy": [1.0, 0.5, 1.0],
        "tool_sequence_correctness": [1.0, 0.5, 1.0],
        "parameter_quality": [1.0, 0.5, None],
        "prompt_injection_detection": [1.0, 1.0, 1.0],
        "latency_score": [1.0, 1.0, 1.0],
    }
    assert {n: [t["metric_scores"][n] for t in turns] for n in per_turn} == per_turn
    assert all(set(t["metric_scores"]) == set(t["reasoning"]) == set(per_turn) for t in turns)
    # Metrics of the whole conversation are not of a turn.
    assert result.metadata["per_turn_averages"] == pytest.approx(
        {
            "tool_selection_accuracy": 5 / 6,
            "tool_sequence_correctness": 5 / 6,
            "parameter_quality": 3 / 4,
            "prompt_injection_detection": 1.0,
            "latency_score": 1.0,
        }
    )


def test_per_turn_reasoning(multi_turn: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    result: EvaluationResult = multi_turn["mt_batch_results"][0]
    score = run(PER_TURN_REASONING, result=result)["score"]
    assert capsys.readouterr().out.splitlines() == [
        "1 1.0 all expected tools called (1)",
        "2 0.5 1 of 2 tools match; missing: get_statistics",
        "3 1.0 no tool expected, none called",
        "Average across 3 turns:",
        "  Turn 1 (1.00): all expected tools called (1)",
        "  Turn 2 (0.50): 1 of 2 tools match; missing: get_statistics",
        "  Turn 3 (1.00): no tool expected, none called",
    ]
    # Both places carry the same text.
    assert [e["reasoning"] for e in score.metadata["per_turn"]] == [
        t["reasoning"]["tool_selection_accuracy"] for t in result.metadata["per_turn"]
    ]
    found = metric_scores(result)
    assert found["parameter_quality"].reasoning.splitlines()[3].startswith("  Turn 3 (N/A): ")
    # What runs once on the whole conversation keeps its one line.
    assert found["turn_efficiency"].reasoning == "3 complete turns against 5"
    assert "per_turn" not in found["turn_efficiency"].metadata


# Building multi-turn ground truth


def test_building_multi_turn_ground_truth(multi_turn: dict[str, Any]) -> None:
    given = {"turns": SESSIONS["lisbon"], "all_events": multi_turn["all_events"]}
    truth = run(BUILDING_GROUND_TRUTH, **given)["mt_ground_truth"]
    assert len(truth.expected_arguments["per_turn_expected"]) == 3
    assert len(truth.expected_arguments["per_turn_tools"]) == 3
    assert truth.expected_output == (
        "Turn 1: KL1001.\nTurn 2: 18C and 300 days of sun.\nTurn 3: You are welcome."
    )


# Single-turn evaluation: one trace, no payload


def test_a_single_trace_goes_straight_to_evaluate() -> None:
    notebook = run(
        "result = evaluate(trace=trace, ground_truth=ground_truth, metrics=metrics)",
        trace=called(("f", {"x": 1}), latency=4.0),
        ground_truth=GroundTruth(expected_tool_calls=[{"name": "f", "arguments": {"x": 1}}]),
        metrics=["parameter_quality", "latency_score"],
    )
    result = notebook["result"]
    assert scores(result) == {"parameter_quality": 1.0, "latency_score": 0.5}
    assert result.overall_score == pytest.approx((0.25 + 0.10 * 0.5) / 0.35)
    assert result.session_id is None
    assert "per_turn" not in result.metadata


# Turn payloads: mixed batch with single-turn and multi-turn sessions


def events_of(text: str) -> list[Any]:
    return [
        {"__human__": {"messages": [HumanMessage(text)]}},
        {"model": {"messages": [AIMessage(f"re: {text}")]}},
    ]


def test_mixed_batch() -> None:
    turn_payloads = [
        # session_a: single-turn
        {"session_id": "a", "turn_id": 1, "stream_events": events_of("a1")},
        # session_b: 3-turn conversation
        {"session_id": "b", "turn_id": 3, "stream_events": events_of("b3")},
        {"session_id": "b", "turn_id": 1, "stream_events": events_of("b1")},
        {"session_id": "b", "turn_id": 2, "stream_events": events_of("b2")},
        # session_c: single-turn
        {"session_id": "c", "turn_id": 1, "stream_events": events_of("c1")},
    ]
    sessions = LangGraphAdapter().transform_to_canonical(turn_payloads)
    assert [set(s) for s in sessions] == [{"session_id", "per_turn_traces", "full_trace"}] * 3
    assert [s["session_id"] for s in sessions] == ["a", "b", "c"]
    assert [len(s["per_turn_traces"]) for s in sessions] == [1, 3, 1]
    asked = [t.messages[0].content for t in sessions[1]["per_turn_traces"]]
    assert asked == ["b1", "b2", "b3"]
    results = batch_evaluate([*sessions, trace(latency=1.0)], metrics=METRICS)
    assert [r.session_id for r in results] == ["a", "b", "c", None]
    assert [r.metadata["num_turns"] for r in results] == [1, 3, 1, 1]
    assert ["per_turn" in r.metadata for r in results] == [True, True, True, False]


def test_optional_fields_of_a_payload_reach_the_traces() -> None:
    first = {
        "session_id": "session_xyz",
        "turn_id": 1,
        "stream_events": events_of("a"),
        "latency": 1.23,
        "input_tokens": 100,
        "output_tokens": 200,
        "cost_usd": 0.0015,
    }
    second = {"session_id": "session_xyz", "turn_id": 2, "stream_events": events_of("b")}
    found = LangGraphAdapter().transform_to_canonical([first, second])[0]
    full, (one, two) = found["full_trace"], found["per_turn_traces"]
    for known in (one, full):
        measured = (known.latency, known.input_tokens, known.output_tokens, known.cost)
        assert measured == (1.23, 100, 200, 0.0015)
    assert (two.latency, two.input_tokens, two.output_tokens, two.cost) == (None,) * 4


# Adapter: dual input shape


def test_a_dict_gives_one_trace_and_a_list_gives_sessions() -> None:
    adapter = LangGraphAdapter()
    single = adapter.transform_to_canonical({"stream_events": events_of("a"), "latency": 4.0})
    assert isinstance(single, AgentTrace)
    assert evaluate(single, metrics=["latency_score"]).overall_score == 0.5
    team = [
        *events_of("a"),
        {"flights": {"messages": [AIMessage("KL1001", name="flights")]}},
    ]
    assert isinstance(adapter.transform_to_canonical({"stream_events": team}), MultiAgentTrace)
    listed = adapter.transform_to_canonical(
        [{"session_id": "s", "turn_id": 1, "stream_events": team}]
    )
    assert isinstance(listed[0]["per_turn_traces"][0], MultiAgentTrace)
    assert isinstance(listed[0]["full_trace"], MultiAgentTrace)


def test_mixing_topologies_in_one_session_is_an_error() -> None:
    turns = [
        [{"alone": {"messages": [AIMessage("a", name="alone")]}}],
        [
            {"x": {"messages": [AIMessage("a", name="x")]}},
            {"y": {"messages": [AIMessage("a", name="y")]}},
        ],
    ]
    payloads = [
        {"session_id": "s", "turn_id": n, "stream_events": [*events_of("q")[:1], *events]}
        for n, events in enumerate(turns, 1)
    ]
    with pytest.raises(uaef_frames.AdapterTransformationError, match="mixed in one session"):
        LangGraphAdapter().transform_to_canonical(payloads)


# Evaluators: type checks, errors and dispatch

ONE = session("s", trace(), full=trace())
TEAM = MultiAgentTrace(agent_traces={"a": trace(), "b": trace()})
TEAMS = session("t", TEAM, full=TEAM)


def test_lists_go_to_batch_evaluate() -> None:
    with pytest.raises(ValueError, match="batch_evaluate"):
        evaluate([ONE])
    with pytest.raises(ValueError, match="use evaluate"):
        batch_evaluate(ONE)


@pytest.mark.parametrize(
    ("evaluator", "wrong", "wanted"),
    [
        (SingleAgentEvaluator, TEAMS, "SingleAgentEvaluator takes AgentTrace"),
        (MultiAgentEvaluator, ONE, "MultiAgentEvaluator takes MultiAgentTrace"),
    ],
)
def test_evaluators_check_types(evaluator: Any, wrong: Any, wanted: str) -> None:
    right = ONE if wrong is TEAMS else TEAMS
    made = evaluator(metrics=["turn_efficiency"])
    with pytest.raises(ValueError, match=f"{wanted}; turn 1 is"):
        made.evaluate_multi_turn(wrong["per_turn_traces"], right["full_trace"])
    with pytest.raises(ValueError, match=f"{wanted}; full_trace is"):
        made.evaluate_multi_turn(right["per_turn_traces"], wrong["full_trace"])
    with pytest.raises(ValueError, match=f"{wanted}; trace is"):
        made.evaluate(wrong["full_trace"])
    with pytest.raises(ValueError, match="at least one turn"):
        made.evaluate_multi_turn([], right["full_trace"])
    result = made.evaluate_multi_turn(
        per_turn_traces=right["per_turn_traces"], full_trace=right["full_trace"]
    )
    assert scores(result) == {"turn_efficiency": 1.0}


def test_the_trace_decides_on_weights() -> None:
    names = ["latency_score", "turn_efficiency", "agent_utilization"]
    for item, multi in ((trace(), False), (TEAM, True), (ONE, False), (TEAMS, True)):
        for result in (evaluate(item, metrics=names), batch_evaluate([item], metrics=names)[0]):
            assert result.metadata["is_multi_agent"] is multi
            weights = {d.dimension_name: d.weight for d in result.dimension_results}
            assert weights["Multi-Agent"] == (0.20 if multi else 0.0)


def test_multi_agent_metrics_skip_a_single_agent() -> None:
    names = [s.name for s in list_metrics() if s.dimension == "Multi-Agent"]
    with pytest.warns(UserWarning, match="no judge"):
        result = evaluate(trace(), metrics=names)
    assert scores(result) == dict.fromkeys(names)
    assert set(whys(result).values()) == {"not_applicable"}


def test_a_subclass_narrows_the_metrics() -> None:
    class ToolsOnly(SingleAgentEvaluator):
        def _get_metrics_to_calculate(self) -> list[Any]:
            found = super()._get_metrics_to_calculate()
            return [spec for spec in found if spec.dimension == "Tool Calling"]

    truth = GroundTruth(expected_tool_calls=[{"name": "f"}])
    result = ToolsOnly(metrics=METRICS).evaluate_multi_turn([called("f")], called("f"), truth)
    assert scores(result) == dict.fromkeys(METRICS[:3], 1.0)


def test_the_multi_turn_evaluator_scores_its_dimension_alone() -> None:
    evaluator = MultiTurnEvaluator(metrics=["turn_efficiency", "latency_score"])
    messages = [{"role": r, "content": "x"} for r in ("user", "assistant") * 10]
    result = evaluator.evaluate_conversation(messages=messages)
    weights = {d.dimension_name: (d.weight, d.threshold) for d in result.dimension_results}
    assert weights["Multi-Turn"] == (1.0, 0.7)
    assert weights["Performance"][0] == 0.0
    # Ten turns against five.
    assert (result.overall_score, result.passed) == (0.5, False)
    again = evaluator.evaluate(trace=trace(latency=1.0))
    assert again.overall_score == 1.0


# Per-turn and full-trace phases

PER_TURN = {
    *("tool_selection_accuracy", "tool_sequence_correctness", "parameter_quality"),
    *("mcp_compliance", "answer_relevance", "completeness", "hallucination_score", "accuracy"),
    *("safety_score", "bias_score", "prompt_injection_detection", "toxicity_score"),
    *("chain_of_thought_coherence", "logical_consistency", "reasoning_step_correctness"),
    *("fallacy_detection", "latency_score", "token_efficiency", "cost_efficiency", "throughput"),
    *("agent_utilization", "delegation_quality", "workflow_completion", "coordination_efficiency"),
}
FULL_TRACE = {
    *("context_retention", "coherence", "conversation_completeness", "turn_efficiency"),
    *("role_adherence", "holistic_llm_judge", "user_satisfaction", "sentiment", "agent_tone"),
    *("naturalness", "instruction_compliance", "optimum_turns"),
}


def test_metrics_run_in_the_phase_that_is_promised() -> None:
    with pytest.warns(UserWarning, match="no judge"):
        result = evaluate(TEAMS, metrics=[*PER_TURN, *FULL_TRACE])
    found = metric_scores(result)
    assert set(found) == PER_TURN | FULL_TRACE
    assert {n for n, s in found.items() if "per_turn" in s.metadata} == PER_TURN
    assert set(result.metadata["per_turn"][0]["metric_scores"]) == PER_TURN
    assert set(result.metadata["per_turn_averages"]) == PER_TURN


def test_ground_truth_is_read_turn_by_turn() -> None:
    truth = GroundTruth(
        expected_tool_calls=[{"name": "f"}, {"name": "g"}],
        expected_arguments={"per_turn_tools": [[{"name": "f"}], [{"name": "g"}]]},
    )
    turns = session("s", called("g"), called("g"))
    result = evaluate(turns, truth, metrics=["tool_selection_accuracy"])
    assert [t["metric_scores"]["tool_selection_accuracy"] for t in result.metadata["per_turn"]] == [
        0.0,
        1.0,
    ]


# Several agents: a supervisor and one who works


def test_a_supervised_conversation() -> None:
    supervisor = pytest.importorskip("langgraph_supervisor")
    flights = create_agent(
        Scripted(
            messages=iter([says("", "search_flights", origin="A", destination="B"), says("KL1")])
        ),
        tools=[search_flights],
        name="flights",
    )
    boss = Scripted(
        messages=iter([says("", "transfer_to_flights"), says("Take KL1."), says("Bye.")])
    )
    graph = supervisor.create_supervisor([flights], model=boss, output_mode="full_history")
    sessions = {
        "team": [
            {
                "query": "A flight?",
                "Answer": "KL1",
                "tools": [{"name": "search_flights", "args": {"origin": "A", "destination": "B"}}],
            },
            {"query": "Thanks", "Answer": "Bye", "tools": []},
        ]
    }
    notebook = run(
        MULTI_TURN_BATCH,
        sessions=sessions,
        graph=graph.compile(checkpointer=InMemorySaver()),
        session_config={"configurable": {"thread_id": "one"}},
        turn_latency=1.0,
        adapter=LangGraphAdapter(),
        metrics=[*METRICS, "agent_utilization", "coordination_efficiency"],
    )
    full = notebook["mt_batch_traces"][0]["full_trace"]
    assert isinstance(full, MultiAgentTrace)
    assert list(full.agent_traces) == ["supervisor", "flights"]
    assert [(e.from_agent, e.to_agent) for e in full.coordination_events] == [
        ("supervisor", "flights"),
        ("flights", "supervisor"),
    ]
    # Handing over is no tool call.
    assert [(c.agent, c.name, c.result) for c in full.tool_calls] == [
        ("flights", "search_flights", "A to B: KL1001")
    ]
    assert [m.content for m in full.messages if m.role == "user"] == ["A flight?", "Thanks"]
    # Five model calls, each once, though the supervisor's updates repeat them.
    assert (full.input_tokens, full.output_tokens) == (200, 50)

    result = notebook["mt_batch_results"][0]
    assert result.metadata["is_multi_agent"] is True
    turns = result.metadata["per_turn"]
    # Turn 1: the supervisor wrote 2 messages, flights 2 and 1 call; mean 2.5, deviation 0.5. There
    # are 2 handoffs on 5 pieces of work. Turn 2: one agent, no handoff.
    assert [t["metric_scores"]["agent_utilization"] for t in turns] == pytest.approx(
        [math.exp(-0.2), 1.0]
    )
    assert [t["metric_scores"]["coordination_efficiency"] for t in turns] == pytest.approx(
        [math.exp(-5 * 0.3), 1.0]
    )
    multi_agent = ((math.exp(-0.2) + 1) / 2 + (math.exp(-1.5) + 1) / 2) / 2
    assert dimensions(result) == pytest.approx(
        {
            "Tool Calling": 1.0,
            "Responsible AI": 1.0,
            "Performance": 1.0,
            "Multi-Agent": multi_agent,
            "Multi-Turn": 1.0,
        }
    )
    # Weights 0.20, 0.15, 0.10, 0.20 and 0.10.
    assert result.overall_score == pytest.approx((0.55 + 0.20 * multi_agent) / 0.75)


# Code locations


@pytest.mark.parametrize(
    ("module", "names"),
    [
        ("uaef_frames.adapters", ["LangGraphAdapter", "OpenAIMessagesAdapter", "get_adapter"]),
        (
            "uaef_frames.evaluation",
            [
                *("BaseEvaluator", "SingleAgentEvaluator", "MultiAgentEvaluator"),
                *("MultiTurnEvaluator", "OfflineEvaluator"),
            ],
        ),
        (
            "uaef_frames.ground_truth",
            ["build_ground_truth", "build_multi_turn_ground_truth", "parse_ground_truth_row"],
        ),
        (
            "uaef_frames.models",
            [
                *("AgentTrace", "MultiAgentTrace", "Message", "ToolCall", "CoordinationEvent"),
                *("GroundTruth", "MetricScore", "DimensionResult", "EvaluationResult"),
            ],
        ),
        ("uaef_frames.api", ["evaluate", "batch_evaluate"]),
    ],
)
def test_names_stand_where_the_workflow_imports_them_from(module: str, names: list[str]) -> None:
    found = importlib.import_module(module)
    for name in names:
        assert getattr(found, name) is getattr(uaef_frames, name, getattr(found, name))
    public = set(names) - {"BaseEvaluator"}
    assert public <= set(uaef_frames.__all__)


def test_batches_of_traces_are_what_the_offline_evaluator_gives() -> None:
    traces = [trace(latency=1.0), trace(latency=4.0)]
    offline = OfflineEvaluator(metrics=["latency_score"]).evaluate(traces)
    assert [r.overall_score for r in offline] == [1.0, 0.5]


def test_agent_traces_have_no_turn_id() -> None:
    assert AgentTrace().session_id is None
    with pytest.raises(ValueError, match="turn_id"):
        AgentTrace(turn_id=1)


def test_queries_and_ground_truth_of_rows() -> None:
    row = {"Question": "A flight?", "Answer": "KL1001.", "expected_tool_calls": "[]"}
    assert parse_ground_truth_row(row, query_only=True) == "A flight?"
    query, truth = build_ground_truth(row, events=events_of("A flight?"))
    assert query == "A flight?"
    assert (truth.expected_output, truth.expected_tool_calls) == ("KL1001.", [])
    assert build_multi_turn_ground_truth([row]).expected_tool_calls == []
