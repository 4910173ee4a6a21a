"""Longest common subsequences of many pairs of sequences at once.

Knows integers only: what they stand for is the caller's business.
"""

from __future__ import annotations

import numpy as np
import polars as pl

_CELLS = 4_000_000
"""Cells of one block of the table, so that memory stays flat however many pairs there are."""


def lcs_lengths(left: pl.Series, right: pl.Series) -> pl.Series:
    """Length of the longest common subsequence of each pair.

    Args:
        left: List of integers, n rows, no nulls.
        right: List of integers, n rows, no nulls.

    Returns:
        Int64, n rows.

    Equal pairs are worked out once; pairs of the same two lengths go through one table together.
    """
    if len(left) == 0:
        return pl.Series("lcs", [], dtype=pl.Int64)
    pairs = pl.DataFrame({"left": left, "right": right}).with_row_index("row")
    distinct = pairs.group_by("left", "right").agg(rows=pl.col("row"))
    distinct = distinct.with_columns(m=pl.col("left").list.len(), n=pl.col("right").list.len())
    found = np.zeros(len(left), dtype=np.int64)
    for (m, n), bucket in distinct.group_by("m", "n"):
        if not m or not n:
            continue
        shorter, longer = ("left", "right") if m <= n else ("right", "left")  # pyright: ignore[reportOperatorIssue]
        step = max(1, _CELLS // bucket[longer].list.len()[0])
        for start in range(0, bucket.height, step):
            block = bucket.slice(start, step)
            lengths = _block(_matrix(block[shorter]), _matrix(block[longer]))
            repeats = block["rows"].list.len().to_numpy()
            found[block["rows"].explode().to_numpy()] = np.repeat(lengths, repeats)
    return pl.Series("lcs", found)


def _matrix(lists: pl.Series) -> np.ndarray:
    return lists.explode().to_numpy().reshape(len(lists), -1)


def _block(shorter: np.ndarray, longer: np.ndarray) -> np.ndarray:
    """One row of the classic table at a time, for all pairs; its maximum runs along the row."""
    row = np.zeros((longer.shape[0], longer.shape[1] + 1), dtype=np.int32)
    for i in range(shorter.shape[1]):
        equal = longer == shorter[:, i : i + 1]
        best = np.maximum(row[:, 1:], row[:, :-1] + equal)
        np.maximum.accumulate(best, axis=1, out=row[:, 1:])
    return row[:, -1]
