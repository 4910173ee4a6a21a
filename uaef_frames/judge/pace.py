"""Pace: how many requests are in flight, how many a minute, and how much money they may take.

One gate decides all three in one step with no await between looking and taking: a limit that is
looked at before a wait lets everyone through who waited.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from uaef_frames.judge.config import Judge

_START = 16
"""Requests in flight at first; they double every clean round until the limit or the first
refusal.
"""
_PROBE_S = 5.0
"""How long the first request goes alone, to find out what the endpoint understands."""
_LONELY_MISSES = 4
_LOW_SHARE = 0.05
"""Below this share of the endpoint's own limit, concurrency does not grow."""
_LONG_WAIT_S = 2.0
"""A Retry-After from here on holds everyone back; a shorter one only the request that got it."""
_LONGEST_PAUSE_S = 120.0
_RETRIES_AT_FIRST = 200.0


class BudgetExhausted(Exception):
    """The next request does not fit what may still be spent."""


@dataclass(slots=True)
class Ticket:
    """Leave to send one request: what was reserved for it, and when it went."""

    sent_at: float
    tokens: float
    cost: float


class Pace:
    """The gate that every attempt passes."""

    def __init__(self, judge: Judge) -> None:
        self._most = judge.concurrency
        self.limit = 1.0
        self.in_flight = 0
        self.spent = 0.0
        self.exhausted = False
        self.refused = 0
        self._opened = False
        self._misses = 0
        self._probe_until = 0.0
        self._slow_start = True
        self._clean = 0
        self._peak = 0
        self._cut_at = 0.0
        self._paused_until = 0.0
        self._reserved = 0.0
        self._budget = judge.budget_usd
        self._spacing = 60.0 / judge.requests_per_minute if judge.requests_per_minute else 0.0
        self._token_s = 60.0 / judge.tokens_per_minute if judge.tokens_per_minute else 0.0
        self._next_request = 0.0
        self._next_tokens = 0.0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._retries = max(_RETRIES_AT_FIRST, 3.0 * judge.concurrency)

    async def enter(self, tokens: float, cost: float) -> Ticket:
        """Wait for leave to send a request of an estimated size and cost.

        Raises:
            BudgetExhausted: It does not fit the budget, and nothing in flight could give back.
        """
        while not self._may_go(cost):
            await self._wait(self._probe_until - time.monotonic() if self._probe_until else None)
        now = time.monotonic()
        self.in_flight += 1
        self._peak = max(self._peak, self.in_flight)
        self._reserved += cost
        # A place in time is taken at once and waited for in the slot: nobody else can take it.
        start = max(now, self._next_request, self._next_tokens)
        self._next_request = start + self._spacing
        self._next_tokens = start + tokens * self._token_s
        ticket = Ticket(start, tokens, cost)
        if start > now or self._paused_until > now:
            try:
                await self._until(start)
            except asyncio.CancelledError:
                self.leave(ticket, 0, 0)
                raise
            ticket.sent_at = time.monotonic()
        return ticket

    def _may_go(self, cost: float) -> bool:
        if self._budget is not None:
            if self.exhausted:
                raise BudgetExhausted
            if self.spent + self._reserved + cost > self._budget:
                if self.in_flight == 0:
                    self.exhausted = True
                    self._wake(len(self._waiting))
                    raise BudgetExhausted
                return False
        if not self._opened and self.in_flight:
            now = time.monotonic()
            self._probe_until = self._probe_until or now + _PROBE_S
            if now < self._probe_until:
                return False
            self.open()
        return self.in_flight < int(self.limit)

    async def _until(self, start: float) -> None:
        while (wait := max(start, self._paused_until) - time.monotonic()) > 0:
            await asyncio.sleep(wait)

    async def _wait(self, longest: float | None) -> None:
        """Until something changes."""
        future = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        try:
            async with asyncio.timeout(longest):
                await future
        except TimeoutError:
            pass

    def _wake(self, count: int | None = None) -> None:
        left = max(1, int(self.limit) - self.in_flight) if count is None else count
        while self._waiting and left > 0:
            future = self._waiting.popleft()
            if not future.done():
                future.set_result(None)
                left -= 1

    def leave(self, ticket: Ticket, tokens: float, cost: float) -> None:
        """Settle a request: what it took in truth, 0 where it was never answered."""
        self.in_flight -= 1
        self._reserved -= ticket.cost
        self.spent += cost
        self._next_tokens += (tokens - ticket.tokens) * self._token_s
        self._wake()

    def open(self) -> None:
        """Let others follow the first request."""
        if not self._opened:
            self._opened = True
            self._probe_until = 0.0
            self.limit = float(min(self._most, _START))
            self._wake()

    def succeeded(self, ticket: Ticket, share: float | None, exhausted_for_s: float) -> None:
        """An answer came: grow, unless it set out before the last cut or the endpoint is near its
        end.
        """
        self._retries = min(self._retries + 1.0, 10_000.0)
        self.open()
        if exhausted_for_s > 0:
            self._pause(exhausted_for_s)
        if ticket.sent_at < self._cut_at or (share is not None and share < _LOW_SHARE):
            return
        self._clean += 1
        if self._clean >= self.limit and self._peak >= 0.8 * int(self.limit):
            step = self.limit if self._slow_start else max(1.0, 0.05 * self.limit)
            self.limit = min(float(self._most), self.limit + step)
            self._clean = self._peak = 0
            self._wake()

    def refuse(self, ticket: Ticket, retry_after: float | None) -> None:
        """The endpoint asked for less: halve, once an episode."""
        self._missed()
        self.refused += 1
        self._clean = 0
        if ticket.sent_at >= self._cut_at:
            self._slow_start = False
            self.limit = max(1.0, self.limit / 2)
            self._cut_at = time.monotonic()
        if retry_after is not None and retry_after >= _LONG_WAIT_S:
            self._pause(retry_after)

    def stumbled(self) -> None:
        """A fault that says nothing of load: no growth for a round."""
        self._missed()
        self._clean = 0

    def _missed(self) -> None:
        """The first request goes alone through a few failures, then others try their luck too."""
        self._misses += 1
        if self._misses >= _LONELY_MISSES:
            self.open()

    def may_retry(self, *, overloaded: bool) -> bool:
        """Whether a retry is left: faults may not outnumber answers for long."""
        if overloaded:
            return True
        if self._retries < 1.0:
            return False
        self._retries -= 1.0
        return True

    def _pause(self, seconds: float) -> None:
        until = time.monotonic() + min(seconds, _LONGEST_PAUSE_S)
        self._paused_until = max(self._paused_until, until)
