"""Agreement: how far a judge's scores are those of people, with intervals.

Point estimates come from statsmodels (Cohen's kappa; Cohen 1960, 1968), krippendorff (alpha;
Krippendorff 2004) and scipy (Spearman); resamples from the same formulas over sums by session,
because turns of a session are not independent. Reading labels is `store.labels`'.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
import polars as pl
import polars.selectors as cs

from uaef_frames.errors import ConfigError, GroundTruthError
from uaef_frames.store.labels import (
    KEYS,
    LABEL_COLUMNS,
    LEVELS,
    Scale,
    on_unit,
    ratings_of,
    read_labels,
    scales_of,
    why_unmatched,
)
from uaef_frames.store.run import Run

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

_Floats: TypeAlias = "NDArray[np.float64]"
_Ints: TypeAlias = "NDArray[np.int64]"

_MEASUREMENT: Mapping[Scale, str] = {"0-1": "interval", "1-5": "ordinal", "boolean": "nominal"}
_READ = (*KEYS, "score", "warning", "reasoning", "model")
_FEW = 30
_STATISTICS = ("exact", "within_one", "kappa", "weighted_kappa", "alpha", "spearman", "bias")
_VARYING = ("kappa", "weighted_kappa", "alpha", "spearman")
_SAME = 1e-9
_FEW_LEFT_OUT, _MOST_LEFT_OUT = 0.05, 0.5
_BLOCK = 2_000_000
"""Numbers in one block of resamples."""
_LIBRARY_LIMIT = 5_000_000
"""Krippendorff's library holds pairs × values × values numbers; beyond this, the sums do."""

AGREEMENT_COLUMNS: Mapping[str, Any] = {
    "metric": pl.String,
    "scale": pl.String,
    "n": pl.Int64,
    "sessions": pl.Int64,
    **{f"{name}{end}": pl.Float64 for name in _STATISTICS for end in ("", "_low", "_high")},
    "alpha_level": pl.String,
    "human_alpha": pl.Float64,
    "raters": pl.Int64,
    "judge_nulls": pl.Int64,
    "unmatched_labels": pl.Int64,
    "unlabelled": pl.Int64,
    "note": pl.String,
}


