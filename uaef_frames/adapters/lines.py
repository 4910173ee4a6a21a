"""Files of JSON lines, found by session and read in blocks: the same for payloads and ground truth.

Knows lines, byte ranges and one key, `session_id`. Memory stays flat: nothing is held but an index.
"""

from __future__ import annotations

import gzip
import json
import os
import reprlib
import shutil
import zlib
from collections.abc import Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from decimal import Decimal
from glob import glob, has_magic
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import numpy as np
import orjson
import polars as pl

from uaef_frames.arrow import are_utf8, as_frame, texts
from uaef_frames.canonical import loads, scrub
from uaef_frames.errors import ConfigError, InputFileError
from uaef_frames.files import write_lines

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from uaef_frames.arrow import Frame, Texts


_BLOCK = 16 << 20
_PIECE = 1 << 20
_WINDOW = 1 << 31
"""The largest window that zstd can be told to use."""
_COMPACT = np.frombuffer(b'{"session_id":"', dtype=np.uint8)
_SPACED = np.frombuffer(b'{"session_id": "', dtype=np.uint8)
"""How most lines begin: the second is what Python's own `json` writes."""
_ID_ROOM = 96
_NEWLINE, _QUOTE, _BACKSLASH = b"\n"[0], b'"'[0], b"\\"[0]
_ASCII = 127


_NESTED = ("stream_events", "messages", "metadata")
"""Columns of a frame that hold JSON text where records hold lists and objects."""
IN_MEMORY = "<memory>"
"""The name of the source that records in memory are."""


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
    payloads: str | Path | Frame | Iterable[Any], scratch: Path, *, what: str = "payloads"
) -> tuple[Source, ...]:
    """The files that a path, a glob, a list of paths or an iterable of records stands for.

    Compressed files (.gz, .zst) are unpacked into `scratch`, records are written there as lines.

    Raises:
        ConfigError: Nothing matches, or a path is not a file.
        InputFileError: A compressed file is broken.
        StoreError: The disk has no room for records.
    """
    frame = as_frame(payloads)
    if frame is not None:
        return (_spool(_records(frame), scratch / f"{what}.jsonl"),)
    if isinstance(payloads, str | Path):
        paths = _matches(str(payloads), what)
    else:
        items = list(payloads) if isinstance(payloads, list | tuple) else None
        if items is not None and items and all(isinstance(i, str | Path) for i in items):
            paths = [p for item in items for p in _matches(str(item), what)]
        else:
            records = cast("Iterable[Any]", payloads) if items is None else items
            return (_spool(records, scratch / f"{what}.jsonl"),)
    return tuple(
        Source(scrub(str(p)), _unpacked(p, scratch / f"{what}-{n}.jsonl"))
        for n, p in enumerate(paths)
    )


def index_lines(sources: Sequence[Source]) -> LineIndex:
    """Read every file once and note where its lines stand and whose they are.

    Raises:
        InputFileError: A file cannot be read.
    """
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
    with _reading(source) as file:
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


@contextmanager
def _reading(source: Source) -> Generator[BinaryIO]:
    try:
        with source.path.open("rb") as file:
            yield file
    except OSError as error:
        raise InputFileError(f"cannot be read: {error}", source=source.name) from error


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
    padded = np.append(octets, np.zeros(len(_SPACED) + _ID_ROOM, dtype=np.uint8))
    lead = padded[starts[:, None] + np.arange(len(_SPACED))]
    compact = (lead[:, : len(_COMPACT)] == _COMPACT).all(axis=1)
    spaced = (lead == _SPACED).all(axis=1)
    begins = starts + np.where(spaced, len(_SPACED), len(_COMPACT))
    room = padded[begins[:, None] + np.arange(_ID_ROOM)]
    length = np.argmax(room == _QUOTE, axis=1)
    inside = np.arange(_ID_ROOM) < length[:, None]
    plain = ~((room == _BACKSLASH) & inside).any(axis=1) & (length > 0)
    known = (compact | spaced) & plain
    text = texts(room[inside & known[:, None]].tobytes(), np.where(known, length, 0))
    if not are_utf8(text):
        for row in np.flatnonzero(known & ((room > _ASCII) & inside).any(axis=1)):
            known[row] = _is_text(room[row, : length[row]].tobytes())
        text = texts(room[inside & known[:, None]].tobytes(), np.where(known, length, 0))
    return pl.DataFrame({"id": pl.Series(text), "known": known}).select(
        session_id=pl.when(pl.col("known") & (pl.col("id").str.strip_chars() != "")).then("id")
    )["session_id"]


def _is_text(octets: bytes) -> bool:
    try:
        octets.decode()
    except UnicodeDecodeError:
        return False
    return True


