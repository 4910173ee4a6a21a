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

import numpy as np
import polars as pl

from uaef_frames.errors import ConfigError, GroundTruthError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from numpy.typing import NDArray

    from uaef_frames.sheets.grids import Grid

Scale: TypeAlias = Literal["0-1", "1-5", "boolean"]
"""What labels can be given on."""
LEVELS: Mapping[Scale, list[str]] = {
    "0-1": ["0", "0.25", "0.5", "0.75", "1"],
    "1-5": ["1", "2", "3", "4", "5"],
    "boolean": ["0", "1"],
}
"""The levels of a scale, as people write them."""

_HEADERS = {
    "session_id": ("sessionid", "session", "conversationid"),
    "turn_id": ("turnid", "turn"),
    "metric": ("metric", "metricname"),
    "label": ("label", "human", "humanscore", "humanlabel", "rating"),
    "rater": ("rater", "annotator", "labeller", "labeler"),
}
_SCORE = "score"
_FRAME = "<frame>"
"""What a grid calls a frame."""
_HEADER_ROWS = 15
_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?")
_TRUTHS = {"true": 1.0, "false": 0.0}
KEYS = ["session_id", "turn_id", "metric"]
"""What a score is found by."""

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


def read_labels(labels: Any, scores: pl.DataFrame, metric: str | None = None) -> pl.DataFrame:
    """Labels as `LABEL_COLUMNS`, in the order given; rows without a label are left out.

    Args:
        labels: A path or glob (csv, tsv, xlsx, jsonl, json, parquet), or a frame (polars, pandas,
            pyarrow, or anything with the Arrow interface). Of a workbook the visible sheet that
            has the columns.
        scores: The run's. Labels without a column metric are about its one judged metric.
        metric: Only this one; also of labels that name none.

    Raises:
        GroundTruthError: A column is missing or twice there, or a row cannot be read; the message
            names file and row. Or there is no label.
        ConfigError: A metric is not in the run.
    """
    known = scores["metric"].unique(maintain_order=True).to_list()
    if metric is not None and metric not in known:
        raise ConfigError(_unknown(metric, known))
    found: list[tuple[Any, ...]] = []
    for grid in _grids(labels):
        source = None if grid.source == _FRAME else grid.source
        rows, lines = list(grid.rows), _json_lines(source)
        at, columns = _header(rows, source)
        named = "metric" in columns or metric is not None
        usual = metric if named else _only(_judged(scores, known), source)
        for number, cells in rows[at + 1 :]:
            line = number if lines is None else lines(number)
            row = _row(cells, columns, usual, source, line)
            if row is not None:
                found.append((*row, source, line))
    table = pl.DataFrame(found, schema=dict(LABEL_COLUMNS), orient="row")
    if table.is_empty():
        source = str(labels) if isinstance(labels, str | Path) else None
        raise GroundTruthError(
            "there is no label: every cell of the column is empty", source=source
        )
    _check_unique(table)
    wanted = table if metric is None else table.filter(pl.col("metric") == metric)
    if wanted.is_empty():
        others = ", ".join(table["metric"].unique(maintain_order=True))
        raise GroundTruthError(f"no label is about {metric!r}; they are about {others}")
    strange = wanted.filter(~pl.col("metric").is_in(known))
    if strange.height:
        row = strange.row(0, named=True)
        raise ConfigError(f"{_where(row)}: {_unknown(row['metric'], known)}")
    return wanted


def _check_unique(table: pl.DataFrame) -> None:
    by_rater = [*KEYS, "rater"]
    again = table.filter(~pl.struct(by_rater).is_first_distinct())
    if again.is_empty():
        return
    row = again.row(0, named=True)
    same = table.join(again.head(1), on=by_rater, how="semi", nulls_equal=True)
    first = same.row(0, named=True)
    where = f"row {first['row']}"
    if first["source"] != row["source"]:
        where += f" of {first['source']}"
    by = f" by {row['rater']!r}" if row["rater"] else ""
    raise GroundTruthError(
        f"{_place(row)} is labelled{by} in {where} already; keep one of them, or add a column "
        "`rater` where several people labelled it",
        source=row["source"],
        line=row["row"],
    )


