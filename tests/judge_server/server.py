"""An OpenAI-compatible server that misbehaves on demand and counts everything that reaches it."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import Counter, deque
from typing import Any

import orjson
from aiohttp import web

from tests.judge_server.answers import (
    completion,
    draw,
    error_object,
    good_fields,
    hash_of,
    spoilt,
    texts_of,
)
from tests.judge_server.batches import Batches
from tests.judge_server.behaviour import SPOILT, STATUSES, Behaviour


class Tally:
    """What was asked since the last reset. A request that began before it counts in the old one."""

    def __init__(self, server: Server) -> None:
        self.total = self.billed = self.in_flight = self.max_in_flight = self.duplicates = 0
        self.statuses: Counter[str] = Counter()
        self.paths: Counter[str] = Counter()
        self.seen: Counter[bytes] = Counter()
        self.paid: set[bytes] = set()
        self.requests: list[dict[str, Any]] = []
        self.batches = Batches(server)

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

    def answered(self, status: int, key: bytes, *, whole: bool) -> None:
        """An answer went out."""
        self.statuses[str(status)] += 1
        if status == 200 and whole:
            self.billed += 1
            self.duplicates += key in self.paid
            self.paid.add(key)


class Server:
    """The handlers, how they should behave, and what they remember."""

    def __init__(self, behaviour: Behaviour) -> None:
        self.behaviour = behaviour
        self.tally = Tally(self)
        self._recent: deque[float] = deque()
        self._planned = 0

    async def chat(self, request: web.Request) -> web.StreamResponse:
        """POST /v1/chat/completions."""
        raw = await request.read()
        tally = self.tally
        tally.total += 1
        tally.paths["POST /v1/chat/completions"] += 1
        tally.in_flight += 1
        tally.max_in_flight = max(tally.max_in_flight, tally.in_flight)
        try:
            return await self._chat(request, raw, tally)
        finally:
            tally.in_flight -= 1

    async def _chat(self, request: web.Request, raw: bytes, tally: Tally) -> web.StreamResponse:
        number = tally.total
        key = hash_of(raw)
        seen = tally.seen[key] = tally.seen[key] + 1
        try:
            body = orjson.loads(raw)
        except orjson.JSONDecodeError:
            body = None
        entry: dict[str, Any] = {}
        if self.behaviour.record:
            entry = _entry(request, body)
            tally.requests.append(entry)
        status, found, fault = self._decide(request, body, key, seen, number)
        entry["fault"] = fault
        if self.behaviour.delay:
            await asyncio.sleep(self.behaviour.delay)
        if fault == "hang":
            while not _gone(request):
                await asyncio.sleep(0.05)
        if fault == "reset" and request.transport is not None:
            request.transport.abort()
        if fault in ("hang", "reset") or _gone(request):
            raise asyncio.CancelledError
        response = await self._answer(request, status, found, fault, number)
        entry["status"] = status
        tally.answered(status, key, whole=fault != "half_body")
        return response

    def _decide(
        self, request: web.Request, body: Any, key: bytes, seen: int, number: int
    ) -> tuple[int, Any, str | None]:
        b = self.behaviour
        fault = None
        if b.fault_plan:
            # By arrival, whatever becomes of the request.
            self._planned += 1
            if self._planned <= len(b.fault_plan):
                fault = b.fault_plan[self._planned - 1]
        refused = self._refused(request, body)
        if refused is not None:
            return *refused, None
        if not b.fault_plan:
            fault = b.fault_always or draw(b.faults, b.seed, key, seen)
        limit = body.get("max_tokens") or body.get("max_completion_tokens") or 1 << 30
        if fault is None and b.length_below is not None and limit < b.length_below:
            fault = "length"
        if fault in STATUSES:
            status = STATUSES[fault]
            if status == 429:
                code = "rate_limit_exceeded"
                return 429, error_object("Rate limit reached, try later", "requests", code), fault
            return status, error_object("try again later", "server_error"), fault
        if fault in SPOILT:
            return 200, spoilt(fault, body, b, number), fault
        content = orjson.dumps(good_fields(body, b)).decode()
        return 200, completion(body, content, b, number), fault

    def _refused(self, request: web.Request, body: Any) -> tuple[int, Any] | None:
        b = self.behaviour
        wrong_key = self.wrong_key(request)
        if wrong_key is not None:
            return 401, wrong_key
        if b.status is not None:
            return b.status, error_object(f"status {b.status} is all there is")
        if b.quota:
            return 429, error_object("You exceeded your current quota", code="insufficient_quota")
        if not isinstance(body, dict) or not body.get("model") or not body.get("messages"):
            return 400, error_object("We could not parse the JSON body of your request.")
        if b.models is not None and body["model"] not in b.models:
            words = f"The model `{body['model']}` does not exist or you do not have access to it."
            return 404, error_object(words, code="model_not_found")
        if b.max_concurrent is not None and self.tally.in_flight > b.max_concurrent:
            return 429, error_object("too many at once", code="rate_limit_exceeded")
        if b.requests_per_second is not None and self._too_fast(b.requests_per_second):
            return 429, error_object("too many a second", code="rate_limit_exceeded")
        return self.unsupported(body)

    def wrong_key(self, request: web.Request) -> dict[str, Any] | None:
        """The error for who has not the right key. It repeats the key, as careless servers do."""
        key = self.behaviour.require_key
        said = request.headers.get("Authorization", "")
        if not key or said == f"Bearer {key}":
            return None
        return error_object(f"Incorrect API key provided: {said}", code="invalid_api_key")

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
            return 400, error_object(words, code="unsupported_value", param="response_format")
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
        while self._recent and self._recent[0] < now - 1.0:
            self._recent.popleft()
        if len(self._recent) >= most:
            return True
        self._recent.append(now)
        return False

    async def _answer(
        self, request: web.Request, status: int, found: Any, fault: str | None, number: int
    ) -> web.StreamResponse:
        headers = {"x-request-id": f"req_{number}", **self.behaviour.rate_headers}
        if fault == "429_retry_after":
            headers["Retry-After"] = f"{self.behaviour.retry_after:g}"
        text = found.encode() if isinstance(found, str) else orjson.dumps(found)
        kind = "text/plain" if isinstance(found, str) else "application/json"
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
            if request.transport is not None:
                request.transport.close()
            return response
        for start in range(0, len(text), 8):
            await response.write(text[start : start + 8])
            await asyncio.sleep(0.3)
        return response

    async def models(self, request: web.Request) -> web.Response:
        """GET /v1/models."""
        self.tally.paths["GET /v1/models"] += 1
        wrong_key = self.wrong_key(request)
        if wrong_key is not None:
            return self.json(wrong_key, 401)
        named = [
            {"id": m, "object": "model", "created": 1_796_000_000, "owned_by": "test"}
            for m in self.behaviour.models or ["any"]
        ]
        return self.json({"object": "list", "data": named})

    def json(self, found: dict[str, Any], status: int = 200) -> web.Response:
        """An answer of any endpoint but chat."""
        return web.Response(
            body=orjson.dumps(found),
            status=status,
            headers=self.behaviour.rate_headers,
            content_type="application/json",
        )

    async def control(self, request: web.Request) -> web.Response:
        """The test's own door."""
        what = request.match_info["what"]
        given = orjson.loads(await request.read() or b"{}")
        if what == "set":
            try:
                self.behaviour = Behaviour.of(given)
            except (TypeError, ValueError) as error:
                return web.Response(text=str(error), status=400)
            self._planned = 0
            self._recent.clear()
        elif what == "reset":
            self.tally = Tally(self)
            self._planned = 0
            self._recent.clear()
        elif what == "requests":
            return web.Response(body=orjson.dumps(self.tally.requests[: given.get("limit")]))
        return web.Response(body=orjson.dumps(self.tally.counts()))


def _entry(request: web.Request, body: Any) -> dict[str, Any]:
    headers = {k.lower(): v for k, v in request.headers.items()}
    key = headers.pop("authorization", "")
    return {
        "at": time.time(),
        "path": request.path,
        "headers": headers,
        "authorization_sha256": hashlib.sha256(key.encode()).hexdigest(),
        "body": body,
        "status": None,
        "fault": None,
    }


def _gone(request: web.Request) -> bool:
    return request.transport is None or request.transport.is_closing()


def application(behaviour: Behaviour) -> web.Application:
    """The server's routes."""
    server = Server(behaviour)
    app = web.Application(client_max_size=1 << 30)
    app.router.add_post("/v1/chat/completions", server.chat)
    app.router.add_get("/v1/models", server.models)
    app.router.add_post("/_control/{what}", server.control)
    app.router.add_route("*", "/v1/files{tail:.*}", lambda r: server.tally.batches.files(r))
    app.router.add_route("*", "/v1/batches{tail:.*}", lambda r: server.tally.batches.handle(r))
    return app
