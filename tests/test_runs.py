"""From files to a run and back: what is scored, what is rejected, what SQL may and may not see."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal
from typer.testing import CliRunner

from uaef_frames import (
    Expectations,
    InputFileError,
    LangGraphAdapter,
    Run,
    StoreError,
    batch_evaluate,
    evaluate_dataset,
    load_expectations,
    open_run,
    schemas,
)
from uaef_frames.cli import app
from uaef_frames.schemas import RUN_TABLES

DATA = Path(__file__).parent.parent / "data"
PAYLOADS, TRUTH = DATA / "booking.jsonl", DATA / "booking_ground_truth.jsonl"
SET = {"metric_set": "deterministic"}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return evaluate_dataset(PAYLOADS, TRUTH, out=tmp_path_factory.mktemp("runs"), name="all", **SET)


def scores_of(run: Run) -> pl.DataFrame:
    return run.scores.drop("run_id").collect().sort("session_id", "metric", "turn_id")


@pytest.mark.parametrize("table", RUN_TABLES)
def test_every_table_keeps_its_schema(run: Run, table: str) -> None:
    schema = RUN_TABLES[table]
    frame = getattr(run, table).collect()
    typed = frame.cast(dict(schemas.columns(schema)))
    assert schema.validate(typed).height == frame.height


def test_a_run_says_what_batch_evaluate_says(run: Run) -> None:
    payloads = [json.loads(line) for line in PAYLOADS.read_text().splitlines()]
    sessions = LangGraphAdapter().transform_to_canonical(payloads)
    truth = load_expectations(TRUTH)
    from uaef_frames.models import GroundTruth

    by_session = {}
    for line in TRUTH.read_text().splitlines():
        row = json.loads(line)
        by_session[row["session_id"]] = GroundTruth(
            expected_output=row.get("expected_output"),
            expected_arguments={
                "per_turn_expected": row["per_turn_expected"],
                "per_turn_tools": row["per_turn_expected_tool_calls"],
            },
        )
    assert set(by_session) == set(truth.session_ids)
    results = batch_evaluate(sessions, by_session, **SET)
    stored = run.sessions.collect()
    assert stored["session_id"].to_list() == [r.session_id for r in results]
    assert stored["overall_score"].to_list() == pytest.approx([r.overall_score for r in results])
    assert stored["passed"].to_list() == [r.passed for r in results]
    assert stored["failures"].to_list() == [r.failures for r in results]
    dimensions = run.dimensions.collect()
    for result in results:
        mine = dimensions.filter(pl.col("session_id") == result.session_id)
        found = {d.dimension_name: d.aggregate_score for d in result.dimension_results}
        assert dict(mine.select("dimension", "score").rows()) == pytest.approx(found)


@pytest.mark.parametrize("size", [1, 7])
def test_batches_do_not_change_a_run(run: Run, tmp_path: Path, size: int) -> None:
    other = evaluate_dataset(PAYLOADS, TRUTH, out=tmp_path, batch_turns=size, **SET)
    assert_frame_equal(scores_of(other), scores_of(run))
    keep = pl.exclude("run_id")
    assert_frame_equal(other.sessions.select(keep).collect(), run.sessions.select(keep).collect())
    for table in ("turns", "messages", "tool_calls", "handoffs"):
        assert_frame_equal(getattr(other, table).collect(), getattr(run, table).collect())


def test_sessions_whose_turns_lie_apart_come_out_whole(run: Run, tmp_path: Path) -> None:
    lines = PAYLOADS.read_text().splitlines()
    shuffled = tmp_path / "shuffled.jsonl"
    shuffled.write_text("\n".join(lines[::2] + lines[1::2]))
    other = evaluate_dataset(shuffled, TRUTH, out=tmp_path, batch_turns=5, **SET)
    assert_frame_equal(scores_of(other), scores_of(run))


def test_the_same_records_in_any_wrapping(run: Run, tmp_path: Path) -> None:
    import zstandard

    text = PAYLOADS.read_bytes()
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(text))
    (tmp_path / "a.jsonl.zst").write_bytes(zstandard.compress(text))
    halves = text.splitlines(keepends=True)
    (tmp_path / "part-1.jsonl").write_bytes(b"".join(halves[:40]))
    (tmp_path / "part-2.jsonl").write_bytes(b"".join(halves[40:]).replace(b"\n", b"\r\n"))
    records = (json.loads(line) for line in halves)
    for payloads in (
        tmp_path / "a.jsonl.gz",
        str(tmp_path / "a.jsonl.zst"),
        str(tmp_path / "part-*.jsonl"),
        [tmp_path / "part-1.jsonl", tmp_path / "part-2.jsonl"],
        records,
    ):
        other = evaluate_dataset(payloads, load_expectations(TRUTH), out=tmp_path / "runs", **SET)
        assert_frame_equal(scores_of(other), scores_of(run))


def payload(sid: object, turn: object, said: str = "hi") -> dict[str, Any]:
    return {
        "session_id": sid,
        "turn_id": turn,
        "stream_events": [
            {"__human__": {"messages": [{"type": "human", "content": said}]}},
            {"model": {"messages": [{"type": "ai", "content": "ok"}]}},
        ],
    }


BAD_LINES = [
    ('{"session_id": "a", "turn_id": 2', "not JSON"),
    (json.dumps({"turn_id": 1, "stream_events": []}), "session_id"),
    (json.dumps({"session_id": "a", "stream_events": []}), "turn_id"),
    (json.dumps(payload("a", "two")), "turn_id"),
    (json.dumps(payload("a", True)), "turn_id"),
    (json.dumps(payload("a", 1)), "same turn"),
    (json.dumps({**payload("a", 9), "latency": "fast"}), "latency"),
    ("[1, 2]", "payload"),
]


def test_bad_records_are_kept_aside_with_their_line(tmp_path: Path) -> None:
    file = tmp_path / "p.jsonl"
    good = [json.dumps(payload("a", 1)), "", json.dumps(payload("b", 1))]
    file.write_text("\n".join([*good, *(line for line, _ in BAD_LINES)]))
    with pytest.warns(UserWarning, match="records could not be used"):
        run = evaluate_dataset(file, out=tmp_path / "runs", **SET)
    rejects = run.rejects.sort("line").collect()
    assert rejects["line"].to_list() == list(range(4, 4 + len(BAD_LINES)))
    assert rejects["source"].unique().to_list() == [str(file)]
    for (line, word), (reason, raw) in zip(
        BAD_LINES, rejects.select("reason", "raw").rows(), strict=True
    ):
        assert word in reason
        assert raw == line
    assert run.sessions.collect()["session_id"].to_list() == ["a", "b"]
    warnings = run.sessions.collect()["warnings"].to_list()
    assert any("records of this session were rejected" in w for w in warnings[0])
    assert warnings[1] == []


def test_raise_stops_at_the_first_and_leaves_no_run(tmp_path: Path) -> None:
    file = tmp_path / "p.jsonl"
    file.write_text(json.dumps(payload("a", 1)) + "\n" + json.dumps(payload("a", 1.5)))
    with pytest.raises(InputFileError, match=r"p\.jsonl, line 2: .*turn_id") as caught:
        evaluate_dataset(file, out=tmp_path / "runs", on_error="raise", **SET)
    assert caught.value.line == 2
    assert list((tmp_path / "runs").iterdir()) == []


def test_ground_truth_a_row_a_turn(tmp_path: Path) -> None:
    """Numbers that are not the payloads' are matched by order."""
    called = payload("s", 0)
    called["stream_events"][1]["model"]["messages"][0]["tool_calls"] = [
        {"name": "f", "args": {}, "id": "c1"}
    ]
    rows = [
        {"session_id": "s", "turn_id": 2, "expected_tool_calls": [{"name": "f"}], "team": "x"},
        {"session_id": "s", "turn_id": 1, "expected_tool_calls": [{"name": "f"}]},
    ]
    truth = tmp_path / "t.jsonl"
    truth.write_text("\n".join(map(json.dumps, rows)))
    run = evaluate_dataset(
        [called, payload("s", 1)], truth, ["tool_selection_accuracy"], out=tmp_path / "runs"
    )
    scores = run.scores.sort("turn_id").collect()
    assert scores.select("turn_id", "score").rows() == [(0, 1.0), (1, 0.0)]
    assert run.sessions.collect()["labels"].to_list() == ['{"team":"x"}']
    pl.DataFrame(rows).write_parquet(tmp_path / "t.parquet")
    other = evaluate_dataset(
        [called, payload("s", 1)], tmp_path / "t.parquet", ["tool_selection_accuracy"], out=tmp_path
    )
    assert_frame_equal(scores_of(other), scores_of(run))


