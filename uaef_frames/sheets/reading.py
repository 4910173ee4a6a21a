"""Reading sheets: headers to meanings, rows to turns, turns to conversations.

Everything a row can get wrong becomes a `Problem` with its cell; the other rows are read.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, TypeVar, cast

import polars as pl

from uaef_frames.canonical import canonical_json, loads, scrub
from uaef_frames.errors import ConfigError, GroundTruthError
from uaef_frames.expectations import Calls, Expectations, SessionTruth, TurnTruth, per_turn
from uaef_frames.sheets import cells
from uaef_frames.sheets.cells import SESSION_ROW
from uaef_frames.sheets.grids import Grid, Merged, letters, open_grids
from uaef_frames.sheets.report import Problem, Severity, ValidationReport

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

MEANINGS: Mapping[str, tuple[str, ...]] = {
    "question": ("question", "query", "input"),
    "expected_output": ("answer", "expected_answer", "expected_output", "expected"),
    "context": ("context", "context_documents"),
    "expected_tool_calls": ("expected_tool_calls", "tools"),
    "session_id": ("session_id",),
    "turn_id": ("turn_id",),
    "chatbot_role": ("chatbot_role",),
    "system_instructions": ("system_instructions",),
    "labels": ("labels",),
    "per_turn_expected": ("per_turn_expected",),
    "per_turn_tools": ("per_turn_expected_tool_calls", "per_turn_tools"),
}
"""What a column can mean, and the headers that say so; case, blanks and underscores aside."""

_LABEL = "label"
_LABEL_PREFIX = "label:"
_HEADER_ROWS = 15
_PREVIEW = 5
_MOST_PROBLEMS = 10_000
_T = TypeVar("_T")


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
    grids = open_grids(given, sheet)
    reader = _Reader(columns or {})
    for grid in _chosen(grids, sheet, reader):
        reader.read(grid)
    return reader.report(grids[0].source if len(grids) == 1 else f"{len(grids)} sheets")


def _chosen(grids: Sequence[Grid], sheet: str | None, reader: _Reader) -> Iterator[Grid]:
    """The sheets to read: those asked for, else of each workbook the first that fits."""
    for source in dict.fromkeys(g.source for g in grids):
        mine = [g for g in grids if g.source == source]
        if sheet is not None or mine[0].sheet is None:
            yield from mine
            continue
        visible = [g for g in mine if not g.hidden] or mine
        peeked = [(g, _Header.find(g, reader.columns, quiet=True)) for g in visible]
        fitting = [g for g, header in peeked if header is not None]
        chosen = fitting[0] if fitting else visible[0]
        for other in mine:
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
        yield chosen


@dataclass(slots=True)
class _Header:
    """The header row of a grid: which column means what."""

    row: int
    names: list[str]
    meaning: dict[str, int]
    labels: dict[str, int]
    rows: Iterator[tuple[int, list[Any]]]

    @classmethod
    def find(cls, grid: Grid, columns: Mapping[str, str], *, quiet: bool = False) -> _Header | None:
        """The first row that reads like a header; what was looked at stays to be read."""
        ahead: list[tuple[int, list[Any]]] = []
        found: tuple[int, list[Any]] | None = None
        for row in grid.rows:
            ahead.append(row)
            known = _known(row[1], columns)
            first = len(ahead) == 1
            if (
                len(known) >= 2
                or (known and first and _filled(row[1]) == len(known))
                or (known and first and not grid.lettered)
            ):
                found = row
                break
            if len(ahead) >= _HEADER_ROWS:
                break
        if found is None and not quiet:
            # A lone recognised header is one too, where nothing fits better.
            found = next((r for r in ahead if _known(r[1], columns)), None)
        rest = grid.rows
        if quiet:
            grid.rows = _again(ahead, rest)
        if found is None:
            return None
        number, raw = found
        names = ["" if c is None else str(_unwrapped(c)) for c in raw]
        body = _again([r for r in ahead if r[0] > number], rest)
        return cls(number, names, {}, {}, body)


def _again(
    ahead: list[tuple[int, list[Any]]], rest: Iterator[tuple[int, list[Any]]]
) -> Iterator[Any]:
    yield from ahead
    yield from rest


def _unwrapped(cell: Any) -> Any:
    return cell.value if isinstance(cell, Merged) else cell


def _filled(row: Sequence[Any]) -> int:
    return sum(1 for c in row if c is not None and str(_unwrapped(c)).strip())


def _known(row: Sequence[Any], columns: Mapping[str, str]) -> set[str]:
    mapped = {_squash(h) for h in columns.values()}
    found = {_squash(str(_unwrapped(c))) for c in row if isinstance(_unwrapped(c), str)}
    return {m for s in found if (m := _MEANING.get(s) or (s if s in mapped else None))}


def _squash(header: str) -> str:
    """A header without case, blanks, underscores and what cannot be seen."""
    text = unicodedata.normalize("NFKC", header)
    kept = (c for c in text if unicodedata.category(c) not in ("Cf", "Cc", "Zs", "Zl", "Zp"))
    return "".join(kept).replace("_", "").casefold()


_MEANING = {_squash(h): meaning for meaning, headers in MEANINGS.items() for h in headers}


def meaning_of(header: str) -> str | None:
    """What a header means; None: it is a label."""
    return _MEANING.get(_squash(header))


def is_plain_label(key: str) -> bool:
    """Whether a label's name reads back as it is when it heads a column."""
    return key == key.strip() and bool(_squash(key)) and key.isprintable()


