"""What a run holds of a name: of `overall`, a dimension, or a metric.

People name all three alike; where one name means two of them, the first in this order is meant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

if TYPE_CHECKING:
    from uaef_frames.store.run import Run

KINDS = ("overall", "dimension", "metric")


def run_figures(run: Run) -> pl.DataFrame:
    """kind, name, mean, sd, sessions_scored, sessions: of overall, the dimensions, the metrics."""
    figures = ["kind", "name", "mean", "sd", "sessions_scored", "sessions"]
    value = {
        "mean": pl.col("value").mean(),
        "sd": pl.col("value").std(),
        "sessions_scored": pl.col("value").count().cast(pl.Int64),
        "sessions": pl.len().cast(pl.Int64),
    }
    overall = run.sessions.select(
        kind=pl.lit("overall"), name=pl.lit("overall"), value="overall_score"
    )
    dimensions = run.dimensions.select(kind=pl.lit("dimension"), name="dimension", value="score")
    both = pl.concat([overall, dimensions]).sort("value")
    of_sessions = both.group_by("kind", "name", maintain_order=True).agg(**value)
    metrics = run.metrics.with_columns(kind=pl.lit("metric"), name="metric")
    return run.collect(pl.concat([of_sessions.select(figures), metrics.select(figures)]))


def by_name(table: pl.DataFrame) -> dict[str, dict[str, Any]]:
    """The rows of a table with `kind` and `name` by the name; of two, the first of `KINDS`."""
    found: dict[str, dict[str, Any]] = {}
    for kind in KINDS:
        for row in table.filter(kind=kind).rows(named=True):
            found.setdefault(row["name"], row)
    return found
