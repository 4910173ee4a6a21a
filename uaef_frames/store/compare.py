"""Comparison of two runs over the sessions that both have, with honest uncertainty.

Turns of a session are not independent, so the session is the unit: each gives one value a metric
(the mean of its turns), paired with the same session's value in the other run; or each turn is
paired with its like, and standard errors are clustered by session (Miller 2024, "Adding Error Bars
to Evals").
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import polars as pl

from uaef_frames.errors import ConfigError, StoreError, near
from uaef_frames.look.tables import whole
from uaef_frames.store.escaping import markdown
from uaef_frames.store.paired import FEWEST_RESAMPLED, TIE, holm, mean_is_zero, resampled
from uaef_frames.store.pairs import Unit, by_session, names, pairs
from uaef_frames.store.run import Run, open_run

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import altair

_RESAMPLES = 100
_NAMED = 5
"""Sessions of one run alone that a note names."""
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
    "se": pl.Float64,
    "effect_size": pl.Float64,
    "n": pl.Int64,
    "sessions": pl.Int64,
    "wins": pl.Int64,
    "ties": pl.Int64,
    "losses": pl.Int64,
    "only_a": pl.Int64,
    "only_b": pl.Int64,
    "unlike": pl.Int64,
    "note": pl.String,
}
_READABLE: Mapping[str, Any] = dict.fromkeys(
    ("name", "A", "B", "B - A", "95 %", "p (Holm)", "effect", "n", "won / tied / lost", "note"),
    pl.String,
)


@dataclass(frozen=True)
class Comparison:
    """Run B against run A.

    Attributes:
        table: One row for `overall`, each dimension and each metric. Means, `difference` (B - A),
            its 95 % interval (`low`, `high`) and `p` are over the `n` pairs of `sessions` sessions
            that have the score in both runs: a pair is a session (paired t test) or, with
            `unit="turn"`, a turn (standard errors clustered by session, t with sessions - 1
            degrees of freedom). `p_holm` is corrected over the rows of one kind, `se` the standard
            error of the difference, `effect_size` the difference / the standard deviation of the
            pairs' differences. `wins`: pairs where B is higher.
            `only_a`, `only_b`: pairs scored in one run alone: a change of coverage, not of score.
            Means are of what both runs could score: a turn that one of them has without a score, a
            metric or a dimension that one could not score, is left out of both; `unlike` counts the
            pairs in which that was so. They may differ from the runs' own means.
            Where nothing can be said (n < 2, no variation) figures are null and `note` says why.
        unit: What a pair is.
        sessions: One row a session and metric of both: score_a, score_b, difference.
        in_both: How many sessions both runs have.
        only_in_a: Sessions that run B lacks; `only_in_b` the other way round.
        notes: What else differs between the runs: judge, rubrics, package.
    """

    run_a: str
    run_b: str
    unit: Unit
    table: pl.DataFrame
    sessions: pl.DataFrame
    in_both: int
    only_in_a: list[str]
    only_in_b: list[str]
    notes: list[str]

    def changed_most(self, limit: int = 10, metric: str | None = None) -> pl.DataFrame:
        """The sessions whose scores changed most, of one metric or of all.

        Raises:
            ConfigError: The metric is not compared, or the limit is no number of rows.
        """
        how_many: Any = limit
        if not isinstance(how_many, int) or limit < 0:
            raise ConfigError(f"limit is a number of rows, not {limit!r}")
        some = self.sessions.filter(pl.col("difference").abs() > TIE)
        if metric is not None:
            held = self.table.filter(kind="metric")["name"].to_list()
            if metric not in held:
                raise ConfigError(f"{metric!r} is not compared; {near(metric, held)}")
            some = some.filter(pl.col("metric") == metric)
        size = pl.col("difference").abs()
        return some.sort([size, "session_id", "metric"], descending=[True, False, False]).head(
            limit
        )

    def plot_compare(self) -> altair.TopLevelMixin:
        """What changed: differences with their 95 % intervals, as an altair chart.

        Raises:
            ConfigError: altair is not installed.
        """
        from uaef_frames.look.plots import plot_compare

        return plot_compare(self.table, self.run_a, self.run_b)

    @property
    def remarks(self) -> list[str]:
        """What to know beside the figures: `notes`, and the sessions that only one run has."""
        alone = [
            f"{len(ids)} {'session is' if len(ids) == 1 else 'sessions are'} only in {run}: "
            + ", ".join([*ids[:_NAMED], *(["…"] if len(ids) > _NAMED else [])])
            for ids, run in ((self.only_in_a, self.run_a), (self.only_in_b, self.run_b))
            if ids
        ]
        return [*self.notes, *alone]

    def to_dict(self) -> dict[str, Any]:
        """Everything but the scores of single sessions, for machines."""
        return {
            "run_a": self.run_a,
            "run_b": self.run_b,
            "unit": self.unit,
            "table": self.table.to_dicts(),
            "in_both": self.in_both,
            "only_in_a": self.only_in_a,
            "only_in_b": self.only_in_b,
            "notes": self.notes,
        }

    def readable(self) -> pl.DataFrame:
        """The table as text, for people: the figures that are asked for first."""
        return pl.DataFrame([_read(row) for row in self.table.to_dicts()], schema=dict(_READABLE))

    def to_markdown(self) -> str:
        """The readable table with its remarks, for a pull request."""
        shown = self.readable()
        head = ["" if name in ("name", "note") else name for name in shown.columns]
        lines = [head, ["---"] * len(head), *([markdown(c) for c in row] for row in shown.rows())]
        title = f"A: {markdown(self.run_a)}, B: {markdown(self.run_b)}\n\n"
        table = "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"
        remarks = "".join(f"- {markdown(line)}\n" for line in self.remarks)
        return title + table + (f"\n{remarks}" if remarks else "")

    def __repr__(self) -> str:
        first = self.table.row(0, named=True)
        change = _shown(first["difference"], "+.3f")
        return (
            f"Comparison({self.run_a} → {self.run_b}: overall {change}, "
            f"p {_chance(first['p'])}, {first['n']} sessions in both)"
        )

    def _repr_html_(self) -> str:
        remarks = "".join(f"<p>{escape(line)}</p>" for line in self.remarks)
        return f"<p>{escape(repr(self))}</p>{whole(self.readable())}{remarks}"


def compare(
    run_a: Run | str | Path,
    run_b: Run | str | Path,
    *,
    unit: Unit = "session",
    bootstrap: int = 0,
    seed: int = 0,
) -> Comparison:
    """Hold run B against run A, session by session.

    Args:
        run_a: The run to start from: a Run or its folder.
        run_b: The other one.
        unit: What is paired: "session" (each counts once), or "turn" (each turn of a metric counts
            once; overall and dimensions stay with the session).
        bootstrap: Resamples of sessions for the intervals, percentile method; 0: the interval of
            the t test, as for fewer than 30 sessions, of which percentiles are too narrow. p values
            are those of the t test either way.
        seed: Of the resamples.

    Raises:
        ConfigError: An argument is none of these.
        StoreError: A run cannot be opened, or they have no session in common.
    """
    if unit not in ("session", "turn"):
        raise ConfigError(f'unit is "session" or "turn", not {unit!r}')
    resamples: Any = bootstrap
    is_count = isinstance(resamples, int) and not isinstance(resamples, bool)
    if not is_count or (bootstrap != 0 and bootstrap < _RESAMPLES):
        raise ConfigError(f"bootstrap is 0 or at least {_RESAMPLES} resamples, not {bootstrap!r}")
    if not isinstance(resamples_seed := cast("Any", seed), int) or resamples_seed < 0:
        raise ConfigError(f"seed is a whole number from 0 on, not {seed!r}")
    a, b = (r if isinstance(r, Run) else open_run(r) for r in (run_a, run_b))
    ids_a, ids_b = (set(r.collect(r.sessions.select("session_id"))["session_id"]) for r in (a, b))
    if not ids_a & ids_b:
        raise StoreError(f"{a.run_id} and {b.run_id} have no session in common")
    found = pairs(a, b, unit)
    parts = found.partition_by("kind", "name", as_dict=True)
    rows = [
        _row(kind, name, parts[kind, name], bootstrap, seed) for kind, name in names(a, b, found)
    ]
    table = pl.DataFrame(_corrected(rows), schema=dict(COMPARISON_COLUMNS))
    notes = _notes(a, b)
    if bootstrap:
        notes.append(f"intervals by bootstrap over sessions, {bootstrap:,} resamples")
    return Comparison(
        run_a=a.run_id,
        run_b=b.run_id,
        unit=unit,
        table=table,
        sessions=by_session(found),
        in_both=len(ids_a & ids_b),
        only_in_a=sorted(ids_a - ids_b),
        only_in_b=sorted(ids_b - ids_a),
        notes=notes,
    )


def _row(kind: str, name: str, every: pl.DataFrame, resamples: int, seed: int) -> dict[str, Any]:
    both = every.drop_nulls(["a", "b"])
    a, b = both["a"].to_numpy(), both["b"].to_numpy()
    row: dict[str, Any] = dict.fromkeys(COMPARISON_COLUMNS)
    row |= {
        "kind": kind,
        "name": name,
        "n": both.height,
        "sessions": both["session_id"].n_unique(),
        "only_a": every["scored_a"].sum() - both.height,
        "only_b": every["scored_b"].sum() - both.height,
        "unlike": both["unlike"].sum(),
    }
    if not both.height:
        row["note"] = "scored in no session of both runs"
        return row
    apart = b - a
    row |= {
        "mean_a": float(a.mean()),
        "mean_b": float(b.mean()),
        "difference": float(apart.mean()),
        "wins": int((apart > TIE).sum()),
        "ties": int((np.abs(apart) <= TIE).sum()),
        "losses": int((apart < -TIE).sum()),
    }
    sessions = both["session_id"].rle_id().to_numpy()
    row |= mean_is_zero(apart, sessions)
    if resamples and row["low"] is not None:
        if row["sessions"] < FEWEST_RESAMPLED:
            few = (
                f"fewer than {FEWEST_RESAMPLED} sessions: no bootstrap, the interval of the t test"
            )
            row["note"] = "; ".join(n for n in (row["note"], few) if n)
        else:
            row["low"], row["high"] = resampled(apart, sessions, resamples, seed)
    return row


def _corrected(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Holm's correction over the rows of each kind."""
    for kind in ("overall", "dimension", "metric"):
        mine = [r for r in rows if r["kind"] == kind and r["p"] is not None]
        for row, p in zip(mine, holm([r["p"] for r in mine]), strict=True):
            row["p_holm"] = p
    return rows


