"""Tool Calling: were the right tools called, in order, with the right arguments, in MCP's form?

Reads the columns of the `tool_match` and `mcp` features; how those are found is their business.
"""

from __future__ import annotations

import polars as pl

from uaef_frames.metrics.registry import metric
from uaef_frames.metrics.spec import MISSING, NOT_APPLICABLE, Scored, Unless

_EXPECTED, _ACTUAL = pl.col("expected_count"), pl.col("actual_count")
_LARGER = pl.max_horizontal(_EXPECTED, _ACTUAL)
_NOTHING_SAID = Unless(_EXPECTED.is_null(), MISSING, "the ground truth says nothing about tools")
_CALLS = "expected tool calls"


@metric("tool_selection_accuracy", "Tool Calling", needs=("tool_match",), ground_truth=_CALLS)
def tool_selection_accuracy() -> Scored:
    """Multiset Jaccard of the expected and the called tool names."""
    matched = pl.col("names_matched")
    union = _EXPECTED + _ACTUAL - matched
    return Scored(
        score=pl.when(union == 0).then(1.0).otherwise(matched / union),
        reasoning=pl.when(union == 0)
        .then(pl.lit("no tool expected, none called"))
        .when(matched == union)
        .then(pl.format("all expected tools called ({})", _EXPECTED))
        .otherwise(
            pl.concat_str(
                pl.format("{} of {} tools match", matched, union),
                pl.format("missing: {}", "names_missing"),
                pl.format("not expected: {}", "names_unexpected"),
                separator="; ",
                ignore_nulls=True,
            )
        ),
        details=pl.struct("expected_count", "actual_count", matched="names_matched"),
        unless=(_NOTHING_SAID,),
    )


@metric("tool_sequence_correctness", "Tool Calling", needs=("tool_match",), ground_truth=_CALLS)
def tool_sequence_correctness() -> Scored:
    """Longest common subsequence of the tool names / the longer of the two sequences."""
    common = pl.col("names_lcs")
    return Scored(
        score=pl.when(_LARGER == 0).then(1.0).otherwise(common / _LARGER),
        reasoning=pl.when(_LARGER == 0)
        .then(pl.lit("no tool expected, none called"))
        .when(common == _LARGER)
        .then(pl.format("all calls in the expected order ({})", _EXPECTED))
        .otherwise(
            pl.format(
                "{} of {} in order: expected {}, called {}",
                common,
                _LARGER,
                pl.col("expected_order").fill_null("none"),
                pl.col("actual_order").fill_null("none"),
            )
        ),
        details=pl.struct("expected_count", "actual_count", lcs="names_lcs"),
        unless=(_NOTHING_SAID,),
    )


@metric("parameter_quality", "Tool Calling", needs=("tool_match",), ground_truth=_CALLS)
def parameter_quality() -> Scored:
    """Sum over the best one-to-one pairing of equal arguments / all arguments, per larger side."""
    paired = pl.col("arguments_paired")
    return Scored(
        score=paired / _LARGER,
        reasoning=pl.when(paired == _LARGER)
        .then(pl.format("all calls have the right arguments ({})", _EXPECTED))
        .otherwise(
            pl.concat_str(
                pl.format("arguments of {} of {} calls are right", paired.round(2), _LARGER),
                pl.format("differs: {}", "arguments_differ"),
                separator="; ",
                ignore_nulls=True,
            )
        ),
        details=pl.struct("expected_count", "actual_count", paired="arguments_paired"),
        unless=(
            _NOTHING_SAID,
            Unless(_EXPECTED == 0, NOT_APPLICABLE, "no tool is expected, so no arguments are"),
        ),
    )


@metric("mcp_compliance", "Tool Calling", needs=("mcp",))
def mcp_compliance() -> Scored:
    """Calls with a lower-case name and an argument object / calls, where the turn uses MCP."""
    calls, bad = pl.col("mcp_calls"), pl.col("mcp_bad_calls")
    return Scored(
        score=(calls - bad) / calls,
        reasoning=pl.when(bad == 0)
        .then(pl.format("all calls comply ({})", calls))
        .otherwise(
            pl.format(
                "{} of {} calls comply; blank names {}, names not lower case {}, "
                "arguments that are no object {}",
                calls - bad,
                calls,
                "mcp_blank_name",
                "mcp_not_lower_case",
                "mcp_not_an_object",
            )
        ),
        details=pl.struct(
            calls="mcp_calls",
            blank_name="mcp_blank_name",
            not_lower_case="mcp_not_lower_case",
            not_an_object="mcp_not_an_object",
        ),
        unless=(
            Unless(~pl.col("mcp_used").fill_null(value=False), NOT_APPLICABLE, "no sign of MCP"),
            Unless(calls == 0, NOT_APPLICABLE, "MCP is named, but no tool was called"),
        ),
    )
