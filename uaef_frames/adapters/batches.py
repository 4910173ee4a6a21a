"""Batches of lines into conversations: regular ones in bulk, the rest record by record.

Knows lines and adapters. A record that cannot be used becomes a reject with its line; nothing else
of its session is lost, unless the session cannot be read without it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, cast

import polars as pl

from uaef_frames.adapters.lines import LineIndex
from uaef_frames.canonical import loads
from uaef_frames.conversations import Conversations
from uaef_frames.errors import AdapterTransformationError
from uaef_frames.rows import Reject, SessionRows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from uaef_frames.adapters.base import Adapter


_STRAYS = 10_000
"""Lines without a session that are held in memory at once."""


@dataclass(slots=True)
class Batch:
    """Whole sessions, read: their tables, and the records that could not be used."""

    conversations: Conversations
    lines: int
    rejects: list[Reject] = field(default_factory=list[Reject])


class BulkReader(Protocol):
    """Reads many regular lines at once, natively; says which sessions it left alone."""

    def __call__(self, index: LineIndex, rows: pl.DataFrame) -> tuple[Conversations, list[str]]:
        """The regular sessions' tables, and the ids of the others."""
        ...


class BatchReader:
    """Reads batches of one adapter's lines."""

    def __init__(self, adapter: Adapter, bulk: BulkReader | None = None) -> None:
        self._adapter = adapter
        self._bulk = bulk

    def read(self, index: LineIndex, rows: pl.DataFrame) -> Batch:
        """The sessions of these rows of the index, in the order of their first row."""
        if self._bulk is None:
            sessions, rejects = self._one_by_one(index, rows)
            return Batch(Conversations.from_rows(sessions), rows.height, rejects)
        regular, left = self._bulk(index, rows)
        if not left:
            return Batch(regular, rows.height)
        others = rows.filter(pl.col("session_id").is_in(left))
        sessions, rejects = self._one_by_one(index, others)
        rest = Conversations.from_rows(sessions)
        order = rows["session_id"].unique(maintain_order=True)
        return Batch(_merged(regular, rest, order), rows.height, rejects)

    def named(self, index: LineIndex) -> LineIndex:
        """The index with sessions for lines that name none, where the adapter needs no name."""
        stray = index.lines.with_row_index("at").filter(pl.col("session_id").is_null())
        found: list[str | None] = []
        for rows in stray.iter_slices(_STRAYS):
            for at, line in zip(rows["at"], index.read(rows), strict=True):
                try:
                    found.append(self._adapter.check(loads(line), at + 1).session_id)
                except ValueError:
                    found.append(None)
        ids = index.lines["session_id"].scatter(stray["at"], pl.Series(found, dtype=pl.String))
        return LineIndex(index.sources, index.lines.with_columns(ids))

    def strays(self, index: LineIndex) -> Iterator[list[Reject]]:
        """Why each of the lines that belong to no session cannot be used."""
        for rows in index.lines.filter(pl.col("session_id").is_null()).iter_slices(_STRAYS):
            yield [self._stray(index, row, line) for row, line in _with_lines(index, rows)]

    def _stray(self, index: LineIndex, row: dict[str, Any], line: bytes) -> Reject:
        place = _Place(index, row, line)
        try:
            self._adapter.check(loads(line), row["line"])
        except AdapterTransformationError as error:
            return place.reject(error.reason, error)
        except ValueError as error:
            return place.reject(f"not JSON: {error}")
        return place.reject("session_id could not be found in this line")

    def _one_by_one(
        self, index: LineIndex, rows: pl.DataFrame
    ) -> tuple[list[SessionRows], list[Reject]]:
        sessions: list[SessionRows] = []
        rejects: list[Reject] = []
        for sid, group in _groups(_with_lines(index, rows)):
            records: dict[object, tuple[_Place, Any]] = {}
            for row, line in group:
                place = _Place(index, row, line)
                try:
                    raw = loads(line)
                    record = self._adapter.check(raw, row["line"])
                except AdapterTransformationError as error:
                    rejects.append(place.reject(error.reason, error))
                    continue
                except ValueError as error:
                    rejects.append(place.reject(f"not JSON: {error}"))
                    continue
                if record.session_id != sid and _names_a_session(raw):
                    rejects.append(place.reject("session_id stands in this record twice"))
                elif record.turn_id in records:
                    other = records[record.turn_id][0]
                    whole = record.turn_id is None
                    what = "this session" if whole else "the same turn of this session"
                    rejects.append(place.reject(f"line {other.line} has {what}"))
                else:
                    records[record.turn_id] = place, record
            if not records:
                continue
            kept = sorted(records.values(), key=lambda pair: pair[1].turn_id or 0)
            try:
                sessions.append(self._adapter.read(sid, [record for _, record in kept]))
            except AdapterTransformationError as error:
                rest, unread = self._without_the_unreadable(sid, kept, error)
                sessions += rest
                rejects += unread
        return sessions, rejects

    def _without_the_unreadable(
        self, sid: str, kept: Sequence[tuple[_Place, Any]], error: AdapterTransformationError
    ) -> tuple[list[SessionRows], list[Reject]]:
        """What is left of a session without the records that cannot be read by themselves."""
        rejects: list[Reject] = []
        good: list[tuple[_Place, Any]] = []
        for place, record in kept:
            try:
                self._adapter.read(sid, [record])
                good.append((place, record))
            except AdapterTransformationError as own:
                rejects.append(place.reject(own.reason, own))
        if rejects and good:
            try:
                return [self._adapter.read(sid, [record for _, record in good])], rejects
            except AdapterTransformationError as other:
                error = other
        return [], rejects + [place.reject(error.reason, error) for place, _ in good]


