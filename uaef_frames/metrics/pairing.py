"""The best one-to-one pairing of expected and actual calls by their arguments.

Owns the score of a pair and the choice of pairs; knows nothing of turns beyond an integer `unit`.
"""

from __future__ import annotations

from typing import Any, cast

import polars as pl

from uaef_frames.canonical import canonical_json, loads_exactly

_GROUP = ["unit", "name"]


def pair_arguments(expected: pl.DataFrame, actual: pl.DataFrame) -> pl.DataFrame:
    """Pair calls of the same unit and name so that the sum of pair scores is greatest.

    The score of a pair is the number of keys that both have with equal values / the number of keys
    that either has; 1 when neither has any. Arguments are canonical JSON objects, so equal values
    have equal text; null (malformed) pairs with a score of 0.

    Args:
        expected: Columns unit, name, arguments; a row a call.
        actual: The same.

    Returns:
        Columns unit, arguments_paired (Float64, the greatest sum) and arguments_differ (text: calls
        and keys that are not as expected, or null); units without any pair are absent.
    """
    same, left_e, left_a = _take_equal(expected, actual)
    candidates = left_e.join(left_a, on=_GROUP, suffix="_actual")
    scored = _score(candidates)
    chosen = _choose(scored)
    differ = _differences(chosen)
    sums = pl.concat([same.select("unit", "score"), chosen.select("unit", "score")])
    return (
        sums.group_by("unit")
        .agg(arguments_paired=pl.col("score").sum())
        .join(differ, on="unit", how="left")
    )


def _take_equal(
    expected: pl.DataFrame, actual: pl.DataFrame
) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Pairs of equal calls, and the calls that remain on both sides.

    Taking equal calls first loses nothing: 1 - score is a metric on argument objects, so swapping
    the partners of two pairs can never gain more than an equal pair gives.
    """
    keys = [*_GROUP, "arguments"]
    numbered = [
        side.select(keys).with_columns(copy=pl.int_range(pl.len(), dtype=pl.UInt32).over(keys))
        for side in (expected, actual)
    ]
    on = [*keys, "copy"]
    same = numbered[0].join(numbered[1], on=on, how="inner").select(_GROUP)
    left_e = numbered[0].join(numbered[1], on=on, how="anti")
    left_a = numbered[1].join(numbered[0], on=on, how="anti")
    number = [pl.int_range(pl.len(), dtype=pl.UInt32).over(_GROUP).alias("number")]
    return (
        same.with_columns(score=pl.lit(1.0)),
        left_e.select(keys).with_columns(number),
        left_a.select(keys).with_columns(number),
    )


def _score(candidates: pl.DataFrame) -> pl.DataFrame:
    """Candidates with the score of each pair; each distinct pair of arguments is compared once."""
    distinct = candidates.select(e="arguments", a="arguments_actual").unique().drop_nulls()
    if distinct.is_empty():
        return candidates.with_columns(score=pl.lit(0.0))
    distinct = distinct.with_row_index("pair")
    keyed = _key_values(pl.concat([distinct["e"], distinct["a"]]).unique())
    sizes = keyed.group_by("arguments").agg(size=pl.len())
    of_e = distinct.select("pair", "a", arguments="e").join(keyed, on="arguments")
    shared = (
        of_e.join(keyed, left_on=["a", "key"], right_on=["arguments", "key"], suffix="_actual")
        .group_by("pair")
        .agg(equal=(pl.col("value") == pl.col("value_actual")).sum(), both=pl.len())
    )
    scores = (
        distinct.join(sizes, left_on="e", right_on="arguments", how="left")
        .join(sizes, left_on="a", right_on="arguments", how="left", suffix="_actual")
        .join(shared, on="pair", how="left")
        .with_columns(pl.col("size", "size_actual", "equal", "both").fill_null(0))
        .select(
            "e",
            "a",
            score=pl.col("equal") / (pl.col("size") + pl.col("size_actual") - pl.col("both")),
        )
    )
    return candidates.join(
        scores, left_on=["arguments", "arguments_actual"], right_on=["e", "a"], how="left"
    ).with_columns(pl.col("score").fill_null(0.0))


def _choose(scored: pl.DataFrame) -> pl.DataFrame:
    """The pairs of the best assignment of each group."""
    sides = pl.col("number").n_unique(), pl.col("number_actual").n_unique()
    narrow = scored.with_columns(narrow=pl.min_horizontal(*(s.over(_GROUP) for s in sides)))
    alone = (
        narrow.filter(pl.col("narrow") == 1)
        .sort("score", descending=True, maintain_order=True)
        .unique(_GROUP, keep="first", maintain_order=True)
    )
    wide = narrow.filter(pl.col("narrow") > 1)
    return pl.concat([alone, _assign(wide)]) if wide.height else alone


def _assign(wide: pl.DataFrame) -> pl.DataFrame:
    from scipy.optimize import linear_sum_assignment  # pyright: ignore[reportUnknownVariableType]

    kept: list[pl.DataFrame] = []
    for group in wide.sort([*_GROUP, "number", "number_actual"]).partition_by(_GROUP):
        scores = group["score"].to_numpy().reshape(group["number"].n_unique(), -1)
        best = cast("Any", linear_sum_assignment(scores, maximize=True))
        kept.append(group[(best[0] * scores.shape[1] + best[1]).tolist()])
    return pl.concat(kept)


def _differences(chosen: pl.DataFrame) -> pl.DataFrame:
    """Per unit, the calls whose arguments are not as expected and the keys that differ."""
    pairs = chosen.filter(pl.col("score") < 1).with_row_index("pair")
    keyed = _key_values(
        pl.concat([pairs["arguments"], pairs["arguments_actual"]]).drop_nulls().unique()
    )
    sides = [
        pairs.select("pair", arguments=column).join(keyed, on="arguments").drop("arguments")
        for column in ("arguments", "arguments_actual")
    ]
    keys = (
        sides[0]
        .join(sides[1], on=["pair", "key"], how="full", coalesce=True, suffix="_actual")
        .filter(pl.col("value").ne_missing(pl.col("value_actual")))
        .group_by("pair")
        .agg(keys=pl.col("key").sort().head(8).str.join(", "))
    )
    return (
        pairs.join(keys, on="pair", how="left", maintain_order="left")
        .select("unit", text=pl.format("{}({})", "name", pl.col("keys").fill_null("malformed")))
        .group_by("unit")
        .agg(arguments_differ=pl.col("text").sort().head(8).str.join(", "))
    )


def _key_values(arguments: pl.Series) -> pl.DataFrame:
    """One row a key of each distinct argument object: arguments, key, value (canonical JSON)."""
    texts = arguments.to_list()
    objects = [loads_exactly(text) for text in texts]
    return pl.DataFrame(
        {
            "arguments": [t for t, o in zip(texts, objects, strict=True) for _ in o],
            "key": [k for o in objects for k in o],
            "value": [canonical_json(v) for o in objects for v in o.values()],
        },
        schema={"arguments": pl.String, "key": pl.String, "value": pl.String},
    )
