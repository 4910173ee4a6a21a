"""Whether the mean of paired differences is zero: tests, intervals, corrections.

Tests and the bootstrap are scipy's, clustered errors and corrections for many metrics statsmodels'.
"""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, Any, cast

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

TIE = 1e-9
"""Scores that are nearer to each other are equal."""
FEWEST_RESAMPLED = 30
"""Sessions below which no bootstrap is done: percentile intervals of few are too narrow (of 10
sessions they miss the mean in some 10 % of runs, of 2 in 44 %), those of the t test are not."""
_FEW = 10
_BATCH = 4_000_000
"""Numbers that the bootstrap holds at once."""


def mean_is_zero(
    apart: NDArray[np.float64], sessions: NDArray[np.uint32] | None = None
) -> dict[str, Any]:
    """low, high, p, se, effect_size and note for the mean of differences.

    Args:
        apart: The differences, those of one session behind each other.
        sessions: The number of the session of each, from 0; None: each is a session of its own.
    """
    count = len(apart) if sessions is None else int(sessions[-1]) + 1
    if count < 2:
        return {"note": "one session: nothing can be said of chance"}
    if float(np.ptp(apart)) <= TIE:
        words = "nothing differs" if abs(float(apart[0])) <= TIE else "all differ by the same"
        return {"se": 0.0, "note": f"{words}: nothing to test"}
    mean = float(apart.mean())
    if sessions is None or count == len(apart):
        low, high, p, error = _t_test(apart)
    else:
        within = np.bincount(sessions, weights=apart - mean)
        if float(np.abs(within).max()) <= TIE:
            return {"se": 0.0, "note": "sessions do not differ from each other: nothing to test"}
        low, high, p, error = _clustered(apart, sessions)
    if not math.isfinite(p + low + high):
        return {"note": "the test has no answer"}
    return {
        "low": low,
        "high": high,
        "p": p,
        "se": error,
        "effect_size": mean / float(apart.std(ddof=1)),
        "note": f"fewer than {_FEW} sessions: the interval is rough" if count < _FEW else None,
    }


def _t_test(apart: NDArray[np.float64]) -> tuple[float, float, float, float]:
    from scipy import stats

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        one_sample = cast("Callable[..., Any]", stats.ttest_1samp)  # pyright: ignore[reportUnknownMemberType]
        test = one_sample(apart, 0.0)
        interval: Any = test.confidence_interval(0.95)
    error = float(apart.std(ddof=1)) / math.sqrt(len(apart))
    return float(interval.low), float(interval.high), float(test.pvalue), error


def _clustered(
    apart: NDArray[np.float64], sessions: NDArray[np.uint32]
) -> tuple[float, float, float, float]:
    """The mean as a regression on a constant, with standard errors clustered by session."""
    from statsmodels.regression import linear_model  # pyright: ignore[reportMissingTypeStubs]

    model = cast("Any", linear_model).OLS(apart, np.ones(len(apart)))
    fitted = model.fit(cov_type="cluster", cov_kwds={"groups": sessions}, use_t=True)
    low, high = fitted.conf_int(0.05)[0]
    return float(low), float(high), float(fitted.pvalues[0]), float(fitted.bse[0])


def resampled(
    apart: NDArray[np.float64], sessions: NDArray[np.uint32], resamples: int, seed: int
) -> tuple[float, float]:
    """The 95 % interval of the mean by bootstrap: whole sessions are drawn, with their pairs."""
    from scipy import stats

    counts = np.bincount(sessions).astype(np.float64)
    sums = np.bincount(sessions, weights=apart)

    def mean(total: Any, size: Any, axis: int) -> Any:
        return total.sum(axis=axis) / size.sum(axis=axis)

    bootstrap = cast("Callable[..., Any]", stats.bootstrap)
    found = bootstrap(
        (sums, counts),
        mean,
        paired=True,
        vectorized=True,
        n_resamples=resamples,
        batch=max(1, _BATCH // len(sums)),
        method="percentile",
        rng=np.random.default_rng(seed),
    ).confidence_interval
    return float(found.low), float(found.high)


def holm(values: list[float]) -> list[float]:
    """P values corrected for their number, after Holm (1979)."""
    if len(values) < 2:
        return values
    from statsmodels.stats import multitest  # pyright: ignore[reportMissingTypeStubs]

    adjust = cast("Callable[..., Any]", multitest.multipletests)
    return [float(p) for p in adjust(values, method="holm")[1]]
