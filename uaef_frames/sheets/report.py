"""Reports: what a sheet holds, how its columns were understood, and everything that is wrong."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Literal, TypeAlias

from uaef_frames.errors import GroundTruthError

if TYPE_CHECKING:
    import polars as pl

    from uaef_frames.expectations import Expectations

Severity: TypeAlias = Literal["error", "warning", "note"]


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing to know about a sheet.

    Attributes:
        severity: `error`: the row is not used; `warning`: it is, and may not mean what was meant;
            `note`: it was understood, and how.
        message: What it is, and what to do.
        source: The file.
        sheet: The sheet of a workbook.
        row: As Excel numbers it, from 1; None: the file as a whole.
        column: Its letter.
        header: Its header.
    """

    severity: Severity
    message: str
    source: str | None = None
    sheet: str | None = None
    row: int | None = None
    column: str | None = None
    header: str | None = None

    @property
    def cell(self) -> str | None:
        """As Excel names it: B7; `row 7` where no column is meant."""
        if self.row is None:
            return None if self.column is None else f"column {self.column}"
        return f"row {self.row}" if self.column is None else f"{self.column}{self.row}"

    def __str__(self) -> str:
        place = self.cell or ""
        if self.sheet is not None:
            place = f"{self.sheet}!{place}" if place else self.sheet
        if place and self.header is not None:
            place += f" ({self.header})"
        return (
            f"{self.severity} {place}: {self.message}"
            if place
            else f"{self.severity}: {self.message}"
        )


@dataclass(frozen=True)
class ValidationReport:
    """What was found in ground truth.

    Attributes:
        source: The file, or what it was.
        rows: Rows that hold something.
        conversations: Sessions that they make.
        columns: Header to what it means: question, expected_output, context, expected_tool_calls,
            session_id, turn_id, chatbot_role, system_instructions, or label.
        problems: Everything to know, in the order of the rows.
        preview: The first rows, as they were understood.
        expectations: What the rows without an error say.
    """

    source: str
    rows: int
    conversations: int
    columns: dict[str, str]
    problems: list[Problem]
    preview: pl.DataFrame
    expectations: Expectations
    multi_turn: bool = False
    grouped_by: str | None = field(default=None)

    @property
    def valid(self) -> bool:
        """Whether there is no error."""
        return not self.errors

    @property
    def errors(self) -> list[Problem]:
        """Rows that cannot be used, and why."""
        return [p for p in self.problems if p.severity == "error"]

    @property
    def warnings(self) -> list[Problem]:
        """What may not mean what was meant."""
        return [p for p in self.problems if p.severity == "warning"]

    @property
    def notes(self) -> list[Problem]:
        """How things were understood."""
        return [p for p in self.problems if p.severity == "note"]

    @property
    def headline(self) -> str:
        """What kind of sheet it is, and how large."""
        rows = f"{self.rows} row{'' if self.rows == 1 else 's'}"
        if not self.multi_turn:
            return f"SINGLE-TURN — {rows}"
        some = f"{self.conversations} conversation{'' if self.conversations == 1 else 's'}"
        return f"MULTI-TURN — {rows}, {some} (grouped by {self.grouped_by or 'session_id'})"

    def raise_for_errors(self) -> ValidationReport:
        """This report.

        Raises:
            GroundTruthError: It has errors; the message names the first of them.
        """
        errors = self.errors
        if not errors:
            return self
        first = "\n".join(f"  {p}" for p in errors[:5])
        more = f"\n  … and {len(errors) - 5} more" if len(errors) > 5 else ""
        raise GroundTruthError(
            f"{len(errors)} problem{'' if len(errors) == 1 else 's'}:\n{first}{more}",
            source=self.source,
            line=errors[0].row,
        )

    def __str__(self) -> str:
        lines = [self.headline, "", "columns:"]
        lines += [f"  {header} → {meaning}" for header, meaning in self.columns.items()] or [
            "  none"
        ]
        if self.problems:
            lines += ["", f"{len(self.errors)} errors, {len(self.warnings)} warnings:"]
            lines += [f"  {p}" for p in self.problems[:200]]
            if len(self.problems) > 200:
                lines.append(f"  … and {len(self.problems) - 200} more")
        else:
            lines += ["", "no problem found"]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return (
            f"ValidationReport({self.headline}; {len(self.errors)} errors, "
            f"{len(self.warnings)} warnings)"
        )

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>{self.preview._repr_html_()}"  # pyright: ignore[reportPrivateUsage]
