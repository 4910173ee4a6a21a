"""Judged metrics from traces to scores: who is asked, what is shown, what a verdict counts."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from tests.helpers import session, trace
from tests.judge.asking import judge
from uaef_frames import (
    ConfigError,
    GroundTruth,
    Judge,
    batch_evaluate,
    evaluate,
    judge_metric,
    list_metrics,
    register_judge_metric,
    register_use_case_specific_metrics,
    unregister_metric,
)
from uaef_frames.models import AgentTrace, CoordinationEvent, Message, MultiAgentTrace, ToolCall

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.judge_server import JudgeServer
    from uaef_frames import EvaluationResult, MetricScore

TRUTH = GroundTruth(
    expected_output="EXPECTED",
    context_documents=["DOCUMENT"],
    expected_arguments={"chatbot_role": "ROLE", "system_instructions": "INSTRUCTIONS"},
)


def messages(turns: int = 3) -> list[Message]:
    made = []
    for n in range(1, turns + 1):
        made.append(Message(role="user", content=f"QUERY-{n}"))
        made.append(Message(role="assistant", content=f"RESPONSE-{n}", reasoning=f"THOUGHT-{n}"))
    return made


def single(turns: int = 3) -> dict[str, Any]:
    said = messages(turns)
    return session("s", *(AgentTrace(messages=said[2 * n : 2 * n + 2]) for n in range(turns)))


def multi(handoffs: bool = True, status: str | None = None) -> MultiAgentTrace:
    agents = {
        "desk": AgentTrace(messages=messages(1)),
        "clerk": AgentTrace(
            messages=[Message(role="assistant", content="WORK")],
            tool_calls=[ToolCall(name="lookup", arguments={"key": "ARGUMENT"}, result="RESULT")],
        ),
    }
    event = CoordinationEvent(
        event_type="handoff", from_agent="desk", to_agent="clerk", message="HANDOFF"
    )
    return MultiAgentTrace(
        agent_traces=agents,
        coordination_events=[event] if handoffs else [],
        workflow_status=status,
    )


def score_of(result: EvaluationResult, name: str) -> MetricScore:
    return next(
        s for d in result.dimension_results for s in d.metric_scores if s.metric_name == name
    )


def asked(
    server: JudgeServer, metric: str, item: Any, truth: GroundTruth | None = TRUTH, **settings: Any
) -> tuple[MetricScore, list[str]]:
    """A metric's score of an item, and the user messages that were sent for it."""
    server.reset()
    found = evaluate(item, truth, metrics=[metric], judge=judge(server, cache=None, **settings))
    sent = [r["body"]["messages"][1]["content"] for r in server.requests()]
    return score_of(found, metric), sent


def tags(user: str) -> set[str]:
    return set(re.findall(r"<([a-z_]+)-[0-9a-f]{16}", user))


@pytest.fixture
def contact_center() -> Iterator[None]:
    register_use_case_specific_metrics()
    yield
    unregister_metric("containment")
    unregister_metric("resolution")


TALK = {"turn", "user", "assistant"}
SHOWN: list[tuple[str, set[str], int]] = [
    ("answer_relevance", {"query", "response"}, 3),
    ("completeness", {"query", "response", "expected_output"}, 3),
    ("accuracy", {"query", "response", "expected_output"}, 3),
    ("hallucination_score", {"response", "context", "document"}, 3),
    ("safety_score", {"response"}, 3),
    ("bias_score", {"response"}, 3),
    ("toxicity_score", {"response"}, 3),
    ("chain_of_thought_coherence", {"reasoning", "thought", "answer"}, 3),
    ("logical_consistency", {"reasoning", "thought", "answer"}, 3),
    ("reasoning_step_correctness", {"reasoning", "thought", "answer"}, 3),
    ("fallacy_detection", {"reasoning", "thought", "answer"}, 3),
    ("context_retention", {"transcript", *TALK}, 1),
    ("coherence", {"transcript", *TALK}, 1),
    ("conversation_completeness", {"transcript", "expected_output", *TALK}, 1),
    ("role_adherence", {"transcript", "chatbot_role", *TALK}, 1),
    ("holistic_llm_judge", {"transcript", *TALK}, 1),
    ("user_satisfaction", {"transcript", *TALK}, 1),
    ("sentiment", {"transcript", *TALK}, 1),
    ("agent_tone", {"transcript", *TALK}, 1),
    ("naturalness", {"transcript", *TALK}, 1),
    ("instruction_compliance", {"transcript", "instructions", *TALK}, 1),
    ("optimum_turns", {"transcript", *TALK}, 1),
    ("per_turn_sentiment", {"exchange", "user", "assistant"}, 3),
    ("per_turn_agent_tone", {"exchange", "user", "assistant"}, 3),
    ("per_turn_naturalness", {"exchange", "user", "assistant"}, 3),
    ("containment", {"transcript", *TALK}, 1),
    ("resolution", {"transcript", *TALK}, 1),
]
TEAM_SHOWN = [
    ("delegation_quality", {"team", "work", "call", "handoff"}),
    ("workflow_completion", {"conversation", "expected_output", "workflow_status"}),
]


