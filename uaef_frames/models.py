"""The objects a person holds: messages, traces, ground truth and results.

They are thin handles on rows. Nothing here computes a score or knows where a record came from.
"""

from __future__ import annotations

from datetime import UTC, datetime
from html import escape
from typing import Annotated, Any, Literal, TypeAlias, TypeVar, cast

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, model_validator

Role = Literal["user", "assistant", "system", "tool"]
CallStatus = Literal["ok", "error", "pending", "invalid"]
Int64: TypeAlias = Annotated[int, Field(ge=-(2**63), lt=2**63)]
"""What a column of whole numbers can hold."""


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", validate_by_name=True, validate_by_alias=True)


class Message(_Model):
    """One message of a conversation.

    `content` is text only; what a model emitted as reasoning stands in `reasoning`. Token counts
    are those the model reported for this message, None where it reported none. `is_synthetic`
    marks text that the harness wrote, not a model or a person: never an answer, never work.
    """

    role: Role
    content: str = ""
    agent: str | None = None
    reasoning: str | None = None
    message_id: str | None = None
    tool_call_id: str | None = None
    is_error: bool = False
    is_synthetic: bool = False
    input_tokens: Int64 | None = None
    output_tokens: Int64 | None = None
    timestamp: datetime | None = None


class ToolCall(_Model):
    """A tool call that an agent made, or that ground truth expects.

    `status` is ``ok`` or ``error`` by what the tool answered, ``pending`` while it has not, and
    ``invalid`` when the model wrote arguments that are not a JSON object; the text it wrote then
    stands in `raw_arguments` and `arguments` is empty. An expected call needs only a name.
    """

    name: str = Field(validation_alias=AliasChoices("name", "tool_name"))
    arguments: dict[str, Any] = Field(
        default_factory=dict, validation_alias=AliasChoices("arguments", "parameters", "args")
    )
    id: str | None = None
    result: str | None = None
    status: CallStatus = "pending"
    agent: str | None = None
    raw_arguments: str | None = None
    message_index: Int64 | None = None
    timestamp: datetime | None = None


class CoordinationEvent(_Model):
    """Work passing from one agent to another."""

    from_agent: str | None = None
    to_agent: str | None = None
    event_type: str = "handoff"
    message: str | None = None
    timestamp: datetime | None = None


class AgentTrace(_Model):
    """What one agent did: in one turn, or over a whole conversation.

    Attributes:
        trace_id: A name for this trace.
        session_id: The conversation it belongs to, if it belongs to one.
        messages: In the order they happened.
        tool_calls: In the order they were made.
        input_tokens: Tokens read by the models; None where unknown, which is not 0.
        output_tokens: Tokens written by the models; None where unknown.
        latency: Wall-clock seconds; None where unknown.
        cost: USD; None where unknown.
        metadata: Anything else. `quality_score`, `completeness_score`, `throughput_rps`,
            `chatbot_role` and `system_instructions` are read by metrics.
    """

    trace_id: str = "trace"
    session_id: str | None = None
    messages: list[Message] = Field(default_factory=list)
    tool_calls: list[ToolCall] = Field(default_factory=list)
    input_tokens: int | float | None = None
    output_tokens: int | float | None = None
    latency: float | None = None
    cost: float | None = None
    metadata: dict[str, Any] = Field(default_factory=dict)
    framework: str | None = None
    timestamp: datetime | None = None


class Step(_Model):
    """Where one message or tool call of a multi-agent trace stands: which agent, which position."""

    agent: str
    kind: Literal["message", "tool_call"]
    position: int


class MultiAgentTrace(_Model):
    """What several agents did together.

    The properties `messages`, `tool_calls`, `input_tokens` and `output_tokens` read over all agents
    in the order things happened. That order is `timeline` where an adapter recorded it and it names
    every item once; else the timestamps of the items, where every item has one; else agent by
    agent.
    Messages that belong to no agent, the user's own above all, stand in `user_messages`.
    """

    trace_id: str = "trace"
    session_id: str | None = None
    agent_traces: dict[str, AgentTrace] = Field(default_factory=dict)
    coordination_events: list[CoordinationEvent] = Field(default_factory=list)
    user_messages: list[Message] = Field(default_factory=list)
    timeline: list[Step] | None = None
    workflow_status: str | None = None
    total_latency: float | None = None
    total_cost: float | None = None
    total_input_tokens: int | float | None = None
    total_output_tokens: int | float | None = None
    metadata: dict[str, Any] = Field(default_factory=dict)
    framework: str | None = None
    timestamp: datetime | None = None

    @property
    def latency(self) -> float | None:
        """Seconds of the whole workflow, as `AgentTrace.latency` is for one agent."""
        return self.total_latency

    @property
    def cost(self) -> float | None:
        """USD of the whole workflow, as `AgentTrace.cost` is for one agent."""
        return self.total_cost

    @property
    def messages(self) -> list[Message]:
        """Every message of every agent and of the user, in the order they happened."""
        return [message for _, message in self.owned_messages()]

    @property
    def tool_calls(self) -> list[ToolCall]:
        """Every tool call of every agent, in the order they were made."""
        return [call for _, call in self.owned_tool_calls()]

    def owned_messages(self) -> list[tuple[str, Message]]:
        """`messages`, each with its agent; `USER_LANE` for those that belong to none."""
        lanes: dict[str, list[Message]] = {n: t.messages for n, t in self.agent_traces.items()}
        return _in_order({USER_LANE: self.user_messages, **lanes}, "message", self.timeline)

    def owned_tool_calls(self) -> list[tuple[str, ToolCall]]:
        """`tool_calls`, each with its agent."""
        lanes: dict[str, list[ToolCall]] = {n: t.tool_calls for n, t in self.agent_traces.items()}
        return _in_order(lanes, "tool_call", self.timeline)

    @property
    def input_tokens(self) -> int | float | None:
        """Tokens read: the workflow's own total where it is known, else the agents' sum."""
        if self.total_input_tokens is not None:
            return self.total_input_tokens
        return _known_sum([t.input_tokens for t in self.agent_traces.values()])

    @property
    def output_tokens(self) -> int | float | None:
        """Tokens written: the workflow's own total where it is known, else the agents' sum."""
        if self.total_output_tokens is not None:
            return self.total_output_tokens
        return _known_sum([t.output_tokens for t in self.agent_traces.values()])


