"""Plays every scripted session on the real graphs and writes the payloads and their ground truth.

Three agents play them: the one that the scripts describe, and two that are worse.

`python data/record.py [--out DIR]` writes the same bytes every time: latency is the sum of what
each step declares, never a clock's, and random ids are replaced by numbered ones.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import uuid
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from booking_agent import (
    INSTRUCTIONS,
    ROLE,
    TEAM_INSTRUCTIONS,
    Script,
    ScriptError,
    single_agent,
    team,
    thinking_seconds,
)
from langchain_core.messages import BaseMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from scenarios import SESSIONS
from scenarios.variants import careless, slow
from travel_world import ProviderDown, World

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from scenarios.parts import Session, Turn

HERE = Path(__file__).parent
DOLLARS_PER_INPUT_TOKEN = 3e-6
DOLLARS_PER_OUTPUT_TOKEN = 15e-6

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_NAMESPACE = uuid.UUID("6f1b7c52-3d0e-5a4f-9c88-0b6a4e2d1f37")


class StableIds:
    """Replaces the random ids of one session by ones that depend on the order of appearance."""

    def __init__(self, session_id: str) -> None:
        self._session_id = session_id
        self._known: dict[str, str] = {}

    def replace_in(self, text: str) -> str:
        """The text with every UUID in it exchanged, the same one always for the same one."""
        return _UUID.sub(lambda found: self._stable(found[0]), text)

    def _stable(self, original: str) -> str:
        if original not in self._known:
            name = f"{self._session_id}/{len(self._known)}"
            self._known[original] = str(uuid.uuid5(_NAMESPACE, name))
        return self._known[original]


def plain(value: Any) -> Any:
    """The value as JSON has it, with messages as their `model_dump()`."""
    if isinstance(value, BaseMessage):
        return plain(value.model_dump())
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in cast("dict[Any, Any]", value).items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in cast("list[Any]", value)]
    return value


def run_turn(graph: Any, session_id: str, turn: Turn) -> list[Any]:
    """The events of one turn; where the run fails, those that came before."""
    config = {
        "configurable": {"thread_id": session_id},
        # Parallel tools would finish in an order that depends on the machine.
        "max_concurrency": 1,
    }
    said = {"messages": [HumanMessage(turn.user)]}
    events: list[Any] = [{"__human__": {"messages": [HumanMessage(turn.user)]}}]
    try:
        for event in graph.stream(said, config, stream_mode="updates"):
            events.append(event)  # noqa: PERF402 - what came before an exception must be kept
    except ProviderDown:
        if not turn.fails:
            raise
    else:
        if turn.fails:
            raise ScriptError(f"{session_id}: the run was to fail: {turn.user}")
    return events


def payloads(session: Session) -> Iterator[dict[str, Any]]:
    """One payload a turn, all turns with the same memory."""
    script = Script(session.session_id)
    build = team if session.team else single_agent
    graph = build(script, World(outages=dict(session.outages)), InMemorySaver())
    for number, turn in enumerate(session.turns, start=1):
        script.steps.extend(turn.steps)
        events = run_turn(graph, session.session_id, turn)
        spent = script.settle()
        cost = (
            spent.input_tokens * DOLLARS_PER_INPUT_TOKEN
            + spent.output_tokens * DOLLARS_PER_OUTPUT_TOKEN
        )
        payload = {
            "session_id": session.session_id,
            "turn_id": number,
            "stream_events": plain(events),
            "latency": round(spent.seconds, 3),
            "input_tokens": spent.input_tokens,
            "output_tokens": spent.output_tokens,
            "cost_usd": round(cost, 6),
        }
        yield {key: value for key, value in payload.items() if key not in turn.unknown}


def ground_truth(session: Session) -> dict[str, Any]:
    """What the session should have been, one row."""
    row: dict[str, Any] = {
        "session_id": session.session_id,
        "per_turn_expected": [turn.expected for turn in session.turns],
        "per_turn_expected_tool_calls": [
            None if calls is None else [asdict(call) for call in calls]
            for calls in (turn.true_calls() for turn in session.turns)
        ],
    }
    if session.expected_output is not None:
        row["expected_output"] = session.expected_output
    return row | {
        "chatbot_role": ROLE,
        "system_instructions": TEAM_INSTRUCTIONS if session.team else INSTRUCTIONS,
        "context_documents": session.context_documents,
        "scenario": session.scenario,
        "mistake": session.mistake,
    }


def recorded_lines(sessions: Iterable[Session]) -> Iterator[str]:
    """All payloads as JSON lines."""
    for session in sessions:
        ids = StableIds(session.session_id)
        for payload in payloads(session):
            yield ids.replace_in(_json(payload))


def _json(row: dict[str, Any]) -> str:
    return json.dumps(row, ensure_ascii=False, allow_nan=False)


def _write(path: Path, lines: Iterable[str]) -> int:
    written = list(lines)
    path.write_text("".join(f"{line}\n" for line in written), encoding="utf-8", newline="\n")
    return len(written)


def main() -> None:
    """Record into `--out`, by default beside this file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=HERE, help="folder to write to")
    out: Path = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    # Whoever has tracing on for their own agents does not want these runs in it.
    os.environ["LANGSMITH_TRACING"] = os.environ["LANGCHAIN_TRACING_V2"] = "false"
    agents = {
        "booking": SESSIONS,
        "booking_careless": [careless(session, thinking_seconds) for session in SESSIONS],
        "booking_slow": [slow(session, thinking_seconds) for session in SESSIONS],
    }
    for agent, played in agents.items():
        turns = _write(out / f"{agent}.jsonl", recorded_lines(played))
        print(f"{agent}: {turns} turns")
    sessions = _write(out / "booking_ground_truth.jsonl", map(_json, map(ground_truth, SESSIONS)))
    print(f"{sessions} sessions in {out}")


if __name__ == "__main__":
    main()
