"""Progress: where a judge stands, and a line that tells it to who watches.

A terminal gets a live line, a notebook one that is written over, anything else nothing.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

_EVERY_S = 0.2


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a judge stands.

    Attributes:
        done: Verdicts that are in: new, kept and failed.
        total: Verdicts known to be wanted so far; it grows while a dataset is read.
        calls: Requests that were answered.
        cached: Verdicts that were kept from before, or that another row asked for.
        failed: Verdicts that will not come.
        in_flight: Requests under way.
        limit: Requests that may be under way at present.
        input_tokens: Tokens read in this run.
        output_tokens: Tokens written in this run.
        cost_usd: Spent in this run; None: the price is unknown.
        elapsed_s: Seconds since the first question.
    """

    done: int
    total: int
    calls: int
    cached: int
    failed: int
    in_flight: int
    limit: int
    input_tokens: int
    output_tokens: int
    cost_usd: float | None
    elapsed_s: float

    @property
    def calls_per_s(self) -> float:
        """Answered requests a second, from the beginning."""
        return self.calls / self.elapsed_s if self.elapsed_s > 0 else 0.0

    @property
    def eta_s(self) -> float | None:
        """Seconds left for what is known to be wanted; None: nothing to go by."""
        asked = self.calls + self.failed
        if not asked or self.elapsed_s <= 0:
            return None
        return (self.total - self.done) / (asked / self.elapsed_s)

    def __str__(self) -> str:
        parts = [f"judge {self.done:,}/{self.total:,}", f"{self.calls_per_s:.0f} calls/s"]
        if self.cached:
            parts.append(f"{self.cached:,} cached")
        if self.failed:
            parts.append(f"{self.failed:,} failed")
        parts.append(f"{_short(self.input_tokens)}+{_short(self.output_tokens)} tokens")
        if self.cost_usd is not None:
            parts.append(f"{self.cost_usd:.4f} USD")
        if self.eta_s is not None and self.done < self.total:
            parts.append(f"{_clock(self.eta_s)} left")
        return " · ".join(parts)


Watcher: TypeAlias = Callable[[Progress], None]


def watcher(wanted: object) -> tuple[Watcher | None, Callable[[], None]]:
    """Whoever should be told, and what to call at the end.

    `wanted` is None (where somebody watches), True, False or a function.
    """
    if callable(wanted):
        return _seldom(cast("Watcher", wanted)), _nothing
    if wanted is False:
        return None, _nothing
    if _in_notebook():
        return _notebook_line()
    if wanted is True or sys.stderr.isatty():
        return _terminal_line()
    return None, _nothing


def _nothing() -> None:
    """Nothing to end."""


def _seldom(tell: Watcher) -> Watcher:
    last = 0.0

    def maybe(progress: Progress) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= _EVERY_S or progress.done == progress.total:
            last = now
            tell(progress)

    return maybe


def _in_notebook() -> bool:
    ipython: Any = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return shell is not None and type(shell).__name__ == "ZMQInteractiveShell"


def _notebook_line() -> tuple[Watcher, Callable[[], None]]:
    from importlib import import_module

    show: Any = import_module("IPython.display").display
    handle: Any = show({"text/plain": ""}, raw=True, display_id=True)

    def tell(progress: Progress) -> None:
        handle.update({"text/plain": str(progress)}, raw=True)

    return _seldom(tell), _nothing


def _terminal_line() -> tuple[Watcher, Callable[[], None]]:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    live = Live(console=Console(stderr=True), auto_refresh=False, transient=True)
    started = False

    def tell(progress: Progress) -> None:
        nonlocal started
        if not started:
            live.start()
            started = True
        live.update(Text(str(progress)), refresh=True)

    def end() -> None:
        if started:
            live.stop()

    return _seldom(tell), end


def _short(count: int) -> str:
    for size, letter in ((1_000_000, "M"), (1_000, "k")):
        if count >= size:
            return f"{count / size:.1f}{letter}"
    return str(count)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
