"""Units: turns and conversations numbered, and what is expected laid beside what happened.

Owns how a row of ground truth finds its turn. Knows nothing of metrics.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from uaef_frames.metrics.features import MetricTables

if TYPE_CHECKING:
    from uaef_frames.conversations import Conversations
    from uaef_frames.expectations import Expectations

_KEYS = ["session_id", "turn_id"]
_NOT_MATCHED = pl.DataFrame(schema={"session_id": pl.String, "warning": pl.String})


@dataclass(frozen=True, slots=True)
class FullTraces:
    """What full traces say that their turns do not.

    Attributes:
        messages: session_id, role, content, is_synthetic; sessions without any use the turns'.
        completeness: session_id, completeness_score; sessions without one use the turns' mean.
    """

    messages: pl.DataFrame
    completeness: pl.DataFrame


@dataclass(frozen=True, slots=True)
class Subject:
    """What is to be scored: numbered tables, and what to tell about how ground truth matched.

    `whole` is the column `unit` of conversations whose tools are compared as a whole; `warnings`
    has session_id and warning.
    """

    tables: MetricTables
    whole: pl.DataFrame
    warnings: pl.DataFrame


def lay_out(
    conversations: Conversations,
    expectations: Expectations,
    full: FullTraces | None = None,
) -> Subject:
    """Number turns and conversations and bring every table onto those numbers.

    Args:
        conversations: What happened.
        expectations: What was expected; sessions that did not happen are left aside.
        full: What full traces say beyond their turns; None where they are just the turns.
    """
    turns = conversations.turns.with_row_index("unit").with_columns(pl.col("unit").cast(pl.Int64))
    first = turns.height
    sessions = (
        turns.group_by("session_id", maintain_order=True)
        .agg(
            topology=pl.col("topology").first(),
            num_turns=pl.len().cast(pl.Int64),
            latency_s=_sum("latency_s"),
            input_tokens=_sum("input_tokens"),
            output_tokens=_sum("output_tokens"),
            cost_usd=_sum("cost_usd"),
            completeness_score=pl.col("completeness_score").mean(),
            quality_score=pl.col("quality_score").mean(),
            queries=pl.col("query"),
            responses=pl.col("response"),
        )
        .with_columns(unit=pl.int_range(first, first + pl.len(), dtype=pl.Int64))
    )
    turns = turns.join(
        sessions.select("session_id", "num_turns", session_unit="unit"),
        on="session_id",
        how="left",
        maintain_order="left",
    )
    numbers = turns.select(*_KEYS, "unit", "session_unit")
    child = {
        name: _number(getattr(conversations, name), numbers, index)
        for name, index in (
            ("messages", "message_index"),
            ("tool_calls", "call_index"),
            ("handoffs", "event_index"),
        )
    }
    if full is not None:
        sessions = _with_own_completeness(sessions, full.completeness)
    placed = _place(turns, expectations)
    stated, whole, expected = _stated(turns, sessions, placed, expectations)
    turns, sessions = _with_outputs(turns, sessions, placed, expectations)
    tables = MetricTables(
        turns=turns,
        sessions=sessions,
        session_messages=_session_messages(child["messages"], full, sessions),
        stated=stated,
        expected=expected,
        stage_one=pl.DataFrame(schema={"unit": pl.Int64, "metric": pl.String, "score": pl.Float64}),
        **child,
    )
    return Subject(tables, whole, _length_warnings(turns, expectations))


def expected_tables(subject: Subject) -> dict[str, pl.DataFrame]:
    """`expected` and `expected_tool_calls` as a run keeps them: by the numbers of its own turns."""
    tables = subject.tables
    columns = ["session_unit", "unit", "session_id", "turn_id", "expected_output"]
    whole = tables.sessions.with_columns(
        session_unit=pl.col("unit"), turn_id=pl.lit(None, dtype=pl.Int64)
    )
    units = pl.concat([tables.turns.select(columns), whole.select(columns)])
    stated = tables.stated["unit"].implode()
    told = units.with_columns(tools_stated=pl.col("unit").is_in(stated)).filter(
        pl.col("tools_stated") | pl.col("expected_output").is_not_null()
    )
    calls = tables.expected.join(units, on="unit", how="inner")
    return {
        "expected": told.sort("session_unit", "unit"),
        "expected_tool_calls": calls.sort("session_unit", "unit", "call_index"),
    }


def _sum(column: str) -> pl.Expr:
    """The sum of the known values; null where none is known."""
    return pl.when(pl.col(column).count() > 0).then(pl.col(column).sum())


def _number(rows: pl.DataFrame, numbers: pl.DataFrame, index: str) -> pl.DataFrame:
    numbered = rows.join(numbers, on=_KEYS, how="inner", maintain_order="left")
    if numbered["unit"].is_sorted():
        return numbered
    return numbered.sort("unit", index)


def _place(turns: pl.DataFrame, expectations: Expectations) -> pl.DataFrame:
    """Which turn each row of turn_expectations speaks of: session_id, turn_id (theirs), unit.

    A positional row counts turns. Any other row is matched by turn_id where all numbers of its
    session are numbers of the conversation, else by order.
    """
    theirs = expectations.turn_expectations.select(*_KEYS, "positional")
    if theirs.is_empty():
        return pl.DataFrame(schema={"session_id": pl.String, "turn_id": pl.Int64, "unit": pl.Int64})
    ours = turns.select("session_id", "turn_id", "turn_index", "unit")
    by_number = theirs.join(
        ours.select(*_KEYS, found="unit"), on=_KEYS, how="left", maintain_order="left"
    ).with_columns(
        position=pl.when("positional")
        .then(pl.col("turn_id"))
        .otherwise(pl.col("turn_id").rank("ordinal").over("session_id").cast(pl.Int64)),
        agrees=~pl.col("positional") & pl.col("found").is_not_null().all().over("session_id"),
    )
    return (
        by_number.join(
            ours.select("session_id", position="turn_index", at="unit"),
            on=["session_id", "position"],
            how="left",
            maintain_order="left",
        )
        .select(*_KEYS, unit=pl.when("agrees").then(pl.col("found")).otherwise(pl.col("at")))
        .drop_nulls("unit")
    )


def _stated(
    turns: pl.DataFrame,
    sessions: pl.DataFrame,
    placed: pl.DataFrame,
    expectations: Expectations,
) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Units whose tools are stated, those of them that are whole conversations, and their calls."""
    by_turn = (
        expectations.turn_expectations.filter("tools_stated")
        .join(placed, on=_KEYS, how="inner")
        .select("unit")
    )
    calls = expectations.expected_tool_calls
    of_turns = calls.filter(pl.col("turn_id").is_not_null()).join(
        placed, on=_KEYS, how="inner", maintain_order="left"
    )
    # Calls given for the whole conversation are the turn's own when there is one turn only.
    only_turn = turns.filter(pl.col("num_turns") == 1).select("session_id", only="unit")
    owners = (
        expectations.session_expectations.filter("tools_stated")
        .select("session_id")
        .join(sessions.select("session_id", "unit"), on="session_id", how="inner")
        .join(only_turn, on="session_id", how="left")
        .select("session_id", unit=pl.coalesce("only", "unit"))
    )
    of_sessions = calls.filter(pl.col("turn_id").is_null()).join(
        owners, on="session_id", how="inner", maintain_order="left"
    )
    columns = ["unit", "call_index", "name", "arguments"]
    whole = owners.filter(pl.col("unit") >= turns.height).select("unit")
    stated = pl.concat([by_turn, owners.select("unit")]).unique()
    return stated, whole, pl.concat([of_turns.select(columns), of_sessions.select(columns)])


