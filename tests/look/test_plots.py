"""Plots hold the figures of the run, stay small, are saved without a browser, and run no script."""

from __future__ import annotations

import builtins
import json
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from tests.helpers import payload, shipped_run
from tests.store.test_compare import run_of
from tests.store.test_run import HOSTILE, hand_made
from uaef_frames import ConfigError, compare, evaluate_dataset, open_run
from uaef_frames.look.drawing import data
from uaef_frames.look.plots import plot_latency_quality, plot_scores, plot_timeline

if TYPE_CHECKING:
    from pathlib import Path

    from uaef_frames import Run

RED = "</script><script>alert(1)</script>"
UNSEEN = "".join(
    map(chr, [*range(32), *range(127, 160), 0x2028, 0x2029, 0x202E, 0x2066, 0xFFFE, 0xFFFF])
)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    out = tmp_path_factory.mktemp("runs")
    return [shipped_run(agent, out) for agent in ("booking", "booking_careless")]


def charts(runs: list[Run]) -> dict[str, Any]:
    run = runs[0]
    session = run.sessions.collect()["session_id"][0]
    return {
        "dimensions": run.plot_dimensions(),
        "scores": run.plot_scores("tool_selection_accuracy"),
        "histogram": run.plot_scores("turn_efficiency"),
        "timeline": run.plot_timeline(session),
        "compare": compare(*runs).plot_compare(),
        "latency": run.plot_latency_quality(),
    }


def values(chart: Any) -> list[dict[str, Any]]:
    """Every row of data in a chart."""
    found: list[dict[str, Any]] = []

    def walk(node: Any) -> None:
        if isinstance(node, dict):
            found.extend(node.get("values", []) if isinstance(node.get("values"), list) else [])
            for held in node.get("datasets", {}).values():
                found.extend(held)
            for key, inner in node.items():
                if key not in ("values", "datasets"):
                    walk(inner)
        elif isinstance(node, list):
            for inner in node:
                walk(inner)

    walk(chart.to_dict())
    return found


@pytest.mark.parametrize(
    ("ending", "mark"), [("svg", b"<svg"), ("png", b"\x89PNG"), ("html", b"<!DOCTYPE html>")]
)
def test_every_plot_is_saved_without_a_browser(
    runs: list[Run], tmp_path: Path, ending: str, mark: bytes
) -> None:
    for name, chart in charts(runs).items():
        file = tmp_path / f"{name}.{ending}"
        chart.save(str(file))
        assert file.read_bytes().lstrip().startswith(mark), name


def test_dimensions_are_drawn_as_the_run_tells_them(runs: list[Run]) -> None:
    told = runs[0].dimension_summary()
    drawn = pl.DataFrame(values(runs[0].plot_dimensions())).unique("dimension", maintain_order=True)
    assert drawn.select(told.columns).rows() == told.rows()


def test_a_comparison_colours_what_was_made_worse_alone(runs: list[Run]) -> None:
    drawn = {v["name"]: v["state"] for v in values(compare(*runs).plot_compare())}
    assert {n for n, state in drawn.items() if state == "B is worse"} == {
        "overall",
        "Tool Calling",
        "tool_selection_accuracy",
        "tool_sequence_correctness",
        "parameter_quality",
    }
    assert "B is better" not in drawn.values()


def test_scores_by_turn_are_the_quantiles_of_the_scores(runs: list[Run]) -> None:
    metric = "tool_selection_accuracy"
    first = runs[0].sql(
        f"select score from turn_scores where metric = '{metric}' and turn_index = 1"
    )["score"]
    drawn = next(v for v in values(runs[0].plot_scores(metric)) if v["turn"] == 1)
    assert drawn["mean"] == pytest.approx(first.mean())
    assert drawn["q10"] == pytest.approx(first.quantile(0.1, "linear"))
    assert (drawn["scored"], drawn["measured"]) == (first.count(), first.len())


def test_a_histogram_counts_every_scored_conversation(runs: list[Run]) -> None:
    chart = runs[0].plot_scores("turn_efficiency")
    bars = [v["sessions"] for v in values(chart) if "sessions" in v]
    scored = runs[0].scores.filter(metric="turn_efficiency").collect()["score"]
    assert sum(bars) == scored.count()
    assert f"{scored.count()} of {scored.len()} conversations scored" in json.dumps(chart.to_dict())


