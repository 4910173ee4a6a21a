"""Traces as rows and rows as traces: the object side of the tables.

Knows one trace at a time; many of them stacked are `conversations`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, TypedDict, cast

import orjson

from uaef_frames.canonical import canonical_json, loads_exactly, scrub
from uaef_frames.errors import ConfigError
from uaef_frames.models import (
    USER_LANE,
    AgentTrace,
    CallStatus,
    CoordinationEvent,
    Message,
    MultiAgentTrace,
    Role,
    Step,
    ToolCall,
)
from uaef_frames.rows import CallRow, HandoffRow, MessageRow, SessionRows, TurnRow

Trace: TypeAlias = AgentTrace | MultiAgentTrace


class SessionDict(TypedDict):
    """A conversation as objects: one trace a turn, and one over all of them."""

    session_id: str
    per_turn_traces: list[Trace]
    full_trace: Trace


_LIFTED = ("throughput_rps", "quality_score", "completeness_score")
"""Metadata of a trace that has a column of its own in `turns`."""

_READ = "uaef_frames"
"""The key of a trace's metadata that holds what reading found, apart from what a payload says."""


def per_turn_traces(item: Trace | Mapping[str, Any]) -> list[Trace]:
    """The turns of a trace (itself) or a session dict.

    Raises:
        ConfigError: It is neither, has no turns, or mixes single- and multi-agent traces.
    """
    if isinstance(item, AgentTrace | MultiAgentTrace):
        return [item]
    if not isinstance(item, Mapping) or "per_turn_traces" not in item:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigError(
            "expected an AgentTrace, a MultiAgentTrace or a session dict with 'per_turn_traces' "
            f"and 'full_trace', not {type(item).__name__}; pass adapter= to evaluate raw records"
        )
    traces = item["per_turn_traces"]
    if not isinstance(traces, list | tuple) or not traces:
        raise ConfigError("a session dict needs at least one trace in 'per_turn_traces'")
    found = list(cast("Sequence[Trace]", traces))
    kinds = {type(t).__name__ for t in found if isinstance(t, AgentTrace | MultiAgentTrace)}  # pyright: ignore[reportUnnecessaryIsInstance]
    if len(kinds) != 1 or not all(isinstance(t, AgentTrace | MultiAgentTrace) for t in found):  # pyright: ignore[reportUnnecessaryIsInstance]
        names = sorted({type(t).__name__ for t in found})
        raise ConfigError(
            f"the turns of one session are all AgentTrace or all MultiAgentTrace, not {names}"
        )
    return found


def session_of_traces(key: str, traces: Sequence[Trace]) -> SessionRows:
    """The rows of one conversation whose turns are these traces, numbered from 1."""
    multi = isinstance(traces[0], MultiAgentTrace)
    turns = [turn_of_trace(trace, number) for number, trace in enumerate(traces, 1)]
    return SessionRows(key, "multi" if multi else "single", turns)


def turn_of_trace(trace: Trace, turn_id: int) -> TurnRow:
    """The rows of one trace. The trace itself is left as it is."""
    metadata = dict(trace.metadata)
    read = metadata.pop(_READ, None)
    found = cast("dict[str, Any]", read) if isinstance(read, dict) else {}
    interrupted = bool(found.get("interrupted"))
    lifted = lift(metadata)
    row = TurnRow(
        turn_id,
        latency_s=_number(trace.latency),
        input_tokens=_number(trace.input_tokens),
        output_tokens=_number(trace.output_tokens),
        cost_usd=_number(trace.cost),
        interrupted=interrupted,
        metadata=canonical_json(metadata) if metadata else None,
        notes=[str(n) for n in found.get("notes", ())],
        **lifted,
    )
    if isinstance(trace, MultiAgentTrace):
        row.workflow_status = trace.workflow_status or row.workflow_status
        _fill_multi(row, trace)
    else:
        row.messages = [message_row(m, m.agent) for m in trace.messages]
        row.tool_calls = [_call_row(c, c.agent) for c in trace.tool_calls]
        row.agents = list(dict.fromkeys(m.agent for m in trace.messages if m.agent is not None))
    questions = [m.content for m in row.messages if m.role == "user" and not m.is_synthetic]
    row.query = "\n\n".join(questions) if questions else None
    row.response = found.get("response", None if interrupted else _answer(row.messages))
    return row


def lift(metadata: dict[str, Any]) -> dict[str, Any]:
    """Take out of a trace's metadata what has a column of its own in `turns`, by column."""
    known = {name: _number(metadata.get(name)) for name in _LIFTED}
    columns: dict[str, Any] = {name: value for name, value in known.items() if value is not None}
    for name in columns:
        del metadata[name]
    status = metadata.pop("workflow_status", None)
    if status is not None:
        columns["workflow_status"] = status if isinstance(status, str) else canonical_json(status)
    return columns


