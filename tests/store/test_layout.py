"""FORMAT.md tells what stands on disk now, and runs of earlier versions still answer."""

from __future__ import annotations

import json
import math
import statistics
import subprocess
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq
import pytest

from uaef_frames import Run, evaluate_dataset, open_run, open_store, schemas
from uaef_frames.store.layout import layout
from uaef_frames.store.summary import steady_mean, steady_sd

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return evaluate_dataset(
        ROOT / "data" / "booking.jsonl",
        ROOT / "data" / "ground-truth-booking.xlsx",
        metric_set="deterministic",
        out=tmp_path_factory.mktemp("runs"),
        name="x",
    )


def test_the_layout_is_described_as_it_is() -> None:
    described = (ROOT / "FORMAT.md").read_text("utf-8")
    assert described == layout(), "python -m uaef_frames.store.layout > FORMAT.md"


def test_files_hold_the_columns_that_are_described(run: Run) -> None:
    for table, schema in schemas.RUN_TABLES.items():
        held = pq.read_schema(run.path / f"{table}.parquet")
        assert held.names == list(schemas.columns(schema)), table
        file = pq.ParquetFile(run.path / f"{table}.parquet")
        if file.metadata.num_row_groups:
            assert file.metadata.row_group(0).column(0).compression == "ZSTD"


def test_rows_stand_session_by_session(run: Run) -> None:
    order = run.sessions.sort("session_index").collect()["session_id"].to_list()
    for table in ("turns", "messages", "tool_calls", "scores", "dimensions", "sessions"):
        seen = getattr(run, table).collect()["session_id"].rle().struct.field("value").to_list()
        assert seen == [s for s in order if s in set(seen)], table


def test_the_metrics_table_agrees_with_the_scores(run: Run) -> None:
    metrics = run.metrics.collect()
    by_session = run.scores.group_by("metric", "session_id").agg(pl.col("score").mean()).collect()
    for row in metrics.iter_rows(named=True):
        own = by_session.filter(pl.col("metric") == row["metric"])["score"]
        assert row["mean"] == pytest.approx(own.mean())
        assert row["sd"] == pytest.approx(own.std())
        assert row["lowest"] == own.min()
        assert (row["sessions"], row["sessions_scored"]) == (len(own), own.count())
    summary = run.summary().drop_nulls("low")
    assert (summary["low"] <= summary["mean"]).all()
    assert (summary["mean"] <= summary["high"]).all()


def as_an_earlier_version_wrote_it(run: Run, out: Path) -> Path:
    """The run without the tables that came later, and with fewer columns."""
    folder = out / run.run_id
    folder.mkdir(parents=True)
    later = {"metrics", "expected", "expected_tool_calls"}
    for table in set(schemas.RUN_TABLES) - later:
        frame = pl.read_parquet(run.path / f"{table}.parquet")
        dropped = {"scores": ["cached", "cost_usd"], "turns": ["notes"]}.get(table, [])
        frame.drop(dropped).write_parquet(folder / f"{table}.parquet")
    manifest = json.loads((run.path / "manifest.json").read_text())
    manifest["tables"] = {n: t for n, t in manifest["tables"].items() if n not in later}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


def test_a_run_of_an_earlier_version_still_answers(run: Run, tmp_path: Path) -> None:
    old = open_run(as_an_earlier_version_wrote_it(run, tmp_path / "runs"))
    assert old.scores.select("cost_usd").collect()["cost_usd"].null_count() > 0
    assert old.expected.collect().is_empty()
    assert old.summary().equals(run.summary())
    assert old.sql("select count(cached) as n from scores").item() == 0
    assert old.sql("select * from tool_confusion").is_empty()
    newer = evaluate_dataset(
        [{"session_id": "s", "turn_id": 1, "stream_events": [
            {"__human__": {"messages": [{"type": "human", "content": "hi"}]}},
            {"agent": {"messages": [{"type": "ai", "content": "hello"}]}},
        ], "latency": 1.0}],
        metrics=["latency_score"],
        out=tmp_path / "runs",
    )  # fmt: skip
    store = open_store(tmp_path / "runs")
    summary = store.sql("select run_id, metric, mean, why_null from metric_summary order by all")
    assert set(summary["run_id"]) == {run.run_id, newer.run_id}
    theirs = summary.filter(pl.col("run_id") == run.run_id)
    ours = run.metrics.sort("metric").collect()
    assert theirs["metric"].to_list() == ours["metric"].to_list()
    assert theirs["mean"].to_list() == pytest.approx(ours["mean"].to_list())
    assert theirs["why_null"].to_list() == ours["why_null"].to_list()
    assert store.sql("select count(*) from turns where notes is null").item() > 0


