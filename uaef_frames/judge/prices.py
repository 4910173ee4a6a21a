"""What tokens cost: a price a user gives, or the shipped table with its date.

An unknown model has no price. It is never 0.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from importlib.resources import files
from typing import Any, cast

from uaef_frames.errors import ConfigError

BATCH_DISCOUNT = 0.5
"""The Batch API's part of the price."""


@dataclass(frozen=True, slots=True)
class Price:
    """USD a million tokens.

    Attributes:
        input: Of tokens read.
        output: Of tokens written, reasoning included.
        cached_input: Of tokens read from the endpoint's own prompt cache; None: as `input`.
    """

    input: float
    output: float
    cached_input: float | None = None

    def cost(self, read: int, written: int, cached: int = 0) -> float:
        """USD of one answer; `cached` of the tokens `read` came from the endpoint's cache."""
        cheap = self.input if self.cached_input is None else self.cached_input
        fresh = max(read - cached, 0)
        return (fresh * self.input + cached * cheap + written * self.output) / 1e6

    def as_dict(self) -> dict[str, float | None]:
        """For a run's configuration."""
        return asdict(self)


def as_price(given: object) -> Price | None:
    """A `Price` from one, from (input, output[, cached_input]) or from a mapping of those names.

    Raises:
        ConfigError: It is something else, or a price is negative or no number.
    """
    if given is None:
        return None
    try:
        if isinstance(given, Price):
            price = given
        elif isinstance(given, Mapping):
            price = Price(**cast("Mapping[str, Any]", given))
        elif isinstance(given, Sequence) and not isinstance(given, str):
            price = Price(*cast("Sequence[Any]", given))
        else:
            raise TypeError
        held = [v for v in (price.input, price.output, price.cached_input) if v is not None]
        if not all(math.isfinite(v) and v >= 0 for v in held):
            raise TypeError
    except TypeError:
        raise ConfigError(
            "price is Price(input, output, cached_input=None) in USD a million tokens, "
            f"not {given!r}"
        ) from None
    return price


def price_of(model: str) -> Price | None:
    """The shipped price of a model; a dated name (`name-2026-10-01`) has that of its name."""
    table = shipped_prices()
    if model in table:
        return table[model]
    stem, _, tail = model.partition("-20")
    return table.get(stem) if tail else None


@cache
def shipped_prices() -> Mapping[str, Price]:
    """The shipped table, by model."""
    return {name: Price(**row) for name, row in _document()["models"].items()}


def prices_as_of() -> str:
    """The day on which the shipped table was right."""
    return str(_document()["as_of"])


@cache
def _document() -> dict[str, Any]:
    return tomllib.loads(files("uaef_frames.judge").joinpath("prices.toml").read_text("utf-8"))
