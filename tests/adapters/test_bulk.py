"""The native reading of regular lines and the record-by-record one are the same reading."""

from __future__ import annotations

import json
import random
import re
import tempfile
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from uaef_frames.adapters.batches import Batch, BatchReader
from uaef_frames.adapters.langgraph import LangGraphAdapter
from uaef_frames.adapters.lines import LineIndex, Source, index_lines

if TYPE_CHECKING:
    from collections.abc import Callable

    from uaef_frames.conversations import Conversations

Payload = dict[str, Any]

TABLES = ("turns", "messages", "tool_calls", "handoffs")
TAME = [
    "It leaves at noon.",
    'He said "yes"',
    "C:\\temp\\new",
    "two\nlines\tand a tab",
    "größe 検索 😀 e\u0301",
    '{"status": "ok", "n": [1, 2.0]}',
    "null",
    '"quoted"',
    "\\",
    "a\u2028b\u00a0c",
    "true",
    "12",
]
WILD = [
    "",
    " ",
    "\n\t",
    "\u3000",
    "\x1c",
    "a\x00b",
    "\x7f\x85",
    "ends with a comma,}",
    '"tool_calls": {"a": NaN}',
    "[nan, inf]",
    "Returning structured response: {}",
    "Failed to parse structured output for tool 'x'",
    "Here is a summary of the conversation to date: nothing",
    "Model call limits exceeded: 3",
    "Successfully transferred to helper",
    "Transferring back to supervisor",
    "AIMessage(content='x')",
]
NUMBERS = ["0", "-1", "7", "1.0", "2.50", "-0.0", "1e3", "1E-2", "1e22", "0.1", "123456789012345"]
ODD_NUMBERS = [
    "-0",
    "1e400",
    "18446744073709551615",
    "18446744073709551616",
    "-9223372036854775809",
    "123456789012345678901234567890",
    "0.12345678901234567890123",
    "5e-324",
    "4.9406564584124654e-400",
]


def raw(text: str) -> str:
    """A value that is written as it stands, for what `json.dumps` would not write."""
    return f"§{text}§"


def dump(payload: Any, rnd: random.Random) -> bytes:
    """A line of JSON, in one of the ways in which people write it."""
    separators = rnd.choice([(",", ":"), (", ", ": "), (" ,", " : ")])
    text = json.dumps(payload, ensure_ascii=rnd.random() < 0.5, separators=separators)
    return re.sub(r'"(?:\\u00a7|§)(.*?)(?:\\u00a7|§)"', r"\1", text).encode("utf-8")


def text(rnd: random.Random, tame: bool) -> str:
    if not tame and rnd.random() < 0.3:
        return rnd.choice(WILD)
    return rnd.choice(TAME) + rnd.choice(["", " again", "", "\n"])


def value(rnd: random.Random, tame: bool, depth: int = 0) -> Any:
    kinds = ["text", "number", "constant"] + ["list", "object"] * (depth < 3)
    kind = rnd.choice(kinds)
    if kind == "text":
        return text(rnd, tame)
    if kind == "number":
        return raw(rnd.choice(NUMBERS if tame or rnd.random() < 0.8 else ODD_NUMBERS))
    if kind == "constant":
        return rnd.choice([True, False, None])
    if kind == "list":
        return [value(rnd, tame, depth + 1) for _ in range(rnd.randint(0, 3))]
    return arguments(rnd, tame, depth + 1)


def arguments(rnd: random.Random, tame: bool, depth: int = 0) -> dict[str, Any]:
    keys = rnd.sample(["b", "a", "Ab", "é", "", 'q"', "z\\", "\n"], rnd.randint(0, 4))
    return {key: value(rnd, tame, depth) for key in keys}


