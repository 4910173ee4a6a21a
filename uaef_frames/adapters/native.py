"""Lines of JSON as nested columns, parsed natively: what every bulk reader begins with.

Knows DuckDB and JSON text; what the columns mean is the reader's business.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

_BATCH_ROWS = 2048
"""Rows of one Arrow batch: what DuckDB gives to one thread at a time."""


class NativeParser:
    """Parses lines into the fields of a DuckDB struct, and tells the keys of each line.

    Args:
        fields: The struct's fields in DuckDB's words, for instance ``turn_id JSON``. A value that
            does not fit its field comes out as null.
    """

    def __init__(self, fields: str) -> None:
        self._query = (
            f"select json_keys(line) as keys, unnest(try_cast(line as STRUCT({fields}))) from lines"
        )
        self._connection: duckdb.DuckDBPyConnection | None = None

    def parse(self, lines: pa.LargeStringArray) -> pl.DataFrame | None:
        """One row a line: `keys` and the fields; None where one of the lines is not JSON."""
        import duckdb
        import pyarrow as pa

        if self._connection is None:
            self._connection = duckdb.connect(":memory:")
        text = pa.ExtensionArray.from_storage(pa.json_(pa.large_utf8()), lines)
        table = pa.table({"line": text})
        batches = pa.Table.from_batches(table.to_batches(max_chunksize=_BATCH_ROWS))
        self._connection.register("lines", batches)
        try:
            return pl.DataFrame(self._connection.sql(self._query).to_arrow_table())
        except duckdb.Error:
            return None
        finally:
            self._connection.unregister("lines")


def unquoted(column: str) -> pl.Expr:
    """The text of a JSON string column: quotes are cut off, rows with escapes are decoded."""
    raw = pl.col(column)
    bare = raw.str.strip_prefix('"').str.strip_suffix('"')
    escaped = raw.str.contains("\\", literal=True) & raw.str.starts_with('"')
    decoded = pl.when(escaped).then(raw).str.json_decode(pl.String)
    return pl.when(escaped).then(decoded).otherwise(bare)


def only_keys(allowed: tuple[str, ...]) -> pl.Expr:
    """Whether `keys` are among these, each once; keys that begin with an underscore are notes."""
    keys = pl.col("keys")
    unknown = pl.element().filter(
        ~pl.element().is_in(list(allowed)) & ~pl.element().str.starts_with("_")
    )
    once = keys.list.n_unique() == keys.list.len()
    return (keys.list.eval(unknown).list.len() == 0) & once
