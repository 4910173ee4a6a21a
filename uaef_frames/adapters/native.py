"""Lines of JSON as nested columns, parsed natively: what every bulk reader begins with.

Knows DuckDB and JSON text; what the columns mean is the reader's business.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import polars as pl

from uaef_frames.arrow import json_table
from uaef_frames.canonical import canonical_texts

if TYPE_CHECKING:
    import duckdb

    from uaef_frames.arrow import Texts


BLANK = r"^[\s\x1c-\x1f]*$"
"""What Python takes for blank text; the last four are no white space to others."""
_LENIENT = r",[ \t\r\n]*[}\]]|[:,\[][ \t\r\n]*-?(?:NaN|nan|NAN|Inf|inf|INF)"
"""What DuckDB takes for JSON and JSON is not: commas with nothing behind them, NaN and infinity."""


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
        """One row a line: `strict`, `keys` and the fields; None where a line is not JSON.

        `strict` is false where a line may be JSON to DuckDB only.
        """
        import duckdb

        if not hasattr(self._local, "connection"):
            self._local.connection = duckdb.connect(":memory:")
        connection: duckdb.DuckDBPyConnection = self._local.connection
        connection.register("lines", json_table(lines))
        try:
            parsed = connection.sql(self._query).pl()
        except (duckdb.Error, UnicodeDecodeError):  # the latter where its message quotes bad bytes
            return None
        finally:
            connection.unregister("lines")
        return parsed.with_columns(strict=~pl.Series(lines).str.contains(_LENIENT))


def unquoted(column: str) -> pl.Expr:
    """The text of a JSON string column: quotes are cut off, rows with escapes are decoded."""
    raw = pl.col(column)
    bare = raw.str.strip_prefix('"').str.strip_suffix('"')
    escaped = raw.str.contains("\\", literal=True) & raw.str.starts_with('"')
    decoded = pl.when(escaped).then(raw).str.json_decode(pl.String)
    return pl.when(escaped).then(decoded).otherwise(bare)


def is_written_as_text(column: str) -> pl.Expr:
    """Whether a text that DuckDB made of any JSON value surely was text, or a plain integer.

    Not so for what `true`, 1.5, {...} and [...] look like as text, though it may have been text.
    """
    return ~pl.col(column).str.contains(
        r"^(?:[\[{]|true$|false$|-?[0-9]+(?:[.eE]|[0-9]{18})|-?(?i:nan|inf))"
    )


def canonical_objects(texts: pl.Series) -> pl.Series:
    """Canonical JSON of JSON objects; null for a row that is none, or needs a closer look."""
    places = texts.str.starts_with("{").fill_null(value=False).arg_true()
    given = texts.gather(places).to_list()
    try:
        made: list[str | None] = [*canonical_texts(given)]
    except _NOT_CANONICAL:
        made = [_canonical_or_none(text) for text in given]
    nothing = pl.Series(texts.name, [None], dtype=pl.String).new_from_index(0, len(texts))
    return nothing.scatter(places, pl.Series(made, dtype=pl.String))


_NOT_CANONICAL = (ValueError, TypeError, RecursionError)
"""What comes of numbers that no float holds, and of deep nesting."""


def _canonical_or_none(text: str) -> str | None:
    try:
        return canonical_texts([text])[0]
    except _NOT_CANONICAL:
        return None


def only_keys(allowed: tuple[str, ...]) -> pl.Expr:
    """Whether `keys` are among these, each once; keys that begin with an underscore are notes."""
    keys = pl.col("keys")
    unknown = pl.element().filter(
        ~pl.element().is_in(list(allowed)) & ~pl.element().str.starts_with("_")
    )
    once = keys.list.n_unique() == keys.list.len()
    return (keys.list.eval(unknown).list.len() == 0) & once
