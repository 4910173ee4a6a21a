"""How many sessions a comparison needs to see a difference."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from uaef_frames.errors import ConfigError, StoreError, near
from uaef_frames.store.compare import Comparison
from uaef_frames.store.escaping import is_text
from uaef_frames.store.figures import by_name, run_figures
from uaef_frames.store.run import Run, open_run

if TYPE_CHECKING:
    from pathlib import Path

_FEWEST = 2
_LARGEST_EFFECT = 5.0
"""A difference many times the spread is seen in the fewest sessions that a test can take."""
_MANY = 100_000
"""Sessions from which on the t test is the normal one."""
_MOST = 1e12


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
            `correlation` vary by sd × √(2 (1 - correlation)). Of a comparison of turns it is the
            clustered error that counts, as if sessions had as many turns as those compared.
        metric: A metric, a dimension, or "overall".
        difference: The least difference of means worth seeing, such as 0.02; at most 1.
        power: The chance to see it: more than `alpha`.
        alpha: The p value below which it counts as seen.
        correlation: Between the sessions' scores in two runs; for one run only.

    Raises:
        ConfigError: An argument is out of range, or the metric is not there.
        StoreError: Fewer than two sessions have a score, or none differs from another.
    """
    given: Any = difference
    if isinstance(given, bool) or not isinstance(given, (int, float)) or not 0 < abs(given) <= 1:
        raise ConfigError(
            f"the difference to be seen is a number up to 1 and not 0, such as 0.02, not {given!r}"
        )
    chances: dict[str, Any] = {"power": power, "alpha": alpha, "correlation": correlation}
    for name, value in chances.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise ConfigError(f"{name} is a number, not {value!r}")
    for name, value in (("power", power), ("alpha", alpha)):
        if not 0 < value < 1:
            raise ConfigError(f"{name} lies between 0 and 1, not {value}")
    if power <= alpha:
        raise ConfigError(
            f"power {power:g} is to be had by chance: it must be above alpha, {alpha:g}"
        )
    if not -1 <= correlation < 1:
        raise ConfigError(f"correlation lies between -1 and 1, not {correlation}")
    if not is_text(metric):
        raise ConfigError(f"metric is a name, not {metric!r}")
    if isinstance(run, Comparison):
        sd, held = _of_comparison(run, metric)
    else:
        sd, held = _of_run(run if isinstance(run, Run) else open_run(run), metric)
        sd *= math.sqrt(2 * (1 - correlation))
    if not sd > 0:
        raise StoreError(f"{metric}: {held} scored sessions, and none differs: nothing to go by")
    needed = _needed(min(abs(difference) / sd, _LARGEST_EFFECT), power, alpha)
    return Power(needed, metric, difference, sd, power, alpha, held)


def _needed(effect: float, power: float, alpha: float) -> int:
    """The fewest sessions whose two-sided t test has the power."""
    from scipy import stats

    quantile: Any = cast("Any", stats.norm).ppf
    root = (float(quantile(1 - alpha / 2)) + float(quantile(power))) / effect
    normal = min(root, _MOST) ** 2  # a power of more would not be a float
    if not normal < _MOST:
        raise ConfigError(f"more than {_MOST:,.0f} sessions would be needed: nobody has them")
    # The normal test is nearly it; power grows with sessions.
    low, high = _FEWEST - 1, max(_FEWEST, math.ceil(normal))
    while _chance(effect, high, alpha) < power:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _chance(effect, middle, alpha) >= power else (middle, high)
    return high


def _chance(effect: float, sessions: int, alpha: float) -> float:
    """The power of a two-sided t test, from the noncentral t distribution (Cohen 1988)."""
    from scipy import stats

    found: Any = stats
    shift = effect * math.sqrt(sessions)
    if sessions > _MANY:
        bound = found.norm.ppf(1 - alpha / 2)
        return float(found.norm.sf(bound - shift) + found.norm.cdf(-bound - shift))
    bound = found.t.ppf(1 - alpha / 2, sessions - 1)
    upper = float(found.nct.sf(bound, sessions - 1, shift))
    lower = float(found.nct.cdf(-bound, sessions - 1, shift))
    return upper + (0.0 if math.isnan(lower) else lower)  # no number where it is below 1e-19


def _of_comparison(found: Comparison, metric: str) -> tuple[float, int]:
    row = by_name(found.table).get(metric)
    if row is None:
        raise ConfigError(
            f"{metric!r} is not compared; {near(metric, found.table['name'].to_list())}"
        )
    return (row["se"] or 0.0) * math.sqrt(row["sessions"]), row["sessions"]


def _of_run(run: Run, metric: str) -> tuple[float, int]:
    held = by_name(run_figures(run))
    if metric not in held:
        raise ConfigError(f"{metric!r} is not in {run.run_id}; {near(metric, list(held))}")
    return held[metric]["sd"] or 0.0, held[metric]["sessions_scored"]
