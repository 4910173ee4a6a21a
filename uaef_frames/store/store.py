"""A store: a folder of runs, read as one small database.

Takes runs with a manifest alone; what is being written, or broke off, is not seen.
"""

from __future__ import annotations

import os
import re
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import polars as pl

from uaef_frames import schemas
from uaef_frames.arrow import file_errors
from uaef_frames.errors import ConfigError, StoreError
from uaef_frames.files import write_whole
from uaef_frames.store.answers import select_only
from uaef_frames.store.escaping import is_text
from uaef_frames.store.manifest import MANIFEST, Manifest, is_run
from uaef_frames.store.places import Mirror, Remote, must_be_local, place, scan
from uaef_frames.store.run import Run
from uaef_frames.store.summary import interval
from uaef_frames.store.views import VIEWS, connect, files_of, needed, statements
from uaef_frames.store.writer import GONE, sweep

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import duckdb

_Found = TypeVar("_Found")

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,200}")
_LOOKS = 50
"""How often runs are looked at again when one of them was taken away meanwhile."""
ATTACH = "attach.sql"


class Store:
    """The runs in a folder.

    Examples:
        >>> from uaef_frames import open_store
        >>> open_store("no-runs-yet").runs().height
        0
    """

    def __init__(
        self, path: str | Path = "runs", storage_options: Mapping[str, str] | None = None
    ) -> None:
        self._folder = place(path, storage_options)
        self.path = self._folder if isinstance(self._folder, Remote) else Path(path)
        self._mirror: Mirror | None = None

    @property
    def run_ids(self) -> list[str]:
        """The runs that are whole, the oldest first.

        Raises:
            StoreError: The name of a run's folder is not UTF-8.
        """
        if isinstance(self._folder, Remote):
            return self._folder.folders_with(MANIFEST)
        if not self._folder.is_dir():
            return []
        found = sorted(p.parent.name for p in self._folder.glob(f"*/{MANIFEST}"))
        for name in found:
            if not is_text(name):
                raise StoreError(
                    f"the folder {name!r} in {self.path} has no name in UTF-8: rename it"
                )
        return [name for name in found if not name.startswith(".")]

    def runs(self) -> pl.DataFrame:
        """One row a run, the oldest first: the columns of its own `runs` table.

        Raises:
            StoreError: One of them cannot be read.
        """
        empty = pl.DataFrame(schema=schemas.columns(schemas.Runs))

        def read(names: list[str]) -> pl.DataFrame:
            files = [self._folder / name / "runs.parquet" for name in names]
            parts = pl.collect_all([scan(file) for file in files])
            held = pl.concat([empty, *parts], how="diagonal_relaxed")
            if held["run_id"].is_duplicated().any():
                self._by_id(names)  # says which
            return held

        return self._look(read).sort("created_at", "run_id")

    def run(self, name: str) -> Run:
        """A run by its id, or by as much of its beginning or end as only one has; `latest` for the
        newest.

        Raises:
            StoreError: There is none, or more than one.
        """
        return self._look(lambda names: Run(self._folder / self._named(name, names)))

    def named(self, name: str) -> str:
        """The folder of a run, by what `run` takes; it may hold a run that is broken.

        Raises:
            StoreError: There is none, or more than one.
        """
        return self._named(name, self.run_ids)

    def _named(self, name: str, names: list[str]) -> str:
        if name == "latest" and names:
            return names[-1]
        if name in names:
            return name
        if not is_text(name) or not _NAME.fullmatch(name):
            raise StoreError(
                f"{name!r} is no run id: letters, digits, dots, dashes and underscores"
            )
        fitting = [n for n in names if n.startswith(name) or n.endswith(name)]
        if len(fitting) != 1:
            held = ", ".join(fitting or names[-5:]) or "none"
            what = "no run" if not fitting else "more than one run"
            raise StoreError(f"{what} {name!r} in {self.path}; there is {held}")
        return fitting[0]

    def remove(self, name: str) -> str:
        """Remove a run; readers see it whole or not at all. Its id.

        Raises:
            StoreError: There is none, or the disk does not allow it.
        """
        must_be_local(self._folder)
        folder = Path(str(self._folder))
        run_id = self.named(name)
        try:
            (folder / run_id).rename(folder / f"{GONE}{run_id}.{os.getpid()}")
        except OSError as error:
            raise StoreError(f"run {run_id} cannot be removed: {error}") from error
        sweep(folder)
        return run_id

    def verify(self, name: str | None = None) -> dict[str, list[str]]:
        """What is not as it was written, by run; an empty list: all is well."""

        def check(names: list[str]) -> dict[str, list[str]]:
            chosen = names if name is None else [self._named(name, names)]
            found: dict[str, list[str]] = {}
            for folder in (self._folder / n for n in chosen):
                try:
                    problems = Manifest.read(folder).problems(folder)
                except StoreError:
                    if is_run(folder) or name is not None:
                        raise
                    continue
                if not problems or is_run(folder):  # what a removal took is no problem
                    found[folder.name] = problems
            return found

        return self._look(check)

    def history(self, metric: str) -> pl.DataFrame:
        """A metric, a dimension or "overall" over time: one row a run that has it, oldest first.

        run_id, name, created_at, mean over scored sessions, its 95 % interval (low, high; null for
        fewer than two), sessions_scored, sessions.

        Raises:
            ConfigError: No run has it.
            StoreError: A run cannot be read.
        """
        # Of a name that a dimension and a metric share, the first kind is meant, as elsewhere.
        query = """
            with every as (
                select 0 as kind, 'overall' as name, run_id, avg(overall_score) as mean,
                       stddev_samp(overall_score) as sd, count(overall_score) as sessions_scored,
                       count(*) as sessions
                from sessions group by run_id
                union all
                select 1, dimension, run_id, avg(score), stddev_samp(score), count(score), count(*)
                from dimensions group by dimension, run_id
                union all
                select 2, metric, run_id, mean, sd, sessions_scored, sessions from metrics
            ), named as (select * from every where name = $name)
            select * exclude (kind, name) from named where kind = (select min(kind) from named)
        """
        found = self._ask(query, {"sessions", "dimensions", "metrics"}, {"name": metric})
        if found.is_empty():
            raise ConfigError(f"no run in {self.path} has {metric!r}")
        low, high = interval(pl.col("mean"), pl.col("sd"), pl.col("sessions_scored"))
        return (
            self.runs()
            .select("run_id", "name", "created_at")
            .join(found, on="run_id", how="inner", maintain_order="left")
            .with_columns(low=low.clip(0, 1), high=high.clip(0, 1))
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
        if not is_text(query):
            raise StoreError(f"a query is text that UTF-8 can hold, not {query!r}")
        # To open every table of every run takes longer than most answers: those named will do.
        return self._ask(query, needed(query))

    def connect(self) -> duckdb.DuckDBPyConnection:
        """A DuckDB connection with the store's views; it sees the runs that are whole now.

        Raises:
            StoreError: DuckDB cannot read them.
        """
        return self._look(lambda names: self._connected(names, {*schemas.RUN_TABLES, *VIEWS}))

    def _ask(
        self, query: str, wanted: set[str], params: dict[str, str] | None = None
    ) -> pl.DataFrame:
        def answer(names: list[str]) -> pl.DataFrame:
            connection = self._connected(names, wanted)
            try:
                return select_only(connection, query, params)
            finally:
                connection.close()

        return self._look(answer)

    def _connected(self, names: list[str], wanted: set[str]) -> duckdb.DuckDBPyConnection:
        connection = connect(self._folders(names, wanted), wanted)
        if not self._are_there(names):  # a table that had gone was taken for one never written
            connection.close()
            raise StoreError(f"a run in {self.path} was removed")
        return connection

    def _folders(self, names: list[str], wanted: set[str]) -> dict[str, Path]:
        found: dict[str, Path] = {}
        for run_id, (name, manifest) in self._by_id(names).items():
            folder = self._folder / name
            if isinstance(folder, Remote):
                if self._mirror is None:
                    self._mirror = Mirror()
                folder = self._mirror.of(folder, files_of(wanted, manifest.tables))
            found[run_id] = folder
        return found

    def _by_id(self, names: list[str]) -> dict[str, tuple[str, Manifest]]:
        """The runs by the ids that their rows carry: a folder may have been renamed.

        Raises:
            StoreError: Two folders hold one run, which would be counted twice.
        """
        found: dict[str, tuple[str, Manifest]] = {}
        for name in names:
            manifest = Manifest.read(self._folder / name)
            if manifest.run_id in found:
                raise StoreError(
                    f"{found[manifest.run_id][0]} and {name} in {self.path} are the same run "
                    f"({manifest.run_id}), copied: move one out of the store, or remove it"
                )
            found[manifest.run_id] = name, manifest
        return found

    def _are_there(self, names: list[str]) -> bool:
        if isinstance(self._folder, Remote):
            return set(names) <= set(self.run_ids)
        return all(is_run(self._folder / name) for name in names)

    def _look(self, read: Callable[[list[str]], _Found]) -> _Found:
        """What `read` makes of the runs; anew when it failed and one was taken away meanwhile.

        Raises:
            StoreError: It failed though all are there, or too often.
        """
        for _ in range(_LOOKS):
            names = self.run_ids
            try:
                return read(names)
            except (StoreError, *file_errors()) as error:
                if self._are_there(names):
                    if isinstance(error, StoreError):
                        raise
                    raise StoreError(f"runs in {self.path} cannot be read: {error}") from error
        raise StoreError(f"runs in {self.path} are removed faster than they can be read; ask again")

    def write_attach(self) -> Path:
        """Write `attach.sql`: `duckdb -init runs/attach.sql` opens the store in DuckDB's own
        shell.

        Raises:
            StoreError: A run cannot be read, or the disk does not take the file.
        """
        must_be_local(self._folder)
        target = Path(str(self._folder)) / ATTACH

        def views(names: list[str]) -> list[str]:
            everything = {*schemas.RUN_TABLES, *VIEWS}
            made = statements(self._folders(names, everything), everything)
            if not self._are_there(names):
                raise StoreError(f"a run in {self.path} was removed")
            return made

        text = "-- The runs of this folder as views; write it anew after new runs.\n" + "".join(
            f"{statement};\n" for statement in self._look(views)
        )
        write_whole(target, text.encode())
        return target

    def __repr__(self) -> str:
        return f"Store({self.path}: {len(self.run_ids)} runs)"

    def _repr_html_(self) -> str:
        shown = self.runs().select(
            "run_id", "created_at", "num_sessions", "num_turns", "mean_overall", "pass_rate"
        )
        return f"<p>{escape(repr(self))}</p>{shown._repr_html_()}"  # pyright: ignore[reportPrivateUsage]


def open_store(
    path: str | Path = "runs", storage_options: Mapping[str, str] | None = None
) -> Store:
    """The store in a folder; one that is not there yet holds no run.

    Args:
        path: The folder, or its address in an object store (s3://, gs://, az://, abfss://), which
            is only read: tables by polars' own reader, SQL over copies of the files that a query
            needs.
        storage_options: For an address: what polars' scan_parquet takes, such as
            `aws_access_key_id`, `aws_region`, `aws_endpoint_url`; None: the environment's.

    Raises:
        ConfigError: The address is of no object store that can be read.
        StoreError: The object store cannot be spoken to.
    """
    return Store(path, storage_options)
