"""Out again: recorded conversations as a draft of ground truth, and results as sheets.

What agents wrote goes into cells as text; nothing of it runs when a sheet is opened.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from uaef_frames import schemas
from uaef_frames.dataset import open_dataset
from uaef_frames.errors import ConfigError
from uaef_frames.expectations import Calls, Expectations, SessionTruth, TurnTruth
from uaef_frames.files import make_folder, scratch_folder
from uaef_frames.sheets.writing import frame_rows, write_ground_truth, write_text, write_workbook
from uaef_frames.store.run import Run, open_run

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import polars as pl

    from uaef_frames.adapters.base import Adapter


def to_ground_truth(
    recorded: Any, path: str | Path | None = None, *, adapter: str | Adapter = "langgraph"
) -> Expectations:
    """A draft of ground truth from recorded conversations, for a person to correct.

    Each turn gets its question, the answer that was given as the expected one, and the tools that
    were called as the expected calls.

    Args:
        recorded: A `Run` or its folder, or payloads as `evaluate_dataset` takes them.
        path: Where to write it too: xlsx, csv, tsv or jsonl.
        adapter: How raw records are read.

    Raises:
        ConfigError: The path's ending is another.
        GroundTruthError: A text does not fit a cell of Excel.
        StoreError: The disk does not take the file.
    """
    if isinstance(recorded, str | Path) and Path(recorded).is_dir():
        recorded = open_run(recorded)
    if isinstance(recorded, Run):
        parts = [(recorded.collect(recorded.turns), recorded.collect(recorded.tool_calls))]
        made = _expectations(parts)
    else:
        with scratch_folder() as scratch:
            batches = open_dataset(recorded, None, adapter, scratch)
            made = _expectations((c.turns, c.tool_calls) for c, _ in batches)
    if path is not None:
        write_ground_truth(made, path)
    return made


def _expectations(parts: Iterable[tuple[pl.DataFrame, pl.DataFrame]]) -> Expectations:
    truths: dict[str, SessionTruth] = {}
    for turns, calls in parts:
        made: dict[tuple[str, int], Calls] = {}
        listed = calls.sort("session_id", "turn_id", "call_index")
        for sid, turn, name, arguments in listed.select(
            "session_id", "turn_id", "name", "arguments"
        ).iter_rows():
            made.setdefault((sid, turn), []).append((name, arguments or "{}"))
        for sid, turn, query, response in turns.select(
            "session_id", "turn_id", "query", "response"
        ).iter_rows():
            truth = truths.setdefault(sid, SessionTruth(sid, positional=False))
            answer = response if response and response.strip() else None
            asked = query if query and query.strip() else None
            truth.turns.append(TurnTruth(turn, answer, made.get((sid, turn), []), query=asked))
    return Expectations.from_truths(truths.values())


def export_run(
    run: Run | str | Path, path: str | Path, tables: Sequence[str] | None = None
) -> Path:
    """Write a run's tables for a spreadsheet.

    Args:
        run: The run, or its folder.
        path: An .xlsx file (one sheet a table), or a folder (one .csv a table).
        tables: Tables to write; default: sessions, dimensions, scores, turns, rejects, runs.

    Raises:
        ConfigError: There is no such table, or the path ends otherwise.
        GroundTruthError: A text does not fit a cell of Excel; write csv.
        StoreError: The disk does not take them.
    """
    opened = run if isinstance(run, Run) else open_run(run)
    wanted = list(tables or ("sessions", "dimensions", "scores", "turns", "rejects", "runs"))
    for name in wanted:
        if name not in schemas.RUN_TABLES:
            raise ConfigError(
                f"there is no table {name!r}; there is {', '.join(schemas.RUN_TABLES)}"
            )
    frames: dict[str, pl.DataFrame] = {
        name: opened.collect(getattr(opened, name)) for name in wanted
    }
    target = Path(path)
    if target.suffix.lower() == ".xlsx":
        write_workbook(target, {name: frame_rows(frame) for name, frame in frames.items()})
    elif target.suffix == "" or target.is_dir():
        make_folder(target)
        for name, frame in frames.items():
            header, rows = frame_rows(frame)
            write_text(target / f"{name}.csv", header, rows)
    else:
        raise ConfigError("a run is exported to an .xlsx file, or to a folder of csv files")
    return target
