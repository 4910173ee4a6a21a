"""A dataset of any shape comes out as the same run; what cannot be used keeps its line."""

from __future__ import annotations

import gzip
import json
import random
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from uaef_frames import (
    ConfigError,
    Expectations,
    GroundTruth,
    InputFileError,
    LangGraphAdapter,
    Run,
    StoreError,
    batch_evaluate,
    build_multi_turn_ground_truth,
    evaluate_dataset,
    load_expectations,
    open_run,
    schemas,
)

if TYPE_CHECKING:
    from pathlib import Path

Payload = dict[str, Any]
TOOLS = ["tool_selection_accuracy", "tool_sequence_correctness", "parameter_quality"]
SET = "deterministic"
UNSTABLE = ("run_id", "created_at", "duration_s", "sources")


def message(kind: str, content: str, **fields: Any) -> Payload:
    return {"type": kind, "content": content, **fields}


def payload(
    sid: object, turn: object, calls: list[tuple[str, dict[str, Any]]] | None = None, **fields: Any
) -> Payload:
    """A turn: a question, calls with their results, an answer."""
    made = [
        {"name": name, "args": args, "id": f"c{n}-{turn}"}
        for n, (name, args) in enumerate(calls or [])
    ]
    events = [{"__human__": {"messages": [message("human", f"Question {turn} of {sid}?")]}}]
    if made:
        events.append({"model": {"messages": [message("ai", "", tool_calls=made)]}})
        events += [
            {"tools": {"messages": [message("tool", "done", tool_call_id=c["id"])]}} for c in made
        ]
    events.append({"model": {"messages": [message("ai", f"Answer {turn}.", tool_calls=[])]}})
    return {"session_id": sid, "turn_id": turn, "stream_events": events, **fields}


def team(sid: str, turn: int, *agents: str) -> Payload:
    """A turn in which nodes of these names speak, one after the other."""
    events = [{"__human__": {"messages": [message("human", "?")]}}]
    events += [{name: {"messages": [message("ai", f"{name} says")]}} for name in agents]
    return {"session_id": sid, "turn_id": turn, "stream_events": events}


def many(sessions: int = 9, turns: int = 3) -> tuple[list[Payload], list[Payload]]:
    """Payloads with successes and mistakes, mixed over the file, and a row of truth a session."""
    rnd = random.Random(11)
    payloads: list[Payload] = []
    truths: list[Payload] = []
    for number in range(sessions):
        sid = f"session {number}"
        expected: list[Any] = []
        for turn in range(1, turns + 1):
            calls = [
                (rnd.choice(["search", "book"]), {"city": rnd.choice("ab"), "n": 1.0})
                for _ in range(rnd.randint(0, 3))
            ]
            fields = {"latency": rnd.choice([0.5, 4.0]), "cost_usd": 0.02, "input_tokens": 900}
            payloads.append(payload(sid, turn, calls, **fields))
            said = [{"name": name, "arguments": dict(args)} for name, args in calls]
            if said and rnd.random() < 0.5:
                said[0]["arguments"]["city"] = "b"
            expected.append(said if rnd.random() < 0.9 else None)
        truths.append({"session_id": sid, "per_turn_expected_tool_calls": expected, "n": number})
    first, rest = payloads[::turns], [p for i, p in enumerate(payloads) if i % turns]
    rnd.shuffle(rest)
    return first + rest, truths


def write(path: Path, rows: list[Any]) -> Path:
    lines = [row if isinstance(row, str) else json.dumps(row, ensure_ascii=False) for row in rows]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def tables(run: Run) -> dict[str, pl.DataFrame]:
    """Everything a run says of its input, without what names the run."""
    found: dict[str, pl.DataFrame] = {}
    for name in schemas.RUN_TABLES:
        frame = getattr(run, name).collect()
        drop = [c for c in UNSTABLE if c in frame.columns]
        keys = [c for c in ("session_index", "source", "line") if c in frame.columns]
        found[name] = (
            frame.drop(drop).sort(keys[:1], maintain_order=True) if keys else (frame.drop(drop))
        )
    return found


def assert_same(one: Run, other: Run) -> None:
    left, right = tables(one), tables(other)
    for name, frame in left.items():
        assert_frame_equal(frame, right[name])


