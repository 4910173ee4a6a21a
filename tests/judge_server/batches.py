"""Files and batches as OpenAI's Batch API has them, with what can go wrong there."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, Any

import orjson
from aiohttp import web

from tests.judge_server.answers import completion, good_fields

if TYPE_CHECKING:
    from tests.judge_server.server import Server

_FINAL = ("completed", "failed", "expired", "cancelled")


class Batches:
    """Uploaded files and created batches."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._files: dict[str, dict[str, Any]] = {}
        self._content: dict[str, bytes] = {}
        self._batches: dict[str, dict[str, Any]] = {}
        self._bodies: set[bytes] = set()
        self._accepted = self._doubles = 0
        self._number = 0

    def counts(self) -> dict[str, int]:
        """For `JudgeServer.counts`."""
        return {
            "files": len(self._files),
            "batches": len(self._batches),
            "batch_requests": self._accepted,
            "batch_duplicates": self._doubles,
        }

    async def files(self, request: web.Request) -> web.Response:
        """/v1/files and below."""
        self._server.paths[f"{request.method} files"] += 1
        if not self._server.behaviour.batches:
            return _error(404, "no such endpoint")
        tail = request.match_info["tail"].strip("/").split("/")
        if request.method == "POST":
            return await self._upload(request)
        found = self._files.get(tail[0])
        if found is None:
            return _error(404, f"no file {tail[0]}")
        if request.method == "DELETE":
            del self._files[tail[0]], self._content[tail[0]]
            return _json({"id": tail[0], "object": "file", "deleted": True})
        if tail[1:] == ["content"]:
            return web.Response(
                body=self._content[tail[0]], content_type="application/octet-stream"
            )
        return _json(found)

    async def _upload(self, request: web.Request) -> web.Response:
        form = await request.post()
        content = form["file"].file.read()  # type: ignore[union-attr]
        behaviour = self._server.behaviour
        lines = content.splitlines()
        if len(content) > behaviour.batch_max_bytes or len(lines) > behaviour.batch_max_requests:
            return _error(
                400, f"the file is too large: {len(lines)} requests, {len(content)} bytes"
            )
        return _json(self._keep(content, "batch"))

    def _keep(self, content: bytes, purpose: str) -> dict[str, Any]:
        self._number += 1
        name = f"file-{self._number}"
        self._content[name] = content
        self._files[name] = {
            "id": name,
            "object": "file",
            "bytes": len(content),
            "created_at": int(time.time()),
            "filename": f"{name}.jsonl",
            "purpose": purpose,
            "status": "processed",
        }
        return self._files[name]

    async def handle(self, request: web.Request) -> web.Response:
        """/v1/batches and below."""
        self._server.paths[f"{request.method} batches"] += 1
        if not self._server.behaviour.batches:
            return _error(404, "no such endpoint")
        tail = [t for t in request.match_info["tail"].strip("/").split("/") if t]
        if request.method == "POST" and not tail:
            return await self._create(request)
        if not tail:
            return self._list(request)
        found = self._batches.get(tail[0])
        if found is None:
            return _error(404, f"no batch {tail[0]}")
        if tail[1:] == ["cancel"]:
            found["status"] = "cancelled"
        return _json(self._advanced(found))

    async def _create(self, request: web.Request) -> web.Response:
        asked = orjson.loads(await request.read())
        behaviour = self._server.behaviour
        if asked["input_file_id"] not in self._files:
            return _error(400, "no such input file")
        for line in self._content[asked["input_file_id"]].splitlines():
            body = orjson.dumps(orjson.loads(line)["body"], option=orjson.OPT_SORT_KEYS)
            self._accepted += 1
            self._doubles += body in self._bodies
            self._bodies.add(body)
        self._number += 1
        name = f"batch_{self._number}"
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
            "created_at": int(time.time()),
            "metadata": asked.get("metadata"),
            "request_counts": {"total": 0, "completed": 0, "failed": 0},
            "_began": time.monotonic(),
        }
        if behaviour.create_500_after_commit > 0:
            behaviour.create_500_after_commit -= 1
            return _error(500, "something broke after the batch was created")
        return _json(self._advanced(self._batches[name]))

    def _list(self, request: web.Request) -> web.Response:
        names = list(self._batches)[::-1]
        after = request.query.get("after")
        if after in names:
            names = names[names.index(after) + 1 :]
        limit = int(request.query.get("limit", "20"))
        page = [_public(self._advanced(self._batches[n])) for n in names[:limit]]
        return _json({"object": "list", "data": page, "has_more": len(names) > limit})

    def _advanced(self, batch: dict[str, Any]) -> dict[str, Any]:
        if batch["status"] in _FINAL:
            return batch
        behaviour = self._server.behaviour
        share = (time.monotonic() - batch["_began"]) / max(behaviour.batch_seconds, 1e-9)
        if share < 1:
            batch["status"] = "validating" if share < 0.2 else "in_progress"
            return batch
        if behaviour.batch_fails:
            batch["status"] = "failed"
            fault = {"code": behaviour.batch_fails, "message": "it failed", "line": 1}
            batch["errors"] = {"object": "list", "data": [fault]}
            return batch
        self._finish(batch)
        return batch

    def _finish(self, batch: dict[str, Any]) -> None:
        behaviour = self._server.behaviour
        dice = random.Random(f"{behaviour.seed}:{batch['id']}")
        good: list[bytes] = []
        bad: list[bytes] = []
        for line in self._content[batch["input_file_id"]].splitlines():
            asked = orjson.loads(line)
            self._number += 1
            if dice.random() < behaviour.batch_expires:
                error = {"code": "batch_expired", "message": "it was not run in time"}
                bad.append(
                    orjson.dumps(
                        {"custom_id": asked["custom_id"], "response": None, "error": error}
                    )
                )
                continue
            if dice.random() < behaviour.batch_error_rate:
                response = {
                    "status_code": 500,
                    "request_id": "r",
                    "body": {"error": {"message": "oops"}},
                }
                bad.append(
                    orjson.dumps(
                        {"custom_id": asked["custom_id"], "response": response, "error": None}
                    )
                )
                continue
            refused = self._server.unsupported(asked["body"])
            if refused is not None:
                response = {"status_code": refused[0], "request_id": "r", "body": refused[1]}
                bad.append(
                    orjson.dumps(
                        {"custom_id": asked["custom_id"], "response": response, "error": None}
                    )
                )
                continue
            content = orjson.dumps(good_fields(asked["body"], behaviour)).decode()
            body = completion(asked["body"], content, behaviour, self._number)
            response = {"status_code": 200, "request_id": f"req_{self._number}", "body": body}
            good.append(
                orjson.dumps(
                    {
                        "id": f"batch_req_{self._number}",
                        "custom_id": asked["custom_id"],
                        "response": response,
                        "error": None,
                    }
                )
            )
        dice.shuffle(good)
        batch["status"] = "expired" if behaviour.batch_expires else "completed"
        batch["request_counts"] = {
            "total": len(good) + len(bad),
            "completed": len(good),
            "failed": len(bad),
        }
        if good:
            batch["output_file_id"] = self._keep(b"\n".join(good) + b"\n", "batch_output")["id"]
        if bad:
            batch["error_file_id"] = self._keep(b"\n".join(bad) + b"\n", "batch_output")["id"]


def _public(batch: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in batch.items() if not k.startswith("_")}


def _json(found: dict[str, Any]) -> web.Response:
    return web.Response(body=orjson.dumps(_public(found)), content_type="application/json")


def _error(status: int, words: str) -> web.Response:
    error = {"message": words, "type": "invalid_request_error", "param": None, "code": None}
    return web.Response(
        body=orjson.dumps({"error": error}), status=status, content_type="application/json"
    )
