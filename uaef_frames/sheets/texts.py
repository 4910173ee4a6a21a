"""Texts: csv, tsv and JSON files as grids, whatever encoding, separator and quotes they use."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path
from typing import Any, cast

import orjson

from uaef_frames.errors import GroundTruthError
from uaef_frames.sheets.grids import Grid, grid_of_mappings, numbered

_FIELD_LIMIT = 1 << 27
_QUOTED_FORMULA = re.compile(r"^'(?=[=+\-@\t\r'])")


def json_grid(name: str, content: bytes) -> Grid:
    """A grid of JSON lines, a JSON list, or an object that holds one."""
    text = content.decode("utf-8-sig", "replace").strip()
    try:
        whole: Any = orjson.loads(text)
    except orjson.JSONDecodeError:
        whole = None
    rows: list[Any] = []
    if isinstance(whole, list):
        rows = cast("list[Any]", whole)
    elif isinstance(whole, dict):
        held = cast("dict[str, Any]", whole)
        only: Any = next(iter(held.values())) if len(held) == 1 else None
        rows = cast("list[Any]", only) if isinstance(only, list) else [held]
    else:
        for number, line in enumerate(text.split("\n"), 1):
            if line.strip():
                try:
                    rows.append(orjson.loads(line))
                except orjson.JSONDecodeError as error:
                    raise GroundTruthError(
                        f"not JSON: {error}", source=name, line=number
                    ) from error
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict):
            raise GroundTruthError(
                f"row {number} is a {type(row).__name__}, not an object", source=name, line=number
            )
    return grid_of_mappings(name, rows)


def text_grid(name: str, content: bytes) -> Grid:
    """A grid of separated values."""
    text, encoding = _decoded(name, content)
    separator = _separator(text, Path(name).suffix.lower())
    csv.field_size_limit(_FIELD_LIMIT)
    rows = _parsed(name, text, separator, escape=None)
    widths = {len(r) for r in rows if any(c.strip() for c in r)}
    notes: list[str] = []
    if len(widths) > 1 and '\\"' in text:
        other = _parsed(name, text, separator, escape="\\")
        if len({len(r) for r in other if any(c.strip() for c in r)}) == 1:
            rows = other
            notes.append('quotes within cells are written \\"; they were read as such')
    grid = Grid(name, numbered(rows))
    if encoding == "cp1252":
        grid.note("note", "it is not UTF-8; it was read as Windows-1252")
    for words in notes:
        grid.note("note", words)
    return grid


def _decoded(name: str, content: bytes) -> tuple[str, str]:
    for mark, encoding in (
        (b"\xef\xbb\xbf", "utf-8-sig"),
        (b"\xff\xfe\x00\x00", "utf-32"),
        (b"\xff\xfe", "utf-16"),
        (b"\xfe\xff", "utf-16"),
    ):
        if content.startswith(mark):
            try:
                return content.decode(encoding), encoding
            except UnicodeDecodeError as error:
                raise GroundTruthError(
                    f"it is broken {encoding} text: {error}", source=name
                ) from error
    if b"\x00" in content:
        raise GroundTruthError("it holds binary data, and is no text file", source=name)
    for encoding in ("utf-8", "cp1252"):
        try:
            return content.decode(encoding), encoding
        except UnicodeDecodeError:
            continue
    raise GroundTruthError("it is neither UTF-8 nor Windows-1252; save it as UTF-8", source=name)


def _separator(text: str, ending: str) -> str:
    if ending == ".tsv":
        return "\t"
    line = next((s for s in text.splitlines() if s.strip()), "")
    bare = re.sub(r'"[^"]*"', "", line)
    counts = {s: bare.count(s) for s in (",", ";", "\t")}
    best = max(counts, key=lambda s: counts[s])
    if counts[best]:
        return best
    # A title above the header has no separator; the line with the most tells.
    lines = [re.sub(r'"[^"]*"', "", s) for s in text.splitlines()[:20]]
    return max(counts, key=lambda s: max((s_.count(s) for s_ in lines), default=0))


def _parsed(name: str, text: str, separator: str, escape: str | None) -> list[list[str]]:
    reader = csv.reader(
        io.StringIO(text, newline=""),
        delimiter=separator,
        doublequote=escape is None,
        escapechar=escape,
    )
    try:
        return [[_QUOTED_FORMULA.sub("", cell) for cell in row] for row in reader]
    except csv.Error as error:
        raise GroundTruthError(
            f"it is no well-formed text table: {error}", source=name, line=reader.line_num
        ) from error
