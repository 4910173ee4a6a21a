"""Reading sheets: headers to meanings, rows to turns, turns to conversations.

Everything a row can get wrong becomes a `Problem` with its cell; the other rows are read.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import polars as pl

from uaef_frames.canonical import canonical_json, loads
from uaef_frames.errors import ConfigError, GroundTruthError
from uaef_frames.expectations import Expectations
from uaef_frames.sheets.headers import MEANINGS, Header, looks_like_ground_truth
from uaef_frames.sheets.opening import open_grids
from uaef_frames.sheets.report import Problem, ValidationReport
from uaef_frames.sheets.rows import Row, understood
from uaef_frames.sheets.sessions import by_session, session_truth

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from uaef_frames.sheets.grids import Grid

_PREVIEW = 5


def read_ground_truth(
    given: Any, sheet: str | None = None, *, columns: Mapping[str, str] | None = None
) -> Expectations:
    """Ground truth from a sheet.

    Args:
        given: A path or glob (xlsx, csv, tsv, jsonl, json, parquet), bytes of such a file, several
            paths, rows as dicts, or a polars, pandas or pyarrow frame.
        sheet: The sheet of a workbook; None: the first visible one that looks like ground truth;
            "*": all of them.
        columns: Headers by meaning, where they are called otherwise:
            `{"question": "Prompt (EN)"}`. Meanings: question, expected_output, context,
            expected_tool_calls, session_id, turn_id, chatbot_role, system_instructions.

    Raises:
        GroundTruthError: Anything is wrong; the message names the first cells.
        ConfigError: `columns` names a meaning or header that there is not.
    """
    return validate_ground_truth(given, sheet, columns=columns).raise_for_errors().expectations


def validate_ground_truth(
    given: Any, sheet: str | None = None, *, columns: Mapping[str, str] | None = None
) -> ValidationReport:
    """What a sheet holds and everything that is wrong with it; arguments as `read_ground_truth`.

    A file that cannot be read at all is one error in the report.

    Raises:
        ConfigError: `columns` names a meaning or header that there is not.
    """
    name = str(given) if isinstance(given, str) or hasattr(given, "__fspath__") else "<memory>"
    try:
        return read_sheets(given, sheet, columns=columns)
    except GroundTruthError as error:
        problem = Problem("error", error.reason, error.source or name, None, error.line)
        return ValidationReport(name, 0, 0, {}, [problem], pl.DataFrame(), Expectations.empty())


def read_sheets(
    given: Any, sheet: str | None = None, *, columns: Mapping[str, str] | None = None
) -> ValidationReport:
    """As `validate_ground_truth`.

    Raises:
        GroundTruthError: A file cannot be read at all.
        ConfigError: `columns` names a meaning or header that there is not.
    """
    for meaning in columns or {}:
        if meaning not in MEANINGS:
            near = get_close_matches(meaning, MEANINGS, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise ConfigError(
                f"columns: no meaning {meaning!r}.{hint} There is {', '.join(MEANINGS)}"
            )
    opened = open_grids(given, sheet)
    grids = [g for source in _by_source(opened) for g in _chosen(source, sheet, columns or {})]
    read = [_Read.of(grid, columns or {}) for grid in grids]
    return _report(opened[0].source if len(opened) == 1 else f"{len(opened)} sheets", read)


def _by_source(grids: Sequence[Grid]) -> Iterable[list[Grid]]:
    return ([g for g in grids if g.source == s] for s in dict.fromkeys(g.source for g in grids))


def _chosen(grids: list[Grid], sheet: str | None, columns: Mapping[str, str]) -> list[Grid]:
    """The sheets of one file to read: those asked for, else the first that fits."""
    if sheet is not None or grids[0].sheet is None:
        return grids
    visible = [g for g in grids if not g.hidden] or grids
    fitting = [g for g in visible if looks_like_ground_truth(g, columns)]
    chosen = fitting[0] if fitting else visible[0]
    for other in grids:
        if other is chosen:
            continue
        if other.hidden:
            chosen.note("note", f"the hidden sheet {other.sheet!r} is not read")
        elif other in fitting:
            chosen.note(
                "warning",
                f"sheet {other.sheet!r} looks like ground truth too and is not read; "
                f"sheet={other.sheet!r}, or sheet='*' for all",
            )
    return [chosen]


@dataclass(slots=True)
class _Read:
    """A grid that was read."""

    grid: Grid
    header: Header | None
    count: int = 0
    rows: list[Row] = field(default_factory=list[Row])

    @classmethod
    def of(cls, grid: Grid, columns: Mapping[str, str]) -> _Read:
        header = Header.find(grid, columns)
        read = cls(grid, header)
        if header is None:
            accepted = ", ".join(h for hs in list(MEANINGS.values())[:6] for h in hs)
            grid.note(
                "error",
                f"no header row was found among the first rows; accepted headers: {accepted}, …; "
                "columns={'question': 'Your header'} maps others",
            )
            return read
        if not header.fine:
            return read
        if header.row > 1 and grid.lettered:
            grid.note("note", f"the header is row {header.row}; what stands above is a title")
        if "turn_id" in header.meaning and "session_id" not in header.meaning:
            grid.note(
                "warning",
                "there is a turn_id and no session_id: each row is a conversation of its own",
            )
        for number, raw in header.rows:
            read.count += 1
            row = understood(grid, header, number, raw)
            if row is not None:
                read.rows.append(row)
        return read

    def lacks(self, meaning: str) -> bool:
        """Whether it has a header without such a column."""
        return self.header is not None and meaning not in self.header.meaning


def _report(source: str, read: Sequence[_Read]) -> ValidationReport:
    """What it all comes to."""
    rows = [row for r in read for row in r.rows]
    sessions = by_session(rows)
    truths = [session_truth(sid, of_it) for sid, of_it in sessions.items()]
    headers = [r.header for r in read if r.header is not None]
    grouping = [name for h in headers for name, m in h.columns.items() if m == "session_id"]
    count = sum(r.count for r in read)
    problems = [p for r in read for p in r.grid.problems]
    unordered = any(r.lacks("turn_id") and not r.lacks("session_id") for r in read)
    if unordered and any(len(of_it) > 1 for of_it in sessions.values()):
        words = "there is no turn_id: turns are counted in the order of the file"
        problems.append(Problem("warning", words))
    if not count and not problems:
        problems.append(Problem("warning", "there is no row below the header"))
    return ValidationReport(
        source=source,
        rows=count,
        conversations=len(truths),
        columns={name: meaning for h in headers for name, meaning in h.columns.items()},
        problems=problems,
        preview=_preview(rows),
        expectations=Expectations.from_truths(truths),
        multi_turn=bool(grouping),
        grouped_by=grouping[-1] if grouping else None,
    )


def _preview(rows: Sequence[Row]) -> pl.DataFrame:
    shown = [
        {
            "row": r.number,
            "session_id": r.session,
            "turn_id": None if r.turn is None else str(r.turn),
            "question": r.question,
            "expected_output": r.output,
            "expected_tool_calls": None
            if r.tools is None
            else canonical_json([{"name": n, "arguments": loads(a)} for n, a in r.tools]),
        }
        for r in rows[:_PREVIEW]
    ]
    schema = {
        "row": pl.Int64,
        **dict.fromkeys(
            ("session_id", "turn_id", "question", "expected_output", "expected_tool_calls"),
            pl.String,
        ),
    }
    return pl.DataFrame(shown, schema=schema)