def _place(row: Mapping[str, Any]) -> str:
    """A label's key in words."""
    turn = "the session itself" if row["turn_id"] is None else f"turn {row['turn_id']}"
    return f"{row['metric']!r} of session {row['session_id']!r}, {turn},"


def _grids(labels: Any) -> list[Grid]:
    """One grid a file."""
    from uaef_frames.sheets.opening import open_grids

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
        if any(
            {"session_id", "label"} <= set(_meanings(cells)) for _, cells in rows[:_HEADER_ROWS]
        ):
            fitting.append(grid)
    if len(fitting) > 1:
        names = " and ".join(repr(g.sheet) for g in fitting)
        raise GroundTruthError(
            f"sheets {names} all hold labels; put them into one, with a column `rater` where "
            "several people labelled the same",
            source=grids[0].source,
        )
    return (fitting or visible)[0]


def _json_lines(source: str | None) -> Callable[[int], int] | None:
    """From the row of a grid to what a JSON file counts; None for other files."""
    ending = "" if source is None else Path(source).suffix.lower()
    if source is None or ending not in (".json", ".jsonl", ".ndjson"):
        return None
    lines: list[int] = []
    if ending != ".json":
        text = Path(source).read_bytes().split(b"\n")
        lines = [n for n, line in enumerate(text, 1) if line.strip()]

    def counted(number: int) -> int:
        return lines[number - 2] if number - 2 < len(lines) else number - 1

    return counted


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


def _header(
    rows: Sequence[tuple[int, list[Any]]], source: str | None
) -> tuple[int, dict[str, int]]:
    """Where the header stands (titles may stand above it), and the column of each meaning."""
    if not rows:
        raise GroundTruthError("there is nothing in it", source=source)
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
        hint = "; an index of pandas is no column: reset_index()" if source is None else ""
        raise GroundTruthError(
            f"there is no column {missing[0]!r}; labels have session_id, turn_id, metric, label "
            f"and perhaps rater, and this has {', '.join(names)}{hint}",
            source=source,
        )
    for meaning, places in found.items():
        if len(places) > 1:
            twice = " and ".join(repr(header[p]) for p in places)
            raise GroundTruthError(
                f"columns {twice} both mean {meaning}; keep or rename one", source=source
            )
    if _plain(header[found["label"][0]]) == _SCORE and any(_plain(c) == "runid" for c in header):
        raise GroundTruthError(
            "its column `score` stands beside run_id, so that these are the scores of a run; "
            "put what people say into a column `label`",
            source=source,
        )
    return at, {meaning: places[0] for meaning, places in found.items()}


def _judged(scores: pl.DataFrame, known: Sequence[str]) -> list[str]:
    """The metrics of a run that a judge was asked for, or would have been."""
    from uaef_frames.metrics import list_metrics

    asked: set[str] = set()
    if "model" in scores.columns:
        asked |= set(scores.drop_nulls("model")["metric"])
    asked |= {spec.name for spec in list_metrics() if spec.by == "judge"}
    return [name for name in known if name in asked]


def _only(judged: Sequence[str], source: str | None) -> str:
    if len(judged) == 1:
        return judged[0]
    several = f"several judged metrics ({', '.join(judged)})" if judged else "no judged metric"
    raise GroundTruthError(
        f"there is no column 'metric', and the run has {several}; add the column or give metric=",
        source=source,
    )