def score_of(run: Run, metric: str, sid: str) -> list[tuple[int | None, float | None]]:
    picked = run.scores.filter(metric=metric, session_id=sid).sort("turn_id", nulls_last=True)
    return picked.select("turn_id", "score").collect().rows()


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Run]:
    """A file of payloads, one of truths, and the run over them."""
    folder = tmp_path_factory.mktemp("mixed")
    payloads, truths = many()
    files = write(folder / "payloads.jsonl", payloads), write(folder / "truth.jsonl", truths)
    return *files, evaluate_dataset(*files, metric_set=SET, out=folder / "runs", name="whole")


def test_every_row_of_a_run_is_what_its_schema_says(mixed: tuple[Path, Path, Run]) -> None:
    run = mixed[2]
    for name, schema in schemas.RUN_TABLES.items():
        frame = getattr(run, name).collect()
        if name != "rejects" and name != "handoffs":
            assert not frame.is_empty(), name
        assert frame.columns == list(schemas.columns(schema)), name
        schema.validate(frame.cast(dict(schemas.columns(schema))))


def test_sessions_come_out_whole_and_in_first_seen_order(mixed: tuple[Path, Path, Run]) -> None:
    run = mixed[2]
    sessions = run.sessions.collect()
    assert sessions["session_id"].to_list() == [f"session {n}" for n in range(9)]
    assert sessions["session_index"].to_list() == list(range(9))
    assert sessions["num_turns"].to_list() == [3] * 9
    turns = run.turns.collect()
    assert turns.select("session_index", "turn_index").rows() == [
        (s, t) for s in range(9) for t in (1, 2, 3)
    ]
    assert turns["query"][4] == "Question 2 of session 1?"


@pytest.mark.parametrize("size", [1, 7, 20_000])
def test_the_size_of_batches_changes_nothing(
    mixed: tuple[Path, Path, Run], tmp_path: Path, size: int
) -> None:
    payloads, truth, run = mixed
    again = evaluate_dataset(
        payloads, truth, metric_set=SET, out=tmp_path, name="whole", batch_turns=size
    )
    assert_same(again, run)


def test_every_way_to_hand_in_the_same_is_the_same(
    mixed: tuple[Path, Path, Run], tmp_path: Path
) -> None:
    payloads, truth, run = mixed
    lines = payloads.read_bytes().splitlines(keepends=True)
    (tmp_path / "a.jsonl").write_bytes(b"".join(lines[:13]))
    (tmp_path / "b.jsonl").write_bytes(b"".join(lines[13:]))
    packed = tmp_path / "all.gz"
    packed.write_bytes(gzip.compress(payloads.read_bytes()))
    truths = [json.loads(line) for line in truth.read_text("utf-8").splitlines()]
    write(tmp_path / "late.json", truths[4:])
    write(tmp_path / "early.json", truths[:4])
    pl.DataFrame(
        {
            "session_id": [t["session_id"] for t in truths],
            "per_turn_expected_tool_calls": [
                json.dumps(t["per_turn_expected_tool_calls"]) for t in truths
            ],
            "n": [t["n"] for t in truths],
        }
    ).write_parquet(tmp_path / "truth [1].parquet")
    ways: list[tuple[Any, Any]] = [
        (str(payloads), load_expectations(truth)),
        (str(tmp_path / "*.jsonl"), [tmp_path / "late.json", tmp_path / "early.json"]),
        ([tmp_path / "a.jsonl", str(tmp_path / "b.jsonl")], str(tmp_path / "*.json")),
        (packed, tmp_path / "truth [1].parquet"),
        ((json.loads(line) for line in lines), truth),
        ([json.loads(line) for line in lines], truth),
    ]
    for number, (given, expected) in enumerate(ways):
        out = tmp_path / f"runs-{number}"
        assert_same(evaluate_dataset(given, expected, metric_set=SET, out=out, name="whole"), run)


