"""A gate for CI: rules over a run, and over how it differs from another one.

Decides by what is measured: a rule about something that was not measured is not passed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast
from xml.etree import ElementTree

import polars as pl

from uaef_frames.errors import ConfigError
from uaef_frames.store.compare import Comparison, compare, holm
from uaef_frames.store.power import run_figures
from uaef_frames.store.run import Run, open_run

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_NUMBER = r"(?P<{}>\d*\.?\d+)"
_RULE = re.compile(
    r"\s*(?P<name>\S.*?)\s+(?P<verb>drops|rises|changes)"
    rf"(?:\s+(?:by\s+)?{_NUMBER.format('amount')})?"
    rf"(?:\s+with\s+p\s*<\s*{_NUMBER.format('p')})?\s*",
    re.IGNORECASE,
)
_UNDER = re.compile(rf"\s*(?P<name>\S.*?)\s*=\s*{_NUMBER.format('least')}\s*")
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


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
    """

    run_id: str
    against: str | None
    checks: list[Check]

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
        """A table for a pull request."""
        lines = [f"**{'passed' if self.passed else 'failed'}**: {_cell(self._title())}", ""]
        lines += ["| | rule | found |", "| --- | --- | --- |"]
        for check in self.checks:
            mark = "✓" if check.passed else "✗"
            lines.append(f"| {mark} | {_cell(check.rule)} | {_cell(check.words)} |")
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
                suite, "testcase", classname=_xml(self.run_id), name=_xml(check.rule)
            )
            if check.passed:
                ElementTree.SubElement(case, "system-out").text = _xml(check.words)
            else:
                ElementTree.SubElement(case, "failure", message=_xml(check.words))
        return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(
            suite, encoding="unicode"
        )

    def annotations(self) -> str:
        """GitHub workflow commands: an error a rule that is not passed, a notice if all are."""
        errors = [
            f"::error title={_property(f'uaef-frames: {c.rule}')}::{_data(c.words)}"
            for c in self.checks
            if not c.passed
        ]
        every = f"::notice title=uaef-frames::{_data(f'{len(self.checks)} rules passed')}"
        return "\n".join(errors or [every]) + "\n"

    def _title(self) -> str:
        return self.run_id if self.against is None else f"{self.against} → {self.run_id}"

    def __repr__(self) -> str:
        failed = sum(not c.passed for c in self.checks)
        return f"GateResult({self._title()}: {len(self.checks)} rules, {failed} not passed)"

    def _repr_html_(self) -> str:
        return f"<p>{escape(repr(self))}</p>{self.table._repr_html_()}"  # pyright: ignore[reportPrivateUsage]


def gate(
    run: Run | str | Path,
    *,
    against: Run | str | Path | None = None,
    fail_if: Sequence[str] = (),
    fail_under: Mapping[str, float] | Sequence[str] = (),
    rules: str | Path | None = None,
) -> GateResult:
    """Hold a run against rules.

    Args:
        run: The run to pass.
        against: The run that `fail_if` compares it with.
        fail_if: Rules such as "accuracy drops 0.02 with p<0.05", "overall drops 0.01",
            "latency_score rises 0.1": the mean over the sessions of both runs differs by that or
            more, and where a p is given, the paired t test's p value, Holm-corrected over all rules
            that give one, is below. `changes` is either way.
        fail_under: The least mean of a metric, a dimension or "overall": {"overall": 0.7} or
            ["overall=0.7"].
        rules: A YAML file with `fail_if` (a list) and `fail_under` (a mapping), added to these.

    What was not measured, or not in both runs, is not passed. A drop that cannot be tested
    (all sessions differ by the same, or there is one alone) is not passed either.

    Raises:
        ConfigError: A rule cannot be read, there is none, or `against` is missing.
        StoreError: A run cannot be opened, or they have no session in common.
    """
    changes, floors = list(fail_if), _floors(fail_under)
    if rules is not None:
        more_changes, more_floors = _read(Path(rules))
        changes += more_changes
        floors = {**more_floors, **floors}
    if not changes and not floors:
        raise ConfigError(
            'a gate needs rules: fail_if=["accuracy drops 0.02 with p<0.05"], '
            'fail_under={"overall": 0.7}, or a YAML file of them'
        )
    parsed = [(rule, _parsed(rule)) for rule in changes]
    opened = run if isinstance(run, Run) else open_run(run)
    checks = _under(opened, floors)
    if not parsed:
        return GateResult(opened.run_id, None, checks)
    if against is None:
        raise ConfigError(f"{changes[0]!r} compares two runs: say which with against=")
    base = against if isinstance(against, Run) else open_run(against)
    checks += _differences(compare(base, opened), parsed)
    return GateResult(opened.run_id, base.run_id, checks)