@dataclass(frozen=True, repr=False)
class Agreement:
    """A judge held against people.

    Attributes:
        table: One row a metric. `scale`: what its labels were read on; `n`, `sessions`: compared
            pairs, and their sessions. The people's side of a pair is the mean of its raters.
            `exact`, `within_one`: shares of pairs on one level, and at most a level's width (0.25)
            apart; of booleans both are the same. Levels are 1–5, 0 and 1, or the quarters of a
            0–1 score: the nearest, ties up. `kappa`, `weighted_kappa` (quadratic): Cohen's, on
            levels. `alpha`: Krippendorff's over judge and raters, by `alpha_level` nominal for
            booleans, ordinal for 1–5 (both on levels), interval for 0–1; `human_alpha`: over the
            raters alone, null for one. `spearman`: rank correlation. `bias`: the judge's mean
            minus the people's, on [0, 1]. `*_low`, `*_high`: 95 % percentile bootstrap over
            sessions. What is not defined is null and `note` says why: fewer than two pairs; for
            kappa, alpha and Spearman also a side that does not vary, as they would be 0 or near it
            whatever is agreed upon. `judge_nulls`: labelled rows without a score of the judge;
            `unmatched_labels`: labels without a row in the run; `unlabelled`: scores that nobody
            labelled.
        pairs: One row a compared pair: session_id, turn_id, metric, label and score on [0, 1],
            reasoning.
        unmatched: The labels that meet no row, as they were given; columns `LABEL_COLUMNS`.
    """

    table: pl.DataFrame
    pairs: pl.DataFrame
    unmatched: pl.DataFrame

    def confusion(self, metric: str | None = None) -> pl.DataFrame:
        """Counts of pairs by the people's level (rows, `label`) and the judge's (columns).

        Raises:
            ConfigError: The metric was not compared, or several were and none is named.
        """
        compared = self.table["metric"].to_list()
        name = compared[0] if metric is None and len(compared) == 1 else metric
        if name not in compared:
            raise ConfigError(f"name one of the compared metrics: {compared}, not {metric!r}")
        measured = self.table.filter(metric=name)["alpha_level"].item()
        scale: Scale = next(s for s in LEVELS if _MEASUREMENT[s] == measured)
        some = self.pairs.filter(metric=name)
        table = _table(some["label"].to_numpy(), some["score"].to_numpy(), scale)
        counts = {n: table[:, at].astype(np.int64) for at, n in enumerate(LEVELS[scale])}
        return pl.DataFrame({"label": LEVELS[scale]} | counts)

    def disagreements(self, n: int = 10) -> pl.DataFrame:
        """The n pairs that lie furthest apart, and how far (`apart`); pairs that agree are none."""
        apart = (pl.col("score") - pl.col("label")).abs()
        return (
            self.pairs.with_columns(apart=apart)
            .filter(pl.col("apart") > _SAME)
            .sort("apart", *KEYS, descending=[True, False, False, False])
            .head(n)
        )

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """The table as a dict by metric."""
        return {row["metric"]: row for row in self.table.to_dicts()}

    def __repr__(self) -> str:
        lines = [f"Agreement of judge and people on {_counted(self.table.height, 'metric')}"]
        for row in self.table.to_dicts():
            lines.append(
                f"  {row['metric']}: n {row['n']} ({_counted(row['sessions'], 'session')}), "
                f"within one {_shown(row, 'within_one')}, weighted kappa "
                f"{_shown(row, 'weighted_kappa')}, alpha {_shown(row, 'alpha')}, "
                f"bias {_shown(row, 'bias')}"
            )
            if row["note"] is not None:
                lines.append(f"    {row['note']}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        names = [n for n in AGREEMENT_COLUMNS if not n.endswith(("_low", "_high", "_level"))]
        head = "".join(f"<th>{escape(n.replace('_', ' '))}</th>" for n in names)
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(_shown(row, n))}</td>" for n in names) + "</tr>"
            for row in self.table.to_dicts()
        )
        return (
            "<p>Agreement of judge and people; in brackets 95 % intervals over sessions</p>"
            f'<table border="1" class="dataframe"><thead><tr>{head}</tr></thead>'
            f"<tbody>{body}</tbody></table>"
        )


def agreement(
    run: Run | str | Path,
    labels: Any,
    *,
    metric: str | None = None,
    scale: Scale | Mapping[str, Scale] | None = None,
    resamples: int = 2000,
    seed: int = 0,
) -> Agreement:
    """Hold a run's scores against the labels of people.

    Args:
        run: The run, or its folder.
        labels: csv, tsv, xlsx, jsonl, json or parquet, or a polars, pandas or pyarrow frame, with
            columns session_id, turn_id (blank: the session's own score), metric, label (or score,
            human, human_score, rating) and perhaps rater. Beside a `label`, `score` is the
            judge's and not read. TRUE and FALSE are 1 and 0.
        metric: Only this metric; also of labels that name none. Labels without a column metric
            are taken to be about the run's one judged metric.
        scale: What labels are given on: `0-1`, `1-5` or `boolean`, of all metrics or by metric;
            None: the metric's registered scale. Labels of a 1–5 metric are on 1–5 if one is above
            1, on [0, 1] if none is and one is below 1, and 1 of 5 if all are 1 (a note says so).
        resamples: Bootstrap resamples; 0: no intervals.
        seed: Of the resampling.

    Raises:
        GroundTruthError: Labels cannot be read, are there twice, lie outside their scale, or none
            meets a row of the run; the message names the row.
        ConfigError: A metric is not in the run, or an argument is none of those above.
        StoreError: There is no such run.
    """
    if resamples < 0:
        raise ConfigError(f"resamples is 0 or more, not {resamples}")
    opened = run if isinstance(run, Run) else Run(run)
    held = opened.scores.select(cs.by_name(*_READ, require_all=False)).collect()
    given = read_labels(labels, held, metric)
    scales = scales_of(scale, set(given["metric"]))
    draw = resamples, seed
    found = [
        _compared(name, given.filter(metric=name), held.filter(metric=name), scales[name], draw)
        for name in held["metric"].unique(maintain_order=True)
        if name in scales
    ]
    unmatched = pl.concat(lost for _, _, lost in found)
    if unmatched.height == given.height:
        mine = held.filter(metric=unmatched["metric"][0])
        raise GroundTruthError(f"no label meets a row of the run: {why_unmatched(unmatched, mine)}")
    table = pl.DataFrame([row for row, _, _ in found], schema=dict(AGREEMENT_COLUMNS))
    return Agreement(table, pl.concat(pairs for _, pairs, _ in found), unmatched)