def test_a_run_says_what_batch_evaluate_says_of_the_same(mixed: tuple[Path, Path, Run]) -> None:
    payloads, truth, run = mixed
    records = [json.loads(line) for line in payloads.read_text("utf-8").splitlines()]
    truths = {
        t["session_id"]: build_multi_turn_ground_truth(
            [{"expected_tool_calls": calls} for calls in t["per_turn_expected_tool_calls"]]
        )
        for t in map(json.loads, truth.read_text("utf-8").splitlines())
    }
    results = batch_evaluate(records, truths, metric_set=SET, adapter="langgraph")
    sessions = run.sessions.collect().rows(named=True)
    assert [r.session_id for r in results] == [s["session_id"] for s in sessions]
    scores = run.scores.collect()
    dimensions = run.dimensions.collect()
    for result, session in zip(results, sessions, strict=True):
        sid = session["session_id"]
        assert session["overall_score"] == pytest.approx(result.overall_score, abs=1e-12)
        assert session["passed"] == result.passed
        assert session["failures"] == result.failures
        assert session["warnings"] == result.warnings
        stored = dimensions.filter(session_id=sid).rows(named=True)
        assert [d["dimension"] for d in stored] == [
            d.dimension_name for d in result.dimension_results
        ]
        for one, other in zip(stored, result.dimension_results, strict=True):
            assert one["score"] == pytest.approx(other.aggregate_score, abs=1e-12)
            assert (one["weight"], one["threshold"]) == (other.weight, other.threshold)
        for entry in result.metadata["per_turn"]:
            turn = scores.filter(session_id=sid, turn_id=entry["turn"])
            values = dict(turn.select("metric", "score").rows())
            assert values == pytest.approx(entry["metric_scores"], abs=1e-12)


def test_scores_dimensions_and_the_overall_score_by_hand(tmp_path: Path) -> None:
    """One session, worked out with pencil and paper."""
    rows = [
        payload("s", 1, [("search", {"q": 1}), ("book", {})], latency=4.0),
        payload("s", 2, [("search", {"q": 1})], latency=1.0),
        payload("s", 3, latency=2.0),
    ]
    truth = {
        "session_id": "s",
        "per_turn_expected_tool_calls": [
            [{"name": "search", "arguments": {"q": 1}}],
            [{"name": "search", "arguments": {"q": 2}}],
            None,
        ],
    }
    run = evaluate_dataset(
        rows,
        write(tmp_path / "truth.jsonl", [truth]),
        ["tool_selection_accuracy", "parameter_quality", "latency_score", "throughput"],
        out=tmp_path / "runs",
        dimension_weights={"Tool Calling": 3, "Performance": 1},
        thresholds={"Tool Calling": 0.7, "Performance": 0.1},
    )
    assert score_of(run, "tool_selection_accuracy", "s") == [(1, 0.5), (2, 1.0), (3, None)]
    assert score_of(run, "parameter_quality", "s") == [(1, 0.5), (2, 0.0), (3, None)]
    assert score_of(run, "latency_score", "s") == [(1, 0.5), (2, 1.0), (3, 1.0)]
    speeds = dict(score_of(run, "throughput", "s"))
    assert speeds == pytest.approx({1: 0.025, 2: 0.1, 3: 0.05})
    tools = (0.75 + 0.25) / 2
    speed = (2.5 / 3 + 0.175 / 3) / 2
    dimensions = run.dimensions.select("dimension", "score", "passed").collect().rows()
    assert dimensions == [
        ("Tool Calling", pytest.approx(tools), False),
        ("Performance", pytest.approx(speed), True),
    ]
    session = run.sessions.collect().row(0, named=True)
    assert session["overall_score"] == pytest.approx((3 * tools + speed) / 4)
    assert session["passed"] is False
    assert session["failures"] == ["Tool Calling 0.5 is below its threshold 0.7"]
    assert run.info["mean_overall"] == pytest.approx((3 * tools + speed) / 4)
    assert run.info["pass_rate"] == 0.0


def test_info_says_how_the_run_was_made(tmp_path: Path) -> None:
    file = write(tmp_path / "p.jsonl", [payload("a", 1), payload("a", 2), payload("b", 1), "junk"])
    now = datetime(2026, 12, 1, 10, 15, tzinfo=UTC)
    with pytest.warns(UserWarning, match="1 record could not be used"):
        run = evaluate_dataset(
            file,
            metrics=["throughput", "latency_score"],
            out=tmp_path / "runs",
            name="Läufe/№ 1",
            constants={"latency_score": {"threshold_ms": 500.0}},
            now=now,
        )
    info = run.info
    assert run.run_id.startswith("20261201-101500-L-ufe-1-")
    assert (info["run_id"], info["name"], info["created_at"]) == (
        run.run_id,
        "Läufe/№ 1",
        now,
    )
    assert info["sources"] == [str(file)]
    assert info["metrics"] == ["latency_score", "throughput"]
    assert json.loads(info["config"])["constants"]["latency_score"] == {"threshold_ms": 500.0}
    assert (info["num_sessions"], info["num_turns"], info["num_rejects"]) == (2, 3, 1)
    assert info["duration_s"] > 0
    assert evaluate_dataset([payload("a", 1)], metrics=TOOLS, out=tmp_path).info["sources"] == []


