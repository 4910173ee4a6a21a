"""Regular LangGraph lines, read natively many at a time; everything else is left to the reader.

A session is regular when its lines are what one agent with tools streams in `updates` mode, every
message once: then order, answers and totals are plain column work. Whatever might mean more
(another envelope, re-emission, handoffs, interrupts, reused ids, unusual content) makes the whole
session go the general way, record by record. Both ways give the same rows; a test holds them equal.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

import polars as pl

from uaef_frames import schemas
from uaef_frames.adapters.langgraph.finish import token_note
from uaef_frames.adapters.langgraph.messages import SUMMARY_OPENING
from uaef_frames.adapters.langgraph.payloads import NUMBERS
from uaef_frames.adapters.langgraph.session import (
    HANDOFF_OPENINGS,
    STRUCTURED_ERRORS,
    STRUCTURED_OPENING,
)
from uaef_frames.adapters.langgraph.topology import HOOK_NODES, HOOKS
from uaef_frames.adapters.native import (
    BLANK,
    NativeParser,
    canonical_objects,
    is_written_as_text,
    only_keys,
    unquoted,
)
from uaef_frames.conversations import Conversations

if TYPE_CHECKING:
    from uaef_frames.adapters.lines import LineIndex

_LINE_KEYS = ("session_id", "turn_id", "stream_events", *NUMBERS)
_ABSENT_IN_MESSAGES = (
    "role",
    "data",
    "lc",
    "usage",
    "reasoning",
    "reasoning_content",
    "tool_call_chunks",
)
"""Keys that the reader looks at in a message and that a regular one does not have."""
_ABSENT_IN_UPDATES = ("active_agent", "structured_response", "hitl_edited_tool_calls")
_CALLS_OF_ANOTHER_FORM = r'"tool_calls"\s*:\s*[^\[n\s]'
"""In a line: calls that are no list, and so come out of the parser as if there were none."""
_EMPTY_KWARGS = ("{}", '{"refusal":null}')

_MESSAGE = ", ".join(
    [
        '"type" VARCHAR, content JSON, id VARCHAR, name VARCHAR',
        "tool_call_id VARCHAR, status VARCHAR",
        "tool_calls STRUCT(name VARCHAR, args JSON, id VARCHAR)[]",
        "usage_metadata STRUCT(input_tokens JSON, output_tokens JSON)",
        "invalid_tool_calls JSON, additional_kwargs JSON, response_metadata JSON",
        *(f"{key} JSON" for key in _ABSENT_IN_MESSAGES),
    ]
)
_UPDATE = ", ".join([f"messages STRUCT({_MESSAGE})[]", *(f"{k} JSON" for k in _ABSENT_IN_UPDATES)])
_LINE = ", ".join(
    [
        "turn_id JSON",
        f"stream_events MAP(VARCHAR, STRUCT({_UPDATE}))[]",
        *(f"{n} JSON" for n in NUMBERS),
    ]
)


class BulkReader:
    """Reads the regular sessions among lines; says which it left alone."""

    def __init__(self) -> None:
        self._parser = NativeParser(_LINE)

    def __call__(self, index: LineIndex, rows: pl.DataFrame) -> tuple[Conversations, list[str]]:
        """The tables of the regular sessions among these rows, and the ids of the others."""
        texts = index.texts(rows)
        parsed = None if rows.is_empty() else self._parser.parse(texts)
        sessions = rows["session_id"].unique(maintain_order=True)
        if parsed is None:
            return Conversations.empty(), sessions.to_list()
        lines = _lines(parsed.with_columns(rows["session_id"], text=pl.Series(texts)))
        messages = _messages(lines)
        calls = _calls(messages)
        messages = _with_callers(messages, calls)
        bad = _irregular(lines, messages, calls)
        left = lines.filter(pl.col("line").is_in(bad.implode()))["session"].unique()
        left_alone = pl.col("session").is_in(left.implode())
        ids = pl.DataFrame({"session_id": sessions}).with_row_index("session")
        tables = _tables(
            lines.filter(~left_alone), messages.filter(~left_alone), calls.filter(~left_alone), ids
        )
        return tables, ids.filter(left_alone)["session_id"].to_list()


def _lines(parsed: pl.DataFrame) -> pl.DataFrame:
    """One row a line: line, session (numbered), turn_id, numbers, events, whether it is regular."""
    turn = pl.col("turn_id").str.contains(r"^-?[0-9]{1,18}$")
    plain = r"^-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?$"
    numbers = [
        pl.col(n).is_null() | pl.col(n).str.contains(plain) | (pl.col(n) == "null") for n in NUMBERS
    ]
    rules = [
        pl.col("strict"),
        ~pl.col("text").str.contains(_CALLS_OF_ANOTHER_FORM),
        only_keys(_LINE_KEYS),
        turn,
        pl.col("stream_events").list.len() > 0,
        *numbers,
    ]
    return (
        parsed.with_columns(session=pl.col("session_id").rle_id())
        .with_row_index("line")
        .select(
            "line",
            "session",
            regular=reduce(lambda a, b: a & b, rules).fill_null(value=False),
            turn_id=pl.col("turn_id").cast(pl.Int64, strict=False),
            events="stream_events",
            *[pl.col(n).cast(pl.Float64, strict=False).alias(c) for n, c in NUMBERS.items()],
        )
    )


def _messages(lines: pl.DataFrame) -> pl.DataFrame:
    """One row a message of a regular line, in order: line, session, at (place in the turn), fields.

    Events that are not one node with messages come out as rows without a `type`.
    """
    events = (
        lines.filter("regular")
        .select("line", "session", "events")
        .explode("events", empty_as_null=False)
        .with_columns(entry=pl.col("events").map.entries(), nodes=pl.col("events").map.len())
        .drop("events")
        .explode("entry", empty_as_null=True)
    )
    node = pl.col("entry").struct.field("key").alias("node")
    update = pl.col("entry").struct.field("value")
    plain = reduce(
        lambda a, b: a & b,
        [update.struct.field(k).is_null() for k in _ABSENT_IN_UPDATES],
        pl.col("nodes") == 1,
    )
    return (
        events.select(
            "line",
            "session",
            node,
            alone=plain & (update.struct.field("messages").list.len() == 1),
            plain=plain,
            messages=update.struct.field("messages"),
        )
        .explode("messages", empty_as_null=True)
        .unnest("messages")
        .with_row_index("row")
        .with_columns(
            # Line after line in one stretch, so a running number less its first counts from 0.
            at=pl.col("row").cast(pl.Int64) - pl.col("row").first().over("line"),
            agent=pl.when(pl.col("type") == "ai").then(
                pl.coalesce(pl.when(pl.col("name") != "").then("name"), "node")
            ),
            text=unquoted("content").fill_null(""),
        )
    )


def _calls(messages: pl.DataFrame) -> pl.DataFrame:
    """One row a tool call, in order: line, session, at (its message), nth (in the turn), fields."""
    made = (
        messages.filter(pl.col("tool_calls").list.len() > 0)
        .select("line", "session", "at", "agent", "tool_calls")
        .explode("tool_calls")
        .with_columns(
            tool=pl.col("tool_calls").struct.field("name"),
            arguments=pl.col("tool_calls").struct.field("args"),
            call_id=pl.col("tool_calls").struct.field("id"),
        )
        .drop("tool_calls")
    )
    made = made.with_columns(canonical_objects(made["arguments"]))
    row = pl.col("row")
    return made.with_row_index("row").with_columns(
        nth=row.cast(pl.Int64) - row.first().over("line")
    )


def _with_callers(messages: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """Messages; tool results with the call that they answer: answers (its nth), asked (its at)."""
    answered = calls.select(
        "line", tool_call_id="call_id", answers="nth", asked="at", caller="agent"
    )
    results = messages.filter(pl.col("type") == "tool").select("line", "at", "tool_call_id")
    found = results.join(answered, on=["line", "tool_call_id"], how="left", maintain_order="left")
    return messages.join(
        found.drop("tool_call_id"), on=["line", "at"], how="left", maintain_order="left"
    )


def _irregular(lines: pl.DataFrame, messages: pl.DataFrame, calls: pl.DataFrame) -> pl.Series:
    """Lines (any line of a session is enough) that must be read record by record."""
    twice = lines.filter(pl.struct("session", "turn_id").is_duplicated())
    return pl.concat(
        [
            lines.filter(~pl.col("regular"))["line"],
            twice["line"],
            messages.filter(~_is_plain().fill_null(value=False))["line"],
            _several_humans(messages),
            _odd_ids(messages),
            _several_agents(messages),
            calls.filter(~_is_plain_call().fill_null(value=False))["line"],
            calls.filter(pl.struct("session", "call_id").is_duplicated())["line"],
            messages.filter(
                (pl.col("type") == "tool") & pl.struct("line", "answers").is_duplicated()
            )["line"],
        ]
    ).unique()


def _is_plain() -> pl.Expr:
    """A message whose every field says just what it says."""
    kind, node, content = pl.col("type"), pl.col("node"), pl.col("content")
    human = (
        (node == "__human__") & pl.col("alone") & ~pl.col("text").str.starts_with(SUMMARY_OPENING)
    )
    result = (
        pl.col("answers").is_not_null()
        & (pl.col("asked") < pl.col("at"))
        & ~pl.col("text").str.starts_with(STRUCTURED_OPENING)
        & ~reduce(
            lambda a, b: a | b,
            [pl.col("text").str.contains(e, literal=True) for e in STRUCTURED_ERRORS],
        )
    )
    meta, extra = pl.col("response_metadata"), pl.col("additional_kwargs")
    usage = pl.col("usage_metadata")
    counted = reduce(
        lambda a, b: a & b,
        [
            usage.struct.field(n).str.contains(r"^[0-9]{1,15}$").fill_null(value=False)
            for n in ("input_tokens", "output_tokens")
        ],
    )
    spoken = ~pl.col("tool_calls").list.len().fill_null(0).cast(pl.Boolean) | (kind == "ai")
    rules = [
        pl.col("plain"),
        pl.when(kind == "human")
        .then(human)
        .when(kind == "tool")
        .then(result)
        .otherwise(kind == "ai"),
        (kind == "human") | _is_plain_node(node),
        spoken,
        content.str.starts_with('"') | (content.is_null() & pl.col("tool_calls").is_not_null()),
        pl.col("invalid_tool_calls").fill_null("[]").is_in(["[]", "null"]),
        extra.is_null() | extra.is_in([*_EMPTY_KWARGS, "null"]),
        ~meta.str.contains("__", literal=True).fill_null(value=False),
        usage.is_null() | counted,
        usage.is_not_null() | ~meta.str.contains(r"(?i)usage").fill_null(value=False),
        *(is_written_as_text(k).fill_null(value=True) for k in ("id", "name", "tool_call_id")),
        *(pl.col(k).is_null() for k in _ABSENT_IN_MESSAGES),
    ]
    return reduce(lambda a, b: a & b, rules)


def _is_plain_node(node: pl.Expr) -> pl.Expr:
    hooks = [node.str.ends_with(hook) for hook in HOOKS]
    odd = [node.str.starts_with("__"), node.is_in(list(HOOK_NODES)), node == "messages", *hooks]
    return ~reduce(lambda a, b: a | b, odd)


def _is_plain_call() -> pl.Expr:
    name = pl.col("tool")
    handoff = reduce(lambda a, b: a | b, [name.str.starts_with(o) for o in HANDOFF_OPENINGS])
    return (
        is_written_as_text("tool")
        & ~handoff
        & pl.col("arguments").is_not_null()
        & is_written_as_text("call_id")
    )


def _several_humans(messages: pl.DataFrame) -> pl.Series:
    asked = messages.filter(pl.col("type") == "human")["line"]
    return asked.filter(asked.is_duplicated())


def _odd_ids(messages: pl.DataFrame) -> pl.Series:
    """Lines of sessions with an id that is there twice, or with ids on some messages only."""
    named = messages.filter(pl.col("id").is_not_null())
    twice = named.filter(pl.struct("session", "id").is_duplicated())["line"]
    shares = (
        messages.filter(pl.col("type") != "human")
        .group_by("session")
        .agg(named=pl.col("id").count(), all=pl.len(), line=pl.col("line").first())
        .filter(pl.col("named") > 0, pl.col("named") < pl.col("all"))
    )
    return pl.concat([twice, shares["line"]])


def _several_agents(messages: pl.DataFrame) -> pl.Series:
    return (
        messages.group_by("session")
        .agg(agents=pl.col("agent").drop_nulls().n_unique(), line=pl.col("line").first())
        .filter(pl.col("agents") > 1)["line"]
    )


def _tables(
    lines: pl.DataFrame, messages: pl.DataFrame, calls: pl.DataFrame, ids: pl.DataFrame
) -> Conversations:
    """The four tables of regular sessions, in the order of the lines' sessions and turns."""
    keys = (
        lines.select("line", "session", "turn_id")
        .join(ids, on="session", how="left")
        .sort("session", "turn_id")
        .with_columns(
            turn_index=pl.int_range(1, pl.len() + 1, dtype=pl.Int64).over("session"),
            session_index=pl.col("session").rank("dense").cast(pl.Int64) - 1,
            place=pl.int_range(pl.len(), dtype=pl.Int64),
        )
    )
    frames = {
        "turns": (schemas.Turns, _turns(lines, messages, calls, keys)),
        "messages": (schemas.Messages, _message_rows(messages, keys)),
        "tool_calls": (schemas.ToolCalls, _call_rows(messages, calls, keys)),
    }
    made = {
        name: frame.select(pl.col(n).cast(t) for n, t in schemas.columns(schema).items())
        for name, (schema, frame) in frames.items()
    }
    handoffs = pl.DataFrame(schema=schemas.columns(schemas.Handoffs))
    return Conversations(**made, handoffs=handoffs)


