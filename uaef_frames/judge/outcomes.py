"""What is asked and what comes of it: rows of questions in, rows of outcomes out, as frames.

The judge knows rows, rubrics and text. What a metric means is its owner's business.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Sequence

    from uaef_frames.judge.rubrics import Rubric

API_ERROR = "api_error"
INVALID_VERDICT = "invalid_verdict"
BUDGET_EXHAUSTED = "budget_exhausted"

FAILED_VERDICTS = (API_ERROR, INVALID_VERDICT, BUDGET_EXHAUSTED)
"""Warnings of scores that were asked for and did not come."""

Warning = Literal["api_error", "invalid_verdict", "budget_exhausted"]

QUESTION_COLUMNS = {
    "unit": pl.Int64,
    "part": pl.Int64,
    "user": pl.String,
    "upper": pl.Float64,
    "elided_turns": pl.Int64,
    "cut_characters": pl.Int64,
}
"""A question: which unit (and which part of it), the user message with `MARK` for its nonce, the
most that a count can be, and what was left out of the material."""

OUTCOME_COLUMNS = {
    "unit": pl.Int64,
    "part": pl.Int64,
    "vote": pl.Int64,
    "verdict": pl.String,
    "applicable": pl.Boolean,
    "warning": pl.String,
    "error": pl.String,
    "model": pl.String,
    "request_key": pl.String,
    "cached": pl.Boolean,
    "latency_s": pl.Float64,
    "input_tokens": pl.Int64,
    "cached_input_tokens": pl.Int64,
    "output_tokens": pl.Int64,
    "cost_usd": pl.Float64,
}
"""An outcome, one a question and vote: the verdict's fields as JSON, or a warning and what went
wrong. `cost_usd` is what this run paid: 0 for a kept verdict, null where the price is unknown."""


@dataclass(frozen=True, slots=True)
class Questions:
    """Questions under one rubric.

    Attributes:
        metric: Whose they are; a label.
        rubric: What the judge is told.
        sections: The sections that a quote may come from.
        frame: `QUESTION_COLUMNS`.
    """

    metric: str
    rubric: Rubric
    sections: tuple[str, ...]
    frame: pl.DataFrame


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one request. Shared by all rows that ask the same."""

    verdict: str | None = None
    applicable: bool = True
    warning: Warning | None = None
    error: str | None = None
    model: str | None = None
    cached: bool = False
    latency_s: float | None = None
    input_tokens: int | None = None
    cached_input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None


def outcome_frame(
    rows: Sequence[tuple[int, int, int]],
    keys: Sequence[bytes],
    outcomes: Sequence[Outcome],
) -> pl.DataFrame:
    """Rows of (unit, part, vote) with their outcomes."""
    names = [c for c in OUTCOME_COLUMNS if c not in ("unit", "part", "vote", "request_key")]
    columns: dict[str, list[object]] = {
        "unit": [r[0] for r in rows],
        "part": [r[1] for r in rows],
        "vote": [r[2] for r in rows],
        "request_key": [k.hex() for k in keys],
    }
    for name in names:
        columns[name] = [getattr(o, name) for o in outcomes]
    return pl.DataFrame(columns, schema_overrides=OUTCOME_COLUMNS).select(list(OUTCOME_COLUMNS))