def _parsed(rule: str) -> re.Match[str]:
    found = _RULE.fullmatch(rule)
    if found is None:
        raise ConfigError(
            f'{rule!r} is no rule; write "accuracy drops 0.02 with p<0.05": a name, '
            "drops, rises or changes, a number, and if wanted a p value"
        )
    if found["amount"] is None and found["p"] is None:
        raise ConfigError(f"{rule!r} says neither by how much nor with which p")
    return found


def _floors(given: Mapping[str, float] | Sequence[str]) -> dict[str, float]:
    if not isinstance(given, (str, list, tuple)):
        named = cast("Mapping[str, float]", given)
        for name, least in named.items():
            if isinstance(least, bool) or not isinstance(cast("Any", least), (int, float)):
                raise ConfigError(f"fail_under: {name} is a number, not {least!r}")
        return dict(named)
    made: dict[str, float] = {}
    for text in [given] if isinstance(given, str) else cast("Sequence[str]", given):
        found = _UNDER.fullmatch(text)
        if found is None:
            raise ConfigError(f'{text!r} is no floor; write "overall=0.7"')
        made[found["name"]] = float(found["least"])
    return made


def _read(path: Path) -> tuple[list[str], dict[str, float]]:
    import yaml

    try:
        held: Any = yaml.safe_load(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error
    known = {"fail_if", "fail_under"}
    if not isinstance(held, dict) or set(cast("dict[Any, Any]", held)) - known:
        raise ConfigError(f"{path} holds `fail_if`, a list of rules, and `fail_under`, a mapping")
    rules = cast("dict[str, Any]", held)
    changes: Any = rules.get("fail_if") or []
    if isinstance(changes, str):
        changes = [changes]
    floors: Any = rules.get("fail_under") or {}
    if not isinstance(changes, list) or not all(isinstance(c, str) for c in cast("Any", changes)):
        raise ConfigError(f"{path}: fail_if is a list of rules")
    if not isinstance(floors, (dict, list, str)):
        raise ConfigError(f"{path}: fail_under maps names to numbers")
    return cast("list[str]", changes), _floors(cast("Any", floors))


def _under(run: Run, floors: Mapping[str, float]) -> list[Check]:
    if not floors:
        return []
    held = {r["metric"]: r for r in run_figures(run).rows(named=True)}
    made: list[Check] = []
    for name, least in floors.items():
        rule, row = f"{name} at least {least:g}", held.get(name)
        if row is None or row["mean"] is None:
            made.append(Check(rule, False, f"{name} has no score in this run"))
            continue
        mean, count = row["mean"], f"{row['sessions_scored']} of {row['sessions']} sessions scored"
        made.append(Check(rule, mean >= least - 1e-9, f"{mean:.4f}, {count}"))
    return made


def _differences(found: Comparison, parsed: Sequence[tuple[str, re.Match[str]]]) -> list[Check]:
    held = {r["name"]: r for r in reversed(found.table.rows(named=True))}
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
        made.append(_difference(rule, said, row, p))
    return made


def _difference(
    rule: str, said: re.Match[str], row: dict[str, Any] | None, p: float | None
) -> Check:
    if row is None or row["difference"] is None:
        return Check(rule, False, f"{said['name']} has no score in both runs")
    verb = cast("Literal['drops', 'rises', 'changes']", said["verb"].lower())
    by: float = row["difference"]
    size = {"drops": -by, "rises": by, "changes": abs(by)}[verb]
    large = size >= float(said["amount"] or 0) - 1e-9 and size > 1e-9
    words = f"{row['mean_a']:.4f} → {row['mean_b']:.4f} ({by:+.4f}, {row['n']} sessions"
    if said["p"] is not None and p is not None:
        words += f", p {p:.3g}"
    elif said["p"] is not None and large:
        words += f", {row['note'] or 'not tested'}"
    unlikely = said["p"] is None or p is None or p < float(said["p"])
    coverage = f"; scored before and not now: {row['only_a']}" if row["only_a"] else ""
    return Check(rule, not (large and unlikely), f"{words}){coverage}")


def _cell(text: str) -> str:
    flat = " ".join(_UNPRINTABLE.sub("", text).split())
    return re.sub(r"([\\`*_{}\[\]<>|])", r"\\\1", flat)


def _xml(text: str) -> str:
    return _UNPRINTABLE.sub("", text)


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