def test_a_run_in_a_folder_of_another_name(run: Run, tmp_path: Path) -> None:
    import shutil

    shutil.copytree(run.path, tmp_path / "runs" / "copied's [1]")
    store = open_store(tmp_path / "runs")
    assert store.sql("select distinct run_id from turn_scores").item() == run.run_id
    assert store.sql("select count(*) from turns").item() == run.turns.collect().height


def test_tools_expected_and_called(tmp_path: Path) -> None:
    def turn(session: str, number: int, *called: str) -> dict[str, object]:
        calls = [{"name": n, "args": {}, "id": f"c{i}"} for i, n in enumerate(called)]
        return {"session_id": session, "turn_id": number, "latency": 1.0, "stream_events": [
            {"__human__": {"messages": [{"type": "human", "content": "hi"}]}},
            {"agent": {"messages": [{"type": "ai", "content": "", "tool_calls": calls}]}},
            {"agent": {"messages": [{"type": "ai", "content": "hello"}]}},
        ]}  # fmt: skip

    truth = tmp_path / "truth.csv"
    truth.write_text(
        "session_id,turn_id,Question,expected_tool_calls\n"
        'a,1,hi,"[""find"", ""find"", ""book""]"\n'
        "a,2,hi,[]\n"
        "b,1,hi,\n"
    )
    run = evaluate_dataset(
        [turn("a", 1, "find", "search"), turn("a", 2, "book"), turn("b", 1, "find")],
        truth,
        metrics=["tool_selection_accuracy"],
        out=tmp_path / "runs",
    )
    found = run.sql("select expected, called, calls from tool_confusion order by all nulls last")
    assert found.rows() == [
        ("book", None, 1),  # two were expected beside the one that came, one other came
        ("find", "find", 1),
        ("find", "search", 1),
        (None, "book", 1),
    ]
    assert run.expected.collect()["tools_stated"].to_list().count(True) == 2


def test_the_duckdb_shell_opens_a_store_with_what_was_written(run: Run, tmp_path: Path) -> None:
    import duckdb

    store = open_store(run.path.parent)
    script = store.write_attach().read_text("utf-8")
    connection = duckdb.connect()
    connection.execute(script)
    assert connection.sql("select count(*) from runs").fetchall() == [(1,)]
    means = connection.sql("select metric, mean from metric_summary order by metric").fetchall()
    assert means == run.metrics.sort("metric").select("metric", "mean").collect().rows()


def test_the_layout_is_written_by_a_command() -> None:
    import sys

    made = subprocess.run(
        [sys.executable, "-m", "uaef_frames.store.layout"], capture_output=True, check=True
    )
    assert made.stdout.decode() == layout()


def test_means_do_not_depend_on_the_order_in_which_they_are_added_up() -> None:
    import random

    draw = random.Random(7)
    scores = [draw.random() for _ in range(20_000)]
    seen = set()
    for _ in range(20):
        draw.shuffle(scores)
        groups = pl.DataFrame({"g": [i % 3 == 0 for i in range(len(scores))], "score": scores})
        whole = pl.concat([groups.head(7_001), groups.tail(-7_001)], rechunk=False)
        seen.add(whole.select(mean=steady_mean("score"), sd=steady_sd("score")).row(0))
    assert len(seen) == 1
    mean, sd = seen.pop()
    assert mean == math.fsum(scores) / len(scores)
    assert sd == pytest.approx(statistics.stdev(scores), rel=1e-14)


@pytest.mark.parametrize(
    ("scores", "mean", "sd"),
    [([], None, None), ([None], None, None), ([0.1], 0.1, None), ([0.1, None, 0.1], 0.1, 0.0)],
)
def test_a_mean_of_nothing_is_null_and_of_one_score_that_score(
    scores: list[float | None], mean: float | None, sd: float | None
) -> None:
    frame = pl.DataFrame({"score": scores}, schema={"score": pl.Float64})
    assert frame.select(mean=steady_mean("score"), sd=steady_sd("score")).row(0) == (mean, sd)
