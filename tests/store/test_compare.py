"""Two runs compared: differences that were put in are found, and chance is not taken for one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy import stats
from typer.testing import CliRunner

from tests.helpers import payload
from tests.store.test_run import rows
from uaef_frames import StoreError, compare, evaluate_dataset
from uaef_frames.cli import app
from uaef_frames.store.compare import _tested
from uaef_frames.store.run import Run
from uaef_frames.store.writer import RunWriter

if TYPE_CHECKING:
    from pathlib import Path


def run_of(
    folder: Path, name: str, scores: dict[str, list[float | None]], metric: str = "accuracy"
) -> Run:
    """A run with those scores of one metric, by session and turn."""
    with RunWriter(folder, name) as writer:
        for sid, values in scores.items():
            held = [
                {"run_id": name, "session_id": sid, "turn_id": t, "metric": metric,
                 "dimension": "D", "score": v, "warning": None if v is not None else "api_error"}
                for t, v in enumerate(values, 1)
            ]  # fmt: skip
            writer.append("scores", rows("scores", *held))
            known = [v for v in values if v is not None]
            mean = float(np.mean(known)) if known else None
            one = {"run_id": name, "session_id": sid, "num_turns": len(values)}
            writer.append("sessions", rows("sessions", {**one, "overall_score": mean}))
            writer.append(
                "dimensions", rows("dimensions", {**one, "dimension": "D", "score": mean})
            )
        writer.append("runs", rows("runs", {"run_id": name, "metrics": [metric], "config": "{}"}))
        return Run(writer.commit())


def test_figures_are_those_of_a_paired_t_test_over_sessions(tmp_path: Path) -> None:
    dice = np.random.default_rng(3)
    a = {f"s{n:02}": list(dice.uniform(0, 0.8, 4)) for n in range(30)}
    b = {sid: [v + dice.uniform(-0.05, 0.15) for v in values] for sid, values in a.items()}
    found = compare(run_of(tmp_path, "a", a), run_of(tmp_path, "b", b))
    means = [np.array([np.mean(v) for v in side.values()]) for side in (a, b)]
    test = stats.ttest_rel(means[1], means[0])
    row = found.table.filter(found.table["kind"] == "metric").row(0, named=True)
    interval = test.confidence_interval(0.95)
    assert row["difference"] == pytest.approx((means[1] - means[0]).mean())
    assert row["p"] == pytest.approx(test.pvalue)
    assert (row["low"], row["high"]) == pytest.approx((interval.low, interval.high))
    assert row["wins"] + row["ties"] + row["losses"] == row["n"] == 30
    assert found.table["kind"].to_list() == ["overall", "dimension", "metric"]
    assert "overall +0.0" in repr(found)
    assert "`accuracy`" in found.to_markdown()


def test_many_turns_of_few_sessions_are_not_many_pieces_of_evidence(tmp_path: Path) -> None:
    # In each session all hundred turns move together: four sessions say little.
    shift = {"s0": 0.2, "s1": -0.1, "s2": 0.15, "s3": 0.05}
    a = {sid: [0.5] * 100 for sid in shift}
    b = {sid: [0.5 + by] * 100 for sid, by in shift.items()}
    row = compare(run_of(tmp_path, "a", a), run_of(tmp_path, "b", b)).table.row(-1, named=True)
    assert row["n"] == 4
    assert row["p"] > 0.2
    assert "rough" in row["note"]


def test_chance_is_called_a_difference_in_one_of_twenty_times() -> None:
    dice = np.random.default_rng(11)
    hits = 0
    for _ in range(1000):
        sessions = dice.normal(0, 0.2, (40, 1))
        noise = [sessions + dice.normal(0, 0.3, (40, 5)) for _ in range(2)]
        apart = noise[1].mean(axis=1) - noise[0].mean(axis=1)
        hits += _tested(apart)["p"] < 0.05
    assert 0.03 < hits / 1000 < 0.07


def test_nulls_change_coverage_and_not_scores(tmp_path: Path) -> None:
    a = {"x": [1.0], "y": [1.0], "z": [0.5], "only": [0.0]}
    b = {"x": [1.0], "y": [None], "z": [0.5], "other": [0.0]}
    found = compare(run_of(tmp_path, "a", a), run_of(tmp_path, "b", b))
    row = found.table.row(-1, named=True)
    assert (row["n"], row["only_a"], row["only_b"], row["difference"]) == (2, 1, 0, 0.0)
    assert row["p"] is None
    assert "no session differs" in row["note"]
    assert (found.only_in_a, found.only_in_b) == (["only"], ["other"])


def test_what_differs_besides(tmp_path: Path) -> None:
    made: dict[str, Any] = {}
    for name, target in (("a", 1.0), ("b", 5.0)):
        made[name] = evaluate_dataset(
            [payload(f"s{n}", 1, latency=n + 1.0) for n in range(5)],
            metrics=["throughput"],
            constants={"throughput": {"target_rps": target}},
            out=tmp_path,
            name=name,
        )
    found = compare(made["a"], made["b"].path)
    assert found.notes == ["constants of metrics differ"]
    assert found.table.filter(found.table["name"] == "throughput")["losses"].item() == 5
    assert found.changed_most(1)["session_id"].item() == "s0"
    result = CliRunner().invoke(app, ["compare", str(made["a"].path), str(made["b"].path)])
    assert result.exit_code == 0
    assert "throughput" in result.stdout
    assert "constants of metrics differ" in result.stdout


def test_nothing_in_common(tmp_path: Path) -> None:
    a, b = run_of(tmp_path, "a", {"x": [1.0]}), run_of(tmp_path, "b", {"y": [1.0]})
    with pytest.raises(StoreError, match="no session in common"):
        compare(a, b)
