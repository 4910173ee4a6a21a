from __future__ import annotations

import json
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from tests.samples.langgraph_records import ai, asked, human, read, said, update
from uaef_frames.adapters.langgraph.payloads import CheckedPayload, check_payload, group_payloads
from uaef_frames.adapters.langgraph.reader import ReadOptions, read_single
from uaef_frames.errors import AdapterTransformationError


def payload(**more: Any) -> dict[str, Any]:
    return {"session_id": "s", "turn_id": 1, "stream_events": [], **more}


def checked(**more: Any) -> CheckedPayload:
    return check_payload(payload(**more), 1)


def refused(record: Any, position: int = 1) -> AdapterTransformationError:
    with pytest.raises(AdapterTransformationError) as caught:
        check_payload(record, position)
    assert caught.value.adapter == "langgraph"
    return caught.value


@pytest.mark.parametrize(
    ("given", "read_as"), [("a", "a"), (7, "7"), (np.int64(7), "7"), ("é\ud800", "é�")]
)
def test_a_session_id_is_text(given: Any, read_as: str) -> None:
    assert checked(session_id=given).session_id == read_as


@pytest.mark.parametrize("given", [True, 1.5, "", "  ", ["a"], {}])
def test_a_session_id_that_is_no_text_is_refused(given: Any) -> None:
    assert "session_id" in refused(payload(session_id=given)).reason


@pytest.mark.parametrize(
    ("given", "read_as"),
    [(3, 3), (3.0, 3), ("3", 3), (" 12 ", 12), ("-1", -1), (np.int32(4), 4), (0, 0)],
)
def test_a_turn_id_is_an_integer(given: Any, read_as: int) -> None:
    assert checked(turn_id=given).turn_id == read_as


@pytest.mark.parametrize(
    "given", [True, 1.5, "two", "1.5", "", [], math.nan, math.inf, 2**64, "9" * 40, "²"]
)
def test_a_turn_id_that_is_no_integer_is_refused(given: Any) -> None:
    assert "turn_id must be an integer" in refused(payload(turn_id=given)).reason


@pytest.mark.parametrize("name", ["session_id", "turn_id", "stream_events"])
def test_a_missing_field_is_named_and_the_error_says_what_a_payload_needs(name: str) -> None:
    for record in ({k: v for k, v in payload().items() if k != name}, payload(**{name: None})):
        error = refused(record, 3)
        assert f"payload 3: no {name}" in error.reason
        assert "session_id (text), turn_id (an integer) and stream_events" in error.reason
    assert refused({"turn_id": 5, "stream_events": []}).turn_id == 5


@pytest.mark.parametrize("record", [None, [], "x", 5, object()])
def test_a_payload_that_is_no_dict_is_refused(record: Any) -> None:
    assert "a turn payload is a dict" in refused(record).reason


@pytest.mark.parametrize("events", ["[]", {"model": {}}, 5])
def test_stream_events_that_are_no_list_are_refused(events: Any) -> None:
    assert "stream_events must be a list" in refused(payload(stream_events=events)).reason


def test_a_stream_that_was_not_listed_says_how() -> None:
    error = refused(payload(stream_events=(e for e in [])))
    assert "list(...)" in error.reason
    assert (error.session_id, error.turn_id) == ("s", 1)


@pytest.mark.parametrize(
    ("given", "read_as"),
    [
        (1, 1.0),
        (1.5, 1.5),
        ("1.5", 1.5),
        (" 2e3 ", 2000.0),
        (None, None),
        ("", None),
        (-1, -1.0),
        (Decimal("0.5"), 0.5),
        (np.float32(2), 2.0),
    ],
)
def test_numbers_are_read_where_they_clearly_are_numbers(given: Any, read_as: float | None) -> None:
    assert checked(latency=given).latency_s == read_as


def test_odd_numbers_are_kept_for_metrics_to_name() -> None:
    row = checked(latency=math.nan, cost_usd=math.inf, input_tokens=-5)
    assert math.isnan(row.latency_s or 0)
    assert (row.cost_usd, row.input_tokens) == (math.inf, -5.0)


@pytest.mark.parametrize("given", [True, "fast", "nan", "1_000", [1], {}, 1j, "1,5"])
@pytest.mark.parametrize(
    "name", ["latency", "input_tokens", "output_tokens", "cost_usd", "throughput_rps"]
)
def test_what_is_no_number_is_refused_by_name(name: str, given: Any) -> None:
    assert f"{name} must be a number" in refused(payload(**{name: given})).reason


