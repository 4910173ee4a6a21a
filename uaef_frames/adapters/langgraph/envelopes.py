"""Takes stream events out of their envelopes, into records of mode, namespace and data.

It must not know what a message looks like inside, or which of several modes is to be read.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from uaef_frames.adapters.langgraph.messages import (
    HOW_TO_SERIALISE,
    Unreadable,
    is_message,
    looks_stringified,
)
from uaef_frames.adapters.langgraph.shapes import (
    Fields,
    attributes,
    describe,
    is_fields,
    is_items,
)
from uaef_frames.canonical import canonical_json, scrub

if TYPE_CHECKING:
    from collections.abc import Sequence

Ns = tuple[str, ...]

MODES = frozenset(
    {
        "values",
        "updates",
        "messages",
        "messages-tuple",
        "custom",
        "checkpoints",
        "tasks",
        "debug",
        "events",
        "tools",
        "lifecycle",
    }
)
"""Stream modes of the library and of the server, by the names under which events carry them."""

_CONTROL = frozenset({"metadata", "error", "end", "heartbeat", "feedback", "checkpoint"})
_DEBUG_TYPES = frozenset({"task", "task_result", "checkpoint"})
_TASK_EVIDENCE = ("triggers", "interrupts", "error", "result")
_NO_FAILURE = ("ParentCommand", "GraphInterrupt", "NodeInterrupt", "GraphBubbleUp")
"""Exceptions that LangGraph raises as control flow: a handoff or an interrupt, not an error."""


@dataclass(slots=True)
class Record:
    """One readable part of an event."""

    index: int
    mode: str
    ns: Ns
    data: Any


@dataclass(slots=True)
class Opened:
    """The events of a turn without their envelopes.

    `ignored` counts, by mode, events that carry no conversation. `interrupts` are (event index,
    what was asked). `task_agents` tells the agent's name by task id.
    """

    messages_key: str
    records: list[Record] = field(default_factory=list[Record])
    interrupts: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    failures: list[str] = field(default_factory=list[str])
    ignored: dict[str, int] = field(default_factory=dict[str, int])
    task_agents: dict[str, str] = field(default_factory=dict[str, str])

    def ignore(self, mode: str) -> None:
        """Count an event that carries no conversation."""
        self.ignored[mode] = self.ignored.get(mode, 0) + 1


def open_events(events: list[Any], messages_key: str) -> Opened:
    """Take every event of a turn out of its envelope.

    Raises:
        Unreadable: An event has no known form; the text names its index and what it looks like.
    """
    opened = Opened(messages_key)
    for index, event in enumerate(events):
        _open(event, (), index, opened)
    return opened


def _open(event: Any, ns: Ns, index: int, opened: Opened) -> None:
    if is_fields(event):
        _open_mapping(event, ns, index, opened)
    elif is_items(event):
        _open_sequence(event, ns, index, opened)
    elif is_message(event):
        opened.records.append(Record(index, "bare", ns, event))
    elif (fields := attributes(event)) is not None and opened.messages_key in fields:
        _open_state(fields, ns, index, opened)  # a state that is a pydantic model or dataclass
    else:
        raise _not_understood(event, index)


def _open_mapping(event: Fields, ns: Ns, index: int, opened: Opened) -> None:
    lone = next(iter(event.values())) if len(event) == 1 else None
    if type(lone) is dict and opened.messages_key not in event:  # {node: {...}}, by far the most
        _open_updates(event, ns, index, opened)
        return
    name, kind = event.get("event"), event.get("type")
    if isinstance(name, str):
        if name.startswith("on_"):
            opened.records.append(Record(index, "events", ns, event))
            return
        if "data" in event:
            _open_named(name, event["data"], ns, index, opened)
            return
    if isinstance(kind, str) and _open_typed(kind, event, ns, index, opened):
        return
    if is_message(event):
        opened.records.append(Record(index, "bare", ns, event))
    elif _is_task(event):
        _open_task(event, ns, index, opened)
    elif _is_state(event, opened.messages_key):
        _open_state(event, ns, index, opened)
    else:
        _open_updates(event, ns, index, opened)


def _open_typed(kind: str, event: Fields, ns: Ns, index: int, opened: Opened) -> bool:
    """Envelopes that say their kind: version 2 parts, debug events, version 3 protocol events."""
    if "ns" in event and "data" in event:
        _note_interrupts(event.get("interrupts"), index, opened)
        _open_mode(kind, event["data"], _ns(event["ns"]) or ns, index, opened)
        return True
    if "payload" in event and kind in _DEBUG_TYPES:
        _open_debug(event, ns, index, opened)
        return True
    params = event.get("params")
    if kind == "event" and is_fields(params):
        _note_interrupts(params.get("interrupts"), index, opened)
        method, data = str(event.get("method")), params.get("data")
        inner = _ns(params.get("namespace")) or ns
        if method in ("messages", "tools"):
            mode = "protocol" if method == "messages" else "tools"
            opened.records.append(Record(index, mode, inner, data))
        else:
            _open_mode(method, data, inner, index, opened)
        return True
    return False


def _open_sequence(event: Sequence[Any], ns: Ns, index: int, opened: Opened) -> None:
    size = len(event)
    first = event[0] if size else None
    if size in (2, 3) and isinstance(first, str):
        mode = first.partition("|")[0]
        if mode in MODES or mode in _CONTROL or mode.startswith("messages/"):
            _open_named(first, event[1], ns, index, opened)
            return
    if size == 2:
        if _is_message_tuple(event):
            opened.records.append(Record(index, "messages", ns, event))
            return
        if _is_ns(first):
            _open(event[1], _ns(first) or ns, index, opened)
            return
    if size == 3 and _is_ns(first) and isinstance(event[1], str):
        _open_mode(event[1], event[2], _ns(first) or ns, index, opened)
        return
    if is_message(event):
        opened.records.append(Record(index, "bare", ns, event))
        return
    raise _not_understood(event, index)


def _open_named(name: str, data: Any, ns: Ns, index: int, opened: Opened) -> None:
    """A server event: its name is the mode and, behind bars, the namespace."""
    mode, *path = name.split("|")
    _open_mode(mode, data, tuple(path) or ns, index, opened)


def _open_mode(mode: str, data: Any, ns: Ns, index: int, opened: Opened) -> None:
    if mode == "updates" and is_fields(data):
        _open_updates(data, ns, index, opened)
    elif mode == "values" and data is not None:
        state = data if is_fields(data) else attributes(data)
        if state is None:
            opened.ignore(mode)
        else:
            _open_state(state, ns, index, opened)
    elif mode in ("messages", "messages-tuple") and is_items(data):
        opened.records.append(Record(index, "messages", ns, data))
    elif mode.startswith("messages/"):
        opened.records.append(Record(index, mode, ns, data))
    elif mode == "tasks" and is_fields(data):
        _open_task(data, ns, index, opened)
    elif mode == "debug" and is_fields(data) and "payload" in data:
        _open_debug(data, ns, index, opened)
    elif mode == "events" and is_fields(data):
        opened.records.append(Record(index, "events", ns, data))
    elif mode == "error":
        _note_failure(data, opened)
    else:
        if mode == "lifecycle" and is_fields(data):
            _note_failure(data.get("error"), opened)
        if mode not in _CONTROL:
            opened.ignore(mode[:40])


def _open_updates(data: Fields, ns: Ns, index: int, opened: Opened) -> None:
    if any(type(key) is not str for key in data):
        raise _not_understood(data, index)
    if "__interrupt__" in data:
        _note_interrupts(data["__interrupt__"], index, opened, static=True)
    if "__human__" in data:
        opened.records.append(Record(index, "human", ns, {"__human__": data["__human__"]}))
        data = {k: v for k, v in data.items() if k != "__human__"}
    if data:
        opened.records.append(Record(index, "updates", ns, data))


def _open_state(state: Fields, ns: Ns, index: int, opened: Opened) -> None:
    if "__interrupt__" in state:
        _note_interrupts(state["__interrupt__"], index, opened, static=True)
    opened.records.append(Record(index, "values", ns, state))


def _open_debug(event: Fields, ns: Ns, index: int, opened: Opened) -> None:
    payload = event["payload"]
    if event.get("type") == "checkpoint" or not is_fields(payload):
        opened.ignore("checkpoints")
    else:
        _open_task(payload, ns, index, opened)


def _open_task(task: Fields, ns: Ns, index: int, opened: Opened) -> None:
    """A finished task is read; a started one only tells its agent's name (its input is history)."""
    if "result" in task or "error" in task or "interrupts" in task:
        _note_interrupts(task.get("interrupts"), index, opened)
        _note_failure(task.get("error"), opened)
        opened.records.append(Record(index, "tasks", ns, task))
        return
    meta, task_id = task.get("metadata"), task.get("id")
    agent = meta.get("lc_agent_name") if is_fields(meta) else None
    if isinstance(agent, str) and isinstance(task_id, str):
        opened.task_agents[task_id] = agent
    opened.ignore("tasks")