def _session_id(line: str | bytes) -> str | None:
    try:
        record = loads(line)
    except ValueError:
        return None
    if not isinstance(record, dict):
        return None
    sid = cast("dict[str, Any]", record).get("session_id")
    if isinstance(sid, bool) or not isinstance(sid, str | int) or not str(sid).strip():
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
        unpack = _gunzip
    elif path.suffix in (".zst", ".zstd"):
        unpack = _unzstd
    else:
        return path
    try:
        with path.open("rb") as packed, target.open("wb") as plain:
            unpack(packed, plain)
    except (OSError, EOFError, zlib.error, *_zstd_errors()) as error:
        raise InputFileError(f"cannot be unpacked: {error}", source=str(path)) from error
    return target


def _gunzip(packed: BinaryIO, plain: BinaryIO) -> None:
    with gzip.open(packed, "rb") as unpacked:
        shutil.copyfileobj(unpacked, plain, _PIECE)


def _unzstd(packed: BinaryIO, plain: BinaryIO) -> None:
    """Frame after frame; unlike the library's own reader this one notices a file that was cut."""
    import zstandard

    frame: Any = None
    while piece := packed.read(_PIECE):
        while piece:
            if frame is None:
                frame = zstandard.ZstdDecompressor(max_window_size=_WINDOW).decompressobj()
            plain.write(frame.decompress(piece))
            piece = cast("bytes", frame.unused_data) if frame.eof else b""
            frame = None if frame.eof else frame
    if frame is not None:
        raise EOFError("the file ends in the middle of a frame")


def _zstd_errors() -> tuple[type[BaseException], ...]:
    import zstandard

    return (zstandard.ZstdError,)


def _spool(records: Iterable[Any], target: Path) -> Source:
    """Write records as lines, live message objects in their serialised form."""
    write_lines(target, map(record_line, records))
    return Source(IN_MEMORY, target)


def _records(frame: pl.DataFrame) -> Iterator[dict[str, Any]]:
    """The rows of a frame: what is null is not there, and JSON text is what it stands for."""
    for row in frame.iter_rows(named=True):
        yield {
            name: _parsed(value) if name in _NESTED else value
            for name, value in row.items()
            if value is not None
        }


def _parsed(value: Any) -> Any:
    if isinstance(value, str):
        with suppress(ValueError):
            return orjson.loads(value)
    return value


def record_line(record: Any) -> bytes:
    """One record as a line of JSON; what JSON cannot hold is written as its `repr`."""
    options = orjson.OPT_APPEND_NEWLINE | orjson.OPT_NON_STR_KEYS | orjson.OPT_PASSTHROUGH_SUBCLASS
    try:
        if not _has_odd_number(record):
            return orjson.dumps(record, default=_plain, option=options)
    except (TypeError, RecursionError):  # a number beyond 64 bits, a lone surrogate, depth
        pass
    try:
        text = json.dumps(record, default=_plain, ensure_ascii=False, skipkeys=True)
    except Exception:  # a circle, or an object that cannot be dumped
        text = json.dumps(reprlib.repr(record), ensure_ascii=False)
    return scrub(text).encode() + b"\n"


def _has_odd_number(record: Any) -> bool:
    """Whether a field is NaN or infinite, which orjson would write as null: as unknown."""
    if not isinstance(record, Mapping):
        return False
    fields = cast("Mapping[Any, Any]", record)
    metadata = fields.get("metadata")
    return any(
        isinstance(value, float) and not isfinite(value) for value in fields.values()
    ) or _has_odd_number(metadata)


def _plain(value: Any) -> Any:
    if hasattr(value, "model_dump"):
        return value.model_dump()
    if isinstance(value, tuple | set | frozenset):
        return list(cast("Iterable[Any]", value))
    for base in (dict, list, str, int, float):
        if isinstance(value, base):  # orjson passes subclasses on
            return cast("Any", base)(value)
    if isinstance(value, Mapping):
        return dict(cast("Mapping[Any, Any]", value))
    if hasattr(value, "tolist"):  # numpy's arrays and numbers
        return value.tolist()
    if isinstance(value, Decimal):
        return float(value)
    if hasattr(value, "__dict__") or hasattr(value, "__slots__"):
        return _fields(value)
    return repr(value)


def _fields(value: Any) -> Any:
    """An object of a framework (an interrupt, an overwrite, a command) as its fields."""
    slots: tuple[str, ...] = tuple(getattr(cast("Any", type(value)), "__slots__", ()))
    fields: dict[str, Any] = getattr(value, "__dict__", None) or {}
    names: list[str] = [*fields, *slots]
    return {n: getattr(value, n) for n in names if not n.startswith("_") and hasattr(value, n)}
