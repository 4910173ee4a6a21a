"""Judged metrics: from units to questions, and from verdicts to scores.

Decides who is asked and what a verdict counts; how it is asked is the judge's business.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import polars as pl

from uaef_frames.errors import ConfigError
from uaef_frames.judge.outcomes import INVALID_VERDICT, Questions
from uaef_frames.metrics.features import FEATURES
from uaef_frames.metrics.materials import MATERIALS
from uaef_frames.metrics.spec import (
    INVALID,
    MISSING,
    NOT_APPLICABLE,
    Asked,
    MetricSpec,
    Unless,
    verdict,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from uaef_frames.judge.config import Judge
    from uaef_frames.metrics.features import MetricTables

SLICE = 2_000
"""Questions that are made at once."""

_COUNTS = ("elided_turns", "cut_characters")
_SUMMED = ("input_tokens", "cached_input_tokens", "output_tokens", "cost_usd")


@dataclass(frozen=True, slots=True)
class Prepared:
    """A judged metric on a batch: its units, and for those that are asked what is shown.

    `units` has unit, the columns that its score reads, `_warning` and `_why_not`; `parts` one row a
    question, with a column of text for each material and the counts of what was left out.
    """

    spec: MetricSpec
    units: pl.DataFrame
    parts: pl.DataFrame

    @property
    def asked(self) -> Asked:
        """What the metric shows and asks."""
        return cast("Asked", self.spec.asked)

    def questions(self) -> Iterator[Questions]:
        """The questions, a slice at a time."""
        names = [*self.asked.shows, *self.asked.may_show]
        user = pl.concat_str([pl.col(f"_{n}") for n in names], separator="\n\n", ignore_nulls=True)
        for rows in self.parts.iter_slices(SLICE):
            frame = rows.select("unit", "part", "upper", *_COUNTS, user=user)
            yield Questions(self.spec.name, self.asked.rubric, self.asked.quotes, frame)


class Preparer:
    """Prepares judged metrics on one batch; what several show is made once."""

    def __init__(self, tables: MetricTables) -> None:
        self._tables = tables
        self._materials: dict[tuple[str, int], pl.DataFrame] = {}
        self._features: dict[str, pl.DataFrame] = {}

    def prepare(self, spec: MetricSpec, units: pl.DataFrame, judge: Judge) -> Prepared:
        """The questions of a metric about those units.

        Raises:
            ConfigError: It needs a feature or material that there is not.
        """
        asked = cast("Asked", spec.asked)
        frame = units
        for need in spec.needs:
            frame = frame.join(self._feature(need), on="unit", how="left", maintain_order="left")
        frame = frame.with_columns(part=pl.lit(None, dtype=pl.Int64), **dict.fromkeys(_COUNTS, 0))
        missing: list[Unless] = []
        names = [*asked.shows, *asked.may_show]
        whole = sum(MATERIALS[n].share for n in names if n in MATERIALS)
        for name in names:
            material = MATERIALS.get(name)
            if material is None:
                raise ConfigError(f"{spec.name} shows {name!r}; there is {', '.join(MATERIALS)}")
            made = self._material(name, judge.max_input_tokens * material.share // whole)
            frame = _with_material(frame, name, made)
            if name in asked.shows:
                missing.append(Unless(pl.col(f"_{name}").is_null(), MISSING, material.missing))
        single = Unless(
            pl.col("topology") == "single", NOT_APPLICABLE, "a single-agent conversation"
        )
        rules = [*([single] if spec.requires_multi_agent else []), *asked.unless, *missing]
        upper = pl.lit(None, dtype=pl.Float64) if asked.upper is None else asked.upper
        frame = frame.with_columns(
            *warning_columns(rules), upper=upper.cast(pl.Float64), part=pl.col("part").fill_null(0)
        )
        texts = [f"_{n}" for n in names]
        return Prepared(
            spec,
            frame.drop(*texts, *_COUNTS, "part", "upper").unique("unit", maintain_order=True),
            frame.filter(pl.col("_warning").is_null()).select(
                "unit", "part", "upper", *_COUNTS, *texts
            ),
        )

    def _feature(self, name: str) -> pl.DataFrame:
        if name not in FEATURES:
            raise ConfigError(f"no feature {name!r}; there is {', '.join(FEATURES)}")
        if name not in self._features:
            self._features[name] = FEATURES[name](self._tables)
        return self._features[name]

    def _material(self, name: str, tokens: int) -> pl.DataFrame:
        key = name, tokens
        if key not in self._materials:
            self._materials[key] = MATERIALS[name].make(self._tables, tokens)
        return self._materials[key]


def _with_material(frame: pl.DataFrame, name: str, made: pl.DataFrame) -> pl.DataFrame:
    """Its text as a column `_name`; a material in parts makes a row a part."""
    renamed = made.select(
        "unit",
        pl.col("text").alias(f"_{name}"),
        *(pl.col(c).alias(f"_more_{c}") for c in _COUNTS),
        _part="part",
    )
    joined = frame.join(renamed, on="unit", how="left", maintain_order="left")
    return joined.with_columns(
        *(pl.col(c) + pl.col(f"_more_{c}").fill_null(0) for c in _COUNTS),
        part=pl.coalesce(pl.when(pl.col("_part") > 0).then(pl.col("_part")), "part", "_part"),
    ).drop("_part", *(f"_more_{c}" for c in _COUNTS))


def warning_columns(unless: Sequence[Unless]) -> list[pl.Expr]:
    """`_warning` and `_why_not` of the first condition that holds."""
    warning, why = pl.lit(None, dtype=pl.String), pl.lit(None, dtype=pl.String)
    for rule in reversed(unless):
        condition = rule.condition.fill_null(value=False)
        reason = pl.lit(rule.reason) if isinstance(rule.reason, str) else rule.reason
        warning = pl.when(condition).then(pl.lit(rule.warning)).otherwise(warning)
        why = pl.when(condition).then(reason).otherwise(why)
    return [warning.alias("_warning"), why.alias("_why_not")]


def judged_scores(prepared: Prepared, outcomes: pl.DataFrame) -> pl.DataFrame:
    """The scores of a metric from its verdicts: the median of votes, the mean of parts."""
    spec, asked = prepared.spec, prepared.asked
    verdicts = _decoded(prepared, outcomes)
    parts = _parts(verdicts, asked).join(
        prepared.parts.select("unit", "part", *_COUNTS), on=["unit", "part"], how="left"
    )
    found = _units(parts.sort("unit", "part"))
    joined = prepared.units.select("unit", "_warning", "_why_not").join(
        found, on="unit", how="left", maintain_order="left"
    )
    unasked = pl.col("_warning").is_not_null()
    return joined.select(
        "unit",
        metric=pl.lit(spec.name),
        dimension=pl.lit(spec.dimension),
        score=pl.when(~unasked).then(pl.col("score")),
        warning=pl.coalesce("_warning", "warning"),
        reasoning=pl.coalesce("_why_not", "reasoning"),
        details=pl.col("details"),
        model="model",
        request_key="request_key",
        cached="cached",
        latency_s="latency_s",
        input_tokens="input_tokens",
        cached_input_tokens="cached_input_tokens",
        output_tokens="output_tokens",
        cost_usd="cost_usd",
    )


_KINDS = {"text": pl.String, "boolean": pl.Boolean, "number": pl.Float64, "integer": pl.Float64}


def _decoded(prepared: Prepared, outcomes: pl.DataFrame) -> pl.DataFrame:
    """Outcomes with their verdicts decoded, beside the unit's columns; and the score of each."""
    spec, asked = prepared.spec, prepared.asked
    fields = asked.rubric.fields
    types = pl.Struct({f.name: _KINDS[f.kind] for f in fields})
    frame = (
        outcomes.rename({"warning": "_failure"})
        .with_columns(verdict=pl.col("verdict").str.json_decode(types))
        .join(
            prepared.units.drop("_warning", "_why_not"),
            on="unit",
            how="left",
            maintain_order="left",
            suffix="_of_unit",
        )
    )
    numbers = [f.name for f in fields if f.kind in ("number", "integer")]
    raw = verdict(numbers[0]) if len(numbers) == 1 else pl.lit(None)
    value = _scaled(spec) if asked.score is None else asked.score
    more = pl.lit(None, dtype=pl.String)
    if asked.details is not None:
        more = asked.details.struct.json_encode()
    elif len(numbers) > 1:
        more = pl.struct(verdict(n).alias(n) for n in numbers).struct.json_encode()
    usable = pl.col("_failure").is_null() & pl.col("applicable")
    return frame.with_columns(
        _score=pl.when(usable).then(value.cast(pl.Float64)),
        _raw=raw.cast(pl.Float64),
        _more=pl.when(usable).then(more),
        _words=verdict("reasoning"),
        _quote=verdict("quote"),
    )