def message_row(message: Message, agent: str | None) -> MessageRow:
    """The row of one message object."""
    content = message.content
    return MessageRow(
        message.role,
        content if content.isascii() else scrub(content),
        agent,
        message.reasoning,
        message.message_id,
        message.tool_call_id,
        message.is_error,
        message.is_synthetic,
        message.input_tokens,
        message.output_tokens,
    )


def join_traces(session_id: str, traces: Sequence[Trace]) -> Trace:
    """The full trace of a session: everything of its turns, in order.

    Latency, tokens and cost are summed over the turns that have them; None where no turn has.
    """
    sums: dict[str, Any] = {
        name: _known_sum([getattr(t, name) for t in traces])
        for name in ("latency", "cost", "input_tokens", "output_tokens")
    }
    own = _shared_metadata(traces)
    if isinstance(traces[0], AgentTrace):
        single = cast("Sequence[AgentTrace]", traces)
        return AgentTrace(
            trace_id=session_id,
            session_id=session_id,
            messages=[m for t in single for m in t.messages],
            tool_calls=[c for t in single for c in t.tool_calls],
            metadata=own,
            framework=traces[0].framework,
            **sums,
        )
    return _join_multi(session_id, cast("Sequence[MultiAgentTrace]", traces), sums, own)


def _join_multi(
    session_id: str,
    traces: Sequence[MultiAgentTrace],
    sums: dict[str, Any],
    metadata: dict[str, Any],
) -> MultiAgentTrace:
    names = list(dict.fromkeys(name for t in traces for name in t.agent_traces))
    lanes = {
        name: join_traces(
            session_id, [t.agent_traces[name] for t in traces if name in t.agent_traces]
        )
        for name in names
    }
    timeline: list[Step] = []
    at: dict[tuple[str, str], int] = {}
    for trace in traces:
        start = dict(at)
        for step in trace.timeline or []:
            key = (step.agent, step.kind)
            position = start.get(key, 0) + step.position
            timeline.append(Step(agent=step.agent, kind=step.kind, position=position))
            at[key] = at.get(key, 0) + 1
    return MultiAgentTrace(
        trace_id=session_id,
        session_id=session_id,
        agent_traces=cast("dict[str, AgentTrace]", lanes),
        coordination_events=[e for t in traces for e in t.coordination_events],
        user_messages=[m for t in traces for m in t.user_messages],
        timeline=timeline if all(t.timeline is not None for t in traces) else None,
        workflow_status=traces[-1].workflow_status,
        total_latency=sums["latency"],
        total_cost=sums["cost"],
        total_input_tokens=sums["input_tokens"],
        total_output_tokens=sums["output_tokens"],
        metadata=metadata,
        framework=traces[0].framework,
    )


def _shared_metadata(traces: Sequence[Trace]) -> dict[str, Any]:
    """What every turn says alike; and the mean of the turns' own scores."""
    first = traces[0].metadata
    shared = {k: v for k, v in first.items() if all(t.metadata.get(k) == v for t in traces[1:])}
    for name in ("quality_score", "completeness_score"):
        known = [_number(t.metadata.get(name)) for t in traces]
        values = [v for v in known if v is not None]
        if values:
            shared[name] = sum(values) / len(values)
    shared.pop(_READ, None)
    return shared


def _fill_multi(row: TurnRow, trace: MultiAgentTrace) -> None:
    row.messages = [
        message_row(m, None if lane == USER_LANE else lane) for lane, m in trace.owned_messages()
    ]
    row.tool_calls = [_call_row(c, lane) for lane, c in trace.owned_tool_calls()]
    row.agents = list(trace.agent_traces)
    row.handoffs = [
        HandoffRow(e.from_agent, e.to_agent, e.event_type, e.message)
        for e in trace.coordination_events
    ]


def _call_row(call: ToolCall, agent: str | None) -> CallRow:
    malformed = call.raw_arguments is not None
    return CallRow(
        scrub(call.name),
        None if malformed else canonical_json(call.arguments),
        call.message_index,
        agent,
        call.id,
        call.raw_arguments,
        call.result,
        call.status,
    )


def _answer(messages: Sequence[MessageRow]) -> str | None:
    for message in reversed(messages):
        if message.role == "assistant" and message.content.strip() and not message.is_synthetic:
            return message.content
    return None