def test_a_plot_of_many_turns_stays_small() -> None:
    n = 200_000
    turns = pl.DataFrame(
        {
            "session_id": [f"s{i % 100}" for i in range(n)],
            "turn_id": [i // 100 for i in range(n)],
            "turn_index": [i // 100 + 1 for i in range(n)],
            "latency_s": [(i % 977) / 100 for i in range(n)],
            "query": ["q"] * n,
            "response": ["r"] * n,
        }
    )
    scores = turns.select("session_id", "turn_id").with_columns(
        metric=pl.lit("m"),
        dimension=pl.lit("D"),
        score=(pl.col("turn_id") % 11) / 10,
        warning=pl.lit(None, pl.String),
        reasoning=pl.lit(None, pl.String),
    )
    latency = values(plot_latency_quality(turns.lazy(), scores.lazy()))
    assert len(latency) < 1_000
    assert sum(v["turns"] for v in latency) == n
    by_turn = values(plot_scores(scores.lazy(), turns.lazy(), "m"))
    assert sum(v["scored"] for v in by_turn) == n
    assert len(by_turn) <= 100
    one = [f.filter(session_id="s1") for f in (turns, scores)]
    assert len(values(plot_timeline(*one, "s1"))) < 3_000


def test_no_text_of_an_agent_becomes_script_in_a_page(tmp_path: Path) -> None:
    run = open_run(hand_made(tmp_path / "runs", session=RED + HOSTILE))
    made = [
        run.plot_timeline(RED + HOSTILE),
        run.plot_latency_quality(),
        run.plot_scores("parameter_quality"),
        run.plot_dimensions(),
    ]
    for number, chart in enumerate(made):
        file = tmp_path / f"{number}.html"
        chart.save(str(file))
        assert "<script>alert" not in file.read_text("utf-8")
        bundle = chart._repr_mimebundle_()
        page = bundle["text/html"] if isinstance(bundle, dict) else bundle[0]["text/html"]
        assert "<script>alert" not in page


def test_no_character_of_an_agent_ends_the_process_that_saves_a_chart(tmp_path: Path) -> None:
    name = f"a{UNSEEN}😀&\"'"
    events = {"agent": {"messages": [{"type": "ai", "content": UNSEEN, "id": "m"}]}}
    run = evaluate_dataset(
        [payload(name, 1, events, said=name)], metric_set="deterministic", out=tmp_path
    )
    (session,) = run.sessions.collect()["session_id"]
    for number, chart in enumerate((run.plot_timeline(session), run.plot_latency_quality())):
        for ending in ("svg", "png", "html"):
            file = tmp_path / f"{number}.{ending}"
            chart.save(str(file))
            assert file.stat().st_size > 0
    assert "😀" in (tmp_path / "0.svg").read_text("utf-8")


def test_what_is_no_number_is_null_in_any_chart() -> None:
    frame = pl.DataFrame({"x": [float("nan"), float("inf"), -float("inf"), 0.5, None]})
    assert [v["x"] for v in data(frame).values] == [None, None, None, 0.5, None]


@pytest.mark.parametrize("latency", [float("nan"), float("inf"), -1.0, 2.0, None])
def test_any_latency_that_a_payload_may_hold_can_be_drawn(
    tmp_path: Path, latency: float | None
) -> None:
    events = {"agent": {"messages": [{"type": "ai", "content": "yes", "id": "m"}]}}
    run = evaluate_dataset(
        [payload("s", 1, events, latency=latency)], metric_set="deterministic", out=tmp_path
    )
    for chart in (
        run.plot_dimensions(),
        run.plot_latency_quality(),
        run.plot_scores("latency_score"),
        run.plot_timeline("s"),
    ):
        chart.save(str(tmp_path / "x.svg"))
    shown = [v["latency_s"] for v in values(run.plot_latency_quality())]
    assert shown == ([2.0] if latency == 2.0 else [])
    waits = [v["latency_s"] for v in values(run.plot_timeline("s")) if "latency_s" in v]
    assert waits == [2.0 if latency == 2.0 else None]
    assert "turn 1" in str(run.session("s"))


def test_what_the_run_does_not_have_is_named_with_what_was_probably_meant(runs: list[Run]) -> None:
    with pytest.raises(ConfigError, match=r"no metric 'latency'.*latency_score"):
        runs[0].plot_scores("latency")
    with pytest.raises(ConfigError, match="no session 'nobody'; there is"):
        runs[0].plot_timeline("nobody")


def test_without_the_library_the_error_says_what_to_install(
    runs: list[Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    load = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name in ("altair", "great_tables"):
            raise ModuleNotFoundError(name, name=name)
        return load(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    for draw in (runs[0].plot_dimensions, runs[0].summary_table):
        with pytest.raises(ConfigError, match=r"pip install 'uaef-frames\[look\]'"):
            draw()
    assert "tool_selection_accuracy" in runs[0]._repr_html_()


def test_a_run_with_nothing_in_it_can_be_looked_at(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="no turn to score"):
        run = evaluate_dataset([], out=tmp_path, metric_set="deterministic")
    assert values(run.plot_dimensions()) == []
    assert values(run.plot_latency_quality()) == []
    assert "0 sessions" in run._repr_html_()


@pytest.mark.parametrize(
    "name", [f"a{UNSEEN}b", "x" * 1_000_000, "😀" * 80, "x" + "😀" * 80, "' + alert(1) + '", "a\\"]
)
def test_any_name_of_a_metric_can_be_drawn(tmp_path: Path, name: str) -> None:
    one, two = (
        run_of(tmp_path, run, {f"s{n}": [n * by] for n in range(5)}, metric=name)
        for run, by in (("a", 0.1), ("b", 0.12))
    )
    charts = (compare(one, two).plot_compare(), one.plot_timeline("s1"), one.plot_dimensions())
    for chart in (*charts, one.plot_scores(name)):
        chart.save(str(tmp_path / "x.svg"))


def test_calls_expected_of_a_whole_conversation_are_a_histogram(tmp_path: Path) -> None:
    events = {"agent": {"messages": [{"type": "ai", "content": "yes", "id": "m"}]}}
    payloads = [payload(f"s{n}", t, events) for n in range(4) for t in (1, 2)]
    truth = [
        {"session_id": f"s{n}", "expected_tool_calls": [{"name": "find", "arguments": {}}]}
        for n in range(4)
    ]
    run = evaluate_dataset(payloads, truth, metrics=["tool_selection_accuracy"], out=tmp_path)
    drawn = values(run.plot_scores("tool_selection_accuracy"))
    assert sum(v.get("sessions", 0) for v in drawn) == 4
