"""Many runs as one database: whole runs alone, one SELECT at a time, nothing lost when a run
goes.
"""

from __future__ import annotations

import json
import shutil
import threading
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from typer.testing import CliRunner

from tests.helpers import payload
from uaef_frames import StoreError, evaluate_dataset, open_run, open_store, schemas
from uaef_frames.cli import app

if TYPE_CHECKING:
    from pathlib import Path

    from uaef_frames import Run, Store

TABLES = sorted(schemas.RUN_TABLES)
VIEWS = ["turn_scores", "session_scores", "metric_summary", "worst_turns", "session_timeline",
         "judge_spend"]  # fmt: skip


def made(folder: Path, name: str, sessions: int = 2, latency: float = 1.0, day: int = 1) -> Run:
    payloads = [payload(f"s{n}", t, latency=latency) for n in range(sessions) for t in (1, 2)]
    return evaluate_dataset(
        payloads,
        metrics=["latency_score", "throughput"],
        out=folder,
        name=name,
        now=datetime(2026, 12, day, tzinfo=UTC),
    )


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made(tmp_path / "runs", "slow", latency=4.0)
    made(tmp_path / "runs", "fast", sessions=3, day=2)
    return open_store(tmp_path / "runs")


def test_all_runs_answer_together(store: Store) -> None:
    assert store.runs()["name"].to_list() == ["slow", "fast"]
    means = store.sql(
        "select r.name, m.mean from metric_summary m join runs r using (run_id) "
        "where metric = 'latency_score' order by all"
    )
    assert means.rows() == [("fast", 1.0), ("slow", 0.5)]
    counts = store.sql("select run_id, count(*) as n from turns group by all order by all")
    assert counts["n"].to_list() == [4, 6]
    assert counts["run_id"].to_list() == store.run_ids


@pytest.mark.parametrize("table", [*TABLES, *VIEWS])
def test_every_table_and_view_has_a_run_id(store: Store, table: str, tmp_path: Path) -> None:
    names = store.sql(f"select run_id, * exclude (run_id) from {table} limit 0").columns
    assert names[0] == "run_id"
    empty = open_store(tmp_path / "none").sql(f"select * from {table}")
    assert empty.height == 0
    assert sorted(empty.columns) == sorted(names)


def test_a_run_by_its_name(store: Store) -> None:
    first, second = store.run_ids
    assert store.run(first).run_id == first
    assert store.run(first[:-1]).run_id == first
    assert store.run(second[-6:]).run_id == second
    assert store.run("latest").run_id == second
    for name, words in (("2026", "more than one"), ("nothing", "no run"), ("../x", "no run id"),
                        ("a/b", "no run id"), ("", "no run id")):  # fmt: skip
        with pytest.raises(StoreError, match=words):
            store.run(name)


def test_a_folder_without_a_manifest_is_not_seen(store: Store) -> None:
    run = store.run("latest")
    (run.path / "manifest.json").rename(run.path / "aside.json")
    assert len(store.run_ids) == 1
    assert store.sql("select count(distinct run_id) as n from scores")["n"].item() == 1
    with pytest.raises(StoreError, match=r"no manifest\.json"):
        open_run(run.path)
    (run.path / "aside.json").rename(run.path / "manifest.json")
    held = json.loads((run.path / "manifest.json").read_text())
    (run.path / "manifest.json").write_text(json.dumps(held | {"format": 99}))
    with pytest.raises(StoreError, match="later version"):
        open_run(run.path)
    (run.path / "manifest.json").write_text("{")
    with pytest.raises(StoreError, match="cannot be read"):
        open_run(run.path)


def test_an_older_run_with_fewer_columns_is_read(store: Store) -> None:
    run = store.run("latest")
    file = run.path / "scores.parquet"
    pl.read_parquet(file).drop("cost_usd", "model").write_parquet(file)
    found = store.sql("select run_id, count(*) n, count(cost_usd) c from scores group by all")
    assert found.height == 2
    assert found["c"].to_list() == [0, 0]


def test_the_manifest_tells_and_verify_checks(store: Store) -> None:
    assert store.verify() == {name: [] for name in store.run_ids}
    run = store.run("latest")
    rows = {t: f.rows for t, f in run.manifest.tables.items()}
    assert rows["turns"] == 6
    assert rows["scores"] == run.scores.collect().height
    assert run.manifest.about["config"]["judge"] is None
    file = run.path / "turns.parquet"
    content = bytearray(file.read_bytes())
    content[40] ^= 1
    file.write_bytes(content)
    assert store.verify("latest")[run.run_id] == [
        "turns.parquet has other content than was written"
    ]
    file.write_bytes(content[:-8])
    assert "bytes, was written with" in store.verify()[run.run_id][0]
    file.unlink()
    assert store.verify()[run.run_id] == ["turns.parquet is missing"]


