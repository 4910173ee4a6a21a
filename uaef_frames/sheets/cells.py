"""Cells: what a person typed, as text, numbers and tool calls. What was repaired is said."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from typing import Any, TypeAlias, cast

from uaef_frames.canonical import loads, scrub
from uaef_frames.errors import GroundTruthError
from uaef_frames.expectations import Calls, is_blank, read_calls, text_or_none
from uaef_frames.sheets.grids import ErrorCell, Merged, Shown
from uaef_frames.sheets.report import Severity

Say: TypeAlias = Callable[[Severity, str], None]
"""Told of a cell: severity and message."""

CELL_LIMIT = 32_767
"""Characters that Excel keeps in a cell."""
_SMART = str.maketrans({"“": '"', "”": '"', "„": '"', "«": '"', "»": '"', "‘": "'", "’": "'"})
_TRAILING = re.compile(r",\s*([\]}])")
_WHOLE = re.compile(r"[+-]?\d{1,18}(?:[.,]0+)?")
_ONLY_QUOTES = re.compile(r'"{2,}')
SESSION_ROW = "session"
"""In a turn_id cell: the row speaks of the conversation as a whole."""


def plain(cell: Any, say: Say) -> Any:
    """A cell without its wrappers; one that shows an error is a problem.

    Raises:
        GroundTruthError: It shows an error, or its formula was never worked out.
    """
    if isinstance(cell, ErrorCell):
        if cell.text.startswith("#"):
            raise GroundTruthError(f"the cell shows {cell.text}; mend its formula")
        raise GroundTruthError(f"{cell.text}; open the workbook in Excel and save it")
    if isinstance(cell, Merged):
        raise GroundTruthError("the cell is merged with others; unmerge it and fill every cell")
    if isinstance(cell, str) and len(cell) >= CELL_LIMIT:
        say("warning", f"{len(cell):,} characters: Excel keeps no more, the text is probably cut")
    return cell


def text(cell: Any, say: Say) -> str | None:
    """A cell's text, None for an empty one. A cell of two quotes alone is empty text."""
    value = plain(cell, say)
    if isinstance(value, str):
        if is_blank(value):
            return None
        bare = value.strip()
        return scrub(bare[2:]) if _ONLY_QUOTES.fullmatch(bare) else scrub(value)
    if isinstance(value, Shown):
        if not value.text.endswith("%"):
            say("note", f"a number shown as money; read as {value.text}")
        return value.text
    return _typed(value)


def _typed(value: Any) -> str | None:
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, datetime):
        midnight = value.time() == time()
        return value.date().isoformat() if midnight else value.isoformat(sep=" ")
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return str(value)
    if isinstance(value, float) and value == value and not value.is_integer():
        return f"{value:.15g}"
    return text_or_none(value)


def identifier(cell: Any, say: Say) -> str | None:
    """A session's id: as text, numbers as a person reads them, without blanks around it."""
    value = cell.value if isinstance(cell, Merged) else cell
    found = text(value, say)
    if found is None:
        return None
    if isinstance(value, float | int) and not isinstance(value, bool) and abs(value) >= 1e15:
        say("warning", f"a number of more than 15 digits: Excel may have rounded it to {found}")
    bare = found.strip().strip("\u200b\ufeff\u00a0").strip()
    if bare != found:
        say("note", "blanks around the id are not part of it")
    return bare or None


def turn_number(cell: Any, say: Say) -> int | str | None:
    """A turn's number; "session" for a row that speaks of the whole conversation.

    Raises:
        GroundTruthError: It is no whole number.
    """
    value = plain(cell, say)
    if is_blank(value):
        return None
    if isinstance(value, Shown):
        value = value.value
    if isinstance(value, str):
        bare = value.strip().lower()
        if bare == SESSION_ROW:
            return SESSION_ROW
        if _WHOLE.fullmatch(bare):
            return int(re.split(r"[.,]", bare)[0])
    elif _is_number(value) and float(value).is_integer() and abs(value) < 2**63:
        return int(value)
    raise GroundTruthError(f"turn_id is a whole number, not {_typed(value)!r:.60}")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def documents(cell: Any, say: Say) -> list[str]:
    """Context: a text, or a list of texts as JSON."""
    value = plain(cell, say)
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            value = loads(value)
        except ValueError:
            say("warning", "it looks like a JSON list and is none; read as one text")
    if isinstance(value, list | tuple):
        return [
            scrub(v) if isinstance(v, str) else (text_or_none(v) or "")
            for v in cast("list[Any]", value)
        ]
    found = text(value, say)
    return [] if found is None else [found]


def tool_calls(cell: Any, say: Say) -> Calls | None:
    """Expected calls; None where nothing is said, [] where none is expected.

    Raises:
        GroundTruthError: It cannot be read, whatever was tried.
    """
    value = plain(cell, say)
    if not isinstance(value, str):
        if isinstance(value, int | float | bool | Shown | date | time):
            raise GroundTruthError(
                f"expected tool calls are a JSON list, not {_typed(value)!r:.60}"
            )
        return read_calls(value)
    if is_blank(value):
        return None
    return read_calls(_loaded(value.strip(), say))


def _loaded(value: str, say: Say) -> Any:
    """JSON, or what people type for it."""
    try:
        found = loads(value)
    except ValueError as error:
        first = error
    else:
        if isinstance(found, dict):
            say("note", "one call without its list; read as a list of one")
        elif not isinstance(found, list | None):
            raise GroundTruthError(f"expected tool calls are a JSON list, not {value[:60]!r}")
        return cast("Any", found)
    for words, attempt in (
        ("trailing commas were left out", lambda: loads(_TRAILING.sub(r"\1", value))),
        ("typographic quotes were read as plain ones", lambda: loads(value.translate(_SMART))),
        (
            "typographic quotes and trailing commas were put right",
            lambda: loads(_TRAILING.sub(r"\1", value.translate(_SMART))),
        ),
        ("a Python literal was read as JSON", lambda: ast.literal_eval(value)),
        (
            "a Python literal with typographic quotes was read as JSON",
            lambda: ast.literal_eval(value.translate(_SMART)),
        ),
    ):
        try:
            found = attempt()
        except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
            continue
        if isinstance(found, list | tuple | dict):
            say("note", words)
            return cast("Any", found)
    raise GroundTruthError(
        f"expected tool calls are not JSON ({first}): {value[:80]!r}; write a list such as "
        '[{"name": "search", "arguments": {"city": "Lisbon"}}], or [] for none'
    )
