"""A judge held against people: known figures, honest intervals, clear words for bad labels."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from datetime import UTC, date, datetime
from importlib import import_module
from typing import TYPE_CHECKING, Any

import krippendorff
import numpy as np
import pandas as pd
import polars as pl
import pytest
from openpyxl import Workbook
from scipy.stats import spearmanr
from sklearn.metrics import cohen_kappa_score

from tests.store.test_run import RUN_ID, rows
from uaef_frames import (
    ConfigError,
    GroundTruthError,
    Run,
    StoreError,
    agreement,
    register_judge_metric,
    unregister_metric,
)
from uaef_frames.store.labels import LABEL_COLUMNS, LEVELS
from uaef_frames.store.writer import RunWriter

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

room = import_module("uaef_frames.store.agreement")
VARYING = ("kappa", "weighted_kappa", "alpha", "spearman")
STATISTICS = ("exact", "within_one", *VARYING, "bias")
HEADER = "session_id,turn_id,metric,label\n"


def scored(tmp_path: Path, *values: tuple[str, int | None, str, float | None]) -> Run:
    """A run with those scores: session, turn, metric, score."""
    names = sorted({m for _, _, m, _ in values})
    with RunWriter(tmp_path, RUN_ID) as writer:
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
    """Labels: session, turn, metric, label and perhaps rater."""
    schema = ["session_id", "turn_id", "metric", "label", "rater"][: len(values[0])]
    return pl.DataFrame(list(values), schema=schema, orient="row", strict=False)


def held(tmp_path: Path, metric: str, judge: Any, people: Any, size: int = 1, **more: Any) -> Any:
    """The row of a metric: scores and labels side by side, `size` turns a session."""
    keys = [(f"s{n // size}", n % size + 1, metric) for n in range(len(judge))]
    run = scored(tmp_path, *((*k, v) for k, v in zip(keys, judge, strict=True)))
    given = labels(*((*k, v) for k, v in zip(keys, people, strict=True)))
    return agreement(run, given, **more).to_dict()[metric]


@pytest.fixture
def yes_or_no() -> Iterator[str]:
    register_judge_metric(
        "polite", "Manners", rubric="Is it polite?", inputs=("response",), scale="boolean"
    )
    yield "polite"
    unregister_metric("polite")


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
    run, given, judge, people = five(tmp_path)
    found = agreement(run, given)
    row = found.to_dict()["sentiment"]
    j, p = np.array(judge), np.array(people)
    assert (row["n"], row["sessions"], row["scale"], row["raters"]) == (120, 40, "1-5", 1)
    assert row["alpha_level"] == "ordinal"
    assert row["exact"] == pytest.approx((j == p).mean())
    assert row["within_one"] == pytest.approx((abs(j - p) <= 1).mean())
    assert row["kappa"] == pytest.approx(cohen_kappa_score(j, p))
    assert row["weighted_kappa"] == pytest.approx(cohen_kappa_score(j, p, weights="quadratic"))
    assert row["spearman"] == pytest.approx(spearmanr(j, p).statistic)
    assert row["bias"] == pytest.approx((j - p).mean() / 4)
    assert row["alpha"] == pytest.approx(
        krippendorff.alpha(reliability_data=np.array([j, p]), level_of_measurement="ordinal")
    )
    for name in STATISTICS:
        assert row[f"{name}_low"] < row[name] < row[f"{name}_high"], name
    assert row["human_alpha"] is None
    assert row["note"] is None
    json.dumps(row)
    table = found.confusion()
    assert table.columns == ["label", "1", "2", "3", "4", "5"]
    assert table.select(pl.sum_horizontal(pl.exclude("label")).sum()).item() == 120
    assert table.filter(pl.col("label") == "5")["4"].item() == ((j == 4) & (p == 5)).sum()


def test_figures_by_hand(tmp_path: Path, yes_or_no: str) -> None:
    # Yes and yes 20, yes and no 5, no and yes 10, no and no 15: observed 0.7, by chance 0.5.
    people = [1] * 25 + [0] * 25
    judge = [1.0] * 20 + [0.0] * 5 + [1.0] * 10 + [0.0] * 15
    row = held(tmp_path, yes_or_no, judge, people, resamples=0)
    assert row["scale"] == "boolean"
    assert (row["exact"], row["within_one"]) == (0.7, 0.7)
    assert row["kappa"] == pytest.approx(0.4)
    assert row["weighted_kappa"] == pytest.approx(0.4)
    assert row["bias"] == pytest.approx(0.1)
    # Of 100 values 55 are 1: 1 - (100 - 1) * 2 * 15 / (2 * 55 * 45).
    assert row["alpha"] == pytest.approx(1 - 99 * 30 / (2 * 55 * 45))
    assert row["alpha_level"] == "nominal"


def test_levels_of_scores_are_quarters_the_nearest_and_ties_go_up(tmp_path: Path) -> None:
    judge = [0.0, 0.12, 0.125, 0.6, 0.87, 1.0]
    people = [0.0, 0.0, 0.25, 0.7, 1.0, 0.75]
    row = held(tmp_path, "accuracy", judge, people, resamples=0)
    assert row["scale"] == "0-1"
    assert row["exact"] == pytest.approx(3 / 6)  # 0.6 is 0.5 and 0.7 is 0.75; 0.87 is 0.75
    assert row["within_one"] == 1.0
    assert row["alpha"] == pytest.approx(
        krippendorff.alpha(
            reliability_data=np.array([judge, people]), level_of_measurement="interval"
        )
    )


CODERS = """
1 2 3 3 2 1 4 1 2 . . .
1 2 3 3 2 2 4 1 2 5 . 3
. 3 3 3 2 3 4 2 2 5 1 .
1 2 3 3 2 4 4 1 2 5 1 .
"""
"""Krippendorff's own example; the last coder is the judge."""


