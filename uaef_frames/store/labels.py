"""Human labels: files and frames of what people say a score should be, checked row by row.

Knows how people write labels and on what scale; nothing of what becomes of them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from decimal import Decimal
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

import polars as pl

from uaef_frames.errors import ConfigError, GroundTruthError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from uaef_frames.sheets.grids import Grid

Scale: TypeAlias = Literal["0-1", "1-5", "boolean"]
SCALES: tuple[Scale, ...] = ("0-1", "1-5", "boolean")
"""What labels can be given on."""

_HEADERS = {
    "session_id": ("sessionid", "session", "conversationid"),
    "turn_id": ("turnid", "turn"),
    "metric": ("metric", "metricname"),
    "label": ("label", "human", "humanscore", "humanlabel", "rating"),
    "rater": ("rater", "annotator", "labeller", "labeler"),
}
_SCORE = "score"
_HEADER_ROWS = 15
_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?")
_TRUTHS = {"true": 1.0, "false": 0.0}
_KEYS = ["session_id", "turn_id", "metric", "rater"]

LABEL_COLUMNS: Mapping[str, Any] = {
    "session_id": pl.String,
    "turn_id": pl.Int64,
    "metric": pl.String,
    "rater": pl.String,
    "label": pl.Float64,
    "truth": pl.Boolean,
    "source": pl.String,
    "row": pl.Int64,
}
"""Labels as they were given: turn_id null for the session's own score; rater empty where there is
none; truth: the label was TRUE or FALSE, and is 1 or 0; source null for a frame; row as the file
counts them, the header is row 1 (of a JSON file lines or objects, from 1).
"""


def read_labels(
    labels: Any, metric: str | None = None, judged: Sequence[str] | None = None
) -> pl.DataFrame:
    """Labels as `LABEL_COLUMNS`, in the order given; rows without a label are left out.

    Args:
        labels: A path or glob (csv, tsv, xlsx, jsonl, json, parquet), or a frame (polars, pandas,
            pyarrow, or anything with the Arrow interface). Of a workbook the visible sheet that
            has the columns.
        metric: The metric of rows that name none.
        judged: The metrics that labels without a column `metric` can be about; the only one is
            taken.

    Raises:
        GroundTruthError: A column is missing or twice there, or a row cannot be read; the message
            names file and row.
    """
    found: list[tuple[Any, ...]] = []
    for grid in _grids(labels):
        rows = list(grid.rows)
        lines = _json_lines(grid.source)
        at, columns = _header(rows, grid.source)
        if "metric" in columns or metric is not None:
            usual = metric
        else:
            usual = _only(judged or (), grid.source)
        for number, cells in rows[at + 1 :]:
            line = number if lines is None else lines(number)
            row = _row(cells, columns, usual, grid.source, line)
            if row is not None:
                found.append((*row, None if grid.source == "<frame>" else grid.source, line))
    table = pl.DataFrame(found, schema=dict(LABEL_COLUMNS), orient="row")
    _check_unique(table)
    return table


def _check_unique(table: pl.DataFrame) -> None:
    again = table.filter(~table.select(_KEYS).is_first_distinct())
    if again.is_empty():
        return
    row = again.row(0, named=True)
    first = table.join(again.head(1), on=_KEYS, how="semi", nulls_equal=True).row(0, named=True)
    where = f"row {first['row']}"
    if first["source"] != row["source"]:
        where += f" of {first['source']}"
    by = f" by {row['rater']!r}" if row["rater"] else ""
    raise GroundTruthError(
        f"{place(row)} is labelled{by} in {where} already; keep one of them, or add a column "
        "`rater` where several people labelled it",
        source=row["source"],
        line=row["row"],
    )


def place(row: Mapping[str, Any]) -> str:
    """A label's key in words."""
    turn = "the session itself" if row["turn_id"] is None else f"turn {row['turn_id']}"
    return f"{row['metric']!r} of session {row['session_id']!r}, {turn},"


def _grids(labels: Any) -> list[Grid]:
    """One grid a file."""
    from uaef_frames.sheets.grids import open_grids

    is_frame = isinstance(labels, pl.DataFrame | pl.LazyFrame)
    if not (isinstance(labels, str | Path) or is_frame or hasattr(labels, "__arrow_c_stream__")):
        raise GroundTruthError(f"labels are a path or a frame, not a {type(labels).__name__}")
    try:
        grids = open_grids(labels)
    except GroundTruthError:
        raise
    except Exception as error:  # whatever a foreign frame does on its way through Arrow
        words = f"{type(error).__name__}: {error}".partition("\n")[0][:300]
        raise GroundTruthError(
            f"the frame cannot be read: {words}; give every column one type, text if need be"
        ) from error
    sources = dict.fromkeys(g.source for g in grids)
    return [_sheet([g for g in grids if g.source == s]) for s in sources]


