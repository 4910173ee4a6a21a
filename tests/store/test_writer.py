"""A run appears at once and whole, or not at all."""

from __future__ import annotations

import re
import subprocess
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import polars as pl
import pyarrow.parquet as pq
import pytest

from tests.store.test_run import RUN_ID, SCORES, hand_made, rows
from uaef_frames import StoreError, open_run, schemas
from uaef_frames.store.writer import RunWriter, new_run_id

if TYPE_CHECKING:
    from pathlib import Path

NOW = datetime(2026, 12, 1, 10, 15, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("name", "middle"),
    [
        (None, ""),
        ("", ""),
        ("nightly", "nightly-"),
        ("a b/c", "a-b-c-"),
        ("../../x", "x-"),
        ("...", ""),
        ("-", ""),
        ("é", ""),
        ("a\nb\x1b[31m", "a-b-31m-"),
        ("x" * 300, "x" * 60 + "-"),
    ],
)
def test_a_run_s_id_is_a_plain_name_that_sorts_by_time(name: str | None, middle: str) -> None:
    made = new_run_id(name, NOW)
    assert re.fullmatch(rf"20261201-101530-{re.escape(middle)}[0-9a-f]{{6}}", made)
    assert new_run_id(name, NOW) != made


def test_rows_are_kept_in_the_order_they_came_and_all_tables_are_there(tmp_path: Path) -> None:
    with RunWriter(tmp_path, RUN_ID) as writer:
        for row in SCORES:
            writer.append("scores", rows("scores", row))
        writer.append("turns", pl.DataFrame())
        path = writer.commit()
    assert sorted(p.stem for p in path.iterdir()) == sorted([*schemas.RUN_TABLES, "manifest"])
    found = open_run(path).scores.select("session_id", "turn_id", "metric").collect().rows()
    assert found == [(r["session_id"], r["turn_id"], r["metric"]) for r in SCORES]


def test_columns_may_come_in_any_order_and_with_others(tmp_path: Path) -> None:
    frame = rows("scores", *SCORES)
    with RunWriter(tmp_path, RUN_ID) as writer:
        writer.append("scores", frame.select(reversed(frame.columns)).with_columns(other=pl.lit(1)))
        path = writer.commit()
    assert open_run(path).scores.collect().columns == frame.columns


def test_any_parquet_reader_sees_text_and_lists(tmp_path: Path) -> None:
    path = hand_made(tmp_path)
    schema = pq.read_schema(path / "turns.parquet")
    assert "string" in str(schema.field("topology").type)
    assert "dictionary" not in str(schema.field("topology").type)
    assert "list" in str(schema.field("notes").type)
    assert pq.read_table(path / "sessions.parquet").num_rows == 3


def test_nothing_is_seen_before_the_run_is_whole(tmp_path: Path) -> None:
    with RunWriter(tmp_path, RUN_ID) as writer:
        writer.append("scores", rows("scores", *SCORES))
        assert not (tmp_path / RUN_ID).exists()
        assert all(p.name.startswith(".") for p in tmp_path.iterdir())
        assert list(tmp_path.glob("2*")) == []
        writer.commit()
        assert [p.name for p in tmp_path.iterdir()] == [RUN_ID]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_what_is_not_committed_is_removed(tmp_path: Path, error: type[BaseException]) -> None:
    def write() -> None:
        with RunWriter(tmp_path, RUN_ID) as writer:
            writer.append("scores", rows("scores", *SCORES))
            raise error

    with pytest.raises(error):
        write()
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_is_there_is_not_overwritten(tmp_path: Path) -> None:
    path = hand_made(tmp_path)
    before = (path / "scores.parquet").read_bytes()
    with pytest.raises(StoreError, match="could not be written"):
        hand_made(tmp_path)
    assert (path / "scores.parquet").read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == [RUN_ID]


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    with pytest.raises(StoreError, match="cannot write runs into"):
        RunWriter(tmp_path / "file", RUN_ID)


LEAVES = """
import os, sys
from uaef_frames.store.writer import RunWriter
RunWriter(sys.argv[1], "left")
os._exit(1)
"""


def test_what_dead_processes_left_is_swept_and_what_living_ones_write_is_not(
    tmp_path: Path,
) -> None:
    subprocess.run([sys.executable, "-c", LEAVES, str(tmp_path)], check=False, timeout=60)
    (left,) = tmp_path.iterdir()
    with RunWriter(tmp_path, "living") as living:
        living.append("scores", rows("scores", *SCORES))
        assert not left.exists()
        with RunWriter(tmp_path, "second") as second:
            second.commit()
        living.commit()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["living", "second"]
    (tmp_path / ".left.draft-another-machine.1").mkdir()
    (tmp_path / ".mine").mkdir()
    with RunWriter(tmp_path, "third"):
        pass
    assert (tmp_path / ".left.draft-another-machine.1").exists()
    assert (tmp_path / ".mine").exists()
