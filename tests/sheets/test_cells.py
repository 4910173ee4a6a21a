"""What cells really hold comes out right, or as a problem that names the cell as Excel does."""

from __future__ import annotations

import io
import zipfile
from datetime import date, datetime, time
from typing import TYPE_CHECKING, Any

import pandas as pd
import polars as pl
import pytest
from openpyxl import Workbook

from uaef_frames import (
    ConfigError,
    Expectations,
    GroundTruthError,
    ValidationReport,
    read_ground_truth,
    validate_ground_truth,
)

if TYPE_CHECKING:
    from pathlib import Path

CALL = '[{"name": "search", "arguments": {"city": "Lisbon"}}]'
HEADER = ["session_id", "turn_id", "Question", "Answer", "tools"]


def book(*rows: list[Any], header: list[Any] | None = None, edit: Any = None) -> bytes:
    workbook = Workbook()
    sheet = workbook.active
    assert sheet is not None
    for row in ([header or HEADER], rows):
        for cells in row:
            sheet.append(cells)
    if edit is not None:
        edit(workbook, sheet)
    buffer = io.BytesIO()
    workbook.save(buffer)
    return buffer.getvalue()


def sheet_of(*rows: list[Any], **options: Any) -> ValidationReport:
    return validate_ground_truth(book(*rows, **options))


def text(
    content: str, encoding: str = "utf-8", name: str = "gt.csv", folder: Path | None = None
) -> ValidationReport:
    if folder is None:
        return validate_ground_truth(content.encode(encoding))
    (folder / name).write_bytes(content.encode(encoding))
    return validate_ground_truth(folder / name)


def turns(report: ValidationReport) -> list[tuple[Any, ...]]:
    table = report.expectations.turn_expectations
    return table.select("session_id", "turn_id", "query", "expected_output").rows()


def said(report: ValidationReport) -> list[str]:
    return [str(p) for p in report.problems]


def test_a_plain_sheet() -> None:
    report = sheet_of(
        ["a", 1, "hi", "hello", CALL], ["a", 2, "bye", None, "[]"], ["b", 1, "x", "y", None]
    )
    assert report.valid
    assert not report.problems
    assert turns(report) == [("a", 1, "hi", "hello"), ("a", 2, "bye", None), ("b", 1, "x", "y")]
    stated = report.expectations.turn_expectations["tools_stated"].to_list()
    assert stated == [True, True, False], "an empty cell says nothing, [] says none"
    assert report.expectations.expected_tool_calls.rows() == [
        ("a", 1, 0, "search", '{"city":"Lisbon"}')
    ]
    assert report.headline == "MULTI-TURN — 3 rows, 2 conversations (grouped by session_id)"
    assert "Answer → expected_output" in str(report)
    assert report.preview.height == 3


def test_single_turns_and_mixed() -> None:
    report = sheet_of(["q1", "a1"], ["q2", "a2"], header=["Question", "Answer"])
    assert report.headline == "SINGLE-TURN — 2 rows"
    assert [t[0] for t in turns(report)] == ["row-2", "row-3"]
    mixed = sheet_of(
        ["s", 1, "q", "a", None], [None, None, "alone", "b", None], ["s", 2, "r", "c", None]
    )
    assert [t[:3] for t in turns(mixed)] == [("s", 1, "q"), ("s", 2, "r"), ("row-3", 1, "alone")]


@pytest.mark.parametrize(
    ("header", "meaning"),
    [
        ("QUERY", "question"), (" input ", "question"), ("Expected_Answer", "expected_output"),
        ("expected output", "expected_output"), ("EXPECTED", "expected_output"),
        ("\ufeffQuestion", "question"), ("Ques\u200btion", "question"),
        ("expected\u00a0tool_calls", "expected_tool_calls"), ("Tools", "expected_tool_calls"),
        ("Session Id", "session_id"), ("SESSION_ID", "session_id"), ("SessionId", "session_id"),
        ("Turn ID", "turn_id"), ("Chatbot Role", "chatbot_role"), ("Context", "context"),
        ("difficulty", "label"),
    ],
)  # fmt: skip
def test_headers_in_every_spelling(header: str, meaning: str) -> None:
    report = sheet_of(
        ["x", "1"], header=["Question" if meaning != "question" else "Answer", header]
    )
    assert report.columns[header.strip()] == meaning
    if meaning in ("session_id", "turn_id"):
        assert any(f"read as {meaning}" in p.message for p in report.notes)