BAD: list[tuple[Any, str]] = [
    ('{"session_id": "a", "turn_id": 3, ', "not JSON"),
    ('{"session_id": "a", "turn_id": 3, "stream_events": [],}', "not JSON"),
    ({"turn_id": 1, "stream_events": []}, "no session_id"),
    ({**payload("x", 1), "session_id": " "}, "session_id must be text"),
    ({**payload("x", 1), "session_id": 1.5}, "session_id must be text"),
    ({"session_id": "a", "stream_events": []}, "no turn_id"),
    ({"session_id": "a", "turn_id": 4}, "no stream_events"),
    (payload("a", "two"), "turn_id must be an integer"),
    (payload("a", 1.5), "turn_id must be an integer"),
    (payload("a", True), "turn_id must be an integer"),
    (payload("a", 1), "has the same turn of this session"),
    (payload("a", 9, latency="fast"), "latency must be a number"),
    ('["a list"]', "a turn payload is a dict"),
    ("5", "a turn payload is a dict"),
    ("null", "a turn payload is a dict"),
    ("\ufeff{}", "no session_id"),
]


def test_a_bad_record_is_kept_with_its_place_and_the_rest_of_its_session_is_scored(
    tmp_path: Path,
) -> None:
    good = [payload("a", 1), "", payload("b", 1), payload("a", 2)]
    file = write(tmp_path / "p.jsonl", [*good, *(row for row, _ in BAD)])
    with pytest.warns(UserWarning, match=f"{len(BAD)} records could not be used"):
        run = evaluate_dataset(file, metric_set=SET, out=tmp_path / "runs")
    rejects = run.rejects.sort("line").collect()
    assert rejects["line"].to_list() == list(range(5, 5 + len(BAD)))
    assert set(rejects["source"]) == {str(file)}
    lines = file.read_text("utf-8").splitlines()
    for reject, (_, reason) in zip(rejects.rows(named=True), BAD, strict=True):
        assert reason in reject["reason"]
        assert reject["raw"] == lines[reject["line"] - 1]
    assert run.sessions.select("session_id", "num_turns").collect().rows() == [("a", 2), ("b", 1)]
    first, second = run.sessions.collect()["warnings"].to_list()
    spoilt = rejects.filter(session_id="a").height
    assert f"{spoilt} records of this session were rejected" in first
    assert second == []
    assert run.info["num_rejects"] == len(BAD)


def test_a_turn_that_cannot_be_read_does_not_spoil_the_other_turns(tmp_path: Path) -> None:
    rows = [payload("a", 1), payload("a", 2), payload("a", 3), payload("b", 1)]
    rows[1]["stream_events"][1] = {"model": {"messages": ["AIMessage(content='x', id='1')"]}}
    with pytest.warns(UserWarning, match="1 record could not be used"):
        run = evaluate_dataset(rows, metric_set=SET, out=tmp_path)
    (reject,) = run.rejects.collect().rows(named=True)
    assert (reject["line"], reject["session_id"], reject["turn_id"]) == (2, "a", "2")
    assert "messages_to_dict" in reject["reason"]
    assert run.turns.select("session_id", "turn_id").collect().rows() == [
        ("a", 1),
        ("a", 3),
        ("b", 1),
    ]
    assert run.sessions.collect()["warnings"].to_list() == [
        ["1 record of this session was rejected"],
        [],
    ]


def test_bytes_that_are_no_text_spoil_their_line_only(tmp_path: Path) -> None:
    rows = [json.dumps(payload(sid, 1)).encode() for sid in ("a", "b", "c")]
    rows[1] = rows[1].replace(b"Answer", b"\xff\xfe")
    file = tmp_path / "p.jsonl"
    file.write_bytes(b"\n".join(rows))
    with pytest.warns(UserWarning, match="could not be used"):
        run = evaluate_dataset(file, metric_set=SET, out=tmp_path / "runs")
    assert run.sessions.collect()["session_id"].to_list() == ["a", "c"]
    assert run.rejects.select("line", "session_id").collect().rows() == [(2, "b")]


