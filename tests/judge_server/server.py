"""An OpenAI-compatible server that misbehaves on demand and counts everything that reaches it."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import Counter, deque
from typing import Any

import orjson
from aiohttp import web

from tests.judge_server.answers import completion, draw, good_fields, spoilt, texts_of
from tests.judge_server.batches import Batches
from tests.judge_server.behaviour import Behaviour

_SPOILT = {
    "malformed", "no_choices", "null_content", "refusal", "content_filter", "length",
    "wrong_schema", "out_of_range", "nan", "missing_score", "fenced", "wrapped", "false_quote",
    "no_quote", "surrogate", "parts",
}  # fmt: skip
_STATUSES = {"429": 429, "429_retry_after": 429, "500": 500, "503": 503, "408": 408, "529": 529}


class Server:
    """The handlers and what they remember."""

    def __init__(self, behaviour: Behaviour) -> None:
        self.behaviour = behaviour
        self.reset()

    def reset(self) -> None:
        """Forget everything that was asked."""
        self.total = self.billed = self.in_flight = self.max_in_flight = self.duplicates = 0
        self.statuses: Counter[str] = Counter()
        self.paths: Counter[str] = Counter()
        self.seen: Counter[bytes] = Counter()
        self.paid: set[bytes] = set()
        self.requests: list[dict[str, Any]] = []
        self.recent: deque[float] = deque()
        self.batches = Batches(self)

    def counts(self) -> dict[str, Any]:
        """What `JudgeServer.counts` gives."""
        return {
            "total": self.total,
            "billed": self.billed,
            "by_status": dict(self.statuses),
            "max_in_flight": self.max_in_flight,
            "duplicates": self.duplicates,
            "by_path": dict(self.paths),
            **self.batches.counts(),
        }

    async def chat(self, request: web.Request) -> web.StreamResponse:
        """POST /v1/chat/completions."""
        raw = await request.read()
        self.total += 1
        number = self.total
        self.in_flight += 1
        self.max_in_flight = max(self.max_in_flight, self.in_flight)
        entry: dict[str, Any] | None = None
        try:
            body = orjson.loads(raw)
            seen = self.seen[raw] = self.seen[raw] + 1
            if self.behaviour.record:
                entry = self._entry(request, body)
            status, found, fault = self._decide(request, body, raw, seen, number)
            if entry is not None:
                entry["fault"] = fault
            if self.behaviour.delay:
                await asyncio.sleep(self.behaviour.delay)
            response = await self._answer(request, status, found, fault)
            if entry is not None:
                entry["status"] = status
            self.statuses[str(status)] += 1
            if status == 200 and fault not in ("half_body", "drip"):
                self.billed += 1
                self.duplicates += raw in self.paid
                self.paid.add(raw)
            return response
        finally:
            self.in_flight -= 1

    def _entry(self, request: web.Request, body: Any) -> dict[str, Any]:
        headers = {k.lower(): v for k, v in request.headers.items()}
        key = headers.pop("authorization", "")
        entry = {
            "at": time.time(),
            "path": request.path,
            "headers": headers,
            "authorization_sha256": hashlib.sha256(key.encode()).hexdigest(),
            "body": body,
            "status": None,
            "fault": None,
        }
        self.requests.append(entry)
        return entry

    def _decide(
        self, request: web.Request, body: dict[str, Any], raw: bytes, seen: int, number: int
    ) -> tuple[int, Any, str | None]:
        refused = self._refused(request, body)
        if refused is not None:
            return *refused, None
        b = self.behaviour
        if b.fault_plan and number <= len(b.fault_plan):
            fault = b.fault_plan[number - 1]
        else:
            fault = b.fault_always or draw(b.faults, b.seed, raw, seen)
        limit = body.get("max_tokens") or body.get("max_completion_tokens") or 1 << 30
        if fault is None and b.length_below is not None and limit < b.length_below:
            fault = "length"
        if fault in _STATUSES:
            return _STATUSES[fault], error_object("try again later", "server_error"), fault
        if fault in _SPOILT:
            return 200, spoilt(fault, body, b, number), fault
        content = orjson.dumps(good_fields(body, b)).decode()
        return 200, completion(body, content, b, number), fault

    def _refused(self, request: web.Request, body: dict[str, Any]) -> tuple[int, Any] | None:
        b = self.behaviour
        if b.require_key and request.headers.get("Authorization") != f"Bearer {b.require_key}":
            said = request.headers.get("Authorization", "")
            return 401, error_object(f"Incorrect API key provided: {said}", code="invalid_api_key")
        if b.status is not None:
            return b.status, error_object(f"status {b.status} is all there is")
        if b.quota:
            return 429, error_object("You exceeded your current quota", code="insufficient_quota")
        if b.models is not None and body["model"] not in b.models:
            words = f"The model `{body['model']}` does not exist or you do not have access to it."
            return 404, error_object(words, code="model_not_found")
        if b.max_concurrent is not None and self.in_flight > b.max_concurrent:
            return 429, error_object("too many at once", code="rate_limit_exceeded")
        if b.requests_per_second is not None and self._too_fast(b.requests_per_second):
            return 429, error_object("too many a second", code="rate_limit_exceeded")
        return self.unsupported(body)

    def unsupported(self, body: dict[str, Any]) -> tuple[int, Any] | None:
        """What is not understood of a request."""
        b = self.behaviour
        wanted = body.get("response_format") or {}
        kind = wanted.get("type")
        if kind == "json_schema" and b.json_schema is not True:
            if b.json_schema == "500":
                return 500, "Internal Server Error"
            words = "response_format.type json_schema is not supported"
            return 400, error_object(words, code="unsupported_value", param="response_format")
        if "schema" in wanted and not b.json_object_schema:
            words = "Unknown parameter: 'response_format.schema'."
            return 400, error_object(
                words, code="unknown_parameter", param="response_format.schema"
            )
        if kind == "json_object" and not b.json_object:
            words = "response_format is not supported"
            return 400, error_object(words, param="response_format")
        for name in b.rejects:
            if name in body:
                words = f"Unsupported parameter: '{name}' is not supported with this model."
                if name == "max_tokens":
                    words += " Use 'max_completion_tokens' instead."
                return 400, error_object(words, code="unsupported_parameter", param=name)
        if b.context_limit_chars and sum(map(len, texts_of(body))) > b.context_limit_chars:
            words = "This model's maximum context length is exceeded"
            return 400, error_object(words, code="context_length_exceeded", param="messages")
        return None

    def _too_fast(self, most: float) -> bool:
        now = time.monotonic()
        while self.recent and self.recent[0] < now - 1.0:
            self.recent.popleft()
        if len(self.recent) >= most:
            return True
        self.recent.append(now)
        return False

    async def _answer(
        self, request: web.Request, status: int, found: Any, fault: str | None
    ) -> web.StreamResponse:
        headers = {"x-request-id": f"req_{self.total}", **self.behaviour.rate_headers}
        if fault == "429_retry_after":
            headers["Retry-After"] = f"{self.behaviour.retry_after:g}"
        text = found.encode() if isinstance(found, str) else orjson.dumps(found)
        kind = "text/plain" if isinstance(found, str) else "application/json"
        if fault == "nan":
            text = text.replace(b'\\"NaN\\"', b"NaN")
        if fault == "reset":
            assert request.transport is not None
            request.transport.abort()
            raise asyncio.CancelledError
        if fault == "hang":
            await asyncio.sleep(3600)
        if fault in ("half_body", "drip"):
            return await self._slowly(request, text, headers, fault)
        if fault == "error_200":
            text = orjson.dumps(error_object("the model behind the gateway is overloaded"))
        if fault == "html":
            text, kind = b"<!doctype html><title>Bad gateway</title>", "text/html"
        if fault == "truncated_json":
            text = text[: len(text) // 2]
        if fault == "empty":
            text = b""
        return web.Response(body=text, status=status, headers=headers, content_type=kind)

    async def _slowly(
        self, request: web.Request, text: bytes, headers: dict[str, str], fault: str
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers={**headers, "Content-Length": str(len(text))})
        response.content_type = "application/json"
        await response.prepare(request)
        if fault == "half_body":
            await response.write(text[: len(text) // 2])
            assert request.transport is not None
            request.transport.close()
            return response
        for start in range(0, len(text), 8):
            await response.write(text[start : start + 8])
            await asyncio.sleep(0.3)
        return response

    async def models(self, _: web.Request) -> web.Response:
        """GET /v1/models."""
        named = [{"id": m, "object": "model"} for m in self.behaviour.models or ["any"]]
        return web.json_response({"object": "list", "data": named})

    async def control(self, request: web.Request) -> web.Response:
        """The test's own door."""
        what = request.match_info["what"]
        given = orjson.loads(await request.read() or b"{}")
        if what == "set":
            self.behaviour = Behaviour.of(given)
        elif what == "reset":
            self.reset()
        elif what == "requests":
            return web.Response(body=orjson.dumps(self.requests[: given.get("limit")]))
        return web.Response(body=orjson.dumps(self.counts()))


def error_object(
    words: str,
    kind: str = "invalid_request_error",
    code: str | None = None,
    param: str | None = None,
) -> dict[str, Any]:
    """An error as OpenAI writes it."""
    return {"error": {"message": words, "type": kind, "param": param, "code": code}}


def application(behaviour: Behaviour) -> web.Application:
    """The server's routes."""
    server = Server(behaviour)
    app = web.Application(client_max_size=1 << 30)
    app.router.add_post("/v1/chat/completions", server.chat)
    app.router.add_get("/v1/models", server.models)
    app.router.add_post("/_control/{what}", server.control)
    app.router.add_route("*", "/v1/files{tail:.*}", lambda r: server.batches.files(r))
    app.router.add_route("*", "/v1/batches{tail:.*}", lambda r: server.batches.handle(r))
    return app
