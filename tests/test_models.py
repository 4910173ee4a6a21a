"""The objects a person holds, the tables they become, and the way there and back."""

from __future__ import annotations

import copy
import json
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pydantic import ValidationError

from tests.helpers import called, payload, scores, session, timeless, trace
from tests.samples.langgraph_records import ai, call, tool, update
from uaef_frames import (
    AgentTrace,
    ConfigError,
    Conversations,
    CoordinationEvent,
    DimensionResult,
    EvaluationResult,
    GroundTruth,
    LangGraphAdapter,
    Message,
    MultiAgentTrace,
    OpenAIMessagesAdapter,
    ToolCall,
    batch_evaluate,
    evaluate,
)
from uaef_frames.models import USER_LANE, Step

NOON = datetime(2026, 12, 1, 12, tzinfo=UTC)


def at(seconds: float | None) -> datetime | None:
    return None if seconds is None else NOON + timedelta(seconds=seconds)


def said(content: str, when: float | None = None, role: Any = "assistant") -> Message:
    return Message(role=role, content=content, timestamp=at(when))


def made(name: str, when: float | None = None) -> ToolCall:
    return ToolCall(name=name, timestamp=at(when))


def team(**fields: Any) -> MultiAgentTrace:
    """Two agents; by time it goes q, x1, y1, x2 and f, g, h; agent by agent q, x1, x2, y1."""
    lanes = {
        "x": AgentTrace(
            messages=[said("x1", 1), said("x2", 3)], tool_calls=[made("f", 1), made("h", 3)]
        ),
        "y": AgentTrace(messages=[said("y1", 2)], tool_calls=[made("g", 2)]),
    }
    return MultiAgentTrace(agent_traces=lanes, user_messages=[said("q", 0, role="user")], **fields)


def order(found: MultiAgentTrace) -> tuple[str, str]:
    return (
        " ".join(m.content for m in found.messages),
        " ".join(c.name for c in found.tool_calls),
    )


# The order of a multi-agent trace


def test_the_timeline_decides_on_order() -> None:
    steps = [
        ("y", "message", 0),
        ("x", "tool_call", 1),
        (USER_LANE, "message", 0),
        ("x", "tool_call", 0),
        ("x", "message", 1),
        ("x", "message", 0),
        ("y", "tool_call", 0),
    ]
    timeline = [Step(agent=a, kind=k, position=p) for a, k, p in steps]  # pyright: ignore[reportArgumentType]
    assert order(team(timeline=timeline)) == ("y1 q x2 x1", "h f g")


def test_timestamps_decide_where_there_is_no_timeline() -> None:
    assert order(team()) == ("q x1 y1 x2", "f g h")


def test_timestamps_with_and_without_a_zone_can_be_compared() -> None:
    found = team()
    plus_two = timezone(timedelta(hours=2))
    found.agent_traces["y"].messages[0].timestamp = datetime(2026, 12, 1, 14, 0, 2, tzinfo=plus_two)
    found.agent_traces["x"].messages[0].timestamp = datetime(2026, 12, 1, 12, 0, 1)  # UTC
    assert order(found)[0] == "q x1 y1 x2"


def test_equal_timestamps_keep_the_order_of_the_agents() -> None:
    found = team()
    for lane in found.agent_traces.values():
        for message in lane.messages:
            message.timestamp = at(1)
    assert order(found)[0] == "q x1 x2 y1"


def test_without_all_timestamps_it_goes_agent_by_agent() -> None:
    found = team()
    found.agent_traces["x"].messages[1].timestamp = None
    # Calls have all theirs.
    assert order(found) == ("q x1 x2 y1", "f g h")


@pytest.mark.parametrize(
    "timeline",
    [
        [],
        [Step(agent="x", kind="message", position=0)],
        [Step(agent=a, kind="message", position=9) for a in ("x", "x", "y", USER_LANE)],
        [Step(agent="nobody", kind="message", position=p) for p in range(4)],
        [Step(agent="x", kind="message", position=0)] * 4,
    ],
)
def test_a_timeline_that_does_not_fit_is_no_timeline(timeline: list[Step]) -> None:
    assert order(team(timeline=timeline)) == ("q x1 y1 x2", "f g h")


