"""Faults seen in tools that do this job, in the order in which they were written down.

None of them may come back here. A line that speaks of judges is held to what is true while there is
no judge: its metrics have no score, say so, and count nowhere.
"""

from __future__ import annotations

import asyncio
import copy
import gzip
import json
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from tests.helpers import (
    TOOL_METRICS,
    called,
    dimensions,
    expects,
    metric_scores,
    payload,
    registered,
    rounded,
    scores,
    session,
    standing_in,
    timeless,
    trace,
    whys,
)
from tests.samples.langgraph_records import ai, call, human, tool, update
from uaef_frames import (
    AgentTrace,
    ConfigError,
    GroundTruth,
    LangGraphAdapter,
    Message,
    MultiAgentEvaluator,
    MultiAgentTrace,
    MultiTurnEvaluator,
    OfflineEvaluator,
    SingleAgentEvaluator,
    ToolCall,
    batch_evaluate,
    build_ground_truth,
    build_multi_turn_ground_truth,
    evaluate,
    evaluate_dataset,
    list_metrics,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NAN, INF = float("nan"), float("inf")


def full_trace(*payloads: dict[str, Any]) -> Any:
    """The full trace of the one session that these payloads make."""
    return LangGraphAdapter().transform_to_canonical(list(payloads))[0]["full_trace"]


# Aggregation
#
# Defaults keyed in one spelling and dimensions in another, so that default weights and thresholds
# never apply and `passed` is always true.


def test_default_weights_and_thresholds_apply() -> None:
    wrong_tool_but_fast = called("f", latency=1.0)
    result = evaluate(
        wrong_tool_but_fast, expects("g"), metrics=["tool_selection_accuracy", "latency_score"]
    )
    weighed = {d.dimension_name: (d.weight, d.threshold) for d in result.dimension_results}
    assert weighed == {"Tool Calling": (0.25, 0.7), "Performance": (0.10, 0.6)}
    # (0.25 x 0 + 0.10 x 1) / 0.35, where equal weights would give a half.
    assert result.overall_score == pytest.approx(2 / 7)
    assert result.passed is False
    assert result.failures == ["Tool Calling 0.0 is below its threshold 0.7"]


def test_every_dimension_of_the_metrics_has_a_default() -> None:
    kinds = (SingleAgentEvaluator, MultiAgentEvaluator)
    weighed = {name for kind in kinds for name in kind.default_weights}
    spoken_of = {spec.dimension for spec in list_metrics()}
    assert weighed == spoken_of
    assert set(SingleAgentEvaluator.default_thresholds) == spoken_of


# A dimension whose scores are all null counted as 0; nothing evaluated reported as overall 0 and
# passed.


def test_a_dimension_without_scores_is_null_and_does_not_count() -> None:
    result = evaluate(
        trace(latency=4.0),
        metrics=["tool_selection_accuracy", "parameter_quality", "latency_score"],
    )
    assert dimensions(result) == {"Tool Calling": None, "Performance": 0.5}
    assert result.overall_score == 0.5


def test_nothing_scored_is_neither_zero_nor_passed() -> None:
    result = evaluate(trace(), metrics=["latency_score", "tool_selection_accuracy"])
    assert (result.overall_score, result.passed) == (None, False)
    assert result.failures == ["nothing could be scored"]


# NaN latency or cost scored 1.0 (NaN compares false); None in a batch of scores crashing the
# statistics.


@pytest.mark.parametrize("value", [NAN, INF, -INF, -0.5])
def test_impossible_latency_and_cost_have_no_score(value: float) -> None:
    measured = trace(latency=value, cost=value, metadata={"quality_score": 0.9})
    names = ["latency_score", "throughput", "cost_efficiency"]
    result = evaluate(measured, metrics=names)
    assert scores(result) == dict.fromkeys(names)
    assert set(whys(result).values()) == {"invalid_data"}
    for score in metric_scores(result).values():
        shown = score.metadata["details"]["invalid"].lower()
        assert str(value) in shown


def test_null_among_scores_breaks_no_statistics(tmp_path: Path) -> None:
    payloads = [
        payload("s", n, update("model", ai("a")), latency=latency)
        for n, latency in enumerate((1.0, None, 4.0), 1)
    ]
    result = batch_evaluate(payloads, metrics=["latency_score"], adapter="langgraph")[0]
    # 1, null and a half: the mean of two.
    assert result.metadata["per_turn_averages"] == {"latency_score": 0.75}
    run = evaluate_dataset(payloads, metrics=["latency_score"], out=tmp_path)
    row = run.summary().row(0, named=True)
    assert (row["mean"], row["scored"], row["measured"]) == (0.75, 2, 3)


# A metric that fails, or lacks ground truth, vanishing from the result instead of standing there as
# null with its reason.


def test_a_metric_that_fails_stands_there_with_its_reason() -> None:
    def broken() -> pl.Expr:
        raise RuntimeError("the model file is gone")

    with registered("broken", "Performance", broken):
        result = evaluate(trace(latency=4.0), metrics=["broken", "latency_score"])
    assert scores(result) == {"latency_score": 0.5, "broken": None}
    assert whys(result)["broken"] == "metric_error"
    assert metric_scores(result)["broken"].reasoning == "RuntimeError: the model file is gone"
    assert any("broken" in w and "the model file is gone" in w for w in result.warnings)
    assert dimensions(result) == {"Performance": 0.5}


def test_a_metric_without_ground_truth_stands_there_with_its_reason() -> None:
    result = evaluate(called("f"), metrics=TOOL_METRICS)
    assert scores(result) == dict.fromkeys(TOOL_METRICS)
    assert set(whys(result).values()) == {"missing_data"}
    for score in metric_scores(result).values():
        assert score.reasoning == "the ground truth says nothing about tools"


# Metric order that depends on thread timing. Results that do not carry session_id and turn_id.


def test_metrics_come_in_the_order_of_the_registry() -> None:
    registry = [spec.name for spec in list_metrics() if spec.by == "expr"]
    asked = registry[::-1]
    traces = [called("f", latency=1.0)] * 20

    def names(_: int) -> list[list[str]]:
        return [list(scores(r)) for r in batch_evaluate(traces, metrics=asked)]

    with ThreadPoolExecutor(4) as pool:
        found = [order for orders in pool.map(names, range(8)) for order in orders]
    assert len(found) == 160
    assert {tuple(order) for order in found} == {tuple(registry)}


def test_results_carry_session_and_turn(tmp_path: Path) -> None:
    payloads = [
        payload(sid, turn, update("model", ai("a")), latency=1.0)
        for sid, turn in (("b", 20), ("a", 7), ("b", 10))
    ]
    results = batch_evaluate(payloads, metrics=["latency_score"], adapter="langgraph")
    assert [r.session_id for r in results] == ["b", "a"]
    assert [[t["turn"] for t in r.metadata["per_turn"]] for r in results] == [[1, 2], [1]]
    kept = evaluate_dataset(payloads, metrics=["latency_score"], out=tmp_path).scores.collect()
    assert kept.select("session_id", "turn_id").rows() == [("b", 10), ("b", 20), ("a", 7)]


# hallucination (1 = none) inverted inside quality_score; quality_score written into the caller's
# trace, so that a second evaluation differs from the first.


def test_hallucination_counts_in_quality_as_it_stands() -> None:
    """There is no judge yet: fixed scores stand in for its verdicts."""
    measured = trace(input_tokens=300, output_tokens=200)
    names = ["hallucination_score", "accuracy", "token_efficiency"]
    with standing_in({"hallucination_score": pl.lit(0.9), "accuracy": pl.lit(0.5)}):
        found = scores(evaluate(measured, metrics=names))
    # 500 tokens are few, so efficiency is quality itself: (0.9 + 0.5) / 2, inverted it were 0.3.
    assert found["token_efficiency"] == pytest.approx(0.7)


def test_a_second_evaluation_gives_the_same_and_the_trace_is_as_it_was() -> None:
    one = called("f", input_tokens=900, output_tokens=300, latency=3.0, cost=0.02)
    several = MultiAgentTrace(
        agent_traces={"a": called("f"), "b": called("g")}, metadata={"quality_score": 0.5}
    )
    truth = expects("f", expected_arguments={"per_turn_tools": [None, [{"name": "g"}]]})
    items = [one, several, session("s", one, called("g", metadata={"x": [1]}), full=one)]
    truths = [truth, None, truth]
    before = copy.deepcopy((items, truths))
    with standing_in({"hallucination_score": pl.lit(0.9), "completeness": pl.lit(0.4)}):
        names = [*(s.name for s in list_metrics() if s.by == "expr"), "completeness"]
        first = batch_evaluate(items, truths, metrics=names)
        second = batch_evaluate(items, truths, metrics=names)
    assert timeless(first) == timeless(second)
    assert (items, truths) == before
    assert "quality_score" not in one.metadata


# Both `metrics=` and `metric_set=` given: say which wins, everywhere the same (`metrics` wins with
# a warning); an unknown name in either is an error.


def _evaluate(**asked: Any) -> Any:
    return evaluate(trace(latency=1.0), **asked)


def _batch(**asked: Any) -> Any:
    return batch_evaluate([trace(latency=1.0)], **asked)[0]


def _offline(**asked: Any) -> Any:
    return OfflineEvaluator(**asked).evaluate_batch([trace(latency=1.0)])[0]


def _single(**asked: Any) -> Any:
    return SingleAgentEvaluator(**asked).evaluate(trace(latency=1.0))


def _multi(**asked: Any) -> Any:
    agents = MultiAgentTrace(agent_traces={"a": trace()}, total_latency=1.0)
    return MultiAgentEvaluator(**asked).evaluate(agents)


def _conversation(**asked: Any) -> Any:
    return MultiTurnEvaluator(**asked).evaluate(trace(latency=1.0))


EVERYWHERE = [_evaluate, _batch, _offline, _single, _multi, _conversation]


@pytest.mark.parametrize("way", EVERYWHERE)
def test_metrics_wins_over_metric_set_with_a_warning(way: Callable[..., Any]) -> None:
    with pytest.warns(UserWarning, match="metrics= is used") as caught:
        result = way(metrics=["latency_score"], metric_set="deterministic")
    assert len(caught) == 1
    assert list(scores(result)) == ["latency_score"]


def test_metrics_wins_over_metric_set_in_datasets(tmp_path: Path) -> None:
    asked: Any = {"metrics": ["latency_score"], "metric_set": "deterministic", "out": tmp_path}
    with pytest.warns(UserWarning, match="metrics= is used"):
        run = evaluate_dataset([payload("s", 1, update("model", ai("a")))], **asked)
    assert run.info["metrics"] == ["latency_score"]
    for wrong in ({"metrics": ["latency"]}, {"metric_set": "fast"}):
        with pytest.raises(ConfigError, match="unknown metric"):
            evaluate_dataset([], out=tmp_path, **wrong)


@pytest.mark.parametrize("way", EVERYWHERE)
def test_unknown_names_in_either_are_errors(way: Callable[..., Any]) -> None:
    with pytest.raises(ConfigError, match=r"unknown metric 'latencyscore'.*'latency_score'"):
        way(metrics=["latencyscore"])
    with pytest.raises(ConfigError, match=r"unknown metric_set 'determinstic'.*'deterministic'"):
        way(metric_set="determinstic")
    # The set that does not count must exist all the same.
    with pytest.raises(ConfigError, match="unknown metric_set"):
        way(metrics=["latency_score"], metric_set="determinstic")


# Turns
#
# Turn count as messages // 2: five turns with tool steps become seven.


def tool_step(n: int) -> list[Any]:
    return [
        update("model", ai("", f"m{n}", call("f", f"c{n}"))),
        update("tools", tool("r", f"c{n}", f"t{n}")),
    ]


def test_five_turns_with_tool_steps_are_five() -> None:
    payloads = [
        payload("s", n, *tool_step(n), update("model", ai(f"a{n}", f"a{n}"))) for n in range(1, 6)
    ]
    assert len(full_trace(*payloads).messages) == 20
    result = batch_evaluate(payloads, metrics=["turn_efficiency"], adapter="langgraph")[0]
    assert result.metadata["num_turns"] == 5
    assert metric_scores(result)["turn_efficiency"].metadata["details"]["complete_turns"] == 5
    assert scores(result) == {"turn_efficiency": 1.0}


def test_the_same_five_turns_in_one_trace_are_five() -> None:
    roles = ["user", "assistant", "tool", "assistant"] * 5
    messages = [Message(role=r, content="x") for r in roles]
    assert scores(evaluate(AgentTrace(messages=messages), metrics=["turn_efficiency"])) == {
        "turn_efficiency": 1.0
    }
    twice = AgentTrace(messages=messages * 2)
    assert scores(evaluate(twice, metrics=["turn_efficiency"])) == {"turn_efficiency": 0.5}


# One bad session failing the whole batch; a missing turn_id failing everything; string ids sorted
# lexically (10 before 2).


def test_one_bad_session_does_not_fail_the_batch() -> None:
    mixed = session("mixed", trace(), MultiAgentTrace())
    unreadable = session("unreadable", trace(latency=1.0))
    bad_truth = GroundTruth(expected_arguments={"per_turn_tools": "search"})
    results = batch_evaluate(
        [trace(latency=1.0), mixed, object(), unreadable, trace(latency=4.0)],
        [None, None, None, bad_truth, None],
        metrics=["latency_score"],
    )
    assert [r.overall_score for r in results] == [1.0, None, None, None, 0.5]
    assert [r.passed for r in results] == [True, False, False, False, False]
    assert "all AgentTrace or all MultiAgentTrace" in results[1].failures[0]
    assert "not object" in results[2].failures[0]
    assert "per_turn_tools" in results[3].failures[0]
    assert [results[i].session_id for i in (1, 3)] == ["mixed", "unreadable"]


def test_one_bad_session_of_raw_payloads_does_not_fail_the_batch() -> None:
    payloads = [
        payload("good", 1, update("model", ai("a")), latency=4.0),
        payload("mixed", 1, update("alice", ai("a", name="alice"))),
        payload("mixed", 2, update("bob", ai("a", name="bob")), update("eve", ai("b", name="eve"))),
        payload("text", 1, {"model": {"messages": "AIMessage(content='a', id='1')"}}),
        payload("twice", 1, update("model", ai("a"))),
        payload("twice", 1, update("model", ai("b"))),
        payload("last", 1, update("model", ai("a")), latency=1.0),
    ]
    results = batch_evaluate(payloads, metrics=["latency_score"], adapter="langgraph")
    assert [r.session_id for r in results] == ["good", "mixed", "text", "twice", "last"]
    assert [r.overall_score for r in results] == [0.5, None, None, None, 1.0]
    assert "mixed in one session" in results[1].failures[0]
    assert "serialise" in results[2].failures[0]
    assert "second turn 1" in results[3].failures[0]


def test_a_missing_turn_id_fails_its_own_session_only(tmp_path: Path) -> None:
    payloads = [
        payload("a", 1, update("model", ai("a")), latency=4.0),
        payload("b", 1, update("model", ai("a")), latency=1.0),
        payload("b", None, update("model", ai("b")), latency=1.0),
        {"turn_id": 1, "stream_events": []},
        payload("c", 1, update("model", ai("a")), latency=1.0),
    ]
    results = batch_evaluate(
        payloads, {"c": GroundTruth()}, metrics=["latency_score"], adapter="langgraph"
    )
    assert [r.session_id for r in results] == ["a", "b", None, "c"]
    assert [r.overall_score for r in results] == [0.5, None, None, 1.0]
    assert "payload 3: no turn_id" in results[1].failures[0]
    assert "payload 4: no session_id" in results[2].failures[0]
    with pytest.warns(UserWarning, match="2 records"):
        run = evaluate_dataset(payloads, metrics=["latency_score"], out=tmp_path)
    kept = run.sessions.select("session_id", "num_turns").collect().rows()
    assert kept == [("a", 1), ("b", 1), ("c", 1)]
    assert run.rejects.collect()["line"].sort().to_list() == [3, 4]


def test_text_turn_ids_sort_as_numbers() -> None:
    payloads = [payload("s", n, update("model", ai(n)), said=n) for n in ("10", "2", "1")]
    turns = LangGraphAdapter().transform_to_canonical(payloads)[0]["per_turn_traces"]
    assert [t.messages[0].content for t in turns] == ["1", "2", "10"]


# A list of flat payloads handed to batch_evaluate with an adapter scored as separate traces: it
# must group.


def test_flat_payloads_with_an_adapter_are_grouped() -> None:
    payloads = [
        payload(sid, turn, update("model", ai("a")), latency=latency)
        for sid, turn, latency in (("s", 2, 4.0), ("t", 1, 1.0), ("s", 1, 1.0))
    ]
    truths = {"s": expects("f"), "t": None}
    results = batch_evaluate(
        payloads, truths, metrics=["tool_selection_accuracy", "latency_score"], adapter="langgraph"
    )
    assert [(r.session_id, r.metadata["num_turns"]) for r in results] == [("s", 2), ("t", 1)]
    assert [t["metric_scores"]["latency_score"] for t in results[0].metadata["per_turn"]] == [
        1.0,
        0.5,
    ]
    assert [scores(r)["tool_selection_accuracy"] for r in results] == [0.0, None]


# A session with one quiet turn (one agent, or an interrupt only) rejected as mixed.


def test_a_quiet_turn_is_not_rejected() -> None:
    payloads = [
        payload("s", 1, update("supervisor", ai("Hello!", "1", name="supervisor"))),
        payload(
            "s",
            2,
            update("supervisor", ai("", "2", call("transfer_to_flights", "h"), name="supervisor")),
            update("flights", ai("KL1001", "3", name="flights")),
        ),
        payload("s", 3, {"__interrupt__": [{"value": "Sure?", "id": "i"}]}),
        payload("s", 4, update("flights", ai("Booked", "4", name="flights"))),
    ]
    found = LangGraphAdapter().transform_to_canonical(payloads)[0]
    assert [type(t) for t in found["per_turn_traces"]] == [MultiAgentTrace] * 4
    result = evaluate(found, metrics=["agent_utilization"])
    assert result.metadata["is_multi_agent"] is True
    # Nobody works in the turn that only asks back; it has no score and does not count.
    assert metric_scores(result)["agent_utilization"].metadata["per_turn"][2]["score"] is None


# Traces
#
# Only the last message of a node read, only the last message's tokens summed; calls and tokens lost
# when messages are dicts; OpenAI-shaped calls dropped for want of an id.


def test_every_message_of_a_node_is_read_with_its_tokens_and_calls() -> None:
    full = full_trace(
        payload(
            "s",
            1,
            update(
                "model",
                ai("one", "1", call("f", "c1", x=1), usage=(10, 2)),
                tool("r", "c1", "2"),
                ai("two", "3", call("g", "c2"), usage=(20, 3)),
            ),
        )
    )
    assert [m.content for m in full.messages] == ["q", "one", "r", "two"]
    assert (full.input_tokens, full.output_tokens) == (30, 5)
    assert [(c.name, c.arguments, c.result) for c in full.tool_calls] == [
        ("f", {"x": 1}, "r"),
        ("g", {}, None),
    ]


def test_live_messages_and_dicts_give_the_same_trace() -> None:
    messages = pytest.importorskip("langchain_core.messages")
    usage = {"input_tokens": 7, "output_tokens": 2, "total_tokens": 9}
    calls = [{"name": "f", "args": {"x": 1}, "id": "c"}]
    live = messages.AIMessage("one", id="1", tool_calls=calls, usage_metadata=usage)
    as_dict = live.model_dump()
    traces = [full_trace(payload("s", 1, update("model", m))) for m in (live, as_dict)]
    assert traces[0] == traces[1]
    assert (traces[0].input_tokens, traces[0].tool_calls[0].arguments) == (7, {"x": 1})


def test_openai_calls_without_an_id_are_kept() -> None:
    function = {"name": "f", "arguments": '{"x": 1}'}
    said = {"role": "assistant", "content": None, "tool_calls": [{"function": function}]}
    answer = {"role": "tool", "content": "r"}
    full = full_trace(payload("s", 1, update("model", said), update("tools", answer)))
    assert [(c.name, c.arguments, c.result, c.status) for c in full.tool_calls] == [
        ("f", {"x": 1}, "r", "ok")
    ]


# A tool node's whole output stored on the last call; errors ignored.


def test_results_go_to_their_own_calls_and_errors_are_kept() -> None:
    full = full_trace(
        payload(
            "s",
            1,
            update("model", ai("", "1", call("a", "ca"), call("b", "cb"), call("c", "cc"))),
            update("tools", tool("B", "cb", "2", status="error"), tool("A", "ca", "3")),
        )
    )
    assert [(c.name, c.result, c.status) for c in full.tool_calls] == [
        ("a", "A", "ok"),
        ("b", "B", "error"),
        ("c", None, "pending"),
    ]


# Multi-agent: user messages kept from turn 1 only, messages grouped by agent instead of by time,
# results dropped, tokens unknown, and payload tokens that are partial replacing a full sum.


def team_turn(n: int, **fields: Any) -> dict[str, Any]:
    return payload(
        "s",
        n,
        update("x", ai(f"x{n}", f"x{n}", call("f", f"c{n}"), name="x", usage=(10, 1))),
        update("tools", tool(f"r{n}", f"c{n}", f"t{n}")),
        update("y", ai(f"y{n}", f"y{n}", name="y", usage=(5, 2))),
        update("x", ai(f"z{n}", f"z{n}", name="x", usage=(1, 1))),
        said=f"q{n}",
        **fields,
    )


def test_multi_agent_traces_keep_users_time_results_and_tokens() -> None:
    full = full_trace(team_turn(1), team_turn(2))
    assert [m.content for m in full.messages] == [
        *("q1", "x1", "r1", "y1", "z1"),
        *("q2", "x2", "r2", "y2", "z2"),
    ]
    assert [m.content for m in full.user_messages] == ["q1", "q2"]
    assert [(c.agent, c.result) for c in full.tool_calls] == [("x", "r1"), ("x", "r2")]
    assert (full.input_tokens, full.output_tokens) == (32, 8)
    assert full.agent_traces["x"].input_tokens == 22


def test_partial_payload_tokens_do_not_replace_a_full_sum() -> None:
    """The first payload says 100 input tokens and nothing else; the second says nothing."""
    full = full_trace(team_turn(1, input_tokens=100), team_turn(2))
    assert (full.input_tokens, full.output_tokens) == (116, 8)


# Stream modes other than `updates` giving an empty trace without a word.

STREAMS: dict[str, list[Any]] = {
    "values": [["values", {"messages": [human("q", "h"), ai("a", "1")]}]],
    "values, bare": [{"messages": [human("q", "h"), ai("a", "1")]}],
    "messages": [["messages", [ai("a", "1"), {"langgraph_node": "model"}]]],
    "tasks": [{"id": "t", "name": "model", "error": None, "result": {"messages": [ai("a", "1")]}}],
    "debug": [
        {
            "step": 1,
            "type": "task_result",
            "timestamp": "2026-01-01T00:00:00Z",
            "payload": {"id": "t", "name": "model", "result": {"messages": [ai("a", "1")]}},
        }
    ],
    "events": [
        {
            "event": "on_chat_model_end",
            "name": "m",
            "run_id": "r",
            "metadata": {"langgraph_node": "model"},
            "data": {"output": ai("a", "1")},
        }
    ],
}


@pytest.mark.parametrize("mode", STREAMS)
def test_other_stream_modes_are_read(mode: str) -> None:
    full = full_trace(payload("s", 1, *STREAMS[mode]))
    assert [(m.role, m.content) for m in full.messages] == [("user", "q"), ("assistant", "a")]


def test_a_stream_that_carries_no_messages_says_so() -> None:
    silent = payload("s", 1, ["custom", {"progress": 1}], latency=1.0)
    result = batch_evaluate([silent], metrics=["latency_score"], adapter="langgraph")[0]
    assert len(result.warnings) == 1
    assert "custom" in result.warnings[0]


# Ground truth
#
# Empty cell → the text "nan" or "None". Bad JSON in a tools cell dropped. Expected calls that need
# a timestamp. A None in a list of ground truths crashing.


@pytest.mark.parametrize("empty", [NAN, None, "", "  "])
def test_an_empty_cell_says_nothing(empty: Any) -> None:
    row = {"Question": "q", "Answer": empty, "tools": empty, "context": empty}
    _, truth = build_ground_truth(row)
    assert (truth.expected_output, truth.expected_tool_calls) == (None, None)
    assert truth.context_documents == []
    several = build_multi_turn_ground_truth([row, {**row, "Answer": "yes"}])
    assert several.expected_output == "Turn 2: yes"


def test_bad_json_in_a_tools_cell_is_an_error() -> None:
    row = {"Question": "q", "tools": '[{"name": "f"'}
    with pytest.raises(ValueError, match="not JSON"):
        build_ground_truth(row)
    with pytest.raises(ValueError, match=r"turn 2: .*not JSON"):
        build_multi_turn_ground_truth([{"Question": "q"}, row])


def test_expected_calls_need_no_timestamp() -> None:
    truth = GroundTruth(expected_tool_calls=[{"name": "f", "arguments": {"x": 1}}])
    assert set(scores(evaluate(called(("f", {"x": 1})), truth, metrics=TOOL_METRICS)).values()) == {
        1.0
    }
    timed = ToolCall(name="f", arguments={"x": 1}, timestamp=datetime(2026, 1, 1, tzinfo=UTC))
    truth = GroundTruth(expected_tool_calls=[timed])
    assert set(scores(evaluate(called(("f", {"x": 1})), truth, metrics=TOOL_METRICS)).values()) == {
        1.0
    }


def test_none_in_a_list_of_ground_truths_is_no_ground_truth() -> None:
    results = batch_evaluate(
        [called("f"), called("f")], [None, expects("f")], metrics=["tool_selection_accuracy"]
    )
    assert [r.overall_score for r in results] == [None, 1.0]


# Tools
#
# Fewer calls than expected raising parameter quality above the matched share; greedy pairing that
# depends on listing order; True equal to 1.


def parameter_quality(expected: list[Any], made: list[Any]) -> float | None:
    result = evaluate(called(*made), expects(*expected), metrics=["parameter_quality"])
    return scores(result)["parameter_quality"]


def test_parameter_quality_is_never_above_the_matched_share() -> None:
    right = ("f", {"x": 1})
    assert parameter_quality([right, right, right], [right]) == pytest.approx(1 / 3)
    assert parameter_quality([right, ("g", {})], [right]) == 0.5
    assert parameter_quality([right], [right, ("g", {}), ("h", {})]) == pytest.approx(1 / 3)
    assert parameter_quality([right], []) == 0.0


def test_pairing_is_the_best_one_in_any_listing_order() -> None:
    expected = [("f", {"a": 1, "b": 1}), ("f", {"a": 1, "b": 2})]
    made = [("f", {"a": 1, "b": 2}), ("f", {"a": 9, "b": 1})]
    # Best: the equal pair, and b of the other: (1 + 1/2) / 2. Greedy from the top: (1/2 + 0) / 2.
    for e in (expected, expected[::-1]):
        for m in (made, made[::-1]):
            assert parameter_quality(e, m) == pytest.approx(0.75)


def test_true_is_not_one() -> None:
    assert parameter_quality([("f", {"x": True})], [("f", {"x": 1})]) == 0.0
    assert parameter_quality([("f", {"x": False})], [("f", {"x": 0})]) == 0.0
    assert parameter_quality([("f", {"x": 1})], [("f", {"x": 1.0})]) == 1.0
    assert parameter_quality([("f", {"x": 1})], [("f", {"x": "1"})]) == 0.0


# Reported in public by people who do this job
#
# Greedy pairing makes a tool score depend on the order in which expected calls are listed
# (confident-ai/deepeval#3338).


def test_deepeval_3338_listing_order_does_not_matter() -> None:
    expected = [("book", {"a": 1, "b": 1, "c": 1}), ("book", {"a": 1, "b": 1, "c": 2})]
    made = [("book", {"a": 1, "b": 1, "c": 2}), ("book", {"a": 1, "b": 5, "c": 5})]
    # 1 for the equal pair and 1 key of 3 for the other, of 2 calls.
    for e in (expected, expected[::-1]):
        assert parameter_quality(e, made) == pytest.approx((1 + 1 / 3) / 2)


# Two equal calls of one tool matched once because they compare equal (deepeval#3141).


def test_deepeval_3141_equal_calls_are_each_matched() -> None:
    twice = [("search", {"q": "x"})] * 2
    result = evaluate(called(*twice), expects(*twice), metrics=TOOL_METRICS)
    assert scores(result) == dict.fromkeys(TOOL_METRICS, 1.0)


# A repeated tool out of order gives a score below 1 and an empty reason (deepeval#3014).


def test_deepeval_3014_a_repeated_tool_out_of_order_is_explained() -> None:
    result = evaluate(called("a", "a", "b"), expects("a", "b", "a"), metrics=TOOL_METRICS)
    assert scores(result)["tool_selection_accuracy"] == 1.0
    sequence = metric_scores(result)["tool_sequence_correctness"]
    assert sequence.score == pytest.approx(2 / 3)
    assert sequence.reasoning == "2 of 3 in order: expected a → b → a, called a → a → b"


# Nested arguments compared as text, so key order one level down matters (vibrantlabsai/ragas#3006;
# deepeval#3175). Empty argument objects on both sides fail (deepeval#1608).


def test_ragas_3006_key_order_does_not_matter_at_any_depth() -> None:
    expected = {"where": {"city": "Lisbon", "near": [{"x": 1, "y": 2}]}}
    made = {"where": {"near": [{"y": 2, "x": 1.0}], "city": "Lisbon"}}
    assert parameter_quality([("f", expected)], [("f", made)]) == 1.0
    swapped = {"where": {"city": "Lisbon", "near": [{"x": 2, "y": 1}]}}
    assert parameter_quality([("f", expected)], [("f", swapped)]) == 0.0


def test_deepeval_1608_empty_arguments_on_both_sides_are_right() -> None:
    assert parameter_quality([("f", {})], [("f", {})]) == 1.0
    assert parameter_quality([("f", {})], [("f", {"x": 1})]) == 0.0


# An unreadable judge reply becomes 0 (or 0.5), or the first number in the text (water#57,
# openagent-eval#74, NeMo-Evaluator#1094), or NaN is kept in rows and counted 0 in the mean
# (NeMo-Agent-Toolkit#1058).


def test_what_is_no_score_is_null_and_in_no_mean(tmp_path: Path) -> None:
    """There is no judge yet: values that are no score stand in for verdicts that are none."""
    verdict = pl.col("latency_s") - 1  # NaN, 9 and 0.5 by turn
    turns = [
        payload("s", n, update("model", ai("a")), latency=latency)
        for n, latency in enumerate((NAN, 10.0, 1.5), 1)
    ]
    with standing_in({"accuracy": verdict}):
        result = batch_evaluate(turns, metrics=["accuracy"], adapter="langgraph")[0]
        run = evaluate_dataset(turns, metrics=["accuracy"], out=tmp_path)
    assert [t["score"] for t in metric_scores(result)["accuracy"].metadata["per_turn"]] == [
        None,
        None,
        0.5,
    ]
    assert result.overall_score == 0.5
    kept = run.scores.collect()
    assert kept["score"].to_list() == [None, None, 0.5]
    assert kept["warning"].to_list() == ["invalid_data", "invalid_data", None]
    assert run.sql("select avg(score) as mean from scores")["mean"].to_list() == [0.5]


def test_judge_metrics_without_a_judge_are_null_and_in_no_mean() -> None:
    judged = [s.name for s in list_metrics() if s.by == "judge"]
    with pytest.warns(UserWarning, match="no judge is configured") as caught:
        result = evaluate(trace(latency=4.0), metrics=[*judged, "latency_score", "turn_efficiency"])
    assert len(caught) == 1
    found = scores(result)
    assert {name: found[name] for name in judged} == dict.fromkeys(judged)
    multi_agent = {"delegation_quality", "workflow_completion"}
    assert {whys(result)[n] for n in judged if n not in multi_agent} == {"no_judge"}
    assert {whys(result)[n] for n in multi_agent} == {"not_applicable"}
    # 0.10 of 0.5 and 0.10 of 1.
    assert result.overall_score == pytest.approx(0.75)


# Judge failures are not spread evenly, so that counting them as 0 inverts a comparison
# (rjmurillo/ai-agents#3915): comparisons must show coverage on both sides.


def test_means_are_shown_with_their_coverage(tmp_path: Path) -> None:
    """Runs cannot be compared yet; each says of how many turns its means are."""
    full = [payload("s", n, update("model", ai("a")), latency=3.2) for n in (1, 2, 3, 4)]
    torn = [{**p, "latency": p["latency"] if p["turn_id"] == 1 else None} for p in full]
    found = []
    for n, turns in enumerate((full, torn)):
        run = evaluate_dataset(turns, metrics=["latency_score"], out=tmp_path, name=f"run-{n}")
        found.append(run.summary().row(0, named=True))
    assert [(r["mean"], r["scored"], r["measured"]) for r in found] == [
        (pytest.approx(0.625), 4, 4),
        (pytest.approx(0.625), 1, 4),
    ]
    assert [r["why_null"] for r in found] == [None, "missing_data"]


# `nest_asyncio.apply()` at import, loops bound to another thread, the second `evaluate()` in a
# notebook hanging (ragas#681, #1819). Async test runs that never end (deepeval#1147).


def test_importing_touches_no_event_loop() -> None:
    code = (
        "import asyncio, sys\n"
        "before = asyncio.run, asyncio.get_event_loop, asyncio.new_event_loop\n"
        "import uaef_frames\n"
        "after = asyncio.run, asyncio.get_event_loop, asyncio.new_event_loop\n"
        "assert before == after and 'nest_asyncio' not in sys.modules\n"
        "assert not {'langgraph', 'openai', 'duckdb', 'altair'} & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_evaluating_again_and_again_inside_a_running_loop_ends() -> None:
    """As in a notebook, whose cells all run inside one event loop."""

    async def cell() -> list[float | None]:
        first = evaluate(trace(latency=4.0), metrics=["latency_score"])
        elsewhere = await asyncio.to_thread(evaluate, trace(latency=4.0), metrics=["latency_score"])
        again = evaluate(trace(latency=4.0), metrics=["latency_score"])
        return [r.overall_score for r in (first, elsewhere, again)]

    async def notebook() -> list[float | None]:
        return await asyncio.wait_for(cell(), timeout=60)

    for _ in range(2):  # two loops, one after the other
        assert asyncio.run(notebook()) == [0.5] * 3


# Multi-turn history serialised all users first, then all assistants
# (aws/bedrock-agentcore-sdk-python#455): order is by time.


def test_history_is_in_the_order_of_time() -> None:
    turns = [payload("s", n, update("model", ai(f"a{n}")), said=f"q{n}") for n in (3, 1, 2)]
    full = full_trace(*turns)
    told = ["q1", "a1", "q2", "a2", "q3", "a3"]
    assert [m.content for m in full.messages] == told
    tables = LangGraphAdapter().to_conversations(turns)
    assert tables.messages["content"].to_list() == told


# Tool metrics that exist for single turns only, so people cut conversations up and lose the context
# (deepeval#2223). Unbounded concurrency over a dataset (haystack-core-integrations#3695). No batch
# evaluation (deepeval#500).


def test_deepeval_2223_tools_are_scored_over_a_conversation() -> None:
    conversation = session("s", called("f"), called("g"), called())
    truth = GroundTruth(
        expected_arguments={"per_turn_tools": [[{"name": "f"}], [{"name": "h"}], []]}
    )
    result = evaluate(conversation, truth, metrics=["tool_selection_accuracy"])
    score = metric_scores(result)["tool_selection_accuracy"]
    assert [t["score"] for t in score.metadata["per_turn"]] == [1.0, 0.0, 1.0]
    assert score.score == pytest.approx(2 / 3)
    # Or expected of the conversation as a whole: f and g of f, g and h.
    whole = evaluate(conversation, expects("g", "h", "f"), metrics=["tool_selection_accuracy"])
    assert scores(whole)["tool_selection_accuracy"] == pytest.approx(2 / 3)


def test_a_dataset_is_scored_by_few_threads(tmp_path: Path) -> None:
    path = tmp_path / "payloads.jsonl.gz"
    lines = [json.dumps(payload(f"s{n}", 1, update("model", ai("a")))) for n in range(200)]
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    before = threading.active_count()
    seen: list[int] = []
    run = evaluate_dataset(
        path,
        metrics=["turn_efficiency"],
        out=tmp_path / "runs",
        batch_turns=5,
        progress=lambda *_: seen.append(threading.active_count() - before),
    )
    assert run.info["num_turns"] == 200
    assert len(seen) >= 40
    assert max(seen) <= 4
    assert threading.active_count() == before


def test_deepeval_500_a_batch_gives_what_each_would_alone() -> None:
    items = [
        trace(latency=1.0),
        called("f", latency=3.0),
        session("s", called("f"), called("g", latency=5.0)),
        MultiAgentTrace(agent_traces={"a": called("f"), "b": trace()}, total_latency=2.5),
    ]
    truths = [None, expects("f"), expects("f", "g"), expects("g")]
    names = [*TOOL_METRICS, "latency_score", "turn_efficiency", "agent_utilization"]
    alone = [evaluate(i, t, metrics=names) for i, t in zip(items, truths, strict=True)]
    together = batch_evaluate(items, truths, metrics=names)
    assert rounded(timeless(together)) == rounded(timeless(alone))