@pytest.mark.parametrize(("row", "reason"), BAD)
def test_raise_stops_at_the_bad_record_and_names_file_and_line(
    tmp_path: Path, row: Any, reason: str
) -> None:
    file = write(tmp_path / "p.jsonl", [payload("a", 1), payload("b", 1), row])
    with pytest.raises(InputFileError, match=r"p\.jsonl, line 3: ") as caught:
        evaluate_dataset(file, metrics=TOOLS, out=tmp_path / "runs", on_error="raise")
    assert (caught.value.source, caught.value.line) == (str(file), 3)
    assert reason in caught.value.reason
    assert list((tmp_path / "runs").iterdir()) == []


def test_raise_names_the_row_of_ground_truth(tmp_path: Path) -> None:
    truth = write(tmp_path / "t.jsonl", ['{"session_id": "a", "expected_tool_calls": "[{"}'])
    with pytest.raises(InputFileError, match=r"t\.jsonl, line 1: .*not JSON"):
        evaluate_dataset([payload("a", 1)], truth, TOOLS, out=tmp_path / "r", on_error="raise")


def test_records_in_memory_are_rejected_by_their_position(tmp_path: Path) -> None:
    circle: Payload = payload("c", 1)
    circle["self"] = circle
    with pytest.warns(UserWarning, match="could not be used"):
        run = evaluate_dataset([payload("a", 1), 5, circle], metrics=TOOLS, out=tmp_path)
    rejects = run.rejects.select("source", "line").sort("line").collect().rows()
    assert rejects == [("<memory>", 2), ("<memory>", 3)]


def test_numbers_of_numpy_are_numbers(tmp_path: Path) -> None:
    row = payload("a", np.int64(1), latency=np.float32(4.0), cost_usd=float("nan"))
    run = evaluate_dataset([row], metric_set=SET, out=tmp_path)
    assert score_of(run, "latency_score", "a") == [(1, 0.5)]
    cost = run.scores.filter(metric="cost_efficiency").collect().row(0, named=True)
    assert (cost["score"], cost["warning"]) == (None, "invalid_data")


def test_a_session_that_mixes_topologies_is_rejected_whole_with_both_turns(tmp_path: Path) -> None:
    rows = [team("m", 1, "solo"), team("m", 2, "boss", "clerk"), payload("a", 1)]
    with pytest.warns(UserWarning, match="2 records could not be used"):
        run = evaluate_dataset(rows, metric_set=SET, out=tmp_path / "one")
    rejects = run.rejects.sort("line").collect()
    assert rejects.select("line", "session_id").rows() == [(1, "m"), (2, "m")]
    for reason in rejects["reason"]:
        assert "turn 1 (single-agent: solo)" in reason
        assert "turn 2 (multi-agent: boss, clerk)" in reason
        assert "topology='multi'" in reason
    assert run.sessions.collect()["session_id"].to_list() == ["a"]
    told = evaluate_dataset(
        rows[:2], metric_set=SET, out=tmp_path / "two", adapter=LangGraphAdapter(topology="multi")
    )
    assert told.sessions.select("session_id", "topology").collect().rows() == [("m", "multi")]


CALL = {"name": "search", "arguments": {"q": 1}}
DONE = [("search", {"q": 1})]


def turns_of(sid: str, ids: list[int]) -> list[Payload]:
    """Turns of which the first calls `search`, and the others nothing."""
    return [payload(sid, t, DONE if n == 0 else []) for n, t in enumerate(ids)]