def _notes(a: Run, b: Run) -> list[str]:
    """What else differs: a change of judge is no change of agent."""
    one, two = (_config(r) for r in (a, b))
    found: list[str] = []
    for key, words in (
        ("judge", "they were judged by different judges"),
        ("judges", "single metrics were judged by different judges"),
        ("dimension_weights", "dimension weights differ"),
    ):
        if one.get(key) != two.get(key):
            found.append(words)
    metrics = [list(r.info["metrics"] or ()) for r in (a, b)]
    for run, mine, others in ((a, *metrics), (b, *reversed(metrics))):
        alone = [m for m in mine if m not in others]
        if alone:
            found.append(f"only {run.run_id} has the metrics {', '.join(alone)}: left out")
    for key in ("constants", "rubrics"):
        mine, others = (cast("dict[str, Any]", held.get(key) or {}) for held in (one, two))
        changed = sorted(m for m in set(mine) & set(others) if mine[m] != others[m])
        if changed:
            found.append(f"{key} differ: {', '.join(changed)}")
    if a.info["version"] != b.info["version"]:
        found.append(f"package versions differ: {a.info['version']}, {b.info['version']}")
    return found


def _config(run: Run) -> dict[str, Any]:
    try:
        held: Any = json.loads(run.info["config"] or "{}")
    except ValueError:
        held = None
    if not isinstance(held, dict):
        raise StoreError(f"run {run.run_id} is broken: its configuration is no JSON object")
    return cast("dict[str, Any]", held)


