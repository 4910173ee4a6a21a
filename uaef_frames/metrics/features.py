"""Features: columns that several metrics read, worked out once a batch of conversations.

A feature is a function from tables to a frame keyed by `unit`: a turn, or a whole conversation.
It knows the tables and nothing of scores; a metric names the features it `needs`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from uaef_frames.metrics.injection_patterns import FAMILIES, ZERO_WIDTH
from uaef_frames.metrics.pairing import pair_arguments
from uaef_frames.metrics.sequences import lcs_lengths

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_ANY_FAMILY = "|".join(f"(?:{pattern})" for pattern in FAMILIES.values())
"""All families in one pattern: one pass over the text instead of ten."""
_MCP_NAMED = r"(?i)(^|[^a-z0-9])(mcp|model[_ -]context[_ -]protocol)([^a-z0-9]|$)"
"""In metadata: the protocol's name as a word of a key or value, as in `mcp_server`."""
_SHOWN = 20
"""Names that a sequence shows in words before it is cut."""


@dataclass(frozen=True, slots=True)
class MetricTables:
    """What features are made from. `unit` numbers turns first, then conversations.

    Attributes:
        turns: `turns`, with `unit` and `session_unit`.
        sessions: One row a conversation: `unit`, session_id, topology, num_turns and sums.
        messages: `messages` with `unit` and `session_unit`, in the order they happened.
        session_messages: The messages that count for a conversation as a whole.
        tool_calls: `tool_calls` with `unit` and `session_unit`, in the order they were made.
        handoffs: `handoffs` with `unit`.
        stated: Column `unit`: turns and conversations whose expected tools are stated.
        expected: Expected calls: unit, call_index, name, arguments.
        stage_one: Scores of stage one: unit, metric, score.
    """

    turns: pl.DataFrame
    sessions: pl.DataFrame
    messages: pl.DataFrame
    session_messages: pl.DataFrame
    tool_calls: pl.DataFrame
    handoffs: pl.DataFrame
    stated: pl.DataFrame
    expected: pl.DataFrame
    stage_one: pl.DataFrame


QUALITY_METRICS = ("answer_relevance", "completeness", "accuracy", "hallucination_score")
"""The metrics whose mean is a turn's quality_score, where the trace brings none of its own."""


def tool_match(t: MetricTables) -> pl.DataFrame:
    """Expected against called tools, for every unit whose expectation is stated.

    Columns: expected_count, actual_count, names_matched (multiset), names_missing and
    names_unexpected (text or null), names_lcs, expected_order and actual_order (text or null),
    arguments_paired, arguments_differ (text or null).
    """
    stated = t.stated.select("unit").unique()
    calls = t.tool_calls.select("unit", "session_unit", "name", "arguments")
    own = calls.join(stated, on="unit", how="semi").select("unit", "name", "arguments")
    whole = calls.join(stated, left_on="session_unit", right_on="unit", how="semi").select(
        "name", "arguments", unit="session_unit"
    )
    actual = pl.concat([own, whole.select(own.columns)])
    expected = t.expected.sort("unit", "call_index").select("unit", "name", "arguments")
    exact = _exact(expected, actual)
    # Most turns do just what was expected; the work is for the others.
    expected = expected.join(exact, on="unit", how="anti", maintain_order="left")
    actual = actual.join(exact, on="unit", how="anti", maintain_order="left")
    other = (
        _name_counts(expected, actual)
        .join(_orders(expected, actual), on="unit", how="left")
        .join(pair_arguments(expected, actual), on="unit", how="left")
    )
    return stated.join(
        pl.concat([other, exact], how="diagonal"), on="unit", how="left"
    ).with_columns(
        pl.col("expected_count", "actual_count", "names_matched", "names_lcs").fill_null(0),
        pl.col("arguments_paired").fill_null(0.0),
    )


def mcp(t: MetricTables) -> pl.DataFrame:
    """Use of MCP and what breaks its form: mcp_used, mcp_calls, mcp_bad_calls and kinds."""
    name, arguments = pl.col("name"), pl.col("arguments")
    blank = name.str.strip_chars().str.len_bytes() == 0
    cased = name != name.str.to_lowercase()
    broken = arguments.is_null()
    calls = t.tool_calls.group_by("unit").agg(
        shown=(name.str.contains(r"(?i)mcp") | arguments.str.contains("mcp:", literal=True)).any(),
        mcp_calls=pl.len(),
        mcp_bad_calls=(blank | cased | broken).sum(),
        mcp_blank_name=blank.sum(),
        mcp_not_lower_case=cased.sum(),
        mcp_not_an_object=broken.sum(),
    )
    named = pl.col("metadata").str.contains(_MCP_NAMED)
    counts = [c for c in calls.columns if c.startswith("mcp_")]
    return (
        t.turns.select("unit", named=named.fill_null(value=False))
        .join(calls, on="unit", how="left")
        .select(
            "unit",
            pl.col(counts).fill_null(0),
            mcp_used=pl.col("named") | pl.col("shown").fill_null(value=False),
        )
    )


