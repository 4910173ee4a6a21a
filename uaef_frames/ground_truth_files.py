"""Ground truth in files, read for a batch of sessions at a time.

Knows where the rows of a session stand; what a row says is `ground_truth`'s business.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
import polars as pl

from uaef_frames.adapters.lines import LineIndex, Source, index_lines, open_sources
from uaef_frames.arrow import as_frame, file_errors
from uaef_frames.errors import GroundTruthError, warn
from uaef_frames.expectations import Expectations, SessionTruth
from uaef_frames.files import scratch_folder, write_lines
from uaef_frames.ground_truth import (
    GroundTruthRow,
    TruthCollector,
    parse_ground_truth_row,
    record_of_line,
)
from uaef_frames.ground_truth_bulk import TruthBulkReader
from uaef_frames.rows import Reject

if TYPE_CHECKING:
    from pathlib import Path

SHEETS = (".csv", ".tsv", ".xlsx", ".xlsm", ".json")
"""Files that are read whole, as sheets that people keep."""


class TruthReader:
    """Ground truth by session: from expectations in memory, or from indexed files."""

    def __init__(
        self, expectations: Expectations | None = None, index: LineIndex | None = None
    ) -> None:
        self._expectations = expectations
        self._index = index
        self._bulk = TruthBulkReader()
        self._rejects: list[Reject] = []

    @classmethod
    def _of_sheets(cls, paths: list[Path] | pl.DataFrame) -> TruthReader:
        from uaef_frames.sheets import validate_ground_truth

        report = validate_ground_truth(paths)
        if report.errors and not len(report.expectations):
            report.raise_for_errors()
        for problem in report.warnings[:5]:
            warn(f"{problem.source or report.source}: {problem}")
        reader = cls(expectations=report.expectations)
        reader._rejects = [
            Reject(
                source=p.source or report.source,
                line=p.row,
                reason=str(p).removeprefix("error "),
                session_id=None,
                raw=None,
            )
            for p in report.errors
        ]
        return reader

    @classmethod
    def open(
        cls,
        given: Any,
        scratch: Path,
    ) -> TruthReader:
        """A reader of what a caller handed in.

        Raises:
            ConfigError: There is no such file.
            GroundTruthError: A Parquet file or a sheet cannot be read.
        """
        if given is None or isinstance(given, Expectations):
            return cls(expectations=given)
        frame = as_frame(given)
        if frame is not None:
            return cls._of_sheets(frame)
        sources = open_sources(given, scratch, what="ground_truth")
        if any(s.path.suffix.lower() in SHEETS for s in sources):
            return cls._of_sheets([s.path for s in sources])
        lines = [_as_lines(s, scratch / f"truth-{n}.jsonl") for n, s in enumerate(sources)]
        return cls(index=_named(index_lines(lines)))

    @property
    def session_ids(self) -> pl.Series:
        """The sessions that ground truth speaks of."""
        if self._index is not None:
            return self._index.lines["session_id"].drop_nulls().unique(maintain_order=True)
        if self._expectations is not None:
            return self._expectations.session_expectations["session_id"]
        return pl.Series("session_id", [], dtype=pl.String)

    def of(self, session_ids: pl.Series) -> tuple[Expectations, list[Reject]]:
        """What is expected of these sessions, and the rows that could not be read."""
        if self._expectations is not None:
            return self._expectations.filter(session_ids), []
        if self._index is None:
            return Expectations.empty(), []
        wanted = pl.DataFrame({"session_id": session_ids})
        rows = self._index.lines.join(wanted, on="session_id", how="semi", maintain_order="left")
        regular, others = self._bulk(self._index, rows)
        truths, rejects = self._read(others)
        if not truths:
            return regular, rejects
        return Expectations.concat([regular, Expectations.from_truths(truths)]), rejects

    def strays(self) -> list[Reject]:
        """The rows whose session could not be found, and those of sheets that cannot be used."""
        if self._index is None:
            return self._rejects
        return self._read(self._index.lines.filter(pl.col("session_id").is_null()))[1]

    def _read(self, rows: pl.DataFrame) -> tuple[list[SessionTruth], list[Reject]]:
        index = self._index
        if index is None:
            return [], []
        collected = TruthCollector()
        rejects: list[Reject] = []
        for row, line in zip(rows.iter_rows(named=True), index.read(rows), strict=True):
            source = index.source(row["file"]).name
            try:
                _collect(collected, line, source, row["line"])
            except GroundTruthError as error:
                rejects.append(
                    Reject(
                        source=source,
                        line=row["line"],
                        reason=error.reason,
                        session_id=error.session_id or row["session_id"],
                        raw=line.decode("utf-8", "replace").rstrip("\r\n"),
                    )
                )
        return collected.truths(), rejects


def _named(index: LineIndex) -> LineIndex:
    """An index that knows the session of rows that spell `session_id` in a way of their own."""
    lines = index.lines.with_row_index("row")
    unnamed = lines.filter(pl.col("session_id").is_null())
    if unnamed.is_empty():
        return index
    found = pl.Series([_session_id(line) for line in index.read(unnamed)], dtype=pl.String)
    named = index.lines["session_id"].scatter(unnamed["row"], found)
    return LineIndex(index.sources, index.lines.with_columns(named))


def _session_id(line: bytes) -> str | None:
    try:
        return _parsed(line).session_id
    except GroundTruthError:
        return None


def _collect(collected: TruthCollector, line: bytes, source: str, number: int) -> None:
    try:
        collected.add(_parsed(line), source, number)
    except RecursionError as error:
        raise GroundTruthError("nested too deeply to be read") from error


def _parsed(line: bytes) -> GroundTruthRow:
    """The row on one line.

    Raises:
        GroundTruthError: It cannot be read, whatever the reason.
    """
    try:
        row = parse_ground_truth_row(record_of_line(line))
    except GroundTruthError:
        raise
    except ValueError as error:
        raise GroundTruthError(f"cannot be read: {error}") from error
    except RecursionError as error:
        raise GroundTruthError("nested too deeply to be read") from error
    if row.turn_id is not None and abs(row.turn_id) >= 2**63:
        raise GroundTruthError("turn_id is a number beyond 64 bits", session_id=row.session_id)
    return row


def _as_lines(source: Source, target: Path) -> Source:
    """Parquet as lines of JSON; anything else as it is."""
    if source.path.suffix != ".parquet":
        return source
    try:
        frame = pl.read_parquet(source.path, glob=False)
    except file_errors() as error:
        reason = str(error).partition("\n")[0]
        raise GroundTruthError(f"cannot be read: {reason}", source=source.name) from error
    rows = frame.iter_rows(named=True)
    options = orjson.OPT_APPEND_NEWLINE
    write_lines(target, (orjson.dumps(row, default=str, option=options) for row in rows))
    return Source(source.name, target)


def load_expectations(path: Any) -> Expectations:
    """The expectations in a JSONL or Parquet file, several of them, a sheet, or a frame (polars,
    pandas, pyarrow, a DuckDB relation).

    Raises:
        ConfigError: There is no such file.
        GroundTruthError: A row cannot be read; the message names file and line.
    """
    with scratch_folder() as scratch:
        reader = TruthReader.open(path, scratch)
        expectations, rejects = reader.of(reader.session_ids)
        rejects += reader.strays()
    if rejects:
        first = rejects[0]
        raise GroundTruthError(
            first.reason, source=first.source, line=first.line, session_id=first.session_id
        )
    return expectations