class Style:
    """What the messages of one session have in common."""

    def __init__(self, rnd: random.Random, sid: str, tame: bool) -> None:
        self.rnd, self.sid, self.tame = rnd, sid, tame
        self.ids = rnd.random() < 0.6
        self.node = rnd.choice(["model", "agent", "chatbot", "values", "event", "büro"])
        self.name = rnd.choice([None, None, "helper"])
        self.usage = rnd.random() < 0.6
        self.full = rnd.random() < 0.5
        self.count = 0

    def message(self, kind: str, **fields: Any) -> dict[str, Any]:
        self.count += 1
        message: dict[str, Any] = {"type": kind, **fields}
        if self.ids:
            message["id"] = f"{kind}-{self.sid}-{self.count}"
        if self.full:
            message |= {
                "additional_kwargs": {},
                "response_metadata": {"model_name": "m", "finish_reason": "stop"},
                "example": False,
            }
        items = list(message.items())
        self.rnd.shuffle(items)
        return dict(items)

    def ai(self, content: str | None, calls: list[dict[str, Any]]) -> dict[str, Any]:
        fields: dict[str, Any] = {"content": content, "tool_calls": calls}
        if self.name is not None:
            fields["name"] = self.name
        if self.full:
            fields["invalid_tool_calls"] = []
        if self.usage:
            read, wrote = self.rnd.randint(0, 900), self.rnd.randint(0, 90)
            fields["usage_metadata"] = {
                "input_tokens": read,
                "output_tokens": wrote,
                "total_tokens": read + wrote,
            }
        elif self.full:
            fields["usage_metadata"] = None
        return self.message("ai", **fields)

    def step(self) -> list[Payload]:
        """An agent's message with calls, and what the tools answered."""
        rnd = self.rnd
        calls = [
            {
                "name": rnd.choice(["search", "book", "größe", "transfer"]),
                "args": arguments(rnd, self.tame),
                "id": f"call-{self.sid}-{self.count}-{n}",
                "type": "tool_call",
            }
            for n in range(rnd.randint(1, 3))
        ]
        said = rnd.choice(["", "", None, text(rnd, self.tame)])
        results = [self._result(c) for c in calls if rnd.random() < 0.9]
        rnd.shuffle(results)
        events = [{self.node: {"messages": [self.ai(said, calls)]}}]
        if rnd.random() < 0.5:
            return events + [{"tools": {"messages": [r]}} for r in results]
        return events + ([{"tools": {"messages": results}}] if results else [])

    def _result(self, call: dict[str, Any]) -> dict[str, Any]:
        fields: dict[str, Any] = {
            "content": text(self.rnd, self.tame),
            "tool_call_id": call["id"],
            "name": call["name"],
        }
        status = self.rnd.choice(["success", "error", None, ""])
        if status != "":
            fields["status"] = status
        return self.message("tool", **fields)


def make_turn(style: Style, turn_id: int) -> Payload:
    rnd, tame = style.rnd, style.tame
    human = {"__human__": {"messages": [style.message("human", content=text(rnd, tame))]}}
    events: list[Payload] = []
    for _ in range(rnd.choice([0, 1, 1, 2])):
        events += style.step()
    if rnd.random() < 0.9 or not events:
        events.append({style.node: {"messages": [style.ai(text(rnd, tame), [])]}})
    place = rnd.choice([0, 0, 0, 0, 1, None])
    if place is not None:
        events.insert(place, human)
    payload: Payload = {"session_id": style.sid, "turn_id": turn_id, "stream_events": events}
    for name in (
        "latency",
        "input_tokens",
        "output_tokens",
        "cost_usd",
        "throughput_rps",
        "quality_score",
        "completeness_score",
    ):
        if rnd.random() < 0.3:
            payload[name] = rnd.choice([raw(rnd.choice(NUMBERS)), None, rnd.randint(0, 900)])
    return payload


def make_session(rnd: random.Random, sid: str, tame: bool = True, turns: int = 0) -> list[Payload]:
    style = Style(rnd, sid, tame)
    ids = rnd.sample(range(-1, 12), turns or rnd.randint(1, 4))
    payloads = [make_turn(style, turn_id) for turn_id in ids]
    if rnd.random() < 0.3:
        payloads = [dict(reversed(p.items())) for p in payloads]
    return payloads