USER_LANE = "__user__"
"""The name under which a timeline speaks of `MultiAgentTrace.user_messages`."""


_Item = TypeVar("_Item", Message, ToolCall)


def _in_order(
    lanes: dict[str, list[_Item]], kind: str, timeline: list[Step] | None
) -> list[tuple[str, _Item]]:
    owned = [(name, item) for name, lane in lanes.items() for item in lane]
    if timeline is not None:
        steps = [(s.agent, s.position) for s in timeline if s.kind == kind]
        places = {(name, at) for name, lane in lanes.items() for at in range(len(lane))}
        if len(steps) == len(owned) and places == set(steps):
            return [(name, lanes[name][at]) for name, at in steps]
    if all(item.timestamp is not None for _, item in owned):
        owned.sort(key=lambda pair: _moment(pair[1].timestamp))
    return owned


def _moment(time: datetime | None) -> datetime:
    """A time that compares with any other; one without a zone is taken as UTC."""
    held = time or datetime.min
    return held if held.tzinfo is not None else held.replace(tzinfo=UTC)


def _known_sum(values: list[int | float | None]) -> int | float | None:
    known = [v for v in values if v is not None]
    return sum(known) if known else None


class GroundTruth(_Model):
    """What a trace should have done.

    Attributes:
        expected_output: The answer that was wanted; None says nothing about it.
        expected_tool_calls: None says nothing about tools; an empty list: none is expected.
        expected_arguments: Free-form; multi-turn evaluation reads `per_turn_expected` and
            `per_turn_tools` (lists with one entry a turn), `chatbot_role`, `system_instructions`.
        context_documents: What the answer may rest on.
    """

    expected_output: str | None = None
    expected_tool_calls: list[ToolCall] | None = None
    expected_arguments: dict[str, Any] = Field(default_factory=dict)
    context_documents: list[str] = Field(default_factory=list)

    @model_validator(mode="before")
    @classmethod
    def _absent_arguments_are_empty(cls, data: Any) -> Any:
        if isinstance(data, dict):
            fields = cast("dict[str, Any]", data)
            empty: dict[str, Any] = {"expected_arguments": {}, "context_documents": []}
            return {k: empty[k] if v is None and k in empty else v for k, v in fields.items()}
        return data


class MetricScore(_Model):
    """One metric's score, in [0, 1], higher is better; None carries a `warning` in metadata."""

    metric_name: str
    score: float | None = None
    reasoning: str = ""
    metadata: dict[str, Any] = Field(default_factory=dict)


class DimensionResult(_Model):
    """The metrics of one dimension and the mean of those that have a score."""

    dimension_name: str
    metric_scores: list[MetricScore] = Field(default_factory=list)
    aggregate_score: float | None = None
    weight: float = 0.0
    threshold: float | None = None


class EvaluationResult(_Model):
    """What an evaluation found.

    Attributes:
        overall_score: Weighted mean over the dimensions that have a score; None if none has.
        passed: No scored dimension is below its threshold, and at least one is scored.
        failures: What failed, in words: a dimension below its threshold, nothing scored, an error.
        warnings: What a reader should know: a missing judge, ground truth of another length.
        metadata: `num_turns`, `is_multi_agent`, `per_turn`, `per_turn_averages`.
    """

    trace_id: str
    session_id: str | None = None
    dimension_results: list[DimensionResult] = Field(default_factory=list)
    overall_score: float | None = None
    passed: bool = False
    failures: list[str] = Field(default_factory=list)
    warnings: list[str] = Field(default_factory=list)
    metadata: dict[str, Any] = Field(default_factory=dict)
    timestamp: datetime | None = None

    def __repr__(self) -> str:
        overall = "nothing scored" if self.overall_score is None else f"{self.overall_score:.3f}"
        dimensions = "".join(
            f", {d.dimension_name} {d.aggregate_score:.3f}"
            for d in self.dimension_results
            if d.aggregate_score is not None
        )
        return (
            f"EvaluationResult({self.trace_id!r}: {overall}, "
            f"{'passed' if self.passed else 'not passed'}{dimensions})"
        )

    def __str__(self) -> str:
        return repr(self)

    def _repr_html_(self) -> str:
        rows = [
            (
                d.dimension_name,
                s.metric_name,
                _figure(s.score),
                s.metadata.get("warning") or "",
                s.reasoning,
            )
            for d in self.dimension_results
            for s in d.metric_scores
        ]
        lines = "".join(
            f"<tr>{''.join(f'<td>{escape(str(cell))}</td>' for cell in row)}</tr>" for row in rows
        )
        said = "".join(f"<li>{escape(line)}</li>" for line in [*self.failures, *self.warnings])
        head = "".join(f"<th>{n}</th>" for n in ("dimension", "metric", "score", "no score", "why"))
        return (
            f"<p>{escape(repr(self))}</p>{f'<ul>{said}</ul>' if said else ''}"
            f"<table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>"
        )


def _figure(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"
