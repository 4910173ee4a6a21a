"""Ground truth as people hold it in memory and in row files: one row a turn, or one a session.

Reads rows; what they say stands in `expectations`. How headers are spelt is known here and nowhere
else.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast, overload

from uaef_frames.canonical import loads, scrub
from uaef_frames.errors import GroundTruthError
from uaef_frames.expectations import (
    Calls,
    SessionTruth,
    TurnTruth,
    is_blank,
    per_turn,
    read_calls,
    text_or_none,
)
from uaef_frames.models import GroundTruth, ToolCall

_HEADERS = {
    "query": ("question", "query", "input"),
    "expected_output": ("expected_output", "answer", "expected_answer", "expected"),
    "expected_tool_calls": ("expected_tool_calls", "tools"),
    "context": ("context", "context_documents"),
    "session_id": ("session_id",),
    "turn_id": ("turn_id",),
    "chatbot_role": ("chatbot_role",),
    "system_instructions": ("system_instructions",),
    "per_turn_expected": ("per_turn_expected",),
    "per_turn_tools": ("per_turn_expected_tool_calls", "per_turn_tools"),
}
_WHOLE = re.compile(r"[+-]?[0-9]{1,19}(\.0+)?")
_MEANING = {header: meaning for meaning, headers in _HEADERS.items() for header in headers}


@dataclass(slots=True)
class GroundTruthRow:
    """One row, read: what its cells mean. None where a cell is empty or absent."""

    query: str | None = None
    expected_output: str | None = None
    tools: Calls | None = None
    context: list[str] = field(default_factory=list[str])
    session_id: str | None = None
    turn_id: int | None = None
    chatbot_role: str | None = None
    system_instructions: str | None = None
    per_turn_expected: list[Any] | None = None
    per_turn_tools: list[Any] | None = None
    labels: dict[str, Any] = field(default_factory=dict[str, Any])


@overload
def parse_ground_truth_row(row: Mapping[str, Any], query_only: Literal[True]) -> str: ...
@overload
def parse_ground_truth_row(
    row: Mapping[str, Any], query_only: Literal[False] = False
) -> GroundTruthRow: ...
def parse_ground_truth_row(
    row: Mapping[str, Any], query_only: bool = False
) -> str | GroundTruthRow:
    """Read one row of ground truth.

    Headers match in any case, with blanks or underscores: Question, Query or Input; Answer,
    Expected_Answer, Expected_Output or Expected; expected_tool_calls or tools; context;
    session_id; turn_id; chatbot_role; system_instructions. Anything else is a label.

    Args:
        row: Header to cell.
        query_only: Return the question's text alone.

    Raises:
        GroundTruthError: Two headers mean the same, a cell cannot be read, or (with `query_only`)
            there is no question.
    """
    named = _by_meaning(row)
    sid = text_or_none(named.get("session_id"))
    query = text_or_none(named.get("query"))
    if query_only:
        if query is None:
            headers = ", ".join(map(repr, row)) or "none"
            raise GroundTruthError(
                f"no question: expected a column Question, Query or Input; there is {headers}",
                session_id=sid,
            )
        return query
    return GroundTruthRow(
        query=query,
        expected_output=text_or_none(named.get("expected_output")),
        tools=read_calls(named.get("expected_tool_calls"), sid),
        context=_documents(named.get("context")),
        session_id=sid,
        turn_id=_turn_id(named.get("turn_id"), sid),
        chatbot_role=text_or_none(named.get("chatbot_role")),
        system_instructions=text_or_none(named.get("system_instructions")),
        per_turn_expected=_list_cell(named, "per_turn_expected", sid),
        per_turn_tools=_list_cell(named, "per_turn_tools", sid),
        labels={
            str(k): None if is_blank(v) else v for k, v in row.items() if _slug(k) not in _MEANING
        },
    )


def build_ground_truth(
    row: Mapping[str, Any], events: Sequence[Any] | None = None
) -> tuple[str, GroundTruth]:
    """The question of a row and the ground truth of its turn.

    Args:
        row: As `parse_ground_truth_row` takes it.
        events: Stream events of the turn; their tool results are the context if the row has none.

    Raises:
        GroundTruthError: The row cannot be read.
        AdapterTransformationError: The events cannot be read.
    """
    parsed = parse_ground_truth_row(row)
    extra = {
        key: value
        for key, value in (
            ("chatbot_role", parsed.chatbot_role),
            ("system_instructions", parsed.system_instructions),
        )
        if value is not None
    }
    truth = GroundTruth(
        expected_output=parsed.expected_output,
        expected_tool_calls=_tool_calls(parsed.tools),
        expected_arguments=extra,
        context_documents=parsed.context or _tool_results(events),
    )
    return parsed.query or "", truth


def build_multi_turn_ground_truth(
    turns: Sequence[Mapping[str, Any]], events: Sequence[Any] | None = None
) -> GroundTruth:
    """The ground truth of a conversation from its rows, one a turn, in order.

    `expected_arguments["per_turn_expected"]` and `["per_turn_tools"]` have one entry a turn. A turn
    without an answer gets `""` (nothing is expected of it) as soon as another turn has one, for the
    overall answer is then the others' answers; None where no turn has one. `expected_output` is the
    labelled answers joined, `expected_tool_calls` all calls of all turns (None if no turn says
    anything about tools), the context that of the rows, else the tool results in `events`.

    Raises:
        GroundTruthError: There is no turn, or a row cannot be read; the message names the turn.
    """
    if not turns:
        raise GroundTruthError("no turns: a conversation has at least one")
    rows: list[GroundTruthRow] = []
    for number, turn in enumerate(turns, 1):
        try:
            rows.append(parse_ground_truth_row(turn))
        except GroundTruthError as error:
            raise GroundTruthError(
                f"turn {number}: {error.reason}", session_id=error.session_id
            ) from error
    answers = [r.expected_output for r in rows]
    labelled = [f"Turn {n}: {a}" for n, a in enumerate(answers, 1) if a is not None]
    tools = [_tool_calls(r.tools) for r in rows]
    stated = [calls for calls in tools if calls is not None]
    extra: dict[str, Any] = {
        "per_turn_expected": [a if a is not None or not labelled else "" for a in answers],
        "per_turn_tools": tools,
    }
    for key in ("chatbot_role", "system_instructions"):
        value = next((v for r in rows if (v := getattr(r, key)) is not None), None)
        if value is not None:
            extra[key] = value
    context = list(dict.fromkeys(d for r in rows for d in r.context))
    return GroundTruth(
        expected_output="\n".join(labelled) or None,
        expected_tool_calls=[c for calls in stated for c in calls] if stated else None,
        expected_arguments=extra,
        context_documents=context or _tool_results(events),
    )


class TruthCollector:
    """Gathers read rows into sessions: a row a session, or rows of turns, in any order."""

    def __init__(self) -> None:
        self._held: dict[str, SessionTruth] = {}
        self._whole: set[str] = set()
        self._seen: set[tuple[str, int]] = set()

    def add(self, row: GroundTruthRow, source: str, line: int) -> None:
        """Take a row in.

        Raises:
            GroundTruthError: It has no session_id, or says again what another row said.
        """
        sid, turn = row.session_id, row.turn_id
        reason = None
        if sid is None:
            reason = "session_id is missing"
        elif turn is None and sid in self._held:
            reason = "this session has ground truth already"
        elif turn is not None and sid in self._whole:
            reason = "this session has a row of its own and rows of turns; keep one kind"
        elif turn is not None and (sid, turn) in self._seen:
            reason = f"turn {turn} has a row already"
        if reason is not None or sid is None:
            raise GroundTruthError(reason or "", source=source, line=line, session_id=sid)
        if turn is None:
            self._whole.add(sid)
            self._held[sid] = whole_session(row)
        else:
            self._seen.add((sid, turn))
            add_turn(self._held.setdefault(sid, SessionTruth(sid, positional=False)), row)

    def truths(self) -> list[SessionTruth]:
        """The sessions in first-seen order, their turns sorted by number."""
        for truth in self._held.values():
            truth.turns.sort(key=lambda t: t.turn_id)
        return list(self._held.values())


def whole_session(row: GroundTruthRow) -> SessionTruth:
    """What a row that speaks of a whole session says."""
    sid = row.session_id or ""
    return SessionTruth(
        sid,
        expected_output=row.expected_output,
        tools=row.tools,
        chatbot_role=row.chatbot_role,
        system_instructions=row.system_instructions,
        context=row.context,
        labels=row.labels,
        turns=per_turn(row.per_turn_expected, row.per_turn_tools, sid),
    )


def add_turn(truth: SessionTruth, row: GroundTruthRow) -> None:
    """Add what a row of one turn says; role and instructions are the first that are given."""
    truth.turns.append(
        TurnTruth(row.turn_id or 0, row.expected_output, row.tools, row.context, row.query)
    )
    truth.chatbot_role = truth.chatbot_role or row.chatbot_role
    truth.system_instructions = truth.system_instructions or row.system_instructions
    for key, value in row.labels.items():
        if truth.labels.get(key) is None:
            truth.labels[key] = value


def record_of_line(line: bytes) -> Mapping[str, Any]:
    """The JSON object on one line.

    Raises:
        GroundTruthError: It is not JSON, or not an object.
    """
    try:
        record = loads(line)
    except ValueError as error:
        raise GroundTruthError(f"not JSON: {error}") from error
    if not isinstance(record, dict):
        raise GroundTruthError(f"expected an object, not {type(record).__name__}")
    return cast("Mapping[str, Any]", record)


def _by_meaning(row: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(row, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise GroundTruthError(f"a row is a mapping of header to cell, not {type(row).__name__}")
    named: dict[str, Any] = {}
    header_of: dict[str, str] = {}
    for header, cell in row.items():
        meaning = _MEANING.get(_slug(header))
        if meaning is None or (meaning in named and is_blank(cell)):
            continue
        if meaning in named and not is_blank(named[meaning]):
            raise GroundTruthError(
                f"columns {header_of[meaning]!r} and {header!r} both mean {meaning}; keep one"
            )
        named[meaning], header_of[meaning] = cell, str(header)
    return named


def _slug(header: object) -> str:
    return "_".join(str(header).replace("\ufeff", "").lower().replace("_", " ").split())


def _turn_id(value: object, session_id: str | None) -> int | None:
    if is_blank(value):
        return None
    number: int | None = None
    if isinstance(value, int) and not isinstance(value, bool):
        number = value
    elif isinstance(value, float) and value.is_integer():
        number = int(value)
    elif isinstance(value, str) and _WHOLE.fullmatch(value.strip()):
        number = int(value.strip().partition(".")[0])
    if number is None or abs(number) >= 2**63:
        raise GroundTruthError(
            f"turn_id is a whole number of 64 bits, not {value!r:.60}", session_id=session_id
        )
    return number


def _list_cell(named: Mapping[str, Any], key: str, session_id: str | None) -> list[Any] | None:
    value = named.get(key)
    if is_blank(value):
        return None
    if isinstance(value, str):
        try:
            value = loads(value)
        except ValueError as error:
            raise GroundTruthError(f"{key} is not JSON: {error}", session_id=session_id) from error
    if isinstance(value, list | tuple):
        return list(cast("Sequence[Any]", value))
    raise GroundTruthError(f"{key} is a list with one entry a turn", session_id=session_id)


def _documents(value: object) -> list[str]:
    """Context: a text, a list of texts, or such a list as JSON text."""
    if is_blank(value):
        return []
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            parsed = loads(value)
        except ValueError:
            return [scrub(value)]
        value = cast("object", parsed) if isinstance(parsed, list) else value
    if isinstance(value, list | tuple):
        texts = (text_or_none(v) for v in cast("Sequence[object]", value))
        return [t for t in texts if t is not None]
    return [text_or_none(value) or ""]


def _tool_calls(calls: Calls | None) -> list[ToolCall] | None:
    if calls is None:
        return None
    return [ToolCall(name=name, arguments=loads(arguments)) for name, arguments in calls]


def _tool_results(events: Sequence[Any] | None) -> list[str]:
    if not events:
        return []
    from uaef_frames.adapters.langgraph.reader import ReadOptions, read_single

    session = read_single({"stream_events": list(events)}, ReadOptions())
    results = [c.result for t in session.turns for c in t.tool_calls if c.result]
    return list(dict.fromkeys(results))
