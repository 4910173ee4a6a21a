"""Asks a judge without metrics around it: questions in, outcomes out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from uaef_frames.judge import Judge, Rubric
from uaef_frames.judge.outcomes import QUESTION_COLUMNS, Questions
from uaef_frames.judge.prompts import cut, safe, tagged
from uaef_frames.judge.session import JudgeSession

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.judge_server import JudgeServer

RUBRIC = Rubric.read("politeness", "Is the `response` polite?")


def judge(server: JudgeServer, **settings: Any) -> Judge:
    """A judge at the server; quick, and with a patience that fits a test."""
    return Judge("small", base_url=server.base_url, **{"timeout_s": 5.0, **settings})


def questions(
    texts: Sequence[str], rubric: Rubric = RUBRIC, size: int = 500
) -> Iterator[Questions]:
    """One question a text, in slices."""
    frame = pl.DataFrame({"text": list(texts)}, schema={"text": pl.String}).select(
        unit=pl.int_range(pl.len(), dtype=pl.Int64),
        part=pl.lit(0, dtype=pl.Int64),
        user=tagged("response", cut(safe(pl.col("text")), 4_000)),
        upper=pl.lit(None, dtype=pl.Float64),
        elided_turns=pl.lit(0, dtype=pl.Int64),
        cut_characters=pl.lit(0, dtype=pl.Int64),
    )
    assert frame.schema == pl.Schema(QUESTION_COLUMNS)
    for rows in frame.iter_slices(size):
        yield Questions(rubric.name, rubric, ("response",), rows)


def ask(asked: Judge, texts: Sequence[str], rubric: Rubric = RUBRIC) -> pl.DataFrame:
    """The outcomes, one row a text and vote, with the score beside."""
    with JudgeSession(asked) as session:
        found = session.ask({rubric.name: questions(texts, rubric)})[rubric.name]
    score = pl.col("verdict").str.json_decode(pl.Struct({"score": pl.Float64})).struct["score"]
    return found.with_columns(score=score)


def texts(count: int) -> list[str]:
    return [f"Thank you, your order {n} is on its way." for n in range(count)]
