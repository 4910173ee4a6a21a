"""Verdicts: what a model wrote, read strictly. What cannot be read is refused, never repaired.

A number out of range is not clipped, a score in words is not looked for, the first number in prose
is not a score.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from uaef_frames.canonical import scrub
from uaef_frames.judge.prompts import folded, quotable

if TYPE_CHECKING:
    from uaef_frames.judge.rubrics import Field as RubricField
    from uaef_frames.judge.rubrics import Rubric

_THOUGHT = re.compile(r"^\s*<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL | re.IGNORECASE)
_FENCE = re.compile(r"^\s*```[a-zA-Z]*\s*\n(.*?)\n?\s*```\s*$", re.DOTALL)
_SHORTEST_QUOTE = 1
_SHOWN = 200


class InvalidVerdictError(ValueError):
    """A verdict that cannot be read, with the reason in words."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A verdict that was read.

    Attributes:
        values: The rubric's fields by name, as they were given.
        applicable: False: the judge says that the metric does not apply.
    """

    values: dict[str, Any]
    applicable: bool = True


class VerdictReader:
    """Reads the verdicts of one rubric.

    Args:
        rubric: Names the fields and their ranges.
        sections: The sections of the material that a quote may come from.
        check_quotes: Whether the quote must stand there.
    """

    def __init__(self, rubric: Rubric, sections: tuple[str, ...], *, check_quotes: bool) -> None:
        self._rubric = rubric
        self._sections = sections
        self._check_quotes = check_quotes
        self._model = _model(rubric, quote_needed=check_quotes)
        self._numbers = [f for f in rubric.fields if f.kind in ("number", "integer")]

    def read(self, content: str, user: str, nonce: str, upper: float | None = None) -> Verdict:
        """The verdict in a model's answer to a user message.

        `upper` is the row's own bound for the rubric's counts.

        Raises:
            InvalidVerdictError: Anything is missing, of another type, out of range, or not quoted.
        """
        found = _object(content, {f.name for f in self._rubric.fields})
        try:
            values = {
                name: scrub(value) if isinstance(value, str) else value
                for name, value in self._model.model_validate(found).model_dump().items()
            }
        except ValidationError as error:
            raise InvalidVerdictError(_in_words(error)) from None
        applicable = values.get("applicable") is not False
        self._check_values(values, applicable, upper)
        if self._check_quotes:
            self._check_quote(values.get("quote") or "", user, nonce)
        return Verdict(values, applicable)

    def _check_values(self, values: dict[str, Any], applicable: bool, upper: float | None) -> None:
        if not applicable:
            return
        scored = [f for f in self._numbers if values[f.name] is not None]
        if not scored or ("applicable" in values and len(scored) < len(self._numbers)):
            raise InvalidVerdictError("the score is null although the metric applies")
        for field in scored:
            if field.high is None and upper is not None and values[field.name] > upper:
                raise InvalidVerdictError(f"{field.name} is {values[field.name]}, above {upper:g}")

    def _check_quote(self, quote: str, user: str, nonce: str) -> None:
        wanted = folded(quote)
        if len(wanted) < _SHORTEST_QUOTE:
            raise InvalidVerdictError("it quotes nothing of what it judged")
        if wanted not in quotable(user, nonce, self._sections):
            raise InvalidVerdictError(
                f"its quote does not stand in what it judged: {quote[:_SHOWN]!r}"
            )


def _model(rubric: Rubric, *, quote_needed: bool) -> type[BaseModel]:
    fields: dict[str, Any] = {}
    for field in rubric.fields:
        kind = _type(field)
        optional = field.name == "quote" and not quote_needed
        fields[field.name] = (kind | None, None) if optional else (kind, ...)
    return create_model("Verdict", __config__=ConfigDict(strict=True, extra="forbid"), **fields)


def _type(field: RubricField) -> Any:
    kind: Any
    if field.kind == "text":
        kind = str
    elif field.kind == "boolean":
        kind = bool
    else:
        number: Any = float if field.kind == "number" else int
        kind = Annotated[
            number,
            Field(ge=field.low, le=field.high, allow_inf_nan=None if number is int else False),
        ]
    return kind | None if field.nullable else kind


def _object(content: str, names: set[str]) -> dict[str, Any]:
    """The one JSON object in an answer: bare, fenced, or with prose around it."""
    text = _THOUGHT.sub("", content, count=1).strip()
    fence = _FENCE.match(text)
    if fence:
        text = fence[1].strip()
    decoder = json.JSONDecoder(
        object_pairs_hook=_without_doubles, parse_constant=_not_a_number, parse_float=_number
    )
    if text.startswith("{"):
        try:
            found, end = decoder.raw_decode(text)
        except json.JSONDecodeError as error:
            raise InvalidVerdictError(f"the answer is not JSON: {error.msg}") from None
        if not text[end:].strip():
            return found
    return _only_object(text, names, decoder)


def _only_object(text: str, names: set[str], decoder: json.JSONDecoder) -> dict[str, Any]:
    found: list[dict[str, Any]] = []
    at = text.find("{")
    while at >= 0:
        try:
            value, end = decoder.raw_decode(text, at)
        except json.JSONDecodeError:
            end = at + 1
        else:
            if names & set(value):
                found.append(value)
        at = text.find("{", end)
    if len(found) != 1:
        held = "no JSON object" if not found else f"{len(found)} JSON objects"
        raise InvalidVerdictError(f"the answer holds {held}: {text[:_SHOWN]!r}")
    return found[0]


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise InvalidVerdictError("the answer gives one key twice")
    return found


def _number(word: str) -> float | int:
    """4.0 is the whole number 4; it counts where one is asked for."""
    value = float(word)
    return int(value) if value.is_integer() else value


def _not_a_number(word: str) -> Any:
    raise InvalidVerdictError(f"the answer holds {word}, which is no number")


def _in_words(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    name = ".".join(str(p) for p in first["loc"])
    given = first["input"]
    shown = "" if first["type"] == "missing" else f", not {given!r:.{_SHOWN}}"
    return f"{name}: {first['msg'][:1].lower()}{first['msg'][1:]}{shown}"
