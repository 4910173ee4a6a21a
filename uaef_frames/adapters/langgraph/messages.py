"""Reads one message, in any form LangChain, LangGraph or OpenAI give it, into a `Msg`.

It must not know about events, nodes, turns or sessions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from uaef_frames.adapters.langgraph.calls import read_calls
from uaef_frames.adapters.langgraph.content import reasoning_of, text_of, tool_text_of
from uaef_frames.adapters.langgraph.shapes import (
    Fields,
    attributes,
    describe,
    is_fields,
    is_items,
)
from uaef_frames.canonical import scrub

if TYPE_CHECKING:
    from collections.abc import Sequence

    from uaef_frames.rows import CallRow

HOW_TO_SERIALISE = (
    "a message was stored as its str or repr, from which it cannot be read back; serialise events"
    " with langchain_core.messages.messages_to_dict, langchain_core.load.dumps, or m.model_dump()"
)
SUMMARY_OPENING = "Here is a summary of the conversation to date:"

_ROLES = {
    "user": ("human", "user"),
    "assistant": ("ai", "assistant", "model"),
    "tool": ("tool", "function"),
    "system": ("system", "developer"),
    "remove": ("remove",),
    "chat": ("chat",),
}
_CLASSES = {
    "user": ("HumanMessage",),
    "assistant": ("AIMessage",),
    "tool": ("ToolMessage", "FunctionMessage"),
    "system": ("SystemMessage",),
    "remove": ("RemoveMessage",),
    "chat": ("ChatMessage",),
}
_KINDS: dict[str, tuple[str, bool]] = {
    **{kind: (role, False) for role, kinds in _ROLES.items() for kind in kinds},
    **{name: (role, False) for role, names in _CLASSES.items() for name in names},
    **{f"{name}Chunk": (role, True) for role, names in _CLASSES.items() for name in names},
}
"""What `type`, `role` or the class name of a message says: its role, and whether it is a chunk."""

_REPR_OPENINGS = tuple(f"{name}(" for name in _KINDS if name[0].isupper())
_MAX_INT = 2**63 - 1


class Unreadable(ValueError):
    """Something that cannot be read, said in words for the person who recorded it."""


@dataclass(slots=True)
class Msg:
    """One message. `calls` holds tool calls and, as status ``invalid``, malformed ones.

    `role` is ``user``, ``assistant``, ``system``, ``tool`` or ``remove``. `lc_source` names the
    part of the harness that wrote the message. `fragments` are a chunk's partial tool calls.
    """

    role: str
    text: str = ""
    reasoning: str | None = None
    id: str | None = None
    name: str | None = None
    calls: Sequence[CallRow] = ()
    tool_call_id: str | None = None
    is_error: bool = False
    input_tokens: int | None = None
    output_tokens: int | None = None
    lc_source: str | None = None
    handoff_to: str | None = None
    handoff_back: bool = False
    is_chunk: bool = False
    fragments: list[Fields] | None = None


def read_message(value: object) -> Msg:
    """The message that `value` is.

    Raises:
        Unreadable: It is none, or was stored in a way that lost what it said.
    """
    if type(value) is dict:
        flat = cast("dict[str, Any]", value)
        kind = flat.get("type")
        if type(kind) is str and kind in _KINDS and "content" in flat:
            role, is_chunk = _KINDS[kind]
            return _build(flat, role, is_chunk)
    item = cast("object", value)
    if isinstance(item, str):
        if looks_stringified(item):
            raise Unreadable(HOW_TO_SERIALISE)
        return Msg("user", scrub(item))
    found = _unwrap(item)
    if found is None:
        raise Unreadable(f"no message can be read from {describe(item)}")
    return _build(*found)


def is_message(value: object) -> bool:
    """Whether `value` has the form of a message; plain text has not, as it may be anything."""
    return not isinstance(value, str) and _unwrap(value) is not None


def looks_stringified(text: str) -> bool:
    """Whether a text is what `str` or `repr` make of a message, or of what holds messages."""
    text = text.lstrip("[(")
    if text.startswith(_REPR_OPENINGS):
        return "content=" in text or "id=" in text
    if text.startswith(("Overwrite(", "Command(")):
        return "Message(" in text
    return text.startswith("content=") and (
        " additional_kwargs={" in text or " response_metadata={" in text
    )


def _unwrap(value: object) -> tuple[Fields, str, bool] | None:
    """Fields, role and chunk flag of a message in any form but plain text; None if it is none."""
    if is_fields(value):
        return _unwrap_mapping(value)
    if is_items(value):
        known = _kind(value[0]) if len(value) == 2 else None
        if known is None or known[0] == "remove" or not isinstance(value[1], str | list | None):
            return None
        return {"content": value[1], "role": value[0]}, *known
    fields = attributes(value)
    return None if fields is None else _unwrap_mapping(fields)


def _unwrap_mapping(value: Fields) -> tuple[Fields, str, bool] | None:
    kind = value.get("type")
    if kind == "constructor" and "lc" in value:
        return _unwrap_constructor(value)
    data = value.get("data")
    if is_fields(data) and "content" not in value:
        known = _kind(kind) or _kind(data.get("type"))
        return None if known is None or not _has_body(data, known[0]) else (data, *known)
    known = _kind(kind) or _kind(value.get("role"))
    return None if known is None or not _has_body(value, known[0]) else (value, *known)


def _unwrap_constructor(value: Fields) -> tuple[Fields, str, bool] | None:
    kwargs, path = value.get("kwargs"), value.get("id")
    if not is_fields(kwargs):
        return None
    known = _kind(kwargs.get("type"))
    if known is None and is_items(path) and path:
        known = _kind(path[-1])
    return None if known is None else (kwargs, *known)


def _kind(name: object) -> tuple[str, bool] | None:
    return _KINDS.get(name) if isinstance(name, str) else None


def _has_body(value: Fields, role: str) -> bool:
    return "content" in value or "tool_calls" in value or (role == "remove" and "id" in value)


def _build(value: Fields, role: str, is_chunk: bool) -> Msg:
    if role == "chat":
        role, spoken = _free_role(value)
    else:
        spoken = value.get("name")
    if role == "remove":
        return Msg(role, id=_text(value.get("id")))
    content = value.get("content")
    is_text = type(content) is str
    if is_text:
        msg = Msg(role, content if content.isascii() else scrub(content))
    else:
        msg = Msg(role, tool_text_of(content) if role == "tool" else text_of(content))
    held = value.get("id")
    if held is not None:
        msg.id = held if type(held) is str and held.isascii() else _text(held)
    if spoken is not None:
        msg.name = _text(spoken) or None
    extra = value.get("additional_kwargs")
    if extra is not None:
        extra = _mapping(extra)
    if role == "assistant":
        msg.calls = read_calls(value, extra, content)
        meta = _mapping(value.get("response_metadata"))
        msg.input_tokens, msg.output_tokens = _usage(value, extra, meta)
        if not is_text or extra is not None or "reasoning_content" in value or "reasoning" in value:
            msg.reasoning = reasoning_of(content, extra, value)
        if is_chunk:
            msg.is_chunk, msg.fragments = True, _fragments(value)
    else:
        meta = _mapping(value.get("response_metadata"))
        if role == "tool":
            msg.tool_call_id = _text(value.get("tool_call_id"))
            msg.is_error = value.get("status") == "error"
        elif role == "user" and msg.text.startswith(SUMMARY_OPENING):
            msg.lc_source = "summarization"
    if extra is not None and isinstance(source := extra.get("lc_source"), str):
        msg.lc_source = source
    if meta is not None:
        msg.handoff_to = _text(meta.get("__handoff_destination"))
        msg.handoff_back = meta.get("__is_handoff_back") is True
    return msg


def _free_role(value: Fields) -> tuple[str, object]:
    role = value.get("role")
    known = _kind(role)
    if known is not None and known[0] != "chat":
        return known[0], value.get("name")
    return "assistant", value.get("name") or role


def _text(value: object) -> str | None:
    if value is None:
        return None
    if type(value) is str:
        return value if value.isascii() else scrub(value)
    return scrub(str(value)) if isinstance(value, str | int) else None


def _mapping(value: object) -> Fields | None:
    if not value:
        return None
    return value if is_fields(value) else None


def _fragments(value: Fields) -> list[Fields] | None:
    found = value.get("tool_call_chunks")
    return [f for f in found if is_fields(f)] if is_items(found) else None


def _usage(
    value: Fields, extra: Fields | None, meta: Fields | None
) -> tuple[int | None, int | None]:
    """Tokens read and written, by the LangChain convention: cached ones are inside the first."""
    held = value.get("usage_metadata")
    if is_fields(held):
        found = _tokens(held)
        if found is not None:
            return found
    for holder, names in (
        (extra, ("usage_metadata",)),
        (meta, ("token_usage", "tokenUsage", "usage")),
        (value, ("usage",)),
    ):
        for name in names if holder is not None else ():
            held = cast("Fields", holder).get(name)
            if is_fields(held):
                found = _tokens(held, raw=True)
                if found is not None:
                    return found
    return None, None


def _tokens(usage: Fields, raw: bool = False) -> tuple[int | None, int | None] | None:
    read, written = usage.get("input_tokens"), usage.get("output_tokens")
    if type(read) is not int or type(written) is not int or max(read, written) > _MAX_INT:
        read = _first_count(usage, ("input_tokens", "prompt_tokens", "promptTokens", "inputTokens"))
        written = _first_count(
            usage, ("output_tokens", "completion_tokens", "completionTokens", "outputTokens")
        )
    if read is None and written is None:
        return None
    if raw and read is not None and "input_tokens" in usage:
        # Anthropic's own report leaves the cache out of input_tokens; LangChain's counts it in.
        for name in ("cache_read_input_tokens", "cache_creation_input_tokens"):
            read += _count(usage.get(name)) or 0
    return read, written


def _first_count(usage: Fields, names: tuple[str, ...]) -> int | None:
    for name in names:
        found = _count(usage.get(name))
        if found is not None:
            return found
    return None


def _count(value: object) -> int | None:
    if type(value) is int:
        return value if -_MAX_INT <= value <= _MAX_INT else None
    if isinstance(value, float) and value.is_integer() and abs(value) < _MAX_INT:
        return int(value)
    return None
