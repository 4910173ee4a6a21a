"""`make bench-store`: questions to a store of many runs, each opened anew.

Writes runs of made-up scores (once, in benchmarks/.data), then asks what people ask.
"""

from __future__ import annotations

import argparse
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from uaef_frames import open_store, schemas
from uaef_frames.store.writer import RunWriter

if TYPE_CHECKING:
    from collections.abc import Callable

FOLDER = Path(__file__).parent / ".data"
METRICS = 20


def write(folder: Path, runs: int, rows: int) -> None:
    dice = np.random.default_rng(7)
    given = ("run_id", "session_id", "turn_id", "metric", "dimension", "score", "reasoning")
    blank = {n: t for n, t in schemas.columns(schemas.Scores).items() if n not in given}
    sessions = rows // METRICS // 5
    for number in range(runs):
        when = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=number)
        with RunWriter(folder, f"{when:%Y%m%d-%H%M%S}-bench-{number:06x}") as writer:
            turns = pl.DataFrame(
                {
                    "session_id": np.repeat([f"session-{n:06}" for n in range(sessions)], 5),
                    "turn_id": np.tile(np.arange(1, 6), sessions),
                }
            )
            names = pl.DataFrame({"metric": [f"metric_{n:02}" for n in range(METRICS)]})
            scores = turns.join(names, how="cross").with_columns(
                run_id=pl.lit(writer.run_id),
                dimension=pl.concat_str(pl.lit("D"), pl.col("metric").str.slice(-1)),
                score=pl.Series(dice.random(rows)).round(2),
                reasoning=pl.lit("as expected"),
                **{n: pl.lit(None, dtype=t) for n, t in blank.items()},
            )
            writer.append("scores", scores)
            writer.commit()


def timed(ask: Callable[[], Any]) -> float:
    best = float("inf")
    for _ in range(3):
        began = time.perf_counter()
        ask()
        best = min(best, time.perf_counter() - began)
    return best


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--rows", type=int, default=100_000, help="Score rows a run.")
    chosen = parser.parse_args()
    folder = FOLDER / f"store-{chosen.runs}-{chosen.rows}"
    if not folder.exists():
        write(folder, chosen.runs, chosen.rows)
    one = open_store(folder).run_ids[chosen.runs // 2]
    summary = "select * from metric_summary order by run_id, metric"
    worst = f"select * from worst_turns where run_id = '{one}' limit 20"
    questions: dict[str, Callable[[], Any]] = {
        "metric summary of one run": lambda: (
            open_store(folder)
            .run(one)
            .sql("select metric, avg(score) from session_scores group by all order by all")
        ),
        "the same through the store": lambda: open_store(folder).sql(
            f"select * from metric_summary where run_id = '{one}'"
        ),
        "metric summary of all runs": lambda: open_store(folder).sql(summary),
        "worst turns of one run": lambda: open_store(folder).run(one).worst_turns(20),
        "the same through the store ": lambda: open_store(folder).sql(worst),
        "list of runs": lambda: open_store(folder).runs(),
    }
    total = chosen.runs * chosen.rows
    print(f"{chosen.runs} runs, {total:,} score rows; opening included, best of 3")
    for name, ask in questions.items():
        print(f"{name:28} {timed(ask):8.3f} s")


if __name__ == "__main__":
    main()
