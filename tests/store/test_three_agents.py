"""Three agents of which it is known what is worse: a comparison shows that, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest
from typer.testing import CliRunner

from tests.helpers import shipped_run
from uaef_frames import compare
from uaef_frames.cli import app

if TYPE_CHECKING:
    from uaef_frames import Run

DATA = Path(__file__).parents[2] / "data"
AGENTS = ("booking", "booking_careless", "booking_slow")
WORSE = {
    "booking_careless": {
        "Tool Calling",
        "tool_selection_accuracy",
        "tool_sequence_correctness",
        "parameter_quality",
    },
    "booking_slow": {"Performance", "latency_score", "throughput"},
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    out = tmp_path_factory.mktemp("runs")
    return {agent: shipped_run(agent, out) for agent in AGENTS}


@pytest.mark.parametrize("agent", WORSE)
@pytest.mark.parametrize("unit", ["session", "turn"])
def test_what_was_made_worse_is_found_and_nothing_else(
    runs: dict[str, Run], agent: str, unit: str
) -> None:
    table = compare(runs["booking"], runs[agent], unit=unit).table  # pyright: ignore
    named = table.filter(kind="dimension").vstack(table.filter(kind="metric"))
    found = named.filter((pl.col("p_holm") < 0.05) & (pl.col("difference") < 0))
    assert set(found["name"]) == WORSE[agent]
    rest = named.filter(~pl.col("name").is_in(WORSE[agent]))
    assert rest["difference"].drop_nulls().abs().max() == 0.0
    assert rest["p"].null_count() == rest.height


def test_the_command_line_shows_it(runs: dict[str, Run]) -> None:
    a, b = (str(runs[agent].path) for agent in ("booking", "booking_careless"))
    printed = CliRunner().invoke(app, ["compare", a, b]).stdout
    assert "parameter_quality" in printed
    gated = CliRunner().invoke(
        app, ["gate", b, "--against", a, "--fail-if", "Tool Calling drops 0.1 with p<0.05"]
    )
    assert gated.exit_code == 1, gated.output
