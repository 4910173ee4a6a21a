"""Opening: a path, a glob, bytes, frames or rows as grids. Files that are not what they say end in
a clear error that names them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import polars as pl

from uaef_frames.arrow import as_frame
from uaef_frames.errors import GroundTruthError
from uaef_frames.sheets.grids import Grid, grid_of_mappings, grid_of_rows
from uaef_frames.sheets.texts import json_grid, text_grid
from uaef_frames.sheets.workbooks import workbook_grids

_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
TEXT_ENDINGS = (".csv", ".tsv", ".txt")
WORKBOOK_ENDINGS = (".xlsx", ".xlsm")
ROW_ENDINGS = (".json", ".jsonl", ".ndjson", ".parquet")


def open_grids(given: Any, sheet: str | None = None) -> list[Grid]:
    """The grids of a path, a glob, bytes, a frame, or several paths.

    Raises:
        GroundTruthError: It cannot be read as what it is; the message names the file.
    """
    if isinstance(given, bytes | bytearray):
        return _grids_of_bytes("<bytes>", bytes(given), sheet)
    frame = as_frame(given)
    if frame is not None:
        return [grid_of_rows("<frame>", frame.columns, frame.iter_rows())]
    if isinstance(given, str | Path):
        return [g for path in _paths(given) for g in _grids_of_file(path, sheet)]
    if isinstance(given, list | tuple):
        items = cast("Sequence[Any]", given)
        if all(isinstance(i, str | Path) for i in items):
            return [g for i in items for g in open_grids(i, sheet)]
        if all(isinstance(i, Mapping) for i in items):
            return [grid_of_mappings("<rows>", cast("Sequence[Mapping[str, Any]]", items))]
    kind = type(cast("object", given)).__name__
    raise GroundTruthError(f"ground truth is a path, bytes, a frame or rows, not a {kind}")


def _paths(given: str | Path) -> list[Path]:
    path = Path(given)
    if path.exists() or not re.search(r"[*?\[]", str(given)):
        return [path]
    root = Path(path.anchor) if path.is_absolute() else Path()
    pattern = str(path.relative_to(path.anchor)) if path.is_absolute() else str(path)
    found = sorted(p for p in root.glob(pattern) if not p.name.startswith("~$"))
    if not found:
        raise GroundTruthError("no file matches", source=str(given))
    return found


def _grids_of_file(path: Path, sheet: str | None) -> list[Grid]:
    name = str(path)
    if path.name.startswith("~$"):
        raise GroundTruthError(
            "this is the lock file that Excel keeps while the workbook is open; give the workbook",
            source=name,
        )
    try:
        if path.is_dir():
            raise GroundTruthError("this is a folder; give a file or a glob", source=name)
        content = path.read_bytes()
    except OSError as error:
        raise GroundTruthError(f"it cannot be opened: {error.strerror}", source=name) from error
    return _grids_of_bytes(name, content, sheet)


def _grids_of_bytes(name: str, content: bytes, sheet: str | None) -> list[Grid]:
    ending = Path(name).suffix.lower()
    if not content.strip():
        raise GroundTruthError("the file is empty", source=name)
    if content.startswith(_OLE):
        raise GroundTruthError(
            "it has a password or is an old .xls workbook; save it as .xlsx without one",
            source=name,
        )
    if content.startswith(b"PK\x03\x04"):
        if ending in (*TEXT_ENDINGS, *ROW_ENDINGS):
            raise GroundTruthError(
                f"it ends in {ending} and is a zip archive or workbook; give it its true ending",
                source=name,
            )
        return workbook_grids(name, content, sheet)
    if ending in WORKBOOK_ENDINGS:
        raise GroundTruthError(
            f"it ends in {ending} and is no workbook (text, perhaps csv?); give it its true ending",
            source=name,
        )
    if content.startswith(b"PAR1"):
        frame = _safely(name, lambda: pl.read_parquet(content))
        return [grid_of_rows(name, frame.columns, frame.iter_rows())]
    if ending == ".parquet":
        raise GroundTruthError("it ends in .parquet and is no Parquet file", source=name)
    if ending in (".json", ".jsonl", ".ndjson"):
        return [json_grid(name, content)]
    return [text_grid(name, content)]


def _safely(name: str, read: Callable[[], pl.DataFrame]) -> pl.DataFrame:
    try:
        return read()
    except Exception as error:  # whatever a reader makes of a broken file
        words = f"{type(error).__name__}: {error}".partition("\n")[0][:300]
        raise GroundTruthError(f"it cannot be read: {words}", source=name) from error
