"""A gate for CI: rules over a run, and over how it differs from another one.

Decides by what is measured: a rule about something that was not measured is not passed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast
from xml.etree import ElementTree

import polars as pl

from uaef_frames.errors import ConfigError, near
from uaef_frames.judge.outcomes import FAILED_VERDICTS
from uaef_frames.look.tables import whole
from uaef_frames.store.compare import Comparison, compare
from uaef_frames.store.escaping import command_data, command_property, is_text, markdown, xml
from uaef_frames.store.figures import by_name, run_figures
from uaef_frames.store.paired import holm
from uaef_frames.store.run import Run, open_run

if TYPE_CHECKING:
    from collections.abc import Sequence

_NUMBER = r"(?P<{}>(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)"
_RULE = re.compile(
    r"\s*(?P<name>\S.*?)\s+(?P<verb>drops|rises|changes)"
    rf"(?:\s+(?:by\s+)?{_NUMBER.format('amount')})?"
    rf"(?:\s+with\s+p\s*(?P<bound><=?|≤)\s*{_NUMBER.format('p')})?\s*",
    re.IGNORECASE,
)
_UNDER = re.compile(rf"\s*(?P<name>\S.*?)\s*=\s*{_NUMBER.format('least')}\s*", re.IGNORECASE)
_CLOSE = 1e-9
_COVERED = 0.5
"""The share of the pairs scored before that a rule needs scored now."""


@dataclass(frozen=True, slots=True)
class Check:
    """One rule and what came of it: `words` says what was found."""

    rule: str
    passed: bool
    words: str


@dataclass(frozen=True)
class GateResult:
    """What came of all rules.

    Attributes:
        run_id: The run that was held against them.
        against: The run it was compared with; None: none was needed.
        checks: One a rule.
        notes: What to know beside the rules: another judge, other constants, new sessions.
    """

    run_id: str
    against: str | None
    checks: list[Check]
    notes: list[str] = field(default_factory=list[str])

    @property
    def passed(self) -> bool:
        """Whether every rule is passed."""
        return all(c.passed for c in self.checks)

    @property
    def table(self) -> pl.DataFrame:
        """One row a rule: rule, passed, found."""
        return pl.DataFrame(
            [(c.rule, c.passed, c.words) for c in self.checks],
            schema={"rule": pl.String, "passed": pl.Boolean, "found": pl.String},
            orient="row",
        )

    def to_markdown(self) -> str:
        """A table with its notes, for a pull request."""
        lines = [f"**{'passed' if self.passed else 'failed'}**: {markdown(self._title())}", ""]
        lines += ["| | rule | found |", "| --- | --- | --- |"]
        for check in self.checks:
            mark = "✓" if check.passed else "✗"
            lines.append(f"| {mark} | {markdown(check.rule)} | {markdown(check.words)} |")
        lines += ["", *(f"- {markdown(note)}" for note in self.notes)] if self.notes else []
        return "\n".join(lines) + "\n"

    def to_junit(self) -> str:
        """JUnit XML: one test case a rule."""
        failed = sum(not c.passed for c in self.checks)
        suite = ElementTree.Element(
            "testsuite",
            name="uaef-frames gate",
            tests=str(len(self.checks)),
            failures=str(failed),
            errors="0",
            skipped="0",
        )
        for check in self.checks:
            case = ElementTree.SubElement(
                suite, "testcase", classname=xml(self.run_id), name=xml(check.rule)
            )
            if check.passed:
                ElementTree.SubElement(case, "system-out").text = xml(check.words)
            else:
                ElementTree.SubElement(case, "failure", message=xml(check.words))
        if self.notes:
            ElementTree.SubElement(suite, "system-out").text = xml("\n".join(self.notes))
        return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(
            suite, encoding="unicode"
        )

    def annotations(self) -> str:
        """GitHub workflow commands: an error a rule that is not passed, a notice if all are, and a
        warning a note.
        """
        lines = [
            f"::error title={command_property(f'uaef-frames: {c.rule}')}::{command_data(c.words)}"
            for c in self.checks
            if not c.passed
        ] or [f"::notice title=uaef-frames::{command_data(f'{len(self.checks)} rules passed')}"]
        lines += [f"::warning title=uaef-frames::{command_data(note)}" for note in self.notes]
        return "\n".join(lines) + "\n"

    def to_dict(self) -> dict[str, Any]:
        """All of it, for machines."""
        return {
            "run_id": self.run_id,
            "against": self.against,
            "passed": self.passed,
            "checks": self.table.to_dicts(),
            "notes": self.notes,
        }

    def _title(self) -> str:
        return self.run_id if self.against is None else f"{self.against} → {self.run_id}"

    def __repr__(self) -> str:
        failed = sum(not c.passed for c in self.checks)
        return f"GateResult({self._title()}: {len(self.checks)} rules, {failed} not passed)"

    def _repr_html_(self) -> str:
        notes = "".join(f"<p>{escape(note)}</p>" for note in self.notes)
        return f"<p>{escape(repr(self))}</p>{whole(self.table)}{notes}"


def gate(
    run: Run | str | Path,
    *,
    against: Run | str | Path | None = None,
    fail_if: str | Sequence[str] | None = (),
    fail_under: Mapping[str, float] | str | Sequence[str] | None = (),
    max_missing: int | None = None,
    rules: str | Path | None = None,
) -> GateResult:
    """Hold a run against rules.

    A name is `overall`, a dimension, or a metric, and means the first of these that has it.

    Args:
        run: The run to pass.
        against: The run that `fail_if` compares it with.
        fail_if: Rules such as "accuracy drops 0.02 with p<0.05", "overall drops 0.01",
            "latency_score rises 0.1": the mean over the sessions of both runs differs by that (0
            to 1) or more, and where a p is given, the paired t test's p value, Holm-corrected over
            all rules that give one, is below. `changes` is either way.
        fail_under: The least mean (0 to 1) of a metric, a dimension or "overall":
            {"overall": 0.7} or ["overall=0.7"].
        max_missing: Sessions of `against` that the run may lack; default 0. With `fail_if` only.
        rules: A YAML file with `fail_if` (a list), `fail_under` (a mapping) and `max_missing`; what
            is given here too goes before.

    What was not measured, or not in both runs, is not passed: a name without a score; a rule with
    less than half of what was scored before, in the sessions that both runs have; a floor where
    less than half of the scores came that were asked for; a rule with a p over a single session. A
    drop that cannot be tested (all sessions differ by the same) is not passed either.

    Raises:
        ConfigError: A rule cannot be read, there is none, or `against` is missing.
        StoreError: A run cannot be opened, or they have no session in common.
    """
    changes = _rules(fail_if)
    floors, missing = _floors(fail_under or ()), max_missing
    if rules is not None:
        if not isinstance(cast("Any", rules), (str, Path)):
            raise ConfigError(f"rules is a YAML file, not {rules!r}; give fail_if and fail_under")
        more_changes, more_floors, more_missing = _read(Path(rules))
        changes += more_changes
        floors = {**more_floors, **floors}
        missing = more_missing if missing is None else missing
    if not changes and not floors:
        raise ConfigError(
            'a gate needs rules: fail_if=["accuracy drops 0.02 with p<0.05"], '
            'fail_under={"overall": 0.7}, or a YAML file of them'
        )
    allowed = _count(missing)
    parsed = [(rule, _parsed(rule)) for rule in changes]
    opened = run if isinstance(run, Run) else open_run(run)
    checks = _under(opened, floors)
    if not parsed:
        if missing is not None:
            raise ConfigError("max_missing is about sessions of another run: give fail_if rules")
        return GateResult(opened.run_id, None, checks)
    if against is None:
        raise ConfigError(f"{changes[0]!r} compares two runs: say which with against=")
    base = against if isinstance(against, Run) else open_run(against)
    found = compare(base, opened)
    checks += [*_differences(found, parsed), _missing(found, allowed)]
    return GateResult(opened.run_id, base.run_id, checks, found.remarks)


def _rules(given: Any) -> list[Any]:
    if given is None or isinstance(given, (list, tuple)):
        return list(cast("Sequence[Any]", given or ()))
    if not isinstance(given, str):
        raise ConfigError(f"fail_if is a list of rules, not {given!r}")
    return [given]


def _parsed(rule: Any) -> re.Match[str]:
    found = _RULE.fullmatch(rule) if is_text(rule) else None
    if found is None:
        raise ConfigError(
            f'{rule!r} is no rule; write "accuracy drops 0.02 with p<0.05": a name, '
            "drops, rises or changes, a number, and if wanted a p value"
        )
    amount, p = found["amount"], found["p"]
    if amount is None and p is None:
        raise ConfigError(f"{rule!r} says neither by how much nor with which p")
    if amount is not None and float(amount) > 1:
        raise ConfigError(f"{rule!r} never holds: scores lie between 0 and 1; write 0.02 for 2 %")
    if p is not None and not 0 < float(p) <= 1:
        raise ConfigError(f"{rule!r} gives no p value: it lies between 0 and 1")
    return found


def _floors(given: Any) -> dict[str, float]:
    if isinstance(given, (str, list, tuple)):
        texts = [given] if isinstance(given, str) else list(cast("Sequence[Any]", given))
        matches = [(t, _UNDER.fullmatch(t) if is_text(t) else None) for t in texts]
        wrong = [text for text, found in matches if found is None]
        if wrong:
            raise ConfigError(f'{wrong[0]!r} is no floor; write "overall=0.7"')
        named: list[tuple[Any, Any]] = [
            (found["name"], float(found["least"])) for _, found in matches if found is not None
        ]
    elif isinstance(given, Mapping):
        named = list(cast("Mapping[Any, Any]", given).items())
    else:
        raise ConfigError(f'fail_under maps names to numbers: {{"overall": 0.7}}, not {given!r}')
    for name, least in named:
        if not is_text(name):
            raise ConfigError(f"fail_under: {name!r} is no name")
        if isinstance(least, bool) or not isinstance(least, (int, float)) or not 0 <= least <= 1:
            raise ConfigError(f"fail_under: {name} is a number from 0 to 1, not {least!r}")
    return {name: float(least) for name, least in named}


def _count(missing: Any) -> int:
    if missing is None:
        return 0
    if isinstance(missing, bool) or not isinstance(missing, int) or missing < 0:
        raise ConfigError(f"max_missing is a number of sessions, not {missing!r}")
    return missing


def _read(path: Path) -> tuple[list[str], dict[str, float], int | None]:
    import yaml

    try:
        held: Any = yaml.safe_load(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error
    known = {"fail_if", "fail_under", "max_missing"}
    if not isinstance(held, dict) or set(cast("dict[Any, Any]", held)) - known:
        raise ConfigError(
            f"{path} holds `fail_if`, a list of rules, `fail_under`, a mapping, and `max_missing`"
        )
    rules = cast("dict[str, Any]", held)
    changes: Any = rules.get("fail_if") or []
    changes = [changes] if isinstance(changes, str) else changes
    if not isinstance(changes, list) or not all(isinstance(c, str) for c in cast("Any", changes)):
        raise ConfigError(f"{path}: fail_if is a list of rules")
    missing: Any = rules.get("max_missing")
    try:
        _count(missing)
        return cast("list[str]", changes), _floors(rules.get("fail_under") or {}), missing
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def _under(run: Run, floors: Mapping[str, float]) -> list[Check]:
    if not floors:
        return []
    held = by_name(run_figures(run))
    verdicts = run.collect(
        run.scores.group_by("dimension", "metric").agg(
            scored=pl.col("score").count(), failed=pl.col("warning").is_in(FAILED_VERDICTS).sum()
        )
    )
    made: list[Check] = []
    for name, least in floors.items():
        rule, row = f"{name} at least {least:g}", held.get(name)
        if row is None:
            made.append(Check(rule, False, _unknown(name, held)))
            continue
        if row["mean"] is None:
            made.append(Check(rule, False, f"{name} has no score in this run"))
            continue
        parts = (
            verdicts if row["kind"] == "overall" else verdicts.filter(pl.col(row["kind"]) == name)
        )
        failed, scored = int(parts["failed"].sum()), int(parts["scored"].sum())
        if failed > scored:
            words = f"not measured: the judge failed to give {failed} of {failed + scored} scores"
            made.append(Check(rule, False, words))
            continue
        mean, count = row["mean"], f"{row['sessions_scored']} of {row['sessions']} sessions scored"
        made.append(Check(rule, mean >= least - _CLOSE, f"{mean:.4f}, {count}"))
    return made


def _missing(found: Comparison, allowed: int) -> Check:
    gone = len(found.only_in_a)
    rule = f"at most {allowed} sessions missing" if allowed else "no session is missing"
    words = f"{gone} of {gone + found.in_both} sessions of {found.run_a} are missing"
    return Check(rule, gone <= allowed, words)


def _differences(found: Comparison, parsed: Sequence[tuple[str, re.Match[str]]]) -> list[Check]:
    held = by_name(found.table)
    tested = [
        held[m["name"]]["p"]
        for _, m in parsed
        if m["p"] is not None and m["name"] in held and held[m["name"]]["p"] is not None
    ]
    corrected = iter(holm(tested))
    made: list[Check] = []
    for rule, said in parsed:
        row = held.get(said["name"])
        p = None
        if row is not None and row["p"] is not None and said["p"] is not None:
            p = next(corrected)
        if row is None:
            made.append(Check(rule, False, _unknown(said["name"], held)))
        else:
            made.append(_difference(rule, said, row, p))
    return made


def _unknown(name: str, held: Mapping[str, Any]) -> str:
    return f"nothing is called {name!r}: {near(name, list(held))}"


def _difference(rule: str, said: re.Match[str], row: dict[str, Any], p: float | None) -> Check:
    if row["difference"] is None:
        return Check(rule, False, f"{said['name']} has no score in both runs")
    count: int = row["n"]
    before = count + row["only_a"]
    if count < _COVERED * before:
        words = f"not measured: of {before} sessions scored before, {count} are scored now"
        return Check(rule, False, words)
    if said["p"] is not None and count < 2:
        return Check(rule, False, f"not measured: {row['note']}")
    verb = cast("Literal['drops', 'rises', 'changes']", said["verb"].lower())
    by: float = row["difference"]
    size = {"drops": -by, "rises": by, "changes": abs(by)}[verb]
    large = size >= float(said["amount"] or 0) - _CLOSE and size > _CLOSE
    words = f"{row['mean_a']:.4f} → {row['mean_b']:.4f} ({by:+.4f}, {count} sessions"
    if said["p"] is not None and p is not None:
        words += f", p {p:.3g}"
    elif said["p"] is not None and large:
        words += f", {row['note'] or 'not tested'}"
    coverage = f"; scored before and not now: {row['only_a']}" if row["only_a"] else ""
    if row["unlike"]:
        coverage += f"; in {row['unlike']}, scores of one run alone are left out"
    return Check(rule, not (large and _is_unlikely(said, p)), f"{words}){coverage}")


def _is_unlikely(said: re.Match[str], p: float | None) -> bool:
    """Whether chance is ruled out as far as the rule asks; what cannot be tested counts as so."""
    if said["p"] is None or p is None:
        return True
    return p < float(said["p"]) if said["bound"] == "<" else p <= float(said["p"])
