"""Joins into messages what a stream sends in pieces: chunks, partial messages, protocol blocks.

It must not know which stream mode is read, or what a turn is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from uaef_frames.adapters.langgraph.calls import make_call
from uaef_frames.adapters.langgraph.messages import Msg, read_message
from uaef_frames.adapters.langgraph.shapes import Fields, is_fields

if TYPE_CHECKING:
    from uaef_frames.rows import CallRow

_DELTAS = {
    "text-delta": "text",
    "reasoning-delta": "reasoning",
    "tool-call-delta": "tool_call_chunk",
}
"""Which block a delta of the event protocol grows, if its start was not recorded."""


@dataclass(slots=True)
class Origin:
    """Where a piece came from: node, namespace of its graph, and the agent's name if it is told."""

    node: str | None = None
    ns: tuple[str, ...] = ()
    agent: str | None = None
    internal: bool = False


@dataclass(slots=True)
class Piece:
    """One message in the making: its first and last event, and what has come of it."""

    first: int
    last: int
    origin: Origin
    whole: Msg | None = None
    chunks: list[Msg] = field(default_factory=list[Msg])

    def message(self) -> Msg:
        """The message: the whole one where it was sent, as it repeats the chunks."""
        return self.whole if self.whole is not None else join(self.chunks)


class Assembly:
    """Pieces of many messages, in the order in which each message began."""

    def __init__(self) -> None:
        self.pieces: list[Piece] = []
        self._by_id: dict[str, Piece] = {}

    def add(self, msg: Msg, index: int, origin: Origin) -> None:
        """Take one more piece; one without an id continues the chunk just before it."""
        piece = self._by_id.get(msg.id) if msg.id is not None else self._continued(msg, origin)
        if piece is None:
            piece = Piece(index, index, origin)
            self.pieces.append(piece)
            if msg.id is not None:
                self._by_id[msg.id] = piece
        piece.last = index
        if msg.is_chunk:
            piece.chunks.append(msg)
        else:
            piece.whole = msg  # a later partial message holds all of the earlier ones

    def _continued(self, msg: Msg, origin: Origin) -> Piece | None:
        if not msg.is_chunk or not self.pieces:
            return None
        last = self.pieces[-1]
        open_chunk = last.whole is None and bool(last.chunks) and last.chunks[-1].id is None
        return last if open_chunk and last.origin == origin else None


def origin_of(meta: Fields, ns: tuple[str, ...]) -> Origin:
    """The origin that the metadata of a message or event tells."""
    node = meta.get("langgraph_node")
    agent = meta.get("lc_agent_name")
    if not ns:
        path = meta.get("langgraph_checkpoint_ns")
        if isinstance(path, str) and "|" in path:
            ns = tuple(path.split("|")[:-1])
    # Middleware marks the model calls that it makes for itself: no part of the conversation.
    internal = "lc_internal_call" in meta or isinstance(meta.get("lc_source"), str)
    return Origin(
        node if isinstance(node, str) else None,
        ns,
        agent if isinstance(agent, str) and agent else None,
        internal,
    )


def join(chunks: list[Msg]) -> Msg:
    """The message that chunks add up to; usage that is spread over them is summed."""
    first = chunks[0]
    msg = Msg(first.role, id=first.id)
    msg.text = "".join(c.text for c in chunks)
    msg.reasoning = "".join(c.reasoning for c in chunks if c.reasoning) or None
    for chunk in chunks:
        msg.name = msg.name or chunk.name
        msg.lc_source = msg.lc_source or chunk.lc_source
        msg.tool_call_id = msg.tool_call_id or chunk.tool_call_id
        msg.is_error = msg.is_error or chunk.is_error
        msg.handoff_to = msg.handoff_to or chunk.handoff_to
        msg.handoff_back = msg.handoff_back or chunk.handoff_back
        msg.input_tokens = _added(msg.input_tokens, chunk.input_tokens)
        msg.output_tokens = _added(msg.output_tokens, chunk.output_tokens)
    fragments = [f for c in chunks for f in c.fragments or ()]
    msg.calls = _joined_calls(fragments) if fragments else [r for c in chunks for r in c.calls]
    return msg


def _added(total: int | None, more: int | None) -> int | None:
    return total if more is None else more + (total or 0)


def _joined_calls(fragments: list[Fields]) -> list[CallRow]:
    """Calls from their fragments: one index is one call, until it starts again under a new id."""
    parts: list[tuple[object, _Part]] = []
    for fragment in fragments:
        index, call_id = fragment.get("index"), fragment.get("id")
        held = next((p for i, p in reversed(parts) if i == index), None) if parts else None
        if held is None or (call_id and held.id and call_id != held.id):
            held = _Part()
            parts.append((index, held))
        held.id = held.id or call_id
        name, args = fragment.get("name"), fragment.get("args")
        held.name += name if isinstance(name, str) else ""
        if isinstance(args, str):
            held.args += args
        elif args is not None:
            held.whole = args
    return [make_call(p.name, p.args if p.whole is None else p.whole, p.id) for _, p in parts]


@dataclass(slots=True)
class _Part:
    """A call in the making; `whole` are arguments that came as an object, not as text."""

    id: object = None
    name: str = ""
    args: str = ""
    whole: object = None


class ProtocolRun:
    """One model run of the event protocol: blocks arrive under an index and are finished singly."""

    def __init__(self, index: int, origin: Origin, message_id: object) -> None:
        self.first = self.last = index
        self.origin = origin
        self._id = message_id
        self._blocks: dict[object, dict[str, Any]] = {}
        self._usage: object = None

    def take(self, event: Fields, index: int) -> None:
        """One event after ``message-start``."""
        self.last = index
        kind, position = event.get("event"), event.get("index")
        position = position if isinstance(position, int) else None
        content = event.get("content")
        if kind in ("content-block-start", "content-block-finish") and is_fields(content):
            self._blocks[position] = dict(content)
        elif kind == "content-block-delta" and is_fields(delta := event.get("delta")):
            self._grow(self._blocks.setdefault(position, {}), delta)
        elif kind == "message-finish":
            self._usage = event.get("usage")

    def message(self) -> Msg:
        """The message as far as it was sent."""
        blocks = [
            {**b, "type": "tool_call"} if b.get("type") == "tool_call_chunk" else b
            for b in self._blocks.values()
        ]
        fields = {"type": "ai", "id": self._id, "content": blocks, "usage_metadata": self._usage}
        return read_message(fields)

    @staticmethod
    def _grow(block: dict[str, Any], delta: Fields) -> None:
        kind = delta.get("type")
        block.setdefault("type", _DELTAS.get(kind) if isinstance(kind, str) else None)
        for name in ("text", "reasoning", "args"):
            more = delta.get(name)
            held = block.get(name) or ""
            if isinstance(more, str) and isinstance(held, str):
                block[name] = held + more