def _with_outputs(
    turns: pl.DataFrame,
    sessions: pl.DataFrame,
    placed: pl.DataFrame,
    expectations: Expectations,
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """expected_output and context onto turns (own, else the session's) and onto sessions."""
    overall = expectations.session_expectations.select(
        "session_id",
        "chatbot_role",
        "system_instructions",
        overall="expected_output",
        overall_context="context",
    )
    own = (
        expectations.turn_expectations.select(*_KEYS, own="expected_output", own_context="context")
        .join(placed, on=_KEYS, how="inner")
        .select("unit", "own", "own_context")
    )
    text = pl.coalesce("own", "overall")
    turns = (
        turns.join(own, on="unit", how="left", maintain_order="left")
        .join(
            overall.select("session_id", "overall", "overall_context"),
            on="session_id",
            how="left",
            maintain_order="left",
        )
        .with_columns(
            expected_output=pl.when(text.str.strip_chars() != "").then(text),
            context=_first_filled("own_context", "overall_context"),
        )
        .drop("own", "overall", "own_context", "overall_context")
    )
    sessions = sessions.join(
        overall.drop("overall_context").rename({"overall": "expected_output"}),
        on="session_id",
        how="left",
        maintain_order="left",
    )
    return turns, sessions


def _first_filled(*lists: str) -> pl.Expr:
    """The first of those lists that holds anything; an empty one where none does."""
    filled = [pl.when(pl.col(c).list.len() > 0).then(pl.col(c)) for c in lists]
    return pl.coalesce(*filled, pl.lit([], dtype=pl.List(pl.String)))


def _with_own_completeness(sessions: pl.DataFrame, own: pl.DataFrame) -> pl.DataFrame:
    renamed = own.select("session_id", own="completeness_score")
    return (
        sessions.join(renamed, on="session_id", how="left", maintain_order="left")
        .with_columns(completeness_score=pl.coalesce("own", "completeness_score"))
        .drop("own")
    )


def _session_messages(
    messages: pl.DataFrame, full: FullTraces | None, sessions: pl.DataFrame
) -> pl.DataFrame:
    columns = ["session_unit", "role", "content", "is_synthetic"]
    own = messages.select(columns)
    if full is None or full.messages.is_empty():
        return own
    units = sessions.select("session_id", session_unit="unit")
    other = full.messages.join(units, on="session_id", how="inner", maintain_order="left").select(
        columns
    )
    return pl.concat([own.join(other, on="session_unit", how="anti", maintain_order="left"), other])


def _length_warnings(turns: pl.DataFrame, expectations: Expectations) -> pl.DataFrame:
    theirs = expectations.turn_expectations.group_by("session_id").agg(expected=pl.len())
    if theirs.is_empty():
        return _NOT_MATCHED
    ours = turns.group_by("session_id", maintain_order=True).agg(turns=pl.len())
    return (
        ours.join(theirs, on="session_id", how="inner", maintain_order="left")
        .filter(pl.col("turns") != pl.col("expected"))
        .select(
            "session_id",
            warning=pl.format(
                "ground truth speaks of {} turns, the conversation has {}", "expected", "turns"
            ),
        )
    )
