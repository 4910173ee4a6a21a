"""Files and batches as OpenAI's Batch API has them, with what can go wrong there."""

from __future__ import annotations

import asyncio
import random
import time
from typing import TYPE_CHECKING, Any

import orjson
from aiohttp import web

from tests.judge_server.answers import completion, error_object, good_fields, hash_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.judge_server.server import Server

_FINAL = ("completed", "failed", "expired", "cancelled")
_STAGES = (("validating", 0.2), ("in_progress", 0.8), ("finalizing", 1.0))
"""Each status, and the share of `batch_seconds` at which it ends."""
_TIMES = ("in_progress", "finalizing", "completed", "failed", "expired", "cancelling", "cancelled")


class Batches:
    """Uploaded files and created batches."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._files: dict[str, dict[str, Any]] = {}
        self._content: dict[str, bytes] = {}
        self._batches: dict[str, dict[str, Any]] = {}
        self._lines: dict[str, list[dict[str, Any]]] = {}
        self._completed: set[bytes] = set()
        self._accepted = self._doubles = 0
        self._number = 0

    def counts(self) -> dict[str, int]:
        """For `JudgeServer.counts`. What ended in the meantime counts, though nobody asked."""
        for batch in self._batches.values():
            self._advance(batch)
        return {
            "files": len(self._files),
            "batches": len(self._batches),
            "batch_requests": self._accepted,
            "batch_duplicates": self._doubles,
        }

    async def files(self, request: web.Request) -> web.Response:
        """/v1/files and below."""
        refused, name, rest = self._enter(request, "files")
        if refused is not None:
            return refused
        if request.method == "POST" and not name:
            return await self._upload(request)
        found = self._files.get(name)
        if found is None:
            return self._error(404, f"No such File object: {name}")
        if request.method == "DELETE" and not rest:
            del self._files[name], self._content[name]
            return self._server.json({"id": name, "object": "file", "deleted": True})
        if request.method != "GET" or rest not in ("", "content"):
            return self._error(405, f"{request.method} is not allowed here")
        if not rest:
            return self._server.json(found)
        if self._faulty("content_500"):
            return self._error(500, "the content could not be read")
        return web.Response(
            body=self._content[name],
            headers=self._server.behaviour.rate_headers,
            content_type="application/octet-stream",
        )

    async def handle(self, request: web.Request) -> web.Response:
        """/v1/batches and below."""
        refused, name, rest = self._enter(request, "batches")
        if refused is not None:
            return refused
        if not name:
            return await self._create(request) if request.method == "POST" else self._list(request)
        found = self._batches.get(name)
        if found is None:
            return self._error(404, f"No batch found with id '{name}'.")
        self._advance(found)
        if rest == "cancel" and request.method == "POST":
            if found["status"] in _FINAL:
                words = f"Cannot cancel a batch with status '{found['status']}'."
                return self._error(409, words)
            _become(found, "cancelling")
            found["_ends"] = time.monotonic() + 0.2 * self._server.behaviour.batch_seconds
        elif rest or request.method != "GET":
            return self._error(405, f"{request.method} is not allowed here")
        elif self._faulty("retrieve_500"):
            return self._error(500, "the batch could not be read")
        return self._server.json(_public(found))

    def _enter(self, request: web.Request, room: str) -> tuple[web.Response | None, str, str]:
        """Count the call; why it is refused if it is, which object it names, and what below it."""
        name, _, rest = request.match_info["tail"].strip("/").partition("/")
        path = f"/v1/{room}" + ("/{id}" if name else "") + (f"/{rest}" if rest else "")
        self._server.tally.paths[f"{request.method} {path}"] += 1
        if not self._server.behaviour.batches:
            return self._error(404, "no such endpoint"), name, rest
        wrong_key = self._server.wrong_key(request)
        if wrong_key is not None:
            return self._server.json(wrong_key, 401), name, rest
        return None, name, rest

    async def _upload(self, request: web.Request) -> web.Response:
        form = await request.post()
        purpose, file = form.get("purpose"), form.get("file")
        if purpose != "batch":
            return self._error(400, f"'{purpose}' is not one of ['batch']", "purpose")
        if not isinstance(file, web.FileField):
            return self._error(400, "'file' is a required property", "file")
        content = file.file.read()
        behaviour = self._server.behaviour
        count = content.rstrip(b"\n").count(b"\n") + 1
        if len(content) > behaviour.batch_max_bytes or count > behaviour.batch_max_requests:
            words = f"the file is too large: {count} requests, {len(content)} bytes"
            return self._error(400, words, "file")
        wrong = _wrong_line(content)
        if wrong is not None:
            return self._error(400, wrong, "file")
        if self._faulty("upload_500"):
            return self._error(500, "the file was not kept")
        return self._server.json(self._keep(content, "batch", file.filename))

    def _keep(self, content: bytes, purpose: str, filename: str = "") -> dict[str, Any]:
        self._number += 1
        name = f"file-{self._number}"
        self._content[name] = content
        self._files[name] = {
            "id": name,
            "object": "file",
            "bytes": len(content),
            "created_at": int(time.time()),
            "filename": filename or f"{name}.jsonl",
            "purpose": purpose,
            "status": "processed",
        }
        return self._files[name]

    async def _create(self, request: web.Request) -> web.Response:
        asked = orjson.loads(await request.read())
        for needed in ("input_file_id", "endpoint", "completion_window"):
            if needed not in asked:
                return self._error(400, f"Missing required parameter: '{needed}'.", needed)
        if asked["input_file_id"] not in self._files:
            return self._error(400, "no such input file", "input_file_id")
        if asked["endpoint"] != "/v1/chat/completions":
            return self._error(400, f"no batches of {asked['endpoint']}", "endpoint")
        if self._faulty("create_500"):
            return self._error(500, "something broke before the batch was created")
        content = self._content[asked["input_file_id"]]
        lines = [orjson.loads(line) for line in content.splitlines()]
        self._accepted += len(lines)
        self._number += 1
        name = f"batch_{self._number}"
        # The lines are kept here: an input file may be deleted while its batch is running.
        self._lines[name] = lines
        now = int(time.time())
        self._batches[name] = {
            "id": name,
            "object": "batch",
            "endpoint": asked["endpoint"],
            "errors": None,
            "input_file_id": asked["input_file_id"],
            "completion_window": asked["completion_window"],
            "status": "validating",
            "output_file_id": None,
            "error_file_id": None,
            "created_at": now,
            "expires_at": now + 24 * 3600,
            **{f"{status}_at": None for status in _TIMES},
            "metadata": asked.get("metadata"),
            "request_counts": {"total": 0, "completed": 0, "failed": 0},
            "_began": time.monotonic(),
        }
        if self._faulty("create_500_after_commit"):
            return self._error(500, "something broke after the batch was created")
        if self._faulty("create_reset_after_commit"):
            if request.transport is not None:
                request.transport.abort()
            raise asyncio.CancelledError
        return self._server.json(_public(self._batches[name]))

    def _list(self, request: web.Request) -> web.Response:
        if self._faulty("list_500"):
            return self._error(500, "the batches could not be listed")
        names = list(self._batches)[::-1]
        after = request.query.get("after")
        if after in names:
            names = names[names.index(after) + 1 :]
        limit = int(request.query.get("limit", "20"))
        page = names[:limit]
        for name in page:
            self._advance(self._batches[name])
        return self._server.json(
            {
                "object": "list",
                "data": [_public(self._batches[name]) for name in page],
                "first_id": page[0] if page else None,
                "last_id": page[-1] if page else None,
                "has_more": len(names) > limit,
            }
        )

    def _advance(self, batch: dict[str, Any]) -> None:
        """Bring a batch to the status that its age gives it."""
        if batch["status"] in _FINAL:
            return
        if batch["status"] == "cancelling":
            if time.monotonic() >= batch["_ends"]:
                _become(batch, "cancelled")
            return
        behaviour = self._server.behaviour
        share = (time.monotonic() - batch["_began"]) / max(behaviour.batch_seconds, 1e-9)
        total = len(self._lines[batch["id"]])
        for status, end in _STAGES:
            if status == "in_progress" and behaviour.batch_fails:
                fault = {"code": behaviour.batch_fails, "message": "it failed", "line": 1}
                batch["errors"] = {"object": "list", "data": [{**fault, "param": None}]}
                _become(batch, "failed")
                return
            _become(batch, status)
            if status != "validating":
                done = int(total * min(share / end, 1.0))
                batch["request_counts"] = {"total": total, "completed": done, "failed": 0}
            if share < end:
                return
        self._finish(batch)

    def _finish(self, batch: dict[str, Any]) -> None:
        behaviour = self._server.behaviour
        lines = self._lines.pop(batch["id"])
        dice = random.Random(f"{behaviour.seed}:{batch['id']}")
        expired = _some(dice, range(len(lines)), behaviour.batch_expires)
        rest = [n for n in range(len(lines)) if n not in expired]
        broken = _some(dice, rest, behaviour.batch_error_rate)
        good: list[bytes] = []
        bad: list[bytes] = []
        bodies: set[bytes] = set()
        for n, asked in enumerate(lines):
            self._number += 1
            answer: Callable[..., bytes] = _line(self._number, asked["custom_id"])
            if n in expired:
                words = "This request could not be executed before the completion window expired."
                bad.append(answer(error={"code": "batch_expired", "message": words}))
                continue
            if n in broken:
                bad.append(answer(500, error_object("oops", "server_error")))
                continue
            refused = self._server.unsupported(asked["body"])
            if refused is not None:
                bad.append(answer(*refused))
                continue
            content = orjson.dumps(good_fields(asked["body"], behaviour)).decode()
            good.append(answer(200, completion(asked["body"], content, behaviour, self._number)))
            body = hash_of(orjson.dumps(asked["body"], option=orjson.OPT_SORT_KEYS))
            self._doubles += body in self._completed
            bodies.add(body)
        self._completed |= bodies
        dice.shuffle(good)
        counts = {"total": len(lines), "completed": len(good), "failed": len(bad)}
        batch["request_counts"] = counts
        if good:
            batch["output_file_id"] = self._keep(b"\n".join(good) + b"\n", "batch_output")["id"]
        if bad:
            batch["error_file_id"] = self._keep(b"\n".join(bad) + b"\n", "batch_output")["id"]
        _become(batch, "expired" if behaviour.batch_expires else "completed")

    def _faulty(self, name: str) -> bool:
        left = self._server.behaviour.batch_faults
        if left.get(name, 0) <= 0:
            return False
        left[name] -= 1
        return True

    def _error(self, status: int, words: str, param: str | None = None) -> web.Response:
        kind = "server_error" if status >= 500 else "invalid_request_error"
        return self._server.json(error_object(words, kind, param=param), status)


def _become(batch: dict[str, Any], status: str) -> None:
    if batch["status"] != status:
        batch["status"] = status
        batch[f"{status}_at"] = int(time.time())


def _some(dice: random.Random, among: range | list[int], share: float) -> set[int]:
    """That share of them. What is left over is drawn, else one alone would never, or always, be."""
    return set(dice.sample(among, min(len(among), int(len(among) * share + dice.random()))))


def _line(number: int, custom_id: str) -> Callable[..., bytes]:
    """Writes the line of an output or error file that answers one request."""

    def written(
        status: int | None = None, body: Any = None, error: dict[str, Any] | None = None
    ) -> bytes:
        response = {"status_code": status, "request_id": f"req_{number}", "body": body}
        return orjson.dumps(
            {
                "id": f"batch_req_{number}",
                "custom_id": custom_id,
                "response": None if status is None else response,
                "error": error,
            }
        )

    return written


def _wrong_line(content: bytes) -> str | None:
    """What is wrong with the first line of an input file that is not a request."""
    names: set[str] = set()
    for number, line in enumerate(content.splitlines() or [b""], 1):
        try:
            asked = orjson.loads(line)
        except orjson.JSONDecodeError:
            return f"line {number} is not valid JSON"
        if not isinstance(asked, dict) or not isinstance(asked.get("body"), dict):
            return f"line {number} is not a request"
        if (asked.get("method"), asked.get("url")) != ("POST", "/v1/chat/completions"):
            return f"line {number} has another method or URL"
        name = asked.get("custom_id")
        if not isinstance(name, str) or name in names:
            return f"line {number} has no custom_id of its own"
        names.add(name)
    return None


def _public(batch: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in batch.items() if not k.startswith("_")}