def _shown(value: float | None, form: str) -> str:
    # Adding 0 takes the sign from what is rounded to -0.
    return "–" if value is None else format(round(value, 3) + 0.0, form)


def _chance(p: float | None) -> str:
    return "<0.001" if p is not None and p < 0.001 else _shown(p, ".3f")


def _read(row: Mapping[str, Any]) -> dict[str, str]:
    interval = "–" if row["low"] is None else f"{row['low']:+.3f} to {row['high']:+.3f}"
    said = [] if row["note"] is None else [row["note"]]
    for run, count in (("A", row["only_a"]), ("B", row["only_b"])):
        if count:
            said.append(f"{count} more scored in {run} alone")
    if row["unlike"]:
        said.append(f"in {row['unlike']}, scores of one run alone are left out")
    counts = [str(row[c]) for c in ("wins", "ties", "losses") if row["n"]]
    cells = [
        row["name"],
        *(_shown(row[c], ".3f") for c in ("mean_a", "mean_b")),
        _shown(row["difference"], "+.3f"),
        interval,
        _chance(row["p_holm"]),
        _shown(row["effect_size"], "+.2f"),
        str(row["n"]),
        " / ".join(counts) or "–",
        "; ".join(said),
    ]
    return dict(zip(_READABLE, cells, strict=True))
