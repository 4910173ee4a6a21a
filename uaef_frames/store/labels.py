"""Human labels: files and frames of what people say a score should be, checked row by row."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import polars as pl

from uaef_frames.errors import GroundTruthError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_HEADERS = {
    "session_id": ("sessionid", "session", "conversationid"),
    "turn_id": ("turnid", "turn"),
    "metric": ("metric", "metricname"),
    "label": ("label", "score", "human", "humanscore", "humanlabel", "rating"),
    "rater": ("rater", "annotator", "labeller", "labeler"),
}
LABEL_COLUMNS = {
    "session_id": pl.String,
    "turn_id": pl.Int64,
    "metric": pl.String,
    "rater": pl.String,
    "label": pl.Float64,
}
"""Labels as they are compared: turn_id null for the session's own score, `label` as it was
given.
"""


def read_labels(labels: Any, metric: str | None = None) -> pl.DataFrame:
    """Labels as `LABEL_COLUMNS`, in the order given; rows without a label are left out.

    Args:
        labels: A path (csv, tsv, xlsx, jsonl, parquet) or a frame (polars, pandas, pyarrow, or
            anything with the Arrow interface).
        metric: The metric of all rows, where they have no such column.

    Raises:
        GroundTruthError: A column is missing or twice there, or a row cannot be read; the message
            names the file and the row, counted as the file counts them (the header is row 1).
    """
    source, frame = _frame(labels)
    columns = _columns(frame.columns, source, metric)
    rows = frame.select(pl.col(columns[name]).alias(name) for name in columns)
    found = [
        _row(row, number, source, metric)
        for number, row in enumerate(rows.iter_rows(named=True), 2)
    ]
    table = pl.DataFrame([r for r in found if r is not None], schema=LABEL_COLUMNS, orient="row")
    keys = ["session_id", "turn_id", "metric", "rater"]
    doubled = table.filter(table.select(keys).is_duplicated())
    if doubled.height:
        row = doubled.row(0, named=True)
        raise GroundTruthError(
            f"session {row['session_id']!r}, turn {row['turn_id']}, {row['metric']!r} is labelled "
            "more than once; add a column `rater` where several people labelled it",
            source=source,
        )
    return table


def _frame(labels: Any) -> tuple[str | None, pl.DataFrame]:
    if isinstance(labels, str | Path):
        return str(labels), _read_file(Path(labels))
    if isinstance(labels, pl.DataFrame):
        return None, labels
    if isinstance(labels, pl.LazyFrame):
        return None, labels.collect()
    if hasattr(labels, "__arrow_c_stream__"):
        return None, pl.DataFrame(labels)
    raise GroundTruthError(f"labels are a path or a frame, not a {type(labels).__name__}")


def _read_file(path: Path) -> pl.DataFrame:
    ending = path.suffix.lower()
    try:
        if ending in (".csv", ".tsv"):
            separator = "\t" if ending == ".tsv" else ","
            return pl.read_csv(path, separator=separator, infer_schema=False)
        if ending in (".jsonl", ".ndjson"):
            return pl.read_ndjson(path, infer_schema_length=None)
        if ending == ".parquet":
            return pl.read_parquet(path)
        if ending in (".xlsx", ".xlsm"):
            return _read_workbook(path)
    except (OSError, pl.exceptions.PolarsError, ValueError, KeyError) as error:
        raise GroundTruthError(f"it cannot be read: {error}", source=str(path)) from error
    raise GroundTruthError("labels are csv, tsv, xlsx, jsonl or parquet", source=str(path))


def _read_workbook(path: Path) -> pl.DataFrame:
    from openpyxl import load_workbook

    book = load_workbook(path, read_only=True, data_only=True)
    try:
        rows = [list(row) for row in book.worksheets[0].iter_rows(values_only=True)]
    finally:
        book.close()
    if not rows:
        raise ValueError("the first sheet is empty")
    header = [str(h) if h is not None else f"column {n}" for n, h in enumerate(rows[0], 1)]
    columns = {name: [_cell_text(row[n]) for row in rows[1:]] for n, name in enumerate(header)}
    return pl.DataFrame(columns, schema=dict.fromkeys(header, pl.String))


def _cell_text(value: object) -> str | None:
    if value is None:
        return None
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def _columns(names: Sequence[str], source: str | None, metric: str | None) -> dict[str, str]:
    found: dict[str, str] = {}
    for name in names:
        plain = re.sub(r"[\s_\-\u00a0\ufeff]+", "", name).lower()
        meaning = next((m for m, known in _HEADERS.items() if plain in known), None)
        if meaning is None:
            continue
        if meaning in found:
            raise GroundTruthError(
                f"columns {found[meaning]!r} and {name!r} both mean {meaning}", source=source
            )
        found[meaning] = name
    needed = ["session_id", "label", *([] if metric is not None else ["metric"])]
    missing = [n for n in needed if n not in found]
    if missing:
        raise GroundTruthError(
            f"there is no column {missing[0]!r}; labels have session_id, turn_id, metric, label "
            f"and perhaps rater, and this has {list(names)}",
            source=source,
        )
    return found


def _row(
    row: Mapping[str, Any], number: int, source: str | None, metric: str | None
) -> tuple[Any, ...] | None:
    def wrong(words: str) -> GroundTruthError:
        return GroundTruthError(words, source=source, line=number)

    label = _text(row["label"])
    session = _text(row["session_id"])
    if label is None:
        return None
    if session is None:
        raise wrong("session_id is empty")
    try:
        value = float(label)
    except ValueError:
        raise wrong(f"label {label!r} is no number") from None
    if not math.isfinite(value):
        raise wrong(f"label {label!r} is no number")
    turn = _text(row.get("turn_id"))
    if turn is not None and not re.fullmatch(r"-?\d+(\.0+)?", turn):
        raise wrong(f"turn_id {turn!r} is no whole number")
    name = _text(row.get("metric")) or metric
    if name is None:
        raise wrong("metric is empty")
    turn_id = None if turn is None else int(float(turn))
    return session, turn_id, name, _text(row.get("rater")) or "", value


def _text(value: object) -> str | None:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    text = _cell_text(value)
    stripped = cast("str", text).strip()
    return stripped or None
