"""A run that was written by hand reads back as it was, in frames, in SQL and in words."""

from __future__ import annotations

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from tests.helpers import payload, registered
from uaef_frames import (
    ConfigError,
    StoreError,
    compare,
    evaluate_dataset,
    export_run,
    gate,
    open_run,
    open_store,
    power,
    schemas,
    to_ground_truth,
)
from uaef_frames.cli import main
from uaef_frames.store.writer import RunWriter

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from uaef_frames import Run

RUN_ID = "20261201-101500-hand-abc123"
HOSTILE = "<script>alert('x')</script> \x1b[31m & \"q\""


def rows(table: str, *values: dict[str, Any]) -> pl.DataFrame:
    """Rows of a table; what is not given is what such a column holds when there is nothing."""
    schema = schemas.RUN_TABLES[table]
    empty: dict[Any, Any] = {pl.String: "", pl.Int64: 0, pl.Float64: 0.0, pl.Boolean: False}
    made: list[dict[str, Any]] = []
    for given in values:
        row: dict[str, Any] = {"run_id": RUN_ID, "topology": "single", "role": "user"}
        row["created_at"] = datetime(2026, 12, 1, 10, 15, tzinfo=UTC)
        for name, column in schema.columns().items():
            if name not in row:
                nothing = [] if isinstance(column.dtype, pl.List) else empty.get(column.dtype)
                row[name] = None if column.nullable else nothing
        row |= given
        made.append({name: row[name] for name in schema.columns()})
    return pl.DataFrame(made, schema=schemas.columns(schema))


def score(
    sid: str, turn: int | None, metric: str, value: float | None, **more: Any
) -> dict[str, Any]:
    dimension = "Performance" if metric == "latency_score" else "Tool Calling"
    warning = None if value is not None else "missing_data"
    return {
        "session_id": sid,
        "turn_id": turn,
        "metric": metric,
        "dimension": dimension,
        "score": value,
        "warning": warning,
        **more,
    }


SCORES = [
    score("a", 1, "parameter_quality", 1.0),
    score("a", 2, "parameter_quality", 0.0, reasoning="swapped"),
    score("b", 7, "parameter_quality", None),
    score("a", 1, "latency_score", 0.25),
    score("a", 2, "latency_score", None, warning="invalid_data"),
    score("b", 7, "latency_score", 1.0),
    score("c", 1, "parameter_quality", None, warning="not_applicable"),
    score("c", 2, "parameter_quality", None, warning="not_applicable"),
    score("c", None, "parameter_quality", 0.6),
]


def hand_made(out: Path, session: str = "a") -> Path:
    """Three sessions: `a` and `c` of two turns, `b` of one; the first may have another name."""

    def renamed(row: dict[str, Any]) -> dict[str, Any]:
        return {**row, "session_id": session} if row["session_id"] == "a" else row

    turns = [("a", 1), ("a", 2), ("b", 7), ("c", 1), ("c", 2)]
    with RunWriter(out, RUN_ID) as writer:
        writer.append("scores", rows("scores", *map(renamed, SCORES)))
        asked = {"turn_index": 1, "response": "Done."}
        made = [
            renamed({"session_id": s, "turn_id": t, "query": f"{HOSTILE} {t}", **asked})
            for s, t in turns
        ]
        writer.append("turns", rows("turns", *made))
        dimensions = [
            {"session_id": "a", "dimension": "Performance", "score": 0.25, "passed": False},
            {"session_id": "b", "dimension": "Performance", "score": 1.0, "passed": True},
            {"session_id": "a", "dimension": "Tool Calling", "score": 0.5, "passed": None},
            {"session_id": "b", "dimension": "Tool Calling", "score": None, "passed": None},
        ]
        for row in dimensions:
            row["threshold"] = 0.6 if row["dimension"] == "Performance" else None
        writer.append("dimensions", rows("dimensions", *map(renamed, dimensions)))
        sessions = [{"session_id": s, "num_turns": 1, "passed": s == "b"} for s in "abc"]
        writer.append("sessions", rows("sessions", *map(renamed, sessions)))
        run = {
            "metrics": ["latency_score", "parameter_quality"],
            "num_sessions": 3,
            "num_turns": 5,
            "mean_overall": 0.5,
            "pass_rate": 1 / 3,
            "config": "{}",
        }
        writer.append("runs", rows("runs", run))
        return writer.commit()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return open_run(hand_made(tmp_path_factory.mktemp("runs")))


