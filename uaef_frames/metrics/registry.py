"""The registry: every metric by name, and how a request for metrics becomes a list of them.

Importing `uaef_frames.metrics` fills it with the built-in metrics.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from importlib.resources import files
from typing import Any, TypeVar

import polars as pl

from uaef_frames.errors import ConfigError, warn
from uaef_frames.judge.rubrics import Rubric
from uaef_frames.metrics.spec import (
    DIMENSIONS,
    Asked,
    Constants,
    MetricSpec,
    Phase,
    Scale,
    Scored,
    Unless,
)

Expression = Callable[[Constants], Scored | pl.Expr]
_Function = TypeVar("_Function", bound=Callable[..., Any])

_registry: dict[str, MetricSpec] = {}


def metric(
    name: str,
    dimension: str,
    *,
    phase: Phase = "turn",
    description: str = "",
    constants: Mapping[str, Any] | None = None,
    needs: tuple[str, ...] = (),
    ground_truth: str = "",
    requires_multi_agent: bool = False,
    stage: int = 1,
    replace_existing: bool = False,
) -> Callable[[_Function], _Function]:
    """Declare a deterministic metric: a function that returns a polars expression over turns.

    The function takes the metric's constants, or nothing, and returns either an expression for the
    score or a `Scored` with reasoning and conditions for null. It sees every column of `turns` plus
    those of the features it `needs`; `phase="session"` gives it one row a conversation instead.

    Examples:
        >>> import polars as pl
        >>> from uaef_frames import metric, unregister_metric
        >>> @metric("short_answer", "Response Quality", constants={"limit": 200})
        ... def short_answer(c):
        ...     return (pl.col("response").str.len_chars() <= c.limit).cast(pl.Float64)
        >>> unregister_metric("short_answer")

    Raises:
        ConfigError: The name is taken (pass `replace_existing=True`), or an argument is not one of
            the allowed words.
    """

    def declare(function: _Function) -> _Function:
        text = description or (function.__doc__ or "").strip().partition("\n")[0]
        register_metric(
            MetricSpec(
                name=name,
                dimension=dimension,
                phase=phase,
                by="expr",
                description=text,
                ground_truth=ground_truth,
                constants=dict(constants or {}),
                needs=needs,
                stage=2 if stage == 2 else 1,
                requires_multi_agent=requires_multi_agent,
                expression=_with_constants(function),
            ),
            replace_existing=replace_existing,
        )
        return function

    return declare


def judged(
    name: str,
    dimension: str,
    description: str,
    *,
    shows: tuple[str, ...],
    may_show: tuple[str, ...] = (),
    phase: Phase = "turn",
    ground_truth: str = "",
    scale: Scale = "0-1",
    needs: tuple[str, ...] = (),
    unless: tuple[Unless, ...] = (),
    upper: pl.Expr | None = None,
    score: pl.Expr | None = None,
    details: pl.Expr | None = None,
    requires_multi_agent: bool = False,
    in_default: bool = True,
    rubric: str | None = None,
    replace_existing: bool = True,
) -> MetricSpec:
    """Declare and register a metric that an LLM judge scores by `rubrics/<name>.md`.

    `shows` and `may_show` name materials, what is judged among them (and may be quoted) is one of
    `JUDGED`, else the first; the rest is as in `MetricSpec` and `Asked`.

    Raises:
        ConfigError: The rubric cannot be read, or a material is not known.
    """
    from uaef_frames.metrics.materials import MATERIALS

    for material in (*shows, *may_show):
        if material not in MATERIALS:
            near = difflib.get_close_matches(material, MATERIALS, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise ConfigError(
                f"{name}: there is no material {material!r}.{hint} There is {', '.join(MATERIALS)}"
            )
    if not shows:
        raise ConfigError(f"{name}: a judge must be shown something")
    text = _shipped_rubric(name) if rubric is None else rubric
    return register_metric(
        MetricSpec(
            name=name,
            dimension=dimension,
            phase=phase,
            by="judge",
            description=description,
            ground_truth=ground_truth,
            needs=needs,
            scale=scale,
            asked=Asked(
                rubric=Rubric.read(name, text, scale),
                shows=shows,
                may_show=may_show,
                quotes=tuple(s for s in shows if s in JUDGED) or shows[:1],
                unless=unless,
                upper=upper,
                score=score,
                details=details,
            ),
            requires_multi_agent=requires_multi_agent,
            in_default=in_default,
        ),
        replace_existing=replace_existing,
    )


JUDGED = ("response", "reasoning", "team", "conversation", "transcript", "exchange")
"""The materials that are an assistant's work; the others are what it is held against."""


def _shipped_rubric(name: str) -> str:
    return files("uaef_frames.metrics").joinpath("rubrics", f"{name}.md").read_text("utf-8")


def register_metric(spec: MetricSpec, *, replace_existing: bool = False) -> MetricSpec:
    """Add a metric to the registry.

    A metric of the name of its own dimension is possible; results that are asked for by that name
    are then the dimension's.

    Raises:
        ConfigError: The name is taken, or the spec cannot work.
    """
    for what, name in (("metric's name", spec.name), ("dimension's name", spec.dimension)):
        _must_be_name(what, name)
    if spec.name in DIMENSIONS:
        raise ConfigError(f"{spec.name!r} is the name of a dimension; give the metric another")
    if spec.name in _registry and not replace_existing:
        raise ConfigError(
            f"metric {spec.name!r} is registered already; pass replace_existing=True to replace it"
        )
    if spec.phase not in ("turn", "session"):
        raise ConfigError(f"metric {spec.name!r}: phase is 'turn' or 'session', not {spec.phase!r}")
    if spec.by == "expr" and spec.expression is None:
        raise ConfigError(f"metric {spec.name!r} is deterministic and has no expression")
    if spec.by == "judge" and spec.asked is None:
        raise ConfigError(f"metric {spec.name!r} is judged and says nothing to ask (see judged())")
    _registry[spec.name] = spec
    return spec


