"""The engine: one asyncio pipeline that asks live, as fast as the endpoint lets it.

Questions are pulled slice by slice as there is room, so memory is bounded by what is in flight. An
answer is kept before its slot is given back; what may pass is tried again, what will not ends at
once.
"""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

from uaef_frames.errors import JudgeError
from uaef_frames.judge.desk import Desk, Pending, Unreadable
from uaef_frames.judge.outcomes import (
    API_ERROR,
    BUDGET_EXHAUSTED,
    INVALID_VERDICT,
    Outcome,
    Questions,
)
from uaef_frames.judge.pace import BudgetExhausted, Pace, Ticket
from uaef_frames.judge.tokens import MESSAGE, Correction, estimate_tokens
from uaef_frames.judge.wire import Fault, Rejected, Reply, Unsupported, Wire

if TYPE_CHECKING:
    from collections.abc import Iterator

    import polars as pl

    from uaef_frames.judge.cache import AnswerCache
    from uaef_frames.judge.config import Judge
    from uaef_frames.judge.progress import Watcher

LONGER = 4
"""How many times the room an answer gets that was cut short."""
_FIRST_WAIT_S = 0.25
_LONGEST_WAIT_S = 20.0
_OVERLOADS_PER_RETRY = 5
"""Being told to come later is no fault; it takes that many to count as one."""
_TYPICAL_OUTPUT = 150
"""Tokens of a verdict, until the run's own answers tell."""


