"""The travel assistant as LangGraph graphs: a scripted chat model, one agent, a supervised team.

Graphs, tool nodes, memory and streams are LangGraph's own; only the model's words are scripted.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from langchain.agents import create_agent
from langchain.agents.middleware import ToolErrorMiddleware
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph_supervisor import create_supervisor
from pydantic import PrivateAttr
from scenarios.parts import FLIGHTS, HOTELS, SOLO, SUPERVISOR, TRIPS, Step
from travel_world import TOOL_SECONDS, BookingError, World, tools_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain.agents.middleware.types import ToolCallRequest
    from langchain_core.messages import ToolCall
    from langchain_core.messages.ai import UsageMetadata
    from langgraph.checkpoint.base import BaseCheckpointSaver

MODEL_NAME = "scripted-1"
TOKENS_PER_TOOL = 30
HANDOFF_SECONDS = 0.02

ROLE = "A courteous, concise travel agent of Kestrel Travel who keeps to travel and bookings."

INSTRUCTIONS = (
    "You are the booking assistant of Kestrel Travel. Today is Monday 2026-05-04. "
    "Use the tools for flights, hotels, weather, money and the traveller's calendar; never guess "
    "what a tool can tell. Book only what the traveller has agreed to. Look up or cancel a booking "
    "only for the person it is in the name of. Say plainly when something failed. Prices are in "
    "EUR unless asked otherwise. Answer in the traveller's language, in a few sentences."
)

TEAM_INSTRUCTIONS = (
    "You lead the booking desk of Kestrel Travel. Today is Monday 2026-05-04. flight_agent finds, "
    "books and cancels flights, hotel_agent does the same for hotels, trip_agent knows weather, "
    "exchange rates and the calendar. Hand over what a specialist should do, once for each matter, "
    "and give the traveller one answer that covers everything asked. Book only what was agreed to."
)

SPECIALISTS: dict[str, tuple[str, tuple[str, ...]]] = {
    FLIGHTS: (
        "You handle flights for Kestrel Travel. Today is Monday 2026-05-04.",
        ("search_flights", "book_flight", "get_booking", "cancel_booking"),
    ),
    HOTELS: (
        "You handle hotels for Kestrel Travel. Today is Monday 2026-05-04.",
        ("search_hotels", "book_hotel", "get_booking", "cancel_booking"),
    ),
    TRIPS: (
        "You know weather, money and calendars at Kestrel Travel. Today is Monday 2026-05-04.",
        ("get_weather", "convert_currency", "mcp_calendar_add"),
    ),
}


class ScriptError(RuntimeError):
    """The run did not go as the script has it."""


@dataclass
class Spent:
    """What the model steps since the last reading took."""

    seconds: float = 0.0
    input_tokens: int = 0
    output_tokens: int = 0


@dataclass
class Script:
    """The steps of a session that are still to be played, and what playing them costs."""

    session_id: str
    steps: list[Step] = field(default_factory=list[Step])
    _spent: Spent = field(default_factory=Spent)
    _calls: int = 0

    def play(self, agent: str, input_tokens: int) -> AIMessage:
        """The next message; an agent that was not due to speak means that the script is wrong."""
        if not self.steps or self.steps[0].by != agent:
            due = self.steps[0].by if self.steps else "nobody"
            raise ScriptError(f"{self.session_id}: {agent} was asked, but {due} is due")
        step = self.steps.pop(0)
        message = AIMessage(
            content=_content(step),
            tool_calls=[self._tool_call(c.name, c.arguments) for c in step.calls],
            response_metadata={
                "model_name": MODEL_NAME,
                "finish_reason": "tool_calls" if step.calls else "stop",
            },
        )
        if step.usage == "absent":
            used = (0, 0)
        elif step.usage == "estimate":
            used = (input_tokens, _tokens_of(message) + _tokens(step.reasoning))
        else:
            used = step.usage
        if step.usage != "absent":
            message.usage_metadata = _usage(used, step.reasoning)
        self._charge(step, used)
        return message

    def settle(self) -> Spent:
        """What was spent since the last call, with nothing left over to play."""
        if self.steps:
            raise ScriptError(f"{self.session_id}: {len(self.steps)} steps were never asked for")
        spent, self._spent = self._spent, Spent()
        return spent

    def _tool_call(self, name: str, arguments: dict[str, Any]) -> ToolCall:
        self._calls += 1
        digest = hashlib.sha256(f"{self.session_id}/{self._calls}".encode()).hexdigest()
        return {"name": name, "args": arguments, "id": f"call_{digest[:16]}", "type": "tool_call"}

    def _charge(self, step: Step, used: tuple[int, int]) -> None:
        # Tools that one message calls run side by side: the slowest sets the pace.
        tools = max((TOOL_SECONDS.get(c.name, HANDOFF_SECONDS) for c in step.calls), default=0.0)
        self._spent.seconds += thinking_seconds(step) + tools
        self._spent.input_tokens += used[0]
        self._spent.output_tokens += used[1]


class ScriptedChatModel(BaseChatModel):
    """A chat model that says what the script says; `agent` is whose voice it is."""

    agent: str
    tools: int = 0
    _script: Script = PrivateAttr()

    def __init__(self, agent: str, script: Script, tools: int = 0) -> None:
        super().__init__(agent=agent, tools=tools)  # pyright: ignore[reportCallIssue]
        self._script = script

    @property
    def _llm_type(self) -> str:
        return MODEL_NAME

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> ScriptedChatModel:  # type: ignore[override]
        """The same script, with the tools counted for the size of the prompt."""
        return ScriptedChatModel(self.agent, self._script, len(tools))

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: Any = None,
        **kwargs: Any,
    ) -> ChatResult:
        prompt = sum(_tokens_of(m) for m in messages) + TOKENS_PER_TOOL * self.tools
        message = self._script.play(self.agent, prompt)
        return ChatResult(generations=[ChatGeneration(message=message)])


def thinking_seconds(step: Step) -> float:
    """How long the model takes for a step: what the step declares, else as its length suggests."""
    if step.seconds is not None:
        return step.seconds
    return 0.3 + 0.009 * _length(step.text, [(c.name, c.arguments) for c in step.calls])


def single_agent(script: Script, world: World, memory: BaseCheckpointSaver[Any]) -> Any:
    """One agent that has every tool."""
    return create_agent(
        ScriptedChatModel(SOLO, script),
        tools_of(world, TOOL_SECONDS),
        system_prompt=INSTRUCTIONS,
        middleware=[_tell_the_model()],
        checkpointer=memory,
        name=SOLO,
    )


def team(script: Script, world: World, memory: BaseCheckpointSaver[Any]) -> Any:
    """A supervisor with three specialists whose whole work shows in the stream."""
    agents: list[Any] = [
        create_agent(
            ScriptedChatModel(name, script),
            tools_of(world, tools),
            system_prompt=prompt,
            middleware=[_tell_the_model()],
            name=name,
        )
        for name, (prompt, tools) in SPECIALISTS.items()
    ]
    graph: Any = create_supervisor(
        agents,
        model=ScriptedChatModel(SUPERVISOR, script),
        prompt=TEAM_INSTRUCTIONS,
        # The default keeps only an agent's last message, which hides what tools it used.
        output_mode="full_history",
        supervisor_name=SUPERVISOR,
    )
    return graph.compile(checkpointer=memory)


def _tell_the_model() -> Any:
    """Turn a refused request into a tool result; anything else that is raised ends the run."""

    def on_error(error: Exception, request: ToolCallRequest) -> str | None:
        refused = isinstance(error, BookingError)
        return f"{request.tool_call['name']} failed: {error}" if refused else None

    return ToolErrorMiddleware(on_error)


def _content(step: Step) -> str | list[Any]:
    if not step.reasoning:
        return step.text
    return [
        {"type": "reasoning", "reasoning": step.reasoning},
        {"type": "text", "text": step.text},
    ]


def _usage(used: tuple[int, int], reasoning: str) -> UsageMetadata:
    read, written = used
    usage: UsageMetadata = {
        "input_tokens": read,
        "output_tokens": written,
        "total_tokens": read + written,
    }
    if reasoning:
        usage["output_token_details"] = {"reasoning": _tokens(reasoning)}
    return usage


def _tokens_of(message: BaseMessage) -> int:
    calls = message.tool_calls if isinstance(message, AIMessage) else []
    return _length(message.text, [(c["name"], c["args"]) for c in calls])


def _length(text: str, calls: list[tuple[str, dict[str, Any]]]) -> int:
    words = [text, *(json.dumps(call, ensure_ascii=False) for call in calls)]
    return 4 + sum(_tokens(word) for word in words)


def _tokens(text: str) -> int:
    """Roughly: four bytes a token."""
    return -(-len(text.encode()) // 4)
