"""Other people's conversations, read from the folder in UAEF_REAL_DATA; none is kept here."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from uaef_frames.adapters.langgraph.payloads import group_payloads
from uaef_frames.adapters.langgraph.reader import ReadOptions, read_session

FOLDER = os.environ.get("UAEF_REAL_DATA")
pytestmark = pytest.mark.skipif(FOLDER is None, reason="UAEF_REAL_DATA does not name a folder")


@pytest.mark.parametrize("name", ["tau_bench", "tau2_toolorchestra", "tooltalk"])
def test_nothing_of_real_conversations_is_lost(name: str) -> None:
    path = Path(FOLDER or "") / name / "payloads.jsonl"
    payloads = [json.loads(line) for line in path.read_text().splitlines()]
    records = {(p["session_id"], p["turn_id"]): p for p in payloads}
    for session_id, turns in group_payloads(payloads):
        session = read_session(session_id, turns, ReadOptions())
        assert session.topology == "single"
        for turn in session.turns:
            raw: list[dict[str, Any]] = [
                message
                for event in records[session_id, turn.turn_id]["stream_events"]
                for value in event.values()
                for message in value["messages"]
            ]
            assert [m.content for m in turn.messages] == [m["content"] or "" for m in raw]
            answers: dict[str, list[str]] = defaultdict(list)
            made: dict[str | None, list[str | None]] = defaultdict(list)
            for message in raw:
                if message["type"] == "tool":
                    answers[message["tool_call_id"]].append(message["content"])
            for call in turn.tool_calls:
                made[call.tool_call_id].append(call.result)
            assert made == answers