def test_items_are_told_with_their_agents() -> None:
    owned = [(name, m.content) for name, m in team().owned_messages()]
    assert owned == [(USER_LANE, "q"), ("x", "x1"), ("y", "y1"), ("x", "x2")]
    assert [(name, c.name) for name, c in team().owned_tool_calls()] == [
        ("x", "f"),
        ("y", "g"),
        ("x", "h"),
    ]


# Sums of a multi-agent trace


@pytest.mark.parametrize(
    ("of_agents", "total", "found"),
    [
        ([10, 20], None, 30),
        ([10, None], None, 10),
        ([None, None], None, None),
        ([0, None], None, 0),
        ([], None, None),
        ([10, 20], 7, 7),
        ([10, 20], 0, 0),
    ],
)
def test_tokens_are_the_workflows_own_else_the_known_ones_of_agents(
    of_agents: list[int | None], total: int | None, found: int | None
) -> None:
    lanes = {
        str(n): AgentTrace(input_tokens=tokens, output_tokens=tokens)
        for n, tokens in enumerate(of_agents)
    }
    several = MultiAgentTrace(
        agent_traces=lanes, total_input_tokens=total, total_output_tokens=total
    )
    assert (several.input_tokens, several.output_tokens) == (found, found)


def test_latency_and_cost_read_as_those_of_one_agent() -> None:
    found = team(total_latency=1.5, total_cost=0.02)
    assert (found.latency, found.cost) == (1.5, 0.02)
    assert (team().latency, team().cost) == (None, None)
    assert scores(evaluate(team(total_latency=4.0), metrics=["latency_score"])) == {
        "latency_score": 0.5
    }


# What the objects take


