"""Builds LangGraph messages, events and turns for tests, and reads them; nothing here asserts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from uaef_frames.adapters.langgraph.payloads import group_payloads
from uaef_frames.adapters.langgraph.reader import ReadOptions, read_session

if TYPE_CHECKING:
    from uaef_frames.rows import SessionRows, TurnRow

Event = Any


def human(text: Any, id: str | None = None, **more: Any) -> dict[str, Any]:
    return {"type": "human", "content": text, "id": id, **more}


def ai(
    text: Any = "", id: str | None = None, *calls: dict[str, Any], **more: Any
) -> dict[str, Any]:
    usage = more.pop("usage", None)
    if usage is not None:
        more["usage_metadata"] = {"input_tokens": usage[0], "output_tokens": usage[1]}
    return {"type": "ai", "content": text, "id": id, "tool_calls": list(calls), **more}


def call(name: str, id: str | None, **args: Any) -> dict[str, Any]:
    return {"name": name, "args": args, "id": id, "type": "tool_call"}


def tool(text: Any, call_id: str | None, id: str | None = None, **more: Any) -> dict[str, Any]:
    return {"type": "tool", "content": text, "tool_call_id": call_id, "id": id, **more}


def asked(text: str, id: str | None = None) -> Event:
    return {"__human__": {"messages": [human(text, id)]}}


def update(node: str, *messages: Any, **state: Any) -> Event:
    return {node: {"messages": list(messages), **state}}


def read(*turns: list[Event], options: ReadOptions | None = None, **payload: Any) -> SessionRows:
    payloads = [
        {"session_id": "s", "turn_id": i, "stream_events": events, **payload}
        for i, events in enumerate(turns, 1)
    ]
    [(session_id, checked)] = group_payloads(payloads)
    return read_session(session_id, checked, options or ReadOptions())


def read_turn(*events: Event, options: ReadOptions | None = None, **payload: Any) -> TurnRow:
    return read(list(events), options=options, **payload).turns[0]


def said(turn: TurnRow) -> list[tuple[str, str]]:
    return [(m.role, m.content) for m in turn.messages]


def called(turn: TurnRow) -> list[tuple[str, str | None, str, str | None]]:
    return [(c.name, c.arguments, c.status, c.result) for c in turn.tool_calls]


def passed(turn: TurnRow) -> list[tuple[str | None, str | None, str]]:
    return [(h.from_agent, h.to_agent, h.event_type) for h in turn.handoffs]
