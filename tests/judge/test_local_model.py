"""A real, very small model behind a real server: real schemas, truncation, usage, overflow.

It proves the wire. The scores of a model with 135 million parameters mean nothing.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest

from uaef_frames import Judge, evaluate_dataset

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.local_model
ROOT = Path(__file__).parents[2]
METRICS = ["safety_score", "agent_tone", "context_retention"]


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.judge.local_server"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    line = ""
    while not line.startswith('{"port"'):
        line = process.stdout.readline()
        assert line, "the server did not start"
    url = f"http://127.0.0.1:{json.loads(line)['port']}"
    deadline = time.monotonic() + 60
    while True:
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=2) as answer:
                if answer.status == 200:
                    break
        except OSError:
            assert time.monotonic() < deadline, "the server is not ready"
        time.sleep(0.2)
    yield f"{url}/v1"
    process.kill()
    process.wait()
    process.stdout.close()


@pytest.fixture
def few_sessions(tmp_path: Path) -> Path:
    wanted = {"visa-question", "three-cities"}
    lines = (ROOT / "data" / "booking.jsonl").read_text("utf-8").splitlines()
    some = [line for line in lines if json.loads(line)["session_id"] in wanted]
    (tmp_path / "few.jsonl").write_text("\n".join(some) + "\n", "utf-8")
    return tmp_path / "few.jsonl"


@pytest.mark.filterwarnings("ignore:some scores have no verdict:UserWarning")
def test_shipped_sessions_are_scored_end_to_end(
    endpoint: str, few_sessions: Path, tmp_path: Path
) -> None:
    # A model this small does not copy words faithfully, so its quotes are not checked.
    judge = Judge(
        "smollm2", base_url=endpoint, check_quotes=False, max_tokens=160, concurrency=2,
        timeout_s=120, cache=tmp_path / "c.sqlite",
    )  # fmt: skip
    run = evaluate_dataset(few_sessions, metrics=METRICS, judge=judge, out=tmp_path / "runs")
    rows = run.scores.collect()
    asked = rows.filter(pl.col("request_key").is_not_null())
    assert asked.height == 6
    assert set(asked["warning"]) <= {None, "invalid_verdict", "not_applicable"}
    scored = asked.drop_nulls("score")
    # llama.cpp holds whole numbers to their range and leaves others free, so some verdicts of this
    # model are out of range and refused; that some are read is what counts.
    assert scored.height >= 1, asked.select("metric", "warning", "reasoning").rows()
    assert asked.filter(pl.col("score").is_null())["reasoning"].null_count() == 0
    assert scored["score"].is_between(0, 1).all()
    assert scored["input_tokens"].min() > 100
    assert scored["output_tokens"].min() > 5
    again = evaluate_dataset(few_sessions, metrics=METRICS, judge=judge, out=tmp_path / "runs")
    kept = again.scores.filter(pl.col("score").is_not_null(), pl.col("request_key").is_not_null())
    assert (
        kept.collect()
        .join(scored, on=["session_id", "turn_id", "metric"], nulls_equal=True)["cached"]
        .all()
    )


def test_material_beyond_the_context_is_an_error_of_its_row_alone(
    endpoint: str, tmp_path: Path
) -> None:
    from tests.helpers import trace
    from uaef_frames import batch_evaluate

    judge = Judge("smollm2", base_url=endpoint, check_quotes=False, max_tokens=160, concurrency=2,
                  timeout_s=120, cache=None)  # fmt: skip
    long = trace("q", "word " * 9_000)
    found = batch_evaluate([long, trace("q", "Hello.")], metrics=["safety_score"], judge=judge)
    warnings = [f.dimension_results[0].metric_scores[0].metadata.get("warning") for f in found]
    assert warnings[0] == "api_error"
    assert warnings[1] in (None, "invalid_verdict")
