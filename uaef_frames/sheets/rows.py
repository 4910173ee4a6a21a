"""Rows: the cells of a row by what they mean. What is wrong with one is a problem of its grid."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar, cast

from uaef_frames.canonical import loads, scrub
from uaef_frames.errors import GroundTruthError
from uaef_frames.expectations import per_turn
from uaef_frames.sheets import cells
from uaef_frames.sheets.headers import filled, unwrapped

if TYPE_CHECKING:
    from collections.abc import Callable

    from uaef_frames.expectations import Calls, TurnTruth
    from uaef_frames.sheets.grids import Grid
    from uaef_frames.sheets.headers import Header
    from uaef_frames.sheets.report import Severity

_T = TypeVar("_T")


@dataclass(slots=True)
class Row:
    """One row, understood.

    Attributes:
        grid: Where it stands.
        number: As Excel counts it.
        session: None: a conversation of its own.
        turn: `SESSION_ROW`: it speaks of the session as a whole.
        turns: Of a row that lists the turns of its session.
    """

    grid: Grid
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
    turns: list[TurnTruth] = field(default_factory=list["TurnTruth"])

    def note(self, severity: Severity, message: str) -> None:
        """Say something of the row."""
        self.grid.note(severity, message, self.number)


def understood(grid: Grid, header: Header, number: int, raw: list[Any]) -> Row | None:
    """A row's cells by meaning; None if one of them cannot be used."""
    errors_before = grid.errors

    def read(meaning: str, reader: Callable[[Any, cells.Say], _T], empty: _T) -> _T:
        at = header.meaning.get(meaning)
        if at is None or at >= len(raw) or raw[at] is None:
            return empty
        say = _teller(grid, header, number, at)
        try:
            return reader(raw[at], say)
        except GroundTruthError as error:
            say("error", error.reason)
            return empty

    beyond = [c for c in raw[len(header.names) :] if filled([c])]
    if beyond:
        words = f"the row has more cells than the header; the first is {str(beyond[0])[:40]!r}"
        grid.note("error", words, number)
    row = Row(
        grid=grid,
        number=number,
        session=read("session_id", cells.identifier, None),
        turn=read("turn_id", cells.turn_number, None),
        question=read("question", cells.text, None),
        output=read("expected_output", cells.text, None),
        context=read("context", cells.documents, []),
        tools=read("expected_tool_calls", cells.tool_calls, None),
        role=read("chatbot_role", cells.text, None),
        instructions=read("system_instructions", cells.text, None),
        labels=_labels(grid, header, number, raw) | read("labels", _label_object, {}),
    )
    outputs = read("per_turn_expected", _listed, None)
    tools = read("per_turn_tools", _listed, None)
    if outputs is not None or tools is not None:
        try:
            row.turns = per_turn(outputs, tools, row.session)
        except GroundTruthError as error:
            row.note("error", error.reason)
    return row if grid.errors == errors_before else None


def _teller(grid: Grid, header: Header, number: int, at: int) -> cells.Say:
    def say(severity: Severity, message: str) -> None:
        grid.note(severity, message, number, at + 1, header.names[at])

    return say


def _labels(grid: Grid, header: Header, number: int, raw: list[Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, at in header.labels.items():
        value = unwrapped(raw[at]) if at < len(raw) else None
        if value is None:
            continue
        if isinstance(value, dict | list | bool | int):
            found[scrub(name)] = value
            continue
        say = _teller(grid, header, number, at)
        try:
            text = cells.text(value, say)
        except GroundTruthError as error:
            say("warning", f"{error.reason}; the label is left out")
            continue
        if text is not None:
            found[scrub(name)] = value if isinstance(value, float) else text
    return found


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