def test_scores_and_status_are_found_in_metadata_too() -> None:
    row = checked(
        metadata={
            "quality_score": 0.5,
            "completeness_score": "0.25",
            "workflow_status": "ok",
            "a": 1,
        }
    )
    assert (row.quality_score, row.completeness_score, row.workflow_status) == (0.5, 0.25, "ok")
    assert row.metadata == '{"a":1}'
    assert checked(quality_score=0.9, metadata={"quality_score": 0.5}).quality_score == 0.9


def test_everything_else_is_metadata_and_private_keys_are_dropped() -> None:
    row = checked(
        user="u", metadata={"lang": "pt", "_kept": 1}, _expect={"x": 1}, mcp={"server": "a"}
    )
    assert json.loads(row.metadata or "") == {
        "lang": "pt",
        "_kept": 1,
        "user": "u",
        "mcp": {"server": "a"},
    }
    assert checked(_form="x").metadata is None
    assert checked(metadata="free text").metadata == '{"metadata":"free text"}'


@pytest.mark.parametrize(
    ("name", "given"),
    [("topology", "both"), ("topology", 5), ("agents", []), ("agents", [1]), ("agents", {})],
)
def test_an_override_that_cannot_be_meant_is_refused(name: str, given: Any) -> None:
    assert name in refused(payload(**{name: given})).reason


def test_payloads_are_grouped_in_first_seen_order_and_sorted_by_turn() -> None:
    records = [
        payload(session_id=s, turn_id=t)
        for s, t in (("b", 10), ("a", 1), ("b", 2), ("b", "9"), (1, 1))
    ]
    groups = group_payloads(records)
    assert [(sid, [t.turn_id for t in turns]) for sid, turns in groups] == [
        ("b", [2, 9, 10]),
        ("a", [1]),
        ("1", [1]),
    ]


def test_a_turn_that_is_there_twice_is_refused() -> None:
    with pytest.raises(AdapterTransformationError, match="payload 2 is a second turn 1") as caught:
        group_payloads([payload(), payload(turn_id="1")])
    assert (caught.value.session_id, caught.value.turn_id) == ("s", 1)


@pytest.mark.parametrize("records", [[], (), None, 5, "x", {"session_id": "s"}])
def test_no_payloads_are_refused(records: Any) -> None:
    with pytest.raises(AdapterTransformationError, match="a turn payload is a dict"):
        group_payloads(records)


def test_what_a_payload_says_stands_in_the_turn() -> None:
    turn = read(
        [asked("q"), update("m", ai("x"))],
        latency=1.5,
        cost_usd="0.25",
        throughput_rps=4,
        workflow_status="completed",
        metadata={"k": 1},
    ).turns[0]
    assert (turn.latency_s, turn.cost_usd, turn.throughput_rps) == (1.5, 0.25, 4.0)
    assert (turn.workflow_status, turn.metadata) == ("completed", '{"k":1}')


def test_a_single_trace_needs_no_ids() -> None:
    record = {"stream_events": [asked("q"), update("m", ai("x"))], "metadata": {"k": 1}}
    session = read_single(record, ReadOptions())
    assert said(session.turns[0]) == [("user", "q"), ("assistant", "x")]
    assert (session.turns[0].turn_id, session.turns[0].metadata) == (1, '{"k":1}')
    named = read_single({**record, "session_id": 5, "turn_id": 3}, ReadOptions())
    assert (named.session_id, named.turns[0].turn_id) == ("5", 3)


def test_a_final_state_is_a_trace() -> None:
    state = {"messages": [human("q"), ai("x")], "steps": 4, "__interrupt__": [{"value": "sure?"}]}
    turn = read_single(state, ReadOptions()).turns[0]
    assert said(turn) == [("user", "q"), ("assistant", "x")]
    assert turn.interrupted
    other = read_single({"chat": [human("q"), ai("x")]}, ReadOptions(messages_key="chat"))
    assert other.turns[0].response == "x"


@pytest.mark.parametrize("record", [None, {}, {"messages": "x"}, {"stream_events": 5}, 7, []])
def test_what_is_no_trace_is_refused(record: Any) -> None:
    with pytest.raises(AdapterTransformationError):
        read_single(record, ReadOptions())
