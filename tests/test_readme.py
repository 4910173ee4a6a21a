"""The README says what is so: its table of metrics, its options, its code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

import uaef_frames
from uaef_frames.cli import app

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_table_of_metrics_is_the_registry_s() -> None:
    printed = CliRunner().invoke(app, ["metrics", "--markdown"]).stdout.strip()
    table = README.partition("<!-- metrics: begin")[2].partition("-->")[2]
    assert table.partition("<!-- metrics: end")[0].strip() == printed


@pytest.mark.parametrize("command", ["score", "show", "sql", "metrics"])
def test_every_command_is_in_the_readme(command: str) -> None:
    assert f"uaef-frames {command}" in README


def test_every_name_the_readme_imports_is_there() -> None:
    imports = re.findall(r"^from uaef_frames import (.+)$", README, re.MULTILINE)
    names = {name.strip() for line in imports for name in line.split(",")}
    assert names
    assert names <= set(uaef_frames.__all__)


def test_every_warning_word_is_explained() -> None:
    from uaef_frames.metrics import spec

    for word in (spec.MISSING, spec.NOT_APPLICABLE, spec.INVALID, spec.NO_JUDGE, spec.METRIC_ERROR):
        assert f"`{word}`" in README


def test_the_readme_s_own_metric_scores() -> None:
    """The code block under "Your own" runs, and does what it says."""
    block = next(b for b in re.findall(r"```python\n(.*?)```", README, re.DOTALL) if "@metric" in b)
    try:
        exec(block, {})
        trace = uaef_frames.AgentTrace(
            messages=[
                uaef_frames.Message(role="user", content="?"),
                uaef_frames.Message(role="assistant", content="short"),
            ]
        )
        result = uaef_frames.evaluate(trace, metrics=["short_answer"])
    finally:
        uaef_frames.unregister_metric("short_answer")
    score = result.dimension_results[0].metric_scores[0]
    assert (score.score, score.reasoning) == (1.0, "5 characters")


@pytest.mark.parametrize("target", ["demo", "test", "lint", "bench"])
def test_the_makefile_has_what_the_docs_promise(target: str) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.search(rf"^{target}:", makefile, re.MULTILINE)
