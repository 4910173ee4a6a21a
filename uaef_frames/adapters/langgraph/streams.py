"""Reads the events of one turn into emissions, from exactly one of the stream modes they hold.

It must not know of other turns: what was emitted before is the session's matter.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from uaef_frames.adapters.langgraph.chunks import Assembly, Origin, ProtocolRun, origin_of
from uaef_frames.adapters.langgraph.emissions import (
    HUMAN,
    MESSAGE,
    STATE,
    UPDATE,
    Emission,
    Unread,
    read_message_list,
    read_node_value,
)
from uaef_frames.adapters.langgraph.envelopes import Ns, Opened, Record, open_events
from uaef_frames.adapters.langgraph.messages import Msg, Unreadable, is_message, read_message
from uaef_frames.adapters.langgraph.shapes import Fields, is_fields, is_items

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PREFERENCE = ("updates", "tasks", "messages", "values", "protocol", "events")
"""Which mode is read where several are present: the one that says most about who did what."""

_SOURCE_OF = {"bare": "updates", "tools": "protocol"}


@dataclass(slots=True)
class TurnStream:
    """What one turn's events say.

    `nodes` are the top-level nodes that ran, silent ones too. `interrupts` are (event index, what
    was asked), `failures` what ended the run. `notes` say what could not be read.
    """

    emissions: list[Emission] = field(default_factory=list[Emission])
    nodes: list[str] = field(default_factory=list[str])
    interrupts: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    failures: list[str] = field(default_factory=list[str])
    notes: list[str] = field(default_factory=list[str])


def read_stream(events: list[Any], messages_key: str) -> TurnStream:
    """Read the events of a turn.

    Raises:
        Unreadable: An event or a message in it cannot be read.
    """
    plain = _read_plain(events, messages_key)
    if plain is not None:
        return plain
    opened = open_events(events, messages_key)
    stream = TurnStream(interrupts=opened.interrupts, failures=opened.failures)
    reader = _Reader(opened, stream)
    sources = {_source(r.mode) for r in opened.records}
    if sources <= {"updates", "human"}:
        stream.emissions = reader.read("updates")
    else:
        stream.emissions = reader.read_preferred([s for s in PREFERENCE if s in sources])
    if not any(m.role in ("assistant", "tool") for e in stream.emissions for m in e.messages):
        _explain(opened, reader.unread, stream, messages_key)
    return stream


def _read_plain(events: list[Any], key: str) -> TurnStream | None:
    """The common case in one go: every event is `{node: {key: [messages as dicts]}}`; else None."""
    emissions: list[Emission] = []
    nodes: list[str] = []
    spoken = False
    for index, event in enumerate(events):
        if type(event) is not dict or len(cast("Fields", event)) != 1:
            return None
        for node, value in cast("dict[Any, Any]", event).items():
            if type(value) is not dict or len(cast("Fields", value)) != 1 or type(node) is not str:
                return None
            held = cast("Fields", value).get(key)
            if type(held) is not list:
                return None
            kind = UPDATE
            if node[:2] == "__":
                if node != "__human__":
                    return None
                kind = HUMAN
            elif node not in nodes:
                nodes.append(node)
            msgs: list[Msg] = []
            for item in cast("list[Any]", held):
                if type(item) is not dict or len(cast("Fields", item)) < 2:
                    return None  # an Overwrite, perhaps; never a message
                try:
                    msg = read_message(cast("object", item))
                except Unreadable:
                    return None  # the general way says where it stands
                if msg.role == "remove":
                    return None
                msgs.append(msg)
                spoken = spoken or msg.role != "user"
            emissions.append(Emission(kind, index, None if kind == HUMAN else node, (), msgs))
    return TurnStream(emissions, nodes, [], [], []) if spoken else None


def _source(mode: str) -> str:
    return "messages" if mode.startswith("messages/") else _SOURCE_OF.get(mode, mode)


class _Reader:
    def __init__(self, opened: Opened, stream: TurnStream) -> None:
        self.opened = opened
        self.key = opened.messages_key
        self.stream = stream
        self.unread = Unread()

    def read_preferred(self, sources: list[str]) -> list[Emission]:
        """The first source in which an agent or a tool speaks, else the first with anything."""
        fallback: list[Emission] | None = None
        for source in sources:
            emissions = self.read(source)
            if any(m.role in ("assistant", "tool") for e in emissions for m in e.messages):
                return emissions
            if fallback is None and any(e.messages for e in emissions if e.kind != HUMAN):
                fallback = emissions
        return fallback if fallback is not None else self.read("updates")

    def read(self, source: str) -> list[Emission]:
        joined: dict[str, Callable[[list[Record]], list[tuple[int, Emission]]]] = {
            "messages": self._read_pieces,
            "protocol": self._read_protocol,
            "events": self._read_events,
        }
        if source not in joined:
            return list(self._in_place(source))
        human = [(r.index, e) for r in self.opened.records for e in self._human(r)]
        records = [r for r in self.opened.records if _source(r.mode) == source]
        return [e for _, e in sorted(human + joined[source](records), key=lambda pair: pair[0])]

    def _in_place(self, source: str) -> Iterator[Emission]:
        for record in self.opened.records:
            mode = record.mode
            if mode == "human":
                yield from self._human(record)
            elif mode == "updates" == source:
                yield from self._updates(record)
            elif mode == "bare" and source == "updates":
                yield self._filled(Emission(UPDATE, record.index, None, record.ns), [record.data])
            elif mode == "values" == source:
                held = record.data.get(self.key, record.data.get("messages"))
                if held is None:
                    self.unread.note("(state)", record.data, self.key)
                yield self._filled(Emission(STATE, record.index, None, record.ns), held)
            elif mode == "tasks" == source:
                yield self._task(record)

    def _human(self, record: Record) -> Iterator[Emission]:
        if record.mode != "human":
            return
        value = record.data["__human__"]
        if is_fields(value) and not is_message(value):
            value = value.get("messages", value.get(self.key))
        yield self._filled(Emission(HUMAN, record.index), value)

    def _updates(self, record: Record) -> Iterator[Emission]:
        ns = record.ns
        for node, value in record.data.items():
            if node[:2] == "__":
                continue
            self._ran(node, ns)
            emission = Emission(UPDATE, record.index, node, ns)
            try:
                read_node_value(emission, value, self.key, self.unread)
            except Unreadable as error:
                raise _placed(error, record.index, node) from error
            yield emission

    def _task(self, record: Record) -> Emission:
        task = record.data
        node = task.get("name")
        node = node if isinstance(node, str) else None
        task_id = task.get("id")
        agent = self.opened.task_agents.get(task_id) if isinstance(task_id, str) else None
        emission = Emission(UPDATE, record.index, node, record.ns, agent=agent)
        if node is not None and node[:2] != "__":
            self._ran(node, record.ns)
            result = task.get("result")
            if is_fields(result) and "__return__" in result:  # of a @task
                result = result["__return__"]
            try:
                read_node_value(emission, result, self.key, self.unread)
            except Unreadable as error:
                raise _placed(error, record.index, node) from error
        return emission

    def _filled(self, emission: Emission, held: Any) -> Emission:
        try:
            emission.messages = read_message_list(held, emission)
        except Unreadable as error:
            raise _placed(error, emission.event, emission.node) from error
        return emission

    def _ran(self, node: str | None, ns: Ns) -> None:
        top = ns[0].partition(":")[0] if ns else node
        if top and top not in self.stream.nodes:
            self.stream.nodes.append(top)

    def _read_pieces(self, records: list[Record]) -> list[tuple[int, Emission]]:
        """Token chunks and whole messages of a message stream, joined by message id."""
        assembly, origins = Assembly(), dict[str, Origin]()
        for record in records:
            index, data = record.index, record.data
            if record.mode == "messages/metadata":
                _learn_origins(data, record.ns, origins)
                continue
            if record.mode == "messages":
                if len(data) != 2 or not is_fields(data[1]):
                    raise Unreadable(f"event {index}: a message stream yields (message, metadata)")
                items, meta = [data[0]], data[1]
            else:
                items, meta = list(data) if is_items(data) else [data], None
            for item in items:
                msg = self._message(item, index)
                origin = (
                    origin_of(meta, record.ns)
                    if meta is not None
                    else origins.get(msg.id or "", Origin(ns=record.ns))
                )
                if not origin.internal and msg.role != "remove":
                    assembly.add(msg, index, origin)
        return [(p.first, self._of(p.message(), p.last, p.origin)) for p in assembly.pieces]

    def _read_protocol(self, records: list[Record]) -> list[tuple[int, Emission]]:
        """Messages of the version 3 protocol: whole ones, and runs told block by block."""
        runs: dict[object, ProtocolRun] = {}
        begun: list[ProtocolRun] = []
        found: list[tuple[int, Emission]] = []
        for record in records:
            index, data = record.index, record.data
            if record.mode == "tools":
                found += self._finished_tool(data, record)
                continue
            if not (is_items(data) and len(data) == 2 and is_fields(meta := data[1])):
                continue
            part, origin = data[0], origin_of(meta, record.ns)
            if origin.internal:
                continue
            if is_message(part):
                found += self._spoken(part, index, origin)
            elif is_fields(part):
                run_id = str(meta.get("run_id")) + "|".join(record.ns)
                if part.get("event") == "message-start":
                    message_id = part.get("id") or part.get("message_id")
                    runs[run_id] = ProtocolRun(index, origin, message_id)
                    begun.append(runs[run_id])
                elif run_id in runs:
                    runs[run_id].take(part, index)
        return found + [(r.first, self._of(r.message(), r.last, r.origin)) for r in begun]

    def _finished_tool(self, data: Any, record: Record) -> list[tuple[int, Emission]]:
        event: Fields = data if is_fields(data) else {}
        kind = event.get("event")
        if kind not in ("tool-finished", "tool-error"):
            return []
        output = event.get("output", event.get("error"))
        if not is_message(output):
            output = {
                "type": "tool",
                "content": output,
                "tool_call_id": event.get("tool_call_id"),
                "status": "error" if kind == "tool-error" else "success",
            }
        return self._spoken(output, record.index, Origin("tools", record.ns))

    def _read_events(self, records: list[Record]) -> list[tuple[int, Emission]]:
        """`astream_events` repeats a message up to five times; two kinds of events are read."""
        found: list[tuple[int, Emission]] = []
        final: list[tuple[int, Emission]] = []
        for record in records:
            event: Fields = record.data
            index, data, meta = record.index, event.get("data"), event.get("metadata")
            output = data.get("output") if is_fields(data) else None
            origin = origin_of(meta if is_fields(meta) else {}, record.ns)
            name = event.get("event")
            self._ran(origin.node, origin.ns)
            if output is None or origin.internal:
                continue
            if name == "on_chat_model_end":
                found += self._spoken(_generated(output), index, origin)
            elif name == "on_tool_end":
                found.append((index, self._tool_output(output, event, index, origin)))
            elif name == "on_chain_end" and origin.node is None and is_fields(output):
                final = [(index, self._filled(Emission(STATE, index), output.get(self.key)))]
        return found or final

    def _tool_output(self, output: Any, event: Fields, index: int, origin: Origin) -> Emission:
        emission = Emission(MESSAGE, index, origin.node, origin.ns, agent=origin.agent)
        items = list(output) if is_items(output) else [output]
        if not is_message(output) and not any(is_message(i) or _is_command(i) for i in items):
            output = {"type": "tool", "content": output, "name": event.get("name")}
        read_node_value(emission, output, self.key, Unread())
        return emission

    def _message(self, value: Any, index: int) -> Msg:
        try:
            return read_message(value)
        except Unreadable as error:
            raise _placed(error, index, None) from error

    def _spoken(self, value: Any, index: int, origin: Origin) -> list[tuple[int, Emission]]:
        msg = self._message(value, index)
        return [] if msg.role == "remove" else [(index, self._of(msg, index, origin))]

    def _of(self, msg: Msg, index: int, origin: Origin) -> Emission:
        self._ran(origin.node, origin.ns)
        return Emission(MESSAGE, index, origin.node, origin.ns, [msg], origin.agent)


def _is_command(value: object) -> bool:
    return (is_fields(value) and "goto" in value) or hasattr(value, "goto")


def _generated(output: Any) -> Any:
    """The message inside what version 1 of `astream_events` and LLM results wrap around it."""
    if not is_fields(output) or "generations" not in output:
        return output
    held: Any = output["generations"]
    for _ in range(3):
        held = held[0] if is_items(held) and held else held
    return held.get("message") if is_fields(held) else held


def _learn_origins(data: Any, ns: Ns, origins: dict[str, Origin]) -> None:
    for message_id, held in data.items() if is_fields(data) else ():
        meta = held.get("metadata") if is_fields(held) else None
        if is_fields(meta):
            origins[message_id] = origin_of(meta, ns)


def _placed(error: Unreadable, index: int, node: str | None) -> Unreadable:
    where = f"event {index}" if node is None else f"event {index}, node {node!r}"
    return Unreadable(f"{where}: {error}")


def _explain(opened: Opened, unread: Unread, stream: TurnStream, messages_key: str) -> None:
    """Say why a turn with events has no agent's message in it."""
    if opened.interrupts:
        return
    if unread.message_keys:
        keys = ", ".join(map(repr, unread.message_keys))
        stream.notes.append(
            f"nodes {', '.join(unread.nodes)} emitted no {messages_key!r}, but messages under"
            f" {keys}: read them with messages_key={unread.message_keys[0]!r}"
        )
    elif unread.nodes:
        stream.notes.append(
            f"no messages in what nodes {', '.join(unread.nodes)} emitted"
            f" ({', '.join(unread.kinds) or 'empty'})"
        )
    elif opened.ignored:
        seen = ", ".join(f"{n} {mode}" for mode, n in sorted(opened.ignored.items()))
        stream.notes.append(
            f"no conversation in these stream events ({seen}): record with stream_mode='updates'"
        )
    elif stream.nodes:
        stream.notes.append(f"nodes ran without emitting messages: {', '.join(stream.nodes)}")
    elif not opened.records:
        stream.notes.append("the turn has no stream events that carry anything")
