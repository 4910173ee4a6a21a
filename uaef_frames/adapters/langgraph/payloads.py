"""Checks turn payloads and groups them into sessions.

It must not know what a stream event looks like.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral, Number
from typing import TYPE_CHECKING, Any, cast

from uaef_frames.adapters.langgraph.shapes import describe, is_fields, is_items
from uaef_frames.canonical import canonical_json, scrub
from uaef_frames.errors import AdapterTransformationError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ADAPTER = "langgraph"
NEEDS = (
    "a turn payload is a dict with session_id (text), turn_id (an integer) and stream_events (the"
    " list of events that graph.stream(...) yielded)"
)

NUMBERS = {
    "latency": "latency_s",
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
    "cost_usd": "cost_usd",
    "throughput_rps": "throughput_rps",
    "quality_score": "quality_score",
    "completeness_score": "completeness_score",
}
"""Payload fields that are numbers, and the columns they fill."""

_FROM_METADATA = ("throughput_rps", "quality_score", "completeness_score", "workflow_status")
_KNOWN = frozenset(
    {*NUMBERS, "session_id", "turn_id", "stream_events", "workflow_status", "metadata"}
    | {"topology", "agents"}
)
_REQUIRED = ("session_id", "turn_id", "stream_events")
_MAX_TURN = 2**63 - 1


@dataclass(slots=True)
class CheckedPayload:
    """A turn payload whose fields have the types they should.

    `topology` and `agents` are what the payload says itself, overriding what the events show.
    """

    session_id: str
    turn_id: int
    events: list[Any]
    latency_s: float | None = None
    input_tokens: float | None = None
    output_tokens: float | None = None
    cost_usd: float | None = None
    throughput_rps: float | None = None
    quality_score: float | None = None
    completeness_score: float | None = None
    workflow_status: str | None = None
    metadata: str | None = None
    topology: str | None = None
    agents: tuple[str, ...] | None = None


def check_payload(payload: object, position: int) -> CheckedPayload:
    """Check one turn payload; `position` is its place in the list, from 1, for the error.

    Raises:
        AdapterTransformationError: A field is missing or has no usable value.
    """
    if not is_fields(payload):
        raise _error(f"payload {position} is {describe(payload)}; {NEEDS}")
    fields: Mapping[Any, Any] = payload
    try:
        missing = [name for name in _REQUIRED if fields.get(name) is None]
        if missing:
            raise ValueError(f"no {', no '.join(missing)}; {NEEDS}")
        session_id = _session_id(fields["session_id"])
        return read_fields(fields, session_id, _turn_id(fields["turn_id"]))
    except Exception as error:  # whatever a payload holds, one kind of error comes out of here
        session, turn = _shown(fields, "session_id"), _shown(fields, "turn_id")
        raise _error(
            f"payload {position}: {_said(error)}",
            error,
            None if session is None else str(session),
            turn,
        ) from error


def _shown(fields: Mapping[Any, Any], name: str) -> str | int | float | None:
    """A key as an error may show it; None where it is nothing that can be a key."""
    try:
        value = fields.get(name)
    except Exception:  # a mapping of someone else's making
        return None
    if isinstance(value, str):
        return scrub(value[:200])
    return value if isinstance(value, int | float) and abs(value) < 2**64 else None


def group_payloads(payloads: Sequence[object]) -> list[tuple[str, list[CheckedPayload]]]:
    """Check payloads and group them: sessions in first-seen order, turns by turn_id.

    Raises:
        AdapterTransformationError: There are none, one is unusable, or a turn is there twice.
    """
    if not is_items(payloads):
        raise _error(f"turn payloads come in a list, not as {describe(payloads)}; {NEEDS}")
    if not payloads:
        raise _error(f"the list of turn payloads is empty; {NEEDS}")
    sessions: dict[str, dict[int, CheckedPayload]] = {}
    for position, payload in enumerate(payloads, 1):
        checked = check_payload(payload, position)
        turns = sessions.setdefault(checked.session_id, {})
        if checked.turn_id in turns:
            raise _error(
                f"payload {position} is a second turn {checked.turn_id} of its session; every turn"
                " of a session needs its own turn_id",
                session_id=checked.session_id,
                turn_id=checked.turn_id,
            )
        turns[checked.turn_id] = checked
    return [(sid, [turns[t] for t in sorted(turns)]) for sid, turns in sessions.items()]


def read_fields(fields: Mapping[Any, Any], session_id: str, turn_id: int) -> CheckedPayload:
    """All but the keys of a payload, checked.

    Raises:
        ValueError: A field has no usable value.
    """
    events = fields.get("stream_events")
    if not is_items(events):
        hint = "; wrap a stream in list(...)" if hasattr(events, "__next__") else ""
        raise ValueError(f"stream_events must be a list of events, not {describe(events)}{hint}")
    checked = CheckedPayload(session_id, turn_id, list(events))
    for name, column in NUMBERS.items():
        value = fields.get(name)
        if value is not None:
            setattr(checked, column, _number(value, name))
    checked.workflow_status = _status(fields.get("workflow_status"))
    if len(fields) != len(_REQUIRED) or any(name not in fields for name in _REQUIRED):
        _read_rest(checked, fields)
    return checked


def _read_rest(checked: CheckedPayload, fields: Mapping[Any, Any]) -> None:
    held = fields.get("metadata")
    rest: dict[str, Any] = {}
    if is_fields(held):
        rest = {str(k): v for k, v in held.items()}
        for name in _FROM_METADATA:
            if name not in rest:
                continue
            value = rest.pop(name)
            if name == "workflow_status":
                checked.workflow_status = checked.workflow_status or _status(value)
            elif getattr(checked, name) is None and value is not None:
                setattr(checked, name, _number(value, f"metadata.{name}"))
    elif held is not None:
        rest["metadata"] = held
    for key, value in fields.items():
        if key in _KNOWN or (isinstance(key, str) and key.startswith("_")):
            continue
        rest.setdefault(str(key), value)
    checked.metadata = canonical_json(rest) if rest else None
    if "topology" in fields:
        checked.topology = _topology(fields["topology"])
    if "agents" in fields:
        checked.agents = agent_names(fields["agents"])


def agent_names(value: object) -> tuple[str, ...] | None:
    """The agents a user named, as a tuple.

    Raises:
        ValueError: They are not a list of names.
    """
    if value is None:
        return None
    names = list(value) if is_items(value) else [value]
    named = [n for n in names if isinstance(n, str) and n]
    if not names or len(named) != len(names):
        raise ValueError(f"agents must be a list of agent names, not {describe(value)}")
    return tuple(named)


def _session_id(value: object) -> str:
    if isinstance(value, str) and value.strip():
        return scrub(value)
    if isinstance(value, Integral) and value is not True and value is not False:
        return str(int(value))
    raise ValueError(f"session_id must be text, not {describe(value)}; {NEEDS}")


def _turn_id(value: object) -> int:
    turn = value if type(value) is int else None
    whole = isinstance(value, Integral) or (isinstance(value, float) and value.is_integer())
    digits = isinstance(value, str) and value.strip().removeprefix("-").isdecimal()
    if turn is None and not isinstance(value, bool) and (whole or digits) and len(str(value)) < 30:
        turn = int(cast("str", value))
    if turn is None or abs(turn) > _MAX_TURN:
        raise ValueError(f"turn_id must be an integer that orders the turns, not {describe(value)}")
    return turn


def _number(value: object, name: str) -> float | None:
    if type(value) is float:
        return value
    if type(value) is int:
        return float(value)
    if isinstance(value, str):
        text = value.strip()
        if not text:
            return None
        try:
            number = float(text) if "_" not in text else math.nan
        except ValueError:
            number = math.nan
        if math.isfinite(number):
            return number
    elif isinstance(value, Number) and not isinstance(value, bool | complex):
        return float(cast("float", value))  # numpy's and decimal's numbers, too
    raise ValueError(f"{name} must be a number, not {describe(value)}")


def _status(value: object) -> str | None:
    if value is None:
        return None
    return scrub(value) if isinstance(value, str) else canonical_json(value)


def _topology(value: object) -> str | None:
    if value is None or value == "auto":
        return None
    if isinstance(value, str) and value in ("single", "multi"):
        return value
    raise ValueError(f"topology must be 'single', 'multi' or 'auto', not {describe(value)}")


def _said(error: BaseException) -> str:
    return str(error) if type(error) is ValueError else f"{type(error).__name__}: {error}"


def _error(
    reason: str,
    original: BaseException | None = None,
    session_id: str | None = None,
    turn_id: object = None,
) -> AdapterTransformationError:
    return AdapterTransformationError(
        reason, adapter=ADAPTER, session_id=session_id, turn_id=turn_id, original_error=original
    )