def _is_task(event: Fields) -> bool:
    return (
        "id" in event
        and isinstance(event.get("name"), str)
        and ("input" in event or "result" in event or "error" in event)
        and any(key in event for key in _TASK_EVIDENCE)
    )


def _is_state(event: Fields, key: str) -> bool:
    """A whole state has messages straight under the key; under a node of that name is an update."""
    if key not in event:
        return False
    held = event[key]
    if is_items(held):
        return not held or isinstance(held[0], str) or is_message(held[0]) or is_message(held)
    return is_message(held)


def _is_message_tuple(pair: Sequence[Any]) -> bool:
    meta = pair[1]
    return is_fields(meta) and "langgraph_node" in meta


def _is_ns(value: object) -> bool:
    return is_items(value) and all(isinstance(part, str) for part in value)


def _ns(value: Any) -> Ns:
    if isinstance(value, str):
        return tuple(value.split("|")) if value else ()
    return tuple(map(str, value)) if is_items(value) else ()


def _note_interrupts(value: Any, index: int, opened: Opened, static: bool = False) -> None:
    """`static`: the key alone says it (interrupt_before and interrupt_after carry no value)."""
    if value is None:
        return
    items = list(value) if is_items(value) else [value]
    if not items and static:
        opened.interrupts.append((index, ""))
    opened.interrupts += [(index, _question(item)) for item in items]


def _question(interrupt: Any) -> str:
    if is_fields(interrupt):
        value = interrupt.get("value", interrupt.get("repr", interrupt))
    else:
        value = getattr(interrupt, "value", interrupt)
    return scrub(value) if isinstance(value, str) else canonical_json(value)


def _note_failure(error: Any, opened: Opened) -> None:
    if not error:
        return
    text = scrub(error) if isinstance(error, str) else canonical_json(error)
    kind = type(error).__name__
    if not kind.startswith(_NO_FAILURE) and not text.lstrip('"').startswith(_NO_FAILURE):
        opened.failures.append(text[:300])


def _not_understood(event: Any, index: int) -> Unreadable:
    if isinstance(event, str) and (
        looks_stringified(event) or "Message(" in event or "additional_kwargs=" in event
    ):
        return Unreadable(f"event {index}: {HOW_TO_SERIALISE}")
    return Unreadable(
        f"event {index} is not a LangGraph stream event: {describe(event)}; pass what"
        " graph.stream(...) yields, for instance with stream_mode='updates'"
    )