def injection(t: MetricTables) -> pl.DataFrame:
    """injection_families: the families that a turn's user messages match; null: no message."""
    asked = t.messages.filter((pl.col("role") == "user") & ~pl.col("is_synthetic")).select(
        "unit", text="content"
    )
    plain = pl.col("text").str.len_bytes() == pl.col("text").str.len_chars()
    folded = pl.concat(
        [
            asked.filter(plain),
            asked.filter(~plain).with_columns(
                pl.col("text").str.normalize("NFKC").str.replace_all(ZERO_WIDTH, "")
            ),
        ]
    )
    hits = folded.filter(pl.col("text").str.contains(_ANY_FAMILY))
    families = (
        hits.select(
            "unit",
            families=pl.concat_list(
                pl.when(pl.col("text").str.contains(pattern)).then(pl.lit(family))
                for family, pattern in FAMILIES.items()
            ).list.drop_nulls(),
        )
        .explode("families")
        .group_by("unit")
        .agg(injection_families=pl.col("families").unique().sort())
    )
    return (
        asked.select("unit")
        .unique()
        .join(families, on="unit", how="left")
        .with_columns(pl.col("injection_families").fill_null(pl.lit([], dtype=pl.List(pl.String))))
    )


def agent_work(t: MetricTables) -> pl.DataFrame:
    """How work is shared in multi-agent turns.

    Columns: work_total, work_agents, work_cv (population standard deviation / mean), work_text,
    handoff_count. Work of an agent: its messages (tool results and harness text aside) + its calls.
    """
    turns = t.turns.filter(pl.col("topology") == "multi").select("unit", "agents")
    spoken = t.messages.filter(
        pl.col("agent").is_not_null() & (pl.col("role") != "tool") & ~pl.col("is_synthetic")
    )
    called = t.tool_calls.filter(pl.col("agent").is_not_null())
    idle = turns.explode("agents", empty_as_null=False).select(
        "unit", agent="agents", work=pl.lit(0, dtype=pl.UInt32)
    )
    done = [
        part.join(turns, on="unit", how="semi")
        .group_by("unit", "agent")
        .agg(work=pl.len().cast(pl.UInt32))
        for part in (spoken, called)
    ]
    work = (
        pl.concat([idle, *done])
        .group_by("unit", "agent")
        .agg(pl.col("work").sum().cast(pl.Int64))
        .sort("unit", "agent")
    )
    shares = work.group_by("unit").agg(
        work_total=pl.col("work").sum(),
        work_agents=pl.len(),
        work_cv=pl.col("work").std(ddof=0) / pl.col("work").mean(),
        work_text=pl.format("{} {}", "agent", "work").str.join(", "),
    )
    passed = t.handoffs.group_by("unit").agg(handoff_count=pl.len())
    return (
        turns.select("unit")
        .join(shares, on="unit", how="left")
        .join(passed, on="unit", how="left")
        .with_columns(pl.col("handoff_count", "work_total").fill_null(0))
    )


def complete_turns(t: MetricTables) -> pl.DataFrame:
    """complete_turns of each conversation: user messages that assistant text answers."""
    own = ~pl.col("is_synthetic")
    asks = ((pl.col("role") == "user") & own).fill_null(value=False)
    replies = (
        (pl.col("role") == "assistant")
        & own
        & (pl.col("content").str.strip_chars().str.len_bytes() > 0)
    )
    answered = (
        t.session_messages.select(
            unit="session_unit", question=asks.cum_sum().over("session_unit"), replies=replies
        )
        .filter("replies", pl.col("question") > 0)
        .group_by("unit")
        .agg(complete_turns=pl.col("question").n_unique().cast(pl.Int64))
    )
    return (
        t.sessions.select("unit")
        .join(answered, on="unit", how="left")
        .with_columns(pl.col("complete_turns").fill_null(0))
    )


def quality(t: MetricTables) -> pl.DataFrame:
    """quality of each turn: the trace's own, else the mean of its scored quality metrics."""
    judged = (
        t.stage_one.filter(pl.col("metric").is_in(QUALITY_METRICS))
        .group_by("unit")
        .agg(judged=pl.col("score").mean())
    )
    return (
        t.turns.select("unit", "quality_score")
        .join(judged, on="unit", how="left")
        .select("unit", quality=pl.coalesce("quality_score", "judged"))
    )


