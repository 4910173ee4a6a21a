"""Reads sessions of checked turn payloads, or one single trace, into rows, record by record.

It must not know what becomes of the rows. It is right for everything a stream can be; for millions
of plain turns a faster way stands beside it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from uaef_frames.adapters.langgraph.finish import MixedTopology, session_rows
from uaef_frames.adapters.langgraph.messages import Unreadable
from uaef_frames.adapters.langgraph.payloads import (
    ADAPTER,
    CheckedPayload,
    agent_names,
    read_fields,
)
from uaef_frames.adapters.langgraph.session import Session
from uaef_frames.adapters.langgraph.shapes import attributes, describe, is_fields, is_items
from uaef_frames.adapters.langgraph.streams import read_stream
from uaef_frames.errors import AdapterTransformationError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from uaef_frames.rows import SessionRows

_TRACE_NEEDS = (
    "a single trace is a dict with stream_events (the list of events that graph.stream(...)"
    " yielded), or a graph's final state with messages"
)


@dataclass(frozen=True)
class ReadOptions:
    """How to read.

    Attributes:
        topology: What the sessions are; ``auto`` looks at who speaks.
        agents: The names, of messages or nodes, that are agents; None: who emits AI messages is.
        messages_key: The state key that holds the conversation.
    """

    topology: Literal["auto", "single", "multi"] = "auto"
    agents: tuple[str, ...] | None = None
    messages_key: str = "messages"


def read_session(
    session_id: str, turns: Sequence[CheckedPayload], options: ReadOptions
) -> SessionRows:
    """Read the turns of one session, in the order of their turn_id.

    Raises:
        AdapterTransformationError: A turn cannot be read, or the session mixes topologies.
    """
    ordered = sorted(turns, key=lambda t: t.turn_id)
    names = options.agents or next((t.agents for t in ordered if t.agents), None)
    session = Session(frozenset(names) if names else None)
    turn_id: int | None = None
    try:
        for payload in ordered:
            turn_id = payload.turn_id
            session.add_turn(read_stream(payload.events, options.messages_key))
        turn_id = None
        return session_rows(session_id, session, ordered, _stated(options, ordered, names))
    except Exception as error:  # whatever a record holds, one kind of error comes out of here
        raise _error(error, session_id, turn_id) from error


def read_single(record: Mapping[str, Any], options: ReadOptions) -> SessionRows:
    """Read one trace that stands for itself; `session_id` and `turn_id` may be there.

    Raises:
        AdapterTransformationError: The trace cannot be read.
    """
    session_id = "trace"
    try:
        fields = _trace_fields(record, options)
        held = fields.get("session_id", fields.get("trace_id"))
        if isinstance(held, str | int) and not isinstance(held, bool) and str(held).strip():
            session_id = str(held)
        turn_id = fields.get("turn_id")
        turn = turn_id if type(turn_id) is int and abs(turn_id) < 2**63 else 1
        checked = read_fields(fields, session_id, turn)
    except Exception as error:  # whatever a record holds, one kind of error comes out of here
        raise _error(error, session_id, None) from error
    return read_session(session_id, [checked], options)


def _trace_fields(record: object, options: ReadOptions) -> Mapping[str, Any]:
    fields = record if is_fields(record) else attributes(record)
    if fields is None:
        raise Unreadable(f"{describe(record)} is no trace; {_TRACE_NEEDS}")
    if fields.get("stream_events") is not None:
        return fields
    for key in (options.messages_key, "messages"):
        if is_items(fields.get(key)):
            state = {k: v for k, v in fields.items() if k in (key, "__interrupt__")}
            return {"stream_events": [("values", {options.messages_key: state.pop(key), **state})]}
    raise Unreadable(f"the trace has no stream_events; {_TRACE_NEEDS}")


def _stated(
    options: ReadOptions, turns: Sequence[CheckedPayload], names: Sequence[str] | None
) -> str | None:
    """The topology that was given: on the options, in a payload, or by naming agents."""
    if options.topology != "auto":
        return options.topology
    said = next((t.topology for t in turns if t.topology), None)
    if said is not None or names is None:
        return said
    return "multi" if len(set(names)) > 1 else "single"


def _error(error: Exception, session_id: str, turn_id: int | None) -> AdapterTransformationError:
    if isinstance(error, AdapterTransformationError):
        return error
    if isinstance(error, Unreadable | MixedTopology) or type(error) is ValueError:
        reason = str(error)
    elif isinstance(error, RecursionError):
        reason = "the record is nested too deeply to be read"
    else:
        reason = f"the record cannot be read ({type(error).__name__}: {str(error)[:200]})"
    return AdapterTransformationError(
        reason, adapter=ADAPTER, session_id=session_id, turn_id=turn_id, original_error=error
    )


__all__ = ["ReadOptions", "agent_names", "read_session", "read_single"]
