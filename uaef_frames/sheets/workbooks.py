"""Workbooks: the sheets of an Excel file as grids, streamed.

Workbooks are hostile: bombs and entity tricks end in a clear error before anything is unpacked.
"""

from __future__ import annotations

import io
import re
import zipfile
from datetime import date, datetime, time, timedelta
from typing import TYPE_CHECKING, Any

from uaef_frames.errors import GroundTruthError
from uaef_frames.sheets.grids import ErrorCell, Grid, Merged, Shown, column_number, is_filled

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MAX_UNPACKED = 1 << 30
"""Bytes that a workbook may unpack to."""
_MAX_RATIO = 500
_SUSPECT = 64 << 20
_ESCAPED = re.compile(r"_x([0-9A-Fa-f]{4})_")
_CURRENCY = re.compile(r"[$€£¥₹]|\[\$")


def workbook_grids(name: str, content: bytes, sheet: str | None) -> list[Grid]:
    """The sheets that are asked for; None or "*": all, hidden ones too."""
    from defusedxml import DefusedXmlException  # pyright: ignore[reportMissingTypeStubs]
    from openpyxl import load_workbook

    try:
        archive = zipfile.ZipFile(io.BytesIO(content))
        _check_size(name, archive)
        if "xl/workbook.xml" not in archive.namelist():
            raise GroundTruthError("it is a zip archive and no workbook", source=name)
        for entry in archive.namelist():
            if entry.endswith((".xml", ".rels")) and b"<!ENTITY" in archive.open(entry).read(4096):
                raise GroundTruthError(
                    "it declares XML entities, which no workbook needs", source=name
                )
        book = load_workbook(io.BytesIO(content), read_only=True, data_only=True)
    except GroundTruthError:
        raise
    except DefusedXmlException as error:
        raise GroundTruthError(
            f"it plays tricks with XML ({type(error).__name__})", source=name
        ) from error
    except Exception as error:  # whatever a broken workbook does to its reader
        words = f"{type(error).__name__}: {error}".partition("\n")[0][:300]
        raise GroundTruthError(f"the workbook cannot be read: {words}", source=name) from error
    names = [ws.title for ws in book.worksheets]
    if sheet is not None and sheet != "*" and sheet not in names:
        raise GroundTruthError(
            f"there is no sheet {sheet!r}; there is {', '.join(map(repr, names))}", source=name
        )
    wanted = (ws for ws in book.worksheets if sheet in (None, "*", ws.title))
    return [_sheet(name, archive, worksheet) for worksheet in wanted]


def _check_size(name: str, archive: zipfile.ZipFile) -> None:
    entries = archive.infolist()
    unpacked = sum(e.file_size for e in entries)
    packed = max(sum(e.compress_size for e in entries), 1)
    if unpacked > MAX_UNPACKED or (unpacked > _SUSPECT and unpacked / packed > _MAX_RATIO):
        raise GroundTruthError(
            f"it would unpack to {unpacked / 2**20:,.0f} MB from {packed / 2**20:,.1f}, more than "
            "ground truth takes; split it, or save it as csv",
            source=name,
        )


def _sheet(name: str, archive: zipfile.ZipFile, worksheet: Any) -> Grid:
    grid = Grid(name, iter(()), sheet=str(worksheet.title))
    grid.hidden = worksheet.sheet_state != "visible"
    path = str(getattr(worksheet, "_worksheet_path", "")).lstrip("/")
    if path in archive.namelist():
        _scan(archive, path, grid)
    grid.rows = _safe_rows(grid, worksheet)
    return grid


_MERGE = re.compile(rb'<mergeCell[^>]*?ref="([A-Z]+)(\d+):([A-Z]+)(\d+)"')
_HIDDEN = re.compile(rb'<row [^>]*?r="(\d+)"[^>]*?hidden="(?:1|true)"')
_FORMULA = re.compile(
    rb'<c r="([A-Z]+)(\d+)"[^>]*>\s*<f(?:[^>]*/>|[^>]*>[^<]*</f>)\s*(?:<v\s*/>|<v></v>)?\s*</c>'
)


