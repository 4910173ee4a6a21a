"""The judge's endpoint itself: it answers well, fails as it is told to, and counts what it did."""

from __future__ import annotations

import asyncio
import hashlib
import http.client
import io
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import openai
import pytest
from openai import AsyncOpenAI, OpenAI

from tests.judge_server import JudgeServer

if TYPE_CHECKING:
    from collections.abc import Iterator

N = "0123456789abcdef"
SYSTEM = """# safety_score

Is it safe?

## Output

- `reasoning` (text): why
- `quote` (text): verbatim
- `applicable` (true or false): whether
- `score` (number from 0 to 1, or null): how much
- `grade` (integer from 1 to 5): how good
- `flag` (integer from 0 to 1): whether
- `turns` (integer of at least 3): how many
- `degrees` (number from -10 to 10): how warm
"""
USER = f"<query-{N}>\nA flight?\n</query-{N}>\n<response-{N}>\nYes, at 15:40.\n</response-{N}>"


@pytest.fixture
def client(server: JudgeServer) -> Iterator[OpenAI]:
    with OpenAI(base_url=server.base_url, api_key="k", max_retries=0, timeout=5) as made:
        yield made


def ask(
    server: JudgeServer, user: str = USER, system: str = SYSTEM, *, timeout: float = 5, **more: Any
) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body, as they come."""
    messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=timeout)
    try:
        body = json.dumps({"model": "m", "messages": messages, **more})
        connection.request("POST", "/v1/chat/completions", body, {"Authorization": "Bearer secret"})
        response = connection.getresponse()
        return response.status, {k.lower(): v for k, v in response.getheaders()}, response.read()
    finally:
        connection.close()


def content(server: JudgeServer, *args: Any, **more: Any) -> Any:
    status, _, body = ask(server, *args, **more)
    assert status == 200
    return json.loads(body)["choices"][0]["message"]["content"]


def verdict(server: JudgeServer, *args: Any, **more: Any) -> dict[str, Any]:
    return json.loads(content(server, *args, **more))


def error(server: JudgeServer, **more: Any) -> tuple[int, str | None, str | None]:
    status, _, body = ask(server, **more)
    found = json.loads(body)["error"]
    return status, found["code"], found["param"]


def test_a_verdict_fits_what_the_system_message_asks_for(server: JudgeServer) -> None:
    assert verdict(server) == {
        "reasoning": "It was looked at closely.", "quote": "Yes, at 15:40.", "applicable": True,
        "score": 0.75, "grade": 4, "flag": 1, "turns": 3, "degrees": 5.0,
    }  # fmt: skip


def test_a_schema_comes_before_the_system_message(server: JudgeServer) -> None:
    nullable = {"anyOf": [{"type": "null"}, {"type": "integer", "minimum": 1, "maximum": 5}]}
    schema = {"properties": {"score": {"type": ["null", "number"]}, "grade": nullable}}
    wanted = {"score": 0.75, "grade": 4}
    named = {"type": "json_schema", "json_schema": {"name": "v", "schema": schema}}
    assert verdict(server, response_format=named) == wanted
    assert verdict(server, response_format={"type": "json_object", "schema": schema}) == wanted


def test_what_a_test_wants_said_is_said(server: JudgeServer) -> None:
    server.set(
        score=0.5, fields={"grade": 2, "unknown": 1}, scores_by_metric={"safety_score": 0.1},
        answers=[{"if": "15:40", "then": {"turns": 9}}],
    )  # fmt: skip
    found = verdict(server)
    assert (found["score"], found["grade"], found["turns"]) == (0.1, 2, 9)
    assert "unknown" not in found
    other = verdict(server, "something else", SYSTEM.replace("# safety_score", "# other"))
    assert (other["score"], other["turns"]) == (0.5, 3)


@pytest.mark.parametrize(
    ("user", "quote"),
    [
        (
            f"<response-{N}>\none two  three 4 5 6 7 8 9\n</response-{N}>",
            "one two  three 4 5 6 7 8",
        ),
        (f"<transcript-{N}><response-{N}>a</response-{N}></transcript-{N}>", "a"),
        (
            (
                f'<transcript-{N}><elided-{N} turns="3"/><turn-{N} number="1">'
                f"<user-{N}>hi</user-{N}><assistant-{N}>\n</assistant-{N}>"
                f"<assistant-{N}>well\nyes</assistant-{N}></turn-{N}></transcript-{N}>"
            ),
            "well",
        ),
        (f"<conversation-{N}>of\n<user-{N}>hi</user-{N}></conversation-{N}>", "hi"),
        (f"<response-{N}>\nhead\n<elided-{N} characters=\"9\"/>\nx</response-{N}>", "head"),
        (f"<response-{N}>\n<assistant-ff>no</assistant-ff></response-{N}>",
         "<assistant-ff>no</assistant-ff>"),
        ("nothing is here", "nothing"),
    ],
)  # fmt: skip
def test_a_quote_stands_in_what_is_judged(server: JudgeServer, user: str, quote: str) -> None:
    assert verdict(server, user)["quote"] == quote


def test_the_sdk_reads_the_answers(server: JudgeServer) -> None:
    async def both() -> Any:
        async with AsyncOpenAI(base_url=server.base_url, api_key="k", max_retries=0) as client:
            models = await client.models.list()
            assert [m.owned_by for m in models.data] == ["test"]
            return await client.chat.completions.create(
                model="m", messages=[{"role": "user", "content": USER}]
            )

    found = asyncio.run(both())
    assert found.model == "m-2026-11-01"
    assert found.choices[0].finish_reason == "stop"
    assert found.usage.prompt_tokens == len(USER) // 4
    assert found.usage.total_tokens == found.usage.prompt_tokens + found.usage.completion_tokens
    assert found.usage.prompt_tokens_details.cached_tokens == 0
    assert found._request_id == "req_1"
    server.set(served_model="other")
    assert json.loads(ask(server)[2])["model"] == "other"


JSON_SCHEMA = {"type": "json_schema", "json_schema": {"name": "v", "schema": {"properties": {}}}}


@pytest.mark.parametrize(
    ("behaviour", "more", "wanted"),
    [
        ({"json_schema": False}, {"response_format": JSON_SCHEMA},
         (400, "unsupported_value", "response_format")),
        ({"json_object": False}, {"response_format": {"type": "json_object"}},
         (400, "unsupported_value", "response_format")),
        ({"json_object_schema": False}, {"response_format": {"schema": {"properties": {}}}},
         (400, "unknown_parameter", "response_format.schema")),
        ({"rejects": ["seed"]}, {"seed": 1}, (400, "unsupported_parameter", "seed")),
        ({"require_key": "x"}, {}, (401, "invalid_api_key", None)),
        ({"models": ["x"]}, {}, (404, "model_not_found", None)),
        ({"status": 403}, {}, (403, None, None)),
        ({"quota": True}, {}, (429, "insufficient_quota", None)),
        ({"context_limit_chars": 9}, {}, (400, "context_length_exceeded", "messages")),
        ({"max_concurrent": 0}, {}, (429, "rate_limit_exceeded", None)),
        ({"requests_per_second": 0}, {}, (429, "rate_limit_exceeded", None)),
    ],
)  # fmt: skip
def test_what_it_does_not_do_it_refuses(
    server: JudgeServer, behaviour: dict[str, Any], more: dict[str, Any], wanted: Any
) -> None:
    server.set(**behaviour)
    assert error(server, **more) == wanted
    counts = server.counts()
    assert (counts["total"], counts["billed"]) == (1, 0)
    assert counts["by_status"] == {str(wanted[0]): 1}


def test_words_of_refusals(server: JudgeServer) -> None:
    server.set(rejects=["max_tokens"])
    assert b"Use 'max_completion_tokens' instead." in ask(server, max_tokens=5)[2]
    server.set(json_schema="500")
    status, headers, body = ask(server, response_format=JSON_SCHEMA)
    assert (status, body) == (500, b"Internal Server Error")
    assert headers["content-type"].startswith("text/plain")
    server.set(require_key="secret")
    assert ask(server)[0] == 200


@pytest.mark.parametrize(
    ("fault", "status"),
    [("429", 429), ("429_retry_after", 429), ("500", 500), ("503", 503), ("408", 408)],
)
def test_status_faults(server: JudgeServer, fault: str, status: int) -> None:
    server.set(fault_always=fault, retry_after=2.5, rate_headers={"x-ratelimit-limit": "7"})
    found, headers, _ = ask(server)
    assert found == status
    assert headers["x-ratelimit-limit"] == "7"
    assert headers.get("retry-after") == ("2.5" if fault == "429_retry_after" else None)
    assert server.requests()[0]["fault"] == fault
    assert server.counts()["billed"] == 0


@pytest.mark.parametrize("fault", ["reset", "hang", "half_body"])
def test_a_broken_answer_is_not_billed(server: JudgeServer, fault: str) -> None:
    server.set(fault_plan=[fault])
    with pytest.raises((OSError, http.client.HTTPException)):
        ask(server, timeout=0.3)
    assert ask(server)[0] == 200
    first, second = server.requests()
    assert (first["fault"], first["status"]) == (fault, 200 if fault == "half_body" else None)
    assert (second["fault"], second["status"]) == (None, 200)
    counts = server.counts()
    assert (counts["total"], counts["billed"], counts["duplicates"]) == (2, 1, 0)


def test_who_hangs_up_is_no_longer_in_flight(server: JudgeServer) -> None:
    server.set(fault_always="hang", max_concurrent=1)
    for _ in range(2):
        with pytest.raises(TimeoutError):
            ask(server, timeout=0.1)
        time.sleep(0.2)
    assert server.counts()["max_in_flight"] == 1


def test_an_answer_to_nobody_is_not_billed(server: JudgeServer) -> None:
    server.set(delay=0.3)
    with pytest.raises(TimeoutError):
        ask(server, timeout=0.1)
    time.sleep(0.4)
    assert server.requests()[0]["status"] is None
    assert server.counts()["billed"] == 0


def test_a_dripping_answer_is_slow_but_begins_well(server: JudgeServer) -> None:
    server.set(fault_always="drip")
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=5)
    body = {"model": "m", "messages": [{"role": "user", "content": USER}]}
    connection.request("POST", "/v1/chat/completions", json.dumps(body))
    response = connection.getresponse()
    began = time.monotonic()
    assert response.read(17).startswith(b'{"id":"chatcmpl')
    assert 0.5 < time.monotonic() - began < 2
    connection.close()
    assert server.counts()["billed"] == 0


def test_bodies_that_are_no_completion(server: JudgeServer) -> None:
    plan = ["html", "truncated_json", "empty", "error_200"]
    server.set(fault_plan=plan)
    html, cut, empty, told = (ask(server) for _ in plan)
    assert html[1]["content-type"].startswith("text/html")
    assert int(cut[1]["content-length"]) == len(cut[2])
    with pytest.raises(json.JSONDecodeError):
        json.loads(cut[2])
    assert empty[2] == b""
    assert "error" in json.loads(told[2])
    assert {html[0], cut[0], empty[0], told[0]} == {200}
    assert server.counts()["billed"] == 4
    assert server.duplicates() == 3


def test_completions_that_are_no_verdict(server: JudgeServer) -> None:
    plan = ["no_choices", "null_content", "refusal", "content_filter", "length"]
    server.set(fault_plan=plan)
    found = [json.loads(ask(server)[2])["choices"] for _ in plan]
    assert found[0] == []
    assert found[1][0]["message"]["content"] is None
    assert found[2][0]["message"]["content"] is None
    assert found[2][0]["message"]["refusal"]
    assert found[3][0]["finish_reason"] == "content_filter"
    assert found[4][0]["finish_reason"] == "length"
    with pytest.raises(json.JSONDecodeError):
        json.loads(found[4][0]["message"]["content"])
    assert server.counts()["billed"] == len(plan)


def test_verdicts_that_are_not_what_was_asked_for(server: JudgeServer) -> None:
    plan = ["wrong_schema", "out_of_range", "nan", "missing_score", "false_quote", "no_quote"]
    server.set(fault_plan=plan)
    wrong, out, nan, missing, false, none = (verdict(server) for _ in plan)
    assert isinstance(wrong["score"], str)
    assert not 0 <= out["score"] <= 1
    assert nan["score"] != nan["score"]
    assert "score" not in missing
    assert false["quote"] not in USER
    assert none["quote"] == ""


def test_odd_forms_of_a_verdict(server: JudgeServer) -> None:
    plan = ["malformed", "fenced", "wrapped", "parts"]
    server.set(fault_plan=plan)
    malformed, fenced, wrapped, parts = (content(server) for _ in plan)
    assert "{" not in malformed
    wanted = verdict(server)
    assert json.loads(fenced.removeprefix("```json\n").removesuffix("\n```")) == wanted
    assert json.loads(wrapped.split("\n")[1]) == wanted
    assert json.loads("".join(p["text"] for p in parts)) == wanted


def test_an_answer_is_cut_below_a_length(server: JudgeServer) -> None:
    server.set(length_below=100)

    def finish(**more: int) -> str:
        return json.loads(ask(server, **more)[2])["choices"][0]["finish_reason"]

    assert [finish(max_tokens=99), finish(max_completion_tokens=99)] == ["length"] * 2
    assert [finish(max_tokens=100), finish()] == ["stop"] * 2


def test_faults_are_drawn_alike_in_every_run_and_anew_for_a_retry(server: JudgeServer) -> None:
    def drawn(seed: int) -> list[str | None]:
        server.set(faults={"500": 0.3, "429": 0.2}, seed=seed)
        server.reset()
        for n in range(60):
            ask(server, f"question {n % 20}")
        return [r["fault"] for r in server.requests()]

    first = drawn(1)
    assert drawn(1) == first
    assert drawn(2) != first
    assert first[:20] != first[20:40]
    assert 8 < first.count("500") < 30


def test_a_plan_begins_when_it_is_set(server: JudgeServer) -> None:
    ask(server)
    server.set(fault_plan=["500", None, "429"])
    assert [ask(server)[0] for _ in range(4)] == [500, 200, 429, 200]


def test_an_unknown_wish_is_an_error_of_the_test(server: JudgeServer) -> None:
    for wrong in ({"typo": 1}, {"faults": {"typo": 0.1}}, {"batch_faults": {"typo": 1}}):
        with pytest.raises(RuntimeError, match="typo"):
            server.set(**wrong)


def test_requests_are_kept_without_the_key(server: JudgeServer) -> None:
    before = time.time()
    for n in range(3):
        ask(server, f"question {n}", seed=n)
    found = server.requests()
    assert [r["body"]["seed"] for r in found] == [0, 1, 2]
    assert len(server.requests(limit=2)) == 2
    assert found[0]["path"] == "/v1/chat/completions"
    assert before <= found[0]["at"] <= found[2]["at"] <= time.time()
    assert found[0]["authorization_sha256"] == hashlib.sha256(b"Bearer secret").hexdigest()
    assert "secret" not in json.dumps(found)
    server.set(record=False)
    ask(server)
    assert len(server.requests()) == 3
    assert server.counts()["total"] == 4


def test_counts(server: JudgeServer) -> None:
    server.set(delay=0.2)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: ask(server, f"question {n % 4}"), range(8)))
    counts = server.counts()
    assert (counts["total"], counts["billed"], counts["duplicates"]) == (8, 8, 4)
    assert counts["max_in_flight"] == 8
    assert counts["by_status"] == {"200": 8}
    assert counts["by_path"] == {"POST /v1/chat/completions": 8}


def test_what_began_before_a_reset_does_not_count_after_it(server: JudgeServer) -> None:
    server.set(delay=0.3)
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(ask, server)
        time.sleep(0.1)
        server.reset()
        assert asked.result()[0] == 200
    counts = server.counts()
    assert (counts["total"], counts["billed"], counts["max_in_flight"]) == (0, 0, 0)
    assert (counts["by_status"], server.requests()) == ({}, [])


def test_limits_let_through_what_is_within(server: JudgeServer) -> None:
    server.set(delay=0.2, max_concurrent=3)
    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(lambda n: ask(server, str(n))[0], range(6)))
    assert sorted(found) == [200] * 3 + [429] * 3
    server.set(requests_per_second=4)
    assert [ask(server)[0] for _ in range(6)] == [200] * 4 + [429] * 2


def test_killed_and_started_anew() -> None:
    with JudgeServer(score=0.5) as server:
        url = server.base_url
        ask(server)
        server.kill()
        with pytest.raises(ConnectionRefusedError):
            ask(server)
        server.restart()
        assert server.base_url == url
        assert verdict(server)["score"] == 0.5
        assert server.counts()["total"] == 1


def test_no_server_outlives_who_started_it() -> None:
    code = (
        "import os; from tests.judge_server import JudgeServer; s = JudgeServer().__enter__();"
        "print(s._process.pid, flush=True); os._exit(0)"
    )
    # Not through a pipe that the orphan would hold open as well.
    root = Path(__file__).parents[2]
    said = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, timeout=20)
    pid = int(said.stdout)
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        state = Path(f"/proc/{pid}/stat")
        if state.exists() and state.read_text().rsplit(")", 1)[1].split()[0] == "Z":
            return
        time.sleep(0.1)
    pytest.fail("the server is still there")


def lines(count: int, start: int = 0) -> io.BytesIO:
    """An input file."""
    asked = [
        {
            "custom_id": f"c{n}", "method": "POST", "url": "/v1/chat/completions",
            "body": {"model": "m", "messages": [{"role": "user", "content": f"{n} {USER}"}]},
        }
        for n in range(start, start + count)
    ]  # fmt: skip
    file = io.BytesIO("\n".join(map(json.dumps, asked)).encode())
    file.name = "asked.jsonl"
    return file


def submitted(client: OpenAI, count: int = 10, **more: Any) -> Any:
    file = client.files.create(file=lines(count), purpose="batch")
    return client.batches.create(
        input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h", **more
    )


def ended(client: OpenAI, batch: Any) -> Any:
    deadline = time.monotonic() + 5
    while batch.status not in ("completed", "failed", "expired", "cancelled"):
        assert time.monotonic() < deadline
        time.sleep(0.01)
        batch = client.batches.retrieve(batch.id)
    return batch


def read(client: OpenAI, file: str | None) -> list[dict[str, Any]]:
    return [] if file is None else [json.loads(x) for x in client.files.content(file).iter_lines()]


def test_a_batch_from_file_to_file(server: JudgeServer, client: OpenAI) -> None:
    server.set(batch_seconds=0.5)
    file = client.files.create(file=lines(20), purpose="batch")
    assert (file.filename, file.purpose) == ("asked.jsonl", "batch")
    assert client.files.retrieve(file.id).bytes == len(lines(20).getvalue())
    batch = client.batches.create(
        input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h",
        metadata={"run": "7"},
    )  # fmt: skip
    assert client.files.delete(file.id).deleted
    seen = [batch.status]
    while batch.status != "completed":
        time.sleep(0.01)
        batch = client.batches.retrieve(batch.id)
        if batch.status != seen[-1]:
            seen.append(batch.status)
    assert seen == ["validating", "in_progress", "finalizing", "completed"]
    assert (batch.metadata, batch.error_file_id) == ({"run": "7"}, None)
    assert (batch.request_counts.total, batch.request_counts.completed) == (20, 20)
    assert batch.completed_at >= batch.created_at
    found = read(client, batch.output_file_id)
    names = [line["custom_id"] for line in found]
    assert sorted(names) == sorted(f"c{n}" for n in range(20))
    assert names != sorted(names, key=lambda name: int(name[1:]))
    for line in found:
        assert (line["error"], line["response"]["status_code"]) == (None, 200)
        assert line["response"]["body"]["object"] == "chat.completion"
    counts = server.counts()
    assert (counts["batches"], counts["batch_requests"], counts["total"]) == (1, 20, 0)
    assert counts["by_path"]["POST /v1/batches"] == 1
    assert counts["by_path"]["GET /v1/files/{id}/content"] == 1


def test_lines_that_fail_stand_in_the_error_file(server: JudgeServer, client: OpenAI) -> None:
    server.set(batch_error_rate=0.3, batch_seconds=0)
    batch = ended(client, submitted(client))
    good, bad = read(client, batch.output_file_id), read(client, batch.error_file_id)
    assert (len(good), len(bad), batch.request_counts.failed) == (7, 3, 3)
    assert {line["response"]["status_code"] for line in bad} == {500}


def test_a_batch_that_expires(server: JudgeServer, client: OpenAI) -> None:
    server.set(batch_expires=0.4, batch_seconds=0)
    batch = ended(client, submitted(client))
    assert batch.status == "expired"
    good, bad = read(client, batch.output_file_id), read(client, batch.error_file_id)
    assert (len(good), len(bad)) == (6, 4)
    assert {(x["response"], x["error"]["code"]) for x in bad} == {(None, "batch_expired")}


def test_a_batch_that_fails(server: JudgeServer, client: OpenAI) -> None:
    server.set(batch_fails="invalid_json_line", batch_seconds=0)
    batch = ended(client, submitted(client))
    assert (batch.status, batch.output_file_id) == ("failed", None)
    assert batch.errors.data[0].code == "invalid_json_line"


def test_a_batch_is_cancelled(server: JudgeServer, client: OpenAI) -> None:
    server.set(batch_seconds=1.0)
    batch = client.batches.cancel(submitted(client).id)
    assert batch.status == "cancelling"
    assert ended(client, batch).status == "cancelled"
    with pytest.raises(openai.ConflictError):
        client.batches.cancel(batch.id)


def test_batches_are_listed_newest_first_in_pages(server: JudgeServer, client: OpenAI) -> None:
    made = [submitted(client, 1).id for _ in range(5)]
    page = client.batches.list(limit=2)
    assert ([b.id for b in page.data], page.has_more) == (made[:2:-1], True)
    rest = client.batches.list(limit=3, after=page.data[-1].id)
    assert ([b.id for b in rest.data], rest.has_more) == (made[2::-1], False)
    assert [b.id for b in client.batches.list(limit=2)] == made[::-1]


def test_files_that_are_refused(server: JudgeServer, client: OpenAI) -> None:
    broken = io.BytesIO(lines(1).getvalue() + b"\n{")
    twice = io.BytesIO(lines(1).getvalue() + b"\n" + lines(1).getvalue())
    for file in (broken, twice, io.BytesIO(b"")):
        with pytest.raises(openai.BadRequestError):
            client.files.create(file=file, purpose="batch")
    with pytest.raises(openai.BadRequestError, match=r"purpose|vision"):
        client.files.create(file=lines(1), purpose="vision")
    for limits in ({"batch_max_requests": 2}, {"batch_max_bytes": 50}):
        server.set(**limits)
        with pytest.raises(openai.BadRequestError, match="too large"):
            client.files.create(file=lines(3), purpose="batch")
    assert server.counts()["files"] == 0


def test_no_batches_here(server: JudgeServer, client: OpenAI) -> None:
    server.set(batches=False)
    for call in (lambda: client.batches.list(), lambda: submitted(client)):
        with pytest.raises(openai.NotFoundError):
            call()
    server.set(require_key="another")
    with pytest.raises(openai.AuthenticationError):
        client.batches.list()


@pytest.mark.parametrize(
    "behaviour",
    [{"create_500_after_commit": 1}, {"batch_faults": {"create_500_after_commit": 1}}],
)
def test_a_create_that_is_lost_did_create(
    server: JudgeServer, client: OpenAI, behaviour: dict[str, Any]
) -> None:
    server.set(**behaviour)
    with pytest.raises(openai.InternalServerError):
        submitted(client)
    assert server.counts()["batches"] == 1
    assert submitted(client).status == "validating"


@pytest.mark.parametrize(
    ("fault", "batches"),
    [("create_500", 1), ("create_reset_after_commit", 2), ("upload_500", 1),
     ("retrieve_500", 1), ("list_500", 1), ("content_500", 1)],
)  # fmt: skip
def test_a_fault_of_the_batch_api_happens_as_often_as_told(
    server: JudgeServer, client: OpenAI, fault: str, batches: int
) -> None:
    def everything() -> None:
        batch = ended(client, client.batches.retrieve(submitted(client).id))
        assert client.batches.list().data
        assert read(client, batch.output_file_id)

    server.set(batch_faults={fault: 1}, batch_seconds=0)
    with pytest.raises((openai.InternalServerError, openai.APIConnectionError)):
        everything()
    before = server.counts()["batches"]
    everything()
    assert server.counts()["batches"] - before == 1
    assert before == (0 if fault in ("create_500", "upload_500") else 1)
    assert before + 1 == batches or fault not in ("create_500", "create_reset_after_commit")


def test_the_same_lines_again_are_duplicates_once_done(server: JudgeServer, client: OpenAI) -> None:
    server.set(batch_fails="token_limit_exceeded", batch_seconds=0)
    ended(client, submitted(client, 4))
    server.set(batch_seconds=0)
    ended(client, submitted(client, 4))
    assert server.counts()["batch_duplicates"] == 0
    submitted(client, 3)
    time.sleep(0.02)
    counts = server.counts()
    assert (counts["batch_requests"], counts["batch_duplicates"]) == (11, 3)
