"""What is written reads back the same, runs nothing when opened, and no broken file is a
traceback.
"""

from __future__ import annotations

import random
import resource
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from openpyxl import load_workbook
from polars.testing import assert_frame_equal

from uaef_frames import (
    ConfigError,
    Expectations,
    GroundTruthError,
    read_ground_truth,
    validate_ground_truth,
    write_ground_truth,
)
from uaef_frames.canonical import canonical_json
from uaef_frames.expectations import SessionTruth, TurnTruth
from uaef_frames.sheets.workbooks import escaped, unescaped

# Ids lose blanks around them, and text that is nothing but blanks is an empty cell.
odd = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
filled = st.one_of(
    odd.filter(lambda s: bool(s.strip())),
    st.sampled_from(['"', '""', '"""', "=1+1", "-x", "+", "@a", "'=1", "'", "''", "\tx", "_x0041_",
                     "a\r\nb", "nan", "None", "[]", "null", "session", "1.0", "\x01", "a\x85b"]),
)  # fmt: skip
ids = st.text(st.characters(categories=["L", "N", "P"]), min_size=1, max_size=8)
names = filled
arguments = st.dictionaries(
    odd, st.one_of(st.none(), st.booleans(), st.integers(-9, 9), odd), max_size=2
)
calls = st.lists(st.tuples(names, arguments.map(canonical_json)), max_size=2)
outputs = st.one_of(st.none(), st.just(""), filled)
contexts = st.lists(odd, max_size=2)
turns = st.builds(
    TurnTruth,
    turn_id=st.integers(-3, 99),
    expected_output=outputs,
    tools=st.none() | calls,
    context=contexts,
    query=st.none() | filled,
)


@st.composite
def sessions(draw: st.DrawFn) -> SessionTruth:
    positional = draw(st.booleans())
    held = draw(st.lists(turns, max_size=3, unique_by=lambda t: t.turn_id))
    held.sort(key=lambda t: t.turn_id)
    if positional:
        for number, turn in enumerate(held, 1):
            turn.turn_id = number
    say_tools = any(t.tools is not None for t in held)
    labels = draw(st.dictionaries(filled, st.one_of(st.none(), st.integers(0, 9), odd), max_size=2))
    return SessionTruth(
        draw(ids),
        expected_output=draw(st.none() | filled),
        tools=None if say_tools else draw(st.none() | calls),
        chatbot_role=draw(st.none() | filled),
        system_instructions=draw(st.none() | filled),
        context=draw(contexts),
        labels=labels,
        turns=held,
        positional=positional or not held,
    )


all_of_it = st.lists(sessions(), max_size=3, unique_by=lambda s: s.session_id).map(
    Expectations.from_truths
)


def same(one: Expectations, two: Expectations) -> None:
    for name in one.tables:
        assert_frame_equal(getattr(one, name), getattr(two, name))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(held=all_of_it)