def _compared(
    name: str,
    labels: pl.DataFrame,
    scores: pl.DataFrame,
    given: Scale | None,
    draw: tuple[int, int],
) -> tuple[dict[str, Any], pl.DataFrame, pl.DataFrame]:
    """A metric's row of the table, its pairs, and its labels that met nothing."""
    scaled, scale, metric_scale, about_scale = on_unit(name, labels, given)
    lost = labels.join(scores, on=KEYS, how="anti", nulls_equal=True, maintain_order="left")
    met = scaled.join(
        scores.drop("model", strict=False), on=KEYS, nulls_equal=True, maintain_order="left"
    )
    found = met.drop_nulls("score")
    pairs = found.group_by(KEYS, maintain_order=True).agg(
        pl.col("label").mean(), pl.col("score").first(), pl.col("reasoning").first()
    )
    silent = met.filter(pl.col("score").is_null()).unique(KEYS)
    unlabelled = scores.drop_nulls("score").join(labels, on=KEYS, how="anti", nulls_equal=True)
    row: dict[str, Any] = dict.fromkeys(AGREEMENT_COLUMNS) | {
        "metric": name,
        "scale": scale,
        "n": pairs.height,
        "sessions": pairs["session_id"].n_unique(),
        "alpha_level": _MEASUREMENT[metric_scale],
        "raters": labels["rater"].n_unique(),
        "judge_nulls": silent.height,
        "unmatched_labels": lost.height,
        "unlabelled": unlabelled.height,
    }
    notes = [] if about_scale is None else [about_scale]
    if pairs.height < 2:
        notes.append("fewer than two pairs")
    else:
        figures, said = _figures(pairs, found, metric_scale, *draw)
        row |= figures
        notes += said
        if row["raters"] > 1 and row["human_alpha"] is None:
            notes.append("no human_alpha: no row has two raters, or their labels do not vary")
    if silent.height:
        reasons = silent["warning"].fill_null("?").value_counts(sort=True).rows()
        notes.append("no score of the judge: " + ", ".join(f"{n} {why}" for why, n in reasons))
    if lost.height:
        labelled = _counted(lost.height, "label")
        notes.append(f"{labelled} without a row in the run, first {why_unmatched(lost, scores)}")
    row["note"] = "; ".join(notes) or None
    return row, pairs, lost.select(LABEL_COLUMNS.keys())