def _must_be_name(what: str, name: Any) -> None:
    """Names go into tables, reports and rules: printable, and none that means something else."""
    if not isinstance(name, str) or not name or name != name.strip():
        raise ConfigError(f"a {what} is not blank and has no blanks around it: {name!r}")
    if not name.isprintable():
        raise ConfigError(f"a {what} is one line of characters that can be printed: {name!r}")
    if name == "overall":
        raise ConfigError(f"'overall' is the score of whole sessions, and no {what}")


def unregister_metric(name: str) -> None:
    """Take a metric out of the registry.

    Raises:
        ConfigError: There is none of that name.
    """
    get_metric(name)
    del _registry[name]


def get_metric(name: str) -> MetricSpec:
    """The metric of that name.

    Raises:
        ConfigError: There is none; the message names the closest ones and how to list all.
    """
    if name in _registry:
        return _registry[name]
    near = difflib.get_close_matches(str(name), _registry, n=3, cutoff=0.5)
    hint = f" Did you mean {', '.join(map(repr, near))}?" if near else ""
    if name in _OPT_IN:
        hint += " It is opt-in: call register_use_case_specific_metrics() first."
    raise ConfigError(
        f"unknown metric {name!r}.{hint} list_metrics() or `uaef-frames metrics` lists all"
    )


_OPT_IN = ("containment", "resolution")


def list_metrics() -> list[MetricSpec]:
    """Every registered metric, by dimension and then in the order of registration."""
    known = {d: i for i, d in enumerate(DIMENSIONS)}
    specs = list(_registry.values())
    return sorted(specs, key=lambda s: known.get(s.dimension, len(known)))


def metric_sets() -> dict[str, list[str]]:
    """The names that `metric_set=` takes, and the metrics each stands for."""
    specs = list_metrics()
    sets: dict[str, list[MetricSpec]] = {
        "default": [s for s in specs if s.in_default],
        "all": specs,
        "deterministic": [s for s in specs if s.by == "expr"],
        "judge": [s for s in specs if s.by == "judge"],
        "turn": [s for s in specs if s.phase == "turn"],
        "session": [s for s in specs if s.phase == "session"],
    }
    for spec in specs:
        sets.setdefault(_slug(spec.dimension), []).append(spec)
    return {name: [s.name for s in members] for name, members in sets.items()}


def resolve_metrics(
    metrics: Iterable[str] | None = None, metric_set: str | None = None
) -> list[MetricSpec]:
    """The metrics a caller asked for, in registry order, each once.

    `metrics` wins over `metric_set`, with a warning; neither means the `default` set. The name of a
    set among `metrics` stands for its members.

    Raises:
        ConfigError: An unknown name in either, or an empty list.
    """
    sets = metric_sets()
    if metric_set is not None and metric_set not in sets:
        near = difflib.get_close_matches(str(metric_set), sets, n=3)
        hint = f" Did you mean {', '.join(map(repr, near))}?" if near else ""
        raise ConfigError(f"unknown metric_set {metric_set!r}.{hint} There is {', '.join(sets)}")
    if metrics is None:
        names = sets[metric_set or "default"]
    else:
        names = [metrics] if isinstance(metrics, str) else list(metrics)
        if not names:
            raise ConfigError("metrics=[] asks for nothing; leave it out to get all of them")
        if metric_set is not None:
            warn("both metrics= and metric_set= were given; metrics= is used")
    expanded = [
        n for name in names for n in ([name] if name in _registry else sets.get(name, [name]))
    ]
    wanted = {get_metric(name).name for name in expanded}
    return [spec for spec in list_metrics() if spec.name in wanted]


def with_constants(
    specs: Iterable[MetricSpec], constants: Mapping[str, Mapping[str, Any]] | None
) -> list[MetricSpec]:
    """The same metrics with a run's own constants, by metric: `{"latency_score": {...}}`.

    Raises:
        ConfigError: An unknown metric or constant, or a value of another kind than the default.
    """
    chosen = list(specs)
    for name, values in (constants or {}).items():
        spec = get_metric(name)
        for key, value in values.items():
            _check_constant(spec, key, value)
    return [
        replace(s, constants={**s.constants, **(constants or {}).get(s.name, {})}) for s in chosen
    ]


def _check_constant(spec: MetricSpec, key: str, value: Any) -> None:
    if key not in spec.constants:
        known = ", ".join(map(repr, spec.constants)) or "none"
        raise ConfigError(f"metric {spec.name!r} has no constant {key!r}; it has {known}")
    default = spec.constants[key]
    if isinstance(default, str):
        allowed = ("light", "heavy") if key == "penalty" else None
        if not isinstance(value, str) or (allowed and value not in allowed):
            raise ConfigError(f"{spec.name}.{key} is one of {allowed or 'text'}, not {value!r}")
    elif isinstance(default, int | float) and not isinstance(default, bool):
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not math.isfinite(value) or value < 0:
            raise ConfigError(f"{spec.name}.{key} is a number of at least 0, not {value!r}")


def _with_constants(function: Callable[..., Any]) -> Expression:
    takes_constants = function.__code__.co_argcount > 0 if hasattr(function, "__code__") else True

    def call(constants: Constants) -> Scored | pl.Expr:
        return function(constants) if takes_constants else function()

    return call


def _slug(dimension: str) -> str:
    return dimension.lower().replace("-", "_").replace(" ", "_")
