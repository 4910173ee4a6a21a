"""Longest common subsequences of many pairs at once equal the textbook table, one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.oracle import longest_common_subsequence
from uaef_frames.metrics import sequences

if TYPE_CHECKING:
    import pytest

codes = st.lists(st.integers(0, 3), max_size=12)
LISTS = pl.List(pl.UInt32)


def lcs(pairs: list[tuple[list[int], list[int]]]) -> list[int]:
    left = pl.Series([a for a, _ in pairs], dtype=LISTS)
    right = pl.Series([b for _, b in pairs], dtype=LISTS)
    return sequences.lcs_lengths(left, right).to_list()


@settings(deadline=None)
@given(st.lists(st.tuples(codes, codes), max_size=20))
def test_equal_to_the_textbook(pairs: list[tuple[list[int], list[int]]]) -> None:
    wanted = [longest_common_subsequence([*map(str, a)], [*map(str, b)]) for a, b in pairs]
    assert lcs(pairs) == wanted


def test_blocks_do_not_change_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = [([i % 3, 1, 2, i % 2], [1, i % 3, 2]) for i in range(50)]
    whole = lcs(pairs)
    monkeypatch.setattr(sequences, "_CELLS", 1)
    assert lcs(pairs) == whole


def test_a_long_pair_among_short_ones() -> None:
    long = list(range(400))
    assert lcs([([1], [1]), (long, long[::-1]), (long, long[10:])]) == [1, 1, 390]
