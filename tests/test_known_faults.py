"""Faults seen in tools that do this job: none may come back here. One test a fault."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import pytest

from uaef_frames import (
    AgentTrace,
    ConfigError,
    CoordinationEvent,
    GroundTruth,
    LangGraphAdapter,
    Message,
    MultiAgentTrace,
    ToolCall,
    batch_evaluate,
    build_ground_truth,
    evaluate,
)
from uaef_frames.evaluation.plan import THRESHOLDS, WEIGHTS

TOOLS = ["tool_selection_accuracy", "tool_sequence_correctness", "parameter_quality"]


def trace(**fields: Any) -> AgentTrace:
    said = [Message(role="user", content="q"), Message(role="assistant", content="a")]
    return AgentTrace(**{"messages": said, **fields})


def called(*calls: tuple[str, dict[str, Any]]) -> AgentTrace:
    return trace(tool_calls=[ToolCall(name=n, arguments=a) for n, a in calls])


def expects(*calls: tuple[str, dict[str, Any]]) -> GroundTruth:
    return GroundTruth(expected_tool_calls=[{"name": n, "arguments": a} for n, a in calls])


def scores(result: Any) -> dict[str, float | None]:
    return {s.metric_name: s.score for d in result.dimension_results for s in d.metric_scores}


def one(result: Any) -> Any:
    return result.dimension_results[0].metric_scores[0]


# --- Aggregation


def test_default_weights_and_thresholds_apply() -> None:
    assert set(WEIGHTS["single"]) | set(WEIGHTS["multi"]) == set(THRESHOLDS)
    result = evaluate(
        called(("f", {})),
        expects(("g", {})),
        metrics=["tool_selection_accuracy", "turn_efficiency"],
    )
    weights = {d.dimension_name: (d.weight, d.threshold) for d in result.dimension_results}
    assert weights == {"Tool Calling": (0.25, 0.7), "Multi-Turn": (0.10, 0.6)}
    assert result.overall_score == pytest.approx(0.10 / 0.35)
    assert result.passed is False
    assert result.failures == ["Tool Calling 0.0 is below its threshold 0.7"]


def test_a_dimension_without_scores_is_null_and_nothing_scored_is_not_passed() -> None:
    result = evaluate(trace(), metrics=["latency_score"])
    assert result.dimension_results[0].aggregate_score is None
    assert (result.overall_score, result.passed) == (None, False)
    assert result.failures == ["nothing could be scored"]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0])
def test_impossible_measurements_score_nothing(value: float) -> None:
    result = evaluate(
        trace(
            latency=value,
            cost=value,
            input_tokens=value,
            output_tokens=1,
            metadata={"quality_score": 0.9},
        ),
        metrics=["latency_score", "throughput", "cost_efficiency", "token_efficiency"],
    )
    found = result.dimension_results[0].metric_scores
    assert [(s.score, s.metadata["warning"]) for s in found] == [(None, "invalid_data")] * 4
    assert all(str(value) in s.metadata["details"]["invalid"].lower() for s in found)


def test_a_metric_without_ground_truth_stands_there_with_its_reason() -> None:
    score = one(evaluate(trace(), metrics=["tool_selection_accuracy"]))
    assert (score.score, score.metadata["warning"]) == (None, "missing_data")
    assert "says nothing about tools" in score.reasoning


def test_the_order_of_metrics_is_the_registry_s() -> None:
    asked = ["throughput", "parameter_quality", "latency_score", "tool_selection_accuracy"]
    names = [list(scores(evaluate(trace(), metrics=m))) for m in (asked, asked[::-1])]
    assert (
        names
        == [["tool_selection_accuracy", "parameter_quality", "latency_score", "throughput"]] * 2
    )


def test_evaluating_again_changes_nothing() -> None:
    given = trace(input_tokens=10, output_tokens=5, metadata={"quality_score": 0.5, "x": [1]})
    before = copy.deepcopy(given)
    first = evaluate(given, metric_set="deterministic")
    second = evaluate(given, metric_set="deterministic")
    assert given == before
    assert first.model_dump(exclude={"timestamp"}) == second.model_dump(exclude={"timestamp"})


def test_metrics_wins_over_metric_set_and_says_so() -> None:
    with pytest.warns(UserWarning, match="metrics= is used"):
        result = evaluate(trace(), metrics=["throughput"], metric_set="deterministic")
    assert list(scores(result)) == ["throughput"]
    with pytest.raises(ConfigError, match="unknown metric_set"):
        evaluate(trace(), metrics=["throughput"], metric_set="everything")
    with pytest.raises(ConfigError, match="'latency_score'"):
        evaluate(trace(), metrics=["latency_scores"])


def test_judge_metrics_are_null_with_one_warning() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        results = batch_evaluate(
            [trace(), trace()], metrics=["accuracy", "coherence", "latency_score"]
        )
    assert [str(w.message).startswith("no judge is configured") for w in caught] == [True]
    found = scores(results[0])
    assert found["accuracy"] is found["coherence"] is None
    assert any(w.startswith("no_judge") for w in results[0].warnings)


# --- Turns


def turn(sid: str, number: Any, *events: Any, said: str = "q") -> dict[str, Any]:
    human = {"__human__": {"messages": [{"type": "human", "content": said}]}}
    return {"session_id": sid, "turn_id": number, "stream_events": [human, *events]}


def answer(node: str, text: str, name: str | None = None) -> dict[str, Any]:
    return {node: {"messages": [{"type": "ai", "content": text, "name": name}]}}


def tool_step(number: int) -> list[dict[str, Any]]:
    call = {"name": "f", "args": {}, "id": f"c{number}"}
    return [
        {"model": {"messages": [{"type": "ai", "content": "", "tool_calls": [call]}]}},
        {"tools": {"messages": [{"type": "tool", "content": "r", "tool_call_id": f"c{number}"}]}},
    ]


def test_five_turns_with_tool_steps_are_five() -> None:
    payloads = [turn("s", n, *tool_step(n), answer("model", f"a{n}")) for n in range(1, 6)]
    result = batch_evaluate(payloads, metrics=["turn_efficiency"], adapter="langgraph")[0]
    assert result.metadata["num_turns"] == 5
    assert one(result).metadata["details"]["complete_turns"] == 5
    assert one(result).score == 1.0


def test_text_numbers_sort_as_numbers_and_flat_payloads_group() -> None:
    payloads = [turn("s", n, answer("model", n), said=n) for n in ("10", "2", "1")]
    session = LangGraphAdapter().transform_to_canonical(payloads)[0]
    assert [t.messages[0].content for t in session["per_turn_traces"]] == ["1", "2", "10"]
    results = batch_evaluate(payloads, metrics=["turn_efficiency"], adapter="langgraph")
    assert [(r.session_id, r.metadata["num_turns"]) for r in results] == [("s", 3)]


def test_one_bad_item_does_not_fail_the_batch() -> None:
    results = batch_evaluate(
        [trace(latency=1), object(), trace(latency=4)], metrics=["latency_score"]
    )
    assert [r.overall_score for r in results] == [1.0, None, 0.5]
    assert "could not be evaluated" in results[1].failures[0]


def test_a_quiet_turn_does_not_make_a_session_mixed() -> None:
    payloads = [
        turn("s", 1, answer("supervisor", "Hello!", "supervisor")),
        turn("s", 2, answer("supervisor", "", "supervisor"), answer("flights", "KL1", "flights")),
        turn("s", 3, {"__interrupt__": [{"value": "Sure?", "id": "i"}]}),
    ]
    session = LangGraphAdapter().transform_to_canonical(payloads)[0]
    assert isinstance(session["full_trace"], MultiAgentTrace)


# --- Traces


def test_every_message_of_a_node_counts_and_its_tokens_too() -> None:
    usage = {"input_tokens": 10, "output_tokens": 2, "total_tokens": 12}
    said = [{"type": "ai", "content": t, "id": t, "usage_metadata": usage} for t in ("one", "two")]
    found = LangGraphAdapter().transform_to_canonical([turn("s", 1, {"model": {"messages": said}})])
    full = found[0]["full_trace"]
    assert [m.content for m in full.messages] == ["q", "one", "two"]
    assert (full.input_tokens, full.output_tokens) == (20, 4)


def test_results_go_to_their_own_calls_and_errors_are_kept() -> None:
    calls = [{"name": n, "args": {}, "id": n} for n in ("a", "b")]
    answers = [
        {"type": "tool", "content": "B", "tool_call_id": "b", "status": "error"},
        {"type": "tool", "content": "A", "tool_call_id": "a", "status": "success"},
    ]
    events = [
        {"model": {"messages": [{"type": "ai", "content": "", "tool_calls": calls}]}},
        {"tools": {"messages": answers}},
    ]
    full = LangGraphAdapter().transform_to_canonical([turn("s", 1, *events)])[0]["full_trace"]
    assert [(c.name, c.result, c.status) for c in full.tool_calls] == [
        ("a", "A", "ok"),
        ("b", "B", "error"),
    ]


def test_multi_agent_messages_come_in_the_order_they_happened() -> None:
    payloads = [
        turn("s", n, answer("x", f"x{n}", "x"), answer("y", f"y{n}", "y"), said=f"q{n}")
        for n in (1, 2)
    ]
    full = LangGraphAdapter().transform_to_canonical(payloads)[0]["full_trace"]
    assert [m.content for m in full.messages] == ["q1", "x1", "y1", "q2", "x2", "y2"]


def test_values_streams_are_read() -> None:
    state = {"messages": [{"type": "human", "content": "q"}, {"type": "ai", "content": "a"}]}
    found = LangGraphAdapter().transform_to_canonical([turn("s", 1, ["values", state])])
    assert [m.content for m in found[0]["full_trace"].messages] == ["q", "a"]


# --- Ground truth


def test_empty_cells_say_nothing_and_bad_json_is_an_error() -> None:
    _, truth = build_ground_truth({"Question": "q", "Answer": float("nan"), "tools": None})
    assert (truth.expected_output, truth.expected_tool_calls) == (None, None)
    with pytest.raises(ValueError, match="not JSON"):
        build_ground_truth({"Question": "q", "tools": '[{"name": "f"'})


def test_a_missing_ground_truth_in_a_list_is_fine_and_a_wrong_length_is_not() -> None:
    results = batch_evaluate([called(("f", {}))] * 2, [None, expects(("f", {}))], metrics=TOOLS[:1])
    assert [r.overall_score for r in results] == [None, 1.0]
    with pytest.raises(ValueError, match="1 ground truths for 2 items"):
        batch_evaluate([trace(), trace()], [None], metrics=TOOLS)


# --- Tools


def parameter_quality(expected: list[Any], actual: list[Any]) -> float | None:
    return one(evaluate(called(*actual), expects(*expected), metrics=["parameter_quality"])).score


def test_pairing_does_not_depend_on_listing_order() -> None:
    expected = [("book", {"a": 1, "b": 1, "c": 1}), ("book", {"a": 1, "b": 1, "c": 2})]
    actual = [("book", {"a": 1, "b": 1, "c": 2}), ("book", {"a": 1, "b": 5, "c": 5})]
    # 1 for the equal pair, 1 of 3 keys for the other.
    for e in (expected, expected[::-1]):
        for a in (actual, actual[::-1]):
            assert parameter_quality(e, a) == pytest.approx((1 + 1 / 3) / 2)


def test_equal_calls_are_each_matched_and_missing_ones_cost() -> None:
    twice = [("search", {"q": "x"})] * 2
    assert parameter_quality(twice, twice) == 1.0
    assert parameter_quality(twice, twice[:1]) == 0.5
    assert parameter_quality(twice[:1], twice) == 0.5


def test_values_compare_as_json() -> None:
    assert (
        parameter_quality(
            [("f", {"a": {"x": 1, "y": [1, 2]}})], [("f", {"a": {"y": [1, 2.0], "x": 1}})]
        )
        == 1.0
    )
    assert parameter_quality([("f", {"a": 1})], [("f", {"a": True})]) == 0.0
    assert parameter_quality([("f", {"a": 1})], [("f", {"a": "1"})]) == 0.0
    assert parameter_quality([("f", {})], [("f", {})]) == 1.0


def test_a_repeated_tool_out_of_order_is_explained() -> None:
    expected = [("a", {}), ("b", {}), ("a", {})]
    actual = [("a", {}), ("a", {}), ("b", {})]
    score = one(
        evaluate(called(*actual), expects(*expected), metrics=["tool_sequence_correctness"])
    )
    assert score.score == pytest.approx(2 / 3)
    assert score.reasoning == "2 of 3 in order: expected a → b → a, called a → a → b"


def test_tools_of_a_whole_conversation_are_compared_with_the_whole_conversation() -> None:
    turns = [called(("f", {})), called(("g", {}))]
    session = {"session_id": "s", "per_turn_traces": turns, "full_trace": None}
    result = evaluate(session, expects(("f", {}), ("g", {})), metrics=TOOLS)
    assert set(scores(result).values()) == {1.0}
    per_turn = one(result).metadata["per_turn"]
    assert [t["score"] for t in per_turn] == [None, None]


def test_multi_agent_metrics_on_one_agent_do_not_apply() -> None:
    names = ["agent_utilization", "coordination_efficiency"]
    found = evaluate(trace(), metrics=names).dimension_results[0].metric_scores
    assert [s.metadata["warning"] for s in found] == ["not_applicable"] * 2


def test_the_worked_examples_of_several_agents() -> None:
    lanes = {
        name: AgentTrace(messages=[Message(role="assistant", content="x")] * n)
        for name, n in (("a", 5), ("b", 3))
    }
    both = MultiAgentTrace(agent_traces=lanes, user_messages=[Message(role="user", content="q")])
    assert scores(evaluate(both, metrics=["agent_utilization"]))[
        "agent_utilization"
    ] == pytest.approx(0.7788, abs=1e-4)
    lanes["b"].messages.append(Message(role="assistant", content="y"))
    passed = MultiAgentTrace(agent_traces=lanes, coordination_events=[CoordinationEvent()] * 3)
    score = scores(evaluate(passed, metrics=["coordination_efficiency"]))["coordination_efficiency"]
    assert score == pytest.approx(0.3114, abs=1e-4)


def test_suggestions_name_the_right_spelling() -> None:
    with pytest.raises(ConfigError, match="Did you mean 'Tool Calling'"):
        evaluate(trace(), metrics=TOOLS, dimension_weights={"tool_calling": 1})
    with pytest.raises(ConfigError, match="Did you mean 'Responsible AI'"):
        evaluate(trace(), metrics=TOOLS, thresholds={"responsible_ai": 0.5})