@example(held=Expectations.empty())
@example(held=Expectations.from_truths([SessionTruth("0", labels={"'=": "0", "=1+1": "x"})]))
def test_any_expectations_survive(
    held: Expectations, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("trip")
    for ending in ("xlsx", "csv", "tsv", "jsonl"):
        path = write_ground_truth(held, folder / f"x.{ending}")
        if ending == "jsonl" and not len(held):
            continue
        report = validate_ground_truth(path)
        assert report.valid, (ending, str(report))
        same(held, report.expectations)


@given(odd)
@example("_x0041_\x01\r")
def test_text_of_any_kind_fits_a_cell(text: str) -> None:
    assert unescaped(escaped(text)) == text


HOSTILE = ['=HYPERLINK("http://x")', "+1", "-2+3", "@SUM(A1)", "\tx", "\rx", "=cmd|' /C calc'!A0"]


def test_nothing_runs_when_a_sheet_is_opened(tmp_path: Path) -> None:
    truths = [
        SessionTruth(
            f"s{n}",
            turns=[TurnTruth(1, text, query=text)],
            labels={"l": text.strip() or "x", f"=L{n}": "a", "'=M": "b"},
        )
        for n, text in enumerate(HOSTILE)
    ]
    held = Expectations.from_truths(truths)
    path = write_ground_truth(held, tmp_path / "x.xlsx")
    sheet = load_workbook(path).worksheets[0]
    kinds = {c.data_type for row in sheet.iter_rows() for c in row if c.value is not None}
    assert kinds == {"s"}, "text is text: no formula among the cells"
    same(held, read_ground_truth(path))
    path = write_ground_truth(held, tmp_path / "x.csv")
    for line in path.read_text("utf-8-sig").splitlines():
        for cell in line.split(","):
            assert not cell.strip('"').startswith(("=", "+", "@"))
    same(held, read_ground_truth(path))


def test_a_template_explains_itself(tmp_path: Path) -> None:
    path = write_ground_truth(None, tmp_path / "template.xlsx")
    book = load_workbook(path)
    assert book.sheetnames == ["ground truth", "help"]
    report = validate_ground_truth(path)
    assert report.valid
    assert len(report.expectations) == 0


def test_what_cannot_be_written_is_said(tmp_path: Path) -> None:
    held = Expectations.from_truths([SessionTruth("s", turns=[TurnTruth(1, "x" * 40_000)])])
    with pytest.raises(GroundTruthError, match="does not fit a cell"):
        write_ground_truth(held, tmp_path / "x.xlsx")
    same(held, read_ground_truth(write_ground_truth(held, tmp_path / "x.jsonl")))
    with pytest.raises(ConfigError, match="written as xlsx"):
        write_ground_truth(held, tmp_path / "x.docx")


def mutated(content: bytes, dice: random.Random) -> bytes:
    made = bytearray(content)
    for _ in range(dice.randint(1, 8)):
        at = dice.randrange(len(made))
        kind = dice.randrange(5)
        if kind == 0:
            made[at] = dice.randrange(256)
        elif kind == 1:
            del made[at : at + dice.randint(1, 60)]
        elif kind == 2:
            made[at:at] = dice.choice(
                [b'"', b",", b"\x00", b"<", b"&", b"\xff\xfe", b"[{", b"'", b"\r"]
            )
        elif kind == 3:
            made[at : at + 4] = made[: dice.randint(0, 8)]
        else:
            del made[at:]
        if not made:
            break
    return bytes(made)


def rezipped(content: bytes, dice: random.Random) -> bytes:
    """A workbook whose parts are broken, not its envelope."""
    import io
    import zipfile

    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(buffer, "w") as new:
        broken = dice.choice(old.namelist())
        for entry in old.namelist():
            held = old.read(entry)
            new.writestr(entry, mutated(held, dice) if entry == broken else held)
    return buffer.getvalue()


@pytest.mark.filterwarnings("ignore::UserWarning:openpyxl")
def test_two_thousand_broken_files_end_in_expectations_or_a_clear_error(tmp_path: Path) -> None:
    held = Expectations.from_truths(
        SessionTruth(
            f"s{n}",
            chatbot_role="clerk",
            turns=[
                TurnTruth(t, f'say "{t}"; ok', [("f", '{"a":1}')], ["doc"], "hi, you")
                for t in (1, 2)
            ],
        )
        for n in range(4)
    )
    paths = [write_ground_truth(held, tmp_path / f"x.{e}") for e in ("xlsx", "csv")]
    workbook, table = (p.read_bytes() for p in paths)
    dice = random.Random(20261201)
    read = refused = 0
    for number in range(2000):
        make = (mutated, rezipped)[number % 2] if number % 4 < 2 else mutated
        content = make(workbook if number % 4 < 2 else table, dice)
        report = validate_ground_truth(content)
        assert isinstance(report.expectations, Expectations)
        assert str(report)
        assert "Traceback" not in str(report)
        read += report.valid
        refused += not report.valid
    assert read > 200
    assert refused > 200


def test_a_large_sheet_streams(tmp_path: Path) -> None:
    from uaef_frames.sheets.writing import write_workbook

    rows = ([f"s{n // 4}", n % 4 + 1, f"question {n}", f"answer {n}", "[]"] for n in range(20_000))
    header = ["session_id", "turn_id", "Question", "Answer", "tools"]
    write_workbook(tmp_path / "x.xlsx", {"x": (header, rows)})
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    report = validate_ground_truth(tmp_path / "x.xlsx")
    assert report.headline == "MULTI-TURN — 20000 rows, 5000 conversations (grouped by session_id)"
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    assert grown < 300


def test_the_sheet_of_tooltalk_is_its_jsonl() -> None:
    import os

    root = os.environ.get("UAEF_REAL_DATA")
    if not root:
        pytest.skip("set UAEF_REAL_DATA to the folder that holds tooltalk")
    folder = Path(root) / "tooltalk"
    from uaef_frames import load_expectations

    sheet = read_ground_truth(folder / "ground_truth_sheet.csv")
    lines = load_expectations(folder / "ground_truth.jsonl")
    keys = ["session_id", "turn_id"]
    both = (
        sheet.expected_tool_calls.sort(*keys, "call_index"),
        lines.expected_tool_calls.sort(*keys, "call_index"),
    )
    columns: list[Any] = ["session_id", "turn_id", "name", "arguments"]
    assert_frame_equal(both[0].select(columns), both[1].select(columns))
    assert sheet.turn_expectations.filter(pl.col("query").is_null()).is_empty()