def _scaled(spec: MetricSpec) -> pl.Expr:
    score = verdict("score")
    return (score - 1) / 4 if spec.scale == "1-5" else score


def _parts(verdicts: pl.DataFrame, asked: Asked) -> pl.DataFrame:
    """One row a part: the median of its votes, or why there is none."""
    score, failure = pl.col("_score"), pl.col("_failure")
    valid = score.is_finite() & (score >= 0) & (score <= 1)
    outside = score.is_not_null() & ~valid.fill_null(value=False)
    median = score.filter(valid).median()
    # The words of the vote that lies nearest to the median.
    nearest = (score - median).abs().fill_null(float("inf")).arg_min()
    apart = (~pl.col("applicable") & failure.is_null()).sum()
    return (
        verdicts.group_by("unit", "part", maintain_order=True)
        .agg(
            votes=pl.len(),
            valid=valid.sum(),
            apart=apart,
            median=median,
            score_votes=score,
            raw=pl.col("_raw").filter(valid).median(),
            outside=score.filter(outside).first(),
            words=pl.col("_words").get(nearest),
            quote=pl.col("_quote").get(nearest),
            more=pl.col("_more").get(nearest),
            failure=failure.drop_nulls().first(),
            error=pl.col("error").drop_nulls().first(),
            model=pl.col("model").drop_nulls().first(),
            request_key=pl.col("request_key").first(),
            cached=pl.col("cached").all(),
            latency_s=pl.col("latency_s").max(),
            **{name: _known_sum(name) for name in _SUMMED},
        )
        .with_columns(warning=_part_warning())
        .with_columns(score=pl.when(pl.col("warning").is_null()).then("median"))
    )


