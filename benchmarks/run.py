"""`make bench`: turns a second from JSON lines to a scored run, beside other ways to do it.

Every ratio is taken in one run on one machine, each measurement in a process of its own, so that
peak memory is its own. Prints; keeps nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

OBJECT_METRICS = [
    "tool_selection_accuracy",
    "tool_sequence_correctness",
    "parameter_quality",
    "mcp_compliance",
    "prompt_injection_detection",
    "latency_score",
    "token_efficiency",
    "cost_efficiency",
    "throughput",
    "turn_efficiency",
]


def dataset(payloads: Path, truth: Path) -> dict[str, Any]:
    """JSON lines -> all deterministic metrics -> Parquet."""
    from uaef_frames import evaluate_dataset

    with TemporaryDirectory() as out:
        began = time.perf_counter()
        run = evaluate_dataset(payloads, truth, metric_set="deterministic", out=out)
        seconds = time.perf_counter() - began
        info = run.info
    assert info["num_rejects"] == 0, "the generator writes good records only"
    return {"seconds": seconds, "turns": info["num_turns"], "mean_overall": info["mean_overall"]}


def parser(payloads: Path, truth: Path) -> dict[str, Any]:
    """`orjson.loads` over the same bytes, payloads and ground truth: what a parser alone takes."""
    import orjson

    began = time.perf_counter()
    turns = 0
    for path in (payloads, truth):
        with path.open("rb") as lines:
            for line in lines:
                orjson.loads(line)
                turns += path == payloads
    return {"seconds": time.perf_counter() - began, "turns": turns}


def oracle(payloads: Path, truth: Path, limit: int = 10_000) -> dict[str, Any]:
    """The naive oracle of the tests over the first turns, record by record."""
    import orjson

    from benchmarks.naive import score_session

    began = time.perf_counter()
    turns, held = 0, []
    with payloads.open("rb") as lines, truth.open("rb") as truths:
        expected = orjson.loads(next(truths))
        for line in lines:
            payload = orjson.loads(line)
            if held and payload["session_id"] != held[0]["session_id"]:
                score_session(held, expected)
                turns += len(held)
                expected, held = orjson.loads(next(truths)), []
                if turns >= limit:
                    break
            held.append(payload)
        else:
            score_session(held, expected)
            turns += len(held)
    return {"seconds": time.perf_counter() - began, "turns": turns}


def objects(sessions: int = 2_000) -> dict[str, Any]:
    """`batch_evaluate` over session dicts in memory, ten metrics, result objects and all."""
    from benchmarks.generate import TURNS_PER_SESSION
    from benchmarks.generate import sessions as generated
    from uaef_frames import GroundTruth, LangGraphAdapter, batch_evaluate

    pairs = list(generated(sessions * TURNS_PER_SESSION))
    payloads = [{**p, "quality_score": 0.9} for played, _ in pairs for p in played]
    traces = LangGraphAdapter().transform_to_canonical(payloads)
    truths = [
        GroundTruth(
            expected_arguments={
                "per_turn_expected": t["per_turn_expected"],
                "per_turn_tools": t["per_turn_expected_tool_calls"],
            }
        )
        for _, t in pairs
    ]
    batch_evaluate(traces[:10], truths[:10], metrics=OBJECT_METRICS)
    best = float("inf")
    for _ in range(3):
        began = time.perf_counter()
        results = batch_evaluate(traces, truths, metrics=OBJECT_METRICS)
        best = min(best, time.perf_counter() - began)
    assert all(r.overall_score is not None for r in results)
    return {"seconds": best, "turns": sessions * TURNS_PER_SESSION}


def measured(what: str, *arguments: str) -> dict[str, Any]:
    """Run one measurement in a process of its own."""
    command = [sys.executable, __file__, "--only", what, *arguments]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--turns", type=int, nargs="+", default=[100_000, 1_000_000])
    options.add_argument("--data", type=Path, default=Path(__file__).parent / ".data")
    options.add_argument("--only", help=argparse.SUPPRESS)
    options.add_argument("paths", nargs="*", type=Path, help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.only:
        found = globals()[given.only](*given.paths)
        found["rss_gb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(json.dumps(found))
        return
    from benchmarks.generate import write

    print(f"{platform.python_version()} on {os.cpu_count()} cores, {platform.machine()}")
    for turns in given.turns:
        payloads, truth = write(turns, given.data)
        size = (payloads.stat().st_size + truth.stat().st_size) / 1e6
        paths = str(payloads), str(truth)
        whole, alone = measured("dataset", *paths), measured("parser", *paths)
        naive = measured("oracle", *paths)
        rate, naive_rate = turns / whole["seconds"], naive["turns"] / naive["seconds"]
        print(
            f"{turns:>9,} turns ({size:,.0f} MB): {whole['seconds']:6.1f} s  {rate:8,.0f} turns/s  "
            f"{size / whole['seconds']:5.0f} MB/s  peak RSS {whole['rss_gb']:.2f} GB\n"
            f"{'':>9}  {whole['seconds'] / alone['seconds']:.1f} x the time of orjson.loads over "
            f"the same bytes ({alone['seconds']:.1f} s); {rate / naive_rate:.1f} x the naive "
            f"oracle ({naive_rate:,.0f} turns/s)"
        )
    held = measured("objects")
    print(
        f"{held['turns']:>9,} turns as objects in memory, ten metrics: {held['seconds']:.2f} s  "
        f"{held['turns'] / held['seconds']:,.0f} turns/s with result objects"
    )


if __name__ == "__main__":
    main()