class LiveEngine:
    """One judge asking live. Made and used within one event loop."""

    def __init__(self, judge: Judge, cache: AnswerCache, watcher: Watcher | None) -> None:
        self._judge = judge
        self._desk = Desk(judge, cache)
        self._wire = Wire(judge)
        self._pace = Pace(judge)
        self._watcher = watcher
        self._correction = Correction()
        self._output = float(min(_TYPICAL_OUTPUT, judge.max_tokens))
        self._measured = judge.budget_usd is not None or judge.tokens_per_minute is not None

    async def close(self) -> None:
        """Close the connections."""
        await self._wire.close()

    async def run(self, questions: Iterator[Questions]) -> list[tuple[str, pl.DataFrame]]:
        """Ask them all: (metric, `OUTCOME_COLUMNS`) frames in no certain order.

        Raises:
            JudgeError: The endpoint will answer nobody: key, permission, model, address or quota.
        """
        queue: asyncio.Queue[Pending | None] = asyncio.Queue(2 * self._judge.concurrency)
        workers = 0
        try:
            async with asyncio.TaskGroup() as group:
                while (some := await asyncio.to_thread(next_of, questions)) is not None:
                    for pending in self._desk.open(some):
                        if workers < self._judge.concurrency:
                            group.create_task(self._work(queue))
                            workers += 1
                        await queue.put(pending)
                    self._tell()
                for _ in range(workers):
                    await queue.put(None)
        except BaseExceptionGroup as errors:
            raise first_error(errors) from None
        self._tell()
        frames, self._desk.frames = self._desk.frames, []
        return frames

    async def _work(self, queue: asyncio.Queue[Pending | None]) -> None:
        while (pending := await queue.get()) is not None:
            self._desk.settle(pending, await self._ask(pending))
            self._tell()

    async def _ask(self, pending: Pending) -> Outcome:
        """One request through all its attempts."""
        room = self._judge.max_tokens
        faults = overloads = 0
        asked_again = False
        while True:
            try:
                reply = await self._attempt(pending, room)
                return self._desk.read(pending, reply)
            except Unsupported:
                continue
            except BudgetExhausted:
                words = f"the budget of {self._judge.budget_usd:g} USD is spent"
                return self._desk.failed(pending, BUDGET_EXHAUSTED, words)
            except Rejected as error:
                return self._desk.failed(pending, API_ERROR, str(error))
            except Unreadable as error:
                if asked_again or not error.again:
                    return self._desk.failed(pending, INVALID_VERDICT, str(error))
                asked_again = True
                room *= LONGER if error.longer else 1
            except Fault as error:
                overloads += error.overloaded
                faults += not error.overloaded
                tried = faults + overloads / _OVERLOADS_PER_RETRY
                may = self._pace.may_retry(overloaded=error.overloaded)
                if tried > self._judge.max_retries or not may:
                    times = faults + overloads
                    words = f"{error} ({times} {'attempt' if times == 1 else 'attempts'})"
                    return self._desk.failed(pending, API_ERROR, words)
                await asyncio.sleep(retry_delay(faults + overloads, error.retry_after))

    async def _attempt(self, pending: Pending, room: int) -> Reply:
        tokens, cost = self._estimate(pending)
        ticket = await self._pace.enter(tokens, cost)
        rung = self._wire.can.rung
        used_tokens = used_cost = 0.0
        try:
            reply = await self._wire.send(pending.request, room)
            used_cost = pending.paid.add(reply, self._judge)
            used_tokens = self._learn(reply, tokens)
            self._desk.answered(reply, used_cost)
            self._pace.succeeded(ticket, reply.rate.share, reply.rate.exhausted_for_s)
        except Fault as error:
            self._stumble(error, ticket, rung)
            raise
        except Rejected:
            self._pace.stumbled()
            raise
        finally:
            self._pace.leave(ticket, used_tokens, used_cost)
        return reply

    def _stumble(self, error: Fault, ticket: Ticket, rung: int) -> None:
        if error.overloaded:
            self._pace.refuse(ticket, error.retry_after)
            return
        self._pace.stumbled()
        if error.server and not self._wire.can.proven:
            self._wire.doubt(rung)

    def _estimate(self, pending: Pending) -> tuple[float, float]:
        """Tokens and USD that the next attempt may take; looked at only where a limit is set."""
        if not self._measured:
            return 0.0, 0.0
        request = pending.request
        read = estimate_tokens(request.user) + estimate_tokens(request.rubric.system) + 2 * MESSAGE
        read = round(read * self._correction.factor)
        rate = self._judge.rate
        cost = 0.0 if rate is None else rate.cost(read, round(self._output))
        return read + self._output, cost

    def _learn(self, reply: Reply, estimated: float) -> float:
        """Take in an answer's usage; the tokens that it took."""
        read, written = reply.input_tokens, reply.output_tokens
        if written is not None:
            self._output += 0.05 * (1.1 * written - self._output)
        if estimated and read is not None:
            self._correction.learn(
                round((estimated - self._output) / self._correction.factor), read
            )
        return float((read or 0) + (written or 0))

    def _tell(self) -> None:
        if self._watcher is not None:
            self._watcher(self._desk.progress(self._pace.in_flight, int(self._pace.limit)))


class Interrupted(Exception):
    """Ctrl-C reached polars while it made questions in a thread; the caller gets to hear of it."""


def next_of(questions: Iterator[Questions]) -> Questions | None:
    """The next slice, None at the end. An interrupt leaves the thread as an ordinary exception: as
    itself it would end the event loop that waits for it.
    """
    try:
        return next(questions, None)
    except KeyboardInterrupt:
        raise Interrupted from None


def retry_delay(tried: int, retry_after: float | None) -> float:
    """Seconds until the next attempt: full jitter, and never before the endpoint allows it."""
    longest = min(_LONGEST_WAIT_S, _FIRST_WAIT_S * 2.0 ** min(tried - 1, 10))
    jitter = random.uniform(0.0, longest)
    return jitter if retry_after is None else retry_after + min(jitter, 1.0)


def first_error(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """The error that a caller should see of those that workers raised together."""
    flat: list[BaseException] = []
    held: list[BaseException] = [errors]
    while held:
        error = held.pop()
        if isinstance(error, BaseExceptionGroup):
            held.extend(error.exceptions)  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType]
        else:
            flat.append(error)
    return next((e for e in flat if isinstance(e, JudgeError | Interrupted)), flat[0])
