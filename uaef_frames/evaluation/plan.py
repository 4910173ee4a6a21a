"""The plan of an evaluation: which metrics with which constants, and how dimensions are weighed.

Everything a caller can get wrong is checked here, before anything is scored.
"""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from uaef_frames.errors import ConfigError
from uaef_frames.judge.config import Judge, as_judge
from uaef_frames.metrics import (
    MetricSpec,
    get_metric,
    list_metrics,
    resolve_metrics,
    with_constants,
)
from uaef_frames.metrics.spec import DIMENSIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from uaef_frames.judge.session import JudgeSession

Profile: TypeAlias = Literal["single", "multi", "multi_turn"]

WEIGHTS: Mapping[Profile, Mapping[str, float]] = {
    "single": {
        "Tool Calling": 0.25,
        "Response Quality": 0.25,
        "Responsible AI": 0.20,
        "Performance": 0.10,
        "Multi-Turn": 0.10,
        "Reasoning": 0.10,
    },
    "multi": {
        "Tool Calling": 0.20,
        "Response Quality": 0.20,
        "Responsible AI": 0.15,
        "Performance": 0.10,
        "Multi-Turn": 0.10,
        "Multi-Agent": 0.20,
        "Reasoning": 0.05,
    },
    "multi_turn": {"Multi-Turn": 1.0},
}
"""Default weights by evaluator; a built-in dimension that is absent is reported, not counted."""

THRESHOLDS: Mapping[str, float] = {
    "Tool Calling": 0.7,
    "Response Quality": 0.7,
    "Responsible AI": 0.8,
    "Performance": 0.6,
    "Multi-Turn": 0.6,
    "Multi-Agent": 0.6,
    "Reasoning": 0.6,
}
"""Default thresholds; the multi-turn evaluator asks 0.7 of Multi-Turn."""

CUSTOM_WEIGHT = 0.10
"""Default weight of a dimension that a user's own metric brings; it has no threshold."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What will be scored and how it is put together.

    `explicit`: the caller named the metrics, so that none of them may be absent from the result.
    `weights` and `thresholds` are the caller's, or None for the defaults of each profile. `judge`
    is asked for every judge metric that has none of its own in `judges`.
    """

    metrics: tuple[MetricSpec, ...]
    explicit: bool
    weights: Mapping[str, float] | None = None
    thresholds: Mapping[str, float] | None = None
    judge: Judge | None = None
    judges: Mapping[str, Judge] = field(default_factory=dict[str, Judge])

    @property
    def unjudged(self) -> list[str]:
        """The judge metrics that nobody is asked for."""
        if self.judge is not None:
            return []
        return [s.name for s in self.metrics if s.by == "judge" and s.name not in self.judges]

    def judge_of(self, metric: str) -> Judge | None:
        """Who is asked for a metric."""
        return self.judges.get(metric, self.judge)

    def open_judges(self) -> AbstractContextManager[JudgeSession | None]:
        """The session in which judges are asked; None where there is nothing to ask."""
        judged = [s.name for s in self.metrics if s.by == "judge"]
        if len(self.unjudged) == len(judged):
            return nullcontext()
        from uaef_frames.judge.session import JudgeSession

        return JudgeSession(self.judge, self.judges)

    @property
    def dimensions(self) -> list[str]:
        """The dimensions of the metrics, in the order in which results list them."""
        return list(dict.fromkeys(spec.dimension for spec in self.metrics))

    def weight(self, dimension: str, profile: Profile) -> float:
        """The weight of a dimension; a caller's weights replace the defaults whole."""
        if self.weights is not None:
            return self.weights.get(dimension, 0.0)
        if dimension in DIMENSIONS:
            return WEIGHTS[profile].get(dimension, 0.0)
        return CUSTOM_WEIGHT

    def threshold(self, dimension: str, profile: Profile) -> float | None:
        """The threshold of a dimension, the caller's before the default; None: it has none."""
        if self.thresholds is not None and dimension in self.thresholds:
            return self.thresholds[dimension]
        if profile == "multi_turn" and dimension == "Multi-Turn":
            return 0.7
        return THRESHOLDS.get(dimension)


def make_plan(
    metrics: Iterable[str] | None = None,
    metric_set: str | None = None,
    *,
    dimension_weights: Mapping[str, float] | None = None,
    thresholds: Mapping[str, float] | None = None,
    constants: Mapping[str, Mapping[str, Any]] | None = None,
    judge: Judge | str | bool | None = None,
    judges: Mapping[str, Judge | str] | None = None,
) -> Plan:
    """Check what a caller asked for.

    Raises:
        ConfigError: An unknown metric, metric set, dimension or constant, or a value that makes no
            sense; the message suggests the right spelling.
    """
    specs = resolve_metrics(metrics, metric_set)
    return Plan(
        metrics=tuple(with_constants(specs, constants)),
        explicit=metrics is not None,
        weights=_checked("dimension_weights", dimension_weights, upper=math.inf),
        thresholds=_checked("thresholds", thresholds, upper=1.0),
        judge=as_judge(judge),
        judges=_judges(judges, specs),
    )


def _judges(
    judges: Mapping[str, Judge | str] | None, specs: Iterable[MetricSpec]
) -> dict[str, Judge]:
    asked = {spec.name for spec in specs}
    made: dict[str, Judge] = {}
    for name, given in (judges or {}).items():
        if get_metric(name).by != "judge":
            raise ConfigError(f"judges: {name!r} is not scored by a judge")
        found = as_judge(given)
        if found is not None and name in asked:
            made[name] = found
    return made


def _checked(
    argument: str, values: Mapping[str, float] | None, upper: float
) -> dict[str, float] | None:
    if values is None:
        return None
    known = dict.fromkeys([*DIMENSIONS, *(s.dimension for s in list_metrics())])
    for name, value in values.items():
        if name not in known:
            raise ConfigError(f"{argument}: unknown dimension {name!r}.{_suggestion(name, known)}")
        given = cast("object", value)
        number = isinstance(given, int | float) and not isinstance(given, bool)
        if not number or not math.isfinite(value) or not 0 <= value <= upper:
            bound = "at least 0" if upper == math.inf else f"between 0 and {upper:g}"
            raise ConfigError(f"{argument}[{name!r}] is a number {bound}, not {value!r}")
    if argument == "dimension_weights" and not any(values.values()):
        raise ConfigError("dimension_weights: at least one weight is above 0")
    return dict(values)


def _suggestion(name: object, known: Iterable[str]) -> str:
    folded = {_fold(k): k for k in known}
    near = get_close_matches(_fold(str(name)), folded, n=1, cutoff=0.6)
    if near:
        return f" Did you mean {folded[near[0]]!r}?"
    return f" There is {', '.join(map(repr, folded.values()))}"


def _fold(name: str) -> str:
    return "".join(c for c in name.lower() if c.isalnum())
