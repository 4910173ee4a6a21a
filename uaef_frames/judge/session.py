"""A judge's session: the event loop it works in, whatever the caller's own thread is doing.

One daemon thread with its own loop, so that a notebook's running loop, async code and plain scripts
all call the same way, and Ctrl-C reaches the caller at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import TYPE_CHECKING, Any, TypeVar

import polars as pl

from uaef_frames.judge.cache import AnswerCache, open_cache
from uaef_frames.judge.engine import Interrupted, LiveEngine, first_error
from uaef_frames.judge.outcomes import OUTCOME_COLUMNS, Questions
from uaef_frames.judge.progress import watcher

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable, Mapping
    from concurrent.futures import Future
    from types import TracebackType

    from uaef_frames.judge.batch import BatchEngine
    from uaef_frames.judge.config import Judge

_T = TypeVar("_T")
_STEP_S = 0.1
_GRACE_S = 1.5
"""How long an interrupted session may take to stop."""


class JudgeSession:
    """The judges of one evaluation: opened once, asked batch after batch.

    What they learn of their endpoints, and what they may still spend, holds for the whole session.

    Args:
        judge: Asked for every metric that has no judge of its own; None: those have none.
        judges: Judges by metric.
    """

    def __init__(self, judge: Judge | None, judges: Mapping[str, Judge] | None = None) -> None:
        self._judge = judge
        self._judges = dict(judges or {})
        self._engines: dict[int, LiveEngine | BatchEngine] = {}
        self._caches: dict[Any, AnswerCache] = {}
        self._ends: list[Any] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="uaef-judge", daemon=True
        )

    def __enter__(self) -> JudgeSession:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self._call(self._close())
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(_GRACE_S)
            for cache in self._caches.values():
                cache.close()
            if not self._thread.is_alive():
                self._loop.close()

    def judge_of(self, metric: str) -> Judge | None:
        """Who is asked for a metric."""
        return self._judges.get(metric, self._judge)

    def ask(self, questions: Mapping[str, Iterable[Questions]]) -> dict[str, pl.DataFrame]:
        """Ask for each metric: its outcomes, `OUTCOME_COLUMNS`, sorted by unit, part and vote.

        Every metric has a judge. Slices are made when they are wanted.

        Raises:
            JudgeError: A judge cannot be asked at all; what is in until then is kept.
        """
        found = self._call(self._ask(questions))
        made: dict[str, pl.DataFrame] = {}
        for name in questions:
            frames = [f for metric, f in found if metric == name]
            empty = pl.DataFrame(schema=OUTCOME_COLUMNS)
            made[name] = pl.concat([empty, *frames]).sort("unit", "part", "vote")
        return made

    async def _ask(
        self, questions: Mapping[str, Iterable[Questions]]
    ) -> list[tuple[str, pl.DataFrame]]:
        shares: dict[int, list[Iterable[Questions]]] = {}
        for metric, slices in questions.items():
            judge = self.judge_of(metric)
            if judge is None:
                raise ValueError(f"no judge for {metric!r}")
            shares.setdefault(id(judge), []).append(slices)
            if id(judge) not in self._engines:
                self._engines[id(judge)] = self._engine(judge)
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(self._engines[key].run(s for share in shares_ for s in share))
                for key, shares_ in shares.items()
            ]
        return [frame for task in tasks for frame in task.result()]

    def _engine(self, judge: Judge) -> LiveEngine | BatchEngine:
        if judge.cache not in self._caches:
            self._caches[judge.cache] = open_cache(judge.cache)  # pyright: ignore[reportArgumentType]
        tell, end = watcher(judge.progress)
        self._ends.append(end)
        cache = self._caches[judge.cache]
        if judge.mode == "batch":
            from uaef_frames.judge.batch import BatchEngine

            return BatchEngine(judge, cache, tell)
        return LiveEngine(judge, cache, tell)

    async def _close(self) -> None:
        for engine in self._engines.values():
            await engine.close()
        for end in self._ends:
            end()

    def _call(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Run in the session's loop and wait; an interrupt stops the work and is passed on."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return _result(future)
        except BaseExceptionGroup as errors:
            error = first_error(errors)
            raise (KeyboardInterrupt() if isinstance(error, Interrupted) else error) from None
        except BaseException:
            if not future.done():
                future.cancel()
                stopped = asyncio.run_coroutine_threadsafe(_settled(), self._loop)
                with contextlib.suppress(FutureTimeoutError):
                    stopped.result(_GRACE_S)
            raise


def _result(future: Future[_T]) -> _T:
    """Wait in short steps: a lock that is held for long does not wake for Ctrl-C once polars, which
    takes the signal first, has been at work.
    """
    while True:
        try:
            return future.result(_STEP_S)
        except FutureTimeoutError:
            if future.done():
                return future.result()


async def _settled() -> None:
    """Until everything that was cancelled has ended."""
    own = asyncio.current_task()
    others = [t for t in asyncio.all_tasks() if t is not own]
    if others:
        await asyncio.wait(others, timeout=_GRACE_S)
