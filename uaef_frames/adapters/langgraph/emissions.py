"""What a node emitted, as one `Emission`: any value that can stand under a node's key.

It must not know in which envelope the value came, or what was emitted before it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeGuard, cast

from uaef_frames.adapters.langgraph.messages import (
    HOW_TO_SERIALISE,
    Msg,
    Unreadable,
    is_message,
    looks_stringified,
    read_message,
)
from uaef_frames.adapters.langgraph.shapes import (
    Fields,
    attributes,
    describe,
    is_fields,
    is_items,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

HUMAN = "human"
UPDATE = "update"
STATE = "state"
MESSAGE = "message"

_COMMAND_KEYS = frozenset({"graph", "update", "resume", "goto"})
_NOT_CONVERSATION = frozenset({"llm_input_messages"})
"""State keys that copy the history for a model call."""

_BRACKETS = "[({'\": mesag"
"""What may stand before a message in the text of a whole update."""


@dataclass(slots=True)
class Emission:
    """Messages that came out together, and what else was said with them.

    `kind` is ``human`` (the caller's own `__human__`), ``update`` (new or re-emitted messages of a
    node), ``state`` (a whole thread) or ``message`` (one message of a message stream). `event` is
    the index of the event that completed it.
    """

    kind: str
    event: int
    node: str | None = None
    ns: tuple[str, ...] = ()
    messages: Sequence[Msg] = ()
    agent: str | None = None
    active_agent: str | None = None
    structured: bool = False
    edited_calls: Fields | None = None


@dataclass(slots=True)
class Unread:
    """What nodes emitted beside messages, to say so when nothing else could be read."""

    nodes: list[str] = field(default_factory=list[str])
    kinds: list[str] = field(default_factory=list[str])
    message_keys: list[str] = field(default_factory=list[str])

    def note(self, node: str, value: object, messages_key: str) -> None:
        """Remember a value in which no messages were found."""
        if node not in self.nodes:
            self.nodes.append(node)
        if not is_fields(value):
            self._remember(self.kinds, type(value).__name__)
            return
        for key, held in value.items():
            if key in _NOT_CONVERSATION or key == messages_key:
                continue
            self._remember(self.kinds, f"key {str(key)[:60]!r}")
            if is_items(held) and held and is_message(held[0]):
                self._remember(self.message_keys, str(key))

    @staticmethod
    def _remember(where: list[str], what: str) -> None:
        if what not in where and len(where) < 8:
            where.append(what)


def read_node_value(emission: Emission, value: object, key: str, unread: Unread) -> None:
    """Fill an emission with what a node's value holds.

    A value may be a state update, a list of updates, a Command, a bare message or a list of them;
    messages stand under `key`, or under ``messages`` where that key is absent.
    """
    if value is None:
        return
    if is_fields(value):
        _read_mapping(emission, value, key, unread)
    elif is_items(value) and not is_message(value):
        for item in value:
            if _is_channel_pair(item, key):
                _read_mapping(emission, {item[0]: item[1]}, key, unread)
            else:
                read_node_value(emission, item, key, unread)
    elif is_message(value):
        _add(emission, _read_item(value, emission))
    else:
        _read_object(emission, value, key, unread)


def read_message_list(value: object, emission: Emission) -> list[Msg]:
    """Messages under a messages key: a list, one message, text, an Overwrite or folded writes."""
    if value is None:
        return []
    if is_items(value):
        if not value or type(value[0]) is not str or not is_message(value):
            return [m for item in value for m in _read_item(item, emission)]
        return [read_message(value)]
    if isinstance(value, str) or is_message(value):
        return _read_item(value, emission)
    inside = _overwritten(value)
    if inside is not None:
        emission.kind = STATE if emission.kind == UPDATE else emission.kind
        return read_message_list(inside[0], emission)
    writes = value.get("$writes") if is_fields(value) else None
    if is_items(writes):
        return [m for write in writes for m in read_message_list(write, emission)]
    raise Unreadable(f"messages expected, {describe(value)} found")


def _read_item(item: object, emission: Emission) -> list[Msg]:
    if item is None:
        return []
    if _overwritten(item) is not None:
        return read_message_list(item, emission)
    msg = read_message(item)
    if msg.role != "remove":
        return [msg]
    if msg.id == "__remove_all__" and emission.kind == UPDATE:
        emission.kind = STATE  # what follows is the whole thread anew
    return []


def _read_mapping(emission: Emission, value: Fields, key: str, unread: Unread) -> None:
    if key not in value:
        if is_message(value):
            _add(emission, _read_item(value, emission))
            return
        if "goto" in value and _COMMAND_KEYS.issuperset(value):
            read_node_value(emission, value.get("update"), key, unread)
            return
    held = value[key] if key in value else value.get("messages")
    if held is not None:
        _add(emission, read_message_list(held, emission))
    elif emission.node is not None and key not in value:
        unread.note(emission.node, value, key)
    if len(value) == 1:
        return
    active = value.get("active_agent")
    if isinstance(active, str) and active:
        emission.active_agent = active
    if value.get("structured_response") is not None:
        emission.structured = True
    edited = value.get("hitl_edited_tool_calls")
    if is_fields(edited) and edited:
        emission.edited_calls = edited


def _read_object(emission: Emission, value: object, key: str, unread: Unread) -> None:
    if isinstance(value, str) and looks_stringified(value.lstrip(_BRACKETS)):
        raise Unreadable(HOW_TO_SERIALISE)
    inside = _overwritten(value)
    fields = attributes(value)
    if inside is not None:
        _add(emission, read_message_list(inside[0], emission))
    elif hasattr(value, "goto"):
        read_node_value(emission, getattr(value, "update", None), key, unread)
    elif fields is not None:
        _read_mapping(emission, fields, key, unread)
    elif emission.node is not None:
        unread.note(emission.node, value, key)


def _add(emission: Emission, msgs: list[Msg]) -> None:
    emission.messages = [*emission.messages, *msgs] if emission.messages else msgs


def _overwritten(value: object) -> tuple[object] | None:
    """The value inside an Overwrite, live or serialised, in a tuple of one; None for all else."""
    if is_fields(value):
        if "__overwrite__" in value:
            return (value["__overwrite__"],)
        marked = value.get("type") == "__overwrite__" or len(value) == 1
        return (value["value"],) if marked and is_items(value.get("value")) else None
    if type(value).__name__ == "Overwrite" and hasattr(value, "value"):
        return (cast("Any", value).value,)
    return None


def _is_channel_pair(item: object, key: str) -> TypeGuard[Sequence[Any]]:
    """Whether an item is LangGraph 0.4's `("messages", [...])` in a task result."""
    return is_items(item) and len(item) == 2 and item[0] in (key, "messages")
