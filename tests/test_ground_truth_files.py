"""Ground truth in files: every spelling of it says the same, and nothing is dropped in silence."""

from __future__ import annotations

import json
import random
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from tests.adapters.test_bulk import NUMBERS, ODD_NUMBERS, arguments, dump, raw, text
from uaef_frames import Expectations, GroundTruthError, load_expectations
from uaef_frames.errors import ConfigError
from uaef_frames.ground_truth_bulk import TruthBulkReader
from uaef_frames.ground_truth_files import TruthReader

if TYPE_CHECKING:
    from collections.abc import Callable

    from uaef_frames.adapters.lines import LineIndex
    from uaef_frames.rows import Reject

Row = dict[str, Any]
TABLES = ("turn_expectations", "session_expectations", "expected_tool_calls")
OUTPUTS, TOOLS = "per_turn_expected", "per_turn_expected_tool_calls"


def make_row(rnd: random.Random, sid: str, tame: bool = True) -> Row:
    row: Row = {"session_id": sid}
    turns = rnd.randint(0, 4)
    if rnd.random() < 0.9:
        row[OUTPUTS] = [rnd.choice([text(rnd, tame), text(rnd, tame), None]) for _ in range(turns)]
    if rnd.random() < 0.9:
        row[TOOLS] = [
            [
                {"name": rnd.choice(["search", "größe", ""]), "arguments": arguments(rnd, tame)}
                for _ in range(rnd.randint(0, 3))
            ]
            for _ in range(turns + rnd.choice([-1, 0, 0, 0, 1]))
        ]
    return row


def entry(value: Any) -> Callable[[Row, random.Random], None]:
    """One turn's entry of tools is that."""

    def change(row: Row, rnd: random.Random) -> None:
        row[TOOLS] = [*row.get(TOOLS, []), value, []]

    return change


def cell(name: str, value: Any) -> Callable[[Row, random.Random], None]:
    def change(row: Row, rnd: random.Random) -> None:
        row[name] = value

    return change


def added(value: Any) -> Callable[[Row, random.Random], None]:
    """One turn's expected output is that."""

    def change(row: Row, rnd: random.Random) -> None:
        row[OUTPUTS] = [*row.get(OUTPUTS, []), value]

    return change


CALL = {"name": "search", "arguments": {"a": 1}}
IRREGULAR: dict[str, Callable[[Row, random.Random], None]] = {
    "nothing said of a turn's tools": entry(None),
    "tools as text": entry('[{"name": "search", "arguments": {"a": 1}}]'),
    "no tools as text": entry("[]"),
    "tools as names": entry(["search", "book"]),
    "one call that stands alone": entry(CALL),
    "a call that is null": entry([None]),
    "a call that is a number": entry([5]),
    "a call without a name": entry([{"arguments": {}}]),
    "a name that is a number": entry([{"name": 5, "arguments": {}}]),
    "another word for the name": entry([{"tool_name": "search", "args": {"a": 1}}]),
    "two words for the name": entry([{"name": "search", "tool_name": "book"}]),
    "parameters": entry([{"name": "search", "parameters": {"a": 1}}]),
    "arguments and parameters": entry([{**CALL, "parameters": {"b": 1}}]),
    "no arguments": entry([{"name": "search"}]),
    "arguments that are null": entry([{"name": "search", "arguments": None}]),
    "arguments as text": entry([{"name": "search", "arguments": '{"a": 1}'}]),
    "arguments that are a list": entry([{"name": "search", "arguments": [1]}]),
    "another key in a call": entry([{**CALL, "id": "c1"}]),
    "odd numbers": entry(
        [{"name": "search", "arguments": {"n": [raw(n) for n in (*NUMBERS, *ODD_NUMBERS)]}}]
    ),
    "NaN": entry([{"name": "search", "arguments": {"n": raw("NaN")}}]),
    "deep arguments": entry([{"name": "search", "arguments": {"n": raw("[" * 600 + "]" * 600)}}]),
    "tools of all turns as text": cell(TOOLS, '[[{"name": "search"}], null]'),
    "tools of all turns as broken text": cell(TOOLS, "[[{"),
    "tools of all turns as an object": cell(TOOLS, {"a": 1}),
    "blank tools": cell(TOOLS, " "),
    "null tools": cell(TOOLS, None),
    "outputs as text": cell(OUTPUTS, '["a", null, ""]'),
    "outputs as broken text": cell(OUTPUTS, "a"),
    "outputs as an object": cell(OUTPUTS, {"a": 1}),
    "null outputs": cell(OUTPUTS, None),
    "an output that is a number": added(5),
    "an output that is a float": added(raw("5.0")),
    "an output that is a list": added(["a"]),
    "an output that is true": added(True),
    "a blank output": added("\u3000"),
    "an output of a separator": added("\x1c"),
    "an overall output": cell("expected_output", "all"),
    "overall tools": cell("expected_tool_calls", [CALL]),
    "a role": cell("chatbot_role", "a clerk"),
    "a label": cell("difficulty", "hard"),
    "a label that looks like a note": cell("_note", "hard"),
    "the same cell in two columns": cell("per_turn_tools", [[]]),
    "a turn": cell("turn_id", 2),
    "another session's name": cell("session_id", "s0"),
    "a session that is a number": cell("session_id", 5),
    "a session that is a float": cell("session_id", raw("1.5")),
    "a blank session": cell("session_id", "  "),
    "a null session": cell("session_id", None),
}