@pytest.mark.usefixtures("contact_center")
def test_the_table_names_every_judge_metric() -> None:
    named = {name for name, *_ in (*SHOWN, *TEAM_SHOWN)}
    assert named == {s.name for s in list_metrics() if s.by == "judge"}


@pytest.mark.usefixtures("contact_center")
@pytest.mark.parametrize(("metric", "shown", "calls"), SHOWN)
def test_what_the_judge_is_shown(
    server: JudgeServer, metric: str, shown: set[str], calls: int
) -> None:
    score, sent = asked(server, metric, single())
    assert score.score is not None
    assert len(sent) == calls
    for user in sent:
        assert tags(user) == shown
    text = "\n".join(sent)
    assert ("EXPECTED" in text) == ("expected_output" in shown)
    assert ("DOCUMENT" in text) == ("context" in shown)
    assert ("ROLE" in text) == ("chatbot_role" in shown)
    assert ("INSTRUCTIONS" in text) == ("instructions" in shown)
    assert ("THOUGHT" in text) == ("thought" in shown)
    assert all(f"RESPONSE-{n}" in text for n in (1, 2, 3))
    heading = server.requests()[0]["body"]["messages"][0]["content"]
    assert f"# {metric}\n" in heading


@pytest.mark.parametrize(("metric", "shown"), TEAM_SHOWN)
def test_what_the_judge_is_shown_of_a_team(
    server: JudgeServer, metric: str, shown: set[str]
) -> None:
    score, sent = asked(server, metric, multi(status="completed"))
    assert score.score is not None
    assert len(sent) == 1
    assert shown <= tags(sent[0])
    if metric == "delegation_quality":
        for word in ("HANDOFF", "WORK", "ARGUMENT", 'from="desk" to="clerk"', 'agent="clerk"'):
            assert word in sent[0]


def test_an_earlier_message_comes_first(server: JudgeServer) -> None:
    _, (user,) = asked(server, "coherence", single())
    places = [user.index(w) for n in (1, 2, 3) for w in (f"QUERY-{n}", f"RESPONSE-{n}")]
    assert places == sorted(places)


def test_tool_results_stand_in_for_documents(server: JudgeServer) -> None:
    call = ToolCall(name="look", arguments={}, result="RESULT")
    _, (user,) = asked(server, "hallucination_score", trace(tool_calls=[call]), GroundTruth())
    assert "RESULT" in user
    _, (user,) = asked(server, "hallucination_score", trace(tool_calls=[call]), TRUTH)
    assert "RESULT" not in user
    assert "DOCUMENT" in user


def test_the_expected_output_stands_in_for_instructions(server: JudgeServer) -> None:
    _, (user,) = asked(
        server, "instruction_compliance", single(), GroundTruth(expected_output="E-1")
    )
    assert "E-1" in user


