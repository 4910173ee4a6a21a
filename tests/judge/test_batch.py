"""Batch mode against a Batch API that fails, expires, and forgets to answer."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.judge.asking import ask, judge, texts
from uaef_frames import ConfigError, Judge, JudgeError, Price
from uaef_frames.judge import batch

if TYPE_CHECKING:
    from tests.judge_server import JudgeServer

ROOT = Path(__file__).parents[2]


def later(server: JudgeServer, **settings: Any) -> Judge:
    return judge(server, mode="batch", **settings)


def test_a_batch_gives_what_live_gives_at_half_the_price(server: JudgeServer) -> None:
    price = Price(10, 20)
    live = ask(judge(server, price=price, cache=None), texts(30))
    found = ask(later(server, price=price), texts(30))
    counts = server.counts()
    assert found["score"].to_list() == live["score"].to_list() == [0.75] * 30
    assert found["cost_usd"].sum() == pytest.approx(live["cost_usd"].sum() / 2)
    assert found["request_key"].to_list() == live["request_key"].to_list()
    assert (counts["total"], counts["batches"], counts["batch_requests"]) == (30, 1, 30)


def test_batch_and_live_share_their_verdicts(server: JudgeServer) -> None:
    ask(later(server), texts(10))
    ask(judge(server), texts(10))
    assert server.counts()["total"] == 0
    ask(later(server), texts(10))
    assert server.counts()["batches"] == 1


def test_files_keep_within_the_limits_of_the_api(
    server: JudgeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.set(batch_max_requests=20)
    monkeypatch.setattr(batch, "MAX_REQUESTS", 20)
    assert ask(later(server), texts(50))["score"].null_count() == 0
    assert server.counts()["batches"] == 3
    monkeypatch.setattr(batch, "MAX_BYTES", 30_000)
    server.set(batch_max_bytes=30_000)
    assert ask(later(server), [f"another {t}" for t in texts(30)])["score"].null_count() == 0


@pytest.mark.parametrize("behaviour", [{"batch_error_rate": 0.3}, {"batch_expires": 0.3}])
def test_what_failed_or_expired_is_sent_again(
    server: JudgeServer, behaviour: dict[str, Any]
) -> None:
    server.set(**behaviour, seed=1)
    found = ask(later(server), texts(40))
    assert found["score"].count() >= 38
    assert set(found["warning"]) <= {None, "api_error"}
    assert server.counts()["batches"] <= 4


def test_a_batch_that_fails_tells_why(server: JudgeServer) -> None:
    server.set(batch_fails="token_limit_exceeded")
    found = ask(later(server), texts(3))
    assert found["warning"].to_list() == ["api_error"] * 3
    assert "token_limit_exceeded" in found["error"][0]


def test_an_endpoint_without_batches(server: JudgeServer) -> None:
    server.set(batches=False)
    with pytest.raises(JudgeError, match="no Batch API"):
        ask(later(server), texts(3))


def test_a_create_whose_answer_is_lost_is_found_again(server: JudgeServer) -> None:
    server.set(create_500_after_commit=1)
    assert ask(later(server), texts(5))["score"].null_count() == 0
    counts = server.counts()
    assert (counts["batches"], counts["batch_requests"], counts["batch_duplicates"]) == (1, 5, 0)


def test_a_request_that_the_endpoint_does_not_understand_is_sent_in_another_form(
    server: JudgeServer,
) -> None:
    server.set(json_schema=False, rejects=["temperature"])
    assert ask(later(server), texts(5))["score"].null_count() == 0
    assert server.counts()["batches"] == 3


def test_the_budget_decides_before_anything_is_sent(server: JudgeServer) -> None:
    found = ask(later(server, budget_usd=100.0, price=(1.0, 1.0)), texts(5))
    assert found["score"].null_count() == 0
    none = ask(later(server, budget_usd=1e-9, price=(1.0, 1.0)), ["something new"])
    assert none["warning"].to_list() == ["budget_exhausted"]
    assert server.counts()["batches"] == 1


def test_batches_need_a_cache(server: JudgeServer) -> None:
    with pytest.raises(ConfigError, match="needs a cache"):
        later(server, cache=None)


SCRIPT = """
import sys
from tests.judge.asking import ask, texts
from uaef_frames import Judge
found = ask(Judge("small", base_url=sys.argv[1], cache=sys.argv[2], mode="batch"), texts(80))
print(found["score"].count())
"""


@pytest.mark.parametrize("step", ["batches", "files"])
def test_killed_at_any_step_nothing_is_submitted_twice(
    server: JudgeServer, tmp_path: Path, step: str
) -> None:
    server.set(batch_seconds=3.0)
    command = [sys.executable, "-c", SCRIPT, server.base_url, str(tmp_path / "c.sqlite")]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 20
    while server.counts()[step] == 0:
        assert time.monotonic() < deadline
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    server.set(batch_seconds=0.1)
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert said.stdout.strip() == "80", said.stderr
    counts = server.counts()
    assert counts["batch_requests"] == 80
    assert counts["batch_duplicates"] == 0


def test_what_an_earlier_batch_brings_is_kept_though_nobody_asks_any_more(
    server: JudgeServer, tmp_path: Path
) -> None:
    server.set(batch_seconds=5.0)
    command = [sys.executable, "-c", SCRIPT, server.base_url, str(tmp_path / "c.sqlite")]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    while server.counts()["batches"] == 0:
        time.sleep(0.005)
    time.sleep(0.3)
    process.kill()
    process.communicate()
    server.set(batch_seconds=0.1)
    ask(later(server, cache=tmp_path / "c.sqlite"), texts(1))
    ask(judge(server, cache=tmp_path / "c.sqlite"), texts(80))
    assert server.counts()["total"] == 0
    assert server.counts()["batch_requests"] == 80
