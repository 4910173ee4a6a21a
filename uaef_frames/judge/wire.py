"""The wire: one attempt at one request, and what went wrong with it, told in kinds.

The SDK's own retries are off and its timeouts are per read, so both are ours. Some answers that the
SDK takes for good are not: pages of HTML, bodies cut short, no choices.
"""

from __future__ import annotations

import asyncio
import math
import re
import time
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, cast

import orjson

from uaef_frames.errors import JudgeError
from uaef_frames.judge.requests import RUNGS, Capabilities

if TYPE_CHECKING:
    from collections.abc import Mapping

    from uaef_frames.judge.config import Judge
    from uaef_frames.judge.requests import Request

_SHOWN = 300
_DOUBTS = 2
_QUOTA = frozenset(
    ("insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "quota_exceeded")
)
_RETRYABLE = frozenset((408, 409, 425, 429, 499))
_OVERLOADED = frozenset((429, 503, 529))
_FORM_WORDS = re.compile(r"response_format|json_schema|json_object|schema|grammar", re.IGNORECASE)
_MODEL_WORDS = re.compile(r"model.{0,80}(not exist|not found|unknown|no access)", re.IGNORECASE)
_REFUSED = re.compile(
    r"unsupported|not support|unknown|unrecogni[sz]ed|unexpected|not permitted|not allowed|invalid"
    r"|extra|does not accept|deprecated",
    re.IGNORECASE,
)
_SPAN = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


class Fault(Exception):
    """An attempt that failed and may succeed another time.

    `overloaded`: the endpoint asks for less; `retry_after` is in seconds, where it said; `server`:
    it broke down over the request itself.
    """

    def __init__(
        self,
        words: str,
        *,
        overloaded: bool = False,
        retry_after: float | None = None,
        server: bool = False,
    ) -> None:
        super().__init__(words)
        self.overloaded = overloaded
        self.server = server
        self.retry_after = retry_after


class Unsupported(Exception):
    """The endpoint does not know a form or parameter; it is dropped, and the request can go
    again.
    """


class Rejected(Exception):
    """The endpoint will never answer this one request."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back with status 200.

    Attributes:
        content: The text; None: there was none.
        finish_reason: As reported.
        refusal: The model's refusal in words, or None.
        model: The model as it named itself.
        input_tokens: None: not reported; so for the other counts.
        latency_s: From sending to the last byte.
        rate: Headers of the endpoint's rate limits.
    """

    content: str | None
    finish_reason: str | None
    refusal: str | None
    model: str
    input_tokens: int | None
    cached_input_tokens: int | None
    output_tokens: int | None
    fingerprint: str | None
    latency_s: float
    rate: RateState


@dataclass(frozen=True, slots=True)
class RateState:
    """What the endpoint says of its own limits: the tightest remaining share, and when it
    resets.
    """

    share: float | None = None
    exhausted_for_s: float = 0.0


class Wire:
    """A connection to a judge's endpoint. Made and used within one event loop."""

    def __init__(self, judge: Judge) -> None:
        # Imported here, so that who asks no judge does not wait for the SDK.
        import httpx2
        from openai import AsyncOpenAI, DefaultAioHttpClient

        self._judge = judge
        self._response = httpx2.Response
        self.can = Capabilities()
        self._doubts = 0
        self._client = AsyncOpenAI(
            api_key=judge.key,
            base_url=judge.url,
            max_retries=0,
            timeout=judge.timeout_s,
            http_client=DefaultAioHttpClient(
                limits=httpx2.Limits(
                    max_connections=judge.concurrency + 8,
                    max_keepalive_connections=judge.concurrency + 8,
                ),
                timeout=judge.timeout_s,
            ),
        )
        self._headers = {"Content-Type": "application/json"}

    @property
    def client(self) -> Any:
        """The SDK's client, for the files and batches of the Batch API."""
        return self._client

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def send(self, request: Request, max_tokens: int) -> Reply:
        """One attempt.

        Raises:
            Fault: It may pass.
            Unsupported: A form or parameter was refused; `can` has learned it.
            Rejected: This request will never be answered.
            JudgeError: No request will be: key, permission, model, address or quota.
        """
        from openai import APIConnectionError, APIStatusError

        rung = self.can.rung
        body = request.body(self.can, max_tokens)
        began = time.perf_counter()
        try:
            async with asyncio.timeout(self._judge.timeout_s):
                response = await self._client.post(
                    "/chat/completions",
                    cast_to=self._response,
                    content=orjson.dumps(body, option=orjson.OPT_NON_STR_KEYS),
                    options={"headers": self._headers},
                )
        except TimeoutError:
            raise Fault(f"no answer within {self._judge.timeout_s:g} s") from None
        except APIConnectionError as error:
            raise Fault(f"the connection failed: {_cause(error)}") from None
        except APIStatusError as error:
            raise self.failure(
                error.status_code, error.response.headers, error.response.content, body, rung
            ) from None
        latency = time.perf_counter() - began
        reply = read_reply(response.content, latency, response.headers)
        self.can.proven = self.can.proven or self.can.rung == rung
        return reply

    def failure(
        self,
        status: int,
        headers: Mapping[str, str],
        content: bytes,
        body: dict[str, Any],
        rung: int,
    ) -> Exception:
        """What an answer of another status than 200 means for a request that was sent on a rung."""
        error = _error_of(content)
        words = self._clean(f"status {status}: {error.message}")
        if error.code in _QUOTA or error.type in _QUOTA:
            return JudgeError(
                f"the judge's endpoint {self._judge.origin} has no quota left ({words}); "
                "verdicts so far are kept"
            )
        fatal = self._fatal(status, error, words)
        if fatal is not None:
            return fatal
        unsupported = self._learn(status, error, body, rung)
        if unsupported is not None:
            return unsupported
        if status in _RETRYABLE or status >= 500:
            return Fault(
                words,
                overloaded=status in _OVERLOADED,
                retry_after=retry_after(headers),
                server=status in (500, 501),
            )
        return Rejected(words)

    def _fatal(self, status: int, error: _EndpointError, words: str) -> JudgeError | None:
        where = f"the judge's endpoint {self._judge.origin}"
        kept = "verdicts so far are kept"
        if status == 401:
            return JudgeError(f"{where} refuses the API key ({words}); {kept}")
        if status == 403:
            return JudgeError(f"{where} does not permit this ({words}); {kept}")
        no_model = error.code == "model_not_found" or (
            status in (400, 404, 422) and _MODEL_WORDS.search(error.message) is not None
        )
        if no_model:
            return JudgeError(f"{where} has no model {self._judge.model!r} ({words}); {kept}")
        if status == 404:
            return JudgeError(
                f"{self._judge.url}/chat/completions is not there ({words}); base_url usually "
                f"ends in /v1; {kept}"
            )
        return None

    def _learn(
        self, status: int, error: _EndpointError, body: dict[str, Any], rung: int
    ) -> Unsupported | None:
        """Drop what the endpoint refuses, if that is what it complains about."""
        can = self.can
        words = f"{error.param or ''} {error.message}"
        if status in (400, 404, 422, 500, 501):
            about_form = _FORM_WORDS.search(words) is not None
            if about_form and can.rung != rung:
                return Unsupported("another request has found out already")
            if about_form and not can.proven and can.rung < len(RUNGS) - 1:
                can.rung += 1
                return Unsupported(words)
        if status not in (400, 422):
            return None
        names = ["temperature", "seed", "max_tokens", "max_completion_tokens"]
        names += [str(k) for k in self._judge.extra_body or {}]
        refused = next((n for n in names if n in body and n == error.param), None)
        if refused is None and _REFUSED.search(error.message):
            refused = next(
                (n for n in names if n in body and re.search(rf"\b{re.escape(n)}\b", words)), None
            )
        if refused is None:
            return None
        if refused == can.limit_name == "max_tokens" and "max_completion_tokens" not in can.dropped:
            can.limit_name = "max_completion_tokens"
        else:
            can.dropped.add(refused)
        return Unsupported(words)

    def doubt(self, rung: int) -> None:
        """The endpoint broke down before it answered anything: the second time, ask more simply.

        Some servers answer a form that they do not know with status 500 and no word of why.
        """
        can = self.can
        if can.proven or can.rung != rung or can.rung >= len(RUNGS) - 1:
            return
        self._doubts += 1
        if self._doubts >= _DOUBTS:
            self._doubts = 0
            can.rung += 1

    def _clean(self, words: str) -> str:
        """Words of the endpoint without our key, should it say it back."""
        key = self._judge.key
        return words.replace(key, "***") if len(key) > 4 else words


@dataclass(frozen=True, slots=True)
class _EndpointError:
    message: str
    code: str | None = None
    type: str | None = None
    param: str | None = None


def _error_of(content: bytes) -> _EndpointError:
    try:
        found: Any = orjson.loads(content)
    except orjson.JSONDecodeError:
        found = None
    if isinstance(found, dict):
        held: Any = cast("dict[str, Any]", found).get("error", cast("dict[str, Any]", found))
        if isinstance(held, dict):
            fields = cast("dict[str, Any]", held)
            message: Any = fields.get("message") or fields.get("detail") or fields
            texts = [
                None if fields.get(k) is None else str(fields[k]) for k in ("code", "type", "param")
            ]
            return _EndpointError(str(message)[:_SHOWN], *texts)
        return _EndpointError(str(held)[:_SHOWN])
    text = content[: 4 * _SHOWN].decode("utf-8", "replace")
    return _EndpointError(" ".join(text.split())[:_SHOWN] or "no words")


def read_reply(content: bytes, latency: float, headers: Mapping[str, str]) -> Reply:
    """The answer in a body of status 200.

    Raises:
        Fault: It is no JSON object of a chat completion: a page, or cut short.
    """
    try:
        found: Any = orjson.loads(content)
    except orjson.JSONDecodeError:
        start = content[:60].decode("utf-8", "replace")
        raise Fault(f"the answer is not JSON ({len(content)} bytes: {start!r})") from None
    if not isinstance(found, dict):
        raise Fault("the answer is not a chat completion")
    held = cast("dict[str, Any]", found)
    if held.get("error") and not held.get("choices"):
        # Some gateways tell of a fault further on with status 200.
        raise Fault(f"the endpoint reports a fault: {_error_of(content).message}")
    return reply_of(held, latency, headers)


def reply_of(found: Mapping[str, Any], latency: float, headers: Mapping[str, str]) -> Reply:
    """The answer in a chat completion's object."""
    choices: Any = found.get("choices")
    first: Any = cast("list[Any]", choices)[0] if isinstance(choices, list) and choices else {}
    message = _mapping(_mapping(first).get("message"))
    usage = _mapping(found.get("usage"))
    content = _text_of(message.get("content"))
    refusal = message.get("refusal")
    finish = _mapping(first).get("finish_reason")
    return Reply(
        content=content,
        finish_reason=None if finish is None else str(finish),
        refusal=None if not refusal else str(refusal)[:_SHOWN],
        model=str(found.get("model") or ""),
        input_tokens=_count(usage.get("prompt_tokens")),
        cached_input_tokens=_count(
            _mapping(usage.get("prompt_tokens_details")).get("cached_tokens")
        ),
        output_tokens=_count(usage.get("completion_tokens")),
        fingerprint=None
        if found.get("system_fingerprint") is None
        else str(found["system_fingerprint"]),
        latency_s=latency,
        rate=rate_state(headers),
    )


def _text_of(content: Any) -> str | None:
    """An answer's text; some servers give it in parts."""
    if isinstance(content, list):
        parts = [_mapping(p).get("text") for p in cast("list[Any]", content)]
        return "".join(p for p in parts if isinstance(p, str))
    return content if isinstance(content, str) else None


def _mapping(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait as the endpoint says: retry-after-ms, or Retry-After as seconds or a date."""
    milliseconds = headers.get("retry-after-ms")
    if milliseconds is not None:
        found = _span(f"{milliseconds}ms")
        if found is not None:
            return found
    text = headers.get("retry-after")
    if text is None:
        return None
    found = _span(text)
    if found is not None:
        return found
    try:
        return max(parsedate_to_datetime(text).timestamp() - time.time(), 0.0)
    except (TypeError, ValueError):
        return None


def rate_state(headers: Mapping[str, str]) -> RateState:
    """What `x-ratelimit-*` says; values that make no sense (-1, 0 of 0) are passed over."""
    share: float | None = None
    wait = 0.0
    for what in ("requests", "tokens"):
        remaining = headers.get(f"x-ratelimit-remaining-{what}")
        if remaining is None or not remaining.strip().isdecimal():
            continue
        left = int(remaining)
        limit = headers.get(f"x-ratelimit-limit-{what}", "")
        if limit.strip().isdecimal() and int(limit) > 0:
            part = left / int(limit)
            share = part if share is None else min(share, part)
        if left == 0:
            wait = max(wait, _span(headers.get(f"x-ratelimit-reset-{what}", "")) or 0.0)
    return RateState(share, wait)


def _span(text: str) -> float | None:
    """Seconds of "12", "1.5s", "6ms" or "1m30s"."""
    text = text.strip()
    try:
        value = float(text)
    except ValueError:
        parts = _SPAN.findall(text)
        if not parts or _SPAN.sub("", text).strip():
            return None
        value = sum(float(n) * _SECONDS[unit] for n, unit in parts)
    return value if math.isfinite(value) and value >= 0 else None


def _cause(error: BaseException) -> str:
    inner: BaseException = error.__cause__ or error
    text = str(inner) or type(inner).__name__
    return " ".join(text.split())[:_SHOWN]