def read(lines: list[bytes], quick: bool) -> tuple[Expectations, list[Reject], int]:
    """What lines say, and how many of them the bulk reader left to the row reader."""
    left = 0
    bulk = TruthBulkReader()

    def counting(index: LineIndex, rows: pl.DataFrame) -> tuple[Expectations, pl.DataFrame]:
        nonlocal left
        regular, others = bulk(index, rows) if quick else (Expectations.empty(), rows)
        left += others.height
        return regular, others

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "truth.jsonl"
        path.write_bytes(b"\n".join(lines))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("uaef_frames.ground_truth_files.TruthBulkReader", lambda: counting)
            reader = TruthReader.open([path], Path(folder))
        found, rejects = reader.of(reader.session_ids)
        rejects += reader.strays()
    strip = [(r.line, r.reason, r.session_id, r.raw) for r in rejects]
    return found, strip, left  # type: ignore[return-value]


def assert_same(lines: list[bytes]) -> int:
    one, one_rejects, left = read(lines, quick=True)
    other, other_rejects, _ = read(lines, quick=False)
    assert one_rejects == other_rejects
    for name in TABLES:
        keys = [k for k in ("session_id", "turn_id", "call_index") if k in getattr(one, name)]
        assert_frame_equal(getattr(one, name).sort(keys), getattr(other, name).sort(keys))
    one.validate()
    return left


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 2**32), st.lists(st.sampled_from([None, None, *IRREGULAR]), max_size=6))
def test_rows_are_read_the_same_in_bulk_and_one_by_one(
    seed: int, changes: list[str | None]
) -> None:
    rnd = random.Random(seed)
    rows = [make_row(rnd, f"s{n}", tame=rnd.random() < 0.5) for n in range(len(changes) + 1)]
    for row, change in zip(rows[1:], changes, strict=True):
        if change is not None:
            IRREGULAR[change](row, rnd)
    lines = [dump(row, rnd) for row in rows]
    rnd.shuffle(lines)
    assert_same(lines)


def test_regular_rows_are_read_in_bulk() -> None:
    rnd = random.Random(5)
    assert assert_same([dump(make_row(rnd, f"s{n}"), rnd) for n in range(200)]) == 0


@pytest.mark.parametrize("name", IRREGULAR)
def test_an_irregular_row_is_read_the_same_and_alone(name: str) -> None:
    rnd = random.Random(name)
    rows = [make_row(rnd, f"s{n}") for n in range(6)]
    IRREGULAR[name](rows[3], rnd)
    assert assert_same([dump(row, rnd) for row in rows]) <= 2


def lines_of(path: Path, rows: list[Row]) -> Path:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")
    return path


def calls_in(found: Expectations) -> list[tuple[Any, ...]]:
    columns = ("session_id", "turn_id", "name", "arguments")
    return found.expected_tool_calls.select(columns).rows()


def outputs_in(found: Expectations) -> list[tuple[Any, ...]]:
    return found.turn_expectations.select("session_id", "turn_id", "expected_output").rows()