def test_every_table_comes_back_as_a_lazy_frame_of_its_columns(run: Run) -> None:
    for name, schema in schemas.RUN_TABLES.items():
        frame = getattr(run, name)
        assert isinstance(frame, pl.LazyFrame)
        assert frame.collect_schema().names() == list(schemas.columns(schema))
    assert run.scores.collect().height == len(SCORES)
    assert run.rejects.collect().is_empty()
    assert run.run_id == RUN_ID


def test_summary_means_over_sessions_and_says_why_scores_are_missing(run: Run) -> None:
    summary = run.summary()
    assert summary.columns == [
        "dimension",
        "metric",
        "mean",
        "low",
        "high",
        "lowest",
        "scored",
        "measured",
        "threshold",
        "passed",
        "why_null",
    ]
    latency, parameters = summary.rows(named=True)
    assert latency == {
        "dimension": "Performance",
        "metric": "latency_score",
        "mean": (0.25 + 1.0) / 2,
        "low": 0.0,  # two sessions tell next to nothing
        "high": 1.0,
        "lowest": 0.25,
        "scored": 2,
        "measured": 3,
        "threshold": 0.6,
        "passed": True,
        "why_null": "invalid_data",
    }
    # a: (1 + 0) / 2, b: none, c: its own score
    assert (parameters["mean"], parameters["lowest"]) == pytest.approx(((0.5 + 0.6) / 2, 0.5))
    assert (parameters["scored"], parameters["measured"]) == (3, 6)
    assert parameters["why_null"] == "not_applicable"


def test_dimension_summary(run: Run) -> None:
    columns = ["dimension", "mean", "threshold", "sessions_scored", "sessions", "pass_rate"]
    assert run.dimension_summary().select(columns).rows() == [
        ("Performance", 0.625, 0.6, 2, 2, 0.5),
        ("Tool Calling", 0.5, None, 1, 2, None),
    ]


def test_worst_turns_are_the_lowest_scored_ones(run: Run) -> None:
    columns = ("session_id", "turn_id", "metric", "score", "reasoning")
    assert run.worst_turns(3).select(columns).rows() == [
        ("a", 2, "parameter_quality", 0.0, "swapped"),
        ("a", 1, "latency_score", 0.25, None),
        ("a", 1, "parameter_quality", 1.0, None),
    ]
    assert run.worst_turns().height == 4
    assert run.worst_turns()["query"][0] == f"{HOSTILE} 2"
    assert run.worst_turns(0).is_empty()


def test_session_scores_and_turn_scores_in_sql(run: Run) -> None:
    found = run.sql(
        "select session_id, metric, score, scored, measured from session_scores"
        " order by metric, session_id"
    )
    assert found.rows() == [
        ("a", "latency_score", 0.25, 1, 2),
        ("b", "latency_score", 1.0, 1, 1),
        ("a", "parameter_quality", 0.5, 2, 2),
        ("b", "parameter_quality", None, 0, 1),
        ("c", "parameter_quality", 0.6, 1, 3),
    ]
    turns = run.sql("select * from turn_scores where session_id = 'c' order by turn_id")
    assert turns["turn_id"].to_list() == [1, 2]
    assert turns["response"].to_list() == ["Done.", "Done."]