def messages_of(payloads: list[Payload], *kinds: str) -> list[dict[str, Any]]:
    return [m for held in updates_of(payloads) for m in held["messages"] if m["type"] in kinds]


def updates_of(payloads: list[Payload]) -> list[dict[str, Any]]:
    return [u for p in payloads for event in p["stream_events"] for u in event.values()]


def calls_of(payloads: list[Payload]) -> list[dict[str, Any]]:
    return [c for m in messages_of(payloads, "ai") for c in m["tool_calls"]]


def one(rnd: random.Random, items: list[Any]) -> Any:
    """One of them; where there is none, something that can be changed without effect."""
    return rnd.choice(items) if items else {"messages": [], "tool_calls": [], "stream_events": []}


IRREGULAR: dict[str, Callable[[list[Payload], random.Random], object]] = {}


def irregular(change: Callable[[list[Payload], random.Random], object]) -> None:
    IRREGULAR[change.__name__] = change


def _field(name: str, kinds: tuple[str, ...], key: str, values: list[Any]) -> None:
    def change(payloads: list[Payload], rnd: random.Random) -> None:
        one(rnd, messages_of(payloads, *kinds))[key] = deepcopy(rnd.choice(values))

    IRREGULAR[name] = change


EVERY = ("human", "ai", "tool")
WRONG_TYPES = [True, False, raw("1.5"), raw("1e3"), raw("NaN"), ["x"], {"a": 1}, raw("9" * 30)]
_field("wild_text", EVERY, "content", WILD)
_field("content_of_another_type", EVERY, "content", [5, True, None, {"a": 1}, raw("1.5")])
_field(
    "content_blocks",
    EVERY,
    "content",
    [
        [{"type": "text", "text": "a"}, "b"],
        [],
        [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "so"}],
        [{"type": "tool_use", "id": "u1", "name": "search", "input": {"a": 1}}],
    ],
)
_field("numeric_id", EVERY, "id", [5, 0, raw("-0"), 2**53])
_field("id_of_another_type", EVERY, "id", WRONG_TYPES)
_field("empty_id", EVERY, "id", ["", "true", "1.5", "{}"])
_field("name_of_another_type", EVERY, "name", [*WRONG_TYPES, 7])
_field("another_name", ("ai",), "name", ["", "bob", "user", "a\x00b"])
_field("status_of_another_type", EVERY, "status", [*WRONG_TYPES, "ERROR", "error"])
_field("kind_of_another_type", EVERY, "type", [5, None, "AIMessage", "AIMessageChunk", "function"])
_field("wrong_tool_calls", EVERY, "tool_calls", ["x", {}, {"name": "f", "args": {}, "id": "i"}, 5])
_field("odd_tool_calls", EVERY, "tool_calls", [None, [None], ["f"], [5], [[]], [{}]])
_field("tool_call_id_of_another_type", ("tool",), "tool_call_id", [*WRONG_TYPES, 5, None, ""])
_field("unknown_call_id", ("tool",), "tool_call_id", ["nobody", None])
_field(
    "usage",
    EVERY,
    "usage_metadata",
    [
        {},
        "x",
        [],
        5,
        None,
        {"input_tokens": 5},
        {"prompt_tokens": 3, "completion_tokens": 4},
        {"input_tokens": raw("3.0"), "output_tokens": 4},
        {"input_tokens": "3", "output_tokens": 4},
        {"input_tokens": -3, "output_tokens": 4},
        {"input_tokens": True, "output_tokens": 4},
        {"input_tokens": 10**15, "output_tokens": 10**18},
        {"input_tokens": 2**63, "output_tokens": 4},
        {"input_tokens": 7, "output_tokens": 9},
    ],
)
_field(
    "additional_kwargs",
    EVERY,
    "additional_kwargs",
    [
        {"lc_source": "summarization"},
        {"refusal": None},
        {"reasoning_content": "hm"},
        {"tool_calls": [{"id": "k", "function": {"name": "f", "arguments": "{}"}}]},
        {"usage_metadata": {"input_tokens": 1, "output_tokens": 2}},
        [],
        "x",
        None,
    ],
)
_field(
    "response_metadata",
    EVERY,
    "response_metadata",
    [
        {"__handoff_destination": "bob"},
        {"__is_handoff_back": True},
        {"token_usage": {"prompt_tokens": 1, "completion_tokens": 2}},
        {"tokenUsage": {"promptTokens": 1, "completionTokens": 2}},
        {"usage": {"input_tokens": 1, "output_tokens": 2}},
        {"ends": ",}"},
        [],
        "x",
        None,
    ],
)
_field("invalid_tool_calls", EVERY, "invalid_tool_calls", [[{"name": "f", "args": "{"}], {}, "x"])
_field("role_too", EVERY, "role", ["assistant", "user", None, 5])
_field("reasoning", EVERY, "reasoning_content", ["hm", None, 5])
_field("usage_in_the_message", EVERY, "usage", [{"input_tokens": 1, "output_tokens": 2}, None])
_field("chunks", EVERY, "tool_call_chunks", [[], [{"name": "f", "args": "{}"}]])
_field("data_too", EVERY, "data", [{"content": "other"}, None, 5])
_field("another_key", EVERY, "artifact", [{"a": [raw("NaN")]}, {"b": 1}, raw("1e999"), None])