def test_alpha_is_over_the_judge_and_every_rater(tmp_path: Path) -> None:
    coders = [line.split() for line in CODERS.split("\n") if line]
    values = [(f"s{n}", 1, "sentiment", (int(v) - 1) / 4) for n, v in enumerate(coders[3][:11])]
    given = labels(
        *(
            (f"s{n}", 1, "sentiment", int(v), f"coder {c}")
            for c, line in enumerate(coders[:3])
            for n, v in enumerate(line)
            if v != "."
        )
    )
    row = agreement(scored(tmp_path, *values), given, resamples=50).to_dict()["sentiment"]
    assert row["alpha"] == pytest.approx(0.815, abs=5e-4)
    people = np.array([[np.nan if v == "." else float(v) for v in line] for line in coders[:3]])
    assert row["human_alpha"] == pytest.approx(
        krippendorff.alpha(reliability_data=people[:, :11], level_of_measurement="ordinal")
    )
    assert (row["n"], row["raters"], row["unmatched_labels"]) == (11, 3, 1)
    assert row["bias"] == pytest.approx(
        np.mean([(float(v) - 1) / 4 for v in coders[3][:11]])
        - (np.nanmean(people[:, :11], axis=0).mean() - 1) / 4
    )


def test_several_raters(tmp_path: Path) -> None:
    run = scored(tmp_path, *((f"s{n}", 1, "sentiment", n % 5 / 4) for n in range(20)))
    one = [(f"s{n}", 1, "sentiment", n % 5 + 1, "ann") for n in range(20)]
    two = [(f"s{n}", 1, "sentiment", min(n % 5 + 2, 5), "bob") for n in range(20)]
    row = agreement(run, labels(*one, *two), resamples=0).to_dict()["sentiment"]
    assert (row["n"], row["raters"]) == (20, 2)
    assert 0.5 < row["human_alpha"] < 1
    assert row["bias"] == pytest.approx(-0.1)
    # Each labelled half of them: there is nothing in which people could agree.
    row = agreement(run, labels(*one[:10], *two[10:]), resamples=0).to_dict()["sentiment"]
    assert row["human_alpha"] is None
    assert "no human_alpha" in row["note"]
    assert row["alpha"] is not None