def _turns(
    lines: pl.DataFrame, messages: pl.DataFrame, calls: pl.DataFrame, keys: pl.DataFrame
) -> pl.DataFrame:
    kind = pl.col("type")
    usage = pl.col("usage_metadata").struct
    counts = [
        usage.field(n)
        .cast(pl.Float64)
        .filter((kind == "ai") & usage.field(n).is_not_null())
        .alias(f"seen_{n}")
        for n in ("input_tokens", "output_tokens")
    ]
    speaks = (
        (kind == "ai")
        & ~pl.col("text").str.contains(BLANK)
        & (pl.col("tool_calls").list.len().fill_null(0) == 0)
    )
    spoken = messages.filter(kind != "human").group_by("line", maintain_order=True)
    said = spoken.agg(
        last=kind.last(),
        last_text=pl.col("text").last(),
        last_error=(pl.col("status").last() == "error").fill_null(value=False),
        last_asked=pl.col("asked").last(),
        last_calls=pl.col("tool_calls").list.len().last().fill_null(0),
        answer=pl.col("text").filter(speaks).last(),
        agents=pl.col("agent").drop_nulls().unique(maintain_order=True),
        *[pl.when(c.count() > 0).then(c.sum()).alias(c.meta.output_name()) for c in counts],
    )
    # A tool ends a turn when every call of the message that asked for it has its result.
    open_calls = (
        calls.join(
            messages.select("line", nth="answers", got=pl.lit(value=True)).drop_nulls("nth"),
            on=["line", "nth"],
            how="left",
        )
        .group_by("line", last_asked="at")
        .agg(all_answered=pl.col("got").is_not_null().all())
    )
    asked = messages.filter(kind == "human").select("line", query="text")
    direct = (
        (pl.col("last") == "tool")
        & ~pl.col("last_error")
        & (pl.col("last_text") != "")
        & pl.col("all_answered").fill_null(value=False)
    )
    silent = (pl.col("last") == "ai") & (pl.col("last_calls") == 0)
    turns = (
        keys.join(lines.drop("session", "turn_id", "events", "regular"), on="line", how="left")
        .join(said, on="line", how="left")
        .join(open_calls, on=["line", "last_asked"], how="left")
        .join(asked, on="line", how="left")
        .sort("place")
        .with_columns(
            response=pl.when(direct)
            .then("last_text")
            .when(pl.col("answer").is_not_null())
            .then("answer")
            .when(silent)
            .then(pl.lit("")),
            topology=pl.lit("single"),
            interrupted=pl.lit(value=False),
            agents=pl.col("agents").fill_null(pl.lit([], dtype=pl.List(pl.String))),
            workflow_status=pl.lit(None, dtype=pl.String),
            metadata=pl.lit(None, dtype=pl.String),
        )
    )
    return _with_tokens(turns)