@irregular
def role_instead_of_type(payloads: list[Payload], rnd: random.Random) -> None:
    message = one(rnd, messages_of(payloads, *EVERY))
    message["role"] = {"human": "user", "ai": "assistant"}.get(message.pop("type", ""), "tool")


@irregular
def reused_id(payloads: list[Payload], rnd: random.Random) -> None:
    some = messages_of(payloads, *EVERY)
    one(rnd, some)["id"] = one(rnd, some).get("id", "x")


@irregular
def missing_id(payloads: list[Payload], rnd: random.Random) -> None:
    one(rnd, messages_of(payloads, *EVERY)).pop("id", None)


@irregular
def missing_content(payloads: list[Payload], rnd: random.Random) -> None:
    one(rnd, messages_of(payloads, *EVERY)).pop("content", None)


@irregular
def missing_tool_calls(payloads: list[Payload], rnd: random.Random) -> None:
    one(rnd, messages_of(payloads, "ai")).pop("tool_calls", None)


@irregular
def no_message_has_tool_calls(payloads: list[Payload], rnd: random.Random) -> None:
    for message in messages_of(payloads, "ai"):
        if not message["tool_calls"]:
            del message["tool_calls"]


@irregular
def a_message_again(payloads: list[Payload], rnd: random.Random) -> None:
    again = deepcopy(one(rnd, messages_of(payloads, *EVERY)))
    one(rnd, payloads)["stream_events"].append({"model": {"messages": [again]}})


@irregular
def history_again(payloads: list[Payload], rnd: random.Random) -> None:
    history = deepcopy(messages_of(payloads[:1], *EVERY))
    payloads[-1]["stream_events"].append({"model": {"messages": history}})


@irregular
def another_human(payloads: list[Payload], rnd: random.Random) -> None:
    message = {"type": "human", "content": text(rnd, tame=True)}
    node = rnd.choice(["__human__", "model", "tools"])
    one(rnd, payloads)["stream_events"].append({node: {"messages": [message]}})


@irregular
def two_humans_at_once(payloads: list[Payload], rnd: random.Random) -> None:
    both = [{"type": "human", "content": c} for c in ("one", "two")]
    one(rnd, payloads)["stream_events"].insert(0, {"__human__": {"messages": both}})


@irregular
def only_a_human(payloads: list[Payload], rnd: random.Random) -> None:
    asked = {"__human__": {"messages": [{"type": "human", "content": "and?"}]}}
    one(rnd, payloads)["stream_events"] = [asked]