def test_every_table_is_a_view_with_the_same_rows(run: Run) -> None:
    for name in schemas.RUN_TABLES:
        expected = getattr(run, name).collect()
        found = run.sql(f"select * from {name}")
        assert sorted(found.columns) == sorted({"run_id", *expected.columns})
        assert found.height == expected.height
    keep = ["session_id", "turn_id", "metric", "score"]
    assert_frame_equal(run.sql("from scores").select(keep), run.scores.select(keep).collect())


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("select 1;", [(1,)]),
        ("-- how many\nselect count(*) from scores", [(9,)]),
        ("with low as (from scores where score < 0.5) select count(*) from low", [(2,)]),
        ("from scores select count(score)", [(5,)]),
        ("select 'copy; drop' as x", [("copy; drop",)]),
        ("values (1), (2)", [(1,), (2,)]),
    ],
)
def test_questions_that_are_answered(run: Run, query: str, rows: list[Any]) -> None:
    assert run.sql(query).rows() == rows


REFUSED = [
    "",
    "  -- nothing",
    "select 1; select 2",
    "select 1; drop view scores",
    "copy scores to 'stolen.csv'",
    "copy (select 1) to 'stolen.parquet'",
    "export database 'stolen'",
    "import database 'stolen'",
    "attach 'other.db'",
    "detach memory",
    "use memory",
    "install httpfs",
    "load httpfs",
    "update extensions",
    "pragma database_list",
    "set threads = 1",
    "set enable_external_access = true",
    "reset allowed_paths",
    "set variable x = 1",
    "create table t as select 1",
    "create or replace view scores as select 1",
    "create macro m() as 1",
    "create secret (type s3)",
    "drop view scores",
    "alter view scores rename to s",
    "insert into scores values (1)",
    "update scores set score = 1",
    "delete from scores",
    "begin",
    "checkpoint",
    "vacuum",
    "call enable_logging()",
    "prepare p as select 1",
    "explain analyze select 1",
    "from query('copy (select 1) to ''stolen.csv''')",
    "from enable_logging(storage := 'file', storage_path := 'stolen')",
    "from enable_profiling(save_location := 'stolen')",
    "select getenv('HOME')",
    "from duckdb_secrets()",
    "from 'http://127.0.0.1:9/x.csv'",
    "from read_csv('http://127.0.0.1:9/x.csv')",
]
READERS = [
    "from '{}'",
    "from read_csv('{}')",
    "from read_text('{}')",
    "from read_blob('{}')",
    "from read_parquet('{}')",
    "from read_json('{}')",
    "from read_json_objects('{}')",
    "from parquet_metadata('{}')",
    "from sniff_csv('{}')",
    "from glob('{}')",
    "from query_table('{}')",
    "select * from scores where session_id in (select content from read_text('{}'))",
]


@pytest.mark.parametrize("query", REFUSED)
def test_what_would_write_or_change_is_refused(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StoreError):
        run.sql(query)
    assert list(tmp_path.iterdir()) == []
    assert run.sql("select count(*) from scores").item() == len(SCORES)


@pytest.mark.parametrize("query", READERS)
def test_no_other_file_can_be_read(run: Run, tmp_path: Path, query: str) -> None:
    frame = pl.DataFrame({"content": ["secret"]})
    for name in ("x.csv", "x.parquet", "x.json"):
        getattr(
            frame, {"csv": "write_csv", "parquet": "write_parquet"}.get(name[2:], "write_ndjson")
        )(tmp_path / name)
    beside = run.path.parent / "beside.parquet"
    frame.write_parquet(beside)
    files = [*tmp_path.iterdir(), beside, "/etc/passwd", tmp_path / "*", "/etc/*", run.path / "*"]
    for file in files:
        with pytest.raises(StoreError):
            run.sql(query.format(file))


def test_variables_of_the_caller_are_no_tables(run: Run) -> None:
    mine = pl.DataFrame({"secret": [1]})
    assert mine.height == 1
    with pytest.raises(StoreError, match="mine"):
        run.sql("from mine")


