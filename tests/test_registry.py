"""The registry: which metrics there are, how they are asked for, and how users add their own."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from tests.helpers import metric_scores, registered, scores, session, trace, whys
from uaef_frames import (
    ConfigError,
    MetricSpec,
    Scored,
    Unless,
    evaluate,
    list_metrics,
    metric,
    metric_sets,
    register_metric,
    register_use_case_specific_metrics,
    unregister_metric,
)
from uaef_frames.metrics import get_metric, resolve_metrics, with_constants

if TYPE_CHECKING:
    from collections.abc import Iterator

# name: dimension, phase, by; as the table of metrics has them.
TABLE = {
    "tool_selection_accuracy": ("Tool Calling", "turn", "expr"),
    "tool_sequence_correctness": ("Tool Calling", "turn", "expr"),
    "parameter_quality": ("Tool Calling", "turn", "expr"),
    "mcp_compliance": ("Tool Calling", "turn", "expr"),
    "answer_relevance": ("Response Quality", "turn", "judge"),
    "completeness": ("Response Quality", "turn", "judge"),
    "hallucination_score": ("Response Quality", "turn", "judge"),
    "accuracy": ("Response Quality", "turn", "judge"),
    "safety_score": ("Responsible AI", "turn", "judge"),
    "bias_score": ("Responsible AI", "turn", "judge"),
    "prompt_injection_detection": ("Responsible AI", "turn", "expr"),
    "toxicity_score": ("Responsible AI", "turn", "judge"),
    "latency_score": ("Performance", "turn", "expr"),
    "token_efficiency": ("Performance", "turn", "expr"),
    "cost_efficiency": ("Performance", "turn", "expr"),
    "throughput": ("Performance", "turn", "expr"),
    "chain_of_thought_coherence": ("Reasoning", "turn", "judge"),
    "logical_consistency": ("Reasoning", "turn", "judge"),
    "reasoning_step_correctness": ("Reasoning", "turn", "judge"),
    "fallacy_detection": ("Reasoning", "turn", "judge"),
    "agent_utilization": ("Multi-Agent", "turn", "expr"),
    "delegation_quality": ("Multi-Agent", "turn", "judge"),
    "workflow_completion": ("Multi-Agent", "turn", "judge"),
    "coordination_efficiency": ("Multi-Agent", "turn", "expr"),
    "context_retention": ("Multi-Turn", "session", "judge"),
    "coherence": ("Multi-Turn", "session", "judge"),
    "conversation_completeness": ("Multi-Turn", "session", "judge"),
    "turn_efficiency": ("Multi-Turn", "session", "expr"),
    "role_adherence": ("Multi-Turn", "session", "judge"),
    "holistic_llm_judge": ("Multi-Turn", "session", "judge"),
    "user_satisfaction": ("Multi-Turn", "session", "judge"),
    "sentiment": ("Multi-Turn", "session", "judge"),
    "agent_tone": ("Multi-Turn", "session", "judge"),
    "naturalness": ("Multi-Turn", "session", "judge"),
    "instruction_compliance": ("Multi-Turn", "session", "judge"),
    "optimum_turns": ("Multi-Turn", "session", "judge"),
    "per_turn_sentiment": ("Multi-Turn", "session", "judge"),
    "per_turn_agent_tone": ("Multi-Turn", "session", "judge"),
    "per_turn_naturalness": ("Multi-Turn", "session", "judge"),
}
OPT_IN = ("containment", "resolution")
FIVE_POINTS = {
    *("user_satisfaction", "sentiment", "agent_tone", "naturalness"),
    *("per_turn_sentiment", "per_turn_agent_tone", "per_turn_naturalness"),
}
CONSTANTS = {
    "latency_score": {"threshold_ms": 2000.0},
    "token_efficiency": {"expected_tokens": 1000.0, "penalty": "light"},
    "cost_efficiency": {"expected_usd": 0.01, "penalty": "light"},
    "throughput": {"target_rps": 10.0},
    "turn_efficiency": {"expected_turns": 5.0},
    "coordination_efficiency": {"free_ratio": 0.10, "steepness": 5.0},
}


@contextmanager
def opt_ins() -> Iterator[None]:
    register_use_case_specific_metrics()
    try:
        yield
    finally:
        for name in OPT_IN:
            unregister_metric(name)


# What there is


def test_the_metrics_are_those_of_the_table() -> None:
    specs = list_metrics()
    assert {s.name: (s.dimension, s.phase, s.by) for s in specs} == TABLE
    assert len(specs) == 39
    assert len({s.dimension for s in specs}) == 7
    assert {s.name for s in specs if s.scale == "1-5"} == FIVE_POINTS
    assert get_metric("optimum_turns").scale == "count"
    assert {s.name: dict(s.constants) for s in specs if s.constants} == CONSTANTS
    assert all(s.description for s in specs)


def test_metrics_are_listed_by_dimension() -> None:
    found = [s.dimension for s in list_metrics()]
    assert list(dict.fromkeys(found)) == [
        *("Tool Calling", "Response Quality", "Responsible AI", "Performance"),
        *("Reasoning", "Multi-Agent", "Multi-Turn"),
    ]
    assert found == sorted(found, key=list(dict.fromkeys(found)).index)


def test_two_more_are_there_when_they_are_asked_for() -> None:
    with opt_ins():
        register_use_case_specific_metrics()  # again, harmlessly
        specs = list_metrics()
        assert len(specs) == 41
        for name in OPT_IN:
            spec = get_metric(name)
            assert (spec.dimension, spec.phase, spec.by) == ("Multi-Turn", "session", "judge")
            assert spec.scale == "boolean"
        with pytest.warns(UserWarning, match="no judge"):
            result = evaluate(session("s", trace()), metrics=OPT_IN)
        assert scores(result) == dict.fromkeys(OPT_IN)
        assert set(whys(result).values()) == {"no_judge"}
        assert not set(OPT_IN) & set(metric_sets()["default"])
    assert len(list_metrics()) == 39


@pytest.mark.parametrize(("name", "near"), [("containment", "'sentiment'"), ("resolution", "")])
def test_before_that_they_are_unknown(name: str, near: str) -> None:
    with pytest.raises(ValueError, match=f"unknown metric '{name}'") as raised:
        evaluate(trace(), metrics=[name])
    said = str(raised.value)
    assert near in said
    assert "register_use_case_specific_metrics()" in said
    assert "list_metrics()" in said


# Asking for metrics


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("latency", "latency_score"),
        ("tool_selection", "tool_selection_accuracy"),
        ("Throughput", "throughput"),
        ("hallucination", "hallucination_score"),
    ],
)
def test_an_unknown_name_suggests_the_closest_and_how_to_list_all(written: str, meant: str) -> None:
    with pytest.raises(ValueError, match=f"unknown metric '{written}'") as raised:
        resolve_metrics([written])
    assert f"'{meant}'" in str(raised.value)
    assert "list_metrics() or `uaef-frames metrics` lists all" in str(raised.value)


def test_a_name_like_no_other_still_says_how_to_list_all() -> None:
    with pytest.raises(ConfigError, match=r"unknown metric 'zzz'\. list_metrics\(\)"):
        resolve_metrics(["zzz"])
    names: Any = [None]
    with pytest.raises(ConfigError, match="unknown metric None"):
        resolve_metrics(names)


def test_a_metric_is_scored_once_however_often_it_is_named() -> None:
    found = [s.name for s in resolve_metrics(["throughput", "latency_score", "throughput"])]
    assert found == ["latency_score", "throughput"]
    assert [s.name for s in resolve_metrics("throughput")] == ["throughput"]


def test_metric_sets() -> None:
    sets = metric_sets()
    every = list(TABLE)
    by = TABLE
    assert sorted(sets["all"]) == sorted(every)
    assert set(sets["deterministic"]) == {n for n, (_, _, how) in by.items() if how == "expr"}
    assert len(sets["deterministic"]) == 12
    assert set(sets["judge"]) == set(every) - set(sets["deterministic"])
    assert set(sets["session"]) == {n for n, (_, phase, _) in by.items() if phase == "session"}
    assert set(sets["turn"]) == set(every) - set(sets["session"])
    slugs = {d: d.lower().replace(" ", "_").replace("-", "_") for d, _, _ in by.values()}
    for dimension, slug in slugs.items():
        assert set(sets[slug]) == {n for n, (d, _, _) in by.items() if d == dimension}
    # Variants with one verdict an exchange are dear; they are asked for by name.
    assert set(every) - set(sets["default"]) == {n for n in every if n.startswith("per_turn_")}
    for name, members in sets.items():
        assert [s.name for s in resolve_metrics(metric_set=name)] == members


def test_a_set_is_scored_by_its_name() -> None:
    result = evaluate(trace(latency=4.0), metric_set="performance")
    assert list(scores(result)) == metric_sets()["performance"]
    with pytest.raises(ConfigError, match=r"unknown metric_set 'tool_caling'.*'tool_calling'"):
        evaluate(trace(), metric_set="tool_caling")


# Constants


def test_constants_of_a_run_do_not_stay() -> None:
    constants = {"latency_score": {"threshold_ms": 8000}}
    assert scores(evaluate(trace(latency=4.0), metrics=["latency_score"], constants=constants)) == {
        "latency_score": 1.0
    }
    assert scores(evaluate(trace(latency=4.0), metrics=["latency_score"])) == {"latency_score": 0.5}
    assert dict(get_metric("latency_score").constants) == CONSTANTS["latency_score"]


@pytest.mark.parametrize(
    ("constants", "said"),
    [
        ({"latency_scor": {}}, "unknown metric 'latency_scor'"),
        ({"latency_score": {"threshold": 1}}, "no constant 'threshold'; it has 'threshold_ms'"),
        ({"parameter_quality": {"x": 1}}, "no constant 'x'; it has none"),
        ({"latency_score": {"threshold_ms": "fast"}}, "at least 0, not 'fast'"),
        ({"latency_score": {"threshold_ms": True}}, "at least 0, not True"),
        ({"latency_score": {"threshold_ms": float("inf")}}, "at least 0, not inf"),
        ({"token_efficiency": {"penalty": "none"}}, r"\('light', 'heavy'\), not 'none'"),
        ({"token_efficiency": {"penalty": 2}}, "not 2"),
    ],
)
def test_constants_are_checked(constants: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        with_constants(list_metrics(), constants)
    # Those of metrics that are not asked for, too: they are a slip all the same.
    with pytest.raises(ConfigError, match=said):
        evaluate(trace(), metrics=["throughput"], constants=constants)


def test_constants_of_a_metric_that_is_not_asked_for_change_nothing() -> None:
    constants = {"latency_score": {"threshold_ms": 1}}
    result = evaluate(trace(latency=0.2), metrics=["throughput"], constants=constants)
    assert scores(result) == {"throughput": 0.5}


# Metrics of the user's own


def test_a_metric_is_registered_used_and_taken_out() -> None:
    @metric("calm", "Responsible AI")
    def calm() -> pl.Expr:
        """Whether nobody shouts."""
        return (~pl.col("response").str.contains("!")).cast(pl.Float64)

    try:
        assert get_metric("calm").description == "Whether nobody shouts."
        turns = session("s", trace(answer="fine"), trace(answer="no!"))
        assert scores(evaluate(turns, metrics=["calm"])) == {"calm": 0.5}
        assert "calm" in metric_sets()["deterministic"]
        assert "calm" in metric_sets()["default"]
    finally:
        unregister_metric("calm")
    with pytest.raises(ConfigError, match="unknown metric 'calm'"):
        evaluate(trace(), metrics=["calm"])
    with pytest.raises(ConfigError, match="unknown metric 'calm'"):
        unregister_metric("calm")


def test_a_metric_may_explain_itself_and_say_when_it_does_not_apply() -> None:
    def fast() -> Scored:
        known = pl.col("latency_s")
        return Scored(
            score=(known < 1).cast(pl.Float64),
            reasoning=pl.format("{} seconds", known),
            details=pl.struct(seconds=known),
            unless=(Unless(known > 10, "not_applicable", "a batch job"),),
        )

    with registered("fast", "Performance", fast):
        quick, slow, batch, unknown = (
            metric_scores(evaluate(trace(latency=s), metrics=["fast"]))["fast"]
            for s in (0.5, 2.0, 60.0, None)
        )
    assert (quick.score, slow.score) == (1.0, 0.0)
    assert quick.reasoning == "0.5 seconds"
    assert quick.metadata == {"details": {"seconds": 0.5}}
    assert (batch.score, batch.reasoning) == (None, "a batch job")
    assert batch.metadata["warning"] == "not_applicable"
    assert (unknown.score, unknown.metadata["warning"]) == (None, "missing_data")


@pytest.mark.parametrize("value", [1.5, -0.1, float("nan"), float("inf")])
def test_a_score_outside_its_range_is_no_score(value: float) -> None:
    with registered("wild", "Performance", lambda: pl.lit(value)):
        result = evaluate(trace(latency=4.0), metrics=["wild", "latency_score"])
    assert whys(result)["wild"] == "invalid_data"
    assert result.overall_score == pytest.approx(0.5)


def test_names_are_taken_once_unless_replaced_on_purpose() -> None:
    with pytest.raises(ConfigError, match="'latency_score' is registered already"):
        metric("latency_score", "Performance")(lambda: pl.lit(1.0))
    before = get_metric("latency_score")
    place = [s.name for s in list_metrics()].index("latency_score")
    try:
        metric("latency_score", "Performance", replace_existing=True)(lambda: pl.lit(0.25))
        found = scores(evaluate(trace(latency=1.0), metrics=["latency_score"]))
        assert found == {"latency_score": 0.25}
        assert [s.name for s in list_metrics()].index("latency_score") == place
    finally:
        register_metric(before, replace_existing=True)
    assert get_metric("latency_score") is before


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"name": ""}, "not blank"),
        ({"name": " own"}, "not blank"),
        ({"name": None}, "not blank"),
        ({"name": "two\nlines"}, "one line"),
        ({"name": "red\x1b[31m"}, "one line"),
        ({"name": "half\udcff"}, "one line"),
        ({"name": "overall"}, "score of whole sessions"),
        ({"name": "Performance"}, "name of a dimension"),
        ({"dimension": ""}, "not blank"),
        ({"dimension": "two\nlines"}, "one line"),
        ({"dimension": "overall"}, "score of whole sessions"),
        ({"phase": "week"}, "phase is 'turn' or 'session', not 'week'"),
        ({"expression": None}, "has no expression"),
    ],
)
def test_a_spec_that_cannot_work_is_refused(spec: dict[str, Any], said: str) -> None:
    fields: dict[str, Any] = {
        "name": "own",
        "dimension": "Performance",
        "phase": "turn",
        "by": "expr",
        "description": "",
        "expression": lambda _: pl.lit(1.0),
    }
    with pytest.raises(ConfigError, match=said):
        register_metric(MetricSpec(**{**fields, **spec}))
    assert len(list_metrics()) == 39


def test_a_metric_of_several_agents_does_not_apply_to_one() -> None:
    with registered("team_spirit", "Multi-Agent", lambda: pl.lit(1.0), requires_multi_agent=True):
        result = evaluate(trace(), metrics=["team_spirit"])
    assert whys(result) == {"team_spirit": "not_applicable"}


def test_a_feature_that_is_not_there_is_told() -> None:
    with registered("own", "Performance", lambda: pl.lit(1.0), needs=("moon_phase",)):
        result = evaluate(trace(), metrics=["own"])
    assert whys(result) == {"own": "metric_error"}
    assert "moon_phase" in metric_scores(result)["own"].reasoning