def test_tool_calls_take_the_names_of_other_frameworks() -> None:
    calls = [
        ToolCall(name="f", arguments={"x": 1}),
        ToolCall(tool_name="f", parameters={"x": 1}),  # pyright: ignore[reportCallIssue]
        ToolCall.model_validate({"name": "f", "args": {"x": 1}}),
    ]
    assert calls[0] == calls[1] == calls[2]
    assert (calls[0].status, calls[0].timestamp) == ("pending", None)


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (AgentTrace, {"turn_id": 1}),
        (Message, {"role": "robot"}),
        (Message, {"role": "user", "contents": "q"}),
        (ToolCall, {"name": "f", "status": "fine"}),
        (ToolCall, {"arguments": {}}),
        (GroundTruth, {"expected": "a"}),
        (Message, {"role": "assistant", "input_tokens": 2**63}),
        (ToolCall, {"name": "f", "message_index": -(2**63) - 1}),
    ],
)
def test_what_does_not_fit_is_refused(kind: Any, fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        kind(**fields)


def test_results_go_to_json_and_back() -> None:
    result = evaluate(called("f", latency=3.0), metrics=["latency_score", "parameter_quality"])
    again = EvaluationResult.model_validate_json(result.model_dump_json())
    assert timeless(again) == timeless(result)
    assert again.timestamp == result.timestamp
    assert [type(d) for d in again.dimension_results] == [DimensionResult] * 2
    held = team(total_latency=1.0, coordination_events=[CoordinationEvent(to_agent="y")])
    assert MultiAgentTrace.model_validate_json(held.model_dump_json()) == held


# Traces become tables and come back

SAMPLES = sorted((Path(__file__).parent / "samples" / "langgraph").glob("*.jsonl"))
UNREADABLE = ("REJECT", "UNRECOVERABLE")


def recorded(path: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [{k: v for k, v in line.items() if not k.startswith("_")} for line in lines]


def differences(one: Conversations, other: Conversations, *aside: str) -> list[str]:
    """Columns that are not the same in both."""
    return [
        f"{name}.{column}"
        for name, frame in one.frames().items()
        for column in frame.columns
        if column not in aside
        and not frame[column].equals(other.frames()[name][column], null_equal=True)
    ]


@pytest.mark.parametrize(
    "path", [p for p in SAMPLES if not any(u in p.name for u in UNREADABLE)], ids=lambda p: p.stem
)
def test_recorded_conversations_survive_being_objects(path: Path) -> None:
    tables = LangGraphAdapter().to_conversations(recorded(path))
    again = Conversations.from_traces(tables.to_traces())
    assert differences(tables, again, "turn_id") == []
    again.validate()


def odd_conversations() -> Conversations:
    """What recorded samples do not show: odd numbers, extra fields, calls without an end."""
    step = [
        update("x", ai("I look", "1", call("f", "c"), name="x", usage=(3, 1))),
        update("tools", tool("r", "c", "2", status="error"), tool("stray", "zz", "3")),
        update("y", ai("done", "4", name="y")),
    ]
    langgraph = LangGraphAdapter().to_conversations(
        [
            payload("team", 30, *step, workflow_status="done", latency=-1, cost_usd=float("nan")),
            payload("team", 40, {"__interrupt__": [{"value": "Sure?", "id": "i"}]}, said=None),
            payload(
                "fields",
                7,
                update("m", ai("the answer")),
                response="what a log says",
                notes=["a", "b"],
                interrupted="no",
                quality_score=0.5,
                completeness_score=0.25,
                throughput_rps=3,
                metadata={"nested": {"b": 1.0, "a": [None, True]}, "workflow_status": {"ok": True}},
            ),
            payload("calls", 1, update("m", ai("Let me look", "1", call("f", "c")))),
            payload("silent", 1, said=None),
        ]
    )
    chat = OpenAIMessagesAdapter().to_conversations(
        [
            {
                "session_id": "chat",
                "messages": [
                    {"role": "user", "content": "q"},
                    {
                        "role": "assistant",
                        "content": None,
                        "tool_calls": [
                            {"id": "x", "function": {"name": "f", "arguments": "{oops"}}
                        ],
                    },
                    {"role": "user", "content": "r"},
                    {"role": "assistant", "content": "a", "name": "bot"},
                ],
                "quality_score": "unknown",
                "completeness_score": 0.5,
                "response": "x",
            }
        ]
    )
    return Conversations.concat([langgraph, chat])


def test_odd_conversations_survive_being_objects() -> None:
    tables = odd_conversations().validate()
    again = Conversations.from_traces(tables.to_traces())
    assert differences(tables, again, "turn_id") == []
    assert again.turns["turn_id"].to_list() == [1, 2, 1, 1, 1, 1, 2]
    assert tables.turns["turn_id"].to_list() == [30, 40, 7, 1, 1, 1, 2]


def test_a_payloads_own_fields_are_not_taken_for_what_reading_found() -> None:
    turn = payload("s", 1, update("m", ai("the answer")), response="a log", notes=["x"])
    held = LangGraphAdapter().transform_to_canonical([turn])[0]
    found = held["full_trace"].metadata
    assert (found["response"], found["notes"]) == ("a log", ["x"])
    tables = Conversations.from_traces([held])
    assert tables.turns["response"].to_list() == ["the answer"]
    result = evaluate(held, metrics=["turn_efficiency"])
    assert result.warnings == []


def test_raw_records_and_their_traces_are_evaluated_alike() -> None:
    chat = {
        "session_id": "s",
        "messages": [
            {"role": "user", "content": "q"},
            {
                "role": "assistant",
                "content": "a",
                "usage": {"prompt_tokens": 1000, "completion_tokens": 1000},
            },
        ],
        "quality_score": 0.8,
        "completeness_score": 0.5,
    }
    names = ["token_efficiency", "turn_efficiency"]
    raw = batch_evaluate([chat], metrics=names, adapter="openai")
    held = batch_evaluate(OpenAIMessagesAdapter().transform_to_canonical([chat]), metrics=names)
    assert timeless(raw) == timeless(held)
    # 0.8 / root of 2000 / 1000; half of a short conversation.
    assert scores(raw[0]) == pytest.approx(
        {"token_efficiency": 0.5656854249492381, "turn_efficiency": 0.5}
    )


def test_traces_become_conversations_of_one_turn() -> None:
    items = [
        trace(session_id="s", latency=1.5, input_tokens=3, cost=0.5),
        trace(trace_id="named"),
        trace(),
        session("dict", trace(), team()) | {"per_turn_traces": [team(), team()]},
    ]
    before = copy.deepcopy(items)
    tables = Conversations.from_traces(items).validate()
    assert tables.session_ids == ["s", "named", "session-2", "dict"]
    assert (len(tables), tables.num_turns) == (4, 5)
    shown = tables.turns.select("turn_id", "topology", "query", "response", "latency_s", "cost_usd")
    assert shown.rows() == [
        (1, "single", "q", "a", 1.5, 0.5),
        (1, "single", "q", "a", None, None),
        (1, "single", "q", "a", None, None),
        (1, "multi", "q", "x2", None, None),
        (2, "multi", "q", "x2", None, None),
    ]
    assert items == before


def test_conversations_need_a_name_of_their_own() -> None:
    with pytest.raises(ConfigError, match="two conversations are called 's'"):
        Conversations.from_traces([trace(session_id="s"), session("s", trace())])
    items: Any = [7]
    with pytest.raises(ConfigError, match="expected an AgentTrace"):
        Conversations.from_traces(items)


# Tables: a folder of Parquet, joining, filtering, checking


def test_conversations_survive_a_folder_of_parquet(tmp_path: Path) -> None:
    for name, tables in (("full", odd_conversations()), ("empty", Conversations.empty())):
        folder = tables.write_parquet(tmp_path / "deep" / name)
        assert sorted(p.name for p in folder.iterdir()) == [
            *("handoffs.parquet", "messages.parquet", "tool_calls.parquet", "turns.parquet")
        ]
        again = Conversations.read_parquet(folder)
        assert differences(tables, again) == []
        assert [f.schema for f in again.frames().values()] == [
            f.schema for f in tables.frames().values()
        ]
    with pytest.raises(ConfigError, match=r"holds no turns\.parquet: these are no conversations"):
        Conversations.read_parquet(tmp_path)


def test_parts_are_joined_and_numbered_anew() -> None:
    whole = odd_conversations()
    one, other = whole.filter(["chat", "team"]), whole.filter(["fields", "unknown"])
    # In the order they have here, not the one asked for.
    assert one.session_ids == ["team", "chat"]
    assert one.turns["session_index"].to_list() == [0, 0, 1, 1]
    assert set(one.tool_calls["session_id"]) == {"team", "chat"}
    assert other.session_ids == ["fields"]
    joined = Conversations.concat([other, one]).validate()
    assert joined.session_ids == ["fields", "team", "chat"]
    assert joined.turns["session_index"].to_list() == [0, 1, 1, 2, 2]
    assert joined.messages.height == one.messages.height + other.messages.height
    with pytest.raises(ConfigError, match="'fields' is in more than one part"):
        Conversations.concat([other, whole])
    assert len(Conversations.concat([])) == len(whole.filter([])) == 0
    assert Conversations.concat([Conversations.empty(), one]).session_ids == ["team", "chat"]


def test_tables_that_break_a_rule_do_not_validate() -> None:
    whole = odd_conversations()
    stray = Conversations(
        whole.turns.filter(pl.col("session_id") != "chat"),
        whole.messages,
        whole.tool_calls,
        whole.handoffs,
    )
    with pytest.raises(Exception, match="'of_a_turn' failed"):
        stray.validate()
    twice = Conversations(
        pl.concat([whole.turns] * 2), whole.messages, whole.tool_calls, whole.handoffs
    )
    with pytest.raises(Exception, match="'primary_key' failed"):
        twice.validate()


def test_tables_are_arrow() -> None:
    messages = odd_conversations().messages
    assert pl.from_arrow(messages.to_arrow()).equals(messages)  # pyright: ignore[reportAttributeAccessIssue]


def test_conversations_show_themselves() -> None:
    tables = Conversations.from_traces([called("f", session_id="<b>s</b>")])
    assert repr(tables) == "Conversations(1 sessions, 1 turns, 2 messages, 1 tool calls)"
    shown = tables._repr_html_()
    assert repr(tables) in shown
    assert "<b>s</b>" not in shown