def test_a_question_that_cannot_be_answered_says_why(run: Run) -> None:
    with pytest.raises(StoreError, match="scors"):
        run.sql("select * from scors")
    with pytest.raises(StoreError, match="syntax"):
        run.sql("selec 1")
    with pytest.raises(StoreError, match="only one SELECT"):
        run.sql("drop view scores")
    for query in (None, 5, "select '\udcff'"):
        with pytest.raises(StoreError, match="a query is text"):
            run.sql(query)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "folder", ["it's", "a b", "x[1]", "y*?", 'q"q', "größe", "semi;colon", "{a}"]
)
def test_a_run_in_a_folder_of_any_name_can_be_read(tmp_path: Path, folder: str) -> None:
    run = open_run(hand_made(tmp_path / folder))
    assert run.sql("select count(*) from scores").item() == len(SCORES)
    assert run.scores.collect().height == len(SCORES)
    assert run.summary().height == 2
    with pytest.raises(StoreError):
        run.sql("from read_text('/etc/passwd')")


def test_a_run_may_be_moved_and_opened_by_a_relative_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = hand_made(tmp_path / "runs")
    moved = made.rename(tmp_path / "kept")
    monkeypatch.chdir(tmp_path)
    run = open_run("kept")
    monkeypatch.chdir("/")
    assert run.run_id == moved.name
    assert run.sql("select count(*) from turns").item() == 5


@pytest.mark.parametrize("damage", ["missing", "a file", "a folder", "no rejects", "cut", "empty"])
def test_what_is_no_run_is_said_with_what_to_do(tmp_path: Path, damage: str) -> None:
    path = hand_made(tmp_path / "runs")
    if damage == "missing":
        path = tmp_path / "nowhere"
    elif damage == "a file":
        path = path / "scores.parquet"
    elif damage == "a folder":
        path = path.parent
    elif damage == "no rejects":
        (path / "rejects.parquet").unlink()
    elif damage == "cut":
        file = path / "scores.parquet"
        file.write_bytes(file.read_bytes()[:-9])
    else:
        (path / "turns.parquet").write_bytes(b"")
    with pytest.raises(StoreError, match=r"is not a run: .* give the folder of one run") as caught:
        open_run(path)
    assert str(path) in str(caught.value)


def test_what_agents_and_users_wrote_is_never_markup(tmp_path: Path) -> None:
    made = hand_made(tmp_path, session=HOSTILE)
    run = open_run(made.rename(tmp_path / "<script>alert(1)<"))
    assert "<script" not in run._repr_html_()
    assert "&lt;script&gt;" in run._repr_html_()
    assert "<script" not in run.worst_turns()._repr_html_()
    assert run.worst_turns()["session_id"].to_list()[0] == HOSTILE
    assert "\n" not in repr(run)
    assert "3 sessions, 5 turns, overall 0.500, 33% passed, 0 rejects" in repr(run)


def test_info_is_the_run_s_own_row(run: Run) -> None:
    assert run.info["run_id"] == RUN_ID
    assert run.info["created_at"] == datetime(2026, 12, 1, 10, 15, tzinfo=UTC)
    assert run.info["metrics"] == ["latency_score", "parameter_quality"]


def test_whole_numbers_stay_whole_numbers(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    frame = run.sql("select sum(turn_index) as n, sum(1.25::decimal(4,2)) as x from turns")
    assert frame.schema["n"] == pl.Int64
    assert frame["n"].item() == 5
    huge = run.sql("select sum(n::hugeint) as n from (values (9e18::bigint), (9e18::bigint)) v(n)")
    assert int(huge["n"].item()) == 18_000_000_000_000_000_000
    with pytest.raises(SystemExit):
        main(["sql", str(run.path), "select sum(turn_index) as n, 1.25 as x from turns", "--json"])
    assert json.loads(capsys.readouterr().out) == [{"n": 5, "x": 1.25}]


@pytest.mark.parametrize(
    "query",
    [
        "select 'infinity'::date as x",
        "select '-infinity'::timestamp as x",
        "select '294247-01-10'::timestamptz as x",
        "select union_value(a := 1) as x",
    ],
)
def test_an_answer_that_cannot_be_held_says_what_to_do(run: Run, query: str) -> None:
    with pytest.raises(StoreError, match="cast it in the query"):
        run.sql(query)
    assert run.sql("select '9999-12-31'::date as x, '0001-01-01'::timestamp as y").height == 1
    assert run.sql("select null::date as x").height == 1


def test_threads_may_share_a_run(run: Run) -> None:
    def ask(number: int) -> list[int]:
        return [
            run.sql(f"select {number} as n, count(*) from turns")["n"].item() for _ in range(20)
        ]

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(ask, range(8))) == [[n] * 20 for n in range(8)]