def _figures(
    pairs: pl.DataFrame, found: pl.DataFrame, scale: Scale, resamples: int, seed: int
) -> tuple[dict[str, float | None], list[str]]:
    """Point estimates and intervals of a metric's pairs, and what is to be said of them."""
    ratings = ratings_of(pairs, found)
    figures = _estimates(ratings, scale)
    notes: list[str] = []
    gone = [name for name in _VARYING if figures[name] is None]
    if gone:
        sides = {"labels": _people(ratings), "scores": ratings[0]}
        still = [what for what, side in sides.items() if np.ptp(_level(side, scale)) == 0]
        notes.append(f"no {', '.join(gone)}: the {' and '.join(still)} do not vary")
    if len(ratings) > 2:
        figures["human_alpha"] = _alpha(ratings[1:], scale)
    codes = pairs["session_id"].rank("dense").cast(pl.Int64).to_numpy() - 1
    if resamples and codes.max() == 0:
        notes.append("one session: no intervals")
    elif resamples:
        left_out: dict[str, float] = {}
        for name, drawn in _Sample(ratings, codes, scale).resampled(resamples, seed).items():
            values = drawn[np.isfinite(drawn)]
            if figures[name] is None:
                continue
            left_out[name] = 1 - len(values) / resamples
            if left_out[name] <= _MOST_LEFT_OUT:
                low, high = np.percentile(values, [2.5, 97.5])
                figures |= {f"{name}_low": float(low), f"{name}_high": float(high)}
        if (most := max(left_out.values())) > _FEW_LEFT_OUT:
            none = f" (over {_MOST_LEFT_OUT:.0%}: no interval)" if most > _MOST_LEFT_OUT else ""
            notes.append(f"up to {most:.0%} of resamples do not vary and are left out{none}")
        if codes.max() + 1 < _FEW:
            notes.append(f"fewer than {_FEW} sessions: intervals are rough")
    return figures, notes


def _estimates(ratings: _Floats, scale: Scale) -> dict[str, float | None]:
    """Point estimates; None where one is not defined."""
    from scipy.stats import spearmanr  # pyright: ignore[reportUnknownVariableType]

    judge, people = ratings[0], _people(ratings)
    table = _table(people, judge, scale)
    varied = all(np.ptp(_level(side, scale)) > 0 for side in (judge, people))
    ranked = np.ptp(judge) > 0 and np.ptp(people) > 0
    same, near = _same_and_near(judge, people, scale)
    rank = cast("Callable[..., Any]", spearmanr)
    return {
        "exact": float(same.mean()),
        "within_one": float(near.mean()),
        "kappa": _kappa(table, None) if varied else None,
        "weighted_kappa": _kappa(table, "quadratic") if varied else None,
        "alpha": _alpha(ratings, scale) if (ranked if scale == "0-1" else varied) else None,
        "spearman": _quietly(lambda: rank(judge, people).statistic) if ranked else None,
        "bias": float((judge - people).mean()),
    }


def _kappa(table: _Floats, weights: str | None) -> float | None:
    from statsmodels.stats import inter_rater  # pyright: ignore[reportMissingTypeStubs]

    found = cast("Callable[..., Any]", inter_rater.cohens_kappa)
    return _quietly(lambda: found(table, wt=weights, return_results=False))


def _alpha(ratings: _Floats, scale: Scale) -> float | None:
    """Krippendorff's alpha of raters × pairs; None where nothing varies or nobody overlaps."""
    import krippendorff

    values = ratings if scale == "0-1" else _level(ratings, scale)
    values = values[:, (~np.isnan(values)).sum(axis=0) > 1]
    domain = np.unique(values[~np.isnan(values)])
    if len(domain) < 2:
        return None
    if scale == "0-1" and values.shape[1] * len(domain) ** 2 > _LIBRARY_LIMIT:
        return float(_interval_alpha(_interval_parts(values).sum(axis=0)[None])[0])
    found, level = cast("Callable[..., Any]", krippendorff.alpha), _MEASUREMENT[scale]
    return _quietly(lambda: found(reliability_data=values, level_of_measurement=level))


