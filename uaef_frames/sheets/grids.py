"""Grids: rows of cells, numbered as Excel numbers them, whatever file they come from. Says nothing
of how files are read, nor of what cells mean.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from uaef_frames.sheets.report import Problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from uaef_frames.sheets.report import Severity

_MOST_PROBLEMS = 10_000
"""Beyond these, only errors are kept."""


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
        hidden: Whether the sheet is.
        problems: What is to be known of it, in the order in which it was found.
        errors: How many of them are errors.
    """

    source: str
    rows: Iterator[tuple[int, list[Any]]]
    sheet: str | None = None
    merged: list[tuple[int, int, int, int]] = field(default_factory=list[tuple[int, int, int, int]])
    unsaved: set[tuple[int, int]] = field(default_factory=set[tuple[int, int]])
    lettered: bool = True
    hidden: bool = False
    problems: list[Problem] = field(default_factory=list[Problem])
    errors: int = 0

    def note(
        self,
        severity: Severity,
        message: str,
        row: int | None = None,
        column: int | None = None,
        header: str | None = None,
    ) -> None:
        """Say something of the grid, a row or a cell; columns count from 1."""
        if severity == "error":
            self.errors += 1
        elif len(self.problems) >= _MOST_PROBLEMS:
            return
        letter = letters(column) if column is not None and self.lettered else None
        self.problems.append(
            Problem(severity, message, self.source, self.sheet, row, letter, header)
        )


@dataclass(frozen=True, slots=True)
class Shown:
    """A number with the text that Excel shows for it."""

    value: float
    text: str


@dataclass(frozen=True, slots=True)
class ErrorCell:
    """A cell that shows an error such as #REF!."""

    text: str


@dataclass(frozen=True, slots=True)
class Merged:
    """A cell that a merged range covers: its top-left value."""

    value: Any


def grid_of_rows(name: str, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> Grid:
    """A grid of rows below a header."""

    def numbered() -> Iterator[tuple[int, list[Any]]]:
        yield 1, list(header)
        for number, row in enumerate(rows, 2):
            yield number, list(row)

    return Grid(name, numbered(), lettered=False)


def grid_of_mappings(name: str, rows: Sequence[Mapping[str, Any]]) -> Grid:
    """A grid of objects; their keys are its header."""
    header = list(dict.fromkeys(str(key) for row in rows for key in row))
    return grid_of_rows(name, header, ([row.get(h) for h in header] for row in rows))


def numbered(rows: Iterable[list[Any]]) -> Iterator[tuple[int, list[Any]]]:
    """Rows with their numbers, those without anything left out."""
    for number, row in enumerate(rows, 1):
        if any(is_filled(c) for c in row):
            yield number, row


def is_filled(cell: Any) -> bool:
    """Whether a cell holds more than blanks."""
    return cell is not None and not (isinstance(cell, str) and not cell.strip())


def column_number(letters: str) -> int:
    """The number of a column, counted from 1."""
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