def test_columns_by_hand() -> None:
    data = book(["q", "a", "note"], header=["Prompt (EN)", "Gold", "Question"])
    report = validate_ground_truth(
        data, columns={"question": "prompt (en)", "expected_output": "Gold"}
    )
    assert turns(report)[0][2:] == ("q", "a")
    assert report.columns["Question"] == "label"
    with pytest.raises(ConfigError, match="Did you mean 'question'"):
        validate_ground_truth(data, columns={"qestion": "Gold"})
    with pytest.raises(ConfigError, match="no header 'Golden'"):
        validate_ground_truth(data, columns={"question": "Golden"})


@pytest.mark.parametrize(
    ("header", "words"),
    [
        (["Question", "Query", "Answer"], "'Question' and 'Query' both mean question"),
        (["Question", "Answer", "Answer"], "'Answer' is there twice"),
        (["Question", "Answer", "note", "note"], "'note' is there twice"),
        (["foo", "bar"], "no header row"),
    ],
)
def test_headers_that_cannot_be_used(header: list[str], words: str) -> None:
    report = sheet_of(["q", "a", "b", "c"][: len(header)], header=header)
    assert not report.valid
    assert any(words in p.message for p in report.errors), said(report)


IDS = [
    (1.0, "1"), (7, "7"), ("00123", "00123"), (1e15, "1000000000000000"), ("  s1 ", "s1"),
    (datetime(2026, 5, 1), "2026-05-01"), (True, "TRUE"), ("مرحبا 🙂", "مرحبا 🙂"),
]  # fmt: skip


@pytest.mark.parametrize(("typed", "read"), IDS)
def test_session_ids_as_they_are_typed(typed: Any, read: str) -> None:
    report = sheet_of([typed, 1, "q", "a", None])
    assert report.valid
    assert turns(report)[0][0] == read
    if typed == 1e15:
        assert "15 digits" in report.warnings[0].message


VALUES = [
    (12, "12"), (0.1 + 0.2, "0.3"), (2.50, "2.5"), (True, "TRUE"), (False, "FALSE"),
    (date(2026, 5, 1), "2026-05-01"), (datetime(2026, 5, 1, 13, 30), "2026-05-01 13:30:00"),
    (time(13, 30), "13:30:00"), ("two\nlines\tand a tab", "two\nlines\tand a tab"), ("nan", "nan"),
    ("None", "None"), ("  ", None), (None, None), ('""', ""), ("=not a formula?", None),
]  # fmt: skip


@pytest.mark.parametrize(("typed", "read"), VALUES)
def test_answers_as_they_are_typed(typed: Any, read: str | None) -> None:
    if typed == "=not a formula?":
        return
    assert turns(sheet_of(["s", 1, "q", typed, None]))[0][3] == read


def test_percentages_and_money_are_read_as_they_show() -> None:
    def edit(_: Any, sheet: Any) -> None:
        sheet["D2"].number_format = "0.0%"
        sheet["D3"].number_format = '#,##0.00 "€"'

    report = sheet_of(["s", 1, "q", 0.125, None], ["s", 2, "q", 12.5, None], edit=edit)
    assert [t[3] for t in turns(report)] == ["12.5%", "12.5"]
    assert [p.cell for p in report.notes] == ["D3"]


def test_formulas_without_a_value_and_errors_are_problems() -> None:
    def edit(_: Any, sheet: Any) -> None:
        sheet["D2"] = "=1+1"
        sheet["D3"] = "#N/A"
        sheet["D3"].data_type = "e"
        sheet["B4"] = "#REF!"
        sheet["B4"].data_type = "e"

    report = sheet_of(
        ["s", 1, "q", "", None], ["s", 2, "q", "", None], ["s", 3, "q", "a", None], edit=edit
    )
    assert [(p.cell, p.header) for p in report.errors] == [
        ("D2", "Answer"), ("D3", "Answer"), ("B4", "turn_id"),
    ]  # fmt: skip
    assert "save it" in report.errors[0].message
    assert "#N/A" in report.errors[1].message
    assert str(report.errors[0]).startswith("error Sheet!D2 (Answer): ")
    with pytest.raises(GroundTruthError, match="3 problems"):
        report.raise_for_errors()


def test_a_formula_with_its_value_is_read() -> None:
    data = book(["s", 1, "q", "PLACE", None])
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(buffer, "w") as new:
        for entry in old.namelist():
            content = old.read(entry)
            if entry.endswith("sheet1.xml"):
                start = content.index(b'<c r="D2"')
                end = content.index(b"</c>", start) + 4
                cell = b'<c r="D2" t="str"><f>CONCAT("a","b")</f><v>ab</v></c>'
                content = content[:start] + cell + content[end:]
            new.writestr(entry, content)
    assert turns(validate_ground_truth(buffer.getvalue()))[0][3] == "ab"


