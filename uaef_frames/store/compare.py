"""Comparison of two runs over the sessions that both have, with honest uncertainty.

Turns of a session are not independent, so the session is the unit: each gives one value a metric
(the mean of its turns), paired with the same session's value in the other run (Miller 2024, "Adding
Error Bars to Evals"). Tests are scipy's, corrections for many metrics statsmodels'.
"""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import polars as pl

from uaef_frames.errors import StoreError
from uaef_frames.store.run import Run, open_run
from uaef_frames.store.summary import steady_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

_TIE = 1e-9
_FEW = 10
COMPARISON_COLUMNS: Mapping[str, Any] = {
    "kind": pl.String,
    "name": pl.String,
    "mean_a": pl.Float64,
    "mean_b": pl.Float64,
    "difference": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "p": pl.Float64,
    "p_holm": pl.Float64,
    "effect_size": pl.Float64,
    "n": pl.Int64,
    "wins": pl.Int64,
    "ties": pl.Int64,
    "losses": pl.Int64,
    "only_a": pl.Int64,
    "only_b": pl.Int64,
    "note": pl.String,
}


@dataclass(frozen=True)
class Comparison:
    """Run B against run A.

    Attributes:
        table: One row for `overall`, each dimension and each metric. Means, `difference` (B - A),
            its 95 % interval (`low`, `high`) and `p` are over the `n` sessions that have the score
            in both runs (paired t test). `p_holm` is corrected over the rows of one kind.
            `effect_size` is the mean difference / its standard deviation. `wins`: sessions where B
            is higher. `only_a`, `only_b`: sessions scored in one run alone: a change of coverage,
            not of score.
            Where nothing can be said (n < 2, no variation) figures are null and `note` says why.
        sessions: One row a session and metric of both: score_a, score_b, difference.
        only_in_a: Sessions that run B lacks; `only_in_b` the other way round.
        notes: What else differs between the runs: judge, rubrics, package.
    """

    run_a: str
    run_b: str
    table: pl.DataFrame
    sessions: pl.DataFrame
    only_in_a: list[str]
    only_in_b: list[str]
    notes: list[str]

    def changed_most(self, limit: int = 10, metric: str | None = None) -> pl.DataFrame:
        """The sessions whose scores changed most."""
        some = self.sessions
        if metric is not None:
            some = some.filter(pl.col("metric") == metric)
        size = pl.col("difference").abs()
        return some.sort([size, "session_id", "metric"], descending=[True, False, False]).head(
            limit
        )

    def to_markdown(self) -> str:
        """The table, for a pull request."""
        head = ["", "A", "B", "B - A", "95 %", "p (Holm)", "n"]
        lines = [head, ["---"] * len(head)]
        for row in self.table.to_dicts():
            name = row["name"].replace("|", "\\|").replace("`", "'")
            interval = "–" if row["low"] is None else f"{row['low']:+.3f} to {row['high']:+.3f}"
            lines.append(
                [
                    f"`{name}`",
                    *(_shown(row[c], ".3f") for c in ("mean_a", "mean_b")),
                    _shown(row["difference"], "+.3f"),
                    interval,
                    _shown(row["p_holm"], ".3f"),
                    str(row["n"]),
                ]
            )
        return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"

    def __repr__(self) -> str:
        first = self.table.row(0, named=True)
        change = _shown(first["difference"], "+.3f")
        return (
            f"Comparison({self.run_a} → {self.run_b}: overall {change}, "
            f"p {_shown(first['p'], '.3f')}, {first['n']} sessions in both)"
        )

    def _repr_html_(self) -> str:
        return f"<p>{escape(repr(self))}</p>{self.table._repr_html_()}"  # pyright: ignore[reportPrivateUsage]


def compare(run_a: Run | str | Path, run_b: Run | str | Path) -> Comparison:
    """Hold run B against run A, session by session.

    Raises:
        StoreError: A run cannot be opened, or they have no session in common.
    """
    a, b = (r if isinstance(r, Run) else open_run(r) for r in (run_a, run_b))
    ids_a, ids_b = (set(r.sessions.select("session_id").collect()["session_id"]) for r in (a, b))
    if not ids_a & ids_b:
        raise StoreError(f"{a.run_id} and {b.run_id} have no session in common")
    values_a, values_b = _values(a), _values(b)
    joined = values_a.join(
        values_b, on=["kind", "name", "session_id"], how="full", coalesce=True, suffix="_b"
    ).filter(pl.col("session_id").is_in(list(ids_a & ids_b)))
    order = pl.concat([values_a, values_b]).select("kind", "name").unique(maintain_order=True)
    rows = [
        _row(kind, name, joined.filter(pl.col("kind") == kind, pl.col("name") == name))
        for kind, name in order.rows()
    ]
    table = pl.DataFrame(_corrected(rows), schema=dict(COMPARISON_COLUMNS))
    sessions = (
        joined.filter(pl.col("kind") == "metric")
        .drop_nulls(["value", "value_b"])
        .select(
            "session_id",
            metric="name",
            score_a="value",
            score_b="value_b",
            difference=pl.col("value_b") - pl.col("value"),
        )
        .sort("session_id", "metric")
    )
    return Comparison(
        a.run_id,
        b.run_id,
        table,
        sessions,
        sorted(ids_a - ids_b),
        sorted(ids_b - ids_a),
        _notes(a, b),
    )


