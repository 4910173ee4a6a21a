"""Killed, interrupted, or called from a running loop: nothing paid for is lost, nothing hangs."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.helpers import trace
from tests.judge.asking import ask, judge, texts
from uaef_frames import evaluate

if TYPE_CHECKING:
    from tests.judge_server import JudgeServer

ROOT = Path(__file__).parents[2]
SCRIPT = """
import sys
from tests.judge.asking import ask, texts
from uaef_frames import Judge
found = ask(Judge("small", base_url=sys.argv[1], cache=sys.argv[2], concurrency=16), texts(600))
print(found["score"].count())
"""


def start(server: JudgeServer, cache: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, server.base_url, str(cache)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for(server: JudgeServer, count: int) -> None:
    deadline = time.monotonic() + 30
    while server.counts()["total"] < count:
        assert time.monotonic() < deadline, "the process does not ask"
        time.sleep(0.02)


def test_kill_9_loses_what_was_in_flight_and_nothing_else(
    server: JudgeServer, tmp_path: Path
) -> None:
    server.set(delay=0.05)
    for already in (100, 250, 400):
        process = start(server, tmp_path / "c.sqlite")
        wait_for(server, already)
        process.send_signal(signal.SIGKILL)
        process.communicate()
    server.set()
    process = start(server, tmp_path / "c.sqlite")
    said, _ = process.communicate(timeout=60)
    assert said.strip() == "600"
    assert server.counts()["total"] <= 600 + 3 * 16
    server.reset()
    assert ask(judge(server, cache=tmp_path / "c.sqlite"), texts(600))["score"].null_count() == 0
    assert server.counts()["total"] == 0


def test_ctrl_c_ends_within_two_seconds_and_keeps_what_came(
    server: JudgeServer, tmp_path: Path
) -> None:
    server.set(delay=0.05, faults={"hang": 0.02})
    process = start(server, tmp_path / "c.sqlite")
    wait_for(server, 100)
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, complaint = process.communicate(timeout=10)
    assert time.monotonic() - began < 2.0
    assert "KeyboardInterrupt" in complaint
    assert "never awaited" not in complaint
    assert "was destroyed" not in complaint
    billed = server.counts()["billed"]
    server.set()
    server.reset()
    ask(judge(server, cache=tmp_path / "c.sqlite"), texts(600))
    assert server.counts()["total"] <= 600 - billed + 16


def test_ctrl_c_at_the_command_line(server: JudgeServer, tmp_path: Path) -> None:
    server.set(delay=0.3)
    command = [
        sys.executable, "-m", "uaef_frames", "score", "data/booking.jsonl",
        "--judge-base-url", server.base_url, "--judge-model", "m", "--judge-concurrency", "8",
        "--metric-set", "judge", "--out", str(tmp_path / "runs"),
    ]  # fmt: skip
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "UAEF_JUDGE_CACHE": str(tmp_path / "c.sqlite")},
    )  # fmt: skip
    wait_for(server, 20)
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, complaint = process.communicate(timeout=10)
    assert time.monotonic() - began < 2.5
    assert process.returncode == 130
    assert "no run was kept; the verdicts that came are" in complaint
    assert list((tmp_path / "runs").iterdir()) == []


def test_two_processes_share_one_cache(server: JudgeServer, tmp_path: Path) -> None:
    server.set(delay=0.01)
    both = [start(server, tmp_path / "c.sqlite") for _ in range(2)]
    said = [p.communicate(timeout=60)[0].strip() for p in both]
    assert said == ["600", "600"]
    server.reset()
    ask(judge(server, cache=tmp_path / "c.sqlite"), texts(600))
    assert server.counts()["total"] == 0


OPENING = """
import sys, time
from pathlib import Path
from uaef_frames.judge.cache import AnswerCache
from uaef_frames.judge.journal import Journal
print("ready", flush=True)
began = float(sys.stdin.readline())
for n in range(40):
    while time.time() < began + n * 0.03:
        pass  # all of them at the same moment, or nearly
    path = Path(sys.argv[1]) / f"{n}.sqlite"
    cache, journal = AnswerCache(path), Journal(path, "e", "m")
    journal.plan(f"{sys.argv[2]}-{n}", [])
    cache.close(), journal.close()
print("opened")
"""


def test_many_processes_may_open_one_cache_at_once(tmp_path: Path) -> None:
    started = [
        subprocess.Popen(
            [sys.executable, "-c", OPENING, str(tmp_path), str(n)],
            cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True,
        )
        for n in range(2)
    ]  # fmt: skip
    for process in started:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    soon = f"{time.time() + 0.2}\n"
    for process in started:
        assert process.stdin is not None
        process.stdin.write(soon)
        process.stdin.flush()
    for process in started:
        said, complaint = process.communicate(timeout=60)
        assert said.strip() == "opened", complaint


def test_a_running_loop_is_no_obstacle(server: JudgeServer) -> None:
    async def cell() -> list[float | None]:
        results = [
            evaluate(trace("q", "a polite answer"), metrics=["safety_score"], judge=judge(server))
            for _ in range(2)
        ]
        return [r.dimension_results[0].aggregate_score for r in results]

    assert asyncio.run(cell()) == [0.75, 0.75]


def test_no_thread_is_left_behind(server: JudgeServer) -> None:
    import threading

    ask(judge(server), texts(5))
    assert not [t for t in threading.enumerate() if t.name.startswith("uaef-judge")]
