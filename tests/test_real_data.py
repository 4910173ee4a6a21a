"""Other people's conversations, read from the folder in UAEF_REAL_DATA; none is kept here."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from uaef_frames import evaluate_dataset

if TYPE_CHECKING:
    from uaef_frames import Run

FOLDER = os.environ.get("UAEF_REAL_DATA")
pytestmark = pytest.mark.skipif(
    FOLDER is None,
    reason="set UAEF_REAL_DATA to the folder that holds tau_bench, tau2_toolorchestra and tooltalk",
)
NAMES = ("tau_bench", "tau2_toolorchestra", "tooltalk")
TOOLS = ["tool_selection_accuracy", "tool_sequence_correctness", "parameter_quality"]


def lines(name: str, file: str) -> list[dict[str, Any]]:
    text = (Path(FOLDER or "") / name / file).read_text("utf-8")
    return [json.loads(line) for line in text.splitlines() if line.strip()]


def messages(name: str) -> list[dict[str, Any]]:
    return [
        message
        for record in lines(name, "payloads.jsonl")
        for event in record["stream_events"]
        for update in event.values()
        for message in update["messages"]
    ]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    out = tmp_path_factory.mktemp("runs")
    return {
        name: evaluate_dataset(
            Path(FOLDER or "") / name / "payloads.jsonl",
            Path(FOLDER or "") / name / "ground_truth.jsonl",
            metric_set="deterministic",
            out=out,
            name=name,
        )
        for name in NAMES
    }


@pytest.mark.parametrize("name", NAMES)
def test_every_turn_of_every_session_is_scored_without_a_reject(
    runs: dict[str, Run], name: str
) -> None:
    run, records = runs[name], lines(name, "payloads.jsonl")
    keys = [(r["session_id"], r["turn_id"]) for r in records]
    assert run.rejects.collect().is_empty()
    assert sorted(run.turns.select("session_id", "turn_id").collect().rows()) == sorted(keys)
    order = list(dict.fromkeys(sid for sid, _ in keys))
    sessions = run.sessions.collect()
    assert sessions["session_id"].to_list() == order
    assert sessions["overall_score"].null_count() == 0
    assert set(sessions["topology"]) == {"single"}


@pytest.mark.parametrize("name", NAMES)
def test_every_message_call_and_result_is_there(runs: dict[str, Run], name: str) -> None:
    run, raw = runs[name], messages(name)
    calls = run.tool_calls.collect()
    made = [m.get("tool_calls", []) + m.get("invalid_tool_calls", []) for m in raw]
    results = [m for m in raw if m["type"] == "tool"]
    assert run.messages.collect().height == len(raw)
    assert calls.height == sum(map(len, made))
    # Each result stands at a call: what a tool said is nowhere lost and nowhere twice.
    told = calls["result"].drop_nulls().to_list()
    assert sorted(told) == sorted(m["content"] or "" for m in results)
    failed = sum(m.get("status") == "error" for m in results)
    assert calls.filter(pl.col("status") == "error").height == failed


def test_expert_conversations_do_what_experts_expect(runs: dict[str, Run]) -> None:
    run = runs["tooltalk"]
    expected = {
        (row["session_id"], turn): calls
        for row in lines("tooltalk", "ground_truth.jsonl")
        for turn, calls in enumerate(row["per_turn_expected_tool_calls"], 1)
    }
    scores = run.scores.filter(pl.col("metric").is_in(TOOLS)).collect()
    with_calls = {key for key, calls in expected.items() if calls}
    assert len(with_calls) > 100
    for metric in TOOLS:
        found = {
            (sid, turn): value
            for sid, turn, value in scores.filter(metric=metric)
            .select("session_id", "turn_id", "score")
            .rows()
        }
        assert {key: found[key] for key in with_calls} == dict.fromkeys(with_calls, 1.0)


def test_what_is_expected_of_whole_conversations_is_compared_once(runs: dict[str, Run]) -> None:
    run = runs["tau_bench"]
    expected = {
        row["session_id"]
        for row in lines("tau_bench", "ground_truth.jsonl")
        if row["expected_tool_calls"]
    }
    several = run.sessions.filter(
        pl.col("session_id").is_in(list(expected)), pl.col("num_turns") > 1
    ).collect()["session_id"]
    own = run.scores.filter(
        pl.col("metric").is_in(TOOLS), pl.col("turn_id").is_null(), pl.col("score").is_not_null()
    ).collect()
    assert set(several) <= set(own["session_id"])
    assert own.filter(pl.col("session_id").is_in(several.implode())).height == 3 * len(several)


@pytest.mark.parametrize("name", NAMES)
def test_labels_of_the_source_are_kept(runs: dict[str, Run], name: str) -> None:
    labels = runs[name].sessions.collect()["labels"]
    assert labels.null_count() == 0
    assert all("success" in json.loads(text) for text in labels)
