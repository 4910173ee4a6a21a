"""What a metric is: one declaration that registry, planner, docs and command line all read.

A metric never knows where its rows came from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import polars as pl

    from uaef_frames.judge.rubrics import Rubric

Phase = Literal["turn", "session"]
By = Literal["expr", "judge"]
Scale = Literal["0-1", "1-5", "boolean", "count"]

DIMENSIONS = (
    "Tool Calling",
    "Response Quality",
    "Responsible AI",
    "Performance",
    "Reasoning",
    "Multi-Agent",
    "Multi-Turn",
)
"""The built-in dimensions in the order in which results list them."""

MISSING = "missing_data"
NOT_APPLICABLE = "not_applicable"
INVALID = "invalid_data"
NO_JUDGE = "no_judge"
METRIC_ERROR = "metric_error"


class Constants(Mapping[str, Any]):
    """A metric's constants, readable as `c.threshold_ms` and `c["threshold_ms"]`."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = dict(values)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self._values[name]
        except KeyError:
            raise AttributeError(f"no constant {name!r}; there is {list(self._values)}") from None

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Any:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


@dataclass(frozen=True, slots=True)
class Unless:
    """A condition under which there is no score, the warning that says so, and the words for it."""

    condition: pl.Expr
    warning: str
    reason: str | pl.Expr


@dataclass(frozen=True, slots=True)
class Scored:
    """What an expression metric returns: columns over the rows it was given.

    Attributes:
        score: Float64 in [0, 1]; anything else comes out as null with `invalid_data`.
        reasoning: Text for a person.
        details: A struct with the figures behind the score, or None.
        unless: Conditions for null, the first that holds decides.
    """

    score: pl.Expr
    reasoning: pl.Expr | None = None
    details: pl.Expr | None = None
    unless: tuple[Unless, ...] = ()


def verdict(field: str) -> pl.Expr:
    """A field of a verdict, as an expression: numbers are Float64."""
    import polars as pl

    return pl.col("verdict").struct.field(field)


@dataclass(frozen=True, slots=True)
class Asked:
    """What a judge metric shows and asks.

    Attributes:
        rubric: What the judge is told.
        shows: Materials (see `metrics.materials`) that must be there; without one there is no call.
        may_show: Materials that are shown where they are there.
        quotes: The materials that are judged: a verdict's quote comes from one of them.
        unless: Conditions under which nothing is asked.
        upper: The most that a count of the verdict can be, as a column over units.
        score: From the verdict's fields (see `verdict`) and the columns of the unit to a score;
            None: the field `score`, by the scale.
        details: A struct with figures behind the score, or None.
    """

    rubric: Rubric
    shows: tuple[str, ...]
    may_show: tuple[str, ...] = ()
    quotes: tuple[str, ...] = ()
    unless: tuple[Unless, ...] = ()
    upper: pl.Expr | None = None
    score: pl.Expr | None = None
    details: pl.Expr | None = None


@dataclass(frozen=True, slots=True)
class MetricSpec:
    """One metric.

    Attributes:
        name: Unique in the registry.
        dimension: The dimension it counts in.
        phase: `turn`: once a turn, then averaged; `session`: once on the whole conversation.
        by: `expr`: a column expression; `judge`: an LLM's verdict.
        description: One line, for tables.
        ground_truth: What it needs of the ground truth, in words; empty: nothing.
        constants: What a run may set, with defaults.
        needs: Features (see `metrics.features`) whose columns the expression reads.
        stage: 2 for a metric that reads the scores of others, else 1.
        requires_multi_agent: Null, `not_applicable`, on a single-agent conversation.
        scale: For judge metrics, what the judge answers on.
        asked: For judge metrics, what is shown and asked.
        in_default: Part of `metrics=None`; variants and opt-ins are asked for by name.
        expression: From constants to columns; None for judge metrics.
    """

    name: str
    dimension: str
    phase: Phase
    by: By
    description: str
    ground_truth: str = ""
    constants: Mapping[str, Any] = field(default_factory=dict[str, Any])
    needs: tuple[str, ...] = ()
    stage: Literal[1, 2] = 1
    requires_multi_agent: bool = False
    scale: Scale = "0-1"
    asked: Asked | None = None
    in_default: bool = True
    expression: Callable[[Constants], Scored | pl.Expr] | None = None

    def __repr__(self) -> str:
        return (
            f"MetricSpec({self.name!r}, {self.dimension!r}, phase={self.phase!r}, by={self.by!r})"
        )
