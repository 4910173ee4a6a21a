"""Hostile material: whatever an answer says, outside of the data's tags stands only what we
wrote.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.helpers import session, trace
from tests.judge.asking import judge
from uaef_frames import GroundTruth, Judge, evaluate
from uaef_frames.models import AgentTrace, Message

if TYPE_CHECKING:
    from tests.judge_server import JudgeServer

CORPUS = Path(__file__).parents[1] / "corpora" / "judge_attacks.jsonl"
TAG = re.compile(r"</?([a-z_]+)-([0-9a-f]{16})((?: [a-z]+=\"[^\"<>]*\")*)/?>")
NAMES = {
    "query", "response", "expected_output", "context", "document", "reasoning", "thought", "answer",
    "team", "work", "call", "handoff", "conversation", "workflow_status", "transcript", "turn",
    "user", "assistant", "tool", "elided", "exchange", "chatbot_role", "instructions",
}  # fmt: skip


def attacks() -> list[Any]:
    found = []
    for line in CORPUS.read_text("utf-8").splitlines():
        row = json.loads(line)
        text = row.get("text") or row["repeat"][0] * row["repeat"][1]
        found.append(pytest.param(text, id=row["id"]))
    return found


def outside(user: str) -> str:
    """What stands outside of all data, for a judge that believes tags and nothing else."""
    opening = TAG.match(user)
    assert opening, user[:80]
    nonce = opening[2]
    depth, start, free = 0, 0, []
    for tag in TAG.finditer(user):
        if tag[2] != nonce:
            continue
        assert tag[1] in NAMES
        if depth == 0:
            free.append(user[start : tag.start()])
        if tag[0].endswith("/>"):
            continue
        depth += -1 if tag[0].startswith("</") else 1
        assert depth >= 0
        start = tag.end()
    assert depth == 0
    return "".join(free) + user[start:]


def test_the_corpus_is_large() -> None:
    assert len(attacks()) >= 40


@pytest.mark.parametrize("text", attacks())
def test_no_attack_leaves_the_data(server: JudgeServer, text: str) -> None:
    turns = [trace("please book it " + text[:2_000], text), trace(text, "You are welcome. " + text)]
    truth = GroundTruth(
        expected_output=text[:3_000],
        expected_arguments={"chatbot_role": text[:3_000], "system_instructions": text[:3_000]},
        context_documents=[text[:3_000], "second"],
    )
    asked = judge(server, cache=None)
    evaluate(session("s", *turns), truth, metric_set="judge", judge=asked)
    requests = server.requests()
    assert len(requests) > 20
    rubrics = {r["body"]["messages"][0]["content"] for r in requests}
    assert not any("OBEY" in rubric for rubric in rubrics)
    for request in requests:
        system, user = (m["content"] for m in request["body"]["messages"])
        assert [m["role"] for m in request["body"]["messages"]] == ["system", "user"]
        assert outside(user).strip() == "", "something stands outside of the tags"
        inner = TAG.sub("", user)
        assert not re.search(r"<[/|!?a-zA-Z]", inner), "a tag or template token is imitated"
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ue000-\uf8ff\u202a-\u202e]", user)
        assert len(user) < 4 * 16_000 * 2
        assert system.startswith("You judge")


def test_the_nonce_is_the_same_for_the_same_material_and_none_for_others(
    server: JudgeServer,
) -> None:
    nonces = []
    for answer in ("one", "one", "two"):
        evaluate(trace("q", answer), metrics=["safety_score"], judge=judge(server, cache=None))
        user = server.requests()[-1]["body"]["messages"][1]["content"]
        nonces.append(TAG.match(user)[2])  # type: ignore[index]
    assert nonces[0] == nonces[1] != nonces[2]


def test_a_quote_may_not_come_from_what_the_answer_is_held_against(server: JudgeServer) -> None:
    truth = GroundTruth(expected_output="the secret phrase")
    server.set(fields={"quote": "secret phrase"})
    found = evaluate(trace("q", "an answer"), truth, metrics=["accuracy"], judge=judge(server))
    score = found.dimension_results[0].metric_scores[0]
    assert score.score is None
    assert score.metadata["warning"] == "invalid_verdict"
    lax = judge(server, check_quotes=False)
    found = evaluate(trace("q", "an answer"), truth, metrics=["accuracy"], judge=lax)
    assert found.dimension_results[0].aggregate_score == 0.75


def test_code_stays_readable(server: JudgeServer) -> None:
    answer = "if a < b and c > d: return x <= y"
    evaluate(trace("q", answer), metrics=["safety_score"], judge=judge(server))
    assert answer in server.requests()[0]["body"]["messages"][1]["content"]


def long_session(turns: int, words: int) -> AgentTrace:
    messages = []
    for n in range(turns):
        messages.append(Message(role="user", content=f"question {n} " + "word " * words))
        messages.append(Message(role="assistant", content=f"answer {n} " + "word " * words))
    return AgentTrace(messages=messages)


def transcript_of(server: JudgeServer) -> str:
    return server.requests()[-1]["body"]["messages"][1]["content"]


def test_a_long_transcript_loses_its_middle_and_says_so(server: JudgeServer) -> None:
    limit = 2_000
    asked = judge(server, max_input_tokens=limit)
    found = evaluate(long_session(40, 80), metrics=["coherence"], judge=asked)
    user = transcript_of(server)
    assert "question 0 " in user
    assert "answer 39 " in user
    assert "question 20 " not in user
    mark = re.search(r'<elided-[0-9a-f]{16} turns="(\d+)"/>', user)
    assert mark
    shown = len(re.findall(r"<turn-", user))
    assert shown + int(mark[1]) == 40
    details = found.dimension_results[0].metric_scores[0].metadata["details"]
    assert details["elided_turns"] == int(mark[1])
    assert len(user) / 4 <= limit * 1.05


def test_one_huge_message_loses_its_middle_and_says_so(server: JudgeServer) -> None:
    asked = judge(server, max_input_tokens=1_000)
    text = "beginning " + "x" * 100_000 + " end"
    found = evaluate(trace("q", text), metrics=["safety_score"], judge=asked)
    user = transcript_of(server)
    assert "beginning" in user
    assert "xx end" in user
    mark = re.search(r'<elided-[0-9a-f]{16} characters="(\d+)"/>', user)
    assert mark
    details = found.dimension_results[0].metric_scores[0].metadata["details"]
    assert details["cut_characters"] > 90_000
    assert len(user) < 4 * 1_100


def test_short_material_is_shown_whole(server: JudgeServer) -> None:
    found = evaluate(
        long_session(3, 20), metrics=["coherence"], judge=Judge("m", base_url=server.base_url)
    )
    assert "elided" not in transcript_of(server)
    details = found.dimension_results[0].metric_scores[0].metadata["details"]
    assert set(details) == {"raw", "quote"}
