"""The scores of a run in one row a metric. Computed once, when the run is written."""

from __future__ import annotations

from typing import Any, cast

import polars as pl

from uaef_frames import schemas

_SCALE = 2.0**100
"""Scores times this are whole numbers, without loss down to 2⁻⁴⁷; 2²⁶ of them fit into 128 bits."""


def steady_mean(column: str) -> pl.Expr:
    """The mean of a group of scores, the same to the last digit however it is split among threads;
    null if none is known.
    """
    value = pl.col(column)
    return pl.when(value.count() > 0).then(_steady_sum(value) / value.count())


def steady_sd(column: str) -> pl.Expr:
    """The standard deviation (n - 1) of a group of scores, as steady; null for fewer than two."""
    value = pl.col(column)
    squares = _steady_sum((value - steady_mean(column)) ** 2)
    return pl.when(value.count() > 1).then((squares / (value.count() - 1)).sqrt())


def _steady_sum(value: pl.Expr) -> pl.Expr:
    """A sum of floats depends on their order, one of whole numbers does not."""
    return (value * _SCALE).cast(pl.Int128).sum().cast(pl.Float64) / _SCALE


def summarise(scores: pl.LazyFrame, run_id: str) -> pl.DataFrame:
    """The rows of `schemas.Metrics` for the scores of a run, in the order of their names."""
    of_session = scores.group_by("session_id", "dimension", "metric").agg(
        value=steady_mean("score"), scored=pl.col("score").count(), measured=pl.len()
    )
    by_metric = of_session.group_by("dimension", "metric").agg(
        mean=steady_mean("value"),
        sd=steady_sd("value"),
        lowest=pl.col("value").min(),
        sessions_scored=pl.col("value").count(),
        sessions=pl.len(),
        scored=pl.col("scored").sum(),
        measured=pl.col("measured").sum(),
    )
    reasons = (
        scores.filter(pl.col("warning").is_not_null())
        .group_by("metric", "warning")
        .len()
        .sort("len", "warning", descending=[True, False])
        .group_by("metric", maintain_order=True)
        .agg(why_null=pl.col("warning").first())
    )
    columns = schemas.columns(schemas.Metrics)
    return (
        by_metric.join(reasons, on="metric", how="left")
        .sort("metric", "dimension")
        .with_columns(run_id=pl.lit(run_id))
        .select(pl.col(n).cast(t) for n, t in columns.items())
        .collect()
    )


def interval(mean: pl.Expr, sd: pl.Expr, n: pl.Expr) -> tuple[pl.Expr, pl.Expr]:
    """The 95 % interval of a mean over `n` sessions, by Student's t; null for fewer than two."""
    wide = pl.when(n > 1).then(_quantile(n) * sd / n.cast(pl.Float64).sqrt())
    return mean - wide, mean + wide


def _quantile(n: pl.Expr) -> pl.Expr:
    def of(sizes: pl.Series) -> pl.Series:
        from scipy import stats

        freedom = sizes.cast(pl.Float64).to_numpy() - 1
        ppf = cast("Any", stats.t).ppf
        return pl.Series(sizes.name, ppf(0.975, freedom.clip(min=1)))

    return n.map_batches(of, return_dtype=pl.Float64, is_elementwise=True)