def _number(value: object) -> float | None:
    if type(value) is float:
        return value
    if value is None or isinstance(value, bool):
        return None
    try:
        return float(cast("float", value))
    except OverflowError:  # an integer that no float can hold
        return math.inf if cast("int", value) > 0 else -math.inf
    except (TypeError, ValueError):
        return None


def _known_sum(values: Sequence[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return sum(known) if known else None


def trace_of_row(
    row: dict[str, Any],
    messages: list[MessageRow],
    calls: list[CallRow],
    handoffs: list[HandoffRow],
) -> Trace:
    """The trace of one row of `turns` and the rows that belong to it."""
    metadata: dict[str, Any] = orjson.loads(row["metadata"]) if row["metadata"] else {}
    metadata |= {name: row[name] for name in _LIFTED if row[name] is not None}
    read: dict[str, Any] = {}
    if row["interrupted"]:
        read["interrupted"] = True
    if row["response"] != (None if row["interrupted"] else _answer(messages)):
        read["response"] = row["response"]
    if row["notes"]:
        read["notes"] = list(row["notes"])
    if read:
        metadata[_READ] = read
    trace_id = f"{row['session_id']}:{row['turn_id']}"
    made = [_message(m) for m in messages]
    called = [_tool_call(c) for c in calls]
    common: dict[str, Any] = {
        "trace_id": trace_id,
        "session_id": row["session_id"],
        "metadata": metadata,
    }
    tokens = {n: _whole(row[n]) for n in ("input_tokens", "output_tokens")}
    if row["topology"] == "single":
        if row["workflow_status"] is not None:
            metadata["workflow_status"] = row["workflow_status"]
        return AgentTrace(
            messages=made,
            tool_calls=called,
            latency=row["latency_s"],
            cost=row["cost_usd"],
            **tokens,
            **common,
        )
    lanes, timeline, nobody = _lanes(row["agents"], made, called, messages)
    return MultiAgentTrace(
        agent_traces=lanes,
        user_messages=nobody,
        timeline=timeline,
        coordination_events=[
            CoordinationEvent(
                from_agent=h.from_agent,
                to_agent=h.to_agent,
                event_type=h.event_type,
                message=h.message,
            )
            for h in handoffs
        ],
        workflow_status=row["workflow_status"],
        total_latency=row["latency_s"],
        total_cost=row["cost_usd"],
        total_input_tokens=tokens["input_tokens"],
        total_output_tokens=tokens["output_tokens"],
        **common,
    )


def _lanes(
    agents: Sequence[str],
    messages: Sequence[Message],
    calls: Sequence[ToolCall],
    rows: Sequence[MessageRow],
) -> tuple[dict[str, AgentTrace], list[Step], list[Message]]:
    names = list(dict.fromkeys([*agents, *(m.agent for m in messages if m.agent is not None)]))
    fallback = names[0] if names else "agent"
    names = list(dict.fromkeys([*names, *((c.agent or fallback) for c in calls)]))
    lanes = {name: AgentTrace(trace_id=name) for name in names}
    nobody: list[Message] = []
    timeline: list[Step] = []
    for message in messages:
        lane = nobody if message.agent is None else lanes[message.agent].messages
        owner = USER_LANE if message.agent is None else message.agent
        timeline.append(Step(agent=owner, kind="message", position=len(lane)))
        lane.append(message)
    for call in calls:
        made = lanes[call.agent or fallback].tool_calls
        owner = call.agent or fallback
        timeline.append(Step(agent=owner, kind="tool_call", position=len(made)))
        made.append(call)
    for name, lane in lanes.items():
        mine = [r for r in rows if r.agent == name]
        lane.input_tokens = _known_sum([r.input_tokens for r in mine])
        lane.output_tokens = _known_sum([r.output_tokens for r in mine])
    return lanes, timeline, nobody


def _message(row: MessageRow) -> Message:
    return Message(
        role=cast("Role", row.role),
        content=row.content,
        agent=row.agent,
        reasoning=row.reasoning,
        message_id=row.message_id,
        tool_call_id=row.tool_call_id,
        is_error=row.is_error,
        is_synthetic=row.is_synthetic,
        input_tokens=row.input_tokens,
        output_tokens=row.output_tokens,
    )


def _tool_call(row: CallRow) -> ToolCall:
    return ToolCall(
        name=row.name,
        arguments=loads_exactly(row.arguments) if row.arguments is not None else {},
        id=row.tool_call_id,
        result=row.result,
        status=cast("CallStatus", row.status),
        agent=row.agent,
        raw_arguments=row.raw_arguments,
        message_index=row.message_index,
    )


def _whole(value: float | None) -> int | float | None:
    return (
        int(value) if value is not None and math.isfinite(value) and value.is_integer() else value
    )