def _names_a_session(raw: Any) -> bool:
    return isinstance(raw, dict) and cast("dict[str, Any]", raw).get("session_id") is not None


class _Place:
    """Where a record stands, for the reject that it may become."""

    __slots__ = ("_raw", "_session_id", "_source", "line")

    def __init__(self, index: LineIndex, row: dict[str, Any], raw: bytes) -> None:
        self._source = index.source(row["file"]).name
        self.line = row["line"]
        self._session_id = row["session_id"]
        self._raw = raw

    def reject(self, reason: str, error: AdapterTransformationError | None = None) -> Reject:
        turn = None if error is None or error.turn_id is None else str(error.turn_id)
        return Reject(
            source=self._source,
            line=self.line,
            reason=reason,
            session_id=self._session_id or (error.session_id if error is not None else None),
            turn_id=turn,
            raw=self._raw.decode("utf-8", "replace").rstrip("\r\n"),
        )


def _with_lines(index: LineIndex, rows: pl.DataFrame) -> Iterator[tuple[dict[str, Any], bytes]]:
    return zip(rows.iter_rows(named=True), index.read(rows), strict=True)


def _groups(
    lines: Iterator[tuple[dict[str, Any], bytes]],
) -> Iterator[tuple[str, list[tuple[dict[str, Any], bytes]]]]:
    """Neighbours of one session together; a batch holds each session in one stretch."""
    held: list[tuple[dict[str, Any], bytes]] = []
    for row, line in lines:
        if held and held[-1][0]["session_id"] != row["session_id"]:
            yield held[0][0]["session_id"], held
            held = []
        held.append((row, line))
    if held:
        yield held[0][0]["session_id"], held


def _merged(one: Conversations, other: Conversations, order: pl.Series) -> Conversations:
    """Both, with sessions in that order."""
    places = pl.DataFrame({"session_id": order}).with_row_index("place")
    frames: dict[str, pl.DataFrame] = {}
    for name in ("turns", "messages", "tool_calls", "handoffs"):
        parts: Sequence[pl.DataFrame] = [getattr(one, name), getattr(other, name)]
        frames[name] = (
            pl.concat(parts)
            .join(places, on="session_id", how="left", maintain_order="left")
            .sort("place", maintain_order=True)
            .drop("place")
        )
    index = pl.col("session_id").rle_id().cast(pl.Int64)
    frames["turns"] = frames["turns"].with_columns(session_index=index)
    return Conversations(**frames)


def get_batch_reader(adapter: str | Adapter) -> BatchReader:
    """A reader of batches for an adapter, with its bulk reader where it has one.

    Raises:
        ConfigError: There is no adapter of that name.
    """
    from uaef_frames.adapters.base import get_adapter

    found = get_adapter(adapter)
    return BatchReader(found, getattr(found, "bulk", None))
