"""The journal of batches: what was sent off for later, so that no restart sends it twice.

It lives in the verdict cache's file. A batch goes planned -> uploaded -> created -> done; each step
is on disk before the next begins.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from uaef_frames.judge.cache import Asked, open_database

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable
    from pathlib import Path

_TABLES = """
create table if not exists batches (
    sha text primary key,
    endpoint text not null,
    model text not null,
    file_id text,
    batch_id text,
    done integer not null default 0
);
create table if not exists batch_items (
    custom_id text not null,
    sha text not null,
    key blob not null,
    metric text not null,
    rubric text not null,
    primary key (custom_id, sha)
) without rowid;
create index if not exists batch_items_by_sha on batch_items (sha);
"""


@dataclass(frozen=True, slots=True)
class SentBatch:
    """A batch on its way. `sha` names its content; `batch_id` is null until it is known."""

    sha: str
    file_id: str | None
    batch_id: str | None


@dataclass(frozen=True, slots=True)
class Item:
    """One request of a batch."""

    custom_id: str
    key: bytes
    asked: Asked


class Journal:
    """Batches of one endpoint and model in one cache file."""

    def __init__(self, path: Path, endpoint: str, model: str) -> None:
        # A batch costs money by the thousand: each step is forced to disk.
        self._db = open_database(path, _TABLES, synchronous="full")
        self._whose = (endpoint, model)

    @contextmanager
    def _whole(self) -> Generator[None]:
        """All of it or nothing."""
        self._db.execute("begin immediate")
        try:
            yield
        except BaseException:
            self._db.execute("rollback")
            raise
        self._db.execute("commit")

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def plan(self, sha: str, items: Iterable[Item]) -> None:
        """Note a batch before anything is sent."""
        with self._whole():
            self._db.execute(
                "insert or replace into batches values (?,?,?,null,null,0)", (sha, *self._whose)
            )
            self._db.executemany(
                "insert or replace into batch_items values (?,?,?,?,?)",
                [(i.custom_id, sha, i.key, i.asked.metric, i.asked.rubric) for i in items],
            )

    def uploaded(self, sha: str, file_id: str) -> None:
        """Its file is there."""
        with self._whole():
            self._db.execute("update batches set file_id = ? where sha = ?", (file_id, sha))

    def created(self, sha: str, batch_id: str) -> None:
        """It is running, and will be paid for."""
        with self._whole():
            self._db.execute("update batches set batch_id = ? where sha = ?", (batch_id, sha))

    def finish(self, sha: str) -> None:
        """Everything it had to give is in the cache."""
        with self._whole():
            self._db.execute("update batches set done = 1 where sha = ?", (sha,))
            self._db.execute("delete from batch_items where sha = ?", (sha,))

    def drop(self, sha: str) -> None:
        """It was never created."""
        with self._whole():
            self._db.execute("delete from batches where sha = ?", (sha,))
            self._db.execute("delete from batch_items where sha = ?", (sha,))

    def on_their_way(self) -> list[SentBatch]:
        """Batches that were begun and not finished, the oldest first."""
        rows = self._db.execute(
            "select sha, file_id, batch_id from batches "
            "where done = 0 and endpoint = ? and model = ? order by rowid",
            self._whose,
        )
        return [SentBatch(*row) for row in rows.fetchall()]

    def items(self, sha: str) -> dict[str, Item]:
        """The requests of a batch, by custom_id."""
        endpoint, model = self._whose
        rows = self._db.execute(
            "select custom_id, key, metric, rubric from batch_items where sha = ?", (sha,)
        )
        return {
            name: Item(name, key, Asked(model, endpoint, metric, rubric))
            for name, key, metric, rubric in rows
        }