def _with_tokens(turns: pl.DataFrame) -> pl.DataFrame:
    """The payload's token counts, else what the messages report; a note where the two differ."""
    notes: list[pl.Expr] = []
    for name in ("input_tokens", "output_tokens"):
        stated, seen = turns[name], turns[f"seen_{name}"]
        differ = (stated.is_not_null() & seen.is_not_null() & (stated != seen)).arg_true()
        if len(differ):
            told = [token_note(name.partition("_")[0], stated[at], seen[at]) for at in differ]
            column = pl.Series([None], dtype=pl.String).new_from_index(0, turns.height)
            notes.append(pl.lit(column.scatter(differ, told)))
    none = pl.lit([], dtype=pl.List(pl.String))
    return turns.with_columns(
        pl.coalesce("input_tokens", "seen_input_tokens").alias("input_tokens"),
        pl.coalesce("output_tokens", "seen_output_tokens").alias("output_tokens"),
        notes=pl.concat_list(notes).list.drop_nulls() if notes else none,
    )


def _message_rows(messages: pl.DataFrame, keys: pl.DataFrame) -> pl.DataFrame:
    roles = {"human": "user", "ai": "assistant", "tool": "tool"}
    usage = pl.col("usage_metadata").struct
    return _in_turns(messages, keys).select(
        "session_id",
        "turn_id",
        message_index="at",
        role=pl.col("type").replace_strict(roles, return_dtype=pl.Enum(schemas.ROLES)),
        agent=pl.coalesce("agent", "caller"),
        content="text",
        reasoning=pl.lit(None, dtype=pl.String),
        message_id="id",
        tool_call_id=pl.when(pl.col("type") == "tool").then("tool_call_id"),
        is_error=((pl.col("type") == "tool") & (pl.col("status") == "error")).fill_null(
            value=False
        ),
        is_synthetic=pl.lit(value=False),
        input_tokens=pl.when(pl.col("type") == "ai").then(usage.field("input_tokens")),
        output_tokens=pl.when(pl.col("type") == "ai").then(usage.field("output_tokens")),
    )


