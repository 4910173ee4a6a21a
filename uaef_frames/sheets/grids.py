"""Grids: files as numbered rows of cells, whatever format they have. Says nothing of what cells
mean.

Files are hostile: bombs, entity tricks and files that are not what they say end in a clear error.
"""

from __future__ import annotations

import csv
import io
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import orjson
import polars as pl

from uaef_frames.arrow import as_frame
from uaef_frames.errors import GroundTruthError
from uaef_frames.sheets.report import Problem

if TYPE_CHECKING:
    from uaef_frames.sheets.report import Severity

MAX_UNPACKED = 1 << 30
"""Bytes that a workbook may unpack to."""
_MAX_RATIO = 500
_SUSPECT = 64 << 20
_FIELD_LIMIT = 1 << 27
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_ESCAPED = re.compile(r"_x([0-9A-Fa-f]{4})_")
_QUOTED_FORMULA = re.compile(r"^'(?=[=+\-@\t\r'])")
_CURRENCY = re.compile(r"[$€£¥₹]|\[\$")
TEXT_ENDINGS = (".csv", ".tsv", ".txt")
WORKBOOK_ENDINGS = (".xlsx", ".xlsm")
ROW_ENDINGS = (".json", ".jsonl", ".ndjson", ".parquet")


@dataclass(slots=True)
class Grid:
    """Rows of one sheet or file.

    Attributes:
        source: The file's name.
        sheet: The sheet's, in a workbook.
        rows: (number, cells), the number as Excel counts; rows without anything are left out.
        merged: Ranges of merged cells: (first row, last row, first column, last column), from 1.
        unsaved: Cells whose formula has no saved value, as (row, column), from 1.
        lettered: Whether columns have letters; else a header names them.
        problems: What is to be known of the file as a whole.
        exists: Whether nothing is hidden about it.
    """

    source: str
    rows: Iterator[tuple[int, list[Any]]]
    sheet: str | None = None
    merged: list[tuple[int, int, int, int]] = field(default_factory=list[tuple[int, int, int, int]])
    unsaved: set[tuple[int, int]] = field(default_factory=set[tuple[int, int]])
    lettered: bool = True
    hidden: bool = False
    problems: list[Problem] = field(default_factory=list[Problem])

    def note(self, severity: Severity, message: str, row: int | None = None) -> None:
        """Say something of the grid."""
        self.problems.append(Problem(severity, message, self.source, self.sheet, row))


@dataclass(frozen=True, slots=True)
class Shown:
    """A number with the text that Excel shows for it."""

    value: float
    text: str


@dataclass(frozen=True, slots=True)
class ErrorCell:
    """A cell that shows an error such as #REF!."""

    text: str


def open_grids(given: Any, sheet: str | None = None) -> list[Grid]:
    """The grids of a path, a glob, bytes, a frame, or several paths.

    Raises:
        GroundTruthError: It cannot be read as what it is; the message names the file.
    """
    if isinstance(given, bytes | bytearray):
        return _grids_of_bytes("<bytes>", bytes(given), sheet)
    frame = as_frame(given)
    if frame is not None:
        return [_of_rows("<frame>", frame.columns, frame.iter_rows())]
    if isinstance(given, str | Path):
        return [g for path in _paths(given) for g in _grids_of_file(path, sheet)]
    if isinstance(given, list | tuple):
        items = cast("Sequence[Any]", given)
        if all(isinstance(i, str | Path) for i in items):
            return [g for i in items for g in open_grids(i, sheet)]
        if all(isinstance(i, Mapping) for i in items):
            return [_of_mappings("<rows>", cast("Sequence[Mapping[str, Any]]", items))]
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
        return _workbook(name, content, sheet)
    if ending in WORKBOOK_ENDINGS:
        raise GroundTruthError(
            f"it ends in {ending} and is no workbook (text, perhaps csv?); give it its true ending",
            source=name,
        )
    if content.startswith(b"PAR1"):
        frame = _safely(name, lambda: pl.read_parquet(content))
        return [_of_rows(name, frame.columns, frame.iter_rows())]
    if ending == ".parquet":
        raise GroundTruthError("it ends in .parquet and is no Parquet file", source=name)
    if ending in (".json", ".jsonl", ".ndjson"):
        return [_json(name, content)]
    return [_text(name, content)]


def _safely(name: str, read: Callable[[], pl.DataFrame]) -> pl.DataFrame:
    try:
        return read()
    except Exception as error:  # whatever a reader makes of a broken file
        words = f"{type(error).__name__}: {error}".partition("\n")[0][:300]
        raise GroundTruthError(f"it cannot be read: {words}", source=name) from error


def _of_rows(name: str, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> Grid:
    def numbered() -> Iterator[tuple[int, list[Any]]]:
        yield 1, list(header)
        for number, row in enumerate(rows, 2):
            yield number, list(row)

    return Grid(name, numbered(), lettered=False)


def _of_mappings(name: str, rows: Sequence[Mapping[str, Any]]) -> Grid:
    header = list(dict.fromkeys(str(key) for row in rows for key in row))
    return _of_rows(name, header, ([row.get(h) for h in header] for row in rows))


def _json(name: str, content: bytes) -> Grid:
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
    return _of_mappings(name, rows)


def _text(name: str, content: bytes) -> Grid:
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
    grid = Grid(name, _numbered(rows))
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


def _numbered(rows: Iterable[list[Any]]) -> Iterator[tuple[int, list[Any]]]:
    for number, row in enumerate(rows, 1):
        if any(_is_filled(c) for c in row):
            yield number, row


def _is_filled(cell: Any) -> bool:
    return cell is not None and not (isinstance(cell, str) and not cell.strip())


def _workbook(name: str, content: bytes, sheet: str | None) -> list[Grid]:
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
        grid.merged.append((int(first), int(last), _number(a.decode()), _number(b.decode())))
    hidden.extend(int(r) for r in _HIDDEN.findall(part))
    grid.unsaved.update((int(r), _number(c.decode())) for c, r in _FORMULA.findall(part))


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
        if any(_is_filled(c) for c in cells):
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


@dataclass(frozen=True, slots=True)
class Merged:
    """A cell that a merged range covers: its top-left value."""

    value: Any


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


def _number(letters: str) -> int:
    found = 0
    for letter in letters:
        found = found * 26 + ord(letter) - 64
    return found


def letters(column: int) -> str:
    """The letters of a column, counted from 1."""
    found = ""
    while column:
        column, rest = divmod(column - 1, 26)
        found = chr(65 + rest) + found
    return found