def ratings(scale: str, pairs: int, raters: int) -> Any:
    """Judge and raters, some of whom said nothing of some pairs."""
    dice = np.random.default_rng(pairs + raters)
    truth = dice.random(pairs)
    noisy = np.clip(truth + dice.normal(0, 0.25, (raters + 1, pairs)), 0, 1)
    if scale != "0-1":
        steps = len(LEVELS[scale]) - 1  # pyright: ignore[reportArgumentType]
        noisy = np.round(noisy * steps) / steps
    noisy[2:][dice.random((raters - 1, pairs)) < 0.3] = np.nan
    return np.round(noisy, 12)


@pytest.mark.parametrize("raters", [1, 3])
@pytest.mark.parametrize("scale", ["0-1", "1-5", "boolean"])
def test_resamples_have_the_figures_that_the_libraries_would_give(scale: Any, raters: int) -> None:
    given = ratings(scale, 60, raters)
    codes = np.random.default_rng(1).integers(0, 20, 60)
    codes[:20] = np.arange(20)
    sample = room._Sample(given, codes, scale)
    dice = np.random.default_rng(2)
    for weights in [np.ones(20), *(np.bincount(dice.integers(0, 20, 20), minlength=20),) * 5]:
        picked = np.concatenate([np.flatnonzero(codes == s).repeat(w) for s, w in
                                 enumerate(weights.astype(int))])  # fmt: skip
        expected = room._estimates(given[:, picked], scale)
        found = sample.figures(weights[None].astype(float))
        for name in STATISTICS:
            assert found[name][0] == pytest.approx(expected[name], abs=1e-9), name


def test_many_distinct_scores_take_the_sums_and_not_the_library_s_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given = ratings("0-1", 80, 3)
    expected = room._alpha(given, "0-1")
    monkeypatch.setattr(room, "_LIBRARY_LIMIT", 0)
    monkeypatch.setattr(krippendorff, "alpha", None)
    assert room._alpha(given, "0-1") == pytest.approx(expected)


