"""A run on disk: its tables as lazy frames, its summary, and SQL over it.

Reads what `RunWriter` wrote; computes no score.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from html import escape
from os import SEEK_END
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import polars as pl

from uaef_frames import schemas
from uaef_frames.arrow import is_file_error
from uaef_frames.errors import ConfigError, StoreError, near
from uaef_frames.store.answers import select_only
from uaef_frames.store.escaping import is_text
from uaef_frames.store.manifest import Manifest, is_run
from uaef_frames.store.places import Mirror, Remote, place, scan
from uaef_frames.store.summary import interval, steady_mean, steady_sd, summarise
from uaef_frames.store.views import VIEWS, connect, files_of, needed

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    import altair
    import duckdb
    import great_tables

    from uaef_frames.look.conversation import SessionView
    from uaef_frames.store.joining import JoinReport
    from uaef_frames.store.places import Place

_MAGIC = b"PAR1"
"""How Parquet files end."""


class Run:
    """One evaluated dataset.

    `turns`, `messages`, `tool_calls`, `handoffs`, `scores`, `dimensions`, `sessions`, `metrics`,
    `expected`, `expected_tool_calls`, `runs` and `rejects` are polars LazyFrames over its Parquet
    files (columns: FORMAT.md, `uaef_frames.schemas`). What a run of an earlier version did not hold
    yet is empty, or null.
    """

    def __init__(
        self, path: str | Path | Remote, storage_options: Mapping[str, str] | None = None
    ) -> None:
        self._folder = place(path, storage_options)
        self.path = self._folder if isinstance(self._folder, Remote) else Path(str(path))
        self._mirror: Mirror | None = None
        self.manifest = Manifest.read(self._folder)
        missing = self._broken()
        if missing:
            raise StoreError(
                f"{self.path} is not a run: it holds no whole {missing[0]}.parquet; "
                "give the folder of one run, such as runs/20261201-101500-demo-1a2b3c"
            )
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._connecting = Lock()

    @property
    def run_id(self) -> str:
        """The run's name on disk."""
        return self.path.name

    @property
    def turns(self) -> pl.LazyFrame:
        """One row a turn."""
        return self._scan("turns")

    @property
    def messages(self) -> pl.LazyFrame:
        """One row a message."""
        return self._scan("messages")

    @property
    def tool_calls(self) -> pl.LazyFrame:
        """One row a tool call."""
        return self._scan("tool_calls")

    @property
    def handoffs(self) -> pl.LazyFrame:
        """One row a handoff."""
        return self._scan("handoffs")

    @property
    def scores(self) -> pl.LazyFrame:
        """One row a measurement."""
        return self._scan("scores")

    @property
    def dimensions(self) -> pl.LazyFrame:
        """One row a session and dimension."""
        return self._scan("dimensions")

    @property
    def sessions(self) -> pl.LazyFrame:
        """One row a session."""
        return self._scan("sessions")

    @property
    def metrics(self) -> pl.LazyFrame:
        """One row a metric."""
        if "metrics" in self.manifest.tables:
            return self._scan("metrics")
        return summarise(self.scores, self.run_id).lazy()

    @property
    def expected(self) -> pl.LazyFrame:
        """One row a turn or conversation of which something was expected."""
        return self._scan("expected")

    @property
    def expected_tool_calls(self) -> pl.LazyFrame:
        """One row an expected call."""
        return self._scan("expected_tool_calls")

    @property
    def runs(self) -> pl.LazyFrame:
        """One row: this run."""
        return self._scan("runs")

    @property
    def rejects(self) -> pl.LazyFrame:
        """One row a record that could not be used."""
        return self._scan("rejects")

    @property
    def info(self) -> dict[str, Any]:
        """The run's own row, as a dict.

        Raises:
            StoreError: It is not there.
        """
        rows = self.collect(self.runs).rows(named=True)
        if not rows:
            raise StoreError(f"run {self.run_id} is broken: its table `runs` is empty")
        return rows[0]

    @property
    def join_report(self) -> JoinReport | None:
        """How payloads and ground truth met; None: there was no ground truth."""
        from uaef_frames.store.joining import JoinReport

        held = self.info.get("join_report")
        return None if held is None else JoinReport.from_json(held)

    def summary(self) -> pl.DataFrame:
        """One row a metric: dimension, metric, mean, low, high, lowest, scored, measured,
        threshold, passed, why_null.

        `mean` is over sessions (each counts once: the mean of its turns) with its 95 % interval,
        `low` to `high` (Student's t; null for fewer than two sessions); `lowest` is the lowest
        session. `scored` of `measured` turns (sessions, for session metrics) have a score.
        `threshold` is that of its dimension (null: none), `passed` whether the mean reaches it
        (null: no mean or no threshold). `why_null` is the most frequent reason of rows without a
        score.
        """
        asked = {name: place for place, name in enumerate(self.info["metrics"] or ())}
        low, high = interval(pl.col("mean"), pl.col("sd"), pl.col("sessions_scored"))
        thresholds = self.dimensions.group_by("dimension").agg(pl.col("threshold").first())
        return self.collect(
            self.metrics.join(thresholds, on="dimension", how="left")
            .with_columns(place=pl.col("metric").replace_strict(asked, default=len(asked)))
            .sort("place", "metric")
            .select(
                "dimension",
                "metric",
                "mean",
                low.clip(0, 1).alias("low"),
                high.clip(0, 1).alias("high"),
                "lowest",
                "scored",
                "measured",
                "threshold",
                (pl.col("mean") >= pl.col("threshold") - schemas.ROUNDING).alias("passed"),
                "why_null",
            )
        )

    def dimension_summary(self) -> pl.DataFrame:
        """One row a dimension: dimension, mean, low, high, threshold, sessions_scored, sessions,
        pass_rate.

        `mean` is over scored sessions, `low` to `high` its 95 % interval (Student's t; null for
        fewer than two); `pass_rate` the share of scored sessions that reach the threshold.
        """
        low, high = interval(pl.col("mean"), pl.col("sd"), pl.col("sessions_scored"))
        order = dict.fromkeys(self.summary()["dimension"])
        places = {name: place for place, name in enumerate(order)}
        return self.collect(
            self.dimensions.group_by("dimension")
            .agg(
                mean=steady_mean("score"),
                sd=steady_sd("score"),
                threshold=pl.col("threshold").first(),
                sessions_scored=pl.col("score").count(),
                sessions=pl.len(),
                pass_rate=pl.col("passed").mean(),
            )
            .with_columns(place=pl.col("dimension").replace_strict(places, default=len(places)))
            .sort("place", "dimension")
            .select(
                "dimension",
                "mean",
                low.clip(0, 1).alias("low"),
                high.clip(0, 1).alias("high"),
                "threshold",
                "sessions_scored",
                "sessions",
                "pass_rate",
            )
        )

    def summary_table(self) -> great_tables.GT:
        """`summary()` as a table for notebooks, reports and pages.

        Raises:
            ConfigError: great_tables is not installed.
        """
        from uaef_frames.look.tables import summary_table

        return summary_table(self.summary(), self.run_id, self._in_short())

    def plot_dimensions(self) -> altair.TopLevelMixin:
        """Dimensions with their intervals and thresholds, as an altair chart.

        Every plot shows itself in notebooks; `.save("x.svg")`, `.png` or `.html` keeps it.

        Raises:
            ConfigError: altair is not installed; so for every plot.
        """
        from uaef_frames.look.plots import plot_dimensions

        return plot_dimensions(self.dimension_summary(), self.run_id)

    def plot_scores(self, metric: str) -> altair.TopLevelMixin:
        """How the scores of a metric are spread: by turn number, or over sessions.

        Raises:
            ConfigError: The run does not have the metric.
        """
        from uaef_frames.look.plots import plot_scores

        held = self.collect(self.metrics.select("metric"))["metric"].to_list()
        if metric not in held:
            raise ConfigError(f"{self.run_id} has no metric {metric!r}; {near(metric, held)}")
        with self._reading():
            return plot_scores(self.scores, self.turns, metric)

    def plot_timeline(self, session_id: str) -> altair.TopLevelMixin:
        """One conversation: each metric at each turn, and how long the turns took.

        Raises:
            ConfigError: The run does not have the session.
        """
        from uaef_frames.look.plots import plot_timeline

        self._must_have(session_id)
        turns, scores = (
            self.collect(t.filter(session_id=session_id)) for t in (self.turns, self.scores)
        )
        return plot_timeline(turns.sort("turn_index"), scores, session_id)

    def plot_latency_quality(self) -> altair.TopLevelMixin:
        """How good turns are against how long they took."""
        from uaef_frames.look.plots import plot_latency_quality

        with self._reading():
            return plot_latency_quality(self.turns, self.scores)

    def session(self, session_id: str) -> SessionView:
        """One conversation as a person reads it: what was said, called and scored, turn by turn.

        It shows itself in notebooks and, printed, at a terminal; `.save("x.html")` keeps a page.

        Raises:
            ConfigError: The run does not have the session.
        """
        from uaef_frames.look.conversation import SESSION_TABLES, SessionView

        self._must_have(session_id)
        return SessionView(
            session_id,
            self.collect(self.sessions.filter(session_id=session_id)).row(0, named=True),
            {
                name: self.collect(self._scan(name).filter(session_id=session_id))
                for name in SESSION_TABLES
            },
        )

    def worst_turns(self, limit: int = 10) -> pl.DataFrame:
        """The lowest scored turns: session, turn, metric, score, reasoning, query.

        Raises:
            ConfigError: The limit is no number of rows.
        """
        how_many: Any = limit
        if not isinstance(how_many, int) or limit < 0:
            raise ConfigError(f"limit is a number of rows, not {limit!r}")
        return self.sql(
            "select session_id, turn_id, metric, score, reasoning, query from turn_scores "
            "where score is not null order by score, session_id, turn_id, metric "
            f"limit {limit}"
        )

    def sql(self, query: str) -> pl.DataFrame:
        """Ask DuckDB: one SELECT over the run's tables.

        The tables are views by their names, and the ready views of a store are there too (see
        `Store.sql`). Nothing can be written, and no other file can be read.

        Raises:
            StoreError: It is not one SELECT, or DuckDB cannot answer it.
        """
        with self._reading():
            if not isinstance(self._folder, Remote):
                # A cursor of its own: threads may share a run.
                return select_only(self._connect(self._folder).cursor(), query)
            connection = self._connect_remote(self._folder, needed(query))
            try:
                return select_only(connection, query)
            finally:
                connection.close()

    def __repr__(self) -> str:
        return f"Run({self.run_id}: {self._in_short()})"

    def _in_short(self) -> str:
        info = self.info
        overall, rate = info["mean_overall"], info["pass_rate"]
        scored = "nothing scored" if overall is None else f"overall {overall:.3f}"
        if overall is not None and rate is not None:
            scored += f", {rate:.0%} passed"
        return (
            f"{info['num_sessions']} sessions, {info['num_turns']} turns, "
            f"{scored}, {info['num_rejects']} rejects"
        )

    def _repr_html_(self) -> str:
        try:
            return self.summary_table().as_raw_html()
        except ConfigError:  # a plain table does where the better one is not installed
            shown = self.summary()._repr_html_()  # pyright: ignore[reportPrivateUsage]
            return f"<p>{escape(repr(self))}</p>{shown}"

    def _must_have(self, session_id: str) -> None:
        held = self.collect(self.sessions.select("session_id"))["session_id"]
        if not is_text(session_id) or session_id not in held:
            meant = near(session_id, held.to_list())
            raise ConfigError(f"{self.run_id} has no session {session_id!r}; {meant}")

    def _broken(self) -> list[str]:
        """Tables whose files are not there as the manifest says, as far as that is cheap to see."""
        tables = self.manifest.tables
        if not isinstance(self._folder, Remote):
            return [t for t in tables if not _is_whole(self._folder / f"{t}.parquet")]
        try:
            sizes = self._folder.sizes(f"{t}.parquet" for t in tables)
        except OSError as error:
            raise StoreError(f"run {self.path} cannot be read: {error}") from None
        return [t for t, size in zip(tables, sizes, strict=True) if size != tables[t].bytes]

    def _file(self, table: str) -> Place:
        return self._folder / f"{table}.parquet"

    def _scan(self, table: str) -> pl.LazyFrame:
        columns = schemas.columns(schemas.RUN_TABLES[table])
        if table not in self.manifest.tables:
            return pl.LazyFrame(schema=columns)
        held = scan(self._file(table))
        with self._reading():
            there = held.collect_schema()
        lacking = {n: pl.lit(None, dtype=t) for n, t in columns.items() if n not in there}
        return held.with_columns(**lacking) if lacking else held

    def _connect_remote(self, folder: Remote, wanted: set[str]) -> duckdb.DuckDBPyConnection:
        if self._mirror is None:
            self._mirror = Mirror()
        copy = self._mirror.of(folder, files_of(wanted, self.manifest.tables))
        return connect({self.manifest.run_id: copy}, wanted)

    def _connect(self, folder: Path) -> duckdb.DuckDBPyConnection:
        with self._connecting:
            if self._connection is None:
                made = connect({self.manifest.run_id: folder}, {*schemas.RUN_TABLES, *VIEWS})
                if not is_run(folder):  # then the views are empty, and no error would say so
                    raise StoreError(f"{self.path} holds no run")
                self._connection = made
            return self._connection

    def collect(self, frame: pl.LazyFrame) -> pl.DataFrame:
        """What a frame over the run's tables comes to.

        Raises:
            StoreError: A file is broken, or the run was removed meanwhile.
        """
        with self._reading():
            return frame.collect()

    @contextmanager
    def _reading(self) -> Generator[None]:
        """Tell a run that another process took away from one whose files are broken."""
        try:
            yield
        except BaseException as error:
            if not isinstance(error, StoreError) and not is_file_error(error):
                raise
            if not is_run(self._folder):
                raise StoreError(
                    f"run {self.run_id} is not in {self.path.parent} any more: "
                    "it was removed after it was opened"
                ) from error
            if isinstance(error, StoreError):
                raise
            reason = str(error).partition("\n")[0]
            raise StoreError(f"run {self.run_id} cannot be read: {reason}") from error


def _is_whole(file: Path) -> bool:
    """Whether a file is Parquet to its end; one that a killed process was writing is not."""
    try:
        with file.open("rb") as opened:
            opened.seek(-len(_MAGIC), SEEK_END)
            return opened.read() == _MAGIC
    except OSError:
        return False


def open_run(path: str | Path | Remote, storage_options: Mapping[str, str] | None = None) -> Run:
    """Open the run in a folder.

    Args:
        path: The folder, or its address in an object store: s3://, gs://, az://, abfss://.
        storage_options: For an address: what polars' scan_parquet takes, such as
            `aws_access_key_id`, `aws_region`, `aws_endpoint_url`; None: the environment's.

    Raises:
        StoreError: There is no whole run, or the object store does not answer.
        ConfigError: The address is of no object store that can be read.
    """
    return Run(path, storage_options)


def config_json(config: dict[str, Any]) -> str:
    """A run's configuration as it is stored."""
    return json.dumps(config, sort_keys=True, default=str)
