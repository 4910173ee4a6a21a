"""OpenAI chat messages: a conversation as one list, split into turns at each user message.

Knows the chat format. What a single message says is read by the same reader that LangGraph's use.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from uaef_frames.adapters.langgraph.messages import Msg, Unreadable, is_message, read_message
from uaef_frames.adapters.langgraph.shapes import attributes, is_fields
from uaef_frames.canonical import canonical_json, scrub
from uaef_frames.conversations import Conversations
from uaef_frames.errors import AdapterTransformationError
from uaef_frames.rows import CallRow, MessageRow, SessionRows, TurnRow
from uaef_frames.traces import SessionDict, Trace, join_traces, lift

_NAME = "openai"
_WHAT = (
    'expected a list of chat messages ({"role": ..., "content": ...}), or a record with '
    '"messages" and, where there are several, "session_id"'
)


@dataclass(frozen=True, slots=True)
class Conversation:
    """A checked record: its messages, and the rest of it as metadata."""

    session_id: str
    messages: list[Any]
    metadata: Mapping[str, Any]
    turn_id: int | None = None


class OpenAIMessagesAdapter:
    """Conversations recorded as OpenAI chat messages.

    A record is a list of messages, or a dict with `messages` and optionally `session_id` and
    anything else, which is kept as metadata. Roles: system or developer, user, assistant (with
    `tool_calls`, whose arguments are JSON text) and tool. A turn begins at each user message; what
    stands before the first belongs to the first turn. Arguments that are no JSON object keep their
    text and get the status `invalid`.
    """

    name = _NAME

    def check(self, record: Any, position: int = 1) -> Conversation:
        """One record, checked.

        Raises:
            AdapterTransformationError: It is not a conversation.
        """
        if isinstance(record, list | tuple):
            return Conversation(f"conversation-{position}", list(cast("Sequence[Any]", record)), {})
        if not isinstance(record, Mapping) or "messages" not in record:
            raise AdapterTransformationError(f"record {position}: {_WHAT}", adapter=_NAME)
        fields = cast("Mapping[str, Any]", record)
        sid = fields.get("session_id")
        if sid is not None and (isinstance(sid, bool) or not isinstance(sid, str | int)):
            raise AdapterTransformationError(
                f"record {position}: session_id is text, not {sid!r}", adapter=_NAME
            )
        session_id = f"conversation-{position}" if sid is None else scrub(str(sid))
        if not isinstance(fields["messages"], list | tuple):
            raise AdapterTransformationError(
                "messages is a list of chat messages", adapter=_NAME, session_id=session_id
            )
        rest = {
            k: v
            for k, v in fields.items()
            if k not in ("session_id", "messages") and not str(k).startswith("_")
        }
        return Conversation(session_id, list(cast("Sequence[Any]", fields["messages"])), rest)

    def group(self, records: Sequence[Any]) -> list[tuple[str, list[Any]]]:
        """One session a record; a bare list of messages is one record.

        Raises:
            AdapterTransformationError: There is no record, one is not a conversation, or two have
                the same session_id.
        """
        if not records:
            raise AdapterTransformationError(f"the list is empty; {_WHAT}", adapter=_NAME)
        bare = _is_bare(records[0])
        found = [self.check(r, n) for n, r in enumerate([records] if bare else records, 1)]
        groups: dict[str, list[Any]] = {}
        for conversation in found:
            if conversation.session_id in groups:
                raise AdapterTransformationError(
                    "two records have this session_id",
                    adapter=_NAME,
                    session_id=conversation.session_id,
                )
            groups[conversation.session_id] = [conversation]
        return list(groups.items())

    def read(self, session_id: str, records: list[Any]) -> SessionRows:
        """The rows of one conversation.

        Raises:
            AdapterTransformationError: A message cannot be read; the error names its position.
        """
        conversation = cast("Conversation", records[0])
        if not conversation.messages:
            raise AdapterTransformationError(
                "messages is empty: a conversation has at least one",
                adapter=_NAME,
                session_id=session_id,
            )
        turns = _Turns(conversation.metadata)
        for position, raw in enumerate(conversation.messages, 1):
            try:
                turns.add(read_message(_with_calls(raw)))
            except Unreadable as error:
                raise AdapterTransformationError(
                    f"message {position}: {error}",
                    adapter=_NAME,
                    session_id=session_id,
                    turn_id=len(turns.rows) or 1,
                    original_error=error,
                ) from error
        return SessionRows(session_id, "single", turns.finish())

    def to_conversations(self, records: Sequence[Any]) -> Conversations:
        """The tables of all records.

        Raises:
            AdapterTransformationError: A record cannot be read.
        """
        return Conversations.from_rows(self.read(*group) for group in self.group(records))

    def transform_to_canonical(self, data: Any) -> Trace | list[SessionDict]:
        """A trace of one record (a dict), or session dicts of a list of records or of messages.

        Raises:
            AdapterTransformationError: A record cannot be read.
        """
        if not isinstance(data, Mapping):
            several = cast("Sequence[Any]", data) if isinstance(data, list | tuple) else [data]
            return self.to_conversations(list(several)).to_traces()
        conversation = self.check(data)
        rows = self.read(conversation.session_id, [conversation])
        found = Conversations.from_rows([rows]).to_traces()[0]
        return join_traces(found["session_id"], found["per_turn_traces"])


def _is_bare(first: Any) -> bool:
    """Whether a list that begins so is one of messages, live ones too, and not of records."""
    if isinstance(first, Mapping):
        return "role" in first and "messages" not in first
    return is_message(first)


def _with_calls(raw: Any) -> Any:
    """A message, its call where newer ones have it: older ones say `function_call`."""
    fields = _fields(raw)
    call = None if fields is None else _fields(fields.get("function_call"))
    if fields is None or call is None or fields.get("tool_calls"):
        return raw
    return {**fields, "tool_calls": [{"function": call}]}


def _fields(value: object) -> Mapping[str, Any] | None:
    return value if is_fields(value) else attributes(value)


class _Turns:
    """The turns of a conversation while its messages come in."""

    def __init__(self, metadata: Mapping[str, Any]) -> None:
        self.rows: list[TurnRow] = []
        rest = dict(metadata)
        self._lifted = lift(rest)
        self._metadata = canonical_json(rest) if rest else None
        self._open: list[tuple[int, CallRow]] = []
        self._count = 0
        self._opening = False

    def add(self, msg: Msg) -> None:
        if msg.role == "remove":
            return
        if not self.rows or (msg.role == "user" and not self._opening):
            self._begin()
        self._opening = self._opening and msg.role != "user"
        self._count += 1
        turn = self.rows[-1]
        at = len(turn.messages)
        agent = msg.name if msg.role == "assistant" else None
        turn.messages.append(
            MessageRow(
                msg.role,
                msg.text,
                agent,
                msg.reasoning,
                msg.id,
                msg.tool_call_id,
                msg.is_error,
                input_tokens=msg.input_tokens,
                output_tokens=msg.output_tokens,
            )
        )
        if agent is not None and agent not in turn.agents:
            turn.agents.append(agent)
        for call in msg.calls:
            call.message_index, call.agent = at, agent
            turn.tool_calls.append(call)
            if call.status != "invalid":
                self._open.append((self._count, call))
        if msg.role == "tool":
            self._answer(msg)

    def finish(self) -> list[TurnRow]:
        for turn in self.rows:
            asked = [m.content for m in turn.messages if m.role == "user"]
            turn.query = "\n\n".join(asked) if asked else None
            turn.response = _response(turn)
            for name in ("input_tokens", "output_tokens"):
                known = [v for m in turn.messages if (v := getattr(m, name)) is not None]
                setattr(turn, name, float(sum(known)) if known else None)
        return self.rows

    def _begin(self) -> None:
        # What stands before the first user message opens the first turn, and is not one.
        self._opening = not self.rows
        self.rows.append(TurnRow(len(self.rows) + 1, metadata=self._metadata, **self._lifted))

    def _answer(self, msg: Msg) -> None:
        """Give a result to the latest unanswered call of that id, without an id to the first one.

        Where one message made several calls of that id, they are answered in their order.
        """
        fitting = [o for o in self._open if msg.tool_call_id in (None, o[1].tool_call_id)]
        if not fitting:
            self.rows[-1].notes.append(f"a tool result answers no call ({msg.tool_call_id})")
            return
        latest = fitting[0][0] if msg.tool_call_id is None else fitting[-1][0]
        answered = next(o for o in fitting if o[0] == latest)
        answered[1].result, answered[1].status = msg.text, "error" if msg.is_error else "ok"
        self._open.remove(answered)


def _response(turn: TurnRow) -> str | None:
    calling = {c.message_index for c in turn.tool_calls}
    for at in range(len(turn.messages) - 1, -1, -1):
        message = turn.messages[at]
        if message.role == "assistant" and message.content.strip() and at not in calling:
            return message.content
    return None
