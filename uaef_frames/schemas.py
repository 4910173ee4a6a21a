"""Every table of the package: its columns, types, units and rules, once.

A schema reads as its own documentation: `description` says what a column holds, its unit and what
null means. Nothing here knows how a table is filled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import dataframely as dy
import polars as pl

if TYPE_CHECKING:
    from collections.abc import Mapping

ROLES = ("user", "assistant", "system", "tool")
CALL_STATUSES = ("ok", "error", "pending", "invalid")
TOPOLOGIES = ("single", "multi")

ROUNDING = 1e-12
"""What a mean of floats may lose: (0.6 + 0.7 + 0.8) / 3 is not below 0.7."""

_SESSION = "The conversation; unique in a set of conversations."
_TURN = "The turn's number as its payload gave it."


class Turns(dy.Schema):
    """One row a turn. Numbers are as received, NaN and negative ones too: metrics name them."""

    session_id = dy.String(primary_key=True, description=_SESSION)
    turn_id = dy.Int64(primary_key=True, description=_TURN)
    session_index = dy.Int64(min=0, description="First-seen order of the session, from 0.")
    turn_index = dy.Int64(min=1, description="1..N after sorting the session by turn_id.")
    topology = dy.Enum(TOPOLOGIES, description="A property of the session: single or multi agent.")
    agents = dy.List(dy.String(), description="Agents of the turn in the order they appeared.")
    query = dy.String(nullable=True, description="The user's text; null: no user message.")
    response = dy.String(nullable=True, description="The final answer; null: there is none.")
    interrupted = dy.Bool(description="The turn ended by asking a human, not by answering.")
    latency_s = dy.Float64(
        nullable=True, allow_nan=True, allow_inf=True, description="Seconds; null: unknown."
    )
    input_tokens = dy.Float64(
        nullable=True, allow_nan=True, allow_inf=True, description="Tokens read; null: unknown."
    )
    output_tokens = dy.Float64(
        nullable=True, allow_nan=True, allow_inf=True, description="Tokens written; null: unknown."
    )
    cost_usd = dy.Float64(
        nullable=True, allow_nan=True, allow_inf=True, description="USD; null: unknown."
    )
    throughput_rps = dy.Float64(
        nullable=True,
        allow_nan=True,
        allow_inf=True,
        description="Requests a second; null: unknown.",
    )
    quality_score = dy.Float64(
        nullable=True, allow_nan=True, allow_inf=True, description="The trace's own, if it has one."
    )
    completeness_score = dy.Float64(
        nullable=True, allow_nan=True, allow_inf=True, description="The trace's own, if it has one."
    )
    workflow_status = dy.String(nullable=True, description="As the framework reported it.")
    metadata = dy.String(nullable=True, description="Everything else of the payload, as JSON text.")
    notes = dy.List(dy.String(), description="What a reader of the turn should know.")


class Messages(dy.Schema):
    """One row a message, in the order they happened."""

    session_id = dy.String(primary_key=True, description=_SESSION)
    turn_id = dy.Int64(primary_key=True, description=_TURN)
    message_index = dy.Int64(primary_key=True, min=0, description="Position in the turn, from 0.")
    role = dy.Enum(ROLES, description="Who speaks.")
    agent = dy.String(nullable=True, description="The agent it belongs to; null: none.")
    content = dy.String(description="Text only; empty when the message has none.")
    reasoning = dy.String(nullable=True, description="Reasoning that the model emitted.")
    message_id = dy.String(nullable=True, description="The framework's id; null: it had none.")
    tool_call_id = dy.String(nullable=True, description="For a tool result: the call it answers.")
    is_error = dy.Bool(description="A tool result that reports an error.")
    is_synthetic = dy.Bool(
        description="Written by the harness, not by a model or a person: never an answer, no work."
    )
    input_tokens = dy.Int64(nullable=True, description="Of this message; null: not reported.")
    output_tokens = dy.Int64(nullable=True, description="Of this message; null: not reported.")


class ToolCalls(dy.Schema):
    """One row a tool call. Handoffs are not tool calls; they stand in `handoffs`."""

    session_id = dy.String(primary_key=True, description=_SESSION)
    turn_id = dy.Int64(primary_key=True, description=_TURN)
    call_index = dy.Int64(primary_key=True, min=0, description="Position in the turn, from 0.")
    message_index = dy.Int64(nullable=True, description="The message that made it; null: unknown.")
    agent = dy.String(nullable=True, description="The agent that made it; null: unknown.")
    tool_call_id = dy.String(nullable=True, description="The framework's id; it may repeat.")
    name = dy.String(description="The tool's name as the model wrote it.")
    arguments = dy.String(nullable=True, description="Canonical JSON object; null when malformed.")
    raw_arguments = dy.String(nullable=True, description="What the model wrote, when malformed.")
    result = dy.String(nullable=True, description="What the tool answered; null: nothing.")
    status = dy.Enum(CALL_STATUSES, description="ok | error | pending | invalid.")


class Handoffs(dy.Schema):
    """One row each time work passed from one agent to another."""

    session_id = dy.String(primary_key=True, description=_SESSION)
    turn_id = dy.Int64(primary_key=True, description=_TURN)
    event_index = dy.Int64(primary_key=True, min=0, description="Position in the turn, from 0.")
    from_agent = dy.String(nullable=True, description="Who gave; null: unknown.")
    to_agent = dy.String(nullable=True, description="Who received; null: unknown.")
    event_type = dy.String(description="handoff, or handoff_back to the one who delegated.")
    message = dy.String(nullable=True, description="The text that went with it.")


class TurnExpectations(dy.Schema):
    """What one turn should have done."""

    session_id = dy.String(primary_key=True, description=_SESSION)
    turn_id = dy.Int64(
        primary_key=True, description="The turn's number, or position: `positional`."
    )
    positional = dy.Bool(description="turn_id counts turns 1..N, whatever the payload calls them.")
    expected_output = dy.String(
        nullable=True, description="null: the session's counts; empty text: none for this turn."
    )
    tools_stated = dy.Bool(description="false: nothing is said about tools.")
    context = dy.List(dy.String(), description="What the answer may rest on.")
    query = dy.String(nullable=True, description="What the user asks; null: it is not said.")


class SessionExpectations(dy.Schema):
    """What a whole conversation should have done."""

    session_id = dy.String(primary_key=True, description=_SESSION)
    expected_output = dy.String(nullable=True, description="null: nothing is said.")
    tools_stated = dy.Bool(description="Calls are expected of the conversation as a whole.")
    chatbot_role = dy.String(nullable=True, description="The role the assistant should keep.")
    system_instructions = dy.String(nullable=True, description="What it was told to do.")
    context = dy.List(dy.String(), description="What answers may rest on.")
    labels = dy.String(nullable=True, description="Any other column, as a JSON object.")


class ExpectedToolCalls(dy.Schema):
    """One row an expected call."""

    session_id = dy.String(description=_SESSION)
    turn_id = dy.Int64(nullable=True, description="null: expected of the conversation as a whole.")
    call_index = dy.Int64(min=0, description="Position as listed, from 0.")
    name = dy.String(description="The tool's name.")
    arguments = dy.String(description="Canonical JSON object.")

    @dy.rule()
    def listed_once(cls) -> pl.Expr:
        """A position is given once in its session and turn."""
        return pl.struct("session_id", "turn_id", "call_index").is_unique()


class Scores(dy.Schema):
    """One row a measurement: a metric of a turn, or (turn_id null) of a whole conversation."""

    run_id = dy.String(description="The run that measured it.")
    session_id = dy.String(description=_SESSION)
    turn_id = dy.Int64(nullable=True, description="null: the conversation's own score.")
    metric = dy.String(description="The metric's name.")
    dimension = dy.String(description="The dimension it counts in.")
    score = dy.Float64(
        nullable=True, min=0, max=1, description="[0, 1], 1 is good; null: see warning."
    )
    warning = dy.String(
        nullable=True, description="Why there is no score; null where there is one."
    )
    reasoning = dy.String(nullable=True, description="In words, for a person.")
    details = dy.String(nullable=True, description="JSON object with the figures behind the score.")
    model = dy.String(nullable=True, description="The judge as it named itself; null: none asked.")
    request_key = dy.String(
        nullable=True, description="The verdict's key in the cache; of several, the first."
    )
    cached = dy.Bool(nullable=True, description="No request was made for it in this run.")
    latency_s = dy.Float64(nullable=True, description="Seconds the (slowest) verdict took.")
    input_tokens = dy.Int64(nullable=True, description="Tokens its verdicts read, when asked.")
    cached_input_tokens = dy.Int64(
        nullable=True, description="Of those, from the endpoint's prompt cache."
    )
    output_tokens = dy.Int64(nullable=True, description="Tokens its verdicts wrote, when asked.")
    cost_usd = dy.Float64(
        nullable=True, description="Paid in this run; 0: a kept verdict; null: price unknown."
    )

    @dy.rule()
    def null_has_a_reason(cls) -> pl.Expr:
        """A score that is missing says why."""
        return pl.col("score").is_not_null() | pl.col("warning").is_not_null()

    @dy.rule()
    def measured_once(cls) -> pl.Expr:
        """A metric is measured once in a session and turn."""
        return pl.struct("run_id", "session_id", "turn_id", "metric").is_unique()


class Dimensions(dy.Schema):
    """One row a session and dimension."""

    run_id = dy.String(primary_key=True, description="The run.")
    session_id = dy.String(primary_key=True, description=_SESSION)
    dimension = dy.String(primary_key=True, description="The dimension.")
    score = dy.Float64(nullable=True, min=0, max=1, description="Mean of its scored metrics.")
    weight = dy.Float64(min=0, description="Its part in the overall score; 0: reported only.")
    threshold = dy.Float64(nullable=True, description="Below it the session fails; null: none.")
    passed = dy.Bool(nullable=True, description="null: not scored, or no threshold.")
    metrics_scored = dy.Int64(min=0, description="Metrics that have a score.")
    metrics_total = dy.Int64(min=0, description="Metrics that were asked for.")


class Sessions(dy.Schema):
    """One row a session."""

    run_id = dy.String(primary_key=True, description="The run.")
    session_id = dy.String(primary_key=True, description=_SESSION)
    session_index = dy.Int64(min=0, description="First-seen order, from 0.")
    topology = dy.Enum(TOPOLOGIES, description="single or multi agent.")
    num_turns = dy.Int64(min=1, description="Turns.")
    overall_score = dy.Float64(
        nullable=True, min=0, max=1, description="Weighted mean of the scored dimensions."
    )
    passed = dy.Bool(description="No scored dimension is below its threshold; one is scored.")
    failures = dy.List(dy.String(), description="What failed, in words.")
    warnings = dy.List(dy.String(), description="What a reader should know.")
    labels = dy.String(nullable=True, description="Labels of its ground truth, as a JSON object.")


class Runs(dy.Schema):
    """One row: the run itself."""

    run_id = dy.String(primary_key=True, description="The run's name on disk.")
    name = dy.String(nullable=True, description="The name it was given.")
    created_at = dy.Datetime(time_zone="UTC", description="When it began.")
    duration_s = dy.Float64(min=0, description="Seconds from beginning to end.")
    version = dy.String(description="Of this package.")
    sources = dy.List(dy.String(), description="The input files; empty for records in memory.")
    metrics = dy.List(dy.String(), description="The metrics asked for, in registry order.")
    config = dy.String(description="Constants, weights, thresholds and judges, as a JSON object.")
    join_report = dy.String(
        nullable=True, description="How payloads and ground truth met, as a JSON object."
    )
    num_sessions = dy.Int64(min=0, description="Sessions scored.")
    num_turns = dy.Int64(min=0, description="Turns scored.")
    num_rejects = dy.Int64(min=0, description="Records that could not be used.")
    mean_overall = dy.Float64(nullable=True, description="Mean overall score of scored sessions.")
    pass_rate = dy.Float64(nullable=True, description="Passed sessions / sessions.")


class Metrics(dy.Schema):
    """One row a metric: its scores in the run, each session counting once."""

    run_id = dy.String(primary_key=True, description="The run.")
    metric = dy.String(primary_key=True, description="The metric's name.")
    dimension = dy.String(description="The dimension it counts in.")
    mean = dy.Float64(
        nullable=True, description="Mean over scored sessions of the mean of their turns."
    )
    sd = dy.Float64(
        nullable=True,
        description="Standard deviation over scored sessions (n - 1); null: fewer than two.",
    )
    lowest = dy.Float64(nullable=True, description="The lowest session.")
    sessions_scored = dy.Int64(min=0, description="Sessions with a score.")
    sessions = dy.Int64(min=0, description="Sessions it was asked of.")
    scored = dy.Int64(min=0, description="Rows of `scores` with a score.")
    measured = dy.Int64(min=0, description="Rows of `scores`.")
    why_null = dy.String(
        nullable=True, description="The most frequent warning of rows without a score."
    )


class Expected(dy.Schema):
    """One row a turn, or (turn_id null) conversation, of which something was expected."""

    session_id = dy.String(description=_SESSION)
    turn_id = dy.Int64(nullable=True, description="null: the conversation as a whole.")
    expected_output = dy.String(nullable=True, description="null: nothing is said.")
    tools_stated = dy.Bool(description="false: nothing is said about tools.")


class Rejects(dy.Schema):
    """One row an input record that could not be used."""

    source = dy.String(description="The file, or <memory>.")
    line = dy.Int64(nullable=True, description="Its line, or its position in memory, from 1.")
    session_id = dy.String(nullable=True, description="Where it could be read.")
    turn_id = dy.String(nullable=True, description="As it was written.")
    reason = dy.String(description="What was wrong and what to do.")
    raw = dy.String(nullable=True, description="The record as received, cut at 64 KiB.")


RUN_TABLES: Mapping[str, type[dy.Schema]] = {
    "turns": Turns,
    "messages": Messages,
    "tool_calls": ToolCalls,
    "handoffs": Handoffs,
    "scores": Scores,
    "dimensions": Dimensions,
    "sessions": Sessions,
    "metrics": Metrics,
    "expected": Expected,
    "expected_tool_calls": ExpectedToolCalls,
    "runs": Runs,
    "rejects": Rejects,
}
"""The tables of a run on disk, by file name."""


def columns(schema: type[dy.Schema]) -> pl.Schema:
    """Column names and polars types of a table."""
    return pl.Schema({name: column.dtype for name, column in schema.columns().items()})
