"""A store: a folder of runs, read as one small database.

Takes runs with a manifest alone; what is being written, or broke off, is not seen.
"""

from __future__ import annotations

import os
import re
import shutil
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from uaef_frames import schemas
from uaef_frames.errors import ConfigError, StoreError
from uaef_frames.store.manifest import MANIFEST, Manifest
from uaef_frames.store.run import Run, select_only
from uaef_frames.store.summary import interval
from uaef_frames.store.views import VIEWS, connect, needed, statements

if TYPE_CHECKING:
    import duckdb

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,200}")
_GONE = ".gone-"
ATTACH = "attach.sql"


class Store:
    """The runs in a folder.

    Examples:
        >>> from uaef_frames import open_store
        >>> open_store("no-runs-yet").runs().height
        0
    """

    def __init__(self, path: str | Path = "runs") -> None:
        self.path = Path(path)
        self._folder = self.path.resolve()

    @property
    def run_ids(self) -> list[str]:
        """The runs that are whole, the oldest first."""
        if not self._folder.is_dir():
            return []
        return sorted(
            p.parent.name
            for p in self._folder.glob(f"*/{MANIFEST}")
            if not p.parent.name.startswith(".")
        )

    def runs(self) -> pl.DataFrame:
        """One row a run, the oldest first: the columns of its own `runs` table."""
        names = self.run_ids
        empty = pl.DataFrame(schema=schemas.columns(schemas.Runs))
        parts = [pl.read_parquet(self._folder / n / "runs.parquet", glob=False) for n in names]
        joined = pl.concat([empty, *parts], how="diagonal_relaxed")
        return joined.sort("created_at", "run_id")

    def run(self, name: str) -> Run:
        """A run by its id, or by as much of its beginning or end as only one has; `latest` for the
        newest.

        Raises:
            StoreError: There is none, or more than one.
        """
        names = self.run_ids
        if name == "latest" and names:
            return Run(self._folder / names[-1])
        if name in names:
            return Run(self._folder / name)
        if not _NAME.fullmatch(name):
            raise StoreError(
                f"{name!r} is no run id: letters, digits, dots, dashes and underscores"
            )
        fitting = [n for n in names if n.startswith(name) or n.endswith(name)]
        if len(fitting) != 1:
            held = ", ".join(fitting or names[-5:]) or "none"
            what = "no run" if not fitting else "more than one run"
            raise StoreError(f"{what} {name!r} in {self.path}; there is {held}")
        return Run(self._folder / fitting[0])

    def remove(self, name: str) -> str:
        """Remove a run; readers see it whole or not at all. Its id.

        Raises:
            StoreError: There is none, or the disk does not allow it.
        """
        run = self.run(name)
        gone = self._folder / f"{_GONE}{run.run_id}.{os.getpid()}"
        try:
            (self._folder / run.run_id).rename(gone)
            shutil.rmtree(gone)
        except OSError as error:
            raise StoreError(f"run {run.run_id} cannot be removed: {error}") from error
        return run.run_id

    def verify(self, name: str | None = None) -> dict[str, list[str]]:
        """What is not as it was written, by run; an empty list: all is well."""
        names = self.run_ids if name is None else [self.run(name).run_id]
        return {n: Manifest.read(self._folder / n).problems(self._folder / n) for n in names}

    def history(self, metric: str) -> pl.DataFrame:
        """A metric, a dimension or "overall" over time: one row a run that has it, oldest first.

        run_id, name, created_at, mean over scored sessions, its 95 % interval (low, high; null for
        fewer than two), sessions_scored, sessions.

        Raises:
            ConfigError: No run has it.
        """
        if metric == "overall":
            source = "select run_id, overall_score as score from sessions"
        else:
            source = "select run_id, score from dimensions where dimension = $name"
        query = f"""
            select run_id, avg(score) as mean, stddev_samp(score) as sd,
                   count(score) as sessions_scored, count(*) as sessions
            from ({source}) group by run_id
            union all
            select run_id, mean, sd, sessions_scored, sessions from metrics where metric = $name
        """
        connection = connect(self._folders(), {"sessions", "dimensions", "metrics"})
        try:
            found = connection.sql(query, params={"name": metric}).pl()
        finally:
            connection.close()
        if found.is_empty():
            raise ConfigError(f"no run in {self.path} has {metric!r}")
        low, high = interval(pl.col("mean"), pl.col("sd"), pl.col("sessions_scored"))
        return (
            self.runs()
            .select("run_id", "name", "created_at")
            .join(found, on="run_id", how="inner", maintain_order="left")
            .with_columns(low=low, high=high)
            .select(
                "run_id", "name", "created_at", "mean", "low", "high", "sessions_scored", "sessions"
            )
        )

    def sql(self, query: str) -> pl.DataFrame:
        """Ask DuckDB: one SELECT over the tables of all runs.

        Every table has a `run_id`; tables of older runs with fewer columns are read with nulls.
        Ready views: turn_scores, session_scores, metric_summary, worst_turns, session_timeline,
        judge_spend, tool_confusion. Nothing can be written, and no file outside the runs can be
        read.

        Raises:
            StoreError: It is not one SELECT, or DuckDB cannot answer it.
        """
        # To open every table of every run takes longer than most answers: those named will do.
        connection = connect(self._folders(), needed(query))
        try:
            return select_only(connection, query)
        finally:
            connection.close()

    def connect(self) -> duckdb.DuckDBPyConnection:
        """A DuckDB connection with the store's views; it sees the runs that are whole now."""
        return connect(self._folders(), {*schemas.RUN_TABLES, *VIEWS})

    def _folders(self) -> dict[str, Path]:
        """The runs by the ids that their rows carry: a folder may have been renamed."""
        folders = [self._folder / name for name in self.run_ids]
        return {Manifest.read(folder).run_id: folder for folder in folders}

    def write_attach(self) -> Path:
        """Write `attach.sql`: `duckdb -init runs/attach.sql` opens the store in DuckDB's own
        shell.
        """
        target = self._folder / ATTACH
        text = "-- The runs of this folder as views; write it anew after new runs.\n" + "".join(
            f"{s};\n" for s in statements(self._folders(), {*schemas.RUN_TABLES, *VIEWS})
        )
        draft = target.with_name(f".{ATTACH}.{os.getpid()}")
        draft.write_text(text, "utf-8")
        draft.replace(target)
        return target

    def __repr__(self) -> str:
        return f"Store({self.path}: {len(self.run_ids)} runs)"

    def _repr_html_(self) -> str:
        shown = self.runs().select(
            "run_id", "created_at", "num_sessions", "num_turns", "mean_overall", "pass_rate"
        )
        return f"<p>{escape(repr(self))}</p>{shown._repr_html_()}"  # pyright: ignore[reportPrivateUsage]


def open_store(path: str | Path = "runs") -> Store:
    """The store in a folder; one that is not there yet holds no run."""
    return Store(path)
