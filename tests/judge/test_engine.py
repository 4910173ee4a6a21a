"""The engine against an endpoint that fails in every way: what comes out, and what was sent."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from tests.judge.asking import ask, judge, texts
from uaef_frames import ConfigError, Judge, JudgeError, Price

if TYPE_CHECKING:
    from pathlib import Path

    from tests.judge_server import JudgeServer

TRANSPORT_FAULTS = {"429": 0.02, "429_retry_after": 0.01, "500": 0.02, "503": 0.01, "408": 0.01}
BROKEN_BODIES = {
    "error_200": 0.01,
    "reset": 0.01,
    "half_body": 0.01,
    "truncated_json": 0.01,
    "html": 0.01,
    "empty": 0.01,
}


def test_every_question_gets_its_verdict_and_is_asked_once(server: JudgeServer) -> None:
    found = ask(judge(server), texts(300))
    assert found["score"].to_list() == [0.75] * 300
    assert found["unit"].to_list() == list(range(300))
    assert server.counts()["total"] == 300
    assert found["model"].unique().to_list() == ["small-2026-11-01"]
    assert found["input_tokens"].min() > 0
    assert found["cached_input_tokens"].min() > 0
    assert not found["cached"].any()


def test_2000_calls_with_one_in_ten_faulty_give_2000_verdicts_and_pay_each_once(
    server: JudgeServer,
) -> None:
    faults = {**TRANSPORT_FAULTS, "reset": 0.01, "half_body": 0.01, "503": 0.02}
    server.set(faults=faults, retry_after=0.2, seed=7)
    found = ask(judge(server, concurrency=64), texts(2000))
    assert found["score"].null_count() == 0
    counts = server.counts()
    assert counts["billed"] == 2000
    assert counts["duplicates"] == 0
    assert counts["total"] > 2150


def test_broken_bodies_are_tried_again(server: JudgeServer) -> None:
    server.set(faults=BROKEN_BODIES, seed=3)
    found = ask(judge(server), texts(400))
    assert found["score"].null_count() == 0


@pytest.mark.parametrize("fault", ["hang", "drip"])
def test_a_slow_answer_is_given_up_in_time_and_asked_again(server: JudgeServer, fault: str) -> None:
    server.set(fault_plan=[None, fault])
    began = time.monotonic()
    found = ask(judge(server, timeout_s=1.0, concurrency=2), texts(4))
    assert found["score"].null_count() == 0
    assert time.monotonic() - began < 5


def test_what_fails_for_good_is_null_and_the_others_go_on(server: JudgeServer) -> None:
    server.set(context_limit_chars=4_000)
    found = ask(judge(server), ["short and polite", "x " * 3_000, "thanks"])
    assert found["warning"].to_list() == [None, "api_error", None]
    assert "maximum context length" in found["error"][1]
    assert server.counts()["total"] == 3


def test_an_endpoint_that_is_down_does_not_hold_a_run_for_hours(server: JudgeServer) -> None:
    server.set(fault_always="500")
    began = time.monotonic()
    found = ask(judge(server, max_retries=2, concurrency=64), texts(1500))
    assert set(found["warning"]) == {"api_error"}
    assert time.monotonic() - began < 30
    assert server.counts()["total"] < 2000


def test_nobody_listens(server: JudgeServer) -> None:
    found = ask(Judge("m", base_url="http://127.0.0.1:9/v1", max_retries=1, timeout_s=2), texts(3))
    assert found["warning"].to_list() == ["api_error"] * 3
    assert "connection" in found["error"][0]


@pytest.mark.parametrize(
    ("behaviour", "words"),
    [
        ({"require_key": "right"}, "refuses the API key"),
        ({"status": 403}, "does not permit"),
        ({"status": 404}, "usually ends in /v1"),
        ({"models": ["large"]}, "has no model 'small'"),
        ({"quota": True}, "no quota left"),
    ],
)
def test_what_no_request_survives_stops_the_run_at_once(
    server: JudgeServer, behaviour: dict[str, Any], words: str
) -> None:
    server.set(**behaviour)
    with pytest.raises(JudgeError, match=words):
        ask(judge(server, api_key="sk-wrong-secret"), texts(200))
    assert server.counts()["total"] <= 2


def test_what_is_done_before_a_fatal_error_is_kept(server: JudgeServer, tmp_path: Path) -> None:
    asked = judge(server, cache=tmp_path / "c.sqlite")
    ask(asked, texts(50))
    server.set(quota=True)
    with pytest.raises(JudgeError):
        ask(asked, texts(60))
    server.set()
    server.reset()
    assert ask(asked, texts(60))["score"].null_count() == 0
    assert server.counts()["total"] == 10


def test_the_key_shows_nowhere(server: JudgeServer, tmp_path: Path) -> None:
    key = "sk-very-secret-123"
    asked = judge(server, api_key=key, cache=tmp_path / "c.sqlite")
    ask(asked, texts(3))
    assert key not in repr(asked)
    assert key not in str(asked.settings())
    assert key.encode() not in b"".join(f.read_bytes() for f in tmp_path.glob("c.sqlite*"))
    server.set(require_key="other")
    with pytest.raises(JudgeError) as caught:
        ask(judge(server, api_key=key, cache=None), texts(3))
    assert key not in str(caught.value)
    assert caught.value.__cause__ is None


def test_same_questions_are_asked_once(server: JudgeServer) -> None:
    found = ask(judge(server, cache=None), texts(20) * 50)
    assert server.counts()["total"] == 20
    assert found.height == 1000
    assert found["score"].null_count() == 0
    assert found["cached"].sum() == 980


def test_a_second_run_makes_no_request(server: JudgeServer) -> None:
    first = ask(judge(server), texts(100))
    server.reset()
    second = ask(judge(server), texts(100))
    assert server.counts()["total"] == 0
    assert second["score"].to_list() == first["score"].to_list()
    assert second["cached"].all()
    assert second["request_key"].to_list() == first["request_key"].to_list()
    assert second["input_tokens"].to_list() == first["input_tokens"].to_list()


@pytest.mark.parametrize(
    "change",
    [
        {"temperature": 0.5},
        {"max_tokens": 500},
        {"seed": 1},
        {"extra_body": {"top_p": 0.9}},
    ],
)
def test_another_parameter_is_another_request(server: JudgeServer, change: dict[str, Any]) -> None:
    ask(judge(server), texts(2))
    ask(judge(server, **change), texts(2))
    assert server.counts()["total"] == 4


def test_pace_and_patience_are_no_part_of_a_request(server: JudgeServer) -> None:
    ask(judge(server), texts(2))
    ask(judge(server, concurrency=2, timeout_s=9, max_retries=1, requests_per_minute=6e5), texts(2))
    assert server.counts()["total"] == 2


def test_votes_are_asked_each_and_told_apart(server: JudgeServer) -> None:
    found = ask(judge(server, votes=3, temperature=0.8, seed=5), texts(4))
    assert found.height == 12
    assert server.counts()["total"] == 12
    assert sorted({r["body"]["seed"] for r in server.requests()}) == [5, 6, 7]
    server.reset()
    ask(judge(server, votes=4, temperature=0.8, seed=5), texts(4))
    assert server.counts()["total"] == 4


def test_concurrency_is_never_exceeded_and_gives_way_to_429(server: JudgeServer) -> None:
    server.set(delay=0.02, max_concurrent=10)
    found = ask(judge(server, concurrency=48), texts(400))
    counts = server.counts()
    assert found["score"].null_count() == 0
    assert counts["max_in_flight"] <= 48
    # Halving finds the limit: refusals are few against a client that keeps pushing 48.
    assert counts["by_status"]["429"] < 200


def test_retry_after_is_honoured(server: JudgeServer) -> None:
    server.set(fault_plan=["429_retry_after"], retry_after=1.2)
    ask(judge(server), texts(1))
    first, second = (r["at"] for r in server.requests())
    assert second - first >= 1.2


def test_a_long_retry_after_holds_everyone_back(server: JudgeServer) -> None:
    server.set(fault_plan=[None] * 4 + ["429_retry_after"], retry_after=2.5, delay=0.05)
    ask(judge(server, concurrency=4), texts(40))
    times = sorted(r["at"] for r in server.requests())
    gaps = [b - a for a, b in itertools.pairwise(times)]
    assert max(gaps) > 2.0


def test_rate_headers_that_say_none_is_left_are_heeded(server: JudgeServer) -> None:
    headers = {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "800ms"}
    server.set(rate_headers=headers)
    began = time.monotonic()
    ask(judge(server, concurrency=1), texts(3))
    assert time.monotonic() - began > 1.5
    server.set(rate_headers={"x-ratelimit-remaining-requests": "-1"})
    began = time.monotonic()
    ask(judge(server, concurrency=1, cache=None), texts(3))
    assert time.monotonic() - began < 1.5


def test_requests_per_minute_are_kept_to(server: JudgeServer) -> None:
    ask(judge(server, requests_per_minute=1200), texts(31))
    times = [r["at"] for r in server.requests()]
    assert max(times) - min(times) > 30 * 60 / 1200 * 0.9


def test_tokens_per_minute_are_kept_to(server: JudgeServer) -> None:
    tokens = ask(judge(server, cache=None), texts(1)).select("input_tokens", "output_tokens")
    one = sum(tokens.row(0))
    server.reset()
    ask(judge(server, tokens_per_minute=one * 600, cache=None), texts(21))
    times = [r["at"] for r in server.requests()]
    assert 1.4 < max(times) - min(times) < 4


def test_the_budget_stops_new_calls_and_says_so(server: JudgeServer) -> None:
    price = Price(input=10.0, output=20.0)
    one = ask(judge(server, price=price, cache=None), texts(1))["cost_usd"][0]
    server.set(delay=0.01)
    server.reset()
    found = ask(judge(server, price=price, budget_usd=20.5 * one), texts(200))
    counts = Counter(found["warning"])
    assert 15 <= counts[None] <= 21
    assert counts["budget_exhausted"] == 200 - counts[None]
    assert found["cost_usd"].sum() <= 20.5 * one * 1.01
    assert server.counts()["total"] == counts[None]
    # The rest is asked for by the next evaluation, and only the rest.
    server.reset()
    again = ask(judge(server, price=price), texts(200))
    assert again["score"].null_count() == 0
    assert server.counts()["total"] == 200 - counts[None]


def test_a_budget_without_a_price_is_refused() -> None:
    with pytest.raises(ConfigError, match="needs a price"):
        Judge("unheard-of", budget_usd=1.0)


def test_cost_is_null_where_the_price_is_unknown_and_counts_cached_tokens_cheaper(
    server: JudgeServer,
) -> None:
    assert ask(judge(server, cache=None), texts(1))["cost_usd"][0] is None
    price = Price(input=10.0, output=0.0, cached_input=1.0)
    row = ask(judge(server, price=price, cache=None), texts(1)).row(0, named=True)
    fresh = row["input_tokens"] - row["cached_input_tokens"]
    assert row["cost_usd"] == pytest.approx((fresh * 10 + row["cached_input_tokens"]) / 1e6)


def test_progress_adds_up(server: JudgeServer) -> None:
    seen: list[Any] = []
    ask(judge(server, progress=seen.append), texts(120) * 2)
    last = seen[-1]
    assert (last.done, last.total, last.calls, last.cached, last.failed) == (240, 240, 120, 120, 0)
    assert "240/240" in str(last)
    assert last.input_tokens > 0


def test_nothing_to_ask(server: JudgeServer) -> None:
    assert ask(judge(server), []).height == 0
    assert server.counts()["total"] == 0


def test_a_cache_that_is_none_is_told(server: JudgeServer, tmp_path: Path) -> None:
    (tmp_path / "c.sqlite").write_bytes(b"this is no database, and long enough to be one" * 50)
    with pytest.raises(JudgeError, match="cannot be used"):
        ask(judge(server, cache=tmp_path / "c.sqlite"), texts(1))
    with pytest.raises(JudgeError, match="cannot be used"):
        ask(judge(server, cache=tmp_path), texts(1))