@pytest.mark.parametrize(
    ("ids", "truth_ids"),
    [
        ([1, 2, 3], [1, 2, 3]),
        ([0, 1, 2], [0, 1, 2]),
        ([0, 1, 2], [1, 2, 3]),
        ([1, 2, 3], [0, 1, 2]),
        ([10, 20, 30], [1, 2, 3]),
        ([10, 20, 30], [10, 20, 30]),
    ],
)
def test_rows_of_turns_find_their_turns(
    tmp_path: Path, ids: list[int], truth_ids: list[int]
) -> None:
    """By turn_id where all numbers are the conversation's, else by order; in any order of rows."""
    expected: list[list[Payload]] = [[CALL], [], [CALL]]
    truth = [
        {"session_id": "s", "turn_id": t, "expected_tool_calls": calls, "Split": "easy"}
        for t, calls in zip(truth_ids, expected, strict=True)
    ]
    for number, order in enumerate(([0, 1, 2], [2, 0, 1])):
        file = write(tmp_path / f"t{number}.jsonl", [truth[i] for i in order])
        run = evaluate_dataset(turns_of("s", ids), file, TOOLS, out=tmp_path / "runs")
        assert score_of(run, "tool_selection_accuracy", "s") == [
            (ids[0], 1.0),
            (ids[1], 1.0),
            (ids[2], 0.0),
        ]
        assert run.sessions.collect()["labels"].to_list() == ['{"Split":"easy"}']


def test_one_row_of_a_later_turn_finds_it(tmp_path: Path) -> None:
    truth = write(tmp_path / "t.jsonl", [{"session_id": "s", "turn_id": 2, "tools": [CALL]}])
    with_calls = [payload("s", 1), payload("s", 2, DONE)]
    run = evaluate_dataset(with_calls, truth, TOOLS, out=tmp_path / "runs")
    assert score_of(run, "tool_selection_accuracy", "s") == [(1, None), (2, 1.0)]


def test_expectations_in_memory_files_and_objects_say_the_same(tmp_path: Path) -> None:
    rows = turns_of("s", [1, 2])
    by_session = {"session_id": "s", "per_turn_expected_tool_calls": [[CALL], [CALL]]}
    by_turn = [{"session_id": "s", "turn_id": t, "expected_tool_calls": [CALL]} for t in (1, 2)]
    objects = {"s": GroundTruth(expected_arguments={"per_turn_tools": [[CALL], [CALL]]})}
    parquet = tmp_path / "t.parquet"
    pl.DataFrame(by_turn).write_parquet(parquet)
    ways: list[Any] = [
        write(tmp_path / "session.jsonl", [by_session]),
        write(tmp_path / "turn.jsonl", by_turn),
        Expectations.from_ground_truths(objects),
        parquet,
    ]
    for way in ways:
        run = evaluate_dataset(rows, way, TOOLS, out=tmp_path / "runs")
        for metric in TOOLS:
            assert score_of(run, metric, "s") == [(1, 1.0), (2, 0.0)], way


def test_tools_of_the_whole_conversation_are_compared_once(tmp_path: Path) -> None:
    truth = {"session_id": "s", "expected_tool_calls": [CALL, CALL]}
    run = evaluate_dataset(
        [payload("s", 1, DONE), payload("s", 2, DONE)],
        write(tmp_path / "t.jsonl", [truth]),
        TOOLS,
        out=tmp_path / "runs",
    )
    for metric in TOOLS:
        assert score_of(run, metric, "s") == [(1, None), (2, None), (None, 1.0)]
    assert run.sessions.collect()["overall_score"].to_list() == [1.0]


def test_ground_truth_that_is_shorter_or_longer_is_said(tmp_path: Path) -> None:
    truth = {"session_id": "s", "per_turn_expected_tool_calls": [[CALL], [], []]}
    file = write(tmp_path / "t.jsonl", [truth])
    run = evaluate_dataset(turns_of("s", [1, 2]), file, TOOLS, out=tmp_path / "runs")
    assert run.sessions.collect()["warnings"].to_list() == [
        ["ground truth speaks of 3 turns, the conversation has 2"]
    ]


def test_ground_truth_for_sessions_that_are_not_there_is_said(tmp_path: Path) -> None:
    rows = [{"session_id": sid, "expected_tool_calls": []} for sid in ("s", "gone", "lost")]
    with pytest.warns(UserWarning, match="2 sessions not in the payloads: 'gone', 'lost'"):
        evaluate_dataset([payload("s", 1)], write(tmp_path / "t", rows), TOOLS, out=tmp_path / "r")


@pytest.mark.parametrize("header", ["Session ID", "SESSION_ID"])
def test_ground_truth_is_found_however_its_header_is_spelt(tmp_path: Path, header: str) -> None:
    truth = write(tmp_path / "t.jsonl", [{header: "s", "turn_id": 1, "tools": [CALL]}])
    run = evaluate_dataset([payload("s", 1, DONE)], truth, TOOLS, out=tmp_path / "runs")
    assert score_of(run, "tool_selection_accuracy", "s") == [(1, 1.0)]