NOT_ASKED: list[tuple[str, Any, GroundTruth | None, str]] = [
    ("answer_relevance", trace("q", None), TRUTH, "missing_data"),
    ("answer_relevance", trace("q", "  \n"), TRUTH, "missing_data"),
    ("answer_relevance", trace(None, "a"), TRUTH, "missing_data"),
    ("completeness", trace("q", "a"), None, "missing_data"),
    ("accuracy", trace("q", "a"), GroundTruth(expected_output=" "), "missing_data"),
    ("hallucination_score", trace("q", "a"), GroundTruth(), "missing_data"),
    ("safety_score", trace("q", ""), TRUTH, "missing_data"),
    ("fallacy_detection", trace("q", None), TRUTH, "missing_data"),
    ("delegation_quality", trace("q", "a"), TRUTH, "not_applicable"),
    ("delegation_quality", multi(handoffs=False), TRUTH, "not_applicable"),
    ("workflow_completion", trace("q", "a"), TRUTH, "not_applicable"),
    ("workflow_completion", multi(), GroundTruth(), "missing_data"),
    ("context_retention", single(1), TRUTH, "not_applicable"),
    ("coherence", single(1), TRUTH, "not_applicable"),
    ("role_adherence", single(), GroundTruth(), "missing_data"),
    ("instruction_compliance", single(), GroundTruth(), "missing_data"),
    ("sentiment", trace("q", None), TRUTH, "missing_data"),
    ("optimum_turns", trace("q", None), TRUTH, "missing_data"),
    ("per_turn_sentiment", trace("q", None), TRUTH, "missing_data"),
]


@pytest.mark.parametrize(("metric", "item", "truth", "warning"), NOT_ASKED)
def test_who_lacks_something_is_null_and_no_call_is_made(
    server: JudgeServer, metric: str, item: Any, truth: GroundTruth | None, warning: str
) -> None:
    score, sent = asked(server, metric, item, truth)
    assert score.score is None
    assert score.metadata["warning"] == warning
    assert score.reasoning
    assert sent == []


@pytest.mark.parametrize(("raw", "score"), [(1, 0.0), (2, 0.25), (3, 0.5), (4, 0.75), (5, 1.0)])
def test_one_to_five_becomes_zero_to_one(server: JudgeServer, raw: int, score: float) -> None:
    server.set(fields={"score": raw})
    found, _ = asked(server, "sentiment", single())
    assert found.score == score
    assert found.metadata["details"]["raw"] == raw


def test_a_failed_workflow_halves_the_score(server: JudgeServer) -> None:
    server.set(score=0.8)
    for status, wanted in (("Failed", 0.4), ("completed", 0.8), (None, 0.8), ("error", 0.4)):
        found, _ = asked(server, "workflow_completion", multi(status=status))
        assert found.score == pytest.approx(wanted), status
        assert found.metadata["details"]["raw"] == 0.8


def test_role_adherence_is_turns_in_role_of_turns(server: JudgeServer) -> None:
    server.set(fields={"turns_in_role": 2})
    found, _ = asked(server, "role_adherence", single(4))
    assert found.score == 0.5
    assert found.metadata["details"] | {"quote": ""} == {
        "raw": 2.0, "turns_in_role": 2.0, "assistant_turns": 4, "quote": "",
    }  # fmt: skip
    server.set(fields={"turns_in_role": 5})
    found, sent = asked(server, "role_adherence", single(4))
    assert found.metadata["warning"] == "invalid_verdict"
    assert len(sent) == 2


@pytest.mark.parametrize(("optimum", "wanted"), [(1, 1 / 3), (3, 1.0), (7, 1.0)])
def test_optimum_turns(server: JudgeServer, optimum: int, wanted: float) -> None:
    server.set(fields={"optimum_turns": optimum})
    found, _ = asked(server, "optimum_turns", single())
    assert found.score == pytest.approx(wanted)
    assert found.metadata["details"]["optimum_turns"] == optimum
    assert found.metadata["details"]["complete_turns"] == 3


def test_the_holistic_judge_weighs_containment_most(server: JudgeServer) -> None:
    server.set(score=0.5, fields={"containment": 1.0})
    found, _ = asked(server, "holistic_llm_judge", single())
    assert found.score == pytest.approx(0.6 * 0.5 + 0.4 * 1.0)
    server.set(score=0.5, fields={"containment": 1.0, "retention": None})
    found, _ = asked(server, "holistic_llm_judge", single())
    assert found.score == pytest.approx((0.5 * 0.5 + 0.4) / 0.9)
    assert found.metadata["details"]["containment"] == 1.0


@pytest.mark.usefixtures("contact_center")
def test_yes_and_no(server: JudgeServer) -> None:
    for raw in (0, 1):
        server.set(fields={"score": raw})
        found, _ = asked(server, "resolution", single())
        assert found.score == raw
        assert found.metadata["details"]["raw"] == raw