def _sheet(grids: Sequence[Grid]) -> Grid:
    """The sheet that holds labels."""
    if len(grids) == 1:
        return grids[0]
    fitting: list[Grid] = []
    visible = [g for g in grids if not g.hidden] or grids
    for grid in visible:
        rows = list(grid.rows)
        grid.rows = iter(rows)
        if any({"session_id", "label"} <= set(_meanings(cells)) for _, cells in rows[:_HEADER_ROWS]):
            fitting.append(grid)
    if len(fitting) > 1:
        names = " and ".join(repr(g.sheet) for g in fitting)
        raise GroundTruthError(
            f"sheets {names} all hold labels; put them into one, with a column `rater` where "
            "several people labelled the same",
            source=grids[0].source,
        )
    return (fitting or visible)[0]


def _json_lines(source: str) -> Any:
    """From the row of a grid to what a JSON file counts; None for other files."""
    ending = Path(source).suffix.lower()
    if source == "<frame>" or ending not in (".json", ".jsonl", ".ndjson"):
        return None
    lines: list[int] = []
    if ending != ".json":
        text = Path(source).read_bytes().split(b"\n")
        lines = [n for n, line in enumerate(text, 1) if line.strip()]
    return lambda number: lines[number - 2] if number - 2 < len(lines) else number - 1


def _meanings(cells: Sequence[Any]) -> dict[str, list[int]]:
    """The columns by what they mean. A run's `score` beside a `label` is the judge's."""
    found: dict[str, list[int]] = {}
    for at, cell in enumerate(cells):
        plain = _plain(cell)
        meaning = next((m for m, known in _HEADERS.items() if plain in known), None)
        if plain == _SCORE:
            meaning = _SCORE
        if meaning is not None:
            found.setdefault(meaning, []).append(at)
    scores = found.pop(_SCORE, None)
    if scores and "label" not in found:
        found["label"] = scores
    return found


def _plain(cell: Any) -> str:
    return re.sub(r"[\s_\-\u200b\ufeff]+", "", cell).casefold() if isinstance(cell, str) else ""


def _header(rows: Sequence[tuple[int, list[Any]]], source: str) -> tuple[int, dict[str, int]]:
    """Where the header stands (titles may stand above it), and the column of each meaning."""
    shown = None if source == "<frame>" else source
    if not rows:
        raise GroundTruthError("there is nothing in it", source=shown)
    needed = ("session_id", "label")
    at, found = next(
        (
            (n, meant)
            for n, (_, cells) in enumerate(rows[:_HEADER_ROWS])
            if all(name in (meant := _meanings(cells)) for name in needed)
        ),
        (0, _meanings(rows[0][1])),
    )
    header = rows[at][1]
    names = [str(c) for c in header if c is not None]
    missing = [name for name in needed if name not in found]
    if missing:
        hint = "; an index of pandas is no column: reset_index()" if shown is None else ""
        raise GroundTruthError(
            f"there is no column {missing[0]!r}; labels have session_id, turn_id, metric, label "
            f"and perhaps rater, and this has {', '.join(names)}{hint}",
            source=shown,
        )
    for meaning, places in found.items():
        if len(places) > 1:
            twice = " and ".join(repr(header[p]) for p in places)
            raise GroundTruthError(
                f"columns {twice} both mean {meaning}; keep or rename one", source=shown
            )
    if _plain(header[found["label"][0]]) == _SCORE and any(_plain(c) == "runid" for c in header):
        raise GroundTruthError(
            "its column `score` stands beside run_id, so that these are the scores of a run; "
            "put what people say into a column `label`",
            source=shown,
        )
    return at, {meaning: places[0] for meaning, places in found.items()}


def _only(judged: Sequence[str], source: str) -> str:
    if len(judged) == 1:
        return judged[0]
    several = f"several judged metrics ({', '.join(judged)})" if judged else "no judged metric"
    raise GroundTruthError(
        f"there is no column 'metric', and the run has {several}; add the column or give metric=",
        source=None if source == "<frame>" else source,
    )


