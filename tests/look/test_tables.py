"""A run's summary shows interval, coverage, threshold and mark, in notebooks and at terminals."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import polars as pl
import pytest
from typer.testing import CliRunner

from tests.store.test_run import hand_made
from uaef_frames import open_run
from uaef_frames.cli import app
from uaef_frames.look.tables import marked, summary_table
from uaef_frames.models import DimensionResult, EvaluationResult, MetricScore

if TYPE_CHECKING:
    from uaef_frames import Run

HOSTILE = "</td><script>alert(1)</script>"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return open_run(hand_made(tmp_path_factory.mktemp("runs")))


def cells(html: str) -> list[list[str]]:
    rows = re.findall(r"<tr>(.*?)</tr>", html, re.S)
    return [re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row, re.S) for row in rows]


def test_the_summary_has_the_threshold_of_the_dimension_and_whether_it_is_reached(run: Run) -> None:
    found = run.summary().select("metric", "mean", "threshold", "passed").rows()
    assert found == [
        ("latency_score", 0.625, 0.6, True),
        ("parameter_quality", pytest.approx(0.55), None, None),
    ]


def test_a_notebook_shows_interval_coverage_threshold_and_mark(run: Run) -> None:
    summary = run.summary().row(0, named=True)
    span = f"{summary['low']:.3f} – {summary['high']:.3f}"
    assert [c for c in cells(run._repr_html_()) if c[:1] == ["latency_score"]] == [
        ["latency_score", "0.625", span, "0.250", "2 of 3", "0.60", "✓", "invalid_data"]
    ]


def test_a_terminal_shows_coverage_and_mark(run: Run) -> None:
    printed = CliRunner().invoke(app, ["show", str(run.path)]).output
    line = next(x for x in printed.splitlines() if "latency_score" in x and "2 of 3" in x)
    assert "✓" in line


def test_marks_tell_passed_failed_and_unknown_apart() -> None:
    frame = pl.DataFrame(
        {"passed": [True, False, None], "scored": [1, 2, 0], "measured": [1, 3, 4]}
    )
    assert marked(frame).rows() == [("✓", "1 of 1"), ("✗", "2 of 3"), ("–", "0 of 4")]


def test_names_in_the_table_are_never_markup() -> None:
    one = pl.DataFrame(
        {
            "dimension": [HOSTILE],
            "metric": [HOSTILE],
            "mean": [0.5],
            "low": [None],
            "high": [None],
            "lowest": [0.5],
            "scored": [1],
            "measured": [1],
            "threshold": [0.6],
            "passed": [False],
            "why_null": [HOSTILE],
        },
        schema_overrides={"low": pl.Float64, "high": pl.Float64},
    )
    page = summary_table(one, HOSTILE, HOSTILE).as_raw_html()
    assert "<script>" not in page
    assert page.count("&lt;script&gt;") >= 4


def test_a_result_shows_itself_as_a_table_and_in_one_line() -> None:
    score = MetricScore(metric_name="m", score=0.25, reasoning=HOSTILE)
    none = MetricScore(metric_name="n", metadata={"warning": "no_judge"})
    held = DimensionResult(
        dimension_name="D", metric_scores=[score, none], aggregate_score=0.25, threshold=0.5
    )
    result = EvaluationResult(
        trace_id="t", dimension_results=[held], overall_score=0.25, failures=["D is below 0.5"]
    )
    assert repr(result) == "EvaluationResult('t': 0.250, not passed, D 0.250)"
    page = result._repr_html_()
    assert "<script>" not in page
    assert "<li>D is below 0.5</li>" in page
    assert cells(page)[1:] == [
        ["D", "m", "0.250", "", HOSTILE.replace("<", "&lt;").replace(">", "&gt;")],
        ["D", "n", "–", "no_judge", ""],
    ]
