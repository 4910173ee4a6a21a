"""Two agents that are worse than the recorded one, made from the same sessions.

What is expected stays what it was: only what the agent does changes.
"""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import date, timedelta
from typing import TYPE_CHECKING

from .parts import Call, Step, Turn

if TYPE_CHECKING:
    from collections.abc import Callable

    from .parts import Session

    Seconds = Callable[[Step], float]

_LOOKS_UP = ("search_flights", "search_hotels", "get_weather", "convert_currency")
_DATES = ("date", "check_in")
_SENTENCE_END = re.compile(r"(?<=[.!?]) +(?=\S)")


def careless(session: Session, seconds: Seconds) -> Session:
    """The single agent asks its tools twice, a day off in every second turn, and its answers lack
    their last sentence. It takes the time that it took; the team is as it was.
    """
    if session.team or session.outages:
        return session

    def worse(turn: Turn, number: int) -> Turn:
        steps = [
            replace(
                step,
                text=_without_last_sentence(step.text),
                calls=_twice(
                    tuple(_a_day_off(c) for c in step.calls) if number % 2 else step.calls
                ),
                seconds=seconds(step),
            )
            for step in turn.steps
        ]
        return replace(turn, steps=steps)

    return replace(session, turns=[worse(t, n) for n, t in enumerate(session.turns)])


def slow(session: Session, seconds: Seconds) -> Session:
    """The same agents on a busy machine: every step of a model takes three times as long, and a
    second more.
    """
    turns = [
        replace(turn, steps=[replace(s, seconds=3 * seconds(s) + 1) for s in turn.steps])
        for turn in session.turns
    ]
    return replace(session, turns=turns)


def _twice(calls: tuple[Call, ...]) -> tuple[Call, ...]:
    again = next((call for call in calls if call.name in _LOOKS_UP), None)
    return calls if again is None else (*calls, again)


def _a_day_off(call: Call) -> Call:
    return Call(
        call.name, {k: _next_day(v) if k in _DATES else v for k, v in call.arguments.items()}
    )


def _next_day(day: str) -> str:
    return str(date.fromisoformat(day) + timedelta(days=1))


def _without_last_sentence(text: str) -> str:
    return " ".join(_SENTENCE_END.split(text)[:-1]) or text
