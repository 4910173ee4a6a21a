"""Performance: how fast, how dear, how many tokens. Formulas: METRICS.md of this project's spec.

Knows the columns of `turns` and nothing of how they were measured.
"""

from __future__ import annotations

import polars as pl

from uaef_frames.metrics.registry import metric
from uaef_frames.metrics.spec import INVALID, MISSING, Constants, Scored, Unless


@metric("latency_score", "Performance", constants={"threshold_ms": 2000.0})
def latency_score(c: Constants) -> Scored:
    """1 up to the threshold, then threshold / latency."""
    ms = pl.col("latency_s") * 1000
    return Scored(
        score=pl.when(ms <= c.threshold_ms).then(1.0).otherwise(c.threshold_ms / ms),
        reasoning=pl.format(
            "{} ms against {} ms", ms.round(0).cast(pl.Int64, strict=False), _text(c.threshold_ms)
        ),
        details=pl.struct(latency_s="latency_s"),
        unless=(*_sane("latency_s"),),
    )


@metric(
    "token_efficiency",
    "Performance",
    constants={"expected_tokens": 1000.0, "penalty": "light"},
    needs=("quality",),
    stage=2,
)
def token_efficiency(c: Constants) -> Scored:
    """Quality, divided by how far the tokens exceed the expected number (its root when light)."""
    tokens = pl.col("input_tokens") + pl.col("output_tokens")
    return Scored(
        score=_efficiency(tokens, c.expected_tokens, c.penalty),
        reasoning=pl.format(
            "quality {} with {} tokens against {}",
            pl.col("quality").round(2),
            tokens.round(0).cast(pl.Int64, strict=False),
            _text(c.expected_tokens),
        ),
        details=pl.struct("input_tokens", "output_tokens", "quality"),
        unless=(
            *_invalid("input_tokens"),
            *_invalid("output_tokens"),
            *_bad_quality(),
            Unless(tokens.is_null(), MISSING, "token counts are unknown"),
            Unless(tokens == 0, MISSING, "no tokens were counted"),
            *_no_quality(),
        ),
    )


@metric(
    "cost_efficiency",
    "Performance",
    constants={"expected_usd": 0.01, "penalty": "light"},
    needs=("quality",),
    stage=2,
)
def cost_efficiency(c: Constants) -> Scored:
    """Quality, divided by how far the cost exceeds the expected cost (its root when light)."""
    cost = pl.col("cost_usd")
    return Scored(
        score=_efficiency(cost, c.expected_usd, c.penalty),
        reasoning=pl.format(
            "quality {} for {} USD against {} USD",
            pl.col("quality").round(2),
            cost.round(6),
            _text(c.expected_usd),
        ),
        details=pl.struct("cost_usd", "quality"),
        unless=(
            *_invalid("cost_usd"),
            *_bad_quality(),
            Unless(cost.is_null(), MISSING, "cost is unknown"),
            Unless(cost == 0, MISSING, "no cost was counted"),
            *_no_quality(),
        ),
    )


@metric("throughput", "Performance", constants={"target_rps": 10.0})
def throughput(c: Constants) -> Scored:
    """Requests a second against the target; 1 / latency where the payload gives no rate."""
    given = pl.col("throughput_rps")
    rps = pl.coalesce(given, 1 / pl.col("latency_s"))
    return Scored(
        score=pl.min_horizontal(pl.lit(1.0), rps / c.target_rps),
        reasoning=pl.format("{} requests/s against {}", rps.round(2), _text(c.target_rps)),
        details=pl.struct("throughput_rps", "latency_s"),
        unless=(
            *_invalid("throughput_rps"),
            Unless(
                given.is_null() & (_is_insane("latency_s") | (pl.col("latency_s") == 0)),
                INVALID,
                pl.format("latency_s is {}", "latency_s"),
            ),
            Unless(rps.is_null(), MISSING, "neither throughput_rps nor latency is known"),
        ),
    )


def _efficiency(used: pl.Expr, expected: float, penalty: str) -> pl.Expr:
    power = 0.5 if penalty == "light" else 1.0
    quality = pl.col("quality")
    return pl.when(used <= expected).then(quality).otherwise(quality / (used / expected) ** power)


def _is_insane(column: str) -> pl.Expr:
    value = pl.col(column)
    return ~value.is_finite() | (value < 0)


def _invalid(column: str) -> tuple[Unless, ...]:
    return (Unless(_is_insane(column), INVALID, pl.format(column + " is {}", column)),)


def _sane(column: str) -> tuple[Unless, ...]:
    return (
        *_invalid(column),
        Unless(pl.col(column).is_null(), MISSING, f"{column} is unknown"),
    )


def _bad_quality() -> tuple[Unless, ...]:
    value = pl.col("quality")
    outside = ~value.is_finite() | (value < 0) | (value > 1)
    return (Unless(outside, INVALID, pl.format("quality_score is {}, outside 0 to 1", value)),)


def _no_quality() -> tuple[Unless, ...]:
    return (
        Unless(
            pl.col("quality").is_null(), MISSING, "quality is unknown: no quality metric scored"
        ),
    )


def _text(number: float) -> pl.Expr:
    return pl.lit(f"{number:g}")
