"""The desk: which rows ask the same, which answers are kept already, and what came of every row.

Both ways of asking, live and batch, bring questions here and take requests away. Each distinct
request leaves once.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import orjson

from uaef_frames.judge.cache import Answer, AnswerCache, Asked
from uaef_frames.judge.outcomes import Outcome, Questions, outcome_frame
from uaef_frames.judge.progress import Progress
from uaef_frames.judge.requests import Request, key_prefix
from uaef_frames.judge.verdicts import InvalidVerdictError, VerdictReader

if TYPE_CHECKING:
    import polars as pl

    from uaef_frames.judge.config import Judge
    from uaef_frames.judge.wire import Reply


class Unreadable(Exception):
    """An answer without a verdict. `again`: asking once more may help; `longer`: with more room."""

    def __init__(self, words: str, *, again: bool = True, longer: bool = False) -> None:
        super().__init__(words)
        self.again = again
        self.longer = longer


@dataclass(slots=True)
class Paid:
    """What one request has taken so far, over all its answers."""

    input_tokens: int | None = None
    cached_input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None

    def add(self, reply: Reply, judge: Judge, discount: float = 1.0) -> float:
        """Take in an answer's usage; what it cost, 0 where that is not known."""
        self.input_tokens = _sum(self.input_tokens, reply.input_tokens)
        self.cached_input_tokens = _sum(self.cached_input_tokens, reply.cached_input_tokens)
        self.output_tokens = _sum(self.output_tokens, reply.output_tokens)
        rate = judge.rate
        if rate is None or reply.input_tokens is None or reply.output_tokens is None:
            return 0.0
        cost = discount * rate.cost(
            reply.input_tokens, reply.output_tokens, reply.cached_input_tokens or 0
        )
        self.cost_usd = (self.cost_usd or 0.0) + cost
        return cost


@dataclass(slots=True)
class Pending:
    """A request on its way, and the rows that wait for it."""

    request: Request
    reader: VerdictReader
    upper: float | None
    asked: Asked
    places: list[tuple[_Slice, int]]
    paid: Paid = field(default_factory=Paid)


@dataclass(slots=True, eq=False)
class _Slice:
    """Rows that were opened together; they leave as one frame when the last is settled."""

    metric: str
    rows: list[tuple[int, int, int]]
    keys: list[bytes]
    outcomes: list[Outcome | None]
    left: int


