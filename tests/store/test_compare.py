"""Two runs compared: differences that were put in are found, and chance is not taken for one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest
from scipy import stats
from typer.testing import CliRunner

from tests.helpers import payload, shipped_run
from tests.store.test_run import rows
from uaef_frames import ConfigError, StoreError, compare, evaluate_dataset, schemas
from uaef_frames.cli import app
from uaef_frames.store import paired
from uaef_frames.store.run import Run
from uaef_frames.store.writer import RunWriter

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


def run_of(
    folder: Path,
    name: str,
    scores: Mapping[str, Sequence[float | None]],
    metric: str = "accuracy",
    of_dimension: float | None = None,
) -> Run:
    """A run with those scores of one metric, by session and turn."""
    held: dict[str, list[dict[str, Any]]] = {"scores": [], "sessions": [], "dimensions": []}
    for sid, values in scores.items():
        held["scores"] += [
            {"run_id": name, "session_id": sid, "turn_id": t, "metric": metric,
             "dimension": "D", "score": v, "warning": None if v is not None else "api_error"}
            for t, v in enumerate(values, 1)
        ]  # fmt: skip
        known = [v for v in values if v is not None]
        mean = float(np.mean(known)) if known else None
        if of_dimension is not None:
            mean = of_dimension
        one = {"run_id": name, "session_id": sid, "num_turns": len(values)}
        held["sessions"].append({**one, "overall_score": mean})
        held["dimensions"].append({**one, "dimension": "D", "score": mean, "weight": 1.0})
    with RunWriter(folder, name) as writer:
        for table, made in held.items():
            writer.append(table, rows(table, *made))
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
    assert "| accuracy | 0." in found.to_markdown()


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
        hits += paired.mean_is_zero(apart)["p"] < 0.05
    assert 0.03 < hits / 1000 < 0.07


def test_two_hundred_comparisons_of_an_agent_with_itself(tmp_path: Path) -> None:
    dice = np.random.default_rng(4)
    hits = {"session": 0, "turn": 0}
    for number in range(200):
        # Sessions differ much and their turns little; some have many turns, some have few.
        lengths = dice.integers(1, 9, 25)
        runs: list[Run] = []
        for side in "ab":
            scores = {
                f"s{n:02}": list(np.clip(0.5 + dice.normal(0, 0.2) + dice.normal(0, 0.05, k), 0, 1))
                for n, k in enumerate(lengths)
            }
            runs.append(run_of(tmp_path, f"{side}{number}", scores))
        for unit in hits:
            hits[unit] += compare(*runs, unit=unit).table.row(-1, named=True)["p"] < 0.05  # type: ignore[arg-type]
    for unit, found in hits.items():
        assert 0.02 <= found / 200 <= 0.08, (unit, found)


def test_turns_are_paired_and_errors_clustered_by_session(tmp_path: Path) -> None:
    dice = np.random.default_rng(8)
    a = {f"s{n:02}": list(dice.uniform(0, 0.8, 1 + n % 5)) for n in range(20)}
    b = {
        s: [v + by for v in vs]
        for (s, vs), by in zip(a.items(), dice.normal(0.03, 0.05, 20), strict=True)
    }
    runs = run_of(tmp_path, "a", a), run_of(tmp_path, "b", b)
    row = compare(*runs, unit="turn").table.row(-1, named=True)
    apart = [[y - x for x, y in zip(a[s], b[s], strict=True)] for s in a]
    flat = np.concatenate(apart)
    mean = flat.mean()
    # Liang and Zeger's sandwich for a mean, with the factor for few clusters.
    within = sum((np.array(d) - mean).sum() ** 2 for d in apart)
    error = np.sqrt(within * (20 / 19)) / len(flat)
    assert (row["n"], row["sessions"]) == (len(flat), 20)
    assert row["difference"] == pytest.approx(mean)
    assert row["p"] == pytest.approx(2 * stats.t.sf(abs(mean / error), 19))
    assert row["high"] == pytest.approx(mean + stats.t.ppf(0.975, 19) * error)
    # As if turns were independent, the interval would be far too narrow.
    naive = stats.sem(flat) * stats.t.ppf(0.975, len(flat) - 1)
    assert row["high"] - mean > 1.5 * naive
    overall = compare(*runs, unit="turn").table.row(0, named=True)
    assert overall["n"] == 20


def test_the_bootstrap_draws_sessions(tmp_path: Path) -> None:
    dice = np.random.default_rng(8)
    a = {f"s{n:02}": list(dice.uniform(0, 0.8, 4)) for n in range(40)}
    b = {
        s: [v + by for v in vs]
        for (s, vs), by in zip(a.items(), dice.normal(0.03, 0.05, 40), strict=True)
    }
    runs = run_of(tmp_path, "a", a), run_of(tmp_path, "b", b)
    t_test = compare(*runs).table.row(-1, named=True)
    for unit in ("session", "turn"):
        found = compare(*runs, unit=unit, bootstrap=2000)  # type: ignore[arg-type]
        row = found.table.row(-1, named=True)
        assert row["low"] == pytest.approx(t_test["low"], abs=0.004)
        assert row["high"] == pytest.approx(t_test["high"], abs=0.004)
        assert row["p"] == pytest.approx(t_test["p"], rel=0.2)
        assert any("2,000 resamples" in note for note in found.notes)
        again = compare(*runs, unit=unit, bootstrap=2000)  # type: ignore[arg-type]
        assert again.table.to_dicts() == found.table.to_dicts()
    for wrong in (
        {"bootstrap": 5},
        {"bootstrap": -1},
        {"bootstrap": 1000.5},
        {"bootstrap": True},
        {"bootstrap": 100, "seed": -1},
        {"seed": "x"},
        {"unit": "message"},
    ):
        with pytest.raises(ConfigError):
            compare(*runs, **wrong)  # type: ignore[arg-type]


def test_nulls_change_coverage_and_not_scores(tmp_path: Path) -> None:
    a = {"x": [1.0], "y": [1.0], "z": [0.5], "only": [0.0]}
    b = {"x": [1.0], "y": [None], "z": [0.5], "other": [0.0]}
    found = compare(run_of(tmp_path, "a", a), run_of(tmp_path, "b", b))
    row = found.table.row(-1, named=True)
    assert (row["n"], row["only_a"], row["only_b"], row["difference"]) == (2, 1, 0, 0.0)
    assert row["p"] is None
    assert "nothing differs" in row["note"]
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
    assert found.notes == ["constants differ: throughput"]
    assert found.table.filter(found.table["name"] == "throughput")["losses"].item() == 5
    assert found.changed_most(1)["session_id"].item() == "s0"
    assert compare(made["a"], made["a"]).changed_most().is_empty()
    both = [str(made["a"].path), str(made["b"].path)]

    def printed(*options: str) -> str:
        return CliRunner().invoke(app, ["compare", *both, *options]).stdout

    held = json.loads(printed("--json", "--changed", "1"))
    assert held["changed_most"] == found.changed_most(1).to_dicts()
    most = printed("--changed", "2").split("changed most")[1].partition("note:")[0]
    assert most.count("throughput") == 2
    assert "changed most" not in printed("--changed", "0")
    with pytest.raises(ConfigError, match="'throughput'"):
        found.changed_most(metric="thruput")
    for limit in (-1, None, 1.5):
        with pytest.raises(ConfigError, match="limit"):
            found.changed_most(limit)  # type: ignore[arg-type]
    for form in ([], ["--json"], ["--markdown"]):
        result = CliRunner().invoke(app, ["compare", *both, *form])
        assert result.exit_code == 0
        assert "throughput" in result.stdout
        assert "constants differ: throughput" in result.stdout


def test_nothing_in_common(tmp_path: Path) -> None:
    a, b = run_of(tmp_path, "a", {"x": [1.0]}), run_of(tmp_path, "b", {"y": [1.0]})
    with pytest.raises(StoreError, match="no session in common"):
        compare(a, b)


def test_remarks_stand_in_every_form(tmp_path: Path) -> None:
    a = {"x": [1.0], "y": [0.0], "gone\n| a": [0.5], "unscored": [0.5]}
    b = {"x": [0.9], "y": [0.1], "unscored": [None], "new": [0.5]}
    name = "polite|\nness"
    runs = run_of(tmp_path, "a", a, metric=name), run_of(tmp_path, "b", b, metric=name)
    found = compare(*runs)
    assert (found.unit, found.in_both) == ("session", 3)
    lines = found.to_markdown().splitlines()
    assert "A: a, B: b" in lines[0]
    table = [line for line in lines if line.startswith("|")]
    assert len(table) == 2 + found.table.height
    assert table[-1].startswith("| polite\\| ness | 0.500 | 0.500 | +0.000 |")
    assert "the interval is rough" in table[-1]
    assert "1 more scored in A alone" in table[-1]
    assert "- 1 session is only in a: gone \\| a" in lines
    assert "- 1 session is only in b: new" in lines
    held = found.to_dict()
    assert (held["only_in_a"], held["only_in_b"]) == (["gone\n| a"], ["new"])
    assert "only in b: new" in found._repr_html_()
    printed = CliRunner().invoke(app, ["compare", *(str(r.path) for r in runs)]).stdout
    assert "note: 1 session is only in a: gone | a\n" in printed


def test_a_small_p_is_not_written_as_zero(tmp_path: Path) -> None:
    dice = np.random.default_rng(1)
    a = {f"s{n}": [0.5] for n in range(40)}
    b = {sid: [0.3 + dice.normal(0, 0.01)] for sid in a}
    found = compare(run_of(tmp_path, "a", a), run_of(tmp_path, "b", b))
    assert "| \\<0.001 | -" in found.to_markdown()
    assert "p <0.001" in repr(found)


def test_turns_that_differ_only_within_their_sessions_say_nothing(tmp_path: Path) -> None:
    """Clustered errors are then 0, and with them p would be 0, or no number."""
    a = {f"s{n}": [0.5, 0.5] for n in range(12)}
    for shift, mean in ((0.0, 0.0), (0.1, 0.1)):
        b = {sid: [0.3 + shift, 0.7 + shift] for sid in a}
        runs = [run_of(tmp_path, f"{s}{shift}", v) for s, v in (("a", a), ("b", b))]
        row = compare(*runs, unit="turn").table.row(-1, named=True)
        assert row["difference"] == pytest.approx(mean)
        assert (row["p"], row["low"], row["p_holm"]) == (None, None, None)
        assert "nothing to test" in row["note"]


def test_few_sessions_keep_the_interval_of_the_t_test(tmp_path: Path) -> None:
    """Percentiles of few sessions leave the true difference outside far more than 5 % of times."""
    dice = np.random.default_rng(8)
    a = {f"s{n:02}": [float(v)] for n, v in enumerate(dice.uniform(0, 0.8, 12))}
    b = {s: [vs[0] + dice.normal(0.03, 0.05)] for s, vs in a.items()}
    runs = run_of(tmp_path, "a", a), run_of(tmp_path, "b", b)
    t_test, drawn = (compare(*runs, bootstrap=n).table.row(-1, named=True) for n in (0, 2000))
    assert (drawn["low"], drawn["high"]) == (t_test["low"], t_test["high"])
    assert "no bootstrap" in drawn["note"]
    outside = 0
    for seed in range(400):
        apart = dice.normal(0, 1, paired.FEWEST_RESAMPLED)
        low, high = paired.resampled(apart, np.arange(len(apart), dtype=np.uint32), 1000, seed)
        outside += not low <= 0 <= high
    assert 0.02 < outside / 400 < 0.1


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    out = tmp_path_factory.mktemp("runs")
    return [shipped_run(agent, out) for agent in ("booking", "booking_careless")]


def test_where_both_scored_the_same_the_means_are_those_of_the_runs(shipped: list[Run]) -> None:
    table = compare(*shipped).table
    assert table["unlike"].sum() == 0
    for side, run in zip("ab", shipped, strict=True):
        overall = run.sessions.collect()["overall_score"].mean()
        by_name = dict(run.dimension_summary().select("dimension", "mean").rows())
        by_name |= dict(run.summary().select("metric", "mean").rows())
        for name, mean in table.select("name", f"mean_{side}").rows():
            wanted = overall if name == "overall" else by_name[name]
            assert mean == (None if wanted is None else pytest.approx(wanted)), name


def test_a_judge_that_failed_moves_no_mean(shipped: list[Run], tmp_path: Path) -> None:
    """Of a metric, its dimension and overall, in a session or a turn of one run alone."""
    run = shipped[0]
    rows = pl.col("metric") == "tool_selection_accuracy"
    some = run.scores.filter(rows, pl.col("score") < 1).collect()
    assert some.height > 3
    lost = pl.concat([some[:2], some[-1:]]).select("session_id", "turn_id", "metric", lost=True)
    with RunWriter(tmp_path, "failing") as writer:
        for table in schemas.RUN_TABLES:
            frame = getattr(run, table).collect()
            if table == "scores":
                failed = frame.join(
                    lost, on=["session_id", "turn_id", "metric"], how="left", nulls_equal=True
                )
                score = pl.when(pl.col("lost").is_null()).then(pl.col("score"))
                frame = failed.with_columns(score=score).drop("lost")
            if table != "metrics":
                writer.append(
                    table,
                    frame.with_columns(run_id=pl.lit("failing"))
                    if "run_id" in frame.columns
                    else frame,
                )
        failing = Run(writer.commit())
    for pair in ((run, failing), (failing, run)):
        for unit in ("session", "turn"):
            table = compare(*pair, unit=unit).table  # type: ignore[arg-type]
            assert table["difference"].drop_nulls().to_list() == pytest.approx(
                [0.0] * table["difference"].count()
            )
            row = table.filter(name="overall").row(0, named=True)
            assert row["unlike"] == lost["session_id"].n_unique()
    assert "scores of one run alone are left out" in compare(run, failing).to_markdown()


def test_a_metric_that_one_run_has_alone_moves_no_mean(tmp_path: Path) -> None:
    payloads = [payload(f"s{n}", 1, latency=n + 1.0) for n in range(5)]
    more = "prompt_injection_detection"
    one, two = (
        evaluate_dataset(payloads, metrics=metrics, out=tmp_path, name=name)
        for name, metrics in (("a", ["latency_score", more]), ("b", ["latency_score"]))
    )
    found = compare(one, two)
    assert found.notes == [f"only {one.run_id} has the metrics {more}: left out"]
    overall = found.table.row(0, named=True)
    assert (overall["difference"], overall["unlike"]) == (0.0, 5)
    assert found.table.filter(name=more)["only_a"].item() == 5
