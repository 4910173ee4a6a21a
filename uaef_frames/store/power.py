"""How many sessions a comparison needs to see a difference."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import polars as pl

from uaef_frames.errors import ConfigError, StoreError
from uaef_frames.store.compare import Comparison
from uaef_frames.store.run import Run, open_run

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Power:
    """The sessions that a paired comparison needs.

    Attributes:
        sessions: How many, of those that have the score in both runs.
        metric: What is compared.
        difference: The difference that should be seen.
        sd: Standard deviation of the paired differences that it rests on.
        power: The chance to see it.
        alpha: The chance to see one where there is none.
        held: The sessions that there are.
    """

    sessions: int
    metric: str
    difference: float
    sd: float
    power: float
    alpha: float
    held: int

    def __str__(self) -> str:
        return (
            f"{self.sessions:,} sessions show a difference of {self.difference:g} in {self.metric} "
            f"in {self.power:.0%} of comparisons (p < {self.alpha:g}); there are {self.held:,}"
        )


def power(
    run: Run | Comparison | str | Path,
    metric: str,
    difference: float,
    *,
    power: float = 0.8,
    alpha: float = 0.05,
    correlation: float = 0.5,
) -> Power:
    """How many sessions are needed to see a difference in a metric, by a paired t test.

    Args:
        run: A comparison, whose differences tell how much they vary; or one run, whose scores do:
            the differences of two runs whose scores vary like its own and go together with
            `correlation` vary by sd × √(2 (1 - correlation)).
        metric: A metric, a dimension, or "overall".
        difference: The least difference of means worth seeing, such as 0.02.
        power: The chance to see it.
        alpha: The p value below which it counts as seen.
        correlation: Between the sessions' scores in two runs; for one run only.

    Raises:
        ConfigError: An argument is out of range, or the metric is not there.
        StoreError: Fewer than two sessions have a score, or none differs from another.
    """
    if not difference or not math.isfinite(difference):
        raise ConfigError("the difference to be seen is a number other than 0, such as 0.02")
    for name, value in (("power", power), ("alpha", alpha)):
        if not 0 < value < 1:
            raise ConfigError(f"{name} lies between 0 and 1, not {value}")
    if not -1 <= correlation < 1:
        raise ConfigError(f"correlation lies between -1 and 1, not {correlation}")
    if isinstance(run, Comparison):
        sd, held = _of_comparison(run, metric)
    else:
        sd, held = _of_run(run if isinstance(run, Run) else open_run(run), metric)
        sd *= math.sqrt(2 * (1 - correlation))
    if not sd > 0:
        raise StoreError(f"{metric}: {held} scored sessions, and none differs: nothing to go by")
    from statsmodels.stats import power as powers  # pyright: ignore[reportMissingTypeStubs]

    solver: Any = cast("Any", powers).TTestPower()
    # A difference many times the spread is seen in the fewest sessions that a test can take.
    effect = min(abs(difference) / sd, 5.0)
    needed = solver.solve_power(effect_size=effect, alpha=alpha, power=power)
    return Power(max(2, math.ceil(float(needed))), metric, difference, sd, power, alpha, held)


def _of_comparison(found: Comparison, metric: str) -> tuple[float, int]:
    rows = found.table.filter(pl.col("name") == metric).rows(named=True)
    if not rows:
        raise ConfigError(f"{metric!r} is not compared; there is {', '.join(found.table['name'])}")
    row = rows[0]
    if row["effect_size"]:
        return abs(row["difference"] / row["effect_size"]), row["sessions"]
    return 0.0, row["sessions"]


def _of_run(run: Run, metric: str) -> tuple[float, int]:
    history = run_figures(run)
    rows = history.filter(pl.col("metric") == metric).rows(named=True)
    if not rows:
        raise ConfigError(f"{metric!r} is not in {run.run_id}; there is "
                          f"{', '.join(history['metric'])}")  # fmt: skip
    return rows[0]["sd"] or 0.0, rows[0]["sessions_scored"]


def run_figures(run: Run) -> pl.DataFrame:
    """metric, mean, sd, sessions_scored, sessions: of overall, the dimensions and the metrics."""
    figures = ["metric", "mean", "sd", "sessions_scored", "sessions"]
    value = {
        "mean": pl.col("value").mean(),
        "sd": pl.col("value").std(),
        "sessions_scored": pl.col("value").count().cast(pl.Int64),
        "sessions": pl.len().cast(pl.Int64),
    }
    overall = run.sessions.select(metric=pl.lit("overall"), value="overall_score")
    dimensions = run.dimensions.select(metric="dimension", value="score")
    both = pl.concat([overall, dimensions]).sort("value")
    of_sessions = both.group_by("metric", maintain_order=True).agg(**value)
    return pl.concat([of_sessions.select(figures), run.metrics.select(figures)]).collect()
