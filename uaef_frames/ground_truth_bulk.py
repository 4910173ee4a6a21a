"""Regular ground truth, a row a session, read natively many rows at a time.

A row is regular when it holds per-turn lists of text and of calls in their plain form, and nothing
else that would have to be looked at. All other rows are read one by one; a test holds both equal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from uaef_frames import schemas
from uaef_frames.adapters.native import (
    BLANK,
    NativeParser,
    canonical_objects,
    only_keys,
    unquoted,
)
from uaef_frames.expectations import Expectations

if TYPE_CHECKING:
    from uaef_frames.adapters.lines import LineIndex

_KEYS = ("session_id", "per_turn_expected", "per_turn_expected_tool_calls")
_LISTS_OF_ANOTHER_FORM = r'"per_turn_expected(?:_tool_calls)?"\s*:\s*[^\[n\s]'
"""In a line: entries that are no list, and so come out of the parser as if there were none."""
_CALL = "name JSON, arguments JSON, tool_name JSON, parameters JSON, args JSON"
_FIELDS = f"per_turn_expected JSON[], per_turn_expected_tool_calls STRUCT({_CALL})[][]"


class TruthBulkReader:
    """Reads the regular rows among lines of ground truth; says which it left alone."""

    def __init__(self) -> None:
        self._parser = NativeParser(_FIELDS)

    def __call__(self, index: LineIndex, rows: pl.DataFrame) -> tuple[Expectations, pl.DataFrame]:
        """What the regular rows say, and the other rows."""
        if rows.is_empty():
            return Expectations.empty(), rows
        texts = index.texts(rows)
        parsed = self._parser.parse(texts)
        if parsed is None:
            return Expectations.empty(), rows
        lines = parsed.with_columns(rows["session_id"], text=pl.Series(texts)).with_row_index("row")
        outputs = _entries(lines, "per_turn_expected")
        stated = _entries(lines, "per_turn_expected_tool_calls")
        calls = _calls(stated)
        bad = pl.concat(
            [
                lines.filter(~_is_shaped().fill_null(value=False))["row"],
                outputs.filter(~_is_text("per_turn_expected"))["row"],
                # An entry that is no list may have been null, text or an object.
                stated.filter(pl.col("per_turn_expected_tool_calls").is_null())["row"],
                calls.filter(~_is_plain_call().fill_null(value=False))["row"],
            ]
        )
        left = pl.Series("left", [False]).new_from_index(0, rows.height).scatter(bad, True)
        kept = lines.filter(~left).select("row", "session_id")
        return _tables(kept, outputs, stated, calls), rows.filter(left)


def _is_shaped() -> pl.Expr:
    keys = pl.col("keys").list
    return (
        pl.col("strict")
        & only_keys(_KEYS)
        & ~keys.eval(pl.element().str.starts_with("_")).list.any()  # here they are labels
        & ~pl.col("text").str.contains(_LISTS_OF_ANOTHER_FORM)
        & ~pl.col("session_id").is_duplicated()
    )


def _entries(lines: pl.DataFrame, column: str) -> pl.DataFrame:
    """One row a turn that a list speaks of: row, turn_id (its position, from 1), entry."""
    return (
        lines.select("row", column)
        .filter(pl.col(column).list.len() > 0)
        .with_columns(turn_id=pl.int_ranges(1, pl.col(column).list.len() + 1))
        .explode(column, "turn_id")
    )


def _calls(stated: pl.DataFrame) -> pl.DataFrame:
    column = "per_turn_expected_tool_calls"
    calls = (
        stated.filter(pl.col(column).list.len() > 0)
        .with_columns(call_index=pl.int_ranges(0, pl.col(column).list.len()))
        .explode(column, "call_index")
        .select("row", "turn_id", "call_index", pl.col(column).struct.unnest())
    )
    return calls.with_columns(canonical_objects(calls["arguments"]))


def _is_text(column: str) -> pl.Expr:
    value = pl.col(column)
    return value.is_null() | value.str.starts_with('"') | (value == "null")


def _is_plain_call() -> pl.Expr:
    others = [pl.col(n).is_null() for n in ("tool_name", "parameters", "args")]
    named = pl.col("name").str.starts_with('"') & pl.col("arguments").is_not_null()
    return pl.all_horizontal(named, *others)


def _tables(
    kept: pl.DataFrame, outputs: pl.DataFrame, stated: pl.DataFrame, calls: pl.DataFrame
) -> Expectations:
    text = unquoted("per_turn_expected")
    said = outputs.select(
        "row",
        "turn_id",
        expected_output=pl.when(pl.col("per_turn_expected") != "null").then(
            pl.when(text.str.contains(BLANK)).then(pl.lit("")).otherwise(text)
        ),
    )
    tools = stated.select(
        "row", "turn_id", tools_stated=pl.col("per_turn_expected_tool_calls").is_not_null()
    )
    turns = (
        said.join(tools, on=["row", "turn_id"], how="full", coalesce=True)
        .join(kept, on="row", how="inner")
        .sort("row", "turn_id")
        .with_columns(
            pl.col("tools_stated").fill_null(value=False),
            positional=pl.lit(value=True),
            context=pl.lit([], dtype=pl.List(pl.String)),
            query=pl.lit(None, dtype=pl.String),
        )
    )
    listed = calls.join(kept, on="row", how="inner", maintain_order="left").with_columns(
        unquoted("name").alias("name")
    )
    sessions = kept.with_columns(
        tools_stated=pl.lit(value=False),
        context=pl.lit([], dtype=pl.List(pl.String)),
        **{
            n: pl.lit(None, dtype=pl.String)
            for n in ("expected_output", "chatbot_role", "system_instructions", "labels")
        },
    )
    return Expectations(
        *(
            frame.select(pl.col(n).cast(t) for n, t in schemas.columns(schema).items())
            for frame, schema in (
                (turns, schemas.TurnExpectations),
                (sessions, schemas.SessionExpectations),
                (listed, schemas.ExpectedToolCalls),
            )
        )
    )