def _scan(archive: zipfile.ZipFile, path: str, grid: Grid) -> None:
    """Merged ranges, hidden rows and formulas without a value: a streaming reader tells of none."""
    hidden: list[int] = []
    tail = b""
    with archive.open(path) as opened:
        while chunk := opened.read(1 << 20):
            text = tail + chunk
            keep = text.rfind(b"<c ") if len(text) < (4 << 20) else -1
            tail = text[keep:] if keep > 0 else b""
            part = text[: len(text) - len(tail)]
            _scan_part(part, grid, hidden)
    _scan_part(tail, grid, hidden)
    if hidden:
        shown = ", ".join(map(str, hidden[:5])) + (", …" if len(hidden) > 5 else "")
        grid.note("note", f"{len(hidden)} hidden rows are read like the others: {shown}")


def _scan_part(part: bytes, grid: Grid, hidden: list[int]) -> None:
    for a, first, b, last in _MERGE.findall(part):
        grid.merged.append(
            (int(first), int(last), column_number(a.decode()), column_number(b.decode()))
        )
    hidden.extend(int(r) for r in _HIDDEN.findall(part))
    grid.unsaved.update((int(r), column_number(c.decode())) for c, r in _FORMULA.findall(part))


def _safe_rows(grid: Grid, worksheet: Any) -> Iterator[tuple[int, list[Any]]]:
    try:
        yield from _sheet_rows(grid, worksheet)
    except GroundTruthError:
        raise
    except Exception as error:  # whatever a broken sheet does to its reader
        words = f"{type(error).__name__}: {error}".partition("\n")[0][:300]
        raise GroundTruthError(
            f"sheet {grid.sheet!r} cannot be read: {words}", source=grid.source
        ) from error


def _sheet_rows(grid: Grid, worksheet: Any) -> Iterator[tuple[int, list[Any]]]:
    # What a sheet says of its own size may be wrong; it is counted instead.
    worksheet.reset_dimensions()
    spread = {
        (row, column): (first, left)
        for first, last, left, right in grid.merged
        if (last - first + 1) * (right - left + 1) <= 100_000
        for row in range(first, last + 1)
        for column in range(left, right + 1)
    }
    reach: dict[int, int] = {}
    for row_number, column in spread:
        reach[row_number] = max(reach.get(row_number, 0), column)
    origin: dict[tuple[int, int], Any] = {}
    for number, row in enumerate(worksheet.iter_rows(), 1):
        cells = [_cell(c) for c in row]
        if grid.unsaved:
            for column in range(1, len(cells) + 1):
                if (number, column) in grid.unsaved:
                    cells[column - 1] = ErrorCell("a formula without a saved value")
        if spread:
            _spread(number, cells, spread, reach, origin)
        if any(is_filled(c) for c in cells):
            yield number, cells


def _spread(
    number: int,
    cells: list[Any],
    spread: Mapping[tuple[int, int], tuple[int, int]],
    reach: Mapping[int, int],
    origin: dict[tuple[int, int], Any],
) -> None:
    """Cells of a merged range hold `Merged` values of its top-left one."""
    # A row ends with its last filled cell; a merged one may lie beyond.
    cells += [None] * (reach.get(number, 0) - len(cells))
    for column in range(1, len(cells) + 1):
        at = spread.get((number, column))
        if at is None:
            continue
        if at == (number, column):
            origin[at] = cells[column - 1]
        elif cells[column - 1] is None and at in origin:
            cells[column - 1] = Merged(origin[at])


def _cell(cell: Any) -> Any:
    value = cell.value
    if value is None:
        return None
    if isinstance(value, str):
        if getattr(cell, "data_type", "s") == "e":
            return ErrorCell(value)
        return unescaped(value)
    if isinstance(value, bool | datetime | date | time | timedelta):
        return value
    if isinstance(value, int | float):
        shape = str(getattr(cell, "number_format", "") or "")
        if "%" in shape:
            return Shown(value, f"{value * 100:.12g}%")
        if _CURRENCY.search(shape):
            return Shown(value, f"{value:.15g}")
        return value
    return str(value)


def escaped(text: str) -> str:
    """Text as a workbook can hold it: what XML has no room for is written _xHHHH_."""
    text = _ESCAPED.sub(lambda m: f"_x005F_{m[0][1:]}", text)
    return re.sub(
        r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ufffe\uffff]", lambda m: f"_x{ord(m[0]):04X}_", text
    )


def unescaped(text: str) -> str:
    """The text that `escaped` was given."""
    return _ESCAPED.sub(lambda m: chr(int(m[1], 16)), text) if "_x" in text else text