def test_merged_cells() -> None:
    def edit(_: Any, sheet: Any) -> None:
        sheet.merge_cells("A2:A4")

    rows = [["s", n, f"q{n}", "a", None] for n in (1, 2, 3)]
    report = sheet_of(*rows, edit=edit)
    assert report.valid, said(report)
    assert [t[0] for t in turns(report)] == ["s", "s", "s"]

    def elsewhere(_: Any, sheet: Any) -> None:
        sheet.merge_cells("D2:D3")

    report = sheet_of(*rows, edit=elsewhere)
    assert [p.cell for p in report.errors] == ["D3"]
    assert "unmerge" in report.errors[0].message


def test_hidden_rows_and_sheets_are_told() -> None:
    def edit(workbook: Any, sheet: Any) -> None:
        sheet.row_dimensions[3].hidden = True
        other = workbook.create_sheet("old")
        other.append(HEADER)
        other.sheet_state = "hidden"

    report = sheet_of(["s", 1, "q", "a", None], ["s", 2, "q", "a", None], edit=edit)
    assert len(turns(report)) == 2
    assert any("hidden rows" in p.message and "3" in p.message for p in report.notes)
    assert any("hidden sheet 'old'" in p.message for p in report.notes)


def test_several_sheets() -> None:
    def edit(workbook: Any, _: Any) -> None:
        notes = workbook.create_sheet("notes", 0)
        notes.append(["nothing to see"])
        second = workbook.create_sheet("second")
        second.append(HEADER)
        second.append(["t", 1, "q2", "a2", None])

    data = book(["s", 1, "q", "a", None], edit=edit)
    report = validate_ground_truth(data)
    assert [t[0] for t in turns(report)] == ["s"]
    assert any("'second' looks like ground truth too" in p.message for p in report.warnings)
    assert [t[0] for t in turns(validate_ground_truth(data, "second"))] == ["t"]
    missing = validate_ground_truth(data, "third")
    assert "no sheet 'third'; there is 'notes', 'Sheet', 'second'" in missing.errors[0].message
    assert not validate_ground_truth(data, "*").valid, "the notes have no header"


def test_trailing_emptiness_and_a_title() -> None:
    def edit(_: Any, sheet: Any) -> None:
        sheet.insert_rows(1, 2)
        sheet["A1"] = "Booking questions, spring"
        sheet["H40"] = " "
        sheet["A60"] = None

    report = sheet_of(["s", 1, "q", "a", None], edit=edit)
    assert len(turns(report)) == 1
    assert any("the header is row 3" in p.message for p in report.notes)
    assert report.valid, said(report)


def test_cells_at_excels_limit_are_suspect() -> None:
    report = sheet_of(["s", 1, "q", "x" * 32_767, None])
    assert "probably cut" in report.warnings[0].message
    assert report.warnings[0].cell == "D2"


@pytest.mark.parametrize(
    ("content", "encoding"),
    [
        ("\ufeffQuestion,Answer\nÄ?,b\n", "utf-8"),
        ("Question,Answer\nÄ?,b\n", "utf-16"),
        ("Question,Answer\nÄ?,b\n", "cp1252"),
        ("Question;Answer\nÄ?;b", "utf-8"),
        ("Question\tAnswer\r\nÄ?\tb\r\n", "utf-8"),
        ("Question,Answer\r\nÄ?,b", "utf-8"),
        ("My title\n\nQuestion;Answer\nÄ?;b\n", "utf-8"),
        ('"Question";"Answer"\n"Ä?";"b"\n', "utf-8"),
    ],
)
def test_text_files_of_every_kind(content: str, encoding: str) -> None:
    report = text(content, encoding)
    assert report.valid, said(report)
    assert turns(report)[0][2:] == ("Ä?", "b")
    assert bool(report.notes) == (encoding == "cp1252" or "title" in content)


def test_decimal_commas_and_quotes() -> None:
    report = text('Question;Answer\nhow much;"3,50"\n"say ""hi""";x\n')
    assert [t[2:] for t in turns(report)] == [("how much", "3,50"), ('say "hi"', "x")]
    report = text('Question,Answer\n"say \\"hi, you\\"",x\nq,y\n')
    assert [t[2:] for t in turns(report)] == [('say "hi, you"', "x"), ("q", "y")]
    assert any("quotes within cells" in p.message for p in report.notes)
    report = text('Question,tools\nq,"[{""name"": ""a\\""b"", ""args"": {}}]"\n')
    assert report.expectations.expected_tool_calls["name"].to_list() == ['a"b']


