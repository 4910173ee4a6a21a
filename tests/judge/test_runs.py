"""Judged datasets, at the command line, planned ahead, and in a notebook's kernel."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from tests.helpers import trace
from tests.judge.asking import judge
from uaef_frames import ConfigError, Judge, evaluate_dataset, gate, list_metrics, plan

if TYPE_CHECKING:
    from tests.judge_server import JudgeServer
    from uaef_frames import Run

ROOT = Path(__file__).parents[2]
DATA = ROOT / "data" / "booking.jsonl"
TRUTH = ROOT / "data" / "booking_ground_truth.jsonl"


def evaluated(tmp_path: Path, asked: Judge | None, **options: Any) -> Run:
    wanted = options if "metrics" in options else {"metric_set": "all", **options}
    return evaluate_dataset(DATA, TRUTH, **wanted, judge=asked, out=tmp_path / "runs")


def cli(*arguments: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    import os

    return subprocess.run(
        [sys.executable, "-m", "uaef_frames", *arguments],
        cwd=ROOT, capture_output=True, text=True, timeout=120, env={**os.environ, **(env or {})},
    )  # fmt: skip


def test_every_metric_is_scored_and_a_second_run_asks_nothing(
    server: JudgeServer, tmp_path: Path
) -> None:
    command = [
        "score", str(DATA), "--ground-truth", str(TRUTH), "--metrics", "all",
        "--judge-base-url", server.base_url, "--judge-model", "x", "--out", str(tmp_path), "--json",
    ]  # fmt: skip
    first = cli(*command)
    assert first.returncode == 0, first.stderr
    summary = json.loads(first.stdout)["metrics_summary"]
    assert {m["metric"] for m in summary} == {s.name for s in list_metrics()}
    assert all(m["scored"] > 0 for m in summary)
    assert server.counts()["total"] > 1000
    server.reset()
    second = cli(*command)
    assert second.returncode == 0
    assert server.counts()["total"] == 0
    assert json.loads(second.stdout)["metrics_summary"] == summary
    assert "sk-" not in first.stdout + first.stderr


def test_a_row_tells_what_its_verdict_took(server: JudgeServer, tmp_path: Path) -> None:
    run = evaluated(
        tmp_path, judge(server, price=(1.0, 10.0)), metrics=["accuracy", "latency_score"]
    )
    rows = run.scores.collect()
    asked = rows.filter(pl.col("request_key").is_not_null())
    assert set(asked["metric"]) == {"accuracy"}
    assert asked["model"].unique().to_list() == ["small-2026-11-01"]
    for column in ("latency_s", "input_tokens", "cached_input_tokens", "output_tokens", "cost_usd"):
        assert asked[column].min() > 0, column
    assert asked["request_key"].str.len_chars().unique().to_list() == [64]
    others = rows.filter(pl.col("metric") == "latency_score")
    assert others["model"].null_count() == others.height
    config = json.loads(run.info["config"])
    assert config["judge"]["model"] == "small"
    assert set(config["rubrics"]) == {"accuracy"}
    again = evaluated(tmp_path, judge(server, price=(1.0, 10.0)), metrics=["accuracy"])
    kept = again.scores.filter(pl.col("request_key").is_not_null()).collect()
    assert kept["cached"].all()
    assert kept["cost_usd"].sum() == 0


def test_what_was_asked_is_told_apart_from_the_verdicts_that_came(
    server: JudgeServer, tmp_path: Path
) -> None:
    server.set(faults={"malformed": 0.5})
    with pytest.warns(UserWarning, match="verdict"):
        run = evaluated(tmp_path, judge(server, price=(1.0, 10.0)), metrics=["accuracy"])
    rows = run.scores.filter(pl.col("request_key").is_not_null()).collect()
    failed = rows.filter(pl.col("warning") == "invalid_verdict").height
    assert failed > 0
    spend = run.sql("select * from judge_spend")
    assert spend["asked"].sum() == rows.height
    assert spend["verdicts"].sum() == rows.height - failed
    assert spend["cost_usd"].sum() == pytest.approx(rows["cost_usd"].sum())
    found = gate(run, fail_under={"accuracy": 0.0})
    assert found.passed is (failed <= rows.height - failed)


def test_small_batches_give_the_same_scores(server: JudgeServer, tmp_path: Path) -> None:
    columns = ["session_id", "turn_id", "metric", "score", "warning", "reasoning", "details"]
    keys = columns[:3]
    one = evaluated(tmp_path, judge(server, cache=None)).scores.select(columns).collect()
    two = evaluated(tmp_path, judge(server, cache=None), batch_turns=7).scores.select(columns)
    assert_frame_equal(one.sort(keys), two.collect().sort(keys))


def test_a_run_with_failures_says_so_and_the_next_asks_for_them_alone(
    server: JudgeServer, tmp_path: Path
) -> None:
    server.set(faults={"malformed": 0.4}, seed=2)
    asked = judge(server)
    with pytest.warns(UserWarning, match=r"no verdict \(\d+ invalid_verdict\)"):
        run = evaluated(tmp_path, asked, metrics=["safety_score"])
    missing = run.scores.filter(pl.col("warning") == "invalid_verdict").collect().height
    assert missing > 0
    server.set()
    server.reset()
    run = evaluated(tmp_path, asked, metrics=["safety_score"])
    assert server.counts()["total"] == missing
    assert run.scores.filter(pl.col("warning") == "invalid_verdict").collect().height == 0


def test_a_plan_is_what_then_happens(server: JudgeServer, tmp_path: Path) -> None:
    asked = judge(server, price=(1.0, 10.0))
    found = plan(DATA, TRUTH, metric_set="all", judge=asked)
    assert server.counts()["total"] == 0
    evaluated(tmp_path, asked)
    counts = server.counts()
    assert found.calls == counts["total"]
    assert found.cached == 0
    read = sum(r["body"]["messages"][0]["content"].__len__() for r in server.requests()) / 4
    assert found.input_tokens > read
    assert found.cost_usd == pytest.approx((found.input_tokens + 10 * found.output_tokens) / 1e6)
    again = plan(DATA, TRUTH, metric_set="all", judge=asked)
    assert (again.calls, again.cached) == (0, found.calls)
    assert again.cost_usd == 0
    assert found.skipped["hallucination_score"] == 11


def test_a_plan_of_traces_and_of_unknown_prices() -> None:
    asked = Judge("m", base_url="http://127.0.0.1:9/v1", requests_per_minute=60)
    items = [trace("q", f"a{n % 5}") for n in range(30)]
    found = plan(items, metrics=["safety_score"], judge=asked)
    assert (found.calls, found.cached, found.cost_usd) == (5, 25, None)
    assert found.duration_s == pytest.approx(5)
    assert "tokens only" in str(found)
    assert "5 calls" in repr(found)
    assert plan(trace(), metrics=["latency_score"], judge=asked).calls == 0
    with pytest.raises(ConfigError, match="no judge to plan for"):
        plan(items, metrics=["safety_score"])


def test_a_dry_run_sends_and_writes_nothing(server: JudgeServer, tmp_path: Path) -> None:
    found = cli(
        "score", str(DATA), "-m", "judge", "--judge-model", "gpt-5-mini", "--dry-run",
        "--judge-base-url", server.base_url, "--judge-price", "0.25,2",
        "--out", str(tmp_path / "r"),
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
    assert "nothing was sent" in found.stdout
    assert "USD" in found.stdout
    assert server.counts()["total"] == 0
    assert not (tmp_path / "r").exists()


def test_the_cache_can_be_looked_at_and_cleared(server: JudgeServer, tmp_path: Path) -> None:
    file = tmp_path / "c.sqlite"
    evaluated(tmp_path, judge(server, cache=file), metrics=["safety_score", "bias_score"])
    stats = cli("cache", "stats", "--judge-cache", str(file), "--json")
    rows = json.loads(stats.stdout)["verdicts"]
    assert {r["metric"] for r in rows} == {"safety_score", "bias_score"}
    assert all(r["verdicts"] == 78 for r in rows)
    assert "safety_score" in cli("cache", "stats", "--judge-cache", str(file)).stdout
    gone = cli("cache", "clear", "--judge-cache", str(file), "--metric", "bias_score", "--yes")
    assert "78 verdicts forgotten" in gone.stdout
    missing = cli("cache", "stats", "--judge-cache", str(tmp_path / "none.sqlite"))
    assert missing.returncode == 1
    assert "no verdict cache" in missing.stderr


def test_no_cache_keeps_nothing(server: JudgeServer, tmp_path: Path) -> None:
    command = [
        "score", str(DATA), "-m", "safety_score", "--judge-model", "m", "--no-cache",
        "--judge-base-url", server.base_url, "--out", str(tmp_path / "runs"),
    ]  # fmt: skip
    env = {"UAEF_JUDGE_CACHE": str(tmp_path / "c.sqlite")}
    for _ in range(2):
        assert cli(*command, env=env).returncode == 0
    assert server.counts()["total"] == 2 * 78
    assert not (tmp_path / "c.sqlite").exists()


def test_a_wrong_key_ends_the_command_with_a_word(server: JudgeServer, tmp_path: Path) -> None:
    server.set(require_key="right")
    found = cli(
        "score", str(DATA), "-m", "safety_score", "--judge-model", "m",
        "--judge-base-url", server.base_url, "--out", str(tmp_path / "runs"),
        env={"OPENAI_API_KEY": "sk-wrong-but-secret"},
    )  # fmt: skip
    assert found.returncode == 1
    assert "refuses the API key" in found.stderr
    assert "sk-wrong-but-secret" not in found.stdout + found.stderr
    assert "Traceback" not in found.stderr
    assert list((tmp_path / "runs").iterdir()) == []


CELL = """
from uaef_frames import AgentTrace, Judge, Message, evaluate
import asyncio
assert asyncio.get_running_loop() is not None
judge = Judge("m", base_url={url!r}, cache={cache!r})
said = [Message(role="user", content="q"), Message(role="assistant", content="a polite answer")]
result = evaluate(AgentTrace(messages=said), metrics=["safety_score", "agent_tone"], judge=judge)
print("overall", round(result.overall_score, 3))
"""


def test_a_notebook_cell_asks_a_judge_in_the_kernels_loop(
    server: JudgeServer, tmp_path: Path
) -> None:
    import nbformat
    from nbclient import NotebookClient

    code = CELL.format(url=server.base_url, cache=str(tmp_path / "c.sqlite"))
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code) for _ in range(2)])
    client = NotebookClient(
        book, timeout=60, kernel_name="python3", resources={"metadata": {"path": str(ROOT)}}
    )
    client.execute()
    for cell in book.cells:
        text = "".join(o.get("text", "") for o in cell.outputs if o.output_type == "stream")
        assert "overall 0.75" in text
    shown = [o for o in book.cells[0].outputs if o.output_type == "display_data"]
    assert "judge 2/2" in shown[-1]["data"]["text/plain"]
    assert server.counts()["total"] == 2
