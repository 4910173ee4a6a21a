"""Plots of a run and of a comparison: frames in, altair charts out.

A chart shows itself in notebooks, and `.save("x.svg")`, `.png` or `.html` needs no browser. What is
drawn is counted in polars first, so that a chart of a million turns is as small as one of ten.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from uaef_frames.look.drawing import LABEL, data, library, rows_of, seconds, short, tooltips, words

if TYPE_CHECKING:
    import altair

WIDTH = 480
_MOST_TURNS = 100
"""Turn numbers on an axis; of longer sessions, several neighbours share a place."""
_MOST_POINTS = 2_000
_CELLS = (48, 20)
"""Columns and rows of a heat map."""
_BINS = 20
_BLUE, _ORANGE, _GREY = "#3b6fb6", "#d9822b", "#8a8f98"


def plot_dimensions(dimensions: pl.DataFrame, title: str = "") -> altair.TopLevelMixin:
    """Dimensions with their intervals and thresholds.

    Args:
        dimensions: dimension, mean, low, high, threshold, sessions_scored, sessions, pass_rate, as
            `Run.dimension_summary()` gives them.
        title: Above the chart.
    """
    alt = library()
    shown = dimensions.with_columns(
        state=pl.when(pl.col("mean") < pl.col("threshold"))
        .then(pl.lit("below its threshold"))
        .otherwise(pl.lit("reached, or none set")),
    ).with_columns(short("dimension", LABEL))
    y = rows_of(alt, shown, "dimension")
    colour = alt.Color("state:N", title="threshold").scale(
        domain=["reached, or none set", "below its threshold"], range=[_BLUE, _ORANGE]
    )
    tips = tooltips(
        alt,
        {
            "dimension:N": "dimension",
            "mean:Q": "mean",
            "low:Q": "95 % from",
            "high:Q": "to",
            "threshold:Q": "threshold",
            "pass_rate:Q": "pass rate",
            "sessions_scored:N": "sessions scored",
            "sessions:N": "of",
        },
    )
    base = alt.Chart(data(shown))
    x = alt.X("mean:Q", title="mean over sessions, with its 95 % interval").scale(domain=[0, 1])
    bars = base.mark_bar(opacity=0.85, height={"band": 0.6}).encode(
        x=x, y=y, color=colour, tooltip=tips
    )
    spans = base.mark_rule(color="black", strokeWidth=1.5).encode(x="low:Q", x2="high:Q", y=y)
    marks = base.mark_tick(color="black", thickness=2.5, height=26).encode(x="threshold:Q", y=y)
    return _titled(bars + spans + marks, title, "the upright mark is the threshold")


def plot_scores(scores: pl.LazyFrame, turns: pl.LazyFrame, metric: str) -> altair.TopLevelMixin:
    """How the scores of a metric are spread: by turn number, or over sessions.

    Args:
        scores: session_id, turn_id, metric, score, as in `Run.scores`.
        turns: session_id, turn_id, turn_index, as in `Run.turns`.
        metric: The metric; one of whole conversations is shown as a histogram.
    """
    mine = scores.filter(metric=metric).select("session_id", "turn_id", "score")
    of_turns = mine.join(
        turns.select("session_id", "turn_id", "turn_index"), on=["session_id", "turn_id"]
    )
    of_whole = mine.filter(pl.col("turn_id").is_null()).select(pl.col("score").count())
    turns_scored = of_turns.select(pl.col("score").count()).collect().item()
    if turns_scored or (
        not of_whole.collect().item() and of_turns.select(pl.len()).collect().item()
    ):
        return _by_turn(of_turns, metric)
    return _histogram(mine.filter(pl.col("turn_id").is_null()), metric)


def _by_turn(scores: pl.LazyFrame, metric: str) -> Any:
    alt = library()
    longest: int = scores.select(pl.col("turn_index").max()).collect().item()
    step = -(-longest // _MOST_TURNS)
    score = pl.col("score")
    first = (pl.col("turn_index") - 1) // step * step + 1
    spread = (
        scores.group_by(turn=first)
        .agg(
            **{f"q{q}": score.quantile(q / 100, "linear") for q in (10, 25, 50, 75, 90)},
            mean=score.sort().mean(),
            scored=score.count(),
            measured=pl.len(),
        )
        .sort("turn")
        .collect()
    )
    base = alt.Chart(data(spread))
    x = alt.X("turn:O", title="turn number" if step == 1 else f"turn number, {step} to a place")
    x = x.axis(labelAngle=0, labelOverlap=True)
    tips = tooltips(
        alt,
        {
            "turn:O": "turn",
            "mean:Q": "mean",
            "q10:Q": "10 %",
            "q50:Q": "median",
            "q90:Q": "90 %",
            "scored:N": "scored",
            "measured:N": "of",
        },
    )
    y = {"title": "score", "scale": alt.Scale(domain=[0, 1])}
    wide = base.mark_rule(color=_GREY).encode(x=x, y=alt.Y("q10:Q", **y), y2="q90:Q")
    middle = base.mark_bar(color=_BLUE, opacity=0.45, width={"band": 0.5}).encode(
        x=x, y=alt.Y("q25:Q", **y), y2="q75:Q", tooltip=tips
    )
    median = base.mark_tick(color=_BLUE, thickness=2.5).encode(x=x, y=alt.Y("q50:Q", **y))
    mean = base.mark_line(color=_ORANGE, point={"color": _ORANGE, "filled": True}).encode(
        x=x, y=alt.Y("mean:Q", **y), tooltip=tips
    )
    upper = _titled(
        wide + middle + median + mean,
        metric,
        "line: mean; box: the middle half, with its median; thin rule: from 10 % to 90 %",
    )
    lower = (
        base.mark_bar(color=_GREY)
        .encode(x=x, y=alt.Y("scored:Q", title="scored"), tooltip=tips)
        .properties(width=WIDTH, height=60)
    )
    return alt.vconcat(upper, lower).resolve_scale(x="shared")


def _histogram(scores: pl.LazyFrame, metric: str) -> Any:
    alt = library()
    place = (pl.col("score") * _BINS).floor().clip(0, _BINS - 1)
    counted = (
        scores.drop_nulls("score")
        .group_by(low=place / _BINS, high=(place + 1) / _BINS)
        .agg(sessions=pl.len())
        .sort("low")
        .collect()
    )
    found = scores.select(
        scored=pl.col("score").count(), mean=pl.col("score").sort().mean(), all=pl.len()
    ).collect()
    scored, mean, every = found.row(0)
    bars = (
        alt.Chart(data(counted))
        .mark_bar(color=_BLUE)
        .encode(
            x=alt.X("low:Q", title="score", scale=alt.Scale(domain=[0, 1])),
            x2="high:Q",
            y=alt.Y("sessions:Q", title="sessions", axis=alt.Axis(tickMinStep=1)),
            tooltip=tooltips(alt, {"low:Q": "from", "high:Q": "to", "sessions:N": "sessions"}),
        )
    )
    line = (
        alt.Chart(data(found)).mark_rule(color=_ORANGE, strokeWidth=2).encode(x=alt.X("mean:Q"))
        if scored
        else bars
    )
    said = f"{scored} of {every} conversations scored"
    return _titled(
        bars + line if scored else bars, metric, said + (f", mean {mean:.3f}" if scored else "")
    )


def plot_timeline(
    turns: pl.DataFrame, scores: pl.DataFrame, session_id: str
) -> altair.TopLevelMixin:
    """One conversation: each metric at each turn, and how long the turns took.

    Args:
        turns: Turns of the session: turn_id, turn_index, query, response, latency_s.
        scores: Its scores: turn_id, metric, score, warning, reasoning. Those of the conversation as
            a whole (turn_id null) stand in a last column.
        session_id: For the title.
    """
    alt = library()
    scores = scores.with_columns(short("metric", LABEL))
    step = -(-turns.height // _MOST_TURNS) or 1
    first = (pl.col("turn_index") - 1) // step * step + 1
    placed = turns.select(
        "turn_id",
        short("query"),
        short("response"),
        seconds("latency_s"),
        place=first.cast(pl.String),
    )
    cells = (
        scores.join(placed.select("turn_id", "place", "query"), on="turn_id", how="left")
        .group_by("metric", pl.col("place").fill_null("whole"), maintain_order=True)
        .agg(
            pl.col("score").sort().mean(),
            *(pl.col(c).drop_nulls().first() for c in ("warning", "reasoning", "query")),
        )
        .with_columns(short("reasoning"))
    )
    places = [str(n) for n in range(1, turns.height + 1, step)]
    order = [*places, *(["whole"] if "whole" in cells["place"] else [])]
    x = alt.X("place:O", sort=order, title="turn").scale(domain=order)
    x = x.axis(labelAngle=0, labelOverlap=True, orient="bottom")
    tips = tooltips(
        alt,
        {
            "metric:N": "metric",
            "place:N": "turn",
            "score:Q": "score",
            "warning:N": "no score",
            "reasoning:N": "why",
            "query:N": "asked",
        },
    )
    y = rows_of(alt, scores, "metric")
    scored = (
        alt.Chart(data(cells.drop_nulls("score")))
        .mark_rect(stroke="white")
        .encode(
            x=x,
            y=y,
            color=alt.Color("score:Q").scale(scheme="viridis", domain=[0, 1]),
            tooltip=tips,
        )
    )
    without = (
        alt.Chart(data(cells.filter(pl.col("score").is_null())))
        .mark_text(text="–", color=_GREY)
        .encode(x=x, y=y, tooltip=tips)
    )
    waits = (
        alt.Chart(data(placed))
        .mark_bar(color=_GREY)
        .encode(
            x=x,
            y=alt.Y("latency_s:Q", title="seconds", aggregate="mean"),
            tooltip=tooltips(
                alt, {"query:N": "asked", "response:N": "answered", "latency_s:Q": "seconds"}
            )
            if step == 1
            else alt.Undefined,
        )
        .properties(width=WIDTH, height=60)
    )
    upper = _titled(scored + without, session_id, "each metric at each turn; – : no score")
    return alt.vconcat(upper, waits)


def plot_compare(table: pl.DataFrame, run_a: str, run_b: str) -> altair.TopLevelMixin:
    """What changed from one run to another: differences with their 95 % intervals.

    Args:
        table: `Comparison.table`: kind, name, mean_a, mean_b, difference, low, high, p_holm, n.
        run_a: The run before, for the title.
        run_b: The run after.
    """
    alt = library()
    states = {"B is better": _BLUE, "B is worse": _ORANGE, "not told apart": _GREY}
    sure = pl.col("p_holm") < 0.05
    shown = (
        table.drop_nulls("difference")
        .with_columns(
            state=pl.when(sure & (pl.col("difference") > 0))
            .then(pl.lit("B is better"))
            .when(sure)
            .then(pl.lit("B is worse"))
            .otherwise(pl.lit("not told apart")),
        )
        .with_columns(short("name", LABEL))
    )
    tips = tooltips(
        alt,
        {
            "name:N": "name",
            "mean_a:Q": "A",
            "mean_b:Q": "B",
            "difference:Q": "B - A",
            "low:Q": "95 % from",
            "high:Q": "to",
            "p_holm:Q": "p (Holm)",
            "n:N": "pairs",
        },
    )
    charts: list[Any] = []
    for kind in ("overall", "dimension", "metric"):
        mine = shown.filter(kind=kind)
        if mine.is_empty():
            continue
        base = alt.Chart(data(mine))
        y = rows_of(alt, mine, "name", kind)
        x = alt.X("difference:Q", title="B - A" if kind == "metric" else None)
        colour = alt.Color("state:N", title="p (Holm) < 0.05").scale(
            domain=list(states), range=list(states.values())
        )
        zero = base.mark_rule(color="black", strokeDash=[3, 3]).encode(x=alt.datum(0))
        spans = base.mark_rule(strokeWidth=2).encode(x="low:Q", x2="high:Q", y=y, color=colour)
        points = base.mark_point(filled=True, size=70, opacity=1).encode(
            x=x, y=y, color=colour, tooltip=tips
        )
        charts.append((zero + spans + points).properties(width=WIDTH))
    left = table.height - shown.height
    note = f"; {left} without a pair to compare are left out" if left else ""
    title = {
        "text": f"B: {words(run_b)}",
        "subtitle": [f"A: {words(run_a)}", f"differences with 95 % intervals{note}"],
        "anchor": "start",
    }
    return alt.vconcat(*charts, title=title).resolve_scale(x="shared", color="shared")


def plot_latency_quality(turns: pl.LazyFrame, scores: pl.LazyFrame) -> altair.TopLevelMixin:
    """How good turns are against how long they took.

    One point a turn; of more than 2,000 a heat map. Turns without a latency or a score are counted
    below the title. A turn's quality is the mean of its scores outside Performance, which is made
    of the latency itself.

    Args:
        turns: session_id, turn_id, latency_s, query.
        scores: session_id, turn_id, dimension, score.
    """
    alt = library()
    quality = (
        scores.filter(pl.col("turn_id").is_not_null(), pl.col("dimension") != "Performance")
        .group_by("session_id", "turn_id")
        .agg(quality=pl.col("score").sort().mean())
    )
    wanted = turns.select("session_id", "turn_id", "latency_s", "query")
    joined = wanted.join(quality, on=["session_id", "turn_id"], how="left").collect()
    known = joined.with_columns(seconds("latency_s")).drop_nulls(["latency_s", "quality"])
    note = f"{known.height} turns" + (
        f"; {joined.height - known.height} without latency or score are not shown"
        if known.height < joined.height
        else ""
    )
    y = {"title": "mean score of the turn, Performance aside"}
    if known.height <= _MOST_POINTS:
        chart = (
            alt.Chart(data(known.with_columns(short("query"))))
            .mark_circle(size=60, opacity=0.55, color=_BLUE)
            .encode(
                x=alt.X("latency_s:Q", title="latency, seconds"),
                y=alt.Y("quality:Q", scale=alt.Scale(domain=[0, 1]), **y),
                tooltip=tooltips(
                    alt,
                    {
                        "session_id:N": "session",
                        "turn_id:N": "turn",
                        "latency_s:Q": "seconds",
                        "quality:Q": "score",
                        "query:N": "asked",
                    },
                ),
            )
        )
        return _titled(chart, "Latency and quality", note)
    across, up = _CELLS
    # The slowest hundredth would press everything else to the left edge: it shares the last column.
    slow = float(known["latency_s"].quantile(0.99, "linear") or 0) or 1.0
    column = (pl.col("latency_s") / slow * across).floor().clip(0, across - 1)
    row = (pl.col("quality") * up).floor().clip(0, up - 1)
    cells = known.group_by(
        x=column * slow / across, x2=(column + 1) * slow / across, y=row / up, y2=(row + 1) / up
    ).agg(turns=pl.len())
    chart = (
        alt.Chart(data(cells))
        .mark_rect()
        .encode(
            x=alt.X("x:Q", title="latency, seconds (the slowest 1 % in the last column)"),
            x2="x2:Q",
            y=alt.Y("y:Q", scale=alt.Scale(domain=[0, 1]), **y),
            y2="y2:Q",
            color=alt.Color("turns:Q").scale(scheme="blues", type="symlog"),
            tooltip=tooltips(alt, {"x:Q": "from second", "y:Q": "from score", "turns:N": "turns"}),
        )
    )
    return _titled(chart, "Latency and quality", note)


def _titled(chart: Any, title: str, note: str) -> Any:
    heading = {"text": words(title), "subtitle": note, "anchor": "start"}
    return chart.properties(width=WIDTH, title=heading)
