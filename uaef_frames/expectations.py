"""Expectations: the tables of ground truth, and how GroundTruth objects and rows become them.

Knows what was expected. How it is compared with what happened is the metrics' business.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, cast

import polars as pl

from uaef_frames import schemas
from uaef_frames.canonical import canonical_json, loads, scrub
from uaef_frames.errors import ConfigError, GroundTruthError
from uaef_frames.models import GroundTruth, ToolCall
from uaef_frames.rows import table
from uaef_frames.table_set import TableSet

if TYPE_CHECKING:
    import dataframely as dy


Calls: TypeAlias = list[tuple[str, str]]
"""Expected calls: (name, canonical arguments)."""


@dataclass(slots=True)
class TurnTruth:
    """What is expected of one turn. `tools` None: nothing is said about them."""

    turn_id: int
    expected_output: str | None = None
    tools: Calls | None = None
    context: list[str] = field(default_factory=list[str])
    query: str | None = None


@dataclass(slots=True)
class SessionTruth:
    """What is expected of one conversation, and of its turns.

    `positional` says that the turns are counted 1..N, whatever the payloads call them. `tools` are
    those of the conversation as a whole.
    """

    session_id: str
    expected_output: str | None = None
    tools: Calls | None = None
    chatbot_role: str | None = None
    system_instructions: str | None = None
    context: list[str] = field(default_factory=list[str])
    labels: dict[str, Any] = field(default_factory=dict[str, Any])
    turns: list[TurnTruth] = field(default_factory=list[TurnTruth])
    positional: bool = True


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Expectations(TableSet):
    """The three tables of ground truth (columns: `uaef_frames.schemas`)."""

    tables: ClassVar[Mapping[str, type[dy.Schema]]] = {
        "turn_expectations": schemas.TurnExpectations,
        "session_expectations": schemas.SessionExpectations,
        "expected_tool_calls": schemas.ExpectedToolCalls,
    }
    what: ClassVar[str] = "expectations"

    turn_expectations: pl.DataFrame
    session_expectations: pl.DataFrame
    expected_tool_calls: pl.DataFrame

    @classmethod
    def from_truths(cls, truths: Iterable[SessionTruth]) -> Expectations:
        """Stack what was read, in the order given."""
        held = list(truths)
        turns = [(s, t) for s in held for t in s.turns]
        owners = [(s.session_id, None, s.tools or []) for s in held if not _turns_say_tools(s)]
        owners += [(s.session_id, t.turn_id, t.tools or []) for s, t in turns]
        calls = [(sid, turn, i, n, a) for sid, turn, c in owners for i, (n, a) in enumerate(c)]
        columns: list[Any] = list(zip(*calls, strict=True)) if calls else [[]] * 5
        return cls(
            _frame(
                schemas.TurnExpectations,
                [s.session_id for s, _ in turns],
                [t.turn_id for _, t in turns],
                [s.positional for s, _ in turns],
                [t.expected_output for _, t in turns],
                [t.tools is not None for _, t in turns],
                [t.context for _, t in turns],
                [t.query for _, t in turns],
            ),
            _frame(
                schemas.SessionExpectations,
                [s.session_id for s in held],
                [s.expected_output for s in held],
                [s.tools is not None and not _turns_say_tools(s) for s in held],
                [s.chatbot_role for s in held],
                [s.system_instructions for s in held],
                [s.context for s in held],
                [canonical_json(s.labels) if s.labels else None for s in held],
            ),
            _frame(schemas.ExpectedToolCalls, *columns),
        )

    @classmethod
    def empty(cls) -> Expectations:
        """No ground truth at all, with every column."""
        return cls.from_truths([])

    @classmethod
    def from_ground_truths(cls, truths: Mapping[str, GroundTruth | None]) -> Expectations:
        """The tables of GroundTruth objects by session_id; None says nothing of its session.

        Raises:
            GroundTruthError: An entry of `expected_arguments` cannot be read.
        """
        return cls.from_truths(
            session_truth(sid, truth) for sid, truth in truths.items() if truth is not None
        )

    @classmethod
    def concat(cls, parts: Sequence[Expectations]) -> Expectations:
        """One after the other.

        Raises:
            ConfigError: A session is in two parts.
        """
        if not parts:
            return cls.empty()
        joined = cls(*(pl.concat([getattr(p, name) for p in parts]) for name in cls.tables))
        ids = joined.session_expectations["session_id"]
        if ids.n_unique() < len(ids):
            twice = ids.filter(ids.is_duplicated())[0]
            raise ConfigError(f"session {twice!r} has ground truth in more than one part")
        return joined

    @property
    def session_ids(self) -> list[str]:
        """The sessions that have ground truth, in their order."""
        return self.session_expectations["session_id"].to_list()

    def __len__(self) -> int:
        return self.session_expectations.height

    def filter(self, session_ids: Iterable[str]) -> Expectations:
        """Only what is expected of these sessions."""
        wanted = pl.DataFrame({"session_id": pl.Series(list(session_ids), dtype=pl.String)})
        return Expectations(
            *(
                getattr(self, name).join(wanted, on="session_id", how="semi", maintain_order="left")
                for name in self.tables
            )
        )

    def validate(self) -> Expectations:
        """These expectations, checked against the schemas.

        Raises:
            dataframely.exc.ValidationError: A rule is broken; the message counts rows by rule.
        """
        from uaef_frames.schema_sets import ExpectationTables

        ExpectationTables.validate(self.frames())
        return self

    def __repr__(self) -> str:
        return (
            f"Expectations({len(self)} sessions, {self.turn_expectations.height} turns, "
            f"{self.expected_tool_calls.height} expected tool calls)"
        )

    def _repr_html_(self) -> str:
        shown = self.session_expectations.select("session_id", "expected_output", "labels").head(10)
        return f"<p>{escape(repr(self))}</p>{shown._repr_html_()}"  # pyright: ignore[reportPrivateUsage]


def session_truth(session_id: str, truth: GroundTruth) -> SessionTruth:
    """What a GroundTruth object says of a session.

    Raises:
        GroundTruthError: `per_turn_expected` or `per_turn_tools` is not a list, or an entry of it
            cannot be read.
    """
    extra = truth.expected_arguments
    outputs = _listed(extra, "per_turn_expected", session_id)
    tools = _listed(extra, "per_turn_tools", session_id)
    return SessionTruth(
        session_id,
        expected_output=text_or_none(truth.expected_output),
        tools=read_calls(truth.expected_tool_calls, session_id),
        chatbot_role=text_or_none(extra.get("chatbot_role")),
        system_instructions=text_or_none(extra.get("system_instructions")),
        context=[scrub(d) for d in truth.context_documents],
        turns=per_turn(outputs, tools, session_id),
    )


def per_turn(
    outputs: Sequence[Any] | None, tools: Sequence[Any] | None, session_id: str | None
) -> list[TurnTruth]:
    """Turn by turn what two parallel lists say; the shorter one says nothing of the rest."""
    outputs, tools = outputs or [], tools or []
    return [
        TurnTruth(
            i + 1,
            expected_output=_entry_text(outputs[i] if i < len(outputs) else None),
            tools=read_calls(tools[i] if i < len(tools) else None, session_id),
        )
        for i in range(max(len(outputs), len(tools)))
    ]


def read_calls(value: object, session_id: str | None = None) -> Calls | None:
    """Expected calls from a list of ToolCall, of dicts or of names, or from its JSON text.

    A dict names the tool as `name` or `tool_name` and its arguments as `arguments`, `parameters` or
    `args`, an object or its JSON text. None, NaN and blank text say nothing; `[]` says none.

    Raises:
        GroundTruthError: It is something else; the message says what was met.
    """
    if is_blank(value):
        return None
    if isinstance(value, str):
        try:
            value = loads(value)
        except ValueError as error:
            raise GroundTruthError(
                f"expected tool calls are not JSON: {_shown(value)} ({error}); write a list such "
                'as [{"name": "search", "arguments": {"city": "Lisbon"}}]',
                session_id=session_id,
            ) from error
        if value is None:
            return None
    if isinstance(value, Mapping):
        value = [cast("object", value)]
    if not isinstance(value, list | tuple):
        raise GroundTruthError(
            f"expected tool calls are a list, not {_shown(value)}", session_id=session_id
        )
    return [_read_call(call, session_id) for call in cast("Sequence[object]", value)]


def is_blank(value: object) -> bool:
    """True for what an empty cell may hold: None, NaN, a missing-value marker, blank text."""
    if value is None:
        return True
    if isinstance(value, str):
        return not value.strip()
    if isinstance(value, float):
        return value != value
    return type(value).__name__ in ("NAType", "NaTType")


def text_or_none(value: object) -> str | None:
    """The value as text; None for an empty cell. Numbers read as a person wrote them."""
    if is_blank(value):
        return None
    if isinstance(value, str):
        return scrub(value)
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return scrub(str(value)) if not isinstance(value, dict | list) else canonical_json(value)  # pyright: ignore[reportUnknownArgumentType]


def _entry_text(value: object) -> str | None:
    """As `text_or_none`, but blank text stays: it says that nothing is expected of the turn."""
    return "" if isinstance(value, str) and not value.strip() else text_or_none(value)


def _read_call(call: object, session_id: str | None) -> tuple[str, str]:
    if type(call) is dict:
        # As nearly all are: {"name": ..., "arguments": {...}}.
        plain = cast("dict[str, object]", call)
        name, arguments = plain.get("name"), plain.get("arguments")
        if type(name) is str and type(arguments) is dict:
            return scrub(name), canonical_json(cast("object", arguments))
    if isinstance(call, ToolCall):
        return scrub(call.name), canonical_json(call.arguments)
    if isinstance(call, str) and call.strip():
        return scrub(call), "{}"
    if not isinstance(call, Mapping):
        raise GroundTruthError(
            f"an expected tool call is an object with a name, not {_shown(call)}",
            session_id=session_id,
        )
    fields = cast("Mapping[str, object]", call)
    name = next((fields[k] for k in ("name", "tool_name") if k in fields), None)
    if not isinstance(name, str):
        raise GroundTruthError(
            f"an expected tool call has no name: {_shown(fields)}", session_id=session_id
        )
    return scrub(name), canonical_json(_arguments(fields, name, session_id))


def _arguments(fields: Mapping[str, object], name: str, session_id: str | None) -> object:
    keys = ("arguments", "parameters", "args")
    given = next((fields[k] for k in keys if fields.get(k) is not None), None)
    if given is None:
        return {}
    if isinstance(given, str):
        try:
            given = cast("object", loads(given)) if given.strip() else cast("object", {})
        except ValueError as error:
            raise GroundTruthError(
                f"the arguments expected of {name!r} are not JSON: {_shown(given)}",
                session_id=session_id,
            ) from error
    if isinstance(given, Mapping):
        return dict(cast("Mapping[str, object]", given))
    raise GroundTruthError(
        f"the arguments expected of {name!r} are no object: {_shown(given)}",
        session_id=session_id,
    )


def _turns_say_tools(truth: SessionTruth) -> bool:
    return any(t.tools is not None for t in truth.turns)


def _listed(extra: Mapping[str, Any], key: str, session_id: str) -> Sequence[Any] | None:
    value = extra.get(key)
    if value is None or isinstance(value, list | tuple):
        return cast("Sequence[Any] | None", value)
    raise GroundTruthError(
        f"expected_arguments[{key!r}] is a list with one entry a turn, not {_shown(value)}",
        session_id=session_id,
    )


def _frame(schema: Any, *columns: Iterable[Any]) -> pl.DataFrame:
    names = schemas.columns(schema)
    return table(schema, {n: list(c) for n, c in zip(names, columns, strict=True)})


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 120 else text[:117] + "..."