def _part_warning() -> pl.Expr:
    """More than half of the votes must have a score; the judge's own word that none fits counts
    too.
    """
    return (
        pl.when(pl.col("apart") * 2 > pl.col("votes"))
        .then(pl.lit(NOT_APPLICABLE))
        .when(pl.col("outside").is_not_null())
        .then(pl.lit(INVALID))
        .when(pl.col("valid") * 2 > pl.col("votes"))
        .then(None)
        .when(pl.col("failure").is_not_null())
        .then(pl.col("failure"))
        .when(pl.col("apart") > 0)
        .then(pl.lit(NOT_APPLICABLE))
        .otherwise(pl.lit(INVALID_VERDICT))
    )


def _known_sum(column: str) -> pl.Expr:
    return pl.when(pl.col(column).count() > 0).then(pl.col(column).sum())


def _units(parts: pl.DataFrame) -> pl.DataFrame:
    """One row a unit: the mean of its parts, in numbers and in words."""
    several = pl.col("part") > 0
    part_score = pl.col("score")
    line = pl.format(
        "  Exchange {} ({}): {}",
        "part",
        pl.when(part_score.is_null()).then(pl.lit("N/A")).otherwise(two_decimals(part_score)),
        pl.coalesce("words", "error", pl.lit("")).str.replace_all(r"\s*\n\s*", " "),
    )
    told = parts.with_columns(line=line, detail=_part_details())
    return told.group_by("unit", maintain_order=True).agg(
        score=part_score.mean(),
        warning=pl.when(part_score.count() == 0).then(pl.col("warning").first()),
        reasoning=pl.when(several.any())
        .then(
            pl.format(
                "Average over {} exchanges:\n{}", pl.len(), pl.col("line").str.join("\n")
            ).first()
        )
        .otherwise(pl.coalesce("words", "error").first()),
        details=pl.when(several.any())
        .then(
            pl.concat_str(
                pl.lit('{"exchanges":['), pl.col("detail").str.join(","), pl.lit("]}")
            ).first()
        )
        .otherwise(pl.col("detail").first()),
        model=pl.col("model").drop_nulls().first(),
        request_key=pl.col("request_key").first(),
        cached=pl.col("cached").all(),
        latency_s=pl.col("latency_s").max(),
        **{name: _known_sum(name) for name in _SUMMED},
    )


def two_decimals(score: pl.Expr) -> pl.Expr:
    """A score in [0, 1] as text: 0.80."""
    hundredths = (score * 100).round().cast(pl.Int64)
    return pl.format("{}.{}", hundredths // 100, (hundredths % 100).cast(pl.String).str.zfill(2))


def _part_details() -> pl.Expr:
    """The figures behind a part's score as a JSON object; what there is nothing to say of is left
    out.
    """
    several_votes = pl.col("votes") > 1
    votes = pl.col("score_votes")
    spread = votes.list.max() - votes.list.min()
    pieces = [
        _json("exchange", pl.when(pl.col("part") > 0).then("part")),
        _json("raw", pl.col("raw")),
        _inner(pl.col("more")),
        _json("quote", pl.col("quote")),
        _json("votes", pl.when(several_votes).then(votes)),
        _json("spread", pl.when(several_votes).then(spread)),
        *(_json(c, pl.when(pl.col(c) > 0).then(pl.col(c))) for c in _COUNTS),
        _json("error", pl.when(pl.col("warning").is_not_null()).then(pl.col("error"))),
    ]
    body = pl.concat_list(pieces).list.drop_nulls().list.join(",")
    return pl.concat_str(pl.lit("{"), body, pl.lit("}"))


def _json(name: str, value: pl.Expr) -> pl.Expr:
    """`"name":value` as JSON text; null where the value is."""
    return pl.when(value.is_not_null()).then(
        _inner(pl.struct(value.alias(name)).struct.json_encode())
    )


def _inner(json: pl.Expr) -> pl.Expr:
    """An object's JSON without its braces."""
    return json.str.slice(1, json.str.len_chars() - 2)
