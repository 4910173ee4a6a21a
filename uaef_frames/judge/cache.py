"""The verdict cache: answers by request, kept the moment they arrive, shared by runs and processes.

One SQLite file in WAL mode; a killed process loses what was in flight and nothing else. Answers are
kept as the model wrote them, so that a better reader needs no second payment.
"""

from __future__ import annotations

import sqlite3
import time
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from uaef_frames.errors import JudgeError

if TYPE_CHECKING:
    from collections.abc import Sequence

_TABLES = """
create table if not exists answers (
    key blob primary key,
    content blob not null,
    model text not null,
    input_tokens integer,
    cached_input_tokens integer,
    output_tokens integer,
    cost_usd real,
    latency_s real,
    asked_model text not null,
    endpoint text not null,
    metric text not null,
    rubric text not null,
    fingerprint text,
    created_at real not null
) without rowid;
"""
_COLUMNS = 14
_KEYS_AT_ONCE = 500
_BUSY_S = 30.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What a model answered to one request.

    Attributes:
        content: Its text, as it was written.
        model: The model as it named itself.
        input_tokens: Tokens read; None: not reported.
        cached_input_tokens: Of those, from the endpoint's own cache; None: not reported.
        output_tokens: Tokens written; None: not reported.
        cost_usd: What it cost when it was asked, retries of unreadable answers included; None:
        unknown. latency_s: Seconds from sending to the last byte.
        fingerprint: The endpoint's system_fingerprint.
    """

    content: str
    model: str
    input_tokens: int | None
    cached_input_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None
    latency_s: float
    fingerprint: str | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """Where a kept answer comes from, for `stats` and `clear`."""

    model: str
    endpoint: str
    metric: str
    rubric: str


class AnswerCache:
    """Kept answers by request key. `keeps`: what is kept can be found again.

    Raises:
        JudgeError: The file cannot be opened, or is not a cache.
    """

    keeps = True

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._db = open_database(path, _TABLES)
            held = len(self._db.execute("pragma table_info(answers)").fetchall())
        except (OSError, sqlite3.Error) as error:
            raise JudgeError(
                f"the verdict cache {path} cannot be used: {error}; give cache= another path, or "
                "None for none"
            ) from error
        if held != _COLUMNS:
            raise JudgeError(f"{path} holds a cache of another version; give another path")

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def find(self, keys: Sequence[bytes]) -> dict[bytes, Answer]:
        """The kept answers among those keys."""
        found: dict[bytes, Answer] = {}
        for start in range(0, len(keys), _KEYS_AT_ONCE):
            some = keys[start : start + _KEYS_AT_ONCE]
            marks = ",".join("?" * len(some))
            rows = self._db.execute(
                "select key, content, model, input_tokens, cached_input_tokens, output_tokens, "
                f"cost_usd, latency_s, fingerprint from answers where key in ({marks})",
                some,
            )
            for key, content, *rest in rows:
                found[key] = Answer(zlib.decompress(content).decode(), *rest)
        return found

    def known(self, keys: Sequence[bytes]) -> set[bytes]:
        """Which of those keys have an answer."""
        found: set[bytes] = set()
        for start in range(0, len(keys), _KEYS_AT_ONCE):
            some = keys[start : start + _KEYS_AT_ONCE]
            marks = ",".join("?" * len(some))
            rows = self._db.execute(f"select key from answers where key in ({marks})", some)
            found.update(key for (key,) in rows)
        return found

    def keep(self, key: bytes, answer: Answer, asked: Asked) -> None:
        """Keep an answer for good; it is on its way to disk when this returns."""
        self._db.execute(
            "insert or replace into answers values (?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
            (
                key,
                zlib.compress(answer.content.encode("utf-8", "replace"), 1),
                answer.model,
                answer.input_tokens,
                answer.cached_input_tokens,
                answer.output_tokens,
                answer.cost_usd,
                answer.latency_s,
                asked.model,
                asked.endpoint,
                asked.metric,
                asked.rubric,
                answer.fingerprint,
                time.time(),
            ),
        )

    def stats(self) -> list[dict[str, object]]:
        """One row a model and metric: verdicts, tokens, what they cost, from when to when."""
        cursor = self._db.execute(
            "select asked_model as model, endpoint, metric, count(*) as verdicts, "
            "sum(input_tokens) as input_tokens, sum(output_tokens) as output_tokens, "
            "sum(cost_usd) as cost_usd, min(created_at) as first_at, max(created_at) as last_at "
            "from answers group by 1, 2, 3 order by 1, 2, 3"
        )
        names = [d[0] for d in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def clear(self, *, model: str | None = None, metric: str | None = None) -> int:
        """Forget answers, all or those of a model or metric; how many there were."""
        gone = self._db.execute(
            "delete from answers where (? is null or asked_model = ?) "
            "and (? is null or metric = ?)",
            (model, model, metric, metric),
        ).rowcount
        self._db.execute("vacuum")
        return gone


def open_database(path: Path, tables: str, synchronous: str = "normal") -> sqlite3.Connection:
    """An SQLite file in WAL mode with those tables; other processes may be opening it as well.

    Raises:
        sqlite3.Error: It is no database, or stays locked for half a minute.
    """
    deadline = time.monotonic() + _BUSY_S
    while True:
        db = sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
        try:
            # To switch the mode takes the file alone, and SQLite does not wait for that by itself.
            db.execute("pragma journal_mode=wal")
            db.execute(f"pragma synchronous={synchronous}")
            db.executescript(tables)
        except sqlite3.OperationalError as error:
            db.close()
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.02)
        except sqlite3.Error:
            db.close()
            raise
        else:
            return db


class NoCache(AnswerCache):
    """Keeps nothing."""

    keeps = False

    def __init__(self) -> None:
        self.path = Path()

    def close(self) -> None:
        """Nothing to close."""

    def find(self, keys: Sequence[bytes]) -> dict[bytes, Answer]:
        """Nothing."""
        return {}

    def known(self, keys: Sequence[bytes]) -> set[bytes]:
        """Nothing."""
        return set()

    def keep(self, key: bytes, answer: Answer, asked: Asked) -> None:
        """Not kept."""


def open_cache(path: Path | None) -> AnswerCache:
    """The cache in a file; one that cannot be used is an error, never a silent second payment."""
    return NoCache() if path is None else AnswerCache(path)