TOOLS = [
    (CALL, 1, None),
    ("[]", 0, None),
    ('{"name": "search"}', 1, "a list of one"),
    ('[{"tool_name": "search", "parameters": {"a": 1}}]', 1, None),
    ('[{"name": "search", "args": "{\\"a\\": 1}"}]', 1, None),
    ("[{'name': 'search', 'arguments': {'a': True, 'b': None}}]", 1, "Python literal"),
    ('[{"name": "search", "arguments": {"a": 1,},},]', 1, "trailing commas"),
    ("[{“name”: “search”}]", 1, "typographic quotes"),
    ("[{‘name’: ‘search’}]", 1, "typographic quotes"),
    ('["search"]', 1, None),
    ("null", None, None),
    ("   ", None, None),
]


@pytest.mark.parametrize(("typed", "count", "note"), TOOLS)
def test_tools_as_people_type_them(typed: str, count: int | None, note: str | None) -> None:
    report = sheet_of(["s", 1, "q", "a", typed])
    assert report.valid, said(report)
    assert report.expectations.turn_expectations["tools_stated"].item() == (count is not None)
    assert report.expectations.expected_tool_calls.height == (count or 0)
    assert [note in p.message for p in report.notes] == ([True] if note else [])
    if note:
        assert report.notes[0].cell == "E2"


@pytest.mark.parametrize(
    "typed",
    [
        '[{"name": "search", "arguments": {"city": "Lis', "search, weather", "yes", "3", 3, True,
        '[{"arguments": {}}]', '[{"name": "s", "arguments": [1]}]', "[1, 2]", '"search"',
        "__import__('os').system('true')", "[" * 500,
    ],
)  # fmt: skip
def test_tools_that_cannot_be_read_are_named_and_not_dropped(typed: Any) -> None:
    report = sheet_of(["s", 1, "q", "a", typed], ["s", 2, "q", "a", "[]"])
    assert [p.cell for p in report.errors] == ["E2"], said(report)
    assert [t[1] for t in turns(report)] == [2], "the other rows are read"


@pytest.mark.parametrize("typed", ["one", 1.5, datetime(2026, 1, 1), True, "1;2"])
def test_turn_ids_that_are_none(typed: Any) -> None:
    report = sheet_of(["s", typed, "q", "a", None])
    assert [p.cell for p in report.errors] == ["B2"]


def test_turn_ids_from_zero_with_holes_and_as_text() -> None:
    report = sheet_of(["s", 7, "c", "", None], ["s", 0, "a", "", None], ["s", "3", "b", "", None])
    assert [(t[1], t[2]) for t in turns(report)] == [(0, "a"), (3, "b"), (7, "c")]
    assert report.expectations.turn_expectations["positional"].to_list() == [False] * 3


def test_duplicates_and_missing_turn_ids() -> None:
    report = sheet_of(["s", 1, "a", "", None], ["t", 1, "x", "", None], ["s", 1, "b", "", None])
    assert [(p.row, "row 2 already" in p.message) for p in report.errors] == [(4, True)]
    report = sheet_of(["s", "a"], ["t", "x"], ["s", "b"], header=["session_id", "Question"])
    assert [t[:3] for t in turns(report)] == [("s", 1, "a"), ("s", 2, "b"), ("t", 1, "x")]
    assert "order of the file" in report.warnings[0].message


def test_roles_conflicts_and_labels() -> None:
    header = ["session_id", "turn_id", "Question", "chatbot_role", "Level"]
    report = sheet_of(
        ["s", 1, "a", None, "easy"], ["s", 2, "b", "clerk", None], ["s", 3, "c", "guide", "hard"],
        header=header,
    )  # fmt: skip
    session = report.expectations.session_expectations.row(0, named=True)
    assert session["chatbot_role"] == "clerk"
    assert session["labels"] == '{"Level":"easy"}'
    assert [p.row for p in report.warnings] == [4, 4]


def test_a_row_with_more_cells_than_the_header() -> None:
    report = text("Question,Answer\nwhy, oh why,because\n")
    assert "more cells than the header" in report.errors[0].message
    assert report.errors[0].row == 2


REFUSED = [
    (b"", "empty"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"x" * 100, "password"),
    (b"\x00\x01\x02" * 100, "binary data"),
    (b"PK\x03\x04 nothing", "cannot be read"),
]


@pytest.mark.parametrize(("content", "words"), REFUSED)
def test_files_that_are_none(content: bytes, words: str) -> None:
    report = validate_ground_truth(content)
    assert not report.valid
    assert words in report.errors[0].message