@pytest.fixture
def spare(run: Run, tmp_path: Path) -> Run:
    """A copy that may be broken."""
    return open_run(shutil.copytree(str(run.path), tmp_path / "spare"))


def test_broken_files_are_told_by_whoever_reads_them(run: Run, spare: Run, tmp_path: Path) -> None:
    whole, run = run, spare
    for table in ("scores", "turns", "sessions", "dimensions", "metrics"):
        file = run.path / f"{table}.parquet"
        octets = file.read_bytes()
        file.write_bytes(octets[:4] + bytes(len(octets) - 12) + octets[-8:])
    asks: list[Callable[[], object]] = [
        lambda: compare(run, whole),
        lambda: compare(whole, run, unit="turn"),
        lambda: gate(run, fail_under="overall=0.1"),
        lambda: gate(whole, against=run, fail_if="overall drops 0.1"),
        lambda: power(run, "overall", 0.1),
        lambda: export_run(run, tmp_path / "x"),
        lambda: to_ground_truth(run),
        lambda: run.plot_scores("latency_score"),
        run.plot_latency_quality,
        run.summary,
    ]
    for ask in asks:
        with pytest.raises(StoreError, match="cannot be read"):
            ask()


@pytest.mark.parametrize(
    "change",
    [
        {"format": "1"},
        {"format": None},
        {"format": True},
        {"run_id": None},
        {"run_id": 5},
        {"tables": []},
        {"about": 5},
    ],
)
def test_a_manifest_that_says_something_else(spare: Run, change: dict[str, Any]) -> None:
    file = spare.path / "manifest.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **change}))
    with pytest.raises(StoreError):
        open_run(spare.path)
    file.write_text("[" * 100_000)
    with pytest.raises(StoreError):
        open_run(spare.path)


def test_a_run_without_its_own_row(spare: Run) -> None:
    file = spare.path / "runs.parquet"
    pl.read_parquet(file).clear().write_parquet(file)
    for ask in (spare.summary, lambda: spare.info, lambda: repr(spare)):
        with pytest.raises(StoreError, match="`runs` is empty"):
            ask()


@pytest.mark.parametrize("path", [None, 5, b"x", ["x"], pl.DataFrame(), "x" * 300, "s3://[::1/x"])
def test_what_is_no_place(path: Any) -> None:
    with pytest.raises((ConfigError, StoreError)):
        open_run(path)
    with pytest.raises((ConfigError, StoreError)):
        open_store(path).run("latest")


def test_a_mean_of_floats_is_not_below_what_all_of_them_are(tmp_path: Path) -> None:
    with registered("even", "Tool Calling", lambda _: pl.col("cost_usd")):
        found = evaluate_dataset(
            [payload(f"s{n}", 1, cost_usd=0.7) for n in range(3)], metrics=["even"], out=tmp_path
        )
    assert found.dimension_summary()["pass_rate"].item() == 1.0
    assert found.summary()["passed"].to_list() == [True]


def test_a_limit_is_a_number_of_rows(run: Run) -> None:
    assert run.worst_turns(1).height == 1
    for limit in ("x", None, -1, 1.5):
        with pytest.raises(ConfigError, match="limit"):
            run.worst_turns(limit)  # type: ignore[arg-type]
