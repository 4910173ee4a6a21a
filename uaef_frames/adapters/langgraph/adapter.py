"""LangGraph stream events: turn payloads, grouped into sessions, as tables and traces.

Puts the reader behind the adapters' common face; what an event means is the reader's business.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, cast

from uaef_frames.adapters.langgraph.payloads import CheckedPayload, check_payload, group_payloads
from uaef_frames.adapters.langgraph.reader import ReadOptions, read_session, read_single
from uaef_frames.conversations import Conversations
from uaef_frames.errors import AdapterTransformationError, ConfigError
from uaef_frames.traces import SessionDict, Trace, join_traces

if TYPE_CHECKING:
    from uaef_frames.adapters.langgraph.bulk import BulkReader
    from uaef_frames.rows import SessionRows


class LangGraphAdapter:
    """Conversations recorded as LangGraph stream events, one payload a turn.

    A payload is a dict with `session_id`, `turn_id` and `stream_events`, and where they are known
    `latency` (s), `input_tokens`, `output_tokens`, `cost_usd`; what it says wins over the events.
    Every stream mode and every way to serialise messages is read, live message objects too.

    Args:
        topology: `single` or `multi` where it should not be found from who speaks.
        agents: The names that are agents, where not everyone who speaks is one.
        messages_key: The state key that holds the messages.
    """

    name = "langgraph"

    def __init__(
        self,
        *,
        topology: Literal["auto", "single", "multi"] = "auto",
        agents: Sequence[str] | None = None,
        messages_key: str = "messages",
    ) -> None:
        if topology not in ("auto", "single", "multi"):
            raise ConfigError(f"topology is 'auto', 'single' or 'multi', not {topology!r}")
        if isinstance(agents, str):
            raise ConfigError("agents is a list of names, not one text")
        self.options = ReadOptions(
            topology, None if agents is None else tuple(agents), messages_key
        )

    @property
    def bulk(self) -> BulkReader | None:
        """A native reader of regular lines; None where the options ask for a closer look."""
        from uaef_frames.adapters.langgraph.bulk import BulkReader

        return BulkReader() if self.options == ReadOptions() else None

    def check(self, record: Any, position: int = 1) -> CheckedPayload:
        """One payload, checked; `position` is its place in the input, from 1.

        Raises:
            AdapterTransformationError: A field is missing or has no usable value.
        """
        return check_payload(record, position)

    def group(self, records: Sequence[Any]) -> list[tuple[str, list[Any]]]:
        """The checked payloads of each session: sessions in first-seen order, turns by turn_id.

        Raises:
            AdapterTransformationError: There are none, one is unusable, or a turn is there twice.
        """
        return [(sid, list(turns)) for sid, turns in group_payloads(records)]

    def read(self, session_id: str, records: list[Any]) -> SessionRows:
        """The rows of one session.

        Raises:
            AdapterTransformationError: A turn cannot be read, or the session mixes topologies.
        """
        return read_session(session_id, records, self.options)

    def to_conversations(self, records: Sequence[Any]) -> Conversations:
        """The tables of all payloads.

        Raises:
            AdapterTransformationError: A payload cannot be used.
        """
        return Conversations.from_rows(self.read(*group) for group in self.group(records))

    def transform_to_canonical(self, data: Any) -> Any:
        """Traces.

        Args:
            data: A dict (one trace: `stream_events`, or a final state with `messages`) or a list of
                turn payloads.

        Returns:
            AgentTrace or MultiAgentTrace for a dict; for a list a session dict a session:
            `session_id`, `per_turn_traces`, `full_trace`, in first-seen order.

        Raises:
            AdapterTransformationError: A record cannot be used; it names adapter, session and turn.
        """
        if isinstance(data, Mapping):
            return self._single(cast("Mapping[str, Any]", data))
        if not isinstance(data, list | tuple):
            raise AdapterTransformationError(
                f"expected a dict or a list of turn payloads, not {type(data).__name__}",
                adapter=self.name,
            )
        sessions: list[SessionDict] = self.to_conversations(cast("Sequence[Any]", data)).to_traces()
        for session in sessions:
            for trace in [*session["per_turn_traces"], session["full_trace"]]:
                trace.framework = self.name
        return sessions

    def _single(self, record: Mapping[str, Any]) -> Trace:
        rows = read_single(record, self.options)
        found = Conversations.from_rows([rows]).to_traces()[0]
        trace = join_traces(found["session_id"], found["per_turn_traces"])
        given = record.get("session_id")
        trace.session_id = None if given is None else rows.session_id
        trace.trace_id = str(record.get("trace_id") or rows.session_id)
        trace.framework = self.name
        return trace
