"""A gate passes what is as good, stops what is worse, and never passes what was not measured."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import numpy as np
import pytest
from scipy import stats
from typer.testing import CliRunner

from tests.helpers import payload
from tests.store.test_compare import run_of
from uaef_frames import ConfigError, StoreError, compare, evaluate_dataset, gate, open_store, power
from uaef_frames.cli import app

if TYPE_CHECKING:
    from pathlib import Path

    from uaef_frames import Run


@pytest.fixture
def runs(tmp_path: Path) -> tuple[Run, Run]:
    """B is worse than A by 0.1, give or take."""
    dice = np.random.default_rng(5)
    a = {f"s{n:02}": list(dice.uniform(0.5, 0.9, 3)) for n in range(30)}
    b = {s: [v - 0.1 + dice.normal(0, 0.05) for v in vs] for s, vs in a.items()}
    return (
        run_of(tmp_path / "runs", "20261201-000000-a-000001", a),
        run_of(tmp_path / "runs", "20261202-000000-b-000002", b),
    )


@pytest.mark.parametrize(
    ("rule", "passed"),
    [
        ("accuracy drops 0.02 with p<0.05", False),
        ("accuracy drops by .02 with p < 0.05", False),
        ("accuracy drops 0.3 with p<0.05", True),
        ("accuracy drops with p<0.05", False),
        ("accuracy drops 0.02", False),
        ("accuracy rises 0.02 with p<0.05", True),
        ("accuracy changes 0.05", False),
        ("overall DROPS 0.02", False),
        ("D drops 0.02", False),
        ("politeness drops 0.02", False),
        ("accuracy drops 2e-2 with p<=5e-2", False),
        ("accuracy drops 0.3 with p ≤ 0.05", True),
        ("accuracy drops 1", True),
    ],
)
def test_rules_about_a_difference(runs: tuple[Run, Run], rule: str, passed: bool) -> None:
    found = gate(runs[1], against=runs[0], fail_if=[rule])
    assert found.passed is passed, found.checks
    backwards = gate(runs[0], against=runs[1], fail_if=["accuracy drops 0.02 with p<0.05"])
    assert backwards.passed


def test_a_drop_by_chance_passes_with_p_and_not_without(tmp_path: Path) -> None:
    a = run_of(tmp_path, "a", {f"s{n}": [0.5] for n in range(6)})
    b = run_of(tmp_path, "b", {f"s{n}": [v] for n, v in enumerate([0, 1, 0, 1, 0, 0.5])})
    assert gate(b, against=a, fail_if=["accuracy drops 0.02 with p<0.05"]).passed
    assert not gate(b, against=a, fail_if=["accuracy drops 0.02"]).passed


def test_what_cannot_be_tested_is_not_passed(tmp_path: Path) -> None:
    a = run_of(tmp_path, "a", {f"s{n}": [0.5] for n in range(6)})
    b = run_of(tmp_path, "b", {f"s{n}": [0.25] for n in range(6)})
    found = gate(b, against=a, fail_if=["accuracy drops 0.02 with p<0.05"])
    assert not found.passed
    assert "nothing to test" in found.checks[0].words
    none = run_of(tmp_path, "none", {f"s{n}": [None] for n in range(6)})
    assert not gate(none, against=a, fail_if=["accuracy drops 0.5"]).passed
    assert not gate(none, fail_under={"overall": 0.0}).passed
    unknown = gate(a, fail_under={"acuracy": 0.1})
    assert not unknown.passed
    assert "nothing is called 'acuracy': there is 'accuracy'" in unknown.checks[0].words


def test_many_rules_are_many_chances_to_be_wrong(runs: tuple[Run, Run]) -> None:
    alone = gate(runs[1], against=runs[0], fail_if=["accuracy drops 0.02 with p<0.05"])
    rules = ["accuracy drops 0.02 with p<0.05", "overall drops 0.02 with p<0.05"]
    both = gate(runs[1], against=runs[0], fail_if=rules)
    p_alone, p_both = (f.checks[0].words.split("p ")[1].split(")")[0] for f in (alone, both))
    assert float(p_both) == pytest.approx(2 * float(p_alone), rel=0.02)


def test_floors(runs: tuple[Run, Run]) -> None:
    found = gate(runs[0], fail_under={"overall": 0.6, "accuracy": 0.95, "D": 0.6})
    assert [c.passed for c in found.checks] == [True, False, True]
    assert "30 of 30 sessions scored" in found.checks[0].words
    assert found.against is None
    assert gate(runs[0], fail_under=["overall=0.6", "accuracy = .6"]).passed


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"fail_if": ["accuracy"]},
        {"fail_if": ["accuracy drops"]},
        {"fail_if": ["accuracy drops 0.02"]},  # against what?
        {"fail_under": ["overall"]},
        {"fail_under": {"overall": "0.7"}},
        {"fail_under": {"overall": 7}},
        {"fail_under": {"overall": -0.1}},
        {"fail_under": {"overall": float("nan")}},
        {"fail_under": {"overall": True}},
        {"fail_under": {5: 0.5}},
        {"fail_under": 0.5},
        {"fail_if": 5},
        {"rules": {"fail_under": {"overall": 0.5}}},
        {"fail_under": ["overall=70"]},
        {"fail_under": ["x\udcff=0.5"]},
        {"fail_under": [0.5]},
        {"fail_under": {"overall": 0.5}, "max_missing": 1},  # of which run?
    ],
)
def test_rules_that_are_none(runs: tuple[Run, Run], wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        gate(runs[0], **wrong)  # type: ignore[arg-type]


def _written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    "rule",
    [
        "accuracy drops 2",  # no score drops by that: a rule that can never fail
        "accuracy drops 2%",
        "accuracy drops 0.1 with p<5",
        "accuracy drops 0.1 with p<0",
        "accuracy drops 1e400",
        "x\udcff drops 0.1",
        5,
    ],
)
def test_rules_that_would_never_fail_are_refused(runs: tuple[Run, Run], rule: str) -> None:
    with pytest.raises(ConfigError):
        gate(runs[1], against=runs[0], fail_if=[rule])


def test_one_rule_alone_is_a_text(runs: tuple[Run, Run]) -> None:
    found = gate(runs[1], against=runs[0], fail_if="accuracy drops 0.02", fail_under="overall=0.1")
    assert [c.passed for c in found.checks] == [True, False, True]


def test_sessions_that_are_gone_do_not_pass(runs: tuple[Run, Run], tmp_path: Path) -> None:
    scores = {f"s{n:02}": [0.95, 0.95, 0.95] for n in range(28)}
    fewer = run_of(tmp_path, "fewer", {**scores, "new": [0.9]})
    rules = ["accuracy drops 0.02 with p<0.05", "overall drops 0.02"]
    found = gate(fewer, against=runs[0], fail_if=rules)
    assert [c.passed for c in found.checks] == [True, True, False]
    assert "2 of 30 sessions" in found.checks[-1].words
    note = "2 sessions are only in 20261201-000000-a-000001: s28, s29"
    assert note in found.notes
    assert f"- {note}" in found.to_markdown()
    assert note in found.to_junit()
    assert f"::warning title=uaef-frames::{note}\n" in found.annotations()
    assert note in found._repr_html_()
    assert not gate(fewer, against=runs[0], fail_if=rules, max_missing=1).passed
    assert gate(fewer, against=runs[0], fail_if=rules, max_missing=2).passed
    text = "fail_if: overall drops 0.02\nmax_missing: 2"
    assert gate(fewer, against=runs[0], rules=_written(tmp_path / "g.yaml", text)).passed
    arguments = ["gate", str(fewer.path), "--against", str(runs[0].path), "--fail-if", rules[1]]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 1
    assert note in result.stdout
    assert CliRunner().invoke(app, [*arguments, "--max-missing", "2"]).exit_code == 0


def test_what_differs_besides_is_told(tmp_path: Path) -> None:
    before, after = (
        evaluate_dataset(
            [payload(f"s{n}", 1, latency=1.0) for n in range(3)],
            metrics=["throughput"],
            constants={"throughput": {"target_rps": target}},
            out=tmp_path,
            name=name,
        )
        for name, target in (("a", 1.0), ("b", 0.5))
    )
    found = gate(after, against=before, fail_if="throughput drops 0.02")
    assert found.passed
    assert found.notes == ["constants differ: throughput"]


def test_a_rule_over_the_few_that_are_left_is_not_measured(tmp_path: Path) -> None:
    a = run_of(tmp_path, "a", {f"s{n}": [0.5] for n in range(10)})
    values: list[list[float | None]] = [[0.5 + n / 100] if n < 4 else [None] for n in range(10)]
    few = run_of(tmp_path, "few", {f"s{n}": v for n, v in enumerate(values)})
    found = gate(few, against=a, fail_if="accuracy drops 0.02")
    assert not found.passed
    assert "of 10 sessions scored before, 4 are scored now" in found.checks[0].words
    enough = run_of(tmp_path, "enough", {f"s{n}": [0.6 if n < 5 else None] for n in range(10)})
    assert gate(enough, against=a, fail_if="accuracy drops 0.02").passed
    alone = [run_of(tmp_path, name, {"s": [0.5]}) for name in ("one", "two")]
    assert gate(alone[1], against=alone[0], fail_if="accuracy drops 0.02").passed
    assert not gate(alone[1], against=alone[0], fail_if="accuracy drops 0.02 with p<0.05").passed


def test_of_a_shared_name_the_dimension_is_meant(tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    a = run_of(folder, "a", {f"s{n}": [0.4 + n / 50] for n in range(10)}, metric="D")
    b = run_of(
        folder, "b", {f"s{n}": [0.4 + n / 50] for n in range(10)}, metric="D", of_dimension=0.9
    )
    assert gate(b, fail_under={"D": 0.8}).passed
    assert not gate(a, fail_under={"D": 0.8}).passed
    assert open_store(folder).history("D")["mean"].to_list() == pytest.approx([0.49, 0.9])
    overall = run_of(folder, "c", {"s": [0.2]}, metric="overall", of_dimension=0.9)
    assert gate(overall, fail_under={"overall": 0.8}).passed
    assert open_store(folder).history("overall")["mean"].to_list() == pytest.approx(
        [0.49, 0.9, 0.9]
    )


def test_rules_from_a_file(runs: tuple[Run, Run], tmp_path: Path) -> None:
    rules = tmp_path / "gate.yaml"
    rules.write_text("fail_if:\n  - accuracy drops 0.02 with p<0.05\nfail_under:\n  overall: 0.1\n")
    found = gate(runs[1], against=runs[0], rules=rules)
    assert [c.passed for c in found.checks] == [True, False, True]
    assert gate(runs[0], rules=_written(rules, "fail_under: [overall=0.1]")).passed
    for wrong in (
        "fail_on: [x]",
        "[1, 2]",
        "fail_if: {a: 1}",
        "fail_if: [a: 1]",
        "fail_if: [1]",
        "fail_under: 3",
        "fail_under: [overall: 0.7]",
        "fail_under: [1]",
        "fail_under: {1: 0.5}",
        "fail_under: {overall: 1" + 400 * "0" + "}",
        "fail_under: {overall: .nan}",
        "fail_under: {overall: true}",
        "fail_under: {overall: 2020-01-01}",
        "max_missing: -1\nfail_under: {overall: 0.5}",
        "max_missing: many\nfail_if: overall drops 0.1",
        "a: [",
        "[" * 5000,
        "\0",
    ):
        rules.write_text(wrong)
        with pytest.raises(ConfigError):
            gate(runs[1], against=runs[0], rules=rules)
    with pytest.raises(ConfigError, match="cannot be read"):
        gate(runs[1], rules=tmp_path / "none.yaml")


def test_on_the_command_line(runs: tuple[Run, Run], tmp_path: Path) -> None:
    a, b = (str(r.path) for r in runs)
    junit, markdown = tmp_path / "junit.xml", tmp_path / "gate.md"
    rule = "accuracy drops 0.02 with p<0.05"
    base = ["gate", b, "--against", a, "--fail-if", rule, "--fail-under", "overall=0.1"]
    result = CliRunner().invoke(
        app, [*base, "--junit", str(junit), "--markdown", str(markdown), "--annotations"]
    )
    assert result.exit_code == 1
    assert result.stdout.startswith(
        "::error title=uaef-frames%3A accuracy drops 0.02 with p<0.05::"
    )
    suite = ElementTree.parse(junit).getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("3", "1")
    assert suite.find("testcase/failure") is not None
    assert "| ✗ | accuracy drops 0.02 with p\\<0.05 |" in markdown.read_text("utf-8")
    passing = CliRunner().invoke(app, ["gate", a, "--fail-under", "overall=0.1", "--json"])
    assert passing.exit_code == 0
    assert json.loads(passing.stdout)["passed"] is True


def test_text_of_others_stays_text(tmp_path: Path) -> None:
    metric = "a|b <img src=x>\x1b[31m"
    a = run_of(tmp_path, "a", {f"s{n}": [0.5] for n in range(3)}, metric=metric)
    found = gate(a, fail_under={metric: 0.9, "x\n::set-env name=A::b": 0.1})
    ElementTree.fromstring(found.to_junit())
    assert "<img" not in found.to_markdown().replace("\\<img", "")
    assert "\x1b" not in found.to_markdown()
    assert all(line.startswith("::error ") for line in found.annotations().splitlines())
    named = "x\u2028::set-env name=A::b\x85::set-env name=A::c\x0b::error::d"
    base = ["gate", str(a.path), "--fail-under", f"{named}=0.5", "--annotations"]
    printed = CliRunner().invoke(app, base).stdout
    assert len(printed.splitlines()) == 1
    assert "<img" not in found._repr_html_()


def test_history_is_a_row_a_run(runs: tuple[Run, Run]) -> None:
    store = open_store(runs[0].path.parent)
    for name in ("accuracy", "overall", "D"):
        found = store.history(name)
        assert found["run_id"].to_list() == [r.run_id for r in runs]
        first, second = found.rows(named=True)
        assert first["low"] < first["mean"] < first["high"]
        assert first["mean"] - second["mean"] == pytest.approx(0.1, abs=0.02)
        assert first["sessions_scored"] == 30
    assert first["mean"] == pytest.approx(runs[0].dimension_summary()["mean"].item())
    with pytest.raises(ConfigError, match="no run"):
        store.history("politeness")
    result = CliRunner().invoke(
        app, ["runs", "history", "accuracy", "--store", str(store.path), "--json"]
    )
    assert len(json.loads(result.stdout)) == 2


def test_power_is_what_simulation_shows(tmp_path: Path) -> None:
    dice = np.random.default_rng(2)
    scores = {f"s{n:03}": [v] for n, v in enumerate(np.clip(dice.normal(0.5, 0.1, 200), 0, 1))}
    run = run_of(tmp_path, "a", scores)
    needed = power(run, "accuracy", 0.03)
    # Two runs of that spread whose scores correlate 0.5 have differences of the same spread.
    hits = 0
    for _ in range(2000):
        apart = dice.normal(0.03, 0.1, needed.sessions)
        hits += abs(apart.mean() / (apart.std(ddof=1) / np.sqrt(len(apart)))) > 1.99
    assert hits / 2000 == pytest.approx(0.8, abs=0.04)
    assert power(run, "accuracy", 0.03, correlation=0.9).sessions < needed.sessions
    assert power(run, "accuracy", -0.03).sessions == needed.sessions
    assert power(run, "overall", 0.3).sessions <= 5
    assert "there are 200" in str(needed)


def test_power_of_a_comparison(runs: tuple[Run, Run]) -> None:
    found = compare(*runs)
    needed = power(found, "accuracy", 0.05)
    apart = found.sessions["difference"].to_numpy()
    assert needed.sd == pytest.approx(apart.std(ddof=1))
    assert 2 <= needed.sessions < power(found, "accuracy", 0.01).sessions
    a, b = (str(r.path) for r in runs)
    result = CliRunner().invoke(app, ["power", b, "accuracy", "0.05", "--against", a])
    assert f"{needed.sessions} sessions show a difference of 0.05" in result.stdout


@pytest.mark.parametrize("alpha", [0.001, 0.05, 0.3])
@pytest.mark.parametrize("chance", [0.31, 0.5, 0.8, 0.999])
@pytest.mark.parametrize("difference", [1.0, 0.3, 0.02, 0.0004])
def test_power_is_the_fewest_sessions_that_have_it(
    tmp_path: Path, alpha: float, chance: float, difference: float
) -> None:
    dice = np.random.default_rng(2)
    run = run_of(tmp_path, "a", {f"s{n}": [v] for n, v in enumerate(dice.uniform(0, 1, 30))})
    found = power(run, "accuracy", difference, power=chance, alpha=alpha)

    def has(sessions: int) -> float:
        """By Student's t seen as an F test: another distribution of scipy's."""
        shift = min(difference / found.sd, 5) ** 2 * sessions
        bound = stats.t.ppf(1 - alpha / 2, sessions - 1) ** 2
        return float(stats.ncf.sf(bound, 1, sessions - 1, shift))

    slack = 1e-6 if found.sessions < 100_000 else 1e-4
    assert has(found.sessions) >= chance - slack
    assert found.sessions == 2 or has(found.sessions - 1) < chance + slack


def test_power_of_a_comparison_of_turns_counts_sessions(tmp_path: Path) -> None:
    dice = np.random.default_rng(2)
    a = {f"s{n:02}": [0.5] * 10 for n in range(30)}
    b = {sid: [0.5 + by] * 10 for sid, by in zip(a, dice.normal(0, 0.1, 30), strict=True)}
    runs = run_of(tmp_path, "a", a), run_of(tmp_path, "b", b)
    by_turn, by_session = (
        power(compare(*runs, unit=unit), "accuracy", 0.05)  # type: ignore[arg-type]
        for unit in ("turn", "session")
    )
    assert (by_turn.held, by_session.held) == (30, 30)
    assert by_turn.sessions == pytest.approx(by_session.sessions, abs=1)


def test_power_of_a_comparison_whose_mean_difference_is_zero(tmp_path: Path) -> None:
    a = run_of(tmp_path, "a", {f"s{n}": [0.5] for n in range(10)})
    b = run_of(tmp_path, "b", {f"s{n}": [0.5 + 0.1 * (-1) ** n] for n in range(10)})
    assert power(compare(a, b), "accuracy", 0.05).sd == pytest.approx(0.1 * np.sqrt(10 / 9))


def test_power_without_anything_to_go_by(tmp_path: Path) -> None:
    same = run_of(tmp_path, "a", {f"s{n}": [0.5] for n in range(5)})
    with pytest.raises(StoreError, match="none differs"):
        power(same, "accuracy", 0.1)
    for arguments in (
        ("accuracy", 0.0),
        ("politeness", 0.1),
        ("accuracy", float("nan")),
        ("accuracy", 2.0),
        ("accuracy", "0.1"),
    ):
        with pytest.raises(ConfigError):
            power(same, *arguments)
    varied = run_of(tmp_path, "b", {f"s{n}": [n / 5] for n in range(5)})
    with pytest.raises(ConfigError, match="nobody has"):
        power(varied, "accuracy", 1e-9)
    for more in (
        {"power": 1.0},
        {"power": 0.05},
        {"power": 0.01},
        {"power": float("nan")},
        {"alpha": 0.0},
        {"alpha": 0.9},
        {"correlation": 1.0},
    ):
        with pytest.raises(ConfigError):
            power(same, "accuracy", 0.1, **more)


def test_a_floor_over_what_the_judge_failed_to_score_is_not_measured(tmp_path: Path) -> None:
    held: list[list[float | None]] = [[0.9] if n < 4 else [None] for n in range(10)]
    few = run_of(tmp_path, "few", {f"s{n}": v for n, v in enumerate(held)})
    for name in ("accuracy", "D", "overall"):
        found = gate(few, fail_under={name: 0.5})
        assert not found.passed
        assert "failed to give 6 of 10 scores" in found.checks[0].words
    enough = run_of(tmp_path, "enough", {f"s{n}": [0.9 if n < 5 else None] for n in range(10)})
    assert gate(enough, fail_under={"accuracy": 0.5, "D": 0.5, "overall": 0.5}).passed


def test_reports_name_nobody_and_link_nowhere(tmp_path: Path) -> None:
    name = "@someone https://x.example www.x.example ~~s~~ $x$ &lt;b&gt; \u202egnp"
    a = run_of(tmp_path, "a", {"s": [0.5]}, metric=name)
    for text in (gate(a, fail_under={name: 0.1}).to_markdown(), compare(a, a).to_markdown()):
        assert "someone" in text
        for live in ("@someone", "https://", "www.x", "~~s", "$x$".replace("$x", " $x"), "&lt;"):
            assert live not in text
        assert "\u202e" not in text
    long = run_of(tmp_path, "long", {"s": [0.5]}, metric="x" * 100_000)
    assert len(compare(long, long).to_markdown()) < 5_000


def test_a_notebook_shows_every_row_and_word(tmp_path: Path) -> None:
    names = [f"metric_{n:02}" for n in range(30)]
    a = run_of(tmp_path, "a", {f"s{n}": [0.5] for n in range(3)})
    found = gate(a, fail_under=dict.fromkeys(names, 0.5))
    assert [n for n in names if n not in found._repr_html_()] == []
    words = found.checks[0].words
    assert len(words) > 40
    assert words.replace("'", "&#x27;") in found._repr_html_()
