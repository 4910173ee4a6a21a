"""What a judge is: the model that is asked, where, how hard, and what it may cost.

Holds settings and checks them; asks nothing. The key stays wrapped and never shows in a repr.
"""

from __future__ import annotations

import math
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast
from urllib.parse import urlsplit

from pydantic import SecretStr

from uaef_frames.errors import ConfigError, warn
from uaef_frames.judge.prices import Price, as_price, price_of

if TYPE_CHECKING:
    from collections.abc import Mapping

OPENAI_URL = "https://api.openai.com/v1"
MODEL_VARIABLE = "UAEF_JUDGE_MODEL"
CACHE_VARIABLE = "UAEF_JUDGE_CACHE"

Mode: TypeAlias = Literal["live", "batch"]


@dataclass(frozen=True, slots=True)
class Judge:
    """An LLM that scores what no expression can, at any endpoint that speaks OpenAI's chat API.

    Attributes:
        model: The model to ask; default: the variable UAEF_JUDGE_MODEL.
        base_url: The endpoint, ending in /v1; default: OPENAI_BASE_URL, else OpenAI.
        api_key: The key; default: OPENAI_API_KEY. Endpoints other than OpenAI may need none.
        temperature: Sampling temperature; None: not sent.
        max_tokens: Tokens of one verdict; one that is cut short is asked again with four times as
            many.
        concurrency: The most requests in flight. Fewer are, while the endpoint is overloaded.
        requests_per_minute: The most requests sent a minute; None: no limit of ours.
        tokens_per_minute: The most tokens (in and out) a minute; None: no limit of ours.
        timeout_s: Seconds that one attempt may take from first to last byte.
        max_retries: Further attempts after a fault that may pass.
        budget_usd: What one evaluation may spend; the rest is null with `budget_exhausted`.
        price: `Price(input, output)` in USD a million tokens, or such a pair; None: the shipped
            table. A model that is in neither has no cost (null, never 0).
        cache: The file that keeps verdicts between runs; "auto": UAEF_JUDGE_CACHE, else
            `uaef_frames/judge.sqlite` in the user's cache folder; None: none is kept.
        votes: Verdicts asked for each score; the median counts.
        seed: Passed on to the endpoint; votes get seed, seed + 1, ….
        extra_body: Further fields of the request, as the endpoint understands them.
        mode: `live`: one request a verdict; `batch`: the Batch API, at half the price, within
        hours. max_input_tokens: What one request may show; longer material loses its middle.
        check_quotes: Whether a verdict must quote what it judged, word for word.
        progress: None: a line or bar where somebody watches; True, False, or a function that takes
            a `judge.Progress`.

    Raises:
        ConfigError: A value makes no sense, or no model is named.

    Examples:
        >>> Judge("some-model", base_url="http://127.0.0.1:8080/v1").origin
        'http://127.0.0.1:8080'
    """

    model: str = ""
    base_url: str | None = None
    api_key: str | SecretStr | None = field(default=None, repr=False)
    temperature: float | None = 0.0
    max_tokens: int = 1024
    concurrency: int = 64
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    timeout_s: float = 60.0
    max_retries: int = 6
    budget_usd: float | None = None
    price: Price | tuple[float, ...] | Mapping[str, float] | None = None
    cache: str | Path | None = "auto"
    votes: int = 1
    seed: int | None = None
    extra_body: Mapping[str, Any] | None = field(default=None, repr=False)
    mode: Mode = "live"
    max_input_tokens: int = 16_000
    check_quotes: bool = True
    progress: Any = None

    def __post_init__(self) -> None:
        self._set("model", (self.model or os.environ.get(MODEL_VARIABLE, "")).strip())
        if not self.model:
            raise ConfigError(f'a judge needs a model: Judge("…"), or set {MODEL_VARIABLE}')
        self._set("base_url", _checked_url(self.base_url or os.environ.get("OPENAI_BASE_URL")))
        key = self.api_key if self.api_key is not None else os.environ.get("OPENAI_API_KEY")
        self._set("api_key", SecretStr(key) if isinstance(key, str) and key else key or None)
        self._check_numbers()
        self._set("price", as_price(self.price))
        self._set("cache", cache_path(self.cache))
        if self.mode not in ("live", "batch"):
            raise ConfigError(f"mode is 'live' or 'batch', not {self.mode!r}")
        if self.mode == "batch" and self.cache is None:
            raise ConfigError("mode='batch' needs a cache: it keeps what was sent and not answered")
        if self.extra_body is not None:
            self._set("extra_body", dict(self.extra_body))
            taken = {"model", "messages", "stream", "n"} & set(self.extra_body)
            if taken:
                raise ConfigError(f"extra_body cannot set {', '.join(sorted(taken))}")
        if self.budget_usd is not None and self.rate is None:
            raise ConfigError(
                f"budget_usd needs a price, and {self.model!r} is not in the shipped table: "
                "price=(input, output) in USD a million tokens"
            )
        if self.votes > 1 and self.temperature == 0:
            warn(f"{self.votes} votes at temperature 0 are mostly alike; set temperature=0.7 or so")

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def _check_numbers(self) -> None:
        bounds: dict[str, tuple[float, bool]] = {
            "temperature": (0, True),
            "max_tokens": (1, False),
            "concurrency": (1, False),
            "requests_per_minute": (0.001, True),
            "tokens_per_minute": (1, True),
            "timeout_s": (0.001, False),
            "max_retries": (0, False),
            "budget_usd": (0, True),
            "votes": (1, False),
            "seed": (-math.inf, True),
            "max_input_tokens": (64, False),
        }
        whole = ("max_tokens", "concurrency", "max_retries", "votes", "seed", "max_input_tokens")
        for name, (least, may_be_none) in bounds.items():
            value: object = getattr(self, name)
            if value is None and may_be_none:
                continue
            number = isinstance(value, int | float) and not isinstance(value, bool)
            fits = isinstance(value, int | float) and math.isfinite(value) and value >= least
            if not number or not fits or (name in whole and not isinstance(value, int)):
                kind = "a whole number" if name in whole else "a number"
                bound = "" if least == -math.inf else f" of at least {least:g}"
                raise ConfigError(f"Judge {name} is {kind}{bound}, not {value!r}")

    @property
    def url(self) -> str:
        """The endpoint that is asked."""
        return self.base_url or OPENAI_URL

    @property
    def origin(self) -> str:
        """Scheme, host and port: what tells one endpoint's models from another's."""
        parts = urlsplit(self.url)
        host = parts.hostname or ""
        return f"{parts.scheme}://{host}{f':{parts.port}' if parts.port else ''}"

    @property
    def rate(self) -> Price | None:
        """What tokens cost: as given, else from the shipped table (OpenAI only); None: unknown."""
        if self.price is not None:
            return cast("Price", self.price)
        return price_of(self.model) if self.url == OPENAI_URL else None

    @property
    def key(self) -> str:
        """The key as it is sent.

        Raises:
            ConfigError: OpenAI is asked and there is none.
        """
        if isinstance(self.api_key, SecretStr):
            return self.api_key.get_secret_value()
        if self.url == OPENAI_URL:
            raise ConfigError(
                "no API key: set OPENAI_API_KEY, or give base_url= of an endpoint that needs none"
            )
        return "none"

    def settings(self) -> dict[str, Any]:
        """What a run keeps of its judge: every setting that may change a verdict, no secret."""
        rate = self.rate
        return {
            "model": self.model,
            "endpoint": self.origin,
            "temperature": self.temperature,
            "max_tokens": self.max_tokens,
            "votes": self.votes,
            "seed": self.seed,
            "mode": self.mode,
            "max_input_tokens": self.max_input_tokens,
            "check_quotes": self.check_quotes,
            "extra_fields": sorted(self.extra_body or {}),
            "price": None if rate is None else rate.as_dict(),
        }