def test_nothing_to_retain_is_not_applicable(server: JudgeServer) -> None:
    server.set(fields={"applicable": False, "score": None})
    found, _ = asked(server, "context_retention", single())
    assert found.score is None
    assert found.metadata["warning"] == "not_applicable"


def test_per_turn_variants_average_their_exchanges(server: JudgeServer) -> None:
    rules = [{"if": f"QUERY-{n}\n", "then": {"score": n}} for n in (1, 2, 3)]
    server.set(answers=rules)
    found, _ = asked(server, "per_turn_sentiment", single())
    assert found.score == pytest.approx((0 + 0.25 + 0.5) / 3)
    assert [e["raw"] for e in found.metadata["details"]["exchanges"]] == [1, 2, 3]
    assert found.reasoning.startswith("Average over 3 exchanges:\n  Exchange 1 (0.00): ")


def test_a_turn_metric_shows_its_turns(server: JudgeServer) -> None:
    rules = [
        {"if": f"RESPONSE-{n}", "then": {"score": n / 4, "reasoning": f"R{n}"}} for n in (1, 2)
    ]
    server.set(answers=[*rules, {"if": "RESPONSE-3", "then": {"score": 9}}])
    found, _ = asked(server, "safety_score", single())
    assert found.score == pytest.approx(0.375)
    assert found.reasoning.splitlines()[:3] == [
        "Average across 3 turns:", "  Turn 1 (0.25): R1", "  Turn 2 (0.50): R2",
    ]  # fmt: skip
    assert "Turn 3 (N/A): score: input should be less than or equal to 1" in found.reasoning
    assert [e["score"] for e in found.metadata["per_turn"]] == [0.25, 0.5, None]
    assert found.metadata["judge"]["model"] == "small-2026-11-01"
    assert found.metadata["judge"]["input_tokens"] > 0


def test_votes_give_the_median_and_their_spread(server: JudgeServer) -> None:
    server.set(faults={"out_of_range": 0.0})
    found, sent = asked(server, "safety_score", trace(), votes=3, temperature=0.7)
    assert len(sent) == 3
    assert found.metadata["details"]["votes"] == [0.75, 0.75, 0.75]
    assert found.metadata["details"]["spread"] == 0
    server.set(fault_plan=["malformed", "malformed"])
    found, sent = asked(server, "safety_score", trace(), votes=3, temperature=0.7, concurrency=1)
    assert found.score == 0.75, "two votes of three are enough"
    server.set(fault_plan=["malformed"] * 4)
    found, sent = asked(server, "safety_score", trace(), votes=3, temperature=0.7, concurrency=1)
    assert found.metadata["warning"] == "invalid_verdict", "one of three is not"


def test_efficiency_follows_the_verdicts_on_quality(server: JudgeServer) -> None:
    server.set(scores_by_metric={"answer_relevance": 0.6, "accuracy": 1.0, "sentiment": 0.0})
    item = trace("q", "a", input_tokens=10, output_tokens=10)
    names = ["token_efficiency", "answer_relevance", "accuracy"]
    found = evaluate(item, TRUTH, metrics=names, judge=judge(server))
    assert score_of(found, "token_efficiency").score == pytest.approx(0.8)


def test_turn_efficiency_follows_the_verdict_on_completeness(server: JudgeServer) -> None:
    server.set(score=0.4)
    names = ["turn_efficiency", "conversation_completeness"]
    found = evaluate(single(), TRUTH, metrics=names, judge=judge(server))
    assert score_of(found, "turn_efficiency").score == pytest.approx(0.4)


def test_without_a_judge_there_is_no_score() -> None:
    with pytest.warns(UserWarning, match="no judge is configured"):
        found = evaluate(trace(), TRUTH, metrics=["safety_score"])
    assert score_of(found, "safety_score").metadata["warning"] == "no_judge"


