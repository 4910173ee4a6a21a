"""Files of JSON lines, found by session and read in blocks: the same for payloads and ground truth.

Knows lines, byte ranges and one key, `session_id`. Memory stays flat: nothing is held but an index.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
import zlib
from dataclasses import dataclass
from glob import glob, has_magic
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import orjson
import polars as pl

from uaef_frames.arrow import are_utf8, texts
from uaef_frames.canonical import loads, scrub
from uaef_frames.errors import ConfigError, InputFileError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from uaef_frames.arrow import Texts


_BLOCK = 16 << 20
_LEAD = np.frombuffer(b'{"session_id":"', dtype=np.uint8)
_ID_ROOM = 96
_NEWLINE, _QUOTE, _BACKSLASH = b"\n"[0], b'"'[0], b"\\"[0]


@dataclass(frozen=True, slots=True)
class Source:
    """One file of lines: `name` as the user knows it, `path` the plain bytes to read."""

    name: str
    path: Path


@dataclass(frozen=True, slots=True)
class LineIndex:
    """Where each line stands and which session it speaks of.

    Attributes:
        sources: The files.
        lines: One row a line that is not blank: file, line (from 1), start, length (bytes) and
            session_id (null where it could not be read).
    """

    sources: tuple[Source, ...]
    lines: pl.DataFrame

    def source(self, file: int) -> Source:
        """The file of a row, by its column `file`."""
        return self.sources[file]

    def read(self, rows: pl.DataFrame) -> list[bytes]:
        """The bytes of these rows of `lines`, in their order."""
        data = memoryview(b"".join(self._spans(rows)))
        ends = rows["length"].cum_sum().to_list()
        return [bytes(data[a:b]) for a, b in zip([0, *ends], ends, strict=False)]

    def texts(self, rows: pl.DataFrame) -> Texts:
        """The text of these rows as one Arrow array; neighbouring lines are read in one go."""
        return texts(b"".join(self._spans(rows)), rows["length"].to_numpy())

    def _spans(self, rows: pl.DataFrame) -> Iterator[bytes]:
        """The bytes of rows that stand one behind the other in a file, a piece a stretch."""
        ends = pl.col("start") + pl.col("length")
        breaks = (pl.col("start") != ends.shift()) | (pl.col("file") != pl.col("file").shift())
        spans = (
            rows.with_columns(span=breaks.fill_null(value=True).cum_sum())
            .group_by("span", maintain_order=True)
            .agg(pl.col("file").first(), pl.col("start").first(), size=pl.col("length").sum())
        )
        handles: dict[int, int] = {}
        try:
            for _, file, start, size in spans.iter_rows():
                if file not in handles:
                    handles[file] = os.open(self.source(file).path, os.O_RDONLY)
                yield _read_span(handles[file], start, size)
        finally:
            for handle in handles.values():
                os.close(handle)


def open_sources(
    payloads: str | Path | Iterable[Any], scratch: Path, *, what: str = "payloads"
) -> tuple[Source, ...]:
    """The files that a path, a glob, a list of paths or an iterable of records stands for.

    Compressed files (.gz, .zst) are unpacked into `scratch`, records are written there as lines.

    Raises:
        ConfigError: Nothing matches, or a path is not a file.
        InputFileError: A compressed file is broken.
    """
    if isinstance(payloads, str | Path):
        paths = _matches(str(payloads), what)
    else:
        items = list(payloads) if isinstance(payloads, list | tuple) else None
        if items is not None and items and all(isinstance(i, str | Path) for i in items):
            paths = [p for item in items for p in _matches(str(item), what)]
        else:
            return (_spool(payloads if items is None else items, scratch / f"{what}.jsonl"),)
    return tuple(
        Source(str(p), _unpacked(p, scratch / f"{what}-{n}.jsonl")) for n, p in enumerate(paths)
    )


def index_lines(sources: Sequence[Source]) -> LineIndex:
    """Read every file once and note where its lines stand and whose they are."""
    parts = [part for n, source in enumerate(sources) for part in _index_file(n, source)]
    empty = pl.DataFrame(
        schema={
            "file": pl.Int16,
            "line": pl.Int64,
            "start": pl.Int64,
            "length": pl.Int64,
            "session_id": pl.String,
        }
    )
    return LineIndex(tuple(sources), pl.concat([empty, *parts]).rechunk())


def _index_file(number: int, source: Source) -> Iterator[pl.DataFrame]:
    start, line, rest = 0, 1, b""
    with source.path.open("rb") as file:
        while block := file.read(_BLOCK):
            data = rest + block
            end = data.rfind(b"\n") + 1
            rest = data[end:]
            if end:
                frame = _index_block(data[:end])
                yield _placed(frame, number, line, start)
                line, start = line + frame.height, start + end
    if rest:  # a last line without a newline
        yield _placed(_index_block(rest), number, line, start)


def _placed(frame: pl.DataFrame, number: int, line: int, start: int) -> pl.DataFrame:
    return frame.filter(~pl.col("blank")).select(
        pl.lit(number, dtype=pl.Int16).alias("file"),
        pl.col("line") + line,
        pl.col("start") + start,
        "length",
        "session_id",
    )


def _index_block(data: bytes) -> pl.DataFrame:
    octets = np.frombuffer(data, dtype=np.uint8)
    ends = np.flatnonzero(octets == _NEWLINE) + 1
    if not len(ends) or ends[-1] != len(data):
        ends = np.append(ends, len(data))
    starts = np.concatenate([np.zeros(1, dtype=np.int64), ends[:-1].astype(np.int64)])
    ids = _leading_ids(octets, starts)
    unread = np.flatnonzero(ids.is_null().to_numpy())
    lines = [data[starts[i] : ends[i]] for i in unread]
    if lines:
        ids = ids.scatter(unread, pl.Series([_session_id(one) for one in lines], dtype=pl.String))
    blank = np.zeros(len(starts), dtype=bool)
    blank[unread] = [not one.strip() for one in lines]
    return pl.DataFrame(
        {
            "line": np.arange(len(ends)),
            "start": starts,
            "length": ends - starts,
            "session_id": ids,
            "blank": blank,
        }
    )


def _leading_ids(octets: NDArray[np.uint8], starts: NDArray[np.int64]) -> pl.Series:
    """The session_id of lines that begin with it, plainly written; null for any other line."""
    padded = np.append(octets, np.zeros(len(_LEAD) + _ID_ROOM, dtype=np.uint8))
    lead = padded[starts[:, None] + np.arange(len(_LEAD))]
    room = padded[starts[:, None] + len(_LEAD) + np.arange(_ID_ROOM)]
    length = np.argmax(room == _QUOTE, axis=1)
    inside = np.arange(_ID_ROOM) < length[:, None]
    plain = ~((room == _BACKSLASH) & inside).any(axis=1) & (length > 0)
    known = (lead == _LEAD).all(axis=1) & plain
    text = texts(room[inside & known[:, None]].tobytes(), np.where(known, length, 0))
    if not are_utf8(text):
        known[:] = False
    return pl.DataFrame({"id": pl.Series(text), "known": known}).select(
        session_id=pl.when("known").then("id")
    )["session_id"]


def _session_id(line: str | bytes) -> str | None:
    try:
        record = loads(line)
    except ValueError:
        return None
    if not isinstance(record, dict):
        return None
    sid = cast("dict[str, Any]", record).get("session_id")
    if isinstance(sid, bool) or not isinstance(sid, str | int):
        return None
    return scrub(str(sid))


def _read_span(handle: int, start: int, size: int) -> bytes:
    parts: list[bytes] = []
    while size > 0:
        part = os.pread(handle, size, start)
        if not part:
            raise InputFileError("the file became shorter while it was read", source="payloads")
        parts.append(part)
        start, size = start + len(part), size - len(part)
    return b"".join(parts) if len(parts) != 1 else parts[0]


def _matches(pattern: str, what: str) -> list[Path]:
    if has_magic(pattern) and not Path(pattern).exists():
        found = sorted(
            Path(p)
            for p in glob(pattern, recursive=True)  # noqa: PTH207 - Path has no absolute globs
            if Path(p).is_file()
        )
        if not found:
            raise ConfigError(f"{what}: nothing matches {pattern!r}")
        return found
    path = Path(pattern)
    if path.is_dir():
        raise ConfigError(
            f"{what}: {pattern!r} is a folder; give a file or a glob such as {pattern}/*.jsonl"
        )
    if not path.is_file():
        raise ConfigError(f"{what}: there is no file {pattern!r}")
    return [path]


def _unpacked(path: Path, target: Path) -> Path:
    if path.suffix == ".gz":
        opened = gzip.open(path, "rb")  # noqa: SIM115 - closed below
    elif path.suffix in (".zst", ".zstd"):
        import zstandard

        opened = cast("Any", zstandard).open(path, "rb")
    else:
        return path
    try:
        packed: Any
        with cast("Any", opened) as packed, target.open("wb") as plain:
            shutil.copyfileobj(packed, plain, 1 << 20)
    except (OSError, EOFError, zlib.error, *_zstd_errors()) as error:
        raise InputFileError(f"cannot be unpacked: {error}", source=str(path)) from error
    return target


def _zstd_errors() -> tuple[type[BaseException], ...]:
    import zstandard

    return (zstandard.ZstdError,)


def _spool(records: Iterable[Any], target: Path) -> Source:
    """Write records as lines, live message objects in their serialised form."""
    with target.open("wb") as out:
        for record in records:
            out.write(record_line(record))
    return Source("<memory>", target)


def record_line(record: Any) -> bytes:
    """One record as a line of JSON; what JSON cannot hold is written as its `repr`."""
    options = orjson.OPT_APPEND_NEWLINE | orjson.OPT_NON_STR_KEYS | orjson.OPT_PASSTHROUGH_SUBCLASS
    try:
        return orjson.dumps(record, default=_plain, option=options)
    except (TypeError, orjson.JSONEncodeError):
        text = json.dumps(record, default=_plain, ensure_ascii=False, skipkeys=True)
        return scrub(text).encode() + b"\n"


def _plain(value: Any) -> Any:
    if hasattr(value, "model_dump"):
        return value.model_dump()
    if isinstance(value, tuple | set | frozenset):
        return list(cast("Iterable[Any]", value))
    for base in (dict, list, str, int, float):
        if isinstance(value, base):  # orjson passes subclasses on
            return cast("Any", base)(value)
    if hasattr(value, "__dict__") or hasattr(value, "__slots__"):
        return _fields(value)
    return repr(value)


def _fields(value: Any) -> Any:
    """An object of a framework (an interrupt, an overwrite, a command) as its fields."""
    slots: tuple[str, ...] = tuple(getattr(cast("Any", type(value)), "__slots__", ()))
    fields: dict[str, Any] = getattr(value, "__dict__", None) or {}
    names: list[str] = [*fields, *slots]
    return {n: getattr(value, n) for n in names if not n.startswith("_") and hasattr(value, n)}