def _row(
    cells: Sequence[Any],
    columns: Mapping[str, int],
    usual: str | None,
    source: str | None,
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
        raise GroundTruthError(error.reason, source=source, line=line, session_id=session) from None
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


def _unknown(name: str, known: Sequence[str]) -> str:
    near = get_close_matches(name, known, n=1)
    hint = f"Did you mean {near[0]!r}? " if near else ""
    return f"there is no metric {name!r} in the run. {hint}It has {', '.join(known) or 'none'}"


def _where(row: Mapping[str, Any]) -> str:
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
    metric_scale: Scale = given or registered or "0-1"
    scale = metric_scale
    if given == "0-1" and registered == "1-5":
        metric_scale = "1-5"
    elif given is None and registered is None:
        note = "not registered here: its scale is taken to be 0-1"
    elif given is None and scale == "1-5":
        above, below = (labels["label"] > 1).any(), (labels["label"] < 1).any()
        if not above and (below or labels["truth"].any()):
            scale = "0-1"
        elif not above:
            note = "every label is 1 and read as 1 of 5; scale='0-1' if 1 is the best"
    _check_range(labels, scale, given)
    low, high = (1.0, 5.0) if scale == "1-5" else (0.0, 1.0)
    unit = (pl.col("label") - low) / (high - low)
    return labels.with_columns(label=unit), scale, metric_scale, note


def _registered(name: str) -> Scale | None:
    from uaef_frames.metrics import get_metric

    try:
        scale = get_metric(name).scale
    except ConfigError:
        return None
    return "0-1" if scale == "count" else scale


def _check_range(labels: pl.DataFrame, scale: Scale, given: Scale | None) -> None:
    value = pl.col("label")
    fits = {
        "0-1": value.is_between(0, 1),
        "1-5": value.is_between(1, 5) & ~pl.col("truth"),
        "boolean": value.is_in([0.0, 1.0]),
    }
    outside = labels.filter(~fits[scale])
    if outside.is_empty():
        return
    row = outside.row(0, named=True)
    shown = ("TRUE" if row["label"] else "FALSE") if row["truth"] else f"{row['label']:g}"
    words = {"0-1": "from 0 to 1", "1-5": "from 1 to 5", "boolean": "0 or 1"}
    if given is not None:
        advice = "mend it, or give another scale="
    else:
        other = "1-5" if scale == "0-1" and labels["label"].is_between(1, 5).all() else "0-1"
        advice = "mend it"
        if other != scale:
            advice += f", or give scale={other!r} if that is what people were asked for"
    raise GroundTruthError(
        f"label {shown} for {_place(row)} is not {words[scale]}, which the labels of this metric "
        f"are on; {advice}",
        source=row["source"],
        line=row["row"],
    )


def scales_of(scale: Any, named: Collection[str]) -> dict[str, Scale | None]:
    """`scale=` by metric.

    Raises:
        ConfigError: It names no scale, or a metric that has no label.
    """
    found: dict[str, Any] = dict.fromkeys(named, None if isinstance(scale, Mapping) else scale)
    if isinstance(scale, Mapping):
        found |= cast("Mapping[str, Any]", scale)
    for name, value in found.items():
        if name not in named:
            raise ConfigError(f"scale: no label is about {name!r}, but about {sorted(named)}")
        if value is not None and value not in LEVELS:
            raise ConfigError(f"scale is one of {', '.join(LEVELS)}, not {value!r}")
    return found


def why_unmatched(lost: pl.DataFrame, scores: pl.DataFrame) -> str:
    """Words on the first label that meets no row of its metric's scores."""
    row = lost.row(0, named=True)
    turns = scores.filter(pl.col("session_id") == row["session_id"])["turn_id"].sort()
    if turns.is_empty():
        there = scores["session_id"][0]
        words = f"session {row['session_id']!r} is not in the run, which has such as {there!r}"
    elif row["turn_id"] is None:
        words = "it names no turn, and the metric is scored turn by turn"
    elif turns.is_null().all():
        words = "it names a turn, and the metric is scored once a session: leave turn_id empty"
    else:
        shown = ", ".join(str(t) for t in turns.head(5)) + (", …" if len(turns) > 5 else "")
        words = f"session {row['session_id']!r} has no turn {row['turn_id']}, but {shown}"
    return f"{_where(row)}: {words}"


def ratings_of(pairs: pl.DataFrame, found: pl.DataFrame) -> NDArray[np.float64]:
    """Judge (row 0) and raters (the other rows) by pair; NaN where a rater said nothing."""
    wide = pairs.select(KEYS).join(
        found.pivot("rater", index=KEYS, values="label"),
        on=KEYS,
        how="left",
        nulls_equal=True,
        maintain_order="left",
    )
    raters = wide.drop(KEYS).cast(pl.Float64).fill_null(float("nan")).to_numpy().T
    # What arithmetic alone holds apart is the same rank and the same value.
    both: NDArray[np.float64] = np.vstack([pairs["score"].to_numpy(), raters])
    return both.round(12)
