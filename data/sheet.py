"""Writes `ground-truth-booking.xlsx`: the ground truth of the shipped sessions as people keep it.

    python data/sheet.py

One row a turn, with the question that was asked, made from the two recorded files beside it.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl

from uaef_frames import Expectations, load_expectations, to_ground_truth, write_ground_truth
from uaef_frames.canonical import canonical_json, loads

HERE = Path(__file__).parent
SHEET = HERE / "ground-truth-booking.xlsx"


def expectations() -> Expectations:
    """The ground truth of the JSON lines, with questions, and with labels that are given alone."""
    held = load_expectations(HERE / "booking_ground_truth.jsonl")
    asked = to_ground_truth(HERE / "booking.jsonl").turn_expectations
    keys = ["session_id", "turn_id"]
    turns = held.turn_expectations.drop("query").join(
        asked.select(*keys, "query"), on=keys, how="left", maintain_order="left"
    )
    labels = [
        canonical_json({k: v for k, v in loads(text).items() if v is not None})
        for text in held.session_expectations["labels"]
    ]
    sessions = held.session_expectations.with_columns(
        held.session_expectations["labels"].scatter(range(len(labels)), labels)
    )
    # Turns are numbered, so that a person sees which is which.
    numbered = turns.with_columns(positional=pl.lit(value=False))
    return Expectations(
        numbered.select(held.turn_expectations.columns), sessions, held.expected_tool_calls
    )


if __name__ == "__main__":
    write_ground_truth(expectations(), SHEET)
