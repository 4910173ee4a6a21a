"""A judge's plan: how many verdicts, how many are kept, what the rest would take, before one is
sent.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

import polars as pl

from uaef_frames.judge.cache import open_cache
from uaef_frames.judge.prices import BATCH_DISCOUNT, prices_as_of
from uaef_frames.judge.requests import Request, key_prefix
from uaef_frames.judge.tokens import MESSAGE, estimate_tokens, token_estimate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from uaef_frames.judge.cache import AnswerCache
    from uaef_frames.judge.config import Judge
    from uaef_frames.judge.outcomes import Questions

OUTPUT_TOKENS = 150
"""Tokens of a typical verdict: a quote, two sentences and a number."""
SECONDS_A_CALL = 2.0
"""What a hosted model takes for a verdict, for want of anything better."""
LARGE_TOKENS = 4.0 / 3.2
"""How much larger than the estimate the tokens may be: text of 3.2 characters a token."""

PLAN_COLUMNS = {
    "metric": pl.String,
    "model": pl.String,
    "verdicts": pl.Int64,
    "calls": pl.Int64,
    "cached": pl.Int64,
    "input_tokens": pl.Int64,
    "output_tokens": pl.Int64,
    "cost_usd": pl.Float64,
}


@dataclass(frozen=True)
class JudgePlan:
    """What an evaluation would ask of its judges.

    Attributes:
        table: One row a metric: metric, model, verdicts (wanted), calls (new requests), cached
            (kept from before), input_tokens and output_tokens of the new calls (estimates),
            cost_usd (null: the price is unknown).
        duration_s: Seconds that the calls would take at the judges' limits, as a rough guide.
        skipped: Units that would not be asked because something they need is missing, by metric.
    """

    table: pl.DataFrame
    duration_s: float
    skipped: Mapping[str, int]

    @property
    def calls(self) -> int:
        """New requests."""
        return int(self.table["calls"].sum())

    @property
    def cached(self) -> int:
        """Verdicts that are kept from before, or that other rows ask for too."""
        return int(self.table["cached"].sum())

    @property
    def input_tokens(self) -> int:
        """Estimated tokens to read."""
        return int(self.table["input_tokens"].sum())

    @property
    def output_tokens(self) -> int:
        """Estimated tokens to write."""
        return int(self.table["output_tokens"].sum())

    @property
    def cost_usd(self) -> float | None:
        """Estimated USD; None: the price of a model is unknown."""
        asked = self.table.filter(pl.col("calls") > 0)["cost_usd"]
        return None if asked.null_count() else float(asked.sum())

    def __str__(self) -> str:
        cost = self.cost_usd
        if cost is None:
            money = "no price known: tokens only"
        else:
            money = (
                f"{cost:.2f} to {cost * LARGE_TOKENS:.2f} USD "
                f"(shipped prices are of {prices_as_of()})"
            )
        return (
            f"{self.calls:,} calls, {self.cached:,} cached · about "
            f"{self.input_tokens:,} tokens in, {self.output_tokens:,} out · {money} · "
            f"about {_span(self.duration_s)}"
        )

    def __repr__(self) -> str:
        return f"JudgePlan({self})"

    def _repr_html_(self) -> str:
        return f"<p>{escape(str(self))}</p>{self.table._repr_html_()}"  # pyright: ignore[reportPrivateUsage]


class Planner:
    """Counts what would be asked, batch after batch, without asking."""

    def __init__(self, judge_of: Callable[[str], Judge | None]) -> None:
        self._judge_of = judge_of
        self._seen: set[bytes] = set()
        self._caches: dict[object, AnswerCache] = {}
        self._rows: dict[str, list[int]] = {}
        self._skipped: dict[str, int] = {}

    def add(self, metric: str, questions: Iterable[Questions], skipped: int) -> None:
        """Take in the questions of a metric on a batch."""
        judge = self._judge_of(metric)
        if judge is None:
            return
        row = self._rows.setdefault(metric, [0, 0, 0, 0])
        self._skipped[metric] = self._skipped.get(metric, 0) + skipped
        if judge.cache not in self._caches:
            self._caches[judge.cache] = open_cache(judge.cache if _exists(judge.cache) else None)  # pyright: ignore[reportArgumentType]
        cache = self._caches[judge.cache]
        for some in questions:
            prefix = key_prefix(judge, some.rubric)
            system = estimate_tokens(some.rubric.system) + 2 * MESSAGE
            rows = some.frame.select("user", size=token_estimate(pl.col("user"))).rows()
            wanted: dict[bytes, int] = {}
            for user, size in rows:
                for vote in range(judge.votes):
                    key = Request(judge, some.rubric, user, vote, prefix).key
                    row[0] += 1
                    if key not in self._seen:
                        wanted[key] = size + system
            self._seen.update(wanted)
            kept = cache.known(list(wanted))
            fresh = [size for key, size in wanted.items() if key not in kept]
            row[1] += len(fresh)
            row[2] += sum(fresh)
            row[3] += len(fresh) * min(OUTPUT_TOKENS, judge.max_tokens)

    def plan(self) -> JudgePlan:
        """What it all comes to."""
        for cache in self._caches.values():
            cache.close()
        made: list[dict[str, object]] = []
        seconds: dict[int, float] = {}
        for metric, (verdicts, calls, read, written) in self._rows.items():
            judge = self._judge_of(metric)
            if judge is None:
                continue
            rate = judge.rate
            discount = BATCH_DISCOUNT if judge.mode == "batch" else 1.0
            made.append(
                {
                    "metric": metric,
                    "model": judge.model,
                    "verdicts": verdicts,
                    "calls": calls,
                    "cached": verdicts - calls,
                    "input_tokens": read,
                    "output_tokens": written,
                    "cost_usd": None if rate is None else discount * rate.cost(read, written),
                }
            )
            seconds[id(judge)] = seconds.get(id(judge), 0.0) + _seconds(
                judge, calls, read + written
            )
        table = pl.DataFrame(made, schema=PLAN_COLUMNS)
        return JudgePlan(table, max(seconds.values(), default=0.0), dict(self._skipped))


def _seconds(judge: Judge, calls: int, tokens: int) -> float:
    longest = calls * SECONDS_A_CALL / judge.concurrency
    if judge.requests_per_minute:
        longest = max(longest, 60.0 * calls / judge.requests_per_minute)
    if judge.tokens_per_minute:
        longest = max(longest, 60.0 * tokens / judge.tokens_per_minute)
    return longest


def _exists(path: object) -> bool:
    """A plan leaves no file behind."""
    from pathlib import Path

    return isinstance(path, Path) and path.exists()


def _span(seconds: float) -> str:
    if seconds < 90:
        return f"{max(seconds, 1):.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
