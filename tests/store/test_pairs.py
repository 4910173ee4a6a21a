"""What two runs are compared by is what a naive reading of their scores gives."""

from __future__ import annotations

from statistics import mean
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.store.test_run import rows
from uaef_frames.store.pairs import pairs
from uaef_frames.store.run import Run
from uaef_frames.store.writer import RunWriter

if TYPE_CHECKING:
    from pathlib import Path

METRICS = {"m1": "D", "m2": "D", "m3": "E", "whole": "E"}
WEIGHTS = {"D": 0.75, "E": 0.25}
Scores = dict[tuple[str, int | None, str], float | None]
"""By session, turn and metric; what is not there was not measured."""

score = st.one_of(st.none(), st.integers(0, 8).map(lambda n: n / 8))
turn = st.sampled_from([1, 2, 3])
measured = st.one_of(
    st.tuples(st.sampled_from("xy"), turn, st.sampled_from(["m1", "m2", "m3"])),
    st.tuples(st.sampled_from("xy"), st.none(), st.just("whole")),
)
run_scores = st.dictionaries(measured, score, max_size=20)


def written(folder: Path, name: str, held: Scores) -> Run:
    sessions = [{"session_id": s} for s in "xy"]
    dimensions = [{**s, "dimension": d, "weight": w} for s in sessions for d, w in WEIGHTS.items()]
    made: dict[str, list[dict[str, Any]]] = {
        "scores": [
            {"session_id": s, "turn_id": t, "metric": m, "dimension": METRICS[m], "score": v}
            for (s, t, m), v in held.items()
        ],
        "sessions": sessions,
        "dimensions": dimensions,
        "runs": [{"metrics": list(METRICS), "config": "{}"}],
    }
    with RunWriter(folder, name) as writer:
        for table, some in made.items():
            if some:
                writer.append(table, rows(table, *some))
        return Run(writer.commit())


def metric_value(mine: Scores, other: Scores, session: str, metric: str) -> float | None:
    kept = [
        value
        for key, value in mine.items()
        if key[0] == session
        and key[2] == metric
        and value is not None
        and not (key in other and other[key] is None)
    ]
    return mean(kept) if kept else None


def expected(a: Scores, b: Scores) -> dict[tuple[str, str, str], tuple[float, float]]:
    """Values of both by kind, name and session, where both have one."""
    found: dict[tuple[str, str, str], tuple[float, float]] = {}
    for session in "xy":
        by_dimension: dict[str, list[tuple[float, float]]] = {}
        for metric, dimension in METRICS.items():
            one = metric_value(a, b, session, metric)
            two = metric_value(b, a, session, metric)
            if one is not None and two is not None:
                found["metric", metric, session] = one, two
                by_dimension.setdefault(dimension, []).append((one, two))
        means = {
            d: [mean(side) for side in zip(*some, strict=True)] for d, some in by_dimension.items()
        }
        for dimension, (one, two) in means.items():
            found["dimension", dimension, session] = one, two
        total = sum(WEIGHTS[d] for d in means)
        if total:
            one, two = (
                sum(WEIGHTS[d] * both[i] for d, both in means.items()) / total for i in (0, 1)
            )
            found["overall", "overall", session] = one, two
    return found


@settings(max_examples=60)
@given(a=run_scores, b=run_scores)
def test_values_are_those_of_a_naive_reading(
    tmp_path_factory: pytest.TempPathFactory, a: Scores, b: Scores
) -> None:
    folder = tmp_path_factory.mktemp("pairs")
    frame = pairs(written(folder, "a", a), written(folder, "b", b), "session")
    found = {
        (kind, name, session): (one, two)
        for kind, name, session, one, two in frame.drop_nulls(["a", "b"])
        .select("kind", "name", "session_id", "a", "b")
        .rows()
    }
    wanted = expected(a, b)
    assert found.keys() == wanted.keys()
    for key, both in wanted.items():
        assert found[key] == pytest.approx(both)
    for row in frame.filter(kind="metric").rows(named=True):
        for side, mine in (("scored_a", a), ("scored_b", b)):
            scored = any(
                v is not None
                for (s, _, m), v in mine.items()
                if (s, m) == (row["session_id"], row["name"])
            )
            assert row[side] is scored
