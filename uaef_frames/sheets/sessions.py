"""Sessions: rows that belong together, as what a conversation is expected to be."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from uaef_frames.expectations import SessionTruth, TurnTruth
from uaef_frames.sheets.cells import SESSION_ROW

if TYPE_CHECKING:
    from collections.abc import Sequence

    from uaef_frames.sheets.rows import Row


def by_session(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Rows by session, in the order of the first of each; one without a session is its own."""
    sessions: dict[str, list[Row]] = {}
    taken = {r.session for r in rows if r.session is not None}
    for row in rows:
        name = row.session
        if name is None:
            name = f"row-{row.number}"
            while name in taken:
                name += "_"
            taken.add(name)
        sessions.setdefault(name, []).append(row)
    return sessions


def session_truth(sid: str, rows: Sequence[Row]) -> SessionTruth:
    """What the rows of a session expect; what they contradict becomes a problem of theirs."""
    truth = SessionTruth(sid)
    turns = [r for r in rows if r.turn != SESSION_ROW and not r.turns]
    whole = [r for r in rows if r.turn == SESSION_ROW or r.turns]
    if len(whole) > 1:
        whole[1].note("error", f"session {sid!r} has two rows for the session as a whole")
    for row in whole[:1]:
        truth.expected_output, truth.tools, truth.context = row.output, row.tools, row.context
        truth.turns = row.turns
    for row in rows:
        _of_session(truth, row)
    numbered = [r for r in turns if r.turn is not None]
    if numbered and len(numbered) < len(turns):
        blank = next(r for r in turns if r.turn is None)
        blank.note(
            "warning",
            f"some turns of session {sid!r} have no turn_id; its turns are counted in the order of "
            "the file",
        )
        numbered = []
    truth.positional = not numbered
    seen: dict[int, Row] = {}
    for position, row in enumerate(turns, 1):
        turn = cast("int", row.turn) if numbered else position
        if turn in seen:
            first = seen[turn]
            where = f"row {first.number}"
            if first.grid is not row.grid:
                where += f" of {first.grid.sheet or first.grid.source}"
            row.note("error", f"turn {turn} of session {sid!r} stands in {where} already")
            continue
        seen[turn] = row
        truth.turns.append(TurnTruth(turn, row.output, row.tools, row.context, row.question))
    truth.turns.sort(key=lambda t: t.turn_id)
    return truth


def _of_session(truth: SessionTruth, row: Row) -> None:
    """What counts for the whole session: the first that is not empty."""
    for name, value in (("chatbot_role", row.role), ("system_instructions", row.instructions)):
        held = getattr(truth, name)
        if held is None:
            setattr(truth, name, value)
        elif value is not None and value != held:
            row.note(
                "warning", f"{name} differs within session {truth.session_id!r}; the first counts"
            )
    for key, value in row.labels.items():
        if key not in truth.labels:
            truth.labels[key] = value
        elif truth.labels[key] != value:
            row.note(
                "warning",
                f"label {key!r} differs within session {truth.session_id!r}; the first counts",
            )