def test_nothing_at_all_is_a_run_of_nothing(tmp_path: Path) -> None:
    empty = write(tmp_path / "empty.jsonl", ["", " "])
    for given, truth in ((empty, empty), ([], None), (iter([]), Expectations.empty())):
        with pytest.warns(UserWarning, match="no turn to score"):
            run = evaluate_dataset(given, truth, metric_set=SET, out=tmp_path / "runs")
        assert (run.info["num_turns"], run.info["mean_overall"], run.info["pass_rate"]) == (
            0,
            None,
            None,
        )
        assert run.summary().is_empty()
        assert run.worst_turns().is_empty()
        assert "nothing scored" in repr(run)
        assert run._repr_html_()


def test_an_empty_file_of_ground_truth_says_nothing(tmp_path: Path) -> None:
    empty = write(tmp_path / "empty.jsonl", [])
    run = evaluate_dataset([payload("a", 1)], empty, TOOLS, out=tmp_path / "runs")
    assert run.scores.collect()["warning"].unique().to_list() == ["missing_data"]
    assert run.sessions.collect()["failures"].to_list() == [["nothing could be scored"]]
    assert run.sessions.collect()["passed"].to_list() == [False]


def test_progress_ends_at_all_turns(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    rows = ["junk", *[payload(f"s{n}", 1) for n in range(5)], payload("s0", "bad")]
    with pytest.warns(UserWarning, match="could not be used"):
        evaluate_dataset(
            write(tmp_path / "p.jsonl", rows),
            metrics=TOOLS,
            out=tmp_path / "runs",
            batch_turns=2,
            progress=lambda done, total: seen.append((done, total)),
        )
    assert seen == sorted(seen)
    assert len(seen) > 1
    assert seen[-1] == (7, 7)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"metrics": ["nope"]}, "nope"),
        ({"metric_set": "nope"}, "nope"),
        ({"adapter": "nope"}, "unknown adapter"),
        ({"ground_truth": "missing.jsonl"}, "ground_truth: there is no file"),
        ({"payloads": "missing.jsonl"}, "payloads: there is no file"),
        ({"thresholds": {"tool_calling": 0.5}}, "Tool Calling"),
    ],
)
def test_wrong_arguments_are_said_before_anything_is_written(
    tmp_path: Path, given: dict[str, Any], said: str
) -> None:
    arguments = {"payloads": [payload("a", 1)], "out": tmp_path / "runs", **given}
    with pytest.raises(ConfigError, match=said):
        evaluate_dataset(**arguments)
    assert not (tmp_path / "runs").exists()


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    write(tmp_path / "file", ["x"])
    with pytest.raises(StoreError, match="cannot write runs into"):
        evaluate_dataset([payload("a", 1)], metrics=TOOLS, out=tmp_path / "file" / "runs")


CHAT = [
    {"role": "system", "content": "Be kind."},
    {"role": "user", "content": "Book it"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "book", "arguments": '{"n": 1}'}}
        ],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "booked"},
    {"role": "assistant", "content": "Booked."},
    {"role": "user", "content": "Thanks"},
    {"role": "assistant", "content": "Welcome."},
]


def test_chat_conversations_are_a_dataset_with_and_without_session_ids(tmp_path: Path) -> None:
    rows: list[Any] = [
        {"session_id": "mine", "messages": CHAT, "source": "support"},
        {"messages": CHAT},
        CHAT,
        {"messages": "nothing"},
        {"session_id": "mine", "messages": CHAT},
        {"messages": CHAT[:2]},
    ]
    file = write(tmp_path / "chat.jsonl", rows)
    with pytest.warns(UserWarning, match="2 records could not be used"):
        run = evaluate_dataset(file, metric_set=SET, out=tmp_path / "runs", adapter="openai")
    sessions = run.sessions.select("session_id", "num_turns").collect().rows()
    assert sessions == [
        ("mine", 2),
        ("conversation-2", 2),
        ("conversation-3", 2),
        ("conversation-6", 1),
    ]
    rejects = run.rejects.sort("line").collect()
    assert rejects["line"].to_list() == [4, 5]
    assert "list of chat messages" in rejects["reason"][0]
    assert rejects["reason"][1] == "line 1 has this session"
    assert run.tool_calls.select("name", "status").collect().rows() == [("book", "ok")] * 3
    assert run.turns.collect()["response"].to_list()[:2] == ["Booked.", "Welcome."]