def _call_rows(messages: pl.DataFrame, calls: pl.DataFrame, keys: pl.DataFrame) -> pl.DataFrame:
    results = messages.filter(pl.col("answers").is_not_null()).select(
        "line",
        nth="answers",
        result="text",
        failed=(pl.col("status") == "error").fill_null(value=False),
    )
    rows = _in_turns(
        calls.join(results, on=["line", "nth"], how="left", maintain_order="left"), keys
    )
    status = (
        pl.when(pl.col("failed").is_null())
        .then(pl.lit("pending"))
        .when("failed")
        .then(pl.lit("error"))
        .otherwise(pl.lit("ok"))
    )
    return rows.select(
        "session_id",
        "turn_id",
        call_index="nth",
        message_index="at",
        agent="agent",
        tool_call_id="call_id",
        name="tool",
        arguments="arguments",
        raw_arguments=pl.lit(None, dtype=pl.String),
        result="result",
        status=status,
    )


def _in_turns(rows: pl.DataFrame, keys: pl.DataFrame) -> pl.DataFrame:
    """Rows of lines with the keys of their turns, in the order of the turns."""
    places = keys.select("line", "session_id", "turn_id", "place")
    placed = rows.join(places, on="line", how="left", maintain_order="left")
    return placed if placed["place"].is_sorted() else placed.sort("place", maintain_order=True)
