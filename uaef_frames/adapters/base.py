"""What every adapter is: raw records of one framework in, conversations out.

Knows no framework; `get_adapter` finds them by name.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from uaef_frames.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from uaef_frames.conversations import Conversations
    from uaef_frames.rows import SessionRows
    from uaef_frames.traces import SessionDict, Trace


class Checked(Protocol):
    """A checked record: which session it belongs to, and which turn, if it is one."""

    @property
    def session_id(self) -> str:
        """The session."""
        ...

    @property
    def turn_id(self) -> int | None:
        """The turn; None for a record of a whole session."""
        ...


@runtime_checkable
class Adapter(Protocol):
    """Reads the records of one framework.

    Everything is built on three steps: `check` says whose a record is, `group` which records make
    a session, `read` what a session's records say.
    """

    @property
    def name(self) -> str:
        """The name under which `get_adapter` knows it."""
        ...

    def check(self, record: Any, position: int = 1) -> Checked:
        """One record, checked; `position` is its place in the input, from 1.

        Raises:
            AdapterTransformationError: It cannot be used.
        """
        ...

    def group(self, records: Sequence[Any]) -> list[tuple[str, list[Any]]]:
        """The records of each session, sessions in first-seen order.

        Raises:
            AdapterTransformationError: A record cannot be placed.
        """
        ...

    def read(self, session_id: str, records: list[Any]) -> SessionRows:
        """The rows of one session, from what `group` gave.

        Raises:
            AdapterTransformationError: A record cannot be read.
        """
        ...

    def to_conversations(self, records: Sequence[Any]) -> Conversations:
        """The tables of all records."""
        ...

    def transform_to_canonical(self, data: Any) -> Trace | list[SessionDict]:
        """Traces: of one record (a dict), or session dicts of a list of records."""
        ...


def _langgraph() -> Adapter:
    from uaef_frames.adapters.langgraph import LangGraphAdapter

    return LangGraphAdapter()


def _openai() -> Adapter:
    from uaef_frames.adapters.openai_messages import OpenAIMessagesAdapter

    return OpenAIMessagesAdapter()


_ADAPTERS: Mapping[str, Callable[[], Adapter]] = {"langgraph": _langgraph, "openai": _openai}


def get_adapter(name: str | Adapter) -> Adapter:
    """The adapter of that name, with its defaults; an adapter is handed back as it is.

    Raises:
        ConfigError: There is none of that name; the message lists what there is.
    """
    if not isinstance(name, str):
        return name
    if name in _ADAPTERS:
        return _ADAPTERS[name]()
    near = get_close_matches(name.lower(), _ADAPTERS, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise ConfigError(f"unknown adapter {name!r}.{hint} There is {', '.join(map(repr, _ADAPTERS))}")
