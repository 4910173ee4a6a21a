"""Writing a run: tables that grow batch by batch, in a folder that appears only when it is whole.

Knows files. What stands in the tables is the schemas' business.
"""

from __future__ import annotations

import os
import re
import shutil
from contextlib import contextmanager, suppress
from pathlib import Path
from socket import gethostname
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import polars as pl

from uaef_frames import schemas
from uaef_frames.arrow import ParquetFile, file_errors
from uaef_frames.errors import StoreError
from uaef_frames.store.manifest import MANIFEST, Manifest
from uaef_frames.store.places import must_be_local
from uaef_frames.store.summary import summarise

if TYPE_CHECKING:
    from collections.abc import Generator
    from datetime import datetime
    from types import TracebackType


_REPEATING = frozenset(
    (
        "run_id",
        "session_id",
        "topology",
        "role",
        "agent",
        "name",
        "status",
        "event_type",
        "from_agent",
        "to_agent",
        "metric",
        "dimension",
        "warning",
        "reasoning",
        "details",
        "source",
    )
)
"""Columns that say the same thing often, and so are worth a dictionary."""
_DRAFT = ".draft-"
GONE = ".gone-"
"""How the folder of a run that is being removed begins."""
_HOST = re.sub(r"[^A-Za-z0-9-]", "-", gethostname())
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


def new_run_id(name: str | None, now: datetime) -> str:
    """A run id that sorts by time and is never taken twice: 20261201-101500-name-1a2b3c."""
    slug = _UNSAFE.sub("-", name or "").strip("-.")[:60]
    parts = [now.strftime("%Y%m%d-%H%M%S"), *([slug] if slug else []), uuid4().hex[:6]]
    return "-".join(parts)


class RunWriter:
    """Collects the tables of one run and makes them visible at once.

    Rows go to a hidden folder beside the final one; `commit` adds the table `metrics` and the
    manifest (with what stands in `about`), syncs and renames it. Leaving the `with` block without
    it removes what was written, so that no half run is ever read as whole.

    Raises:
        StoreError: The folder cannot be made or written.
    """

    def __init__(self, out: str | Path, run_id: str) -> None:
        must_be_local(out)
        self.run_id = run_id
        self.path = Path(out) / run_id
        self._draft = Path(out) / f".{run_id}{_DRAFT}{_HOST}.{os.getpid()}"
        self._files: dict[str, ParquetFile] = {}
        self.about: dict[str, Any] = {}
        try:
            self._draft.mkdir(parents=True)
        except OSError as error:
            raise StoreError(
                f"run {run_id} could not be written: cannot write runs into {out}: {error}"
            ) from error
        sweep(Path(out))

    def __enter__(self) -> RunWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for file in self._files.values():
            file.abandon()
        shutil.rmtree(self._draft, ignore_errors=True)

    def append(self, table: str, frame: pl.DataFrame) -> None:
        """Add rows to a table; columns are put into the schema's order and types.

        Raises:
            StoreError: The disk did not take them.
        """
        if not frame.is_empty():
            with self._telling():
                self._file(table).append(frame)

    def commit(self) -> Path:
        """Make the run visible.

        Raises:
            StoreError: The disk did not take it, or a run of that id is there already.
        """
        with self._telling():
            self._file("scores").close()
            scores = pl.scan_parquet(self._draft / "scores.parquet", glob=False)
            self.append("metrics", summarise(scores, self.run_id))
            for table in schemas.RUN_TABLES:
                self._file(table).close()
                _sync(self._draft / f"{table}.parquet")
            manifest = self._draft / MANIFEST
            made = Manifest.of(self._draft, self.run_id, self.about)
            manifest.write_text(made.to_json(), "utf-8")
            _sync(manifest)
            _sync(self._draft)
            self._draft.rename(self.path)
            _sync(self.path.parent)
        return self.path

    @contextmanager
    def _telling(self) -> Generator[None]:
        """Which run it was that the disk did not take."""
        try:
            yield
        except file_errors() as error:
            reason = str(error).partition("\n")[0]
            raise StoreError(f"run {self.run_id} could not be written: {reason}") from error

    def _file(self, table: str) -> ParquetFile:
        if table not in self._files:
            schema = schemas.columns(schemas.RUN_TABLES[table])
            repeating = [name for name in schema if name in _REPEATING]
            self._files[table] = ParquetFile(self._draft / f"{table}.parquet", schema, repeating)
        return self._files[table]


def sweep(out: Path) -> None:
    """Remove what was left behind: drafts of dead processes of this machine, and runs on their way
    out, which nobody wants whoever began to remove them.
    """
    with suppress(OSError):  # to tidy up is no reason to fail
        for draft in out.glob(f".*{_DRAFT}{_HOST}.*"):
            pid = draft.name.rpartition(".")[2]
            if pid.isdecimal() and not _is_alive(int(pid)):
                shutil.rmtree(draft, ignore_errors=True)
        for gone in out.glob(f"{GONE}*"):
            shutil.rmtree(gone, ignore_errors=True)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # it is there, and not ours
        return True
    return True


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