@irregular
def a_silent_turn(payloads: list[Payload], rnd: random.Random) -> None:
    asked = {"__human__": {"messages": [{"type": "human", "content": "and?"}]}}
    quiet: Payload = {"guard": {"messages": []}}
    one(rnd, payloads)["stream_events"] = rnd.choice([[quiet], [asked, quiet], [asked, {}]])


@irregular
def a_system_message(payloads: list[Payload], rnd: random.Random) -> None:
    message = {"type": "system", "content": "be kind"}
    one(rnd, updates_of(payloads))["messages"].insert(0, message)


@irregular
def removal(payloads: list[Payload], rnd: random.Random) -> None:
    one(rnd, updates_of(payloads))["messages"].append({"type": "remove", "id": "x", "content": ""})


@irregular
def no_message(payloads: list[Payload], rnd: random.Random) -> None:
    one(rnd, updates_of(payloads))["messages"] = rnd.choice([[], None, "hello", {}, [[]], [None]])


@irregular
def an_update_of_another_form(payloads: list[Payload], rnd: random.Random) -> None:
    events = one(rnd, payloads)["stream_events"]
    odd: list[Any] = [None, {}, [], {"other": 1}, {"messages": []}, {"messages": [], "x": 1}]
    events.append({"guard": rnd.choice(odd)})


@irregular
def another_key_in_an_update(payloads: list[Payload], rnd: random.Random) -> None:
    update = one(rnd, updates_of(payloads))
    key = rnd.choice(["steps", "active_agent", "structured_response", "goto", "ns", "type"])
    update[key] = rnd.choice([None, "helper", {"a": 1}, 5])


@irregular
def edited_calls(payloads: list[Payload], rnd: random.Random) -> None:
    call = one(rnd, calls_of(payloads))
    edited = {str(call.get("id")): {"name": "book", "args": {"edited": 1}}}
    one(rnd, updates_of(payloads))["hitl_edited_tool_calls"] = edited


@irregular
def two_nodes_in_one_event(payloads: list[Payload], rnd: random.Random) -> None:
    one(rnd, one(rnd, payloads)["stream_events"])["second"] = {"messages": []}


@irregular
def another_node(payloads: list[Payload], rnd: random.Random) -> None:
    events = one(rnd, payloads)["stream_events"]
    at = rnd.randrange(len(events))
    names = ["messages", "Guard.before_model", "pre_model_hook", "__start__", "__human__", "writer"]
    (held,) = events[at].values()
    events[at] = {rnd.choice([*names, "__interrupt__", "", "updates", "tools"]): held}


@irregular
def interrupt(payloads: list[Payload], rnd: random.Random) -> None:
    asked = rnd.choice([[], [{"value": "sure?", "id": "i"}], None, {"messages": []}])
    one(rnd, payloads)["stream_events"].append({"__interrupt__": asked})


@irregular
def an_envelope(payloads: list[Payload], rnd: random.Random) -> None:
    payload = one(rnd, payloads)
    wrap = rnd.choice(
        [
            lambda e: ["updates", e],
            lambda e: [[], e],
            lambda e: [["team:1"], "updates", e],
            lambda e: {"type": "updates", "ns": [], "data": e},
            lambda e: {"event": "updates", "data": e},
        ]
    )
    payload["stream_events"] = [wrap(e) for e in payload["stream_events"]]


@irregular
def a_state(payloads: list[Payload], rnd: random.Random) -> None:
    state = {"messages": deepcopy(messages_of(payloads, *EVERY))}
    one(rnd, payloads)["stream_events"].append(state)


@irregular
def an_event_of_another_form(payloads: list[Payload], rnd: random.Random) -> None:
    odd: list[Any] = [None, 5, "AIMessage(content='x')", [], {}, {"a": 5}, {"a": "text"}]
    one(rnd, payloads)["stream_events"].append(rnd.choice(odd))


@irregular
def events_of_another_form(payloads: list[Payload], rnd: random.Random) -> None:
    odd: list[Any] = [None, [], {}, "x", 5, {"model": {"messages": []}}]
    payloads[-1]["stream_events"] = rnd.choice(odd)


