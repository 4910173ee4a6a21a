"""The naive way: the tests' oracle, called once a turn, as a loop over records would.

Only a yardstick for the benchmark: reads the generator's payloads and no others.
"""

from __future__ import annotations

from typing import Any

from tests import oracle


def score_session(payloads: list[dict[str, Any]], truth: dict[str, Any]) -> dict[str, list[Any]]:
    """Every deterministic metric of each turn, and turn_efficiency of the session."""
    scores: dict[str, list[Any]] = {}
    said: list[tuple[str, str | None]] = []
    expected = truth["per_turn_expected_tool_calls"]
    for payload, tools in zip(payloads, expected, strict=True):
        messages = [
            m
            for event in payload["stream_events"]
            for update in event.values()
            for m in update["messages"]
        ]
        said += [(_ROLES[m["type"]], m["content"]) for m in messages]
        for name, found in _turn(payload, messages, tools).items():
            scores.setdefault(name, []).append(found)
    scores["turn_efficiency"] = [oracle.turn_efficiency(said, None)]
    return scores


_ROLES = {"human": "user", "ai": "assistant", "tool": "tool"}


def _turn(
    payload: dict[str, Any], messages: list[dict[str, Any]], tools: list[dict[str, Any]]
) -> dict[str, oracle.Oracle]:
    actual: list[oracle.Call] = [
        (c["name"], c["args"]) for m in messages for c in m.get("tool_calls", [])
    ]
    expected: list[oracle.Call] = [(c["name"], c["arguments"]) for c in tools]
    usage = [m["usage_metadata"] for m in messages if "usage_metadata" in m]
    read = sum(u["input_tokens"] for u in usage)
    wrote = sum(u["output_tokens"] for u in usage)
    latency, cost = payload["latency"], payload["cost_usd"]
    return {
        "tool_selection_accuracy": oracle.tool_selection_accuracy(expected, actual),
        "tool_sequence_correctness": oracle.tool_sequence_correctness(expected, actual),
        "parameter_quality": oracle.parameter_quality(expected, actual),
        "mcp_compliance": oracle.mcp_compliance(actual, None),
        "prompt_injection_detection": oracle.prompt_injection_detection(
            [m["content"] for m in messages if m["type"] == "human"]
        ),
        "latency_score": oracle.latency_score(latency),
        "token_efficiency": oracle.token_efficiency(None, read, wrote),
        "cost_efficiency": oracle.cost_efficiency(None, cost),
        "throughput": oracle.throughput(latency, None),
        "agent_utilization": oracle.agent_utilization(None),
        "coordination_efficiency": oracle.coordination_efficiency(0, None),
    }