def test_rows_of_turns_come_in_any_order(tmp_path: Path) -> None:
    rows = [
        {"session_id": "a", "turn_id": 2, "expected_output": "two", "expected_tool_calls": []},
        {"session_id": "b", "turn_id": 1, "expected_output": "bee"},
        {"session_id": "a", "turn_id": 1, "expected_output": "one", "expected_tool_calls": [CALL]},
    ]
    found = load_expectations(lines_of(tmp_path / "truth.jsonl", rows))
    assert outputs_in(found) == [("a", 1, "one"), ("a", 2, "two"), ("b", 1, "bee")]
    assert calls_in(found) == [("a", 1, "search", '{"a":1}')]
    stated = found.turn_expectations["tools_stated"].to_list()
    assert stated == [True, True, False]


@pytest.mark.parametrize("header", ["Session ID", "SESSION_ID", "session id", "\ufeffsession_id"])
def test_the_session_s_header_may_be_spelt_in_any_way(tmp_path: Path, header: str) -> None:
    rows = [{header: "a", "Answer": "yes"}, {"session_id": "b", OUTPUTS: ["no"]}]
    found = load_expectations(lines_of(tmp_path / "truth.jsonl", rows))
    assert sorted(found.session_ids) == ["a", "b"]
    answers = dict(found.session_expectations.select("session_id", "expected_output").rows())
    assert answers == {"a": "yes", "b": None}


def test_numbers_and_blank_cells_of_a_table_read_as_a_person_means_them(tmp_path: Path) -> None:
    frame = pl.DataFrame(
        {
            "session_id": ["a", "a", "a"],
            "turn_id": [1.0, 2.0, 3.0],
            "expected_output": ["yes", None, " "],
            "expected_tool_calls": ['[{"name": "search", "arguments": {"a": 1.0}}]', None, "[]"],
            "score": [float("nan"), 1.5, None],
        }
    )
    path = tmp_path / "truth.parquet"
    frame.write_parquet(path)
    found = load_expectations(path)
    assert outputs_in(found) == [("a", 1, "yes"), ("a", 2, None), ("a", 3, None)]
    assert found.turn_expectations["tools_stated"].to_list() == [True, False, True]
    assert calls_in(found) == [("a", 1, "search", '{"a":1}')]
    assert found.session_expectations["labels"].to_list() == ['{"score":1.5}']


def test_other_columns_are_labels(tmp_path: Path) -> None:
    rows = [{"session_id": "a", OUTPUTS: ["x"], "split": "easy", "reward": None, "_n": {"b": 1}}]
    found = load_expectations(lines_of(tmp_path / "truth.jsonl", rows))
    labels = json.loads(found.session_expectations["labels"][0])
    assert labels == {"split": "easy", "reward": None, "_n": {"b": 1}}


DEEP = '{"x":' + "[" * 600 + "]" * 600 + "}"


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ('{"session_id": "a", "expected_output": ', "not JSON"),
        ("[1]", "expected an object"),
        ('{"expected_output": "x"}', "session_id is missing"),
        ('{"session_id": " ", "expected_output": "x"}', "session_id is missing"),
        ('{"session_id": "a", "expected_tool_calls": "["}', "not JSON"),
        ('{"session_id": "a", "expected_tool_calls": 5}', "a list"),
        ('{"session_id": "a", "turn_id": 1.5}', "whole number"),
        ('{"session_id": "a", "turn_id": 1180591620717411303424}', "64 bits"),
        ('{"session_id": "a", "turn_id": "--1"}', "turn_id|int"),
        ('{"session_id": "a", "tools": [{"name": "f", "args": ' + DEEP + "}]}", "nested"),
        ('{"session_id": "first"}', "ground truth already"),
        ('{"session_id": "a", "answer": "x", "expected": "y"}', "both mean expected_output"),
    ],
)
def test_a_row_that_cannot_be_read_is_named(tmp_path: Path, row: str, said: str) -> None:
    path = tmp_path / "truth.jsonl"
    path.write_text('{"session_id": "first"}\n\n' + row + "\n", "utf-8")
    with pytest.raises(GroundTruthError, match=said) as caught:
        load_expectations(path)
    assert (caught.value.source, caught.value.line) == (str(path), 3)


def test_a_file_that_is_not_there_is_a_wrong_argument(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="ground_truth: there is no file"):
        load_expectations(tmp_path / "missing.jsonl")
