"""Turns the content of a message, text or blocks of any provider, into text and reasoning.

It must not know who wrote the message, or what a tool call is.
"""

from __future__ import annotations

from uaef_frames.adapters.langgraph.shapes import Fields, is_fields, is_items
from uaef_frames.canonical import canonical_json, scrub

_TEXT_BLOCKS = frozenset({"text", "output_text", "input_text"})
_OTHER_BLOCKS = frozenset(
    {
        "image",
        "image_url",
        "input_image",
        "audio",
        "input_audio",
        "video",
        "file",
        "input_file",
        "document",
        "search_result",
        "custom_tool_call_output",
        "json",
        "media",
        "thinking",
        "reasoning",
        "text-plain",
        "non_standard",
    }
)
"""Blocks that a tool may answer with beside text; a list of anything else is the tool's data."""

_PAYLOADS = frozenset(
    {"base64", "url", "image_url", "source", "source_type", "file_id", "data", "input_audio"}
)
"""Keys under which a block that is not text carries what it shows."""


def text_of(content: object) -> str:
    """What a person reads: text and text blocks, joined as they stand."""
    if content is None:
        return ""
    if isinstance(content, str):
        return scrub(content)
    if is_items(content):
        return scrub("".join(map(_block_text, content)))
    if is_fields(content) and (found := _block_text(content)):
        return scrub(found)
    return canonical_json(content)


def tool_text_of(content: object) -> str:
    """What a tool answered: as `text_of`, but data that is no content block is JSON text."""
    if content is None or isinstance(content, str):
        return text_of(content)
    if is_fields(content):
        return text_of(content) if _is_block(content) else canonical_json(content)
    if not is_items(content):
        return canonical_json(content)
    items = list(content)
    if not all(isinstance(item, str) or _is_block(item) for item in items):
        return canonical_json(items)
    text = text_of([_unpacked(item) for item in items])
    # A tool may list things that merely look like blocks ({"type": "file", "name": ...}).
    return text or ("" if items and all(map(_is_media, items)) else canonical_json(items))


def reasoning_of(content: object, extra: Fields | None, message: Fields) -> str | None:
    """What the model thought aloud: reasoning blocks, else the keys in which providers put it."""
    found: list[str] = []
    for block in content if is_items(content) else ():
        if is_fields(block):
            found += _block_reasoning(block)
    if not found:
        for holder in (extra, message):
            if holder is not None:
                found += _reasoning_field(holder)
    return scrub("\n".join(found)) if found else None


def _block_text(block: object) -> str:
    if isinstance(block, str):
        return block
    if not is_fields(block):
        return ""
    kind, text = block.get("type"), block.get("text")
    if not isinstance(text, str):
        return ""
    # Bedrock writes {"text": ...} without a type.
    return text if kind is None or (isinstance(kind, str) and kind in _TEXT_BLOCKS) else ""


def _is_block(item: object) -> bool:
    if not is_fields(item):
        return False
    kind = item.get("type")
    if not isinstance(kind, str):
        return False
    if kind in _TEXT_BLOCKS:
        return isinstance(item.get("text"), str)
    return kind in _OTHER_BLOCKS


def _is_media(item: object) -> bool:
    return is_fields(item) and not _PAYLOADS.isdisjoint(item)


def _unpacked(item: object) -> object:
    """A JSON block as the text of its value; anything else as it is."""
    if is_fields(item) and item.get("type") == "json" and "json" in item:
        return canonical_json(item["json"])
    return item


def _block_reasoning(block: Fields) -> list[str]:
    kind = block.get("type")
    if kind == "thinking":
        return _texts(block.get("thinking"))
    if kind != "reasoning":
        return []
    for name in ("reasoning", "text", "summary", "content"):
        found = _texts(block.get(name))
        if found:
            return found
    return []


def _reasoning_field(holder: Fields) -> list[str]:
    found = _texts(holder.get("reasoning_content"))
    if found:
        return found
    held = holder.get("reasoning")
    return _texts(held.get("summary") if is_fields(held) else held)


def _texts(value: object) -> list[str]:
    if isinstance(value, str):
        return [value] if value else []
    found: list[str] = []
    for item in value if is_items(value) else ():
        text = item.get("text") if is_fields(item) else item
        if isinstance(text, str) and text:
            found.append(text)
    return found
