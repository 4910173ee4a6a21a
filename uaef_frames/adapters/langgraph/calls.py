"""Reads the tool calls of a message, in any provider's shape, into call rows.

It must not know what came of a call, or who made it.
"""

from __future__ import annotations

from typing import cast

from uaef_frames.adapters.langgraph.shapes import Fields, is_fields, is_items
from uaef_frames.canonical import canonical_json, loads, scrub
from uaef_frames.rows import CallRow

_CALL_BLOCKS = frozenset({"tool_use", "function_call", "tool_call"})


def read_calls(message: Fields, extra: Fields | None, content: object) -> list[CallRow]:
    """The calls of a message, then its malformed ones.

    The raw forms (`additional_kwargs`, content blocks) repeat what `tool_calls` and
    `invalid_tool_calls` say, so they are read only where both are empty.
    """
    calls = [read_call(c) for c in _items(message.get("tool_calls"))]
    invalid = _items(message.get("invalid_tool_calls"))
    if not invalid and extra is not None:
        invalid = _items(extra.get("invalid_tool_calls"))
    if invalid:
        calls += map(_read_invalid, invalid)
    if calls:
        return calls
    if extra is not None:
        raw = _items(extra.get("tool_calls")) or _items(extra.get("function_call"))
        if raw:
            return [read_call(c) for c in raw]
    if isinstance(content, list):
        blocks = [block for block in cast("list[object]", content) if is_fields(block)]
        return [read_call(block) for block in blocks if _is_call(block)]
    return calls


def read_call(call: Fields) -> CallRow:
    """One call: LangChain's `{name, args, id}`, OpenAI's `{id, function}`, or a content block."""
    if "args" in call:
        return make_call(call.get("name"), call["args"], call.get("id"))
    function = call.get("function")
    if is_fields(function):
        return make_call(function.get("name"), function.get("arguments"), call.get("id"))
    arguments = call["input"] if "input" in call else call.get("arguments")
    return make_call(call.get("name"), arguments, call.get("call_id") or call.get("id"))


def make_call(name: object, arguments: object, call_id: object) -> CallRow:
    """A call row; arguments that are not a JSON object, or the text of one, make it invalid."""
    row = CallRow(_text(name) or "", tool_call_id=_text(call_id))
    if type(arguments) is dict:
        row.arguments = canonical_json(cast("object", arguments)) if arguments else "{}"
    elif arguments is None:
        row.arguments = "{}"
    elif is_fields(arguments):
        row.arguments = canonical_json(dict(arguments))
    elif isinstance(arguments, str):
        _parse_into(row, arguments)
    else:
        _reject(row, canonical_json(arguments))
    return row


def _parse_into(row: CallRow, text: str) -> None:
    if not text or text.isspace():  # what providers write for a tool without parameters
        row.arguments = "{}"
        return
    try:
        value = loads(text)
    except ValueError:
        _reject(row, scrub(text))
        return
    if isinstance(value, dict):
        row.arguments = canonical_json(cast("dict[str, object]", value))
    else:
        _reject(row, scrub(text))


def _reject(row: CallRow, raw: str) -> None:
    row.arguments, row.raw_arguments, row.status = None, raw, "invalid"


def _read_invalid(call: Fields) -> CallRow:
    row = CallRow(_text(call.get("name")) or "", tool_call_id=_text(call.get("id")))
    raw = call.get("args")
    _reject(row, scrub(raw) if isinstance(raw, str) else "" if raw is None else canonical_json(raw))
    return row


def _items(value: object) -> list[Fields]:
    if not value:
        return []
    if not is_items(value):
        return [value] if is_fields(value) else []
    return [call if is_fields(call) else _dumped(call) for call in value]


def _is_call(block: Fields) -> bool:
    kind = block.get("type")
    return isinstance(kind, str) and kind in _CALL_BLOCKS


def _dumped(call: object) -> Fields:
    """A live call object of an SDK as its fields; anything else as a call that says nothing."""
    dump = getattr(call, "model_dump", None)
    fields = dump() if callable(dump) else None
    return fields if is_fields(fields) else {"args": call}


def _text(value: object) -> str | None:
    if isinstance(value, str):
        return value if value.isascii() else scrub(value)
    return str(value) if isinstance(value, int) else None