@irregular
def handoff(payloads: list[Payload], rnd: random.Random) -> None:
    openings = ["transfer_to_helper", "transfer_back_to_x", "handoff_to_a", "hand_off_to_b"]
    one(rnd, calls_of(payloads))["name"] = rnd.choice([*openings, "pass_to_helper", "transfer_to_"])


@irregular
def a_repeated_call_id(payloads: list[Payload], rnd: random.Random) -> None:
    calls = calls_of(payloads)
    one(rnd, calls)["id"] = one(rnd, calls).get("id")


@irregular
def a_call_of_another_form(payloads: list[Payload], rnd: random.Random) -> None:
    call = one(rnd, calls_of(payloads))
    key = rnd.choice(["name", "id", "args"])
    call[key] = deepcopy(rnd.choice([*WRONG_TYPES, None, "", "{}", '{"a": 1}', "{", 5]))


@irregular
def a_call_without(payloads: list[Payload], rnd: random.Random) -> None:
    one(rnd, calls_of(payloads)).pop(rnd.choice(["name", "id", "args", "type"]), None)


@irregular
def a_call_as_openai_writes_it(payloads: list[Payload], rnd: random.Random) -> None:
    call = one(rnd, calls_of(payloads))
    call["function"] = {"name": call.get("name"), "arguments": '{"b": 1}'}
    if rnd.random() < 0.5:
        call.pop("args", None)


@irregular
def odd_arguments(payloads: list[Payload], rnd: random.Random) -> None:
    depth = rnd.choice([200, 300, 700, 1500])
    odd = [*ODD_NUMBERS, "NaN", "-Infinity", "[" * depth + "1" + "]" * depth]
    one(rnd, calls_of(payloads))["args"] = {"a": raw(rnd.choice(odd)), "b": rnd.choice([1, 1.0])}


@irregular
def a_result_later(payloads: list[Payload], rnd: random.Random) -> None:
    held = [e for p in payloads for e in p["stream_events"] if "tools" in e]
    event = one(rnd, held)
    for payload in payloads:
        payload["stream_events"] = [e for e in payload["stream_events"] if e is not event]
    payloads[-1]["stream_events"].append(deepcopy(event) or {"tools": {"messages": []}})


@irregular
def a_result_first(payloads: list[Payload], rnd: random.Random) -> None:
    events = one(rnd, payloads)["stream_events"]
    held = [e for e in events if "tools" in e]
    if held:
        events.remove(held[-1])
        events.insert(0, held[-1])


@irregular
def a_second_result(payloads: list[Payload], rnd: random.Random) -> None:
    again = deepcopy(one(rnd, messages_of(payloads, "tool")))
    again.pop("id", None)
    again["content"] = "another answer"
    one(rnd, payloads)["stream_events"].append({"tools": {"messages": [{"type": "tool", **again}]}})


@irregular
def a_turn_id_of_another_form(payloads: list[Payload], rnd: random.Random) -> None:
    odd: list[Any] = [raw("2.0"), "3", " 4 ", raw("1.5"), True, "two", None, 2**63, raw("1e1"), {}]
    payloads[-1]["turn_id"] = rnd.choice(odd)


@irregular
def a_turn_twice(payloads: list[Payload], rnd: random.Random) -> None:
    again = deepcopy(payloads[0])
    if rnd.random() < 0.5:
        again["turn_id"] = raw(f"{again['turn_id']}.0")
    payloads.append(again)


@irregular
def a_number_of_another_form(payloads: list[Payload], rnd: random.Random) -> None:
    name = rnd.choice(["latency", "input_tokens", "cost_usd", "quality_score"])
    odd: list[Any] = ["1.5", " 2 ", "", "fast", True, [], {}, "nan"]
    odd += [raw(n) for n in [*ODD_NUMBERS, "NaN", "Infinity", "-Infinity"]]
    one(rnd, payloads)[name] = rnd.choice(odd)


