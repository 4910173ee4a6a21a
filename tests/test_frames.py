"""A frame is as good as a file, whichever library it comes from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import polars as pl
import pytest

from uaef_frames import (
    Expectations,
    agreement,
    evaluate_dataset,
    load_expectations,
    read_ground_truth,
    validate_ground_truth,
    write_ground_truth,
)

if TYPE_CHECKING:
    from uaef_frames import Run

DATA = Path(__file__).parents[1] / "data"
LIBRARIES = ["polars", "polars, lazily", "pandas", "pyarrow", "duckdb"]


def through(library: str, frame: pl.DataFrame) -> Any:
    """A frame as one of another library."""
    if library == "pandas":
        return frame.to_pandas()
    if library == "duckdb":
        return duckdb.from_arrow(frame.to_arrow())
    return {
        "polars": frame,
        "polars, lazily": frame.lazy(),
        "pyarrow": frame.to_arrow(),
    }[library]


@pytest.fixture(scope="module")
def sheet(tmp_path_factory: pytest.TempPathFactory) -> pl.DataFrame:
    file = tmp_path_factory.mktemp("sheet") / "truth.csv"
    write_ground_truth(read_ground_truth(DATA / "ground-truth-booking.xlsx"), file)
    return pl.read_csv(file, infer_schema_length=None)


@pytest.fixture(scope="module")
def payloads() -> pl.DataFrame:
    rows = [json.loads(line) for line in (DATA / "booking.jsonl").read_text("utf-8").splitlines()]
    return pl.DataFrame(
        [{**row, "stream_events": json.dumps(row["stream_events"])} for row in rows],
        infer_schema_length=None,
    )


def scored(data: Any, truth: Any, out: Path) -> Run:
    return evaluate_dataset(data, truth, metric_set="deterministic", out=out)


def same(one: Run, other: Run) -> bool:
    columns = ["session_id", "turn_id", "metric", "score", "warning"]
    a, b = (r.scores.select(columns).sort(columns[:3]).collect() for r in (one, other))
    return a.height > 0 and a.equals(b)


@pytest.mark.parametrize("library", LIBRARIES)
def test_ground_truth_may_be_a_frame(sheet: pl.DataFrame, tmp_path: Path, library: str) -> None:
    wanted = read_ground_truth(DATA / "ground-truth-booking.xlsx")
    assert repr(read_ground_truth(through(library, sheet))) == repr(wanted)
    assert validate_ground_truth(through(library, sheet)).valid
    loaded = load_expectations(through(library, sheet))
    assert isinstance(loaded, Expectations)
    assert repr(loaded) == repr(wanted)
    run = scored(DATA / "booking.jsonl", through(library, sheet), tmp_path)
    assert run.info["num_rejects"] == 0
    assert same(run, scored(DATA / "booking.jsonl", wanted, tmp_path))


@pytest.mark.parametrize("library", LIBRARIES)
def test_payloads_may_be_a_frame(
    payloads: pl.DataFrame, sheet: pl.DataFrame, tmp_path: Path, library: str
) -> None:
    run = scored(through(library, payloads), sheet, tmp_path)
    assert (run.info["num_sessions"], run.info["num_turns"]) == (32, 79)
    assert run.info["num_rejects"] == 0
    assert same(run, scored(DATA / "booking.jsonl", sheet, tmp_path))


@pytest.mark.parametrize("library", LIBRARIES)
def test_labels_may_be_a_frame(sheet: pl.DataFrame, tmp_path: Path, library: str) -> None:
    run = scored(DATA / "booking.jsonl", sheet, tmp_path)
    labels = run.sql(
        "select session_id, turn_id, metric, round(score) as label from scores "
        "where metric = 'tool_selection_accuracy' and score is not null"
    )
    found = agreement(run, through(library, labels), resamples=0)
    assert found.table["n"].to_list() == [labels.height]
    assert found.unmatched.is_empty()