@dataclass(slots=True)
class _Row:
    """One row, understood. `session` None: a conversation of its own."""

    source: str
    number: int
    session: str | None
    turn: int | str | None
    question: str | None
    output: str | None
    context: list[str]
    tools: Calls | None
    role: str | None
    instructions: str | None
    labels: dict[str, Any]
    turns: list[TurnTruth] = field(default_factory=list[TurnTruth])


class _Reader:
    """Reads grids into sessions, and collects what is to be said."""

    def __init__(self, columns: Mapping[str, str]) -> None:
        self.columns = dict(columns)
        self._problems: list[Problem] = []
        self._rows: list[_Row] = []
        self._mapping: dict[str, str] = {}
        self._count = 0
        self._grid: Grid | None = None
        self._multi = False
        self._grouped_by: str | None = None
        self._without_turns = False

    def read(self, grid: Grid) -> None:
        """Take in one grid."""
        self._grid = grid
        header = _Header.find(grid, self.columns)
        self._problems += grid.problems
        grid.problems = []
        if header is None:
            if any(True for _ in grid.rows):
                pass
            accepted = ", ".join(h for hs in list(MEANINGS.values())[:6] for h in hs)
            self._say(
                "error",
                f"no header row was found among the first rows; accepted headers: {accepted}, …; "
                "columns={'question': 'Your header'} maps others",
            )
            return
        if not self._map(header):
            return
        if header.row > 1 and grid.lettered:
            self._say("note", f"the header is row {header.row}; what stands above is a title")
        for number, raw in header.rows:
            self._count += 1
            row = self._understood(header, number, raw)
            if row is not None:
                self._rows.append(row)

    def _map(self, header: _Header) -> bool:
        """Give every column its meaning; whether that could be done."""
        by_hand = {_squash(h): m for m, h in self.columns.items()}
        taken: dict[str, str] = {}
        fine = True
        for at, name in enumerate(header.names):
            squashed = _squash(name)
            if not squashed:
                continue
            meaning = by_hand.get(squashed) or _MEANING.get(squashed)
            if meaning is not None and meaning in self.columns and squashed not in by_hand:
                meaning = None  # mapped by hand to another column
            shown = name.strip()
            if meaning is None:
                label = shown.removeprefix(_LABEL_PREFIX)
                if label in header.labels:
                    fine = self._doubled(label, shown, "the same label")
                header.labels[label] = at
                self._mapping[shown] = _LABEL
                continue
            if meaning in taken:
                fine = self._doubled(taken[meaning], shown, meaning)
                continue
            taken[meaning] = shown
            header.meaning[meaning] = at
            self._mapping[shown] = meaning
            if meaning in ("session_id", "turn_id") and shown != meaning:
                self._say("note", f"the column {shown!r} is read as {meaning}")
        missing = [h for h in self.columns.values() if _squash(h) not in map(_squash, header.names)]
        if missing:
            there = ", ".join(repr(n) for n in header.names if n)
            raise ConfigError(f"columns: there is no header {missing[0]!r}; there is {there}")
        if "session_id" in header.meaning:
            self._multi = True
            self._grouped_by = taken["session_id"]
            self._without_turns |= "turn_id" not in header.meaning
        elif "turn_id" in header.meaning:
            self._say(
                "warning",
                "there is a turn_id and no session_id: each row is a conversation of its own",
            )
        return fine

    def _doubled(self, one: str, two: str, meaning: str) -> bool:
        words = (
            f"the header {one!r} is there twice"
            if one == two
            else f"the headers {one!r} and {two!r} both mean {meaning}"
        )
        self._say("error", f"{words}; keep one")
        return False

    def _understood(self, header: _Header, number: int, raw: list[Any]) -> _Row | None:
        """The row's cells by meaning; None if one of them cannot be used."""
        before = len(self._problems)
        grid = cast("Grid", self._grid)

        def cell(meaning: str) -> Any:
            at = header.meaning.get(meaning)
            return None if at is None or at >= len(raw) else raw[at]

        def read(meaning: str, reader: Any, empty: _T) -> _T:
            at = header.meaning.get(meaning)
            if at is None or at >= len(raw) or raw[at] is None:
                return empty

            def say(severity: str, message: str) -> None:
                self._say(cast("Severity", severity), message, number, at, header.names[at])

            try:
                return cast("_T", reader(raw[at], say))
            except GroundTruthError as error:
                say("error", error.reason)
                return empty

        beyond = [c for c in raw[len(header.names) :] if _filled([c])]
        if beyond:
            self._say(
                "error",
                f"the row has more cells than the header; the first is {str(beyond[0])[:40]!r}",
                number,
            )
        row = _Row(
            source=grid.source,
            number=number,
            session=read("session_id", cells.identifier, None),
            turn=read("turn_id", cells.turn_number, None),
            question=read("question", cells.text, None),
            output=read("expected_output", cells.text, None),
            context=read("context", cells.documents, cast("list[str]", [])),
            tools=read("expected_tool_calls", cells.tool_calls, None),
            role=read("chatbot_role", cells.text, None),
            instructions=read("system_instructions", cells.text, None),
            labels=self._labels(header, number, raw),
        )
        if cell("labels") is not None:
            row.labels |= read("labels", _label_object, cast("dict[str, Any]", {}))
        outputs = read("per_turn_expected", _listed, None)
        tools = read("per_turn_tools", _listed, None)
        if outputs is not None or tools is not None:
            try:
                row.turns = per_turn(outputs, tools, row.session)
            except GroundTruthError as error:
                self._say("error", error.reason, number)
        failed = any(p.severity == "error" for p in self._problems[before:])
        return None if failed else row

    def _labels(self, header: _Header, number: int, raw: list[Any]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, at in header.labels.items():
            value = _unwrapped(raw[at]) if at < len(raw) else None
            if value is None:
                continue
            if isinstance(value, dict | list | bool | int):
                found[name] = value
                continue

            def say(severity: str, message: str, at: int = at, name: str = name) -> None:
                self._say(cast("Severity", severity), message, number, at, name)

            try:
                text = cells.text(value, say)
            except GroundTruthError as error:
                say("warning", f"{error.reason}; the label is left out")
                continue
            if text is not None:
                found[scrub(name)] = value if isinstance(value, float) else text
        return found

    def _say(
        self,
        severity: Severity,
        message: str,
        row: int | None = None,
        at: int | None = None,
        header: str | None = None,
    ) -> None:
        grid = self._grid
        if len(self._problems) >= _MOST_PROBLEMS and severity != "error":
            return
        column = letters(at + 1) if at is not None and (grid is None or grid.lettered) else None
        source = None if grid is None else grid.source
        sheet = None if grid is None else grid.sheet
        self._problems.append(Problem(severity, message, source, sheet, row, column, header))

    def report(self, source: str) -> ValidationReport:
        """What it all comes to."""
        sessions: dict[str, list[_Row]] = {}
        single = 0
        taken = {r.session for r in self._rows if r.session is not None}
        for row in self._rows:
            name = row.session
            if name is None:
                single += 1
                name = f"row-{row.number}"
                while name in taken:
                    name += "_"
                taken.add(name)
            sessions.setdefault(name, []).append(row)
        if self._without_turns and any(len(rows) > 1 for rows in sessions.values()):
            self._grid = None
            self._say("warning", "there is no turn_id: turns are counted in the order of the file")
        truths = [t for sid, rows in sessions.items() if (t := self._session(sid, rows))]
        if not self._count and not self._problems:
            self._say("warning", "there is no row below the header")
        return ValidationReport(
            source=source,
            rows=self._count,
            conversations=len(truths),
            columns=self._mapping,
            problems=self._problems,
            preview=_preview(self._rows),
            expectations=Expectations.from_truths(truths),
            multi_turn=self._multi,
            grouped_by=self._grouped_by,
        )

    def _session(self, sid: str, rows: list[_Row]) -> SessionTruth | None:
        truth = SessionTruth(sid)
        turns = [r for r in rows if r.turn != SESSION_ROW and not r.turns]
        whole = [r for r in rows if r.turn == SESSION_ROW or r.turns]
        if len(whole) > 1:
            self._say(
                "error", f"session {sid!r} has two rows for the session as a whole", whole[1].number
            )
        for row in whole[:1]:
            truth.expected_output, truth.tools, truth.context = row.output, row.tools, row.context
            truth.turns = row.turns
        for row in rows:
            self._of_session(truth, row)
        numbered = [r for r in turns if r.turn is not None]
        if numbered and len(numbered) < len(turns):
            blank = next(r for r in turns if r.turn is None)
            self._say(
                "warning",
                f"some turns of session {sid!r} have no turn_id; its turns are counted in the "
                "order of the file",
                blank.number,
            )
            numbered = []
        truth.positional = not numbered
        seen: dict[int, int] = {}
        for position, row in enumerate(turns, 1):
            turn = cast("int", row.turn) if numbered else position
            if turn in seen:
                self._say(
                    "error",
                    f"turn {turn} of session {sid!r} stands in row {seen[turn]} already",
                    row.number,
                )
                continue
            seen[turn] = row.number
            truth.turns.append(TurnTruth(turn, row.output, row.tools, row.context, row.question))
        truth.turns.sort(key=lambda t: t.turn_id)
        return truth

    def _of_session(self, truth: SessionTruth, row: _Row) -> None:
        """What counts for the whole session: the first that is not empty."""
        for name, value in (("chatbot_role", row.role), ("system_instructions", row.instructions)):
            held = getattr(truth, name)
            if held is None:
                setattr(truth, name, value)
            elif value is not None and value != held:
                self._say(
                    "warning",
                    f"{name} differs within session {truth.session_id!r}; the first counts",
                    row.number,
                )
        for key, value in row.labels.items():
            if key not in truth.labels:
                truth.labels[key] = value
            elif truth.labels[key] != value:
                self._say(
                    "warning",
                    f"label {key!r} differs within session {truth.session_id!r}; the first counts",
                    row.number,
                )


def _label_object(cell: Any, say: cells.Say) -> dict[str, Any]:
    value = cells.plain(cell, say)
    if isinstance(value, str):
        if not value.strip():
            return {}
        try:
            value = loads(value)
        except ValueError as error:
            raise GroundTruthError(f"labels are a JSON object: {error}") from error
    if not isinstance(value, dict):
        raise GroundTruthError("labels are a JSON object")
    return cast("dict[str, Any]", value)


def _listed(cell: Any, say: cells.Say) -> list[Any] | None:
    value = cells.plain(cell, say)
    if isinstance(value, str):
        if not value.strip():
            return None
        try:
            value = loads(value)
        except ValueError as error:
            raise GroundTruthError(f"it is a JSON list with one entry a turn: {error}") from error
    if not isinstance(value, list):
        raise GroundTruthError("it is a list with one entry a turn")
    return cast("list[Any]", value)


def _preview(rows: Sequence[_Row]) -> pl.DataFrame:
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