def _quietly(work: Callable[[], Any]) -> float | None:
    """A library's figure; None where it is not defined."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            number = float(work())
        except (ValueError, ZeroDivisionError):
            return None
    return number if np.isfinite(number) else None


class _Sample:
    """Pairs as sums by session, so that any weighting of sessions gives its figures at once."""

    def __init__(self, ratings: _Floats, codes: _Ints, scale: Scale) -> None:
        self._scale: Scale = scale
        self._codes = codes
        self._sides = judge, people = ratings[0], _people(ratings)
        order = np.argsort(codes, kind="stable")
        starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
        count = len(LEVELS[scale])
        cells = (_level(people, scale) * count + _level(judge, scale)).astype(np.int64)
        same, near = _same_and_near(judge, people, scale)
        values = ratings if scale == "0-1" else _level(ratings, scale)
        self._basic, self._cells, self._alpha = (
            np.add.reduceat(parts[order], starts, axis=0)
            for parts in (
                np.column_stack([np.ones(len(judge)), same, near, judge - people]),
                np.eye(count * count)[cells],
                _interval_parts(values) if scale == "0-1" else _coincidences(values, count),
            )
        )

    def resampled(self, resamples: int, seed: int) -> dict[str, _Floats]:
        """Figures of resamples of whole sessions, drawn with replacement; NaN: not defined."""
        dice = np.random.default_rng(seed)
        count = len(self._basic)
        size = max(1, _BLOCK // len(self._codes))
        drawn: list[dict[str, _Floats]] = []
        for start in range(0, resamples, size):
            rows = min(size, resamples - start)
            picked = dice.integers(0, count, (rows, count)) + count * np.arange(rows)[:, None]
            weights = np.bincount(picked.ravel(), minlength=rows * count).reshape(rows, count)
            drawn.append(self.figures(weights.astype(np.float64)))
        return {name: np.concatenate([d[name] for d in drawn]) for name in _STATISTICS}

    def figures(self, weights: _Floats) -> dict[str, _Floats]:
        """Every statistic by row of `weights` (resamples × sessions); NaN where not defined."""
        count = len(LEVELS[self._scale])
        tables = (weights @ self._cells).reshape(-1, count, count)
        varied = np.all([(tables.sum(axis=a) > 0).sum(axis=1) > 1 for a in (1, 2)], axis=0)
        apart = np.subtract.outer(np.arange(count), np.arange(count)).astype(np.float64) ** 2
        basic, sums = weights @ self._basic, weights @ self._alpha
        spearman = self._spearman(weights)
        with np.errstate(all="ignore"):
            if self._scale == "0-1":
                alpha = np.where(np.isnan(spearman), np.nan, _interval_alpha(sums))
            else:
                alpha = np.where(varied, _level_alpha(sums.reshape(tables.shape)), np.nan)
            return {
                "exact": basic[:, 1] / basic[:, 0],
                "within_one": basic[:, 2] / basic[:, 0],
                "kappa": np.where(varied, _kappas(tables, (apart > 0).astype(np.float64)), np.nan),
                "weighted_kappa": np.where(varied, _kappas(tables, apart), np.nan),
                "alpha": alpha,
                "spearman": spearman,
                "bias": basic[:, 3] / basic[:, 0],
            }

    def _spearman(self, weights: _Floats) -> _Floats:
        """Pearson's correlation of mid-ranks; a pair of weight w counts as w equal pairs."""
        each = weights[:, self._codes]
        total = each.sum(axis=1, keepdims=True)
        ranks: list[_Floats] = []
        for side in self._sides:
            _, place = np.unique(side, return_inverse=True)
            order = np.argsort(place, kind="stable")
            starts = np.flatnonzero(np.diff(place[order], prepend=-1))
            counts = np.add.reduceat(each[:, order], starts, axis=1)
            middle = np.cumsum(counts, axis=1) - (counts + total) / 2
            ranks.append(middle[:, place])
        a, b = ranks
        below = (each * a * a).sum(axis=1) * (each * b * b).sum(axis=1)
        with np.errstate(all="ignore"):
            return np.where(below > _SAME, (each * a * b).sum(axis=1) / np.sqrt(below), np.nan)