def completeness(t: MetricTables) -> pl.DataFrame:
    """completeness of each conversation: as judged, else the trace's own, else null."""
    judged = t.stage_one.filter(
        (pl.col("metric") == "conversation_completeness") & pl.col("score").is_not_null()
    ).select("unit", judged="score")
    return (
        t.sessions.select("unit", "completeness_score")
        .join(judged, on="unit", how="left")
        .select("unit", completeness=pl.coalesce("judged", "completeness_score"))
    )


FEATURES: Mapping[str, Callable[[MetricTables], pl.DataFrame]] = {
    feature.__name__: feature
    for feature in (
        tool_match,
        mcp,
        injection,
        agent_work,
        complete_turns,
        quality,
        completeness,
    )
}
"""Every feature that a metric can need, by name."""


def _exact(expected: pl.DataFrame, actual: pl.DataFrame) -> pl.DataFrame:
    """Units whose calls are the expected ones, one by one, with what `tool_match` says of them."""
    row = pl.col("row")
    sides = [
        side.with_row_index("row").with_columns(nth=row - row.first().over("unit")).drop("row")
        for side in (
            expected.sort("unit", maintain_order=True),
            actual.sort("unit", maintain_order=True),
        )
    ]
    same = (pl.col("name") == pl.col("name_actual")) & (
        pl.col("arguments") == pl.col("arguments_actual")
    )
    count = pl.len().cast(pl.Int64)
    return (
        sides[0]
        .join(sides[1], on=["unit", "nth"], how="full", coalesce=True, suffix="_actual")
        .group_by("unit")
        .agg(
            count.alias("expected_count"),
            count.alias("actual_count"),
            count.alias("names_matched"),
            count.alias("names_lcs"),
            count.cast(pl.Float64).alias("arguments_paired"),
            exact=same.fill_null(value=False).all(),
        )
        .filter("exact")
        .drop("exact")
    )


def _name_counts(expected: pl.DataFrame, actual: pl.DataFrame) -> pl.DataFrame:
    sides = [
        side.group_by("unit", "name").agg(pl.len().cast(pl.Int64).alias(column))
        for side, column in ((expected, "e"), (actual, "a"))
    ]
    counts = sides[0].join(sides[1], on=["unit", "name"], how="full", coalesce=True)
    counts = counts.with_columns(pl.col("e", "a").fill_null(0))
    matched = counts.group_by("unit").agg(
        expected_count=pl.col("e").sum(),
        actual_count=pl.col("a").sum(),
        names_matched=pl.min_horizontal("e", "a").sum(),
    )
    # Names in words are made for units that need them: most calls are right.
    wrong = counts.filter(pl.col("e") != pl.col("a")).sort("unit", "name")
    more = pl.col("e") - pl.col("a")
    in_words = wrong.group_by("unit").agg(
        names_missing=_listed(more).filter(more > 0).head(_SHOWN).str.join(", "),
        names_unexpected=_listed(-more).filter(more < 0).head(_SHOWN).str.join(", "),
    )
    blank = pl.col("names_missing", "names_unexpected")
    in_words = in_words.with_columns(pl.when(blank != "").then(blank))
    return matched.join(in_words, on="unit", how="left")


def _listed(count: pl.Expr) -> pl.Expr:
    return (
        pl.when(count.abs() > 1).then(pl.format("{} ×{}", "name", count)).otherwise(pl.col("name"))
    )


def _orders(expected: pl.DataFrame, actual: pl.DataFrame) -> pl.DataFrame:
    names = pl.concat([expected["name"], actual["name"]]).unique()
    codes = pl.DataFrame({"name": names}).with_row_index("code")
    sides = [
        side.join(codes, on="name", how="left", maintain_order="left")
        .group_by("unit", maintain_order=True)
        .agg(pl.col("code").alias(column), pl.col("name").alias(f"{column}_names"))
        for side, column in ((expected, "e"), (actual, "a"))
    ]
    both = sides[0].join(sides[1], on="unit", how="full", coalesce=True)
    none = pl.lit([], dtype=pl.List(pl.UInt32))
    both = both.with_columns(pl.col("e", "a").fill_null(none))
    same = both.filter(pl.col("e") == pl.col("a"))
    other = both.filter(pl.col("e") != pl.col("a"))
    other = other.with_columns(
        names_lcs=lcs_lengths(other["e"], other["a"]),
        expected_order=_arrows("e_names"),
        actual_order=_arrows("a_names"),
    )
    return pl.concat(
        [
            same.select("unit", names_lcs=pl.col("e").list.len().cast(pl.Int64)),
            other.select("unit", "names_lcs", "expected_order", "actual_order"),
        ],
        how="diagonal",
    )


def _arrows(column: str) -> pl.Expr:
    names = pl.col(column)
    shown = names.list.head(_SHOWN).list.join(" → ")
    more = pl.format("{} … ({} calls)", shown, names.list.len())
    return pl.when(names.list.len() > _SHOWN).then(more).otherwise(shown)
