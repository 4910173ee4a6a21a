"""Files that people get, written whole or not at all; and those that are gone after the work."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from uaef_frames.arrow import file_errors
from uaef_frames.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable
    from io import FileIO

_PIECE = 1 << 20
_ELSEWHERE = "the variable TMPDIR names another place"


def write_whole(target: Path, octets: bytes) -> None:
    """Write a file; what was there before stays if the disk does not take it.

    Raises:
        StoreError: The disk does not take it.
    """
    with replacing(target) as draft:
        draft.write_bytes(octets)


@contextmanager
def replacing(target: Path) -> Generator[Path]:
    """A draft that takes the place of a file when the block ends well.

    Raises:
        StoreError: The disk does not take it.
    """
    try:
        if target.exists() and not target.is_file():  # a device, or a pipe, is written to
            yield target
            return
        real = Path(os.path.realpath(target))
        draft = real.with_name(f".{real.name[:200]}.{os.getpid()}")
        try:
            yield draft
            draft.replace(real)
        finally:
            draft.unlink(missing_ok=True)
    except file_errors() as error:
        raise StoreError(f"{target} cannot be written: {_reason(error)}") from error


def make_folder(path: Path) -> None:
    """Make a folder, and those above it, where they are not there.

    Raises:
        StoreError: The disk does not allow it.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"folder {path} cannot be made: {_reason(error)}") from error


@contextmanager
def scratch_folder() -> Generator[Path]:
    """A folder for what is not needed after the block.

    Raises:
        StoreError: There is no place for it.
    """
    try:
        folder = TemporaryDirectory(prefix="uaef-frames-", ignore_cleanup_errors=True)
    except OSError as error:
        raise StoreError(
            f"no temporary folder can be made: {_reason(error)}; {_ELSEWHERE}"
        ) from error
    with folder as name:
        yield Path(name)


def write_lines(target: Path, lines: Iterable[bytes]) -> None:
    """Write lines to a file in a scratch folder.

    Raises:
        StoreError: The disk does not take them. What is raised while lines are made goes through.
    """
    held: list[bytes] = []
    size = 0
    try:
        out = target.open("wb", buffering=0)
    except OSError as error:
        raise _full(target, error) from error
    with out:
        for line in lines:
            held.append(line)
            size += len(line)
            if size >= _PIECE:
                _write(out, held, target)
                held, size = [], 0
        _write(out, held, target)


def _write(out: FileIO, lines: list[bytes], target: Path) -> None:
    left = memoryview(b"".join(lines))
    try:
        while left:
            left = left[out.write(left) :]
    except OSError as error:
        raise _full(target, error) from error


def _full(target: Path, error: OSError) -> StoreError:
    return StoreError(f"{target.parent} does not take what is read: {_reason(error)}; {_ELSEWHERE}")


def _reason(error: Exception) -> str:
    words = error.strerror if isinstance(error, OSError) else None
    return words or str(error).partition("\n")[0]
