"""Materials: what judges are shown, as columns of tagged text, worked out once a batch.

A material is a function from tables and a number of tokens to a frame keyed by `unit`. All text in
it is safe to show and lies within the tokens; what was left out is counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from uaef_frames.judge.prompts import MARK as _MARK
from uaef_frames.judge.prompts import attribute, characters_cut, cut, elided, safe, tagged
from uaef_frames.judge.tokens import token_estimate

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from uaef_frames.metrics.features import MetricTables

_TOOL_TOKENS = 400
"""What the result of one tool may take of a transcript."""
_LEAST = 32
"""Tokens that every message keeps, however many there are."""
COLUMNS = {
    "unit": pl.Int64,
    "part": pl.Int64,
    "text": pl.String,
    "elided_turns": pl.Int64,
    "cut_characters": pl.Int64,
}
"""A material's columns: tagged text, and how many turns and characters were left out of it. `part`
numbers the pieces of a unit that are judged one by one; 0 where there is only one."""


@dataclass(frozen=True, slots=True)
class Material:
    """One thing that can be shown.

    Attributes:
        make: The function; units without the material are absent from what it gives.
        missing: What to say of a unit that has none.
        share: Its part of a request's tokens, against the other materials shown with it.
    """

    make: Callable[[MetricTables, int], pl.DataFrame]
    missing: str
    share: int = 1


def _plain(name: str, units: pl.DataFrame, column: str, tokens: int) -> pl.DataFrame:
    """A column of text as a material."""
    text = safe(pl.col(column).str.strip_chars())
    return (
        units.select("unit", safe=text)
        .filter(pl.col("safe").str.len_bytes() > 0)
        .with_columns(shown=cut(pl.col("safe"), tokens))
        .select(
            "unit",
            part=pl.lit(0, dtype=pl.Int64),
            text=tagged(name, pl.col("shown")),
            elided_turns=pl.lit(0, dtype=pl.Int64),
            cut_characters=characters_cut(pl.col("safe"), pl.col("shown")),
        )
    )


def query(t: MetricTables, tokens: int) -> pl.DataFrame:
    """What the user asked in a turn."""
    return _plain("query", t.turns, "query", tokens)


def response(t: MetricTables, tokens: int) -> pl.DataFrame:
    """What the assistant answered in a turn."""
    return _plain("response", t.turns, "response", tokens)


def expected_output(t: MetricTables, tokens: int) -> pl.DataFrame:
    """The answer that was expected, of a turn or of a conversation."""
    columns = ["unit", "expected_output"]
    both = pl.concat([t.turns.select(columns), t.sessions.select(columns)])
    return _plain("expected_output", both, "expected_output", tokens)


def chatbot_role(t: MetricTables, tokens: int) -> pl.DataFrame:
    """The role that the assistant should keep."""
    return _plain("chatbot_role", t.sessions, "chatbot_role", tokens)


def instructions(t: MetricTables, tokens: int) -> pl.DataFrame:
    """What the assistant was told to do; the expected output stands in where nothing is said."""
    told = [
        pl.when(pl.col(c).str.strip_chars().str.len_bytes() > 0).then(pl.col(c))
        for c in ("system_instructions", "expected_output")
    ]
    units = t.sessions.select("unit", told=pl.coalesce(told))
    return _plain("instructions", units, "told", tokens)


def workflow_status(t: MetricTables, tokens: int) -> pl.DataFrame:
    """How the workflow ended, as its framework reported."""
    return _plain("workflow_status", t.turns, "workflow_status", min(tokens, 100))


def context(t: MetricTables, tokens: int) -> pl.DataFrame:
    """Documents that an answer may rest on; the results of the turn's tools where there are
    none.
    """
    given = (
        t.turns.filter(pl.col("context").list.len() > 0)
        .select("unit", document="context")
        .explode("document")
    )
    results = (
        t.tool_calls.select("unit", document="result")
        .join(given, on="unit", how="anti", maintain_order="left")
        .filter(pl.col("document").str.strip_chars().str.len_bytes() > 0)
    )
    documents = pl.concat([given, results]).with_columns(
        safe=safe(pl.col("document")),
        number=pl.int_range(1, pl.len() + 1).over("unit"),
        limit=_shared(tokens),
    )
    shown = documents.with_columns(shown=cut(pl.col("safe"), pl.col("limit")))
    number = pl.format('number="{}"', "number")
    return _gathered("context", shown, tagged("document", pl.col("shown"), number), pl.col("safe"))


def reasoning(t: MetricTables, tokens: int) -> pl.DataFrame:
    """An answer with any reasoning that the model emitted on the way to it."""
    answers = t.turns.filter(pl.col("response").str.strip_chars().str.len_bytes() > 0).select(
        "unit", kind=pl.lit("answer"), safe=safe(pl.col("response"))
    )
    thoughts = (
        t.messages.filter(
            (pl.col("role") == "assistant")
            & (pl.col("reasoning").str.strip_chars().str.len_bytes() > 0)
        )
        .select("unit", kind=pl.lit("thought"), safe=safe(pl.col("reasoning")))
        .join(answers, on="unit", how="semi", maintain_order="left")
    )
    pieces = pl.concat([thoughts, answers]).with_columns(limit=_shared(tokens))
    shown = pieces.with_columns(shown=cut(pl.col("safe"), pl.col("limit")))
    return _gathered("reasoning", shown, _by_kind(), pl.col("safe"))


def team(t: MetricTables, tokens: int) -> pl.DataFrame:
    """Agents, what each did in the order it happened, and how work passed between them."""
    unit = t.handoffs.select("unit").unique()
    said = t.messages.filter(
        pl.col("agent").is_not_null()
        & (pl.col("role") == "assistant")
        & ~pl.col("is_synthetic")
        & (pl.col("content").str.strip_chars().str.len_bytes() > 0)
    ).select(
        "unit",
        at=pl.col("message_index").cast(pl.Int64),
        kind=pl.lit("work"),
        who=pl.format('agent="{}"', attribute(pl.col("agent"))),
        raw=pl.col("content"),
    )
    called = t.tool_calls.select(
        "unit",
        at=pl.col("message_index").fill_null(1 << 40),
        kind=pl.lit("call"),
        who=pl.format('agent="{}"', attribute(pl.col("agent").fill_null("unknown"))),
        raw=pl.format(
            "{} {} ({})", "name", pl.coalesce("arguments", "raw_arguments", pl.lit("")), "status"
        ),
    )
    passed = t.handoffs.select(
        "unit",
        at=pl.lit(1 << 41, dtype=pl.Int64) + pl.col("event_index"),
        kind=pl.lit("handoff"),
        who=pl.format(
            'from="{}" to="{}"',
            attribute(pl.col("from_agent").fill_null("unknown")),
            attribute(pl.col("to_agent").fill_null("unknown")),
        ),
        raw=pl.format(
            "{} → {}: {}",
            pl.col("from_agent").fill_null("unknown"),
            pl.col("to_agent").fill_null("unknown"),
            pl.col("message").fill_null(""),
        ),
    )
    pieces = (
        pl.concat([said, called, passed])
        .join(unit, on="unit", how="semi")
        .sort("unit", "at", maintain_order=True)
        .with_columns(safe=safe(pl.col("raw")), limit=_shared(tokens))
    )
    shown = pieces.with_columns(shown=cut(pl.col("safe"), pl.col("limit")))
    return _gathered("team", shown, _by_kind(pl.col("who")), pl.col("safe"))


def conversation(t: MetricTables, tokens: int) -> pl.DataFrame:
    """What was said in one turn, by user, agents and tools."""
    spoken = t.messages.select("unit", "role", "content", "is_synthetic", "agent")
    return _talk("conversation", spoken, tokens)


def transcript(t: MetricTables, tokens: int) -> pl.DataFrame:
    """A whole conversation in its order. Over the limit, turns in the middle give way to a mark."""
    spoken = t.session_messages.select(
        "role", "content", "is_synthetic", unit="session_unit", agent=pl.lit(None, dtype=pl.String)
    )
    return _talk("transcript", spoken, tokens)


def exchange(t: MetricTables, tokens: int) -> pl.DataFrame:
    """Each user message with the reply to it: one part an exchange, numbered from 1."""
    spoken = _spoken(
        t.session_messages.select(
            "role",
            "content",
            "is_synthetic",
            unit="session_unit",
            agent=pl.lit(None, dtype=pl.String),
        ),
        tokens,
    ).filter(pl.col("role") != "tool", pl.col("turn") > 0)
    return (
        spoken.group_by("unit", "turn", maintain_order=True)
        .agg(
            replied=(pl.col("role") == "assistant").any(),
            text=pl.col("line").str.join("\n"),
            cut_characters=pl.col("cut_characters").sum(),
        )
        .filter("replied")
        .select(
            "unit",
            part=pl.col("turn").cast(pl.Int64),
            text=tagged("exchange", pl.col("text")),
            elided_turns=pl.lit(0, dtype=pl.Int64),
            cut_characters="cut_characters",
        )
    )


MATERIALS: Mapping[str, Material] = {
    "query": Material(query, "there is no question"),
    "response": Material(response, "there is no answer", share=3),
    "expected_output": Material(expected_output, "no expected output is given"),
    "context": Material(context, "there are no context documents and no tool results", share=3),
    "reasoning": Material(reasoning, "there is no answer", share=3),
    "team": Material(team, "no work passed between agents", share=3),
    "conversation": Material(conversation, "there is no answer", share=3),
    "workflow_status": Material(workflow_status, "the workflow's status is not known"),
    "transcript": Material(transcript, "the assistant said nothing", share=3),
    "exchange": Material(exchange, "no user message got a reply", share=3),
    "chatbot_role": Material(chatbot_role, "no chatbot_role is given"),
    "instructions": Material(
        instructions, "no system_instructions and no expected output are given"
    ),
}
"""Every material that a judge can be shown, by name; the name is its tag too."""


def _shared(tokens: int) -> pl.Expr:
    """Tokens for each piece of a unit: an even share, and never less than a little."""
    return pl.max_horizontal(pl.lit(tokens) // pl.len().over("unit"), pl.lit(_LEAST)).cast(pl.Int64)


def _by_kind(attributes: pl.Expr | None = None) -> pl.Expr:
    kind, text = pl.col("kind"), pl.col("shown")
    if attributes is None:
        return pl.format(f"<{{}}-{_MARK}>\n{{}}\n</{{}}-{_MARK}>", kind, text, kind)
    return pl.format(f"<{{}}-{_MARK} {{}}>\n{{}}\n</{{}}-{_MARK}>", kind, attributes, text, kind)


def _gathered(name: str, pieces: pl.DataFrame, line: pl.Expr, before: pl.Expr) -> pl.DataFrame:
    """Pieces of each unit under one tag."""
    return (
        pieces.with_columns(line=line, missing=characters_cut(before, pl.col("shown")))
        .group_by("unit", maintain_order=True)
        .agg(text=pl.col("line").str.join("\n"), cut_characters=pl.col("missing").sum())
        .select(
            "unit",
            part=pl.lit(0, dtype=pl.Int64),
            text=tagged(name, pl.col("text")),
            elided_turns=pl.lit(0, dtype=pl.Int64),
            cut_characters="cut_characters",
        )
    )


def _spoken(messages: pl.DataFrame, tokens: int) -> pl.DataFrame:
    """What was said, as tagged lines: unit, turn (user messages so far), role, line,
    cut_characters.
    """
    own = messages.filter(
        ~pl.col("is_synthetic")
        & pl.col("role").is_in(["user", "assistant", "tool"])
        & (pl.col("content").str.strip_chars().str.len_bytes() > 0)
    ).select("unit", "agent", role=pl.col("role").cast(pl.String), safe=safe(pl.col("content")))
    # A turn takes half at most, so that the first and the last always fit; each message its share.
    limited = own.with_columns(
        turn=(pl.col("role") == "user").cum_sum().over("unit").cast(pl.Int64)
    ).with_columns(
        limit=pl.max_horizontal(
            pl.lit(tokens) // (2 * pl.len().over("unit", "turn")), pl.lit(_LEAST)
        ).cast(pl.Int64)
    )
    limit = (
        pl.when(pl.col("role") == "tool")
        .then(pl.min_horizontal("limit", pl.lit(_TOOL_TOKENS)))
        .otherwise(pl.col("limit"))
    )
    shown = limited.with_columns(shown=cut(pl.col("safe"), limit))
    role, text = pl.col("role"), pl.col("shown")
    named = pl.format(' agent="{}"', attribute(pl.col("agent"))).fill_null("")
    return shown.select(
        "unit",
        "turn",
        "role",
        line=pl.format(f"<{{}}-{_MARK}{{}}>\n{{}}\n</{{}}-{_MARK}>", role, named, text, role),
        cut_characters=characters_cut(pl.col("safe"), text),
    )


def _talk(name: str, messages: pl.DataFrame, tokens: int) -> pl.DataFrame:
    turns = (
        _spoken(messages, tokens)
        .group_by("unit", "turn", maintain_order=True)
        .agg(
            text=pl.col("line").str.join("\n"),
            replied=(pl.col("role") == "assistant").any(),
            cut_characters=pl.col("cut_characters").sum(),
        )
        .sort("unit", "turn")
        .with_columns(
            text=tagged("turn", pl.col("text"), pl.format('number="{}"', "turn")),
        )
        .with_columns(size=token_estimate(pl.col("text")))
    )
    kept = turns.with_columns(kept=_kept(tokens))
    dropped = ~pl.col("kept")
    first = dropped & pl.col("kept").shift(1).over("unit").fill_null(value=True)
    line = (
        pl.when("kept")
        .then(pl.col("text"))
        .when(first)
        .then(elided("turns", dropped.sum().over("unit")))
    )
    return (
        kept.with_columns(line=line)
        .group_by("unit", maintain_order=True)
        .agg(
            replied=pl.col("replied").any(),
            text=pl.col("line").drop_nulls().str.join("\n"),
            elided_turns=dropped.sum().cast(pl.Int64),
            cut_characters=pl.col("cut_characters").filter("kept").sum(),
        )
        .filter("replied")
        .select(
            "unit",
            part=pl.lit(0, dtype=pl.Int64),
            text=tagged(name, pl.col("text")),
            elided_turns="elided_turns",
            cut_characters="cut_characters",
        )
    )


def _kept(tokens: int) -> pl.Expr:
    """Whether a turn stays: the ends always, and from both ends inward as much as fits."""
    size = pl.col("size")
    total = size.sum().over("unit")
    before = size.cum_sum().over("unit")
    after = total - before + size
    first, last = size.first().over("unit"), size.last().over("unit")
    middle = pl.max_horizontal(tokens - first - last, pl.lit(0)) / 2
    return (
        (total <= tokens)
        | (before == first)
        | (after == last)
        | (before - first <= middle)
        | (after - last <= middle)
    )