@irregular
def another_key_in_the_payload(payloads: list[Payload], rnd: random.Random) -> None:
    name = rnd.choice(["metadata", "workflow_status", "topology", "agents", "mcp", "_note", "__x"])
    odd = [None, "multi", ["helper"], {"quality_score": 0.5, "x": raw("1.0")}, "done", raw("NaN")]
    one(rnd, payloads)[name] = rnd.choice(odd)


@irregular
def a_session_without_a_name(payloads: list[Payload], rnd: random.Random) -> None:
    name = rnd.choice(["", "  ", "\t", "\u3000", "\x1c"])
    for payload in payloads:
        payload["session_id"] = name


@irregular
def a_numbered_session(payloads: list[Payload], rnd: random.Random) -> None:
    for payload in payloads:
        payload["session_id"] = 4711


DAMAGE: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "cut": lambda line, rnd: line[: rnd.randrange(30, len(line))],
    "trailing_comma": lambda line, rnd: line[:-1] + rnd.choice([b",}", b" , }", b",\t}"]),
    "trailing_comma_in_a_list": lambda line, rnd: re.sub(rb"\](?=[ ,}\]])", b",]", line, count=1),
    "not_a_number": lambda line, rnd: (
        line[:-1] + b', "_n": ' + rnd.choice([b"nan", b"-inf", b"NaN"]) + b"}"
    ),
    "a_lone_surrogate": lambda line, rnd: line[:-1] + b', "_n": "\\ud83d"}',
    "a_lone_surrogate_inside": lambda line, rnd: line.replace(b"noon", b"\\ud83d"),
    "not_utf8": lambda line, rnd: line.replace(b"noon", b"\xff\xfe"),
    "a_byte_order_mark": lambda line, rnd: b"\xef\xbb\xbf" + line,
    "spaces_around": lambda line, rnd: b" \t" + line + b" \r",
    "more_behind": lambda line, rnd: line + b" x",
    "a_control_character": lambda line, rnd: line.replace(b"noon", b"\x01"),
    "the_session_twice": lambda line, rnd: line[:-1] + b', "session_id": "other"}',
    "a_turn_twice": lambda line, rnd: line[:-1] + b', "turn_id": 77}',
    "a_number_twice": lambda line, rnd: line[:-1] + b', "latency": 1, "latency": 2}',
    "an_escaped_key": lambda line, rnd: line.replace(b'"latency"', b'"l\\u0061tency"'),
    "not_an_object": lambda line, rnd: b"[" + line + b"]",
}


def indexed(lines: list[bytes], folder: Path) -> tuple[LineIndex, pl.DataFrame]:
    """Lines as the dataset hands them to a reader: whole sessions in first-seen order."""
    path = folder / "payloads.jsonl"
    path.write_bytes(b"\n".join(lines) + b"\n")
    index = index_lines((Source("payloads.jsonl", path),))
    rows = index.lines.drop_nulls("session_id")
    order = rows.select(pl.col("session_id").unique(maintain_order=True)).with_row_index("place")
    placed = rows.join(order, on="session_id", how="left", maintain_order="left")
    return index, placed.sort("place", maintain_order=True).drop("place")


ADAPTER = LangGraphAdapter()
BULK = ADAPTER.bulk


def both_ways(lines: list[bytes]) -> tuple[Batch, Batch, list[str]]:
    """The batch read in bulk where it can be, the same one by one, and what bulk left alone."""
    assert BULK is not None
    left: list[str] = []

    def bulk(index: LineIndex, rows: pl.DataFrame) -> tuple[Conversations, list[str]]:
        regular, others = BULK(index, rows)
        left.extend(others)
        return regular, others

    with tempfile.TemporaryDirectory() as folder:
        index, rows = indexed(lines, Path(folder))
        quick = BatchReader(ADAPTER, bulk).read(index, rows)
        return quick, BatchReader(ADAPTER).read(index, rows), left


