"""Batch mode: the same requests through the Batch API, at half the price, within hours.

Requests are sharded into files, uploaded, and waited for. What a restart finds in the journal it
waits for instead of sending it again; what failed or expired goes into the next round.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, TypeVar, cast

import orjson

from uaef_frames.errors import JudgeError
from uaef_frames.judge.cache import Answer, AnswerCache
from uaef_frames.judge.desk import Desk, Pending, Unreadable
from uaef_frames.judge.engine import LONGER, next_of, retry_delay
from uaef_frames.judge.journal import Item, Journal, SentBatch
from uaef_frames.judge.outcomes import API_ERROR, BUDGET_EXHAUSTED, INVALID_VERDICT, Questions
from uaef_frames.judge.planning import OUTPUT_TOKENS
from uaef_frames.judge.prices import BATCH_DISCOUNT
from uaef_frames.judge.tokens import MESSAGE, estimate_tokens
from uaef_frames.judge.wire import Fault, Unsupported, Wire, reply_of

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Mapping

    import polars as pl

    from uaef_frames.judge.config import Judge
    from uaef_frames.judge.progress import Watcher
    from uaef_frames.judge.requests import Capabilities
    from uaef_frames.judge.wire import Reply

MAX_REQUESTS = 50_000
MAX_BYTES = 190_000_000
"""The API takes 50,000 requests and 200 MB a file."""
_ROUNDS = 4
"""How often a request may be sent before it counts as failed."""
_FIRST_POLL_S = 0.2
_LONGEST_POLL_S = 60.0
_TAG = "uaef_frames"
_ENDED = ("completed", "expired", "cancelled", "failed")
_PAGES = 20

_T = TypeVar("_T")


@dataclass(slots=True)
class _Waiting:
    """A request that is not settled: how often it was sent, with how much room, in which form."""

    pending: Pending
    room: int
    form: Capabilities
    sent: int = 0
    asked_again: bool = False
    problem: str = "it was not sent"


class BatchEngine:
    """One judge asking through the Batch API. Made and used within one event loop."""

    def __init__(self, judge: Judge, cache: AnswerCache, watcher: Watcher | None) -> None:
        self._judge = judge
        self._cache = cache
        self._desk = Desk(judge, cache)
        self._wire = Wire(judge)
        self._watcher = watcher
        self._journal = Journal(cache.path, judge.origin, judge.model)
        self._waiting: dict[str, _Waiting] = {}
        self._spent = 0.0

    async def close(self) -> None:
        """Close the connections. Batches go on at the endpoint; the next session waits for them."""
        self._journal.close()
        await self._wire.close()

    async def run(self, questions: Iterator[Questions]) -> list[tuple[str, pl.DataFrame]]:
        """Ask them all: (metric, `OUTCOME_COLUMNS`) frames in no certain order.

        Raises:
            JudgeError: The endpoint has no Batch API, or refuses the key, the model or the file.
        """
        while (some := await asyncio.to_thread(next_of, questions)) is not None:
            for pending in self._desk.open(some):
                waiting = _Waiting(pending, self._judge.max_tokens, self._wire.can)
                self._waiting[custom_id(pending.request.key)] = waiting
        self._tell()
        if self._waiting:
            for batch in self._journal.on_their_way():
                if set(self._journal.items(batch.sha)) & set(self._waiting):
                    await self._resume(batch)
        while self._waiting:
            self._give_up()
            batches = [await self._send(shard) for shard in self._shards()]
            await asyncio.gather(*(self._collect(batch) for batch in batches))
        self._tell()
        frames, self._desk.frames = self._desk.frames, []
        return frames

    def _give_up(self) -> None:
        """Settle what was sent often enough, and what the budget does not reach."""
        rate = self._judge.rate
        budget = self._judge.budget_usd
        planned = 0.0
        for waiting in list(self._waiting.values()):
            if waiting.sent >= _ROUNDS:
                self._fail(waiting, API_ERROR, waiting.problem)
            elif budget is not None and rate is not None:
                request = waiting.pending.request
                read = estimate_tokens(request.user) + estimate_tokens(request.rubric.system)
                cost = BATCH_DISCOUNT * rate.cost(read + 2 * MESSAGE, OUTPUT_TOKENS)
                if self._spent + planned + cost > budget:
                    words = f"the budget of {budget:g} USD is spent"
                    self._fail(waiting, BUDGET_EXHAUSTED, words)
                else:
                    planned += cost

    def _shards(self) -> Iterator[dict[str, bytes]]:
        """The requests that wait, as lines, within the API's limits on a file."""
        shard: dict[str, bytes] = {}
        size = 0
        form = replace(self._wire.can, dropped=set(self._wire.can.dropped))
        for name, waiting in self._waiting.items():
            waiting.form = form
            body = waiting.pending.request.body(form, waiting.room)
            call = {
                "custom_id": name,
                "method": "POST",
                "url": "/v1/chat/completions",
                "body": body,
            }
            line = orjson.dumps(call) + b"\n"
            if shard and (len(shard) >= MAX_REQUESTS or size + len(line) > MAX_BYTES):
                yield shard
                shard, size = {}, 0
            shard[name] = line
            size += len(line)
        if shard:
            yield shard

    async def _send(self, shard: Mapping[str, bytes]) -> SentBatch:
        content = b"".join(shard.values())
        rounds = [self._waiting[name].sent for name in shard]
        sha = sha256(content + b"%d" % sum(rounds)).hexdigest()[:40]
        held = [self._waiting[name].pending for name in shard]
        self._journal.plan(
            sha, [Item(custom_id(p.request.key), p.request.key, p.asked) for p in held]
        )
        for name in shard:
            self._waiting[name].sent += 1
        client = self._wire.client
        file = await self._patiently(
            lambda: client.files.create(file=(f"{sha}.jsonl", content), purpose="batch")
        )
        self._journal.uploaded(sha, file.id)
        return await self._create(SentBatch(sha, file.id, None))

    async def _create(self, batch: SentBatch) -> SentBatch:
        """Create the batch of an uploaded file, or find the one that was created already."""
        tries = 0
        while True:
            try:
                made = await self._guarded(
                    self._wire.client.batches.create(
                        input_file_id=batch.file_id,
                        endpoint="/v1/chat/completions",
                        completion_window="24h",
                        metadata={_TAG: batch.sha},
                    )
                )
                batch_id = str(made.id)
                break
            except Fault as error:
                # It may have been created before the answer was lost; a second one would be paid.
                tries += 1
                if tries > self._judge.max_retries:
                    raise JudgeError(f"a batch could not be created: {error}") from None
                await asyncio.sleep(retry_delay(tries, error.retry_after))
                found = await self._find(batch.sha)
                if found is not None:
                    batch_id = found
                    break
        self._journal.created(batch.sha, batch_id)
        return SentBatch(batch.sha, batch.file_id, batch_id)

    async def _find(self, sha: str) -> str | None:
        """The batch that carries our mark, among the endpoint's newest."""
        after: str | None = None
        for _ in range(_PAGES):
            options = {"limit": 100} | ({} if after is None else {"after": after})
            page = await self._patiently(lambda options=options: self._list(options))
            for batch in page.data:
                if cast("dict[str, str]", batch.metadata or {}).get(_TAG) == sha:
                    return str(batch.id)
            if not page.has_more or not page.data:
                return None
            after = page.data[-1].id
        return None

    async def _list(self, options: Mapping[str, Any]) -> Any:
        return await self._wire.client.batches.list(**options)

    async def _resume(self, batch: SentBatch) -> None:
        """Take up a batch of an earlier run, wherever it had got to."""
        if batch.file_id is None:
            self._journal.drop(batch.sha)
            return
        if batch.batch_id is None:
            found = await self._find(batch.sha)
            if found is None:
                batch = await self._create(batch)
            else:
                self._journal.created(batch.sha, found)
                batch = SentBatch(batch.sha, batch.file_id, found)
        for name in self._journal.items(batch.sha):
            if name in self._waiting:
                self._waiting[name].sent += 1
        await self._collect(batch)

    async def _collect(self, batch: SentBatch) -> None:
        """Wait for a batch, and take in what it gives."""
        pause = _FIRST_POLL_S
        client = self._wire.client
        while True:
            state = await self._patiently(lambda: client.batches.retrieve(batch.batch_id))
            if state.status in _ENDED:
                break
            self._tell()
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, _LONGEST_POLL_S)
        items = self._journal.items(batch.sha)
        if state.status == "failed":
            errors = cast("list[Any]", [] if state.errors is None else state.errors.data or [])
            words = "; ".join(f"{e.code}: {e.message}" for e in errors[:3]) or "no reason given"
            for name in items:
                if name in self._waiting:
                    self._fail(self._waiting[name], API_ERROR, f"the batch failed ({words})")
        for file_id in (state.output_file_id, state.error_file_id):
            if file_id is not None:
                content = await self._patiently(
                    lambda file_id=file_id: client.files.content(file_id)
                )
                self._take_in(content.content, items)
        for name in items:
            if name in self._waiting and self._waiting[name].problem == "it was not sent":
                self._waiting[name].problem = f"the batch ended {state.status} without it"
        self._journal.finish(batch.sha)
        self._tell()

    def _take_in(self, content: bytes, items: Mapping[str, Item]) -> None:
        for line in content.splitlines():
            if not line.strip():
                continue
            found = cast("dict[str, Any]", orjson.loads(line))
            item = items.get(str(found.get("custom_id")))
            if item is not None:
                self._take(found, item)

    def _take(self, found: Mapping[str, Any], item: Item) -> None:
        response = cast("Mapping[str, Any]", found.get("response") or {})
        status = int(response.get("status_code") or 0)
        body = cast("Mapping[str, Any]", response.get("body") or {})
        waiting = self._waiting.get(item.custom_id)
        if status == 200:
            reply = reply_of(body, 0.0, {})
            if waiting is None:
                self._keep_unasked(item, reply)
            else:
                self._read(waiting, reply)
            return
        if waiting is None:
            return
        if not status:
            error = cast("Mapping[str, Any]", found.get("error") or {})
            waiting.problem = f"{error.get('code')}: {error.get('message')}"
            return
        sent = waiting.pending.request.body(waiting.form, waiting.room)
        failure = self._wire.failure(status, {}, orjson.dumps(body), sent, waiting.form.rung)
        if isinstance(failure, JudgeError):
            raise failure
        waiting.problem = str(failure)
        if not isinstance(failure, Fault | Unsupported):
            self._fail(waiting, API_ERROR, str(failure))

    def _read(self, waiting: _Waiting, reply: Reply) -> None:
        pending = waiting.pending
        cost = pending.paid.add(reply, self._judge, BATCH_DISCOUNT)
        self._spent += cost
        self._desk.answered(reply, cost)
        self._wire.can.proven = True
        try:
            outcome = self._desk.read(pending, reply)
        except Unreadable as error:
            if waiting.asked_again or not error.again:
                self._fail(waiting, INVALID_VERDICT, str(error))
                return
            waiting.asked_again = True
            waiting.room *= LONGER if error.longer else 1
            return
        self._settle(waiting, outcome)

    def _keep_unasked(self, item: Item, reply: Reply) -> None:
        """An answer of an earlier run that this one does not need: paid for, and so kept."""
        if reply.content and reply.finish_reason == "stop" and reply.refusal is None:
            answer = Answer(
                reply.content,
                reply.model,
                reply.input_tokens,
                reply.cached_input_tokens,
                reply.output_tokens,
                None,
                reply.latency_s,
                reply.fingerprint,
            )
            self._cache.keep(item.key, answer, item.asked)

    def _fail(self, waiting: _Waiting, warning: str, words: str) -> None:
        self._settle(waiting, self._desk.failed(waiting.pending, warning, words))

    def _settle(self, waiting: _Waiting, outcome: Any) -> None:
        del self._waiting[custom_id(waiting.pending.request.key)]
        self._desk.settle(waiting.pending, outcome)

    async def _patiently(self, call: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
        """A call of files or batches that may be repeated, through faults that may pass."""
        tries = 0
        while True:
            try:
                return await self._guarded(call())
            except Fault as error:
                tries += 1
                if tries > self._judge.max_retries:
                    raise JudgeError(f"the Batch API of {self._judge.origin}: {error}") from None
                await asyncio.sleep(retry_delay(tries, error.retry_after))

    async def _guarded(self, call: Coroutine[Any, Any, _T]) -> _T:
        from openai import APIConnectionError, APIStatusError

        try:
            return await call
        except APIConnectionError as error:
            raise Fault(f"the connection failed: {type(error).__name__}") from None
        except APIStatusError as error:
            if error.status_code == 404:
                raise JudgeError(f"{self._judge.url} has no Batch API; use mode='live'") from None
            failure = self._wire.failure(
                error.status_code, error.response.headers, error.response.content, {}, 0
            )
            if isinstance(failure, Fault | JudgeError):
                raise failure from None
            raise JudgeError(f"the Batch API of {self._judge.origin}: {failure}") from None

    def _tell(self) -> None:
        if self._watcher is not None:
            self._watcher(self._desk.progress(len(self._waiting), len(self._waiting)))


def custom_id(key: bytes) -> str:
    """The name of a request in a batch."""
    return key.hex()[:40]
