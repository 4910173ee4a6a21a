"""Tokens of a text, estimated from its characters: no tokenizer's tables are fetched.

The estimate is corrected by what the endpoint reports as answers come in.
"""

from __future__ import annotations

import polars as pl

ASCII_CHARACTERS = 4.0
"""Characters a token in plain English; code and JSON have more tokens, prose in other scripts
too.
"""
WIDE = 0.35
"""Tokens for each UTF-8 byte beyond a character's first: Greek and Cyrillic come to 0.6 a
character,
Chinese and Japanese to 0.95, an emoji to 1.3."""
MESSAGE = 8
"""Tokens that the frame of a message takes."""


def token_estimate(text: pl.Expr) -> pl.Expr:
    """Estimated tokens of each text, Int64; null stays null."""
    characters = text.str.len_chars().cast(pl.Int64)
    beyond = text.str.len_bytes().cast(pl.Int64) - characters
    return (characters / ASCII_CHARACTERS + beyond * WIDE).ceil().cast(pl.Int64)


def estimate_tokens(text: str) -> int:
    """The same for one text."""
    characters = len(text)
    beyond = 0 if text.isascii() else len(text.encode("utf-8", "replace")) - characters
    return int(-(-(characters / ASCII_CHARACTERS + beyond * WIDE) // 1))


class Correction:
    """How far estimates are from what the endpoint reports: a factor, from all answers so far."""

    def __init__(self) -> None:
        self._estimated = 0
        self._reported = 0

    def learn(self, estimated: int, reported: int) -> None:
        """Take in one answer's usage."""
        if estimated > 0 and reported > 0:
            self._estimated += estimated
            self._reported += reported

    @property
    def factor(self) -> float:
        """Reported / estimated, 1 until something is known; kept within a factor of ten."""
        if not self._estimated:
            return 1.0
        return min(max(self._reported / self._estimated, 0.1), 10.0)
