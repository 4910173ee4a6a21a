"""Agreement: how far a judge's scores are those of people, with intervals.

Coefficients come from statsmodels (Cohen's kappa; Cohen 1960, 1968), krippendorff (alpha;
Krippendorff 2004) and scipy (Spearman). Turns of a session are not independent, so that sessions
are resampled.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

import numpy as np
import polars as pl

from uaef_frames.errors import ConfigError, GroundTruthError
from uaef_frames.metrics import get_metric
from uaef_frames.store.labels import read_labels
from uaef_frames.store.run import Run

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

Scale: TypeAlias = Literal["0-1", "1-5", "boolean"]
_Floats: TypeAlias = "NDArray[np.float64]"

_KEYS = ["session_id", "turn_id", "metric"]
_LEVELS: Mapping[str, int] = {"0-1": 5, "1-5": 5, "boolean": 2}
_MEASUREMENT: Mapping[str, str] = {"0-1": "interval", "1-5": "ordinal", "boolean": "nominal"}
_FEW = 30
_STATISTICS = ("exact", "within_one", "kappa", "weighted_kappa", "alpha", "spearman", "bias")
_ROUNDING = 1e-9

AGREEMENT_COLUMNS: Mapping[str, Any] = {
    "metric": pl.String,
    "scale": pl.String,
    "n": pl.Int64,
    "sessions": pl.Int64,
    **{f"{name}{end}": pl.Float64 for name in _STATISTICS for end in ("", "_low", "_high")},
    "human_alpha": pl.Float64,
    "raters": pl.Int64,
    "judge_nulls": pl.Int64,
    "unmatched_labels": pl.Int64,
    "unlabelled": pl.Int64,
    "note": pl.String,
}


@dataclass(frozen=True)
class Agreement:
    """A judge held against people.

    Attributes:
        table: One row a metric. `n` pairs from `sessions` sessions; `exact` and `within_one` are
            the shares of pairs on the same level and at most one apart; `kappa` and
            `weighted_kappa` (quadratic) Cohen's; `alpha` Krippendorff's (nominal for 0/1, ordinal
            for 1–5, interval for 0–1) over the judge and every rater, `human_alpha` over the
            raters alone; `spearman` the rank correlation; `bias` the judge's mean minus the
            people's, on [0, 1]. `*_low` and `*_high` end the 95 % percentile bootstrap interval
            over sessions. A statistic that is not defined (fewer than two pairs, no variation) is
            null, and `note` says why. `judge_nulls`: labelled, but the judge has no score;
            `unmatched_labels`: no such row in the run; `unlabelled`: scored, but nobody labelled
            it. Levels of 0–1 scores are quarters, the nearest.
        pairs: One row a compared pair: session_id, turn_id, metric, label and score on [0, 1],
            reasoning.
    """

    table: pl.DataFrame
    pairs: pl.DataFrame

    def confusion(self, metric: str | None = None) -> pl.DataFrame:
        """Counts of pairs by the people's level (rows, `label`) and the judge's (columns).

        Raises:
            ConfigError: The metric was not compared.
        """
        name = self._one(metric)
        scale = cast("Scale", self.table.filter(pl.col("metric") == name)["scale"][0])
        some = self.pairs.filter(pl.col("metric") == name)
        count = _LEVELS[scale]
        table = _table(
            _level(some["label"].to_numpy(), count), _level(some["score"].to_numpy(), count), count
        )
        names = _level_names(scale)
        return pl.DataFrame(
            {"label": names} | {n: table[:, at].astype(np.int64) for at, n in enumerate(names)}
        )

    def disagreements(self, limit: int = 10) -> pl.DataFrame:
        """The pairs that lie furthest apart."""
        apart = (pl.col("score") - pl.col("label")).abs()
        return (
            self.pairs.with_columns(apart=apart)
            .sort("apart", *_KEYS, descending=[True, False, False, False])
            .head(limit)
        )

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """The table as a dict by metric."""
        return {row["metric"]: row for row in self.table.to_dicts()}

    def __repr__(self) -> str:
        lines = [
            f"  {r['metric']}: n {r['n']}, within one {_shown(r['within_one'])}, weighted kappa "
            f"{_shown(r['weighted_kappa'])} [{_shown(r['weighted_kappa_low'])}, "
            f"{_shown(r['weighted_kappa_high'])}], bias {_shown(r['bias'])}"
            for r in self.table.to_dicts()
        ]
        return "\n".join([f"Agreement of judge and people on {self.table.height} metrics", *lines])

    def _repr_html_(self) -> str:
        return f"<pre>{escape(repr(self))}</pre>{self.table._repr_html_()}"  # pyright: ignore[reportPrivateUsage]

    def _one(self, metric: str | None) -> str:
        compared = self.table["metric"].to_list()
        if metric is None and len(compared) == 1:
            return compared[0]
        if metric is None or metric not in compared:
            raise ConfigError(f"name one of the compared metrics: {compared}, not {metric!r}")
        return metric


def agreement(
    run: Run | str | Path,
    labels: Any,
    *,
    metric: str | None = None,
    scale: Scale | None = None,
    resamples: int = 1000,
    seed: int = 0,
) -> Agreement:
    """Hold a run's scores against the labels of people.

    Args:
        run: The run, or its folder.
        labels: csv, tsv, xlsx, jsonl or parquet, or a polars, pandas or pyarrow frame, with columns
            session_id, turn_id (blank: the session's own score), metric, label and perhaps rater.
        metric: Only this metric; needed where the labels have no metric column.
        scale: What labels are given on: `0-1`, `1-5` or `boolean`; None: the metric's scale, where
            labels of a 1–5 metric that go below 1 are taken for scores in [0, 1].
        resamples: Bootstrap resamples; 0: no intervals.
        seed: Of the resampling.

    Raises:
        GroundTruthError: Labels cannot be read, lie outside their scale, or meet no row of the run.
        ConfigError: The metric is not in the run.
    """
    opened = run if isinstance(run, Run) else Run(run)
    given = read_labels(labels, metric)
    if metric is not None:
        given = given.filter(pl.col("metric") == metric)
    scores = opened.scores.select(*_KEYS, "score", "reasoning").collect()
    known = scores["metric"].unique(maintain_order=True).to_list()
    for name in given["metric"].unique():
        if name not in known:
            raise ConfigError(f"labels speak of metric {name!r}; the run has {', '.join(known)}")
    if given.is_empty():
        raise GroundTruthError("there is no label to compare")
    rows: list[dict[str, Any]] = []
    pairs: list[pl.DataFrame] = []
    for name in (n for n in known if n in set(given["metric"])):
        row, some = _compared(
            name,
            given.filter(pl.col("metric") == name),
            scores.filter(pl.col("metric") == name),
            scale,
            resamples,
            seed,
        )
        rows.append(row)
        pairs.append(some)
    table = pl.DataFrame(rows, schema=dict(AGREEMENT_COLUMNS))
    if not table["n"].sum():
        raise GroundTruthError(
            "no label meets a scored row of the run: session_id, turn_id (blank for a session's "
            "own score) and metric must be the run's"
        )
    return Agreement(table, pl.concat(pairs))


def _compared(
    name: str,
    labels: pl.DataFrame,
    scores: pl.DataFrame,
    given: Scale | None,
    resamples: int,
    seed: int,
) -> tuple[dict[str, Any], pl.DataFrame]:
    scale = given or _scale(name, labels["label"])
    scaled = labels.with_columns(label=_on_unit(labels, scale))
    joined = scaled.join(scores, on=_KEYS, how="left", nulls_equal=True, maintain_order="left")
    there = scaled.join(scores, on=_KEYS, how="semi", nulls_equal=True)
    found = joined.drop_nulls("score")
    pairs = (
        found.group_by(_KEYS, maintain_order=True)
        .agg(
            label=pl.col("label").mean(),
            score=pl.col("score").first(),
            reasoning=pl.col("reasoning").first(),
        )
        .select(*_KEYS, "label", "score", "reasoning")
    )
    unlabelled = scores.drop_nulls("score").join(labels, on=_KEYS, how="anti", nulls_equal=True)
    row: dict[str, Any] = dict.fromkeys(AGREEMENT_COLUMNS)
    raters = found["rater"].n_unique()
    row |= {
        "metric": name,
        "scale": scale,
        "n": pairs.height,
        "sessions": pairs["session_id"].n_unique(),
        "raters": raters,
        "judge_nulls": there.height - found.height,
        "unmatched_labels": scaled.height - there.height,
        "unlabelled": unlabelled.height,
    }
    notes: list[str] = []
    if pairs.height < 2:
        notes.append("fewer than two pairs")
    else:
        ratings = _ratings(pairs, found)
        row |= _statistics(ratings, scale)
        if raters > 1:
            row["human_alpha"] = _alpha(ratings[1:], scale)
        row |= _intervals(ratings, pairs["session_id"], scale, resamples, seed)
        if row["spearman"] is None:
            notes.append(
                "no variation in labels or scores: chance-corrected figures are not defined"
            )
        if row["sessions"] < _FEW:
            notes.append(f"fewer than {_FEW} sessions: intervals are rough")
    row["note"] = "; ".join(notes) or None
    return row, pairs


def _scale(name: str, labels: pl.Series) -> Scale:
    try:
        registered = get_metric(name).scale
    except ConfigError:
        return "0-1"
    if registered == "1-5":
        return "0-1" if cast("float", labels.min()) < 1 else "1-5"
    return "boolean" if registered == "boolean" else "0-1"


def _on_unit(labels: pl.DataFrame, scale: Scale) -> pl.Series:
    low, high = (1.0, 5.0) if scale == "1-5" else (0.0, 1.0)
    label = labels["label"]
    outside = labels.filter((label < low) | (label > high))
    if scale == "boolean":
        outside = labels.filter((label != 0) & (label != 1))
    if outside.height:
        row = outside.row(0, named=True)
        raise GroundTruthError(
            f"label {row['label']:g} of {row['metric']!r}, turn {row['turn_id']}, lies outside "
            f"of its scale {scale}; scale= says what labels are given on",
            session_id=row["session_id"],
        )
    return (label - low) / (high - low)


def _ratings(pairs: pl.DataFrame, found: pl.DataFrame) -> _Floats:
    """Judge (row 0) and raters (the other rows) by pair; NaN where a rater said nothing."""
    wide = pairs.select(*_KEYS).join(
        found.pivot("rater", index=_KEYS, values="label"),
        on=_KEYS,
        how="left",
        nulls_equal=True,
        maintain_order="left",
    )
    raters = wide.drop(_KEYS).cast(pl.Float64).fill_null(float("nan")).to_numpy().T
    return np.vstack([pairs["score"].to_numpy(), raters])


def _statistics(ratings: _Floats, scale: Scale) -> dict[str, float | None]:
    from scipy.stats import spearmanr  # pyright: ignore[reportUnknownVariableType]

    judge = ratings[0]
    people = _mean_of_raters(ratings[1:])
    count = _LEVELS[scale]
    table = _table(_level(people, count), _level(judge, count), count)
    step = 1.0 / (count - 1)
    apart = np.abs(judge - people)
    same = _level(judge, count) == _level(people, count)
    varied = bool(np.ptp(judge) > 0 and np.ptp(people) > 0)
    correlation: Any = spearmanr(judge, people) if varied else None  # pyright: ignore[reportUnknownVariableType]
    return {
        "exact": float(same.mean()),
        "within_one": float(
            same.mean() if scale == "boolean" else (apart <= step + _ROUNDING).mean()
        ),
        "kappa": _kappa(table, None),
        "weighted_kappa": _kappa(table, "quadratic"),
        "alpha": _alpha(ratings, scale),
        "spearman": None if correlation is None else _number(correlation.statistic),
        "bias": float(judge.mean() - people.mean()),
    }


def _mean_of_raters(raters: _Floats) -> _Floats:
    return np.nanmean(raters, axis=0)


def _intervals(
    ratings: _Floats, sessions: pl.Series, scale: Scale, resamples: int, seed: int
) -> dict[str, float | None]:
    """95 % percentile intervals; whole sessions are drawn with replacement."""
    if resamples <= 0:
        return {}
    codes = sessions.rank("dense").to_numpy().astype(np.int64) - 1
    order = np.argsort(codes, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(codes[order])) + 1)
    if len(groups) < 2:
        return {}
    dice = np.random.default_rng(seed)
    drawn: dict[str, list[float]] = {name: [] for name in _STATISTICS}
    for _ in range(resamples):
        picked = dice.integers(0, len(groups), len(groups))
        some = ratings[:, np.concatenate([groups[int(p)] for p in picked])]
        for name, value in _statistics(some, scale).items():
            if value is not None:
                drawn[name].append(value)
    made: dict[str, float | None] = {}
    for name, values in drawn.items():
        # Resamples without variation have no kappa; an interval needs most of them.
        enough = len(values) >= resamples / 2
        low, high = np.percentile(values, [2.5, 97.5]) if enough else (None, None)
        made[f"{name}_low"] = None if low is None else float(low)
        made[f"{name}_high"] = None if high is None else float(high)
    return made


def _kappa(table: _Floats, weights: str | None) -> float | None:
    from statsmodels.stats import inter_rater  # pyright: ignore[reportMissingTypeStubs]

    found = cast("Callable[..., Any]", inter_rater.cohens_kappa)
    return _quietly(lambda: found(table, wt=weights, return_results=False))


def _alpha(ratings: _Floats, scale: Scale) -> float | None:
    import krippendorff

    data = ratings if scale == "0-1" else np.round(ratings * (_LEVELS[scale] - 1))
    if np.nanmax(data) == np.nanmin(data):
        return None
    found = cast("Callable[..., Any]", krippendorff.alpha)
    return _quietly(lambda: found(reliability_data=data, level_of_measurement=_MEASUREMENT[scale]))


def _quietly(work: Callable[[], Any]) -> float | None:
    """A library's figure; None where it is not defined."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return _number(work())
        except (ValueError, ZeroDivisionError):
            return None


def _number(value: Any) -> float | None:
    number = float(value)
    return number if np.isfinite(number) else None


def _level(values: _Floats, count: int) -> NDArray[np.int64]:
    """The nearest level, halves upwards."""
    return np.floor(values * (count - 1) + 0.5 + _ROUNDING).astype(np.int64)


def _table(rows: NDArray[np.int64], columns: NDArray[np.int64], count: int) -> _Floats:
    return (
        np.bincount(rows * count + columns, minlength=count * count)
        .reshape(count, count)
        .astype(float)
    )


def _level_names(scale: Scale) -> list[str]:
    if scale == "1-5":
        return ["1", "2", "3", "4", "5"]
    return ["0", "1"] if scale == "boolean" else ["0", "0.25", "0.5", "0.75", "1"]


def _shown(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"