def test_chat_conversations_of_several_files_are_told_apart(tmp_path: Path) -> None:
    for name in "ab":
        write(tmp_path / f"{name}.jsonl", [{"messages": CHAT}, {"messages": CHAT}])
    run = evaluate_dataset(
        str(tmp_path / "*.jsonl"), metric_set=SET, out=tmp_path / "runs", adapter="openai"
    )
    assert run.info["num_sessions"] == 4
    assert run.info["num_rejects"] == 0


@pytest.mark.parametrize(
    "name", ["../../etc", "a/b/c", "..", "/abs", "\\win", "C:x", ".hidden", ""]
)
def test_a_name_cannot_lead_out_of_the_folder(tmp_path: Path, name: str) -> None:
    run = evaluate_dataset([payload("a", 1)], metrics=TOOLS, out=tmp_path / "runs", name=name)
    assert run.path.parent == tmp_path / "runs"
    assert [p.name for p in tmp_path.iterdir()] == ["runs"]
    assert not run.run_id.startswith(".")
    assert open_run(run.path).info["name"] == name


def test_runs_of_the_same_name_at_the_same_time_do_not_meet(tmp_path: Path) -> None:
    now = datetime(2026, 12, 1, tzinfo=UTC)

    def one(number: int) -> Run:
        rows = [payload(f"s{number}", 1)]
        return evaluate_dataset(rows, metrics=TOOLS, out=tmp_path, name="same", now=now)

    with ThreadPoolExecutor(4) as pool:
        runs = list(pool.map(one, range(4)))
    assert len({r.run_id for r in runs}) == 4
    for number, run in enumerate(runs):
        assert run.sessions.collect()["session_id"].to_list() == [f"s{number}"]
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(r.run_id for r in runs)


@pytest.mark.parametrize("where", ["score", "aggregate", "_write", "lay_out", "_runs_row"])
def test_an_exception_in_the_middle_leaves_nothing_and_the_next_run_works(
    mixed: tuple[Path, Path, Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    from uaef_frames import dataset

    real, calls = getattr(dataset, where), 0

    def breaks(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == (1 if where == "_runs_row" else 2):
            raise MemoryError("no more")
        return real(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(dataset, where, breaks)
        with pytest.raises(MemoryError, match="no more"):
            evaluate_dataset(mixed[0], metrics=TOOLS, out=tmp_path, batch_turns=3)
    assert list(tmp_path.iterdir()) == []
    assert evaluate_dataset(mixed[0], metrics=TOOLS, out=tmp_path).info["num_turns"] == 27


KILLED = """
import os, signal, sys
from uaef_frames import dataset
from uaef_frames.store import writer

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

if sys.argv[3] == "second batch":
    real, calls = dataset._write, []
    def write(*arguments):
        calls.append(1)
        die() if len(calls) == 2 else real(*arguments)
    dataset._write = write
else:
    # Every table has its file by now; the last ones have not been closed.
    dataset.RunWriter.commit = die
dataset.evaluate_dataset(
    sys.argv[1], metrics=["throughput"], out=sys.argv[2], batch_turns=3, name="dead"
)
"""


@pytest.mark.parametrize("moment", ["second batch", "commit"])
def test_a_killed_run_is_never_read_as_whole(tmp_path: Path, moment: str) -> None:
    payloads, _ = many()
    file, out = write(tmp_path / "p.jsonl", [*payloads, "junk"]), tmp_path / "runs"
    command = [sys.executable, "-W", "ignore", "-c", KILLED, str(file), str(out), moment]
    done = subprocess.run(command, capture_output=True, timeout=60, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    left = list(out.iterdir())
    assert [p.name.startswith(".") for p in left] == [True]
    with pytest.raises(StoreError, match="is not a run"):
        open_run(left[0])
    assert not list(out.glob("*[!.]*/")) or all(p.name.startswith(".") for p in out.glob("*"))
    run = evaluate_dataset(payloads, metrics=["throughput"], out=out)
    assert [p.name for p in out.iterdir()] == [run.run_id]
    assert open_run(run.path).info["num_turns"] == 27