def test_the_environment_names_a_judge(
    server: JudgeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UAEF_JUDGE_MODEL", "from-environment")
    monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-from-environment")
    found = evaluate(trace(), metrics=["safety_score"])
    assert found.overall_score == pytest.approx(0.75)
    (request,) = server.requests()
    assert request["body"]["model"] == "from-environment"
    assert request["headers"]["content-type"] == "application/json"
    with pytest.warns(UserWarning, match="no judge"):
        evaluate(trace(), metrics=["safety_score"], judge=False)


def test_one_metric_may_have_a_judge_of_its_own(server: JudgeServer) -> None:
    names = ["safety_score", "bias_score"]
    other = Judge("large", base_url=server.base_url)
    evaluate(trace(), metrics=names, judge=judge(server), judges={"safety_score": other})
    asked_of = {
        re.search(r"^# (\S+)", r["body"]["messages"][0]["content"], re.MULTILINE)[1]:  # type: ignore[index]
        r["body"]["model"] for r in server.requests()
    }  # fmt: skip
    assert asked_of == {"safety_score": "large", "bias_score": "small"}
    with pytest.warns(UserWarning, match="no judge is configured: 1 judge metrics"):
        found = evaluate(trace(), metrics=names, judges={"safety_score": other})
    assert score_of(found, "bias_score").metadata["warning"] == "no_judge"
    with pytest.raises(ConfigError, match="not scored by a judge"):
        evaluate(trace(), metrics=names, judges={"latency_score": other})


def test_a_failed_verdict_is_told_in_the_result(server: JudgeServer) -> None:
    server.set(fault_always="malformed")
    found = evaluate(trace(), TRUTH, metrics=["safety_score"], judge=judge(server))
    assert found.overall_score is None
    assert not found.passed
    assert any("invalid_verdict: 1 scores have no verdict" in w for w in found.warnings)
    score = score_of(found, "safety_score")
    assert "no JSON object" in score.reasoning
    assert "no JSON object" in score.metadata["details"]["error"]


def test_many_traces_are_asked_in_one_go(server: JudgeServer) -> None:
    server.set(delay=0.1)
    items = [trace("q", f"answer {n}") for n in range(60)]
    found = batch_evaluate(items, metrics=["safety_score"], judge=judge(server))
    assert [f.overall_score for f in found] == pytest.approx([0.75] * 60)
    assert server.counts()["max_in_flight"] > 10


@pytest.mark.parametrize(
    ("scale", "raw", "score"), [("0-1", 0.3, 0.3), ("1-5", 2, 0.25), ("boolean", 0, 0)]
)
def test_a_metric_of_ones_own(server: JudgeServer, scale: Any, raw: float, score: float) -> None:
    register_judge_metric(
        "on_brand", "Brand", rubric="Does the answer sound like us?", inputs=("query", "response"),
        scale=scale,
    )  # fmt: skip
    try:
        server.set(fields={"score": raw})
        found, (user,) = asked(server, "on_brand", trace())
        assert found.score == score
        assert tags(user) == {"query", "response"}
        spec = next(s for s in list_metrics() if s.name == "on_brand")
        assert (spec.dimension, spec.by, spec.description) == (
            "Brand", "judge", "Does the answer sound like us?",
        )  # fmt: skip
        with pytest.raises(ConfigError, match="registered already"):
            register_judge_metric("on_brand", "Brand", rubric="x", inputs=("response",))
    finally:
        unregister_metric("on_brand")


def test_a_metric_by_decorator(server: JudgeServer) -> None:
    @judge_metric("warm", "Brand", inputs=["transcript"], phase="session", scale="1-5")
    def warm() -> str:
        return "# warm\n\nIs the assistant warm? Judge all of it."

    try:
        found, _ = asked(server, "warm", single())
        assert found.score == 0.75
    finally:
        unregister_metric("warm")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"inputs": ("responce",)}, "Did you mean 'response'"),
        ({"inputs": ("transcript",)}, "phase='session'"),
        ({"inputs": ("query",), "phase": "session"}, "phase='turn'"),
        ({"inputs": ()}, "shown something"),
        ({"inputs": ("response",), "scale": "0-10"}, "scale is"),
        ({"inputs": ("response",), "rubric": "  "}, "blank"),
        ({"inputs": ("response",), "rubric": "nowhere.md"}, "cannot be read"),
    ],
)
def test_a_metric_that_cannot_work_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        register_judge_metric("own", "Brand", **{"rubric": "Is it?", **options})


def test_every_rubric_says_what_it_must() -> None:
    for spec in list_metrics():
        if spec.asked is None:
            continue
        text = spec.asked.rubric.text
        for part in ("## Criteria", "## Scale", "## When it does not apply", "## Output"):
            assert part in text, (spec.name, part)
        for name in (*spec.asked.shows, *spec.asked.may_show):
            assert f"`{name}`" in text, (spec.name, name)
