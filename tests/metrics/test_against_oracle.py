"""Every expression metric equals the naive oracle, to 1e-12, on generated turns.

Turns are scored many at a time, so that what one turn says cannot leak into another.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests import oracle
from tests import strategies as gen
from uaef_frames.canonical import canonical_json
from uaef_frames.conversations import Conversations
from uaef_frames.evaluation.plan import make_plan
from uaef_frames.evaluation.score import score
from uaef_frames.evaluation.units import lay_out
from uaef_frames.expectations import Expectations, SessionTruth, TurnTruth
from uaef_frames.rows import CallRow, HandoffRow, MessageRow, SessionRows, TurnRow

Call = tuple[str, object]

TURN_METRICS = [
    "tool_selection_accuracy",
    "tool_sequence_correctness",
    "parameter_quality",
    "mcp_compliance",
    "prompt_injection_detection",
    "latency_score",
    "token_efficiency",
    "cost_efficiency",
    "throughput",
    "agent_utilization",
    "coordination_efficiency",
]

# The oracle tries every pairing: two turns of four calls are as many as it can bear.
few_calls = gen.expected_and_actual().map(lambda t: (t[0] and t[0][:4], t[1][:4]))

quick = settings(
    max_examples=80,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@quick
@given(st.lists(gen.turns(), min_size=1, max_size=12))
def test_turn_metrics_equal_the_oracle(turns: list[dict[str, Any]]) -> None:
    sessions = [_session(f"s{i}", turn) for i, turn in enumerate(turns)]
    truths = [_truth(f"s{i}", turn["expected"]) for i, turn in enumerate(turns)]
    found = _scored(sessions, truths, TURN_METRICS)
    for i, turn in enumerate(turns):
        for metric, wanted in _wanted(turn).items():
            assert_same(found[f"s{i}", metric], wanted, f"{metric} of {turn}")


@quick
@given(st.lists(st.tuples(gen.conversations, gen.scores), min_size=1, max_size=12))
def test_turn_efficiency_equals_the_oracle(
    conversations: list[tuple[list[tuple[str, str | None]], float | None]],
) -> None:
    sessions = [
        SessionRows(
            f"s{i}",
            "single",
            [
                TurnRow(
                    1,
                    completeness_score=completeness,
                    messages=[MessageRow(role, text or "") for role, text in said],
                )
            ],
        )
        for i, (said, completeness) in enumerate(conversations)
    ]
    found = _scored(sessions, [], ["turn_efficiency"])
    for i, (said, completeness) in enumerate(conversations):
        wanted = oracle.turn_efficiency(said, completeness)
        assert_same(found[f"s{i}", "turn_efficiency"], wanted, f"{said}, {completeness}")


@quick
@given(st.lists(st.lists(few_calls, min_size=2, max_size=2), min_size=1, max_size=5))
def test_calls_expected_of_a_whole_conversation_are_compared_once(
    conversations: list[list[tuple[list[Call] | None, list[Call]]]],
) -> None:
    """All calls of the session against all expected ones; its turns have no score of their own."""
    sessions: list[SessionRows] = []
    truths: list[SessionTruth] = []
    for i, turns in enumerate(conversations):
        rows = [TurnRow(n, tool_calls=_calls(actual)) for n, (_, actual) in enumerate(turns, 1)]
        sessions.append(SessionRows(f"s{i}", "single", rows))
        expected = [call for e, _ in turns for call in e or []]
        truths.append(SessionTruth(f"s{i}", tools=_texts(expected)))
    metrics = TURN_METRICS[:3]
    found = _scored(sessions, truths, metrics)
    turn_scores = _by_turn(sessions, truths, metrics)
    for i, turns in enumerate(conversations):
        expected = [call for e, _ in turns for call in e or []]
        actual = [call for _, a in turns for call in a]
        for metric in metrics:
            wanted = getattr(oracle, metric)(expected, actual)
            assert_same(found[f"s{i}", metric], wanted, f"{metric} of {turns}")
            for turn in range(1, len(turns) + 1):
                assert turn_scores[f"s{i}", turn, metric] == (None, "not_applicable")


@pytest.mark.parametrize("penalty", ["light", "heavy"])
@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_constants_of_a_run_are_used(penalty: str, data: st.DataObject) -> None:
    turn = data.draw(gen.turns())
    constants = {
        "latency_score": {"threshold_ms": 500.0},
        "token_efficiency": {"expected_tokens": 50.0, "penalty": penalty},
        "cost_efficiency": {"expected_usd": 0.5, "penalty": penalty},
        "throughput": {"target_rps": 2.0},
        "coordination_efficiency": {"free_ratio": 0.5, "steepness": 1.0},
    }
    found = _scored([_session("s", turn)], [], list(constants), constants)
    work = turn["work"]
    wanted = {
        "latency_score": oracle.latency_score(turn["latency_s"], 500.0),
        "token_efficiency": oracle.token_efficiency(
            turn["quality"], turn["input_tokens"], turn["output_tokens"], 50.0, penalty
        ),
        "cost_efficiency": oracle.cost_efficiency(turn["quality"], turn["cost_usd"], 0.5, penalty),
        "throughput": oracle.throughput(turn["latency_s"], turn["throughput_rps"], 2.0),
        "coordination_efficiency": oracle.coordination_efficiency(turn["handoffs"], work, 0.5, 1.0),
    }
    for metric, expected in wanted.items():
        assert_same(found["s", metric], expected, f"{metric} of {turn}")


def assert_same(found: tuple[float | None, str | None], wanted: oracle.Oracle, what: str) -> None:
    score, warning = found
    assert warning == wanted.warning, what
    if wanted.score is None:
        assert score is None, what
    else:
        assert score == pytest.approx(wanted.score, rel=0, abs=1e-12), what


def _wanted(turn: dict[str, Any]) -> dict[str, oracle.Oracle]:
    expected, actual, quality = turn["expected"], turn["actual"], turn["quality"]
    return {
        "tool_selection_accuracy": oracle.tool_selection_accuracy(expected, actual),
        "tool_sequence_correctness": oracle.tool_sequence_correctness(expected, actual),
        "parameter_quality": oracle.parameter_quality(expected, actual),
        "mcp_compliance": oracle.mcp_compliance(actual, turn["metadata"]),
        "prompt_injection_detection": oracle.prompt_injection_detection(turn["user_messages"]),
        "latency_score": oracle.latency_score(turn["latency_s"]),
        "token_efficiency": oracle.token_efficiency(
            quality, turn["input_tokens"], turn["output_tokens"]
        ),
        "cost_efficiency": oracle.cost_efficiency(quality, turn["cost_usd"]),
        "throughput": oracle.throughput(turn["latency_s"], turn["throughput_rps"]),
        "agent_utilization": oracle.agent_utilization(turn["work"]),
        "coordination_efficiency": oracle.coordination_efficiency(turn["handoffs"], turn["work"]),
    }


def _session(sid: str, turn: dict[str, Any]) -> SessionRows:
    work: dict[str, int] | None = turn["work"]
    spoken = [
        MessageRow("assistant", "…", agent) for agent, n in (work or {}).items() for _ in range(n)
    ]
    row = TurnRow(
        1,
        agents=list(work or {}),
        latency_s=turn["latency_s"],
        throughput_rps=turn["throughput_rps"],
        cost_usd=turn["cost_usd"],
        input_tokens=turn["input_tokens"],
        output_tokens=turn["output_tokens"],
        quality_score=turn["quality"],
        metadata=json.dumps(turn["metadata"]) if turn["metadata"] else None,
        messages=[*(MessageRow("user", text) for text in turn["user_messages"]), *spoken],
        tool_calls=_calls(turn["actual"]),
        handoffs=[HandoffRow() for _ in range(turn["handoffs"])],
    )
    return SessionRows(sid, "single" if work is None else "multi", [row])


def _calls(calls: list[Call]) -> list[CallRow]:
    return [
        CallRow(name, None, raw_arguments="{", status="invalid")
        if arguments is oracle.MALFORMED
        else CallRow(name, canonical_json(arguments))
        for name, arguments in calls
    ]


def _texts(calls: list[Call]) -> list[tuple[str, str]]:
    return [(name, canonical_json(arguments)) for name, arguments in calls]


def _truth(sid: str, expected: list[Call] | None) -> SessionTruth:
    tools = None if expected is None else _texts(expected)
    return SessionTruth(sid, turns=[TurnTruth(1, tools=tools)])


Scores = dict[tuple[str, str], tuple[float | None, str | None]]


def _scored(
    sessions: list[SessionRows],
    truths: list[SessionTruth],
    metrics: list[str],
    constants: dict[str, dict[str, Any]] | None = None,
) -> Scores:
    """Score and warning by (session, metric): the conversation's own row where it has one."""
    rows = _rows(sessions, truths, metrics, constants)
    return {(sid, metric): (s, w) for sid, _, metric, s, w in rows}


def _by_turn(
    sessions: list[SessionRows], truths: list[SessionTruth], metrics: list[str]
) -> dict[tuple[str, int, str], tuple[float | None, str | None]]:
    rows = _rows(sessions, truths, metrics, None)
    return {(sid, turn, metric): (s, w) for sid, turn, metric, s, w in rows if turn is not None}


def _rows(
    sessions: list[SessionRows],
    truths: list[SessionTruth],
    metrics: list[str],
    constants: dict[str, dict[str, Any]] | None,
) -> list[tuple[str, int | None, str, float | None, str | None]]:
    """(session, turn or None, metric, score, warning); a conversation's own rows come last."""
    subject = lay_out(Conversations.from_rows(sessions), Expectations.from_truths(truths))
    scored = score(subject, make_plan(metrics, constants=constants))
    turns = subject.tables.turns.select("session_id", "turn_id").rows()
    names = [*turns, *((sid, None) for sid in subject.tables.sessions["session_id"])]
    rows = [
        (*names[unit], metric, value, warning)
        for unit, metric, value, warning in scored.select(
            "unit", "metric", "score", "warning"
        ).iter_rows()
    ]
    return sorted(rows, key=lambda r: r[1] is None)