class Desk:
    """Keeps the books of one judge in one evaluation."""

    def __init__(self, judge: Judge, cache: AnswerCache) -> None:
        self.judge = judge
        self.cache = cache
        self.frames: list[tuple[str, pl.DataFrame]] = []
        self._pending: dict[bytes, Pending] = {}
        self._settled: dict[bytes, Outcome] = {}
        self._readers: dict[str, tuple[VerdictReader, bytes]] = {}
        self._began: float | None = None
        self._done = self._total = self._calls = self._cached = self._failed = 0
        self._input = self._output = 0
        self._cost = 0.0

    def open(self, questions: Questions) -> list[Pending]:
        """Take in questions; the distinct requests that nobody has asked yet."""
        self._began = self._began if self._began is not None else time.perf_counter()
        reader, prefix = self._reader(questions)
        judge, rubric = self.judge, questions.rubric
        asked = Asked(judge.model, judge.origin, questions.metric, rubric.version)
        rows = questions.frame.select("unit", "part", "user", "upper").rows()
        requests = [
            (unit, part, upper, Request(judge, rubric, user, vote, prefix))
            for unit, part, user, upper in rows
            for vote in range(judge.votes)
        ]
        part_of = _Slice(
            questions.metric,
            [(unit, part, request.vote) for unit, part, _, request in requests],
            [request.key for *_, request in requests],
            [None] * len(requests),
            len(requests),
        )
        self._total += len(requests)
        # Looked up and noted in one go, without an await: what is settled meanwhile is not missed.
        unknown = [k for k in part_of.keys if k not in self._pending and k not in self._settled]
        kept = self.cache.find(list(dict.fromkeys(unknown)))
        fresh: list[Pending] = []
        for at, (_, _, upper, request) in enumerate(requests):
            waiting = self._pending.get(request.key)
            if waiting is not None:
                waiting.places.append((part_of, at))
                continue
            known = self._settled.get(request.key)
            if known is None and request.key in kept:
                known = _remembered(kept[request.key], reader, request, upper)
            if known is not None:
                self._settled.setdefault(request.key, known)
                self._place(part_of, at, _again(known))
                continue
            pending = Pending(request, reader, upper, asked, [(part_of, at)])
            self._pending[request.key] = pending
            fresh.append(pending)
        if not requests:
            self.frames.append((questions.metric, outcome_frame([], [], [])))
        return fresh

    def read(self, pending: Pending, reply: Reply) -> Outcome:
        """The outcome of an answer, kept for good before this returns.

        Raises:
            Unreadable: It holds no verdict.
        """
        if reply.refusal is not None:
            raise Unreadable(f"the model refused: {reply.refusal}", again=False)
        if reply.finish_reason == "content_filter":
            raise Unreadable("the endpoint's content filter stopped the answer", again=False)
        if reply.finish_reason == "length":
            raise Unreadable("the answer was cut at the token limit", longer=True)
        if not reply.content:
            raise Unreadable("the answer is empty")
        request = pending.request
        try:
            verdict = pending.reader.read(reply.content, request.user, request.nonce, pending.upper)
        except InvalidVerdictError as error:
            raise Unreadable(str(error)) from None
        paid = pending.paid
        answer = Answer(
            reply.content,
            reply.model,
            paid.input_tokens,
            paid.cached_input_tokens,
            paid.output_tokens,
            paid.cost_usd,
            reply.latency_s,
            reply.fingerprint,
        )
        self.cache.keep(request.key, answer, pending.asked)
        return Outcome(
            verdict=orjson.dumps(verdict.values).decode(),
            applicable=verdict.applicable,
            model=reply.model,
            latency_s=reply.latency_s,
            input_tokens=paid.input_tokens,
            cached_input_tokens=paid.cached_input_tokens,
            output_tokens=paid.output_tokens,
            cost_usd=paid.cost_usd,
        )

    def failed(self, pending: Pending, warning: str, words: str) -> Outcome:
        """The outcome of a request that has no verdict, with what it cost all the same."""
        paid = pending.paid
        return Outcome(
            warning=warning,  # pyright: ignore[reportArgumentType]
            error=words,
            input_tokens=paid.input_tokens,
            cached_input_tokens=paid.cached_input_tokens,
            output_tokens=paid.output_tokens,
            cost_usd=paid.cost_usd,
        )

    def answered(self, reply: Reply, cost: float) -> None:
        """Count an answer, whatever it holds."""
        self._calls += 1
        self._input += reply.input_tokens or 0
        self._output += reply.output_tokens or 0
        self._cost += cost

    def settle(self, pending: Pending, outcome: Outcome) -> None:
        """Give an outcome to every row that waits for it."""
        del self._pending[pending.request.key]
        # A failure stands for this run; with a file, verdicts are looked up there again.
        if outcome.warning is not None or not self.cache.keeps:
            self._settled[pending.request.key] = outcome
        for number, (part_of, at) in enumerate(pending.places):
            self._place(part_of, at, outcome if number == 0 else _again(outcome))

    def _place(self, part_of: _Slice, at: int, outcome: Outcome) -> None:
        part_of.outcomes[at] = outcome
        part_of.left -= 1
        self._done += 1
        self._cached += outcome.cached
        self._failed += outcome.warning is not None
        if part_of.left == 0:
            outcomes = [o for o in part_of.outcomes if o is not None]
            self.frames.append(
                (part_of.metric, outcome_frame(part_of.rows, part_of.keys, outcomes))
            )

    def progress(self, in_flight: int, limit: int) -> Progress:
        """Where things stand."""
        began = self._began if self._began is not None else time.perf_counter()
        return Progress(
            done=self._done,
            total=self._total,
            calls=self._calls,
            cached=self._cached,
            failed=self._failed,
            in_flight=in_flight,
            limit=limit,
            input_tokens=self._input,
            output_tokens=self._output,
            cost_usd=None if self.judge.rate is None else self._cost,
            elapsed_s=time.perf_counter() - began,
        )

    def _reader(self, questions: Questions) -> tuple[VerdictReader, bytes]:
        known = self._readers.get(questions.metric)
        if known is None:
            reader = VerdictReader(
                questions.rubric, questions.sections, check_quotes=self.judge.check_quotes
            )
            known = (reader, key_prefix(self.judge, questions.rubric))
            self._readers[questions.metric] = known
        return known


def _remembered(
    answer: Answer, reader: VerdictReader, request: Request, upper: float | None
) -> Outcome | None:
    """The outcome of a kept answer; None where this reader would not take it."""
    try:
        verdict = reader.read(answer.content, request.user, request.nonce, upper)
    except InvalidVerdictError:
        return None
    return Outcome(
        verdict=orjson.dumps(verdict.values).decode(),
        applicable=verdict.applicable,
        model=answer.model,
        cached=True,
        latency_s=answer.latency_s,
        input_tokens=answer.input_tokens,
        cached_input_tokens=answer.cached_input_tokens,
        output_tokens=answer.output_tokens,
        cost_usd=0.0,
    )


def _again(outcome: Outcome) -> Outcome:
    """An outcome that another row paid for."""
    if outcome.warning is not None:
        return replace(outcome, cost_usd=0.0 if outcome.cost_usd is not None else None)
    return replace(outcome, cached=True, cost_usd=0.0)


def _sum(known: int | None, more: int | None) -> int | None:
    return known if more is None else (known or 0) + more
