"""Answers: what one SELECT comes to, as a frame that can be shown and written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import polars as pl

from uaef_frames.arrow import is_file_error
from uaef_frames.errors import StoreError
from uaef_frames.store.escaping import is_text

if TYPE_CHECKING:
    import duckdb

_ONE_SELECT = "only one SELECT at a time; the run is read-only"
_DAYS = (-719_162, 2_932_897)
"""The first day of the year 1, and that of 10000, counted from 1970."""
_PER_DAY = {"ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}


def select_only(
    connection: duckdb.DuckDBPyConnection, query: str, params: dict[str, Any] | None = None
) -> pl.DataFrame:
    """The answer to one SELECT.

    Raises:
        StoreError: It is anything else, or DuckDB cannot answer it.
    """
    import duckdb

    if not is_text(query):
        raise StoreError(f"a query is text that UTF-8 can hold, not {query!r}")
    try:
        statements = connection.extract_statements(query)
        if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
            raise StoreError(_ONE_SELECT)
        found = connection.sql(query, params=params)
    except duckdb.Error as error:
        raise StoreError(f"{error}") from error
    except ValueError as error:  # a kind of statement that Python has no name for
        raise StoreError(_ONE_SELECT) from error
    try:
        return _as_integers(_in_range(found.pl()))
    except duckdb.Error as error:
        raise StoreError(f"{error}") from error
    except BaseException as error:
        if not is_file_error(error) or isinstance(error, OSError):
            raise
        raise StoreError(
            f"the answer holds what no frame can: {error}; cast it in the query, such as x::varchar"
        ) from error


def _in_range(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame, if Python has its dates: polars would panic where it shows them.

    Raises:
        StoreError: It has not.
    """
    for name, kind in frame.schema.items():
        if isinstance(kind, pl.Date | pl.Datetime):
            per_day = _PER_DAY[kind.time_unit or "us"] if isinstance(kind, pl.Datetime) else 1
            first, last = (day * per_day for day in _DAYS)
            if not frame[name].to_physical().is_between(first, last, closed="left").all():
                raise StoreError(
                    f"the answer's column {name!r} holds a date outside the years 1 to 9999; "
                    "cast it in the query, such as x::varchar"
                )
    return frame


def _as_integers(frame: pl.DataFrame) -> pl.DataFrame:
    """Sums of whole numbers as Int64 where they fit: DuckDB gives decimals of 38 digits."""
    most = 2**63 - 1
    for name, kind in frame.schema.items():
        if isinstance(kind, pl.Decimal) and kind.scale == 0:
            fits = frame[name].cast(pl.Int128).abs().max()
            if fits is None or cast("int", fits) <= most:
                frame = frame.with_columns(pl.col(name).cast(pl.Int64))
    return frame
