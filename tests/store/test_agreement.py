"""A judge held against people: known figures, honest intervals, clear words for bad labels."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from openpyxl import Workbook
from sklearn.metrics import cohen_kappa_score

from tests.store.test_run import RUN_ID, rows
from uaef_frames import ConfigError, GroundTruthError, Run, agreement, schemas
from uaef_frames.store.writer import RunWriter

if TYPE_CHECKING:
    from pathlib import Path


def scored(tmp_path: Path, *values: tuple[str, int | None, str, float | None]) -> Run:
    """A run with those scores: session, turn, metric, score."""
    writer = RunWriter(tmp_path, RUN_ID)
    names = sorted({m for _, _, m, _ in values})
    with writer:
        made = [
            {"session_id": s, "turn_id": t, "metric": m, "dimension": "D", "score": v,
             "warning": None if v is not None else "api_error", "reasoning": f"<b>{s}</b>"}
            for s, t, m, v in values
        ]  # fmt: skip
        writer.append("scores", rows("scores", *made))
        when = datetime(2026, 12, 1, tzinfo=UTC)
        writer.append("runs", rows("runs", {"metrics": names, "created_at": when, "config": "{}"}))
        return Run(writer.commit())


def labels(*values: tuple[Any, ...]) -> pl.DataFrame:
    return pl.DataFrame(
        list(values),
        schema=["session_id", "turn_id", "metric", "label"],
        orient="row",
        strict=False,
    )


def five(tmp_path: Path) -> tuple[Run, pl.DataFrame, list[int], list[int]]:
    dice = random.Random(4)
    people = [dice.randint(1, 5) for _ in range(120)]
    judge = [min(5, max(1, p + dice.choice([-1, 0, 0, 0, 1, 2]))) for p in people]
    run = scored(
        tmp_path, *((f"s{n // 3}", n % 3, "sentiment", (j - 1) / 4) for n, j in enumerate(judge))
    )
    given = labels(*((f"s{n // 3}", n % 3, "sentiment", p) for n, p in enumerate(people)))
    return run, given, judge, people


def test_figures_are_those_of_the_libraries(tmp_path: Path) -> None:
    import krippendorff
    from scipy.stats import spearmanr

    run, given, judge, people = five(tmp_path)
    found = agreement(run, given, resamples=200)
    row = found.to_dict()["sentiment"]
    j, p = np.array(judge), np.array(people)
    assert (row["n"], row["sessions"], row["scale"]) == (120, 40, "1-5")
    assert row["exact"] == pytest.approx((j == p).mean())
    assert row["within_one"] == pytest.approx((abs(j - p) <= 1).mean())
    assert row["kappa"] == pytest.approx(cohen_kappa_score(j, p))
    assert row["weighted_kappa"] == pytest.approx(cohen_kappa_score(j, p, weights="quadratic"))
    assert row["spearman"] == pytest.approx(spearmanr(j, p).statistic)
    assert row["bias"] == pytest.approx((j - p).mean() / 4)
    assert row["alpha"] == pytest.approx(
        krippendorff.alpha(reliability_data=np.array([j, p]), level_of_measurement="ordinal")
    )
    for name in ("exact", "kappa", "weighted_kappa", "alpha", "spearman", "bias"):
        assert row[f"{name}_low"] <= row[name] <= row[f"{name}_high"], name
    table = found.confusion()
    assert table.select(pl.sum_horizontal(pl.exclude("label")).sum()).item() == 120
    assert table.filter(pl.col("label") == "5")["5"].item() == ((j == 5) & (p == 5)).sum()


def test_sessions_are_resampled_whole(tmp_path: Path) -> None:
    # Ten turns of a session are all right or all wrong: a hundred pairs, ten pieces of evidence.
    values = [(f"s{s}", t, "safety_score", 1.0) for s in range(10) for t in range(10)]
    run = scored(tmp_path, *values)
    given = labels(*((s, t, m, float(int(s[1:]) % 2)) for s, t, m, _ in values))
    row = agreement(run, given).to_dict()["safety_score"]
    width = row["exact_high"] - row["exact_low"]
    assert width > 0.5, "naive resampling of pairs would give about 0.2"
    assert "rough" in row["note"]


def test_no_variation_is_null_and_not_zero(tmp_path: Path) -> None:
    run = scored(tmp_path, *((f"s{n}", None, "coherence", 0.75) for n in range(5)))
    row = agreement(run, labels(*((f"s{n}", None, "coherence", 0.75) for n in range(5)))).to_dict()
    figures = row["coherence"]
    assert (figures["exact"], figures["bias"]) == (1.0, 0.0)
    for name in ("kappa", "weighted_kappa", "alpha", "spearman"):
        assert figures[name] is None
    assert "no variation" in figures["note"]


def test_what_does_not_meet_is_counted(tmp_path: Path) -> None:
    run = scored(
        tmp_path,
        ("a", 1, "accuracy", 1.0), ("a", 2, "accuracy", None), ("b", 1, "accuracy", 0.0),
        ("c", 1, "accuracy", 0.5),
    )  # fmt: skip
    given = labels(
        ("a", 1, "accuracy", 1), ("a", 2, "accuracy", 1), ("b", 1, "accuracy", 0),
        ("nowhere", 1, "accuracy", 0), ("c", 1, "accuracy", None),
    )  # fmt: skip
    row = agreement(run, given, resamples=0).to_dict()["accuracy"]
    counted = (row["n"], row["judge_nulls"], row["unmatched_labels"], row["unlabelled"])
    assert counted == (2, 1, 1, 1)
    assert row["exact_low"] is None


def test_several_raters(tmp_path: Path) -> None:
    run = scored(tmp_path, *((f"s{n}", 1, "sentiment", n % 5 / 4) for n in range(20)))
    one = [(f"s{n}", 1, "sentiment", n % 5 + 1, "ann") for n in range(20)]
    two = [(f"s{n}", 1, "sentiment", min(n % 5 + 2, 5), "bob") for n in range(20)]
    schema = ["session_id", "turn_id", "metric", "label", "rater"]
    given = pl.DataFrame([*one, *two], schema=schema, orient="row")
    row = agreement(run, given, resamples=0).to_dict()["sentiment"]
    assert (row["n"], row["raters"]) == (20, 2)
    assert row["human_alpha"] < 1
    assert row["bias"] == pytest.approx(-0.1)
    with pytest.raises(GroundTruthError, match="add a column `rater`"):
        agreement(run, given.drop("rater"))


@pytest.mark.parametrize(
    ("metric", "given", "scale"),
    [
        ("sentiment", [1, 3, 5], "1-5"),
        ("sentiment", [1, 1, 1], "1-5"),
        ("sentiment", [0, 0.5, 1], "0-1"),
        ("accuracy", [0, 1, 1], "0-1"),
        ("resolution_like", [0, 1, 1], "0-1"),
    ],
)
def test_the_scale_of_labels(tmp_path: Path, metric: str, given: list[float], scale: str) -> None:
    run = scored(tmp_path, *((f"s{n}", 1, metric, n / 2) for n in range(3)))
    found = agreement(run, labels(*((f"s{n}", 1, metric, v) for n, v in enumerate(given))))
    assert found.table["scale"].to_list() == [scale]


def forms(tmp_path: Path) -> list[Any]:
    table = labels(("7", 1, "accuracy", 1.0), ("8", 2, "accuracy", 0.0))
    table.write_csv(tmp_path / "l.csv")
    table.write_csv(tmp_path / "l.tsv", separator="\t")
    table.write_parquet(tmp_path / "l.parquet")
    table.write_ndjson(tmp_path / "l.jsonl")
    book = Workbook()
    sheet = book.active
    assert sheet is not None
    for row in (["Session ID", "Turn_Id", "METRIC", "Human Score"], [7, 1, "accuracy", 1],
                [None] * 4, [8, 2.0, "accuracy", 0]):  # fmt: skip
        sheet.append(row)
    book.save(tmp_path / "l.xlsx")
    files = [tmp_path / f"l.{e}" for e in ("csv", "tsv", "parquet", "jsonl", "xlsx")]
    return [
        *files,
        str(files[0]),
        table,
        table.lazy(),
        table.to_arrow(),
        pd.DataFrame(table.to_dict(as_series=False)),
    ]


def test_labels_come_in_many_forms(tmp_path: Path) -> None:
    run = scored(tmp_path, ("7", 1, "accuracy", 1.0), ("8", 2, "accuracy", 0.0))
    for given in forms(tmp_path):
        assert agreement(run, given).table["n"].item() == 2, given
    without = labels(("7", 1, None, 1.0), ("8", 2, None, 0.0)).drop("metric")
    assert agreement(run.path, without, metric="accuracy").table["n"].item() == 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("session_id,metric\n1,accuracy\n", "no column 'label'"),
        ("session_id,turn_id,metric,label,score\n", "both mean label"),
        (
            "session_id,turn_id,metric,label\n7,1,accuracy,good\n",
            "line 2: label 'good' is no number",
        ),
        (
            "session_id,turn_id,metric,label\n7,1,accuracy,1\n7,x,accuracy,1\n",
            "line 3: turn_id 'x'",
        ),
        ("session_id,turn_id,metric,label\n,1,accuracy,1\n", "session_id is empty"),
        ("session_id,turn_id,metric,label\n7,1,accuracy,NaN\n", "is no number"),
        ("session_id,turn_id,metric,label\n7,1,accuracy,4\n", "outside of its scale"),
        ("session_id,turn_id,metric,label\n9,1,accuracy,1\n", "meets a scored row"),
        ("session_id,turn_id,metric,label\n", "no label"),
    ],
)
def test_bad_labels_are_named(tmp_path: Path, text: str, words: str) -> None:
    run = scored(tmp_path, ("7", 1, "accuracy", 1.0))
    (tmp_path / "l.csv").write_text(text)
    with pytest.raises(GroundTruthError, match=words):
        agreement(run, tmp_path / "l.csv")


def test_other_mistakes(tmp_path: Path) -> None:
    run = scored(tmp_path, ("7", 1, "accuracy", 1.0))
    with pytest.raises(ConfigError, match="the run has accuracy"):
        agreement(run, labels(("7", 1, "acuracy", 1.0)))
    with pytest.raises(GroundTruthError, match="a path or a frame"):
        agreement(run, 5)
    with pytest.raises(GroundTruthError, match="csv, tsv, xlsx"):
        agreement(run, tmp_path / "l.docx")
    with pytest.raises(GroundTruthError, match="cannot be read"):
        agreement(run, tmp_path / "missing.csv")
    found = agreement(run, labels(("7", 1, "accuracy", 0.5)))
    assert "fewer than two" in found.table["note"].item()
    with pytest.raises(ConfigError, match="compared metrics"):
        found.confusion("bias_score")


def test_pictures_are_escaped_and_disagreements_sorted(tmp_path: Path) -> None:
    run = scored(tmp_path, *((f"<s{n}>", 1, "accuracy", n / 4) for n in range(5)))
    found = agreement(run, labels(*((f"<s{n}>", 1, "accuracy", 1.0) for n in range(5))))
    assert found.disagreements(2)["score"].to_list() == [0.0, 0.25]
    assert "accuracy: n 5" in repr(found)
    html = found._repr_html_()
    assert "<s0>" not in html
    assert found.table.columns[0] == "metric"
    assert "scores" in schemas.RUN_TABLES
