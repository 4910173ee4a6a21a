"""The manifest: what a whole run consists of, written last. A folder without one is no run."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import polars as pl

from uaef_frames.errors import StoreError
from uaef_frames.store.places import Remote
from uaef_frames.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from uaef_frames.store.places import Place

MANIFEST = "manifest.json"
FORMAT = 1
_PIECE = 1 << 20


@dataclass(frozen=True, slots=True)
class TableFile:
    """One table of a run: rows, size, and the SHA-256 of its file."""

    rows: int
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a run consists of.

    Attributes:
        run_id: The run's name.
        format: The version of the layout.
        package: The version of this package that wrote it.
        tables: Its files, by table.
        about: Configuration, rubrics and fingerprints of the inputs, as far as the writer knew
        them.
    """

    run_id: str
    format: int
    package: str
    tables: Mapping[str, TableFile]
    about: Mapping[str, Any]

    @classmethod
    def of(cls, folder: Path, run_id: str, about: Mapping[str, Any]) -> Manifest:
        """The manifest of the Parquet files in a folder."""
        tables = {
            file.stem: TableFile(
                int(pl.scan_parquet(file, glob=False).select(pl.len()).collect().item()),
                file.stat().st_size,
                _hash(file),
            )
            for file in sorted(folder.glob("*.parquet"))
        }
        return cls(run_id, FORMAT, __version__, tables, dict(about))

    @classmethod
    def read(cls, folder: Place) -> Manifest:
        """The manifest of a run.

        Raises:
            StoreError: There is none, or it is of a later format.
        """
        file = folder / MANIFEST
        try:
            held: dict[str, Any] = json.loads(file.read_text("utf-8"))
            tables = {name: TableFile(**row) for name, row in held["tables"].items()}
            made = cls(
                held["run_id"], held["format"], held["package"], tables, held.get("about", {})
            )
        except (FileNotFoundError, NotADirectoryError):
            raise StoreError(
                f"{folder} is not a run: it holds no {MANIFEST}; "
                "give the folder of one run, such as runs/20261201-101500-demo-1a2b3c"
            ) from None
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise StoreError(f"{file} cannot be read: {error}") from error
        if not _is_sound(made):
            raise StoreError(f"{file} does not say which run of which format it is")
        if made.format > FORMAT:
            raise StoreError(f"{folder} was written by a later version ({made.package})")
        return made

    def to_json(self) -> str:
        """As it is stored."""
        return json.dumps(asdict(self), indent=1, sort_keys=True, default=str)

    def problems(self, folder: Place) -> list[str]:
        """What is not as it was written: files missing, of another size, or with other content."""
        found: list[str] = []
        for name, table in self.tables.items():
            file = folder / f"{name}.parquet"
            try:
                size = _size(file)
                if size != table.bytes:
                    found.append(f"{file.name} has {size} bytes, was written with {table.bytes}")
                elif _hash(file) != table.sha256:
                    found.append(f"{file.name} has other content than was written")
            except FileNotFoundError:
                found.append(f"{file.name} is missing")
            except OSError as error:
                found.append(f"{file.name} cannot be read: {error}")
        return found


def _is_sound(made: Manifest) -> bool:
    given: Any = (made.run_id, made.format, made.about)
    numbers = [n for t in made.tables.values() for n in (t.rows, t.bytes)]
    return [type(v) for v in given] == [str, int, dict] and all(type(n) is int for n in numbers)


def is_run(folder: Place) -> bool:
    """Whether a whole run stands there; it may be gone a moment later."""
    return (folder / MANIFEST).exists()


def fingerprint(path: Path) -> dict[str, Any]:
    """An input by its size, and the hash of its ends: enough to tell one from another, and
    cheap.
    """
    size = path.stat().st_size
    digest = sha256(str(size).encode())
    with path.open("rb") as opened:
        digest.update(opened.read(_PIECE))
        if size > 2 * _PIECE:
            opened.seek(-_PIECE, 2)
        digest.update(opened.read(_PIECE))
    return {"bytes": size, "ends_sha256": digest.hexdigest()}


def _size(file: Place) -> int:
    if not isinstance(file, Remote):
        return file.stat().st_size
    size = file.size()
    if size is None:
        raise FileNotFoundError(f"there is no {file}")
    return size


def _hash(file: Place) -> str:
    digest = sha256()
    with file.open() if isinstance(file, Remote) else file.open("rb") as opened:
        while piece := opened.read(_PIECE):
            digest.update(piece)
    return digest.hexdigest()
