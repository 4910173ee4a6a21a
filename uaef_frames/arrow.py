"""What Arrow does and polars has no word for, behind a few typed functions.

Knows buffers and files. Arrow is loaded on first use, so that importing the package stays cheap; it
has no type stubs, which is why its types end here.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingTypeStubs=false

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

import numpy as np
import polars as pl

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

Texts: TypeAlias = Any
"""An Arrow array of large strings."""

_BATCH_ROWS = 2048
"""Rows of one Arrow batch: what DuckDB gives to one thread at a time."""


def texts(data: bytes, lengths: NDArray[np.int64]) -> Texts:
    """The pieces of `data`, of these lengths, as text; nothing is copied or checked."""
    import pyarrow as pa

    offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return pa.LargeStringArray.from_buffers(len(lengths), pa.py_buffer(offsets), pa.py_buffer(data))


def are_utf8(array: Texts) -> bool:
    """Whether what `texts` gave is really text."""
    import pyarrow as pa

    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def json_table(lines: Texts) -> Any:
    """A table with the column `line`, of JSON that nobody has checked, in batches for threads."""
    import pyarrow as pa

    text = pa.ExtensionArray.from_storage(pa.json_(pa.large_utf8()), lines)
    return pa.Table.from_batches(pa.table({"line": text}).to_batches(max_chunksize=_BATCH_ROWS))


def text_lists(name: str, values: Sequence[Sequence[str]]) -> pl.Series:
    """A column of lists of text; Arrow builds it some fifty times as fast as polars."""
    import pyarrow as pa

    return pl.Series(name, pa.array(values, pa.large_list(pa.large_string())))


class ArrowStream(Protocol):
    """A frame of any library that speaks Arrow: pandas, pyarrow, DuckDB."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The rows, as the Arrow interface hands them over."""
        ...


Frame: TypeAlias = pl.DataFrame | pl.LazyFrame | ArrowStream


def as_frame(given: object) -> pl.DataFrame | None:
    """A frame of polars, pandas or pyarrow, or a DuckDB relation, as one of polars; None: it is
    none.
    """
    if isinstance(given, pl.LazyFrame):
        return given.collect()
    if isinstance(given, pl.DataFrame):
        return given
    if hasattr(given, "__arrow_c_stream__"):
        return pl.DataFrame(cast("Any", given))
    return None


def file_errors() -> tuple[type[Exception], ...]:
    """What a disk that does not take a file, or give it back, is told by: three libraries have
    three words for it.
    """
    import pyarrow as pa

    return OSError, pa.ArrowException, pl.exceptions.PolarsError


def is_file_error(error: BaseException) -> bool:
    """Whether it is one of these; polars may even panic over broken bytes."""
    return isinstance(error, file_errors()) or type(error).__name__ == "PanicException"


class ParquetFile:
    """A Parquet file that grows by frames of one schema, each a row group."""

    def __init__(self, path: Path, schema: pl.Schema, dictionary: Sequence[str]) -> None:
        import pyarrow.parquet as pq

        # Parquet has no enum; text with a dictionary is what every reader understands.
        self._types = {n: pl.String() if isinstance(t, pl.Enum) else t for n, t in schema.items()}
        self._writer: Any = pq.ParquetWriter(
            path,
            self._arrow(pl.DataFrame(schema=schema)).schema,
            compression="zstd",
            compression_level=1,
            use_dictionary=cast("Any", list(dictionary)),
        )

    def append(self, frame: pl.DataFrame) -> None:
        """Write rows; the columns are taken by name."""
        self._writer.write_table(self._arrow(frame))

    def close(self) -> None:
        """Write the file's end."""
        self._writer.close()

    def abandon(self) -> None:
        """Let go of the file, whatever state it is in; nothing more is written."""
        # Or Arrow would write the end when the object is collected, and fail where nobody listens.
        self._writer.is_open = False
        with suppress(*file_errors()):
            self._writer.close()

    def _arrow(self, frame: pl.DataFrame) -> Any:
        columns = frame.select(pl.col(n).cast(t) for n, t in self._types.items())
        return columns.to_arrow(compat_level=pl.CompatLevel.oldest())