def test_files_that_are_not_what_they_say(tmp_path: Path) -> None:
    (tmp_path / "a.xlsx").write_text("Question,Answer\nq,a\n")
    assert "is no workbook" in validate_ground_truth(tmp_path / "a.xlsx").errors[0].message
    (tmp_path / "a.csv").write_bytes(book(["s", 1, "q", "a", None]))
    assert "zip archive or workbook" in validate_ground_truth(tmp_path / "a.csv").errors[0].message
    (tmp_path / "~$a.xlsx").write_bytes(b"x")
    assert "lock file" in validate_ground_truth(tmp_path / "~$a.xlsx").errors[0].message
    assert "cannot be opened" in validate_ground_truth(tmp_path / "none.csv").errors[0].message
    assert "a folder" in validate_ground_truth(tmp_path).errors[0].message
    with pytest.raises(GroundTruthError, match=r"a\.xlsx"):
        read_ground_truth(tmp_path / "a.xlsx")


def zipped(name: str, content: bytes) -> bytes:
    data = book(["s", 1, "q", "a", None])
    buffer = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(data)) as old,
        zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as new,
    ):
        for entry in old.namelist():
            new.writestr(entry, content if entry == name else old.read(entry))
    return buffer.getvalue()


def test_bombs_and_entities() -> None:
    bomb = zipped("xl/styles.xml", b"0" * (200 << 20))
    assert len(bomb) < 1 << 20
    assert "would unpack to 200 MB" in validate_ground_truth(bomb).errors[0].message
    entities = b'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "b">]><sst>&a;</sst>'
    report = validate_ground_truth(zipped("xl/worksheets/sheet1.xml", entities))
    assert "entities" in report.errors[0].message


def test_frames_rows_and_other_formats(tmp_path: Path) -> None:
    table = pl.DataFrame({"Session Id": ["s", "s"], "Query": ["a", "b"], "tools": ["[]", None]})
    dicts = table.to_dicts()
    table.write_parquet(tmp_path / "x.parquet")
    table.write_ndjson(tmp_path / "x.jsonl")
    table.write_json(tmp_path / "x.json")
    given = [
        table, table.lazy(), table.to_arrow(), pd.DataFrame(dicts), dicts,
        *(tmp_path / f"x.{e}" for e in ("parquet", "jsonl", "json")), str(tmp_path / "x.*json*"),
    ]  # fmt: skip
    for one in given[:-1]:
        report = validate_ground_truth(one)
        assert [t[:3] for t in turns(report)] == [("s", 1, "a"), ("s", 2, "b")], one
        assert report.expectations.turn_expectations["tools_stated"].to_list() == [True, False]
    native = [
        {
            "session_id": "s",
            "turn_id": 1,
            "tools": [{"name": "x", "args": {"a": 1}}],
            "context": ["d", "e"],
        }
    ]
    found = read_ground_truth(native)
    assert found.expected_tool_calls["arguments"].item() == '{"a":1}'
    assert found.turn_expectations["context"].to_list() == [["d", "e"]]
    per_session = [{"session_id": "s", "per_turn_expected": ["a", None], "expected_output": "all"}]
    found = read_ground_truth(per_session)
    assert found.turn_expectations["expected_output"].to_list() == ["a", None]
    assert found.session_expectations["expected_output"].to_list() == ["all"]
    with pytest.raises(GroundTruthError, match="a path, bytes, a frame or rows"):
        read_ground_truth(7)


def test_many_files_by_glob(tmp_path: Path) -> None:
    for n in range(3):
        (tmp_path / f"{n}.csv").write_text(f"session_id,turn_id,Question\ns{n},1,q\n")
    assert read_ground_truth(str(tmp_path / "*.csv")).session_ids == ["s0", "s1", "s2"]
    (tmp_path / "3.csv").write_text("session_id,turn_id,Question\ns1,1,q\n")
    report = validate_ground_truth(str(tmp_path / "*.csv"))
    assert "already" in report.errors[0].message
    with pytest.raises(GroundTruthError, match="no file matches"):
        read_ground_truth(str(tmp_path / "*.xlsx"))


def test_nothing_below_the_header() -> None:
    report = text("Question,Answer\n")
    assert report.valid
    assert "no row below" in report.warnings[0].message
    assert len(report.expectations) == 0
    assert isinstance(report.expectations, Expectations)


def test_hostile_text_is_escaped_in_a_notebook() -> None:
    report = text("Question,Answer\n<script>alert(1)</script>,x\n")
    assert "<script>" not in report._repr_html_()
    assert "SINGLE-TURN" in repr(report)
