"""The shipped conversations are what `data/record.py` records, and show what they say they show."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

DATA = Path(__file__).parent.parent / "data"
WORSE = ("booking_careless.jsonl", "booking_slow.jsonl")
FILES = ("booking.jsonl", *WORSE, "booking_ground_truth.jsonl")
PAYLOAD_KEYS = [
    "session_id",
    "turn_id",
    "stream_events",
    "latency",
    "input_tokens",
    "output_tokens",
    "cost_usd",
]
MISTAKES = {
    "dropped_request",
    "expensive_turn",
    "extra_call",
    "forgotten_context",
    "hallucination",
    "injection_obeyed",
    "malformed_mcp_call",
    "missing_argument",
    "number_as_text",
    "slow_turn",
    "swapped_arguments",
    "too_many_handoffs",
    "tool_crash",
    "tool_error_ignored",
    "uninvited_call",
    "wrong_agent",
    "wrong_order",
    "wrong_tool",
}


def rows(name: str) -> list[dict[str, Any]]:
    text = (DATA / name).read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def nodes(payload: dict[str, Any]) -> set[str]:
    return {node for event in payload["stream_events"] for node in event}


@pytest.fixture(scope="module")
def sessions() -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for payload in rows("booking.jsonl"):
        found[payload["session_id"]].append(payload)
    return dict(found)


@pytest.fixture(scope="module")
def truths() -> dict[str, dict[str, Any]]:
    return {row["session_id"]: row for row in rows("booking_ground_truth.jsonl")}


def test_recording_again_gives_the_same_bytes(tmp_path: Path) -> None:
    needed = ("langgraph", "langchain", "langgraph_supervisor")
    missing = [name for name in needed if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"re-recording needs {', '.join(missing)}: pip install -e '.[dev]'")
    command = [sys.executable, str(DATA / "record.py"), "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    for name in FILES:
        again = (tmp_path / name).read_bytes()
        assert again == (DATA / name).read_bytes(), f"{name} is stale: python data/record.py"


def test_there_are_enough_sessions_of_both_kinds(sessions: dict[str, list[dict[str, Any]]]) -> None:
    team = {sid for sid, turns in sessions.items() if "supervisor" in nodes(turns[0])}
    assert len(team) >= 4
    assert len(sessions.keys() - team) >= 12


def test_a_session_is_of_one_kind(sessions: dict[str, list[dict[str, Any]]]) -> None:
    for sid, turns in sessions.items():
        assert len({"supervisor" in nodes(turn) for turn in turns}) == 1, sid


def test_turns_count_from_one(sessions: dict[str, list[dict[str, Any]]]) -> None:
    for sid, turns in sessions.items():
        assert [turn["turn_id"] for turn in turns] == list(range(1, len(turns) + 1)), sid


def test_payloads_have_the_known_fields_and_begin_with_the_user(
    sessions: dict[str, list[dict[str, Any]]],
) -> None:
    for sid, turns in sessions.items():
        for turn in turns:
            assert list(turn) == [key for key in PAYLOAD_KEYS if key in turn], sid
            assert list(turn["stream_events"][0]) == ["__human__"], sid


def test_every_session_has_ground_truth_for_each_turn(
    sessions: dict[str, list[dict[str, Any]]], truths: dict[str, dict[str, Any]]
) -> None:
    assert list(truths) == list(sessions)
    for sid, truth in truths.items():
        assert len(truth["per_turn_expected"]) == len(sessions[sid]), sid
        assert len(truth["per_turn_expected_tool_calls"]) == len(sessions[sid]), sid
        for calls in truth["per_turn_expected_tool_calls"]:
            assert calls is None or all(set(c) == {"name", "arguments"} for c in calls), sid


def test_every_mistake_is_there_and_none_unknown(truths: dict[str, dict[str, Any]]) -> None:
    labels = {truth["mistake"] for truth in truths.values()}
    assert labels == MISTAKES | {None}


def test_some_turns_lack_what_was_not_measured(
    sessions: dict[str, list[dict[str, Any]]],
) -> None:
    turns = [turn for session in sessions.values() for turn in session]
    for key in ("latency", "input_tokens", "output_tokens", "cost_usd"):
        assert 0 < sum(key not in turn for turn in turns) < 6, key


def test_the_readme_lists_every_session_as_it_is(
    sessions: dict[str, list[dict[str, Any]]], truths: dict[str, dict[str, Any]]
) -> None:
    readme = (DATA / "README.md").read_text(encoding="utf-8")
    for sid, truth in truths.items():
        mistake = f"`{truth['mistake']}`" if truth["mistake"] else "–"
        start = f"| `{sid}` | {len(sessions[sid])} | {truth['scenario']} | {mistake} |"
        assert start in readme, start


@pytest.mark.parametrize("name", WORSE)
def test_the_worse_agents_are_asked_the_same(
    name: str, sessions: dict[str, list[dict[str, Any]]]
) -> None:
    asked = [turn["stream_events"][0] for session in sessions.values() for turn in session]
    strip = [[m["content"] for m in event["__human__"]["messages"]] for event in asked]
    others = [row["stream_events"][0]["__human__"]["messages"] for row in rows(name)]
    assert [[m["content"] for m in messages] for messages in others] == strip
