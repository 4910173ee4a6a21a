"""The errors this package raises, with fields a program can read.

Every error says what was wrong, where, and what to do. Nothing here knows about tables or metrics.
"""

from __future__ import annotations

import sys
import warnings
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_PACKAGE = str(Path(__file__).parent)


class UaefError(Exception):
    """The root of every error that `uaef_frames` raises on purpose."""


class ConfigError(UaefError, ValueError):
    """An argument that cannot be honoured: an unknown metric, dimension, adapter or option."""


class AdapterTransformationError(UaefError, ValueError):
    """A record that an adapter cannot read.

    Attributes:
        adapter: The adapter's name, for instance ``"langgraph"``.
        session_id: The session of the record, where it is known.
        turn_id: The turn of the record as it was given, where it is known.
        original_error: The exception that was met underneath, if there was one.
        reason: What was wrong and what to do about it, without the location.
    """

    def __init__(
        self,
        reason: str,
        *,
        adapter: str,
        session_id: str | None = None,
        turn_id: object = None,
        original_error: BaseException | None = None,
    ) -> None:
        self.reason = reason
        self.adapter = adapter
        self.session_id = session_id
        self.turn_id = turn_id
        self.original_error = original_error
        where = ""
        if session_id is not None:
            where += f", session {session_id!r}"
        if turn_id is not None:
            where += f", turn {turn_id!r}"
        super().__init__(f"{adapter} adapter{where}: {reason}")


class GroundTruthError(UaefError, ValueError):
    """Ground truth that cannot be read.

    Attributes:
        reason: What was wrong and what to do about it.
        source: The file, if the row came from one.
        line: Its line or row number, counted from 1.
        session_id: The session of the row, where it is known.
    """

    def __init__(
        self,
        reason: str,
        *,
        source: str | None = None,
        line: int | None = None,
        session_id: str | None = None,
    ) -> None:
        self.reason = reason
        self.source = source
        self.line = line
        self.session_id = session_id
        where = [str(source)] if source is not None else []
        if line is not None:
            where.append(f"line {line}")
        if session_id is not None:
            where.append(f"session {session_id!r}")
        super().__init__((", ".join(where) + ": " if where else "") + reason)


class JudgeError(UaefError):
    """A judge that cannot be asked."""


class StoreError(UaefError):
    """A run that cannot be written, found or queried, or a file that cannot be written."""


class InputFileError(UaefError, ValueError):
    """An input file or record that cannot be read, when errors are raised rather than collected.

    Attributes:
        source: The file.
        line: Its line number, counted from 1.
        reason: What was wrong.
    """

    def __init__(self, reason: str, *, source: str, line: int | None = None) -> None:
        self.reason = reason
        self.source = source
        self.line = line
        where = source if line is None else f"{source}, line {line}"
        super().__init__(f"{where}: {reason}")


def near(name: object, held: Sequence[str]) -> str:
    """What was probably meant by a name that is not there, to end an error with."""
    meant = get_close_matches(str(name), held, n=3, cutoff=0.5) or held[:5]
    more = ", …" if len(held) > len(meant) else ""
    return f"there is {', '.join(map(repr, meant))}{more}" if held else "it holds none"


def warn(message: str) -> None:
    """Warn the caller: the warning names the first line outside this package."""
    level, frame = 1, sys._getframe()  # pyright: ignore[reportPrivateUsage]
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, UserWarning, stacklevel=level)