def _values(run: Run) -> pl.DataFrame:
    """One value a session: overall, each dimension, each metric (the mean of its turns)."""
    overall = run.sessions.select(
        "session_id", kind=pl.lit("overall"), name=pl.lit("overall"), value="overall_score"
    )
    dimensions = run.dimensions.select(
        "session_id", kind=pl.lit("dimension"), name="dimension", value="score"
    )
    asked = {name: place for place, name in enumerate(run.info["metrics"])}
    metrics = (
        run.scores.group_by("session_id", "metric")
        .agg(value=steady_mean("score"))
        .sort(_place(asked), "session_id")
        .select("session_id", kind=pl.lit("metric"), name="metric", value="value")
    )
    return pl.concat([f.collect() for f in (overall, dimensions, metrics)])


def _place(asked: Mapping[str, int]) -> pl.Expr:
    return pl.col("metric").replace_strict(dict(asked), default=len(asked), return_dtype=pl.Int64)


def _row(kind: str, name: str, pairs: pl.DataFrame) -> dict[str, Any]:
    both = pairs.drop_nulls(["value", "value_b"]).sort("session_id")
    a, b = both["value"].to_numpy(), both["value_b"].to_numpy()
    row: dict[str, Any] = dict.fromkeys(COMPARISON_COLUMNS)
    row |= {
        "kind": kind,
        "name": name,
        "n": both.height,
        "only_a": pairs["value"].is_not_null().sum() - both.height,
        "only_b": pairs["value_b"].is_not_null().sum() - both.height,
    }
    if not both.height:
        row["note"] = "scored in no session of both runs"
        return row
    apart = b - a
    row |= {
        "mean_a": float(a.mean()),
        "mean_b": float(b.mean()),
        "difference": float(apart.mean()),
        "wins": int((apart > _TIE).sum()),
        "ties": int((np.abs(apart) <= _TIE).sum()),
        "losses": int((apart < -_TIE).sum()),
    }
    return row | _tested(apart)


def _tested(apart: NDArray[np.float64]) -> dict[str, Any]:
    from scipy import stats

    if len(apart) < 2:
        return {"note": "one session: nothing can be said of chance"}
    if float(np.ptp(apart)) <= _TIE:
        words = "no session differs" if abs(float(apart[0])) <= _TIE else "all differ by the same"
        return {"note": f"{words}: nothing to test"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        one_sample = cast("Callable[..., Any]", stats.ttest_1samp)  # pyright: ignore[reportUnknownMemberType]
        test = one_sample(apart, 0.0)
        interval: Any = test.confidence_interval(0.95)
    spread = float(apart.std(ddof=1))
    return {
        "low": float(interval.low),
        "high": float(interval.high),
        "p": float(test.pvalue),
        "effect_size": float(apart.mean()) / spread,
        "note": f"fewer than {_FEW} sessions: the interval is rough" if len(apart) < _FEW else None,
    }


def _corrected(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Holm's correction over the rows of each kind."""
    from statsmodels.stats import multitest  # pyright: ignore[reportMissingTypeStubs]

    adjust = cast("Callable[..., Any]", multitest.multipletests)
    for kind in ("overall", "dimension", "metric"):
        mine = [r for r in rows if r["kind"] == kind and r["p"] is not None]
        if mine:
            for row, p in zip(mine, adjust([r["p"] for r in mine], method="holm")[1], strict=True):
                row["p_holm"] = float(p)
    return rows


def _notes(a: Run, b: Run) -> list[str]:
    """What else differs: a change of judge is no change of agent."""
    one, two = (json.loads(r.info["config"]) for r in (a, b))
    found: list[str] = []
    for key, words in (
        ("judge", "they were judged by different judges"),
        ("judges", "single metrics were judged by different judges"),
        ("constants", "constants of metrics differ"),
        ("dimension_weights", "dimension weights differ"),
    ):
        if one.get(key) != two.get(key):
            found.append(words)
    shared = set(one.get("rubrics", {})) & set(two.get("rubrics", {}))
    changed = sorted(m for m in shared if one["rubrics"][m] != two["rubrics"][m])
    if changed:
        found.append(f"rubrics differ: {', '.join(changed)}")
    if a.info["version"] != b.info["version"]:
        found.append(f"package versions differ: {a.info['version']}, {b.info['version']}")
    return found


def _shown(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)