def test_sessions_are_resampled_whole(tmp_path: Path) -> None:
    # Ten turns of a session are all right or all wrong: a hundred pairs, ten pieces of evidence.
    people = [float(n // 10 % 2) for n in range(100)]
    judge = [p if n // 10 % 3 else 1 - p for n, p in enumerate(people)]
    whole = held(tmp_path / "a", "safety_score", judge, people, size=10)
    naive = held(tmp_path / "b", "safety_score", judge, people, size=1)
    for name in ("exact", "bias"):
        assert whole[name] == pytest.approx(naive[name])
        wide, narrow = (r[f"{name}_high"] - r[f"{name}_low"] for r in (whole, naive))
        assert wide > 2 * narrow, name
    assert "fewer than 30 sessions: intervals are rough" in whole["note"]
    assert naive["note"] is None


def test_the_seed_decides(tmp_path: Path) -> None:
    run, given, _, _ = five(tmp_path)
    first, again, other = (
        agreement(run, given, resamples=99, seed=s).table for s in (1, 1, 2)
    )  # fmt: skip
    assert first.equals(again)
    assert not first.equals(other)


@pytest.mark.parametrize(
    ("judge", "people", "words"),
    [
        ([0.75] * 5, [0.75] * 5, "the labels and scores do not vary"),
        ([0.75] * 5, [0.75, 1, 0, 0, 1], "the scores do not vary"),
        ([0.0, 0.5, 1, 0, 1], [1] * 5, "the labels do not vary"),
    ],
)
def test_no_variation_is_null_and_not_zero(
    tmp_path: Path, judge: list[float], people: list[float], words: str
) -> None:
    row = held(tmp_path, "coherence", judge, people)
    assert row["exact"] is not None
    assert row["exact_low"] is not None
    for name in VARYING:
        assert {row[name], row[f"{name}_low"], row[f"{name}_high"]} == {None}, name
    assert f"no kappa, weighted_kappa, alpha, spearman: {words}" in row["note"]


def test_resamples_without_variation_are_left_out_and_said(tmp_path: Path) -> None:
    judge, people = [1.0] * 11 + [0.0], [1.0] * 10 + [0.5, 0.0]
    row = held(tmp_path, "accuracy", judge, people)
    assert row["kappa_low"] is not None
    assert "of resamples do not vary and are left out" in row["note"]


def test_one_pair_and_one_session(tmp_path: Path) -> None:
    row = held(tmp_path / "a", "accuracy", [1.0], [0.5])
    assert [row[name] for name in STATISTICS] == [None] * 7
    assert row["note"] == "fewer than two pairs"
    row = held(tmp_path / "b", "accuracy", [1.0, 0.5, 0.0], [1, 1, 0], size=3)
    assert row["kappa"] is not None
    assert row["kappa_low"] is None
    assert row["note"] == "one session: no intervals"


def test_what_does_not_meet_is_counted(tmp_path: Path) -> None:
    run = scored(
        tmp_path,
        ("a", 1, "accuracy", 1.0), ("a", 2, "accuracy", None), ("b", 1, "accuracy", 0.0),
        ("c", 1, "accuracy", 0.5), ("a", 1, "safety_score", None),
    )  # fmt: skip
    given = labels(
        ("a", 1, "accuracy", 1, "x"), ("a", 2, "accuracy", 1, "x"), ("a", 2, "accuracy", 0, "y"),
        ("b", 1, "accuracy", 0, "x"), ("nowhere", 1, "accuracy", 0, "x"),
        ("c", 1, "accuracy", None, "x"), ("a", 1, "safety_score", 1, "x"),
    )  # fmt: skip
    found = agreement(run, given, resamples=0)
    row = found.to_dict()["accuracy"]
    counted = (row["n"], row["judge_nulls"], row["unmatched_labels"], row["unlabelled"])
    assert counted == (2, 1, 1, 1)
    assert row["exact_low"] is None
    assert "no score of the judge: 1 api_error" in row["note"]
    assert "1 label without a row in the run, first labels, row 6: session 'nowhere'" in row["note"]
    assert found.unmatched.select("session_id", "row").rows() == [("nowhere", 6)]
    assert found.unmatched.columns == list(LABEL_COLUMNS)
    # A judge that never answered is a finding, not a mistake of whoever labelled.
    assert found.to_dict()["safety_score"]["judge_nulls"] == 1
    assert found.confusion("safety_score").select(pl.exclude("label").sum()).row(0) == (0,) * 5


def test_a_score_of_the_session_meets_a_blank_turn(tmp_path: Path) -> None:
    run = scored(tmp_path, *((f"s{n}", None, "sentiment", n / 4) for n in range(5)))
    for blank in ("", " ", "session"):
        lines = "".join(f"s{n},{blank},sentiment,{n + 1}\n" for n in range(5))
        (tmp_path / "l.csv").write_text(HEADER + lines)
        assert agreement(run, tmp_path / "l.csv", resamples=0).table["exact"].item() == 1


@pytest.mark.parametrize(
    ("metric", "given", "scale", "kind"),
    [
        ("sentiment", [1, 3, 5], "1-5", "ordinal"),
        ("sentiment", [1, 1, 3.5], "1-5", "ordinal"),
        ("sentiment", [0, 0.5, 1], "0-1", "ordinal"),
        ("sentiment", [0, 1, 1], "0-1", "ordinal"),
        ("sentiment", [1, 1, 1], "1-5", "ordinal"),
        ("sentiment", [True, True, True], "0-1", "ordinal"),
        ("accuracy", [0, 1, 1], "0-1", "interval"),
        ("role_adherence", [0, 1, 1], "0-1", "interval"),
        ("unheard_of", [0, 1, 1], "0-1", "interval"),
    ],
)
def test_the_scale_of_labels(
    tmp_path: Path, metric: str, given: list[float], scale: str, kind: str
) -> None:
    row = held(tmp_path, metric, [0.0, 0.5, 1.0], given, resamples=0)
    assert (row["scale"], row["alpha_level"]) == (scale, kind)
    note = row["note"] or ""
    assert ("every label is 1 and read as 1 of 5" in note) == (
        given == [1, 1, 1] and scale != "0-1"
    )
    assert ("not registered here" in note) == (metric == "unheard_of")


def test_the_scale_can_be_said(tmp_path: Path) -> None:
    judge = [0.0, 0.5, 1.0]
    row = held(tmp_path / "a", "unheard_of", judge, [1, 3, 5], scale="1-5", resamples=0)
    assert (row["exact"], row["alpha_level"], row["note"]) == (1, "ordinal", None)
    scale = {"sentiment": "0-1"}
    row = held(tmp_path / "b", "sentiment", judge, [1, 1, 1], scale=scale, resamples=0)
    assert (row["scale"], row["bias"]) == ("0-1", -0.5)
    row = held(tmp_path / "c", "accuracy", [0.2, 0.5, 1.0], [0, 1, 1], scale="boolean", resamples=0)
    assert (row["exact"], row["alpha_level"]) == (1, "nominal")
    for wrong, words in (("1-7", "scale is one of 0-1, 1-5, boolean"), ({"x": "1-5"}, "about 'x'")):
        with pytest.raises(ConfigError, match=words):
            held(tmp_path / words[:3], "accuracy", judge, [0, 1, 1], scale=wrong)


def test_true_and_false_are_1_and_0(tmp_path: Path, yes_or_no: str) -> None:
    run = scored(tmp_path, *((str(n), 1, yes_or_no, float(n % 2)) for n in range(4)))
    frame = labels(*((str(n), 1, yes_or_no, n % 2 == 1) for n in range(4)))
    frame.write_csv(tmp_path / "l.csv")
    for given in (frame, tmp_path / "l.csv", pd.DataFrame(frame.to_dict(as_series=False))):
        assert agreement(run, given, resamples=0).table["exact"].item() == 1


def workbook(path: Path, *given: list[Any], title: str = "Labels", other: Any = ()) -> Path:
    book = Workbook()
    sheet = book.active
    assert sheet is not None
    sheet.title = title
    for row in given:
        sheet.append(row)
    for row in other:
        (book["Other"] if "Other" in book.sheetnames else book.create_sheet("Other")).append(row)
    book.save(path)
    return path


def forms(tmp_path: Path) -> list[Any]:
    table = labels(("7", 1, "accuracy", 1.0), ("8", 2, "accuracy", 0.0))
    table.write_csv(tmp_path / "l.csv")
    table.write_csv(tmp_path / "l.tsv", separator="\t")
    table.write_csv(tmp_path / "semicolons.csv", separator=";", include_bom=True)
    table.write_parquet(tmp_path / "l.parquet")
    table.write_ndjson(tmp_path / "l.jsonl")
    table.write_json(tmp_path / "l.json")
    workbook(
        tmp_path / "l.xlsx",
        ["Labels of the second week"],
        ["Session ID", "Turn_Id", "METRIC", None, "Human Score"],
        [7, 1, "accuracy", "a remark", 1],
        [None] * 5,
        [8.0, 2.0, "accuracy", None, 0],
        other=[["What is what"], ["label", "between 0 and 1"]],
    )
    names = ("l.csv", "l.tsv", "semicolons.csv", "l.parquet", "l.jsonl", "l.json", "l.xlsx")
    return [
        *(tmp_path / name for name in names),
        str(tmp_path / "l.csv"),
        table,
        table.lazy(),
        table.to_arrow(),
        pd.DataFrame(table.to_dict(as_series=False)),
        table.with_columns(pl.col("session_id").cast(pl.Float64)),
        table.with_columns(pl.col("label").cast(pl.Decimal(10, 2)), score=pl.lit(0.5)),
        table.rename({"label": "rating", "session_id": " SESSION-id"}).with_columns(x=1),
    ]


def test_labels_come_in_many_forms(tmp_path: Path) -> None:
    run = scored(tmp_path, ("7", 1, "accuracy", 1.0), ("8", 2, "accuracy", 0.0))
    for given in forms(tmp_path):
        row = agreement(run, given, resamples=0).to_dict()["accuracy"]
        assert (row["n"], row["exact"]) == (2, 1), given


def test_a_file_for_each_rater(tmp_path: Path) -> None:
    run = scored(tmp_path, ("7", 1, "accuracy", 1.0), ("8", 1, "accuracy", 0.0))
    for rater in ("ann", "bob"):
        (tmp_path / f"labels-{rater}.csv").write_text(
            f"session_id,turn_id,metric,label,rater\n7,1,accuracy,1,{rater}\n8,1,accuracy,0,{rater}\n"
        )
    row = agreement(run, str(tmp_path / "labels-*.csv"), resamples=0).to_dict()["accuracy"]
    assert (row["n"], row["raters"], row["human_alpha"]) == (2, 2, 1)


def test_labels_without_a_metric(tmp_path: Path) -> None:
    run = scored(
        tmp_path,
        ("7", 1, "accuracy", 1.0), ("8", 1, "accuracy", 0.0), ("7", 1, "latency_score", 0.5),
        ("8", 1, "latency_score", 0.5),
    )  # fmt: skip
    without = labels(("7", 1, "", 1.0), ("8", 1, "", 0.0))
    # The judged metric is the one that is meant; latency is nobody's opinion.
    assert agreement(run.path, without.drop("metric")).table["metric"].to_list() == ["accuracy"]
    assert agreement(run, without, metric="latency_score").table["exact"].item() == 0
    with pytest.raises(GroundTruthError, match="line 2, session '7': metric is empty"):
        agreement(run, without)
    other = scored(tmp_path / "b", ("7", 1, "accuracy", 1.0), ("7", 1, "safety_score", 0.0))
    with pytest.raises(GroundTruthError, match=r"several judged metrics \(accuracy, safety_score"):
        agreement(other, without.drop("metric"))
    measured = scored(tmp_path / "c", ("7", 1, "latency_score", 1.0))
    with pytest.raises(GroundTruthError, match="no column 'metric', and the run has no judged"):
        agreement(measured, without.drop("metric"))


def test_only_one_metric(tmp_path: Path) -> None:
    run = scored(tmp_path, ("7", 1, "accuracy", 1.0), ("7", 1, "safety_score", 0.0))
    given = labels(("7", 1, "accuracy", 1.0), ("7", 1, "safety_score", 0), ("7", 1, "mood", 9))
    found = agreement(run, given, metric="accuracy", resamples=0)
    assert found.table["metric"].to_list() == ["accuracy"]
    with pytest.raises(
        ConfigError, match=r"no metric 'acuracy' in the run\. Did you mean 'accurac"
    ):
        agreement(run, given, metric="acuracy")
    with pytest.raises(GroundTruthError, match="no label is about 'accuracy'; they are about mood"):
        agreement(run, given.tail(1), metric="accuracy")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("session_id,metric\n1,accuracy\n", "no column 'label'; labels have session_id, turn_id"),
        ("who,label\n1,1\n", "no column 'session_id'.* this has who, label"),
        ("session_id,label,Human Score\n1,1,1\n", "'label' and 'Human Score' both mean label"),
        ("run_id,session_id,turn_id,metric,score\nr,7,1,accuracy,1\n", "the scores of a run"),
        ("", "the file is empty"),
        (HEADER, "no label: every cell"),
        (HEADER + "7,1,accuracy,\n", "no label: every cell"),
        (HEADER + "7,1,accuracy,good\n", "line 2, session '7': label 'good' is no number"),
        (HEADER + '7,1,accuracy,"0,5"\n', "label '0,5' is no number; write one, with a point"),
        (HEADER + "7,1,accuracy,NaN\n", "label 'NaN' is no number"),
        (HEADER + "7,1,accuracy,1_0\n", "label '1_0' is no number"),
        (HEADER + "7,1,accuracy,1e999\n", "label '1e999' is no number"),
        (HEADER + "7,1,accuracy,1\n\n7,x,accuracy,1\n", "line 4, session '7': turn_id .* not 'x'"),
        (HEADER + '"7\n",1,accuracy,1\n7,1.5,accuracy,1\n', "line 3, .* not '1.5'"),
        (HEADER + ",1,accuracy,1\n", "line 2: session_id is empty"),
        (HEADER + "7,1,,1\n", "line 2, session '7': metric is empty"),
        (HEADER + "7,1,accuracy,1\n8,1,accuracy,4\n", "line 3: label 4 .* not from 0 to 1.*mend"),
        (HEADER + "7,1,accuracy,4\n", "or give scale='1-5'"),
        (HEADER + "7,,sentiment,4\n7,1,sentiment,0.5\n", "line 3: label 0.5 .* not from 1 to 5"),
        (HEADER + "7,,sentiment,6\n", "line 2: label 6 for 'sentiment' of session '7', the sess"),
        (HEADER + "7,,sentiment,4\n8,,sentiment,TRUE\n", "line 3: label TRUE"),
        (HEADER + "7,1,polite,0.5\n", "not 0 or 1.*scale='0-1'"),
        (
            HEADER + "7,1,accuracy,1\n8,1,accuracy,1\n7,1,accuracy,0\n",
            "line 4: 'accuracy' of session '7', turn 1, is labelled in row 2 already; keep one",
        ),
        (HEADER + "7,,sentiment,1\n7,,sentiment,2\n", "line 3: .*the session itself, is labelled"),
        (
            "session_id,turn_id,metric,label,rater\n7,1,accuracy,1,ann\n7,1,accuracy,1,ann\n",
            "is labelled by 'ann' in row 2 already",
        ),
        (HEADER + "9,1,accuracy,1\n", "no label meets a row.*row 2: session '9' is not in the run"),
        (HEADER + "7,0,accuracy,1\n", "session '7' has no turn 0, but 1"),
        (HEADER + "7,,accuracy,1\n", "names no turn, and the metric is scored turn by turn"),
        (HEADER + "7,1,sentiment,1\n", "scored once a session: leave turn_id empty"),
    ],
)
def test_bad_labels_are_named(tmp_path: Path, text: str, words: str, yes_or_no: str) -> None:
    run = scored(
        tmp_path, ("7", 1, "accuracy", 1.0), ("7", None, "sentiment", 1.0), ("7", 1, yes_or_no, 1)
    )
    (tmp_path / "l.csv").write_text(text)
    with pytest.raises(GroundTruthError, match=f"(?s){words}") as raised:
        agreement(run, tmp_path / "l.csv")
    assert str(tmp_path / "l.csv") in str(raised.value)


def test_rows_are_counted_as_the_file_counts_them(tmp_path: Path) -> None:
    run = scored(tmp_path, ("7", 1, "accuracy", 1.0))
    good = '{"session_id": "7", "turn_id": 1, "metric": "accuracy", "label": 1}\n'
    (tmp_path / "l.jsonl").write_text(good + "\n" + good.replace("1}", '"bad"}'))
    with pytest.raises(GroundTruthError, match="line 3, session '7': label 'bad'") as raised:
        agreement(run, tmp_path / "l.jsonl")
    assert (raised.value.line, raised.value.source) == (3, str(tmp_path / "l.jsonl"))
    header = ["session_id", "turn_id", "metric", "label"]
    for bad, words in ((date(2026, 5, 1), "label 2026-05-01"), ("#N/A", "the cell shows #N/A")):
        path = workbook(tmp_path / "l.xlsx", ["About"], header, [], [7, 1, "accuracy", bad])
        with pytest.raises(GroundTruthError, match=f"line 4, session '7': {words}"):
            agreement(run, path)
    rows = [header, [7, 1, "accuracy", 1]]
    path = workbook(tmp_path / "two.xlsx", *rows, other=rows)
    with pytest.raises(GroundTruthError, match="'Labels' and 'Other' all hold labels"):
        agreement(run, path)


def test_other_mistakes(tmp_path: Path) -> None:
    run = scored(tmp_path, ("7", 1, "accuracy", 1.0))
    with pytest.raises(
        ConfigError, match=r"row 2: there is no metric 'acuracy' in the run\. Did yo"
    ):
        agreement(run, labels(("7", 1, "acuracy", 1.0)))
    with pytest.raises(GroundTruthError, match="a path or a frame, not a int"):
        agreement(run, 5)
    with pytest.raises(GroundTruthError, match="cannot be opened"):
        agreement(run, tmp_path / "missing.csv")
    with pytest.raises(GroundTruthError, match="the frame cannot be read: ArrowInvalid"):
        agreement(run, pd.DataFrame({"session_id": ["7"] * 2, "label": [1, "a"]}))
    with pytest.raises(GroundTruthError, match=r"reset_index\(\)"):
        agreement(run, pd.DataFrame({"label": [1]}, index=pd.Index(["7"], name="session_id")))
    with pytest.raises(ConfigError, match="resamples is 0 or more"):
        agreement(run, labels(("7", 1, "accuracy", 1.0)), resamples=-1)
    with pytest.raises(StoreError):
        agreement(tmp_path / "nowhere", labels(("7", 1, "accuracy", 1.0)))
    with pytest.raises(ConfigError, match=r"one of the compared metrics: \['accuracy'\]"):
        agreement(run, labels(("7", 1, "accuracy", 0.5))).confusion("bias_score")


def test_disagreements_are_the_widest_first(tmp_path: Path) -> None:
    run = scored(tmp_path, *((f"s{n}", 1, "accuracy", n / 4) for n in range(5)))
    found = agreement(run, labels(*((f"s{n}", 1, "accuracy", 1.0) for n in range(5))))
    assert found.disagreements(2)["score"].to_list() == [0.0, 0.25]
    widest = found.disagreements(n=1).row(0, named=True)
    assert widest == {
        "session_id": "s0", "turn_id": 1, "metric": "accuracy", "label": 1.0, "score": 0.0,
        "reasoning": "<b>s0</b>", "apart": 1.0,
    }  # fmt: skip
    assert found.disagreements().height == 4  # one pair agrees


def test_pictures_are_for_people_and_escaped(tmp_path: Path) -> None:
    name, sid = "<script>alert(1)</script>", "<img src=x>"
    run = scored(tmp_path, *((f"s{n}", 1, name, n / 4) for n in range(5)))
    given = labels(*((f"s{n}", 1, name, n / 4) for n in range(5)), (sid, 1, name, 1.0))
    found = agreement(run, given, resamples=20)
    html = found._repr_html_()
    assert "<script>" not in html
    assert "<img" not in html
    assert "&lt;script&gt;" in html
    assert "1.00 [1.00, 1.00]" in html
    assert "None" not in html
    text = repr(found)
    assert "n 5 (5 sessions), within one 1.00 [1.00, 1.00]" in text
    assert "intervals are rough" in text
    assert "<b>" not in found.disagreements()._repr_html_()


def test_nothing_heavy_is_loaded_before_it_is_asked_for() -> None:
    code = (
        "import sys, uaef_frames; uaef_frames.agreement; "
        "print([m for m in ('scipy', 'statsmodels', 'krippendorff', 'pandas', 'openpyxl') "
        "if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_agreement_at_the_command_line(tmp_path: Path) -> None:
    run = scored(tmp_path / "runs", ("7", 1, "accuracy", 1.0), ("8", 2, "accuracy", 0.0))
    (tmp_path / "l.csv").write_text(HEADER + "7,1,accuracy,1\n8,2,accuracy,1\n")
    command = [sys.executable, "-m", "uaef_frames", "agreement", str(run.path)]
    found = subprocess.run(
        [*command, str(tmp_path / "l.csv"), "--json"], capture_output=True, text=True, check=True
    )
    assert json.loads(found.stdout)
    missing = subprocess.run(
        [*command, str(tmp_path / "none.csv")], capture_output=True, text=True, check=False
    )
    assert missing.returncode == 1
    assert "none.csv" in missing.stderr
