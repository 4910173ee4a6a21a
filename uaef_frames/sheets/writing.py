"""Writing sheets: ground truth for people to fill in or correct, in a form that reads back the
same.

No cell that is written can run when the file is opened.
"""

from __future__ import annotations

import csv
import io
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import orjson
import polars as pl

from uaef_frames.canonical import canonical_json, loads
from uaef_frames.errors import ConfigError, GroundTruthError
from uaef_frames.expectations import Expectations
from uaef_frames.files import replacing, write_whole
from uaef_frames.sheets.cells import CELL_LIMIT, SESSION_ROW
from uaef_frames.sheets.grids import letters
from uaef_frames.sheets.workbooks import escaped

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

HEADER = (
    "session_id",
    "turn_id",
    "Question",
    "Expected_Output",
    "expected_tool_calls",
    "context",
    "chatbot_role",
    "system_instructions",
)
_FORMULA = re.compile(r"^[=+\-@\t\r]")
_SHIELDED = re.compile(r"^'[=+\-@\t\r']")
_ONLY_QUOTES = re.compile(r'"{2,}')
_WIDE = ("Question", "Expected_Output", "expected_tool_calls", "what to write")
_HELP = (
    ("session_id", "The conversation. Leave it empty for questions that stand alone."),
    ("turn_id", "1, 2, 3 … within the conversation; `session`: the row speaks of all of it."),
    ("Question", "What the user says."),
    ("Expected_Output", "The answer that is wanted. Empty: nothing is said about it."),
    (
        "expected_tool_calls",
        (
            'A JSON list: [{"name": "search", "arguments": {"city": "Lisbon"}}]. Empty: nothing is '
            "said. []: no tool should be called."
        ),
    ),
    ("context", "What the answer may rest on: a text, or a JSON list of texts."),
    ("chatbot_role", "The role the assistant should keep; once a conversation."),
    ("system_instructions", "What the assistant was told; once a conversation."),
    ("any other column", "Is kept as a label of the conversation."),
)


def write_ground_truth(expectations: Expectations | None, path: str | Path) -> Path:
    """Write ground truth as a sheet: xlsx, csv, tsv or jsonl, by the path's ending.

    None writes an empty template with a page of help. What is written reads back as it was.

    Raises:
        ConfigError: The ending is another.
        GroundTruthError: A text is longer than a cell of Excel (32,767 characters); write csv.
        StoreError: The disk does not take it.
    """
    target = Path(path)
    held = expectations if expectations is not None else Expectations.empty()
    rows, labels = ground_truth_rows(held)
    header = [*HEADER, *labels]
    ending = target.suffix.lower()
    if ending == ".xlsx":
        sheets: dict[str, tuple[Sequence[str], Iterable[Sequence[Any]]]] = {
            "ground truth": (header, rows)
        }
        if expectations is None:
            sheets["help"] = (["column", "what to write"], [list(r) for r in _HELP])
        write_workbook(target, sheets)
    elif ending in (".csv", ".tsv"):
        write_text(target, header, rows, "\t" if ending == ".tsv" else ",")
    elif ending in (".jsonl", ".ndjson"):
        lines = [dict(zip(header, row, strict=True)) for row in rows]
        octets = b"".join(
            orjson.dumps({k: v for k, v in line.items() if v is not None}) + b"\n" for line in lines
        )
        write_whole(target, octets)
    else:
        raise ConfigError(f"ground truth is written as xlsx, csv, tsv or jsonl, not {ending!r}")
    return target


def ground_truth_rows(held: Expectations) -> tuple[list[list[str | None]], list[str]]:
    """The rows of a sheet, cells as text under `HEADER` and the label columns that are returned."""
    turns = held.turn_expectations.partition_by("session_id", as_dict=True, maintain_order=True)
    calls: dict[tuple[str, int | None], list[dict[str, Any]]] = {}
    listed = held.expected_tool_calls.sort("session_id", "turn_id", "call_index")
    for sid, turn, name, arguments in listed.select(
        "session_id", "turn_id", "name", "arguments"
    ).iter_rows():
        calls.setdefault((sid, turn), []).append({"name": name, "arguments": loads(arguments)})
    sessions = held.session_expectations.rows(named=True)
    labels = _label_columns(sessions)
    rows: list[list[str | None]] = []
    for session in sessions:
        sid: str = session["session_id"]
        mine = turns.get((sid,))
        first = len(rows)
        numbered = [] if mine is None else mine.sort("turn_id").rows(named=True)
        whole = [_text(session["expected_output"]), None, _documents(session["context"])]
        if session["tools_stated"]:
            whole[1] = canonical_json(calls.get((sid, None), []))
        if not numbered or any(v is not None for v in whole):
            rows.append([_text(sid), SESSION_ROW, None, *whole])
        for turn in numbered:
            number = None if turn["positional"] else str(turn["turn_id"])
            tools = calls.get((sid, turn["turn_id"]), []) if turn["tools_stated"] else None
            rows.append(
                [
                    _text(sid),
                    number,
                    _text(turn["query"]),
                    _text(turn["expected_output"]),
                    None if tools is None else canonical_json(tools),
                    _documents(turn["context"]),
                ]
            )
        own: list[str | None] = [
            _text(session["chatbot_role"]),
            _text(session["system_instructions"]),
        ]
        held_labels = _labels_of(session)
        if labels == ["labels"]:
            own.append(session["labels"])
        else:
            own += [_text(held_labels.get(name.removeprefix("label:"))) for name in labels]
        rows[first] += own
        for row in rows[first + 1 :]:
            row += [None] * len(own)
    return rows, labels