def _row(
    cells: Sequence[Any],
    columns: Mapping[str, int],
    usual: str | None,
    source: str,
    line: int,
) -> tuple[Any, ...] | None:
    """session_id, turn_id, metric, rater, label, truth; None for a row without a label."""
    from uaef_frames.sheets.cells import identifier, turn_number

    def cell(meaning: str) -> Any:
        at = columns.get(meaning)
        return None if at is None or at >= len(cells) else cells[at]

    def say(severity: str, message: str) -> None:
        """An id that was repaired and is not the run's is counted with the unmatched labels."""

    session: str | None = None
    try:
        session = identifier(cell("session_id"), say)
        label = _label(cell("label"))
        if label is None:
            return None
        if session is None:
            raise GroundTruthError("session_id is empty")
        turn = turn_number(cell("turn_id"), say)
        name = identifier(cell("metric"), say) or usual
        if name is None:
            raise GroundTruthError("metric is empty; fill it in, or give metric=")
        rater = identifier(cell("rater"), say) or ""
    except GroundTruthError as error:
        raise GroundTruthError(
            error.reason,
            source=None if source == "<frame>" else source,
            line=line,
            session_id=session,
        ) from None
    return session, turn if isinstance(turn, int) else None, name, rater, *label


def _label(cell: Any) -> tuple[float, bool] | None:
    """A label, and whether it was written as TRUE or FALSE; None for an empty cell."""
    from uaef_frames.expectations import is_blank
    from uaef_frames.sheets.cells import plain
    from uaef_frames.sheets.grids import Shown

    value = plain(cell, lambda severity, message: None)
    if is_blank(value):
        return None
    if isinstance(value, bool):
        return float(value), True
    if isinstance(value, Shown):
        value = value.value
    number = math.nan
    if isinstance(value, int | float | Decimal):
        number = float(value)
    elif isinstance(value, str):
        bare = value.strip()
        if bare.lower() in _TRUTHS:
            return _TRUTHS[bare.lower()], True
        if _NUMBER.fullmatch(bare):
            number = float(bare)
    if not math.isfinite(number):
        shown = f"{value!r:.60}" if isinstance(value, str) else f"{value!s:.60}"
        raise GroundTruthError(
            f"label {shown} is no number; write one, with a point, or leave the cell empty"
        )
    return number, False


def check_metrics(labels: pl.DataFrame, known: Sequence[str]) -> None:
    """Every label is about a metric of the run.

    Raises:
        ConfigError: One is not; the message names its row.
    """
    strange = labels.filter(~pl.col("metric").is_in(list(known)))
    if strange.height:
        row = strange.row(0, named=True)
        raise ConfigError(f"{where(row)}: {unknown_metric(row['metric'], known)}")


def unknown_metric(name: str, known: Sequence[str]) -> str:
    """Words for a metric that the run has not."""
    near = get_close_matches(name, known, n=1)
    hint = f"Did you mean {near[0]!r}? " if near else ""
    held = ", ".join(known) if known else "no score at all"
    return f"there is no metric {name!r} in the run. {hint}The run has {held}"


def where(row: Mapping[str, Any]) -> str:
    """A label's file and row."""
    source = "labels" if row["source"] is None else row["source"]
    return f"{source}, row {row['row']}"


def on_unit(
    name: str, labels: pl.DataFrame, given: Scale | None
) -> tuple[pl.DataFrame, Scale, Scale, str | None]:
    """Labels of one metric on [0, 1]: (labels, scale they were on, scale of the metric, a note).

    Without `given` the metric's registered scale counts (`count`, and a metric that is not
    registered here: 0-1). Labels of a 1–5 metric are on 1–5 if one is above 1, on [0, 1] if none
    is and one is below 1; if all are 1 they are read as 1 of 5, and the note says so. TRUE and
    FALSE are never on 1–5. A `given` scale is also the metric's, except that 0-1 says nothing of
    a 1–5 metric but how its labels are written.

    Raises:
        GroundTruthError: A label lies outside of its scale; the message names the row.
    """
    registered = _registered(name)
    note = None
    if given is not None:
        scale = given
        metric_scale: Scale = "1-5" if (given, registered) == ("0-1", "1-5") else given
    else:
        scale = metric_scale = registered or "0-1"
        if registered is None:
            note = "not registered here, its scale is taken to be 0-1"
        if scale == "1-5":
            least, most = cast("tuple[float, float]", labels["label"].min_max()) \
                if hasattr(labels["label"], "min_max") else (labels["label"].min(), labels["label"].max())
    return labels, scale, metric_scale, note