def as_judge(judge: Judge | str | bool | None) -> Judge | None:
    """The judge that a caller means: one, a model's name, or (None) the environment's.

    `False` means none, whatever the environment says.

    Raises:
        ConfigError: It is something else.
    """
    if judge is None:
        return Judge() if os.environ.get(MODEL_VARIABLE, "").strip() else None
    if judge is False:
        return None
    if isinstance(judge, str):
        return Judge(judge)
    if isinstance(judge, Judge):
        return judge
    raise ConfigError(f"judge= takes a Judge or a model's name, not {type(judge).__name__}")


def _checked_url(url: str | None) -> str | None:
    if not url:
        return None
    parts = urlsplit(url.strip())
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError("base_url is an http or https URL such as http://127.0.0.1:8080/v1")
    if parts.username or parts.password:
        raise ConfigError("base_url holds a user or password; give the key as api_key=")
    if parts.query or parts.fragment:
        raise ConfigError("base_url has no query; further fields go into extra_body=")
    return re.sub(r"/+$", "", url.strip())


def cache_path(cache: str | Path | bool | None) -> Path | None:
    """The file that a cache setting means; None: none."""
    if cache is None or cache is False:
        return None
    if cache != "auto":
        return Path(str(cache)).expanduser()
    named = os.environ.get(CACHE_VARIABLE)
    if named:
        return Path(named).expanduser()
    home = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(home).expanduser() / "uaef_frames" / "judge.sqlite"