def _label_columns(sessions: Sequence[dict[str, Any]]) -> list[str]:
    """A column a label where all are plain text, else one with all of them as JSON."""
    from uaef_frames.sheets.headers import is_plain_label

    found: dict[str, None] = {}
    for session in sessions:
        for key, value in _labels_of(session).items():
            if not isinstance(value, str) or not value.strip() or not is_plain_label(key):
                return ["labels"]
            found[key] = None
    return [f"label:{key}" if _is_taken(key) else key for key in found]


def _labels_of(session: dict[str, Any]) -> dict[str, Any]:
    text: str | None = session["labels"]
    return cast("dict[str, Any]", loads(text)) if text else {}


def _is_taken(key: str) -> bool:
    from uaef_frames.sheets.headers import meaning_of

    return meaning_of(key) is not None or key.startswith("label:")


def _text(value: str | None) -> str | None:
    """Text for a cell: empty text is two quotes, so that it is not an empty cell."""
    if value is None:
        return None
    if value == "":
        return '""'
    return f'""{value}' if _ONLY_QUOTES.fullmatch(value.strip()) else value


def _documents(context: list[str]) -> str | None:
    return canonical_json(context) if context else None


def write_text(
    target: Path, header: Sequence[str], rows: Iterable[Sequence[Any]], separator: str = ","
) -> None:
    """A text table in UTF-8, with a mark that tells Excel so; cells that would run are shielded.

    Raises:
        StoreError: The disk does not take it.
    """
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, delimiter=separator, lineterminator="\r\n")
    writer.writerows([_shielded(cell) for cell in row] for row in (header, *rows))
    write_whole(target, b"\xef\xbb\xbf" + buffer.getvalue().encode("utf-8", "replace"))


def _shielded(cell: Any) -> Any:
    if isinstance(cell, list | dict):
        return canonical_json(cast("Any", cell))
    if isinstance(cell, str) and (_FORMULA.match(cell) or _SHIELDED.match(cell)):
        return f"'{cell}"
    return cell


def write_workbook(
    target: Path, sheets: dict[str, tuple[Sequence[str], Iterable[Sequence[Any]]]]
) -> None:
    """A workbook with one sheet a table. Text is written as text, whatever it begins with.

    Raises:
        GroundTruthError: A text is longer than a cell of Excel.
        StoreError: The disk does not take it.
    """
    from openpyxl import Workbook
    from openpyxl.cell import WriteOnlyCell
    from openpyxl.styles import Alignment, Font
    from openpyxl.utils.exceptions import WorkbookAlreadySaved

    book = Workbook(write_only=True)
    wrapped = Alignment(vertical="top", wrap_text=True)
    bold = Font(bold=True)

    def cell(value: Any, sheet: Any, font: Any = None) -> Any:
        made = WriteOnlyCell(sheet)
        if isinstance(value, list | dict):
            value = canonical_json(cast("Any", value))
        if isinstance(value, str):
            made.value = _fitting(value, target)
            # Set after the value: what begins with = is text and no formula.
            made.data_type = "s"
            made.quotePrefix = bool(_FORMULA.match(value))
            made.alignment = wrapped
        else:
            made.value = value
        if font is not None:
            made.font = font
        return made

    try:
        for title, (header, rows) in sheets.items():
            sheet: Any = book.create_sheet(title[:31])
            sheet.freeze_panes = "A2"
            for at, name in enumerate(header):
                sheet.column_dimensions[letters(at + 1)].width = 48 if name in _WIDE else 18
            sheet.append([cell(str(name), sheet, bold) for name in header])
            for row in rows:
                sheet.append([None if v is None else cell(v, sheet) for v in row])
        with replacing(target) as draft:
            book.save(draft)
    except BaseException:
        for sheet in book.worksheets:
            with suppress(WorkbookAlreadySaved):
                sheet.close()
        raise


def _fitting(text: str, target: Path) -> str:
    made = escaped(text)
    if len(made) > CELL_LIMIT:
        raise GroundTruthError(
            f"a text of {len(made):,} characters does not fit a cell of Excel ({CELL_LIMIT:,}); "
            f"write csv: {text[:40]!r}…",
            source=str(target),
        )
    return made


def frame_rows(frame: pl.DataFrame) -> tuple[list[str], Iterable[Sequence[Any]]]:
    """A frame as a header and rows for a sheet: times without zones, lists as JSON."""
    zoned = [n for n, t in frame.schema.items() if isinstance(t, pl.Datetime) and t.time_zone]
    plain = frame.with_columns(pl.col(n).dt.replace_time_zone(None) for n in zoned)
    enums = [n for n, t in plain.schema.items() if isinstance(t, pl.Enum | pl.Categorical)]
    return plain.columns, plain.with_columns(pl.col(n).cast(pl.String) for n in enums).iter_rows()
