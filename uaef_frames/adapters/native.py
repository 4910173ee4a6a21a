"""Lines of JSON as nested columns, parsed natively: what every bulk reader begins with.

Knows DuckDB and JSON text; what the columns mean is the reader's business.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import polars as pl

from uaef_frames.arrow import json_table

if TYPE_CHECKING:
    import duckdb

    from uaef_frames.arrow import Texts


class NativeParser:
    """Parses lines into the fields of a DuckDB struct, and tells the keys of each line.

    Threads may share a parser; each gets a connection of its own.

    Args:
        fields: The struct's fields in DuckDB's words, for instance ``turn_id JSON``. A value that
            does not fit its field comes out as null.
    """

    def __init__(self, fields: str) -> None:
        self._query = (
            f"select json_keys(line) as keys, unnest(try_cast(line as STRUCT({fields}))) from lines"
        )
        self._local = threading.local()

    def parse(self, lines: Texts) -> pl.DataFrame | None:
        """One row a line: `keys` and the fields; None where one of the lines is not JSON."""
        import duckdb

        if not hasattr(self._local, "connection"):
            self._local.connection = duckdb.connect(":memory:")
        connection: duckdb.DuckDBPyConnection = self._local.connection
        connection.register("lines", json_table(lines))
        try:
            return connection.sql(self._query).pl()
        except duckdb.Error:
            return None
        finally:
            connection.unregister("lines")


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