def _people(ratings: _Floats) -> _Floats:
    return cast("_Floats", np.nanmean(ratings[1:], axis=0)).round(12)


def _level(values: _Floats, scale: Scale) -> _Floats:
    """The nearest level, from 0, ties up."""
    return np.floor(values * (len(LEVELS[scale]) - 1) + 0.5 + _SAME)


def _same_and_near(judge: _Floats, people: _Floats, scale: Scale) -> tuple[_Floats, _Floats]:
    """1.0 where a pair is on one level, and where it is at most one apart."""
    same = (_level(judge, scale) == _level(people, scale)).astype(np.float64)
    if scale == "boolean":
        return same, same
    near = np.abs(judge - people) * (len(LEVELS[scale]) - 1) <= 1 + _SAME
    return same, near.astype(np.float64)


def _table(people: _Floats, judge: _Floats, scale: Scale) -> _Floats:
    """Counts of pairs: people's levels × the judge's."""
    each = np.eye(len(LEVELS[scale]))
    rows, columns = (each[_level(side, scale).astype(np.int64)] for side in (people, judge))
    return rows.T @ columns


def _kappas(tables: _Floats, apart: _Floats) -> _Floats:
    """Cohen's kappa by table: 1 - observed / expected disagreement."""
    expected = tables.sum(axis=2)[:, :, None] * tables.sum(axis=1)[:, None, :]
    total = tables.sum(axis=(1, 2))
    return 1 - total * (tables * apart).sum(axis=(1, 2)) / (expected * apart).sum(axis=(1, 2))


def _interval_parts(values: _Floats) -> _Floats:
    """Pairs × (observed disagreement, count, sum, sum of squares) over their raters."""
    there = ~np.isnan(values)
    held = np.where(there, values, 0.0)
    count, total, squares = there.sum(axis=0), held.sum(axis=0), (held**2).sum(axis=0)
    observed = 2 * (count * squares - total**2) / (count - 1)
    return np.column_stack([observed, count, total, squares])


def _interval_alpha(sums: _Floats) -> _Floats:
    """Krippendorff's alpha on an interval scale, by row of summed `_interval_parts`."""
    observed, count, total, squares = sums.T
    return 1 - observed * (count - 1) / (2 * (count * squares - total**2))


def _coincidences(values: _Floats, count: int) -> _Floats:
    """Pairs × flat coincidence tables of levels (Krippendorff 2004, 11.3)."""
    counts = np.stack([(values == level).sum(axis=0) for level in range(count)], axis=1) * 1.0
    tables = counts[:, :, None] * counts[:, None, :]
    tables -= counts[:, :, None] * np.eye(count)
    return (tables / (counts.sum(axis=1) - 1)[:, None, None]).reshape(len(counts), -1)


def _level_alpha(tables: _Floats) -> _Floats:
    """Krippendorff's ordinal alpha by coincidence table; of two levels it is the nominal one."""
    counts = tables.sum(axis=2)
    middle = np.cumsum(counts, axis=1) - counts / 2
    apart = (middle[:, :, None] - middle[:, None, :]) ** 2
    expected = (counts[:, :, None] * counts[:, None, :] * apart).sum(axis=(1, 2))
    return 1 - (counts.sum(axis=1) - 1) * (tables * apart).sum(axis=(1, 2)) / expected


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}" + ("" if count == 1 else "s")


def _shown(row: Mapping[str, Any], name: str) -> str:
    """A cell of the table as a person reads it, with its interval."""
    value = row[name]
    if value is None:
        return "–" if name != "note" else ""
    if not isinstance(value, float):
        return str(value)
    low, high = row.get(f"{name}_low"), row.get(f"{name}_high")
    return f"{value:z.2f}" + ("" if low is None else f" [{low:z.2f}, {high:z.2f}]")