def assert_same(quick: Batch, careful: Batch) -> None:
    assert quick.rejects == careful.rejects
    assert quick.lines == careful.lines
    for name in TABLES:
        assert_frame_equal(getattr(quick.conversations, name), getattr(careful.conversations, name))


def shuffled(sessions: list[list[bytes]], rnd: random.Random) -> list[bytes]:
    """Lines of all sessions mixed, the first of each in the order of the sessions."""
    rest = [line for session in sessions for line in session[1:]]
    rnd.shuffle(rest)
    return [session[0] for session in sessions] + rest


RUNS = settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))


@RUNS
@given(st.integers(0, 2**32), st.integers(1, 5))
def test_regular_lines_are_read_in_bulk_and_the_same(seed: int, count: int) -> None:
    rnd = random.Random(seed)
    sessions = [make_session(rnd, f"s{n}") for n in range(count)]
    lines = shuffled([[dump(p, rnd) for p in s] for s in sessions], rnd)
    quick, careful, left = both_ways(lines)
    assert left == []
    assert_same(quick, careful)
    assert quick.rejects == []
    assert quick.conversations.turns.height == len(lines)
    quick.conversations.validate()


@pytest.mark.parametrize("seed", range(8))
def test_wild_texts_and_numbers_are_read_the_same(seed: int) -> None:
    rnd = random.Random(seed)
    sessions = [make_session(rnd, f"s{n}", tame=False) for n in range(40)]
    quick, careful, left = both_ways([dump(p, rnd) for s in sessions for p in s])
    assert_same(quick, careful)
    assert len(left) < 40


@pytest.mark.parametrize("name", IRREGULAR)
def test_an_irregularity_is_read_the_same(name: str) -> None:
    rnd = random.Random(name)
    sessions = [make_session(rnd, f"s{n}", turns=3) for n in range(16)]
    for payloads in sessions[1:]:
        IRREGULAR[name](payloads, rnd)
    quick, careful, left = both_ways([dump(p, rnd) for s in sessions for p in s])
    assert_same(quick, careful)
    assert "s0" not in left


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_line_is_read_the_same(name: str) -> None:
    rnd = random.Random(name)
    for number in range(6):
        sessions = [[dump(p, rnd) for p in make_session(rnd, f"s{n}", turns=2)] for n in range(3)]
        victim = sessions[rnd.randrange(3)]
        victim[number % 2] = DAMAGE[name](victim[number % 2], rnd)
        quick, careful, _ = both_ways([line for s in sessions for line in s])
        assert_same(quick, careful)


@RUNS
@given(
    st.integers(0, 2**32),
    st.lists(st.sampled_from([None, *IRREGULAR]), min_size=1, max_size=5),
    st.sampled_from([None, None, None, *DAMAGE]),
)
def test_mixed_lines_are_read_the_same(
    seed: int, changes: list[str | None], damage: str | None
) -> None:
    rnd = random.Random(seed)
    sessions: list[list[bytes]] = []
    for number, change in enumerate(changes):
        payloads = make_session(rnd, f"s{number}", tame=rnd.random() < 0.7)
        if change is not None:
            IRREGULAR[change](payloads, rnd)
        sessions.append([dump(p, rnd) for p in payloads])
    lines = shuffled(sessions, rnd)
    if damage is not None:
        at = rnd.randrange(len(lines))
        lines[at] = DAMAGE[damage](lines[at], rnd)
    quick, careful, _ = both_ways(lines)
    assert_same(quick, careful)


def test_one_irregular_session_leaves_the_others_in_bulk() -> None:
    rnd = random.Random(3)
    sessions = [make_session(rnd, f"s{n}", turns=2) for n in range(5)]
    IRREGULAR["an_envelope"](sessions[2], rnd)
    quick, careful, left = both_ways([dump(p, rnd) for s in sessions for p in s])
    assert left == ["s2"]
    assert_same(quick, careful)
    assert quick.conversations.turns["session_id"].unique(maintain_order=True).to_list() == [
        f"s{n}" for n in range(5)
    ]
