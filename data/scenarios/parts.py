"""What a scripted session is made of: turns, model steps, tool calls."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

Usage = tuple[int, int] | Literal["estimate", "absent"]
AsPlayed = Literal["as played"]
PayloadField = Literal["latency", "input_tokens", "output_tokens", "cost_usd"]

SOLO = "booking_agent"
SUPERVISOR = "supervisor"
FLIGHTS = "flight_agent"
HOTELS = "hotel_agent"
TRIPS = "trip_agent"

HANDOFF_PREFIX = "transfer_to_"

AS_PLAYED: AsPlayed = "as played"
NO_COUNTS: tuple[PayloadField, ...] = ("input_tokens", "output_tokens", "cost_usd")


@dataclass(frozen=True)
class Call:
    """One tool call, made or expected."""

    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True)
class Step:
    """One answer of the model.

    Attributes:
        by: The agent whose model is asked.
        seconds: How long the model takes; None: as its length suggests.
        usage: Input and output tokens; "absent" is what a provider that reports none gives.
        reasoning: What the model shows of its thinking, as a block before the text.
    """

    by: str
    text: str = ""
    calls: tuple[Call, ...] = ()
    seconds: float | None = None
    usage: Usage = "estimate"
    reasoning: str = ""


@dataclass(frozen=True)
class Turn:
    """What the user says, what the model then does, and what it should have done.

    Attributes:
        expected_calls: None says nothing about tools; an empty list says that none is needed;
            AS_PLAYED says that the calls in `steps` are the right ones.
        unknown: Fields that the payload of this turn lacks.
        fails: Whether the run ends with an exception instead of an answer.
    """

    user: str
    steps: list[Step]
    expected: str
    expected_calls: list[Call] | AsPlayed | None
    unknown: tuple[PayloadField, ...] = ()
    fails: bool = False

    def true_calls(self) -> list[Call] | None:
        """The tool calls the turn should have had; passing the word on is not one."""
        if self.expected_calls != AS_PLAYED:
            return self.expected_calls
        played = [call for step in self.steps for call in step.calls]
        return [call for call in played if not call.name.startswith(HANDOFF_PREFIX)]


@dataclass(frozen=True)
class Session:
    """One conversation with its ground truth.

    Attributes:
        mistake: What the agent does wrong, None when it behaves.
        outages: Tools whose supplier is down, and for how many calls.
    """

    session_id: str
    scenario: str
    mistake: str | None
    turns: list[Turn]
    expected_output: str | None = None
    context_documents: list[str] = field(default_factory=list[str])
    outages: dict[str, int] = field(default_factory=dict[str, int])

    @property
    def team(self) -> bool:
        """Whether the supervisor and its specialists play, not the single agent."""
        return any(step.by != SOLO for turn in self.turns for step in turn.steps)


def call(name: str, /, **arguments: Any) -> Call:
    """A tool call with the arguments as written."""
    return Call(name, arguments)


def use(*calls: Call, by: str = SOLO, text: str = "", seconds: float | None = None) -> Step:
    """The model calls tools, several at once if several are given."""
    return Step(by, text, calls, seconds)


def say(
    text: str,
    by: str = SOLO,
    *,
    seconds: float | None = None,
    usage: Usage = "estimate",
    reasoning: str = "",
) -> Step:
    """The model answers in words."""
    return Step(by, text, (), seconds, usage, reasoning)


def hand_to(agent: str, text: str = "") -> Step:
    """The supervisor passes the conversation to one of its agents."""
    return Step(SUPERVISOR, text, (Call(f"{HANDOFF_PREFIX}{agent}", {}),))