def test_inputs_leave_a_fingerprint(tmp_path: Path) -> None:
    line = json.dumps(payload("s", 1), default=lambda o: o.model_dump())
    (tmp_path / "p.jsonl").write_text(line + "\n")
    one = evaluate_dataset(tmp_path / "p.jsonl", metrics=["latency_score"], out=tmp_path / "runs")
    (tmp_path / "p.jsonl").write_text(line + "\n\n")
    two = evaluate_dataset(tmp_path / "p.jsonl", metrics=["latency_score"], out=tmp_path / "runs")
    prints = [next(iter(r.manifest.about["inputs"].values())) for r in (one, two)]
    assert prints[0]["ends_sha256"] != prints[1]["ends_sha256"]


@pytest.mark.parametrize(
    "query",
    [
        "drop view scores", "create table x as select 1", "select 1; select 2",
        "copy scores to '/tmp/x.csv'", "select * from read_csv('/etc/passwd')",
        "select * from '/etc/passwd'", "set enable_external_access = true", "attach '/tmp/x.db'",
        "install httpfs", "pragma version", "",
    ],
)  # fmt: skip
def test_a_store_can_only_be_read(store: Store, query: str) -> None:
    with pytest.raises(StoreError):
        store.sql(query)


def test_runs_go_whole_while_others_read(store: Store) -> None:
    name = store.run_ids[0]
    stop = threading.Event()
    seen: list[Any] = []

    def read() -> None:
        while not stop.is_set():
            try:
                seen.append(store.sql("select count(*) as n from turns")["n"].item())
            except StoreError:
                seen.append("gone while it was read")

    reader = threading.Thread(target=read)
    reader.start()
    assert store.remove(name) == name
    stop.set()
    reader.join()
    assert set(seen) <= {10, 6, "gone while it was read"}
    assert store.run_ids == [n for n in store.run_ids if n != name]
    assert store.sql("select count(*) as n from turns")["n"].item() == 6


def test_a_plain_duckdb_opens_the_store(store: Store) -> None:
    import duckdb

    path = store.write_attach()
    connection = duckdb.connect()
    connection.execute(path.read_text("utf-8"))
    assert connection.sql("select count(*) from metric_summary").fetchall() == [(4,)]
    with store.connect() as own:
        assert own.sql("select count(*) from sessions").fetchall() == [(5,)]


def cli(*arguments: str) -> Any:
    return CliRunner().invoke(app, list(arguments))


def test_runs_at_the_command_line(store: Store) -> None:
    folder = str(store.path)
    listed = json.loads(cli("runs", "list", "--store", folder, "--json").stdout)
    assert [r["run_id"] for r in listed] == store.run_ids
    assert cli("runs", "verify", "--store", folder).exit_code == 0
    asked = cli("runs", "sql", "select count(*) as n from runs", "--store", folder, "--json")
    assert json.loads(asked.stdout) == [{"n": 2}]
    (store.run("latest").path / "turns.parquet").unlink()
    broken = cli("runs", "verify", "--store", folder)
    assert broken.exit_code == 1
    assert "turns.parquet is missing" in broken.stdout
    # The broken one too.
    for left in (1, 0):
        gone = cli("runs", "rm", store.run_ids[-1], "--store", folder, "--yes")
        assert gone.exit_code == 0
        assert len(store.run_ids) == left


def test_a_run_that_was_copied_is_not_counted_twice(store: Store) -> None:
    run = store.run("latest")
    shutil.copytree(run.path, store.path / "zz-copy")
    for ask in (
        store.runs,
        lambda: store.sql("select count(*) from turns"),
        lambda: store.history("latency_score"),
        store.connect,
        store.write_attach,
    ):
        with pytest.raises(StoreError, match=f"{run.run_id} and zz-copy .* are the same run"):
            ask()
    assert cli("runs", "rm", "zz-copy", "--store", str(store.path), "--yes").exit_code == 0
    assert store.runs().height == 2
    run.path.rename(store.path / "renamed")
    assert store.sql("select count(*) as n from turns")["n"].item() == 10


def test_a_store_that_is_not_there_is_not_verified(tmp_path: Path) -> None:
    for store in (tmp_path / "typo", tmp_path):
        assert cli("runs", "verify", "--store", str(store)).exit_code == 1
        assert "there is no run in" in cli("runs", "list", "--store", str(store)).stderr
        assert cli("runs", "list", "--store", str(store), "--json").stdout == "[]\n"
    for query in (None, 5, "select '\udcff'"):
        with pytest.raises(StoreError, match="a query is text"):
            open_store(tmp_path).sql(query)  # type: ignore[arg-type]