def test_ground_truth_that_cannot_be_read_is_a_reject_too(tmp_path: Path) -> None:
    truth = tmp_path / "t.jsonl"
    truth.write_text('{"session_id": "a", "expected_tool_calls": "[{"}\nnonsense\n')
    with pytest.warns(UserWarning, match="could not be used"):
        run = evaluate_dataset([payload("a", 1)], truth, out=tmp_path / "runs", **SET)
    assert sorted(run.rejects.collect()["line"].to_list()) == [1, 2]
    assert run.info["num_sessions"] == 1


def test_nothing_to_score_is_said(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_text("\n\n")
    with pytest.warns(UserWarning, match="no turn to score"):
        run = evaluate_dataset(
            tmp_path / "empty.jsonl", Expectations.empty(), out=tmp_path / "runs", **SET
        )
    assert (run.info["num_turns"], run.info["mean_overall"], run.summary().height) == (0, None, 0)


def test_a_name_cannot_leave_the_folder(tmp_path: Path) -> None:
    run = evaluate_dataset([payload("a", 1)], out=tmp_path / "runs", name="../../x/..", **SET)
    assert run.path.parent == tmp_path / "runs"


def test_a_killed_run_leaves_nothing_that_reads_as_whole(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from uaef_frames import evaluate_dataset\n"
        "import uaef_frames.dataset as d\n"
        "write = d._write\n"
        "def slow(*a):\n"
        "    write(*a); print('written', flush=True); import time; time.sleep(60)\n"
        "d._write = slow\n"
        "evaluate_dataset(sys.argv[1], metric_set='turn', out=sys.argv[2], batch_turns=5)\n"
    )
    command = [sys.executable, "-c", code, str(PAYLOADS), str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as killed:
        assert killed.stdout is not None
        assert killed.stdout.readline() == b"written\n"
        os.kill(killed.pid, signal.SIGKILL)
    left = list(tmp_path.iterdir())
    assert all(p.name.startswith(".") for p in left)
    for path in left:
        with pytest.raises(StoreError, match="not a run"):
            open_run(path)
    time.sleep(0.1)
    run = evaluate_dataset([payload("a", 1)], out=tmp_path, **SET)
    assert [p.name for p in tmp_path.iterdir()] == [run.run_id]


@pytest.mark.parametrize(
    "query",
    [
        "copy scores to '/tmp/stolen.csv'",
        "attach '/tmp/x.db'",
        "install httpfs",
        "pragma version",
        "set enable_external_access = true",
        "create table t as select 1",
        "drop view scores",
        "select 1; select 2",
        "select * from read_csv('/etc/passwd')",
        "select * from '/etc/passwd'",
        "select * from glob('/*')",
        "select * from read_text('/etc/hostname')",
        "select * from nothing_of_that_name",
        "selec",
    ],
)
def test_sql_reads_the_run_and_nothing_else(run: Run, query: str) -> None:
    with pytest.raises(StoreError):
        run.sql(query)


def test_views_answer(run: Run) -> None:
    means = run.sql("select metric, avg(score) as mean from session_scores group by all")
    summary = run.summary()
    joined = summary.join(means, on="metric", suffix="_sql")
    assert joined["mean"].to_list() == pytest.approx(joined["mean_sql"].to_list())
    worst = run.worst_turns(3)
    assert worst["score"].is_sorted()
    assert worst.height == 3
    assert run.sql("select count(*) as n from turn_scores")["n"][0] > 0


def test_hostile_text_stays_text(tmp_path: Path) -> None:
    hostile = "<script>alert(1)</script>\x1b[31m[bold]"
    run = evaluate_dataset([payload(hostile, 1, hostile)], out=tmp_path / "it's", **SET)
    assert run.sql("select session_id from sessions")["session_id"][0] == hostile
    assert "<script>" not in run._repr_html_()
    printed = CliRunner().invoke(app, ["sql", str(run.path), "select session_id from sessions"])
    assert printed.exit_code == 0
    assert "\x1b" not in printed.stdout
    assert "[bold]" in printed.stdout


def cli(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "uaef_frames", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_command_line(tmp_path: Path) -> None:
    score = ["score", str(PAYLOADS), "--ground-truth", str(TRUTH), "--out", str(tmp_path)]
    good = cli(*score, "--metrics", "tool_selection_accuracy,latency_score", "--json")
    assert good.returncode == 0, good.stderr
    told = json.loads(good.stdout)
    assert told["num_sessions"] == 32
    assert good.stderr == ""
    shown = cli("show", told["path"])
    assert "tool_selection_accuracy" in shown.stdout
    rows = cli("sql", told["path"], "select count(*) as n from sessions", "--json")
    assert json.loads(rows.stdout) == [{"n": 32}]
    failed = cli(*score, "--metrics", "latency_score", "--fail-under", "0.99")
    assert failed.returncode == 1
    assert "below --fail-under 0.99" in failed.stderr


@pytest.mark.parametrize(
    ("arguments", "status", "word"),
    [
        (["score", "nowhere.jsonl"], 2, "no file"),
        (["score", str(PAYLOADS), "--metrics", "latency_scor"], 2, "latency_score"),
        (["score", str(PAYLOADS), "--on-error", "ignore"], 2, "on-error"),
        (["score"], 2, "payloads"),
        (["show", "nowhere"], 1, "not a run"),
        (["nothing"], 2, "No such command"),
    ],
)
def test_the_exit_status_tells(arguments: list[str], status: int, word: str) -> None:
    done = cli(*arguments)
    assert done.returncode == status
    assert word in done.stderr
    assert "Traceback" not in done.stderr
