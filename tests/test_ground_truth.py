"""Ground truth in memory: rows as people write them, GroundTruth objects, and their tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from tests.helpers import (
    TOOL_METRICS,
    called,
    expects,
    metric_scores,
    payload,
    registered,
    scores,
    session,
    trace,
    whys,
)
from tests.samples.langgraph_records import ai, asked, call, tool, update
from uaef_frames import (
    AdapterTransformationError,
    ConfigError,
    Expectations,
    GroundTruth,
    GroundTruthError,
    batch_evaluate,
    build_ground_truth,
    build_multi_turn_ground_truth,
    evaluate,
    evaluate_dataset,
    parse_ground_truth_row,
)

if TYPE_CHECKING:
    from pathlib import Path

NAN = float("nan")

# Rows: headers and cells


@pytest.mark.parametrize(
    ("header", "field"),
    [
        ("Question", "query"),
        ("query", "query"),
        ("INPUT", "query"),
        ("Answer", "expected_output"),
        ("Expected Answer", "expected_output"),
        ("expected_output", "expected_output"),
        ("Expected", "expected_output"),
        ("Session ID", "session_id"),
        ("\ufeffsession_id", "session_id"),
        ("Chatbot_Role", "chatbot_role"),
        ("system  instructions", "system_instructions"),
    ],
)
def test_headers_match_in_any_case_and_spacing(header: str, field: str) -> None:
    row = parse_ground_truth_row({header: "text"})
    assert getattr(row, field) == "text"
    assert row.labels == {}


def test_other_columns_are_labels() -> None:
    row = parse_ground_truth_row({"Question": "q", "Topic": "flights", "score": 3, "empty": NAN})
    assert row.labels == {"Topic": "flights", "score": 3, "empty": None}


def test_two_headers_of_one_meaning_are_an_error_unless_one_is_empty() -> None:
    with pytest.raises(GroundTruthError, match="'Answer' and 'Expected' both mean expected_output"):
        parse_ground_truth_row({"Answer": "a", "Expected": "b"})
    for row in ({"Answer": "a", "Expected": ""}, {"Expected": NAN, "Answer": "a"}):
        assert parse_ground_truth_row(row).expected_output == "a"


@pytest.mark.parametrize(
    ("cell", "text"),
    [("yes", "yes"), (5.0, "5"), (5.5, "5.5"), (0, "0"), (False, "False"), ([1, 2.0], "[1,2]")],
)
def test_cells_that_are_no_text_read_as_a_person_wrote_them(cell: Any, text: str) -> None:
    assert parse_ground_truth_row({"Answer": cell}).expected_output == text


@pytest.mark.parametrize("empty", [None, NAN, "", " \t"])
def test_empty_cells_are_none(empty: Any) -> None:
    row = parse_ground_truth_row(
        dict.fromkeys(["Question", "Answer", "tools", "session_id", "turn_id"], empty)
    )
    found = (row.query, row.expected_output, row.tools, row.session_id, row.turn_id)
    assert found == (None,) * 5


@pytest.mark.parametrize(("cell", "turn"), [(2, 2), (2.0, 2), ("2", 2), (" 10 ", 10), ("2.0", 2)])
def test_turn_ids_are_whole_numbers(cell: Any, turn: int) -> None:
    assert parse_ground_truth_row({"turn_id": cell}).turn_id == turn


@pytest.mark.parametrize("cell", [True, 1.5, "two", "1e3", float("inf")])
def test_other_turn_ids_are_errors(cell: Any) -> None:
    with pytest.raises(GroundTruthError, match="turn_id is a whole number") as raised:
        parse_ground_truth_row({"session_id": "s", "turn_id": cell})
    assert raised.value.session_id == "s"


@pytest.mark.parametrize(
    ("cell", "calls"),
    [
        ("[]", []),
        ([], []),
        ("null", None),
        ('["search", {"name": "book"}]', [("search", "{}"), ("book", "{}")]),
        ('[{"tool_name": "f", "parameters": {"b": 1.0, "a": 2}}]', [("f", '{"a":2,"b":1}')]),
        ([{"name": "f", "args": '{"x": 1}'}], [("f", '{"x":1}')]),
        ([{"name": "f", "arguments": None}], [("f", "{}")]),
        ({"name": "f", "arguments": {}}, [("f", "{}")]),
    ],
)
def test_expected_calls_in_every_spelling(cell: Any, calls: Any) -> None:
    assert parse_ground_truth_row({"Expected_Tool_Calls": cell}).tools == calls


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        ('[{"name": "f"', "not JSON"),
        ("search", "not JSON"),
        (7, "are a list, not 7"),
        ("[1]", "an object with a name, not 1"),
        ('[{"arguments": {}}]', "has no name"),
        ([{"name": "f", "arguments": [1]}], "'f' are no object"),
        ([{"name": "f", "arguments": "{x"}], "'f' are not JSON"),
        ([""], "an object with a name"),
    ],
)
def test_expected_calls_that_cannot_be_read_say_what_was_met(cell: Any, said: str) -> None:
    with pytest.raises(GroundTruthError, match=said):
        parse_ground_truth_row({"tools": cell})


@pytest.mark.parametrize(
    ("cell", "documents"),
    [
        ("one text", ["one text"]),
        ('["a", "b"]', ["a", "b"]),
        ("[sic] as it stands", ["[sic] as it stands"]),
        (["a", None, NAN, 3], ["a", "3"]),
        (NAN, []),
    ],
)
def test_context_is_one_text_or_several(cell: Any, documents: list[str]) -> None:
    assert parse_ground_truth_row({"context": cell}).context == documents


def test_the_question_alone() -> None:
    row = {"Question": "A flight?", "Answer": "no", "tools": "this is not looked at"}
    assert parse_ground_truth_row(row, query_only=True) == "A flight?"
    with pytest.raises(GroundTruthError, match="expected a column Question, Query or Input"):
        parse_ground_truth_row({"Prompt": "A flight?"}, query_only=True)
    with pytest.raises(GroundTruthError, match="no question"):
        parse_ground_truth_row({"Question": NAN}, query_only=True)


def test_what_is_no_row_is_an_error() -> None:
    row: Any = [("Question", "q")]
    with pytest.raises(GroundTruthError, match="mapping of header to cell, not list"):
        build_ground_truth(row)


# Building ground truth

EVENTS = [
    asked("A flight?"),
    update("model", ai("", "1", call("f", "c1"), call("g", "c2"), call("h", "c3"))),
    update("tools", tool("KL1001", "c1", "2"), tool("18C", "c2", "3"), tool("KL1001", "c3", "4")),
    update("model", ai("KL1001 and 18C", "5")),
]


def test_ground_truth_of_one_turn() -> None:
    row = {
        "Question": "A flight?",
        "Answer": "KL1001",
        "tools": '[{"name": "f", "arguments": {"x": 1}}]',
        "chatbot_role": "clerk",
        "system_instructions": "Be brief.",
    }
    query, truth = build_ground_truth(row)
    assert query == "A flight?"
    assert truth.expected_output == "KL1001"
    assert [(c.name, c.arguments) for c in truth.expected_tool_calls or []] == [("f", {"x": 1})]
    assert truth.expected_arguments == {
        "chatbot_role": "clerk",
        "system_instructions": "Be brief.",
    }
    assert truth.context_documents == []


def test_context_is_the_rows_else_what_tools_answered() -> None:
    own = build_ground_truth({"Question": "q", "context": "Flights: KL1001."}, events=EVENTS)[1]
    assert own.context_documents == ["Flights: KL1001."]
    found = build_ground_truth({"Question": "q"}, events=EVENTS)[1]
    assert found.context_documents == ["KL1001", "18C"]
    several = build_multi_turn_ground_truth([{"query": "q"}, {"query": "r"}], events=EVENTS)
    assert several.context_documents == ["KL1001", "18C"]
    given = [{"query": "q", "context": "a"}, {"query": "r", "context": ["b", "a"]}]
    assert build_multi_turn_ground_truth(given, events=EVENTS).context_documents == ["a", "b"]
    assert build_ground_truth({"Question": "q"}, events=[])[1].context_documents == []


def test_events_that_cannot_be_read_are_an_error_of_the_adapter() -> None:
    events = [{"model": {"messages": "AIMessage(content='x', id='1')"}}]
    with pytest.raises(AdapterTransformationError, match="messages_to_dict"):
        build_ground_truth({"Question": "q"}, events=events)


def test_ground_truth_of_several_turns() -> None:
    truth = build_multi_turn_ground_truth(
        [
            {"query": "a", "Answer": "one", "tools": ["f"]},
            {"query": "b", "tools": "[]", "chatbot_role": "clerk"},
            {"query": "c", "Answer": "three", "tools": None},
        ]
    )
    assert truth.expected_output == "Turn 1: one\nTurn 3: three"
    # Nothing is expected of turn 2, for the overall answer is the others'.
    assert truth.expected_arguments["per_turn_expected"] == ["one", "", "three"]
    tools = truth.expected_arguments["per_turn_tools"]
    assert [None if t is None else [c.name for c in t] for t in tools] == [["f"], [], None]
    assert [c.name for c in truth.expected_tool_calls or []] == ["f"]
    assert truth.expected_arguments["chatbot_role"] == "clerk"


def test_turns_that_say_nothing_expect_nothing() -> None:
    truth = build_multi_turn_ground_truth([{"query": "a"}, {"query": "b"}])
    assert (truth.expected_output, truth.expected_tool_calls) == (None, None)
    assert truth.expected_arguments["per_turn_expected"] == [None, None]
    assert truth.expected_arguments["per_turn_tools"] == [None, None]


def test_errors_of_several_turns_name_the_turn() -> None:
    with pytest.raises(GroundTruthError, match="a conversation has at least one"):
        build_multi_turn_ground_truth([])
    with pytest.raises(GroundTruthError, match=r"turn 2: .*not JSON") as raised:
        build_multi_turn_ground_truth([{"query": "a"}, {"session_id": "s", "tools": "["}])
    assert raised.value.session_id == "s"


# Reading turn i: which output is expected


def expected_outputs(turns: int, truth: GroundTruth) -> list[float | None]:
    """By turn: 1 where the expected output is "overall", 0 where it is another, None for none."""
    conversation = session("s", *[trace()] * turns)
    seen = (pl.col("expected_output") == "overall").cast(pl.Float64)
    with registered("seen", "Response Quality", lambda: seen):
        result = evaluate(conversation, truth, metrics=["seen"])
    return [t["score"] for t in metric_scores(result)["seen"].metadata["per_turn"]]


@pytest.mark.parametrize(
    ("per_turn", "found"),
    [
        (None, [1.0, 1.0, 1.0]),
        ([None, None, None], [1.0, 1.0, 1.0]),
        (["own", None, ""], [0.0, 1.0, None]),
        (["own", NAN, " "], [0.0, 1.0, None]),
        (["own", "own", "own"], [0.0, 0.0, 0.0]),
    ],
)
def test_a_turn_without_an_entry_falls_back_to_the_overall_output(
    per_turn: Any, found: Any
) -> None:
    extra = {} if per_turn is None else {"per_turn_expected": per_turn}
    truth = GroundTruth(expected_output="overall", expected_arguments=extra)
    assert expected_outputs(3, truth) == found


def test_a_turn_beyond_the_entries_falls_back_too() -> None:
    extra = {"per_turn_expected": ["own"]}
    assert expected_outputs(
        2, GroundTruth(expected_output="overall", expected_arguments=extra)
    ) == [
        0.0,
        1.0,
    ]
    assert expected_outputs(2, GroundTruth(expected_arguments=extra)) == [0.0, None]


def test_a_turn_without_an_entry_says_nothing_about_tools() -> None:
    """The overall tools are all turns' together: none of them may be held to those."""
    truth = GroundTruth(
        expected_tool_calls=[{"name": "f"}, {"name": "g"}],
        expected_arguments={"per_turn_tools": [[{"name": "f"}], None, []]},
    )
    result = evaluate(
        session("s", called("f"), called("g"), called("h"), called()), truth, metrics=TOOL_METRICS
    )
    selection = metric_scores(result)["tool_selection_accuracy"]
    assert [t["score"] for t in selection.metadata["per_turn"]] == [1.0, None, 0.0, None]
    assert result.warnings == ["ground truth speaks of 3 turns, the conversation has 4"]


def test_entries_may_be_written_in_every_spelling() -> None:
    tools = ['[{"name": "f"}]', ["g"], [{"tool_name": "h", "parameters": {"x": 1}}]]
    truth = GroundTruth(expected_arguments={"per_turn_tools": tools})
    turns = session("s", called("f"), called("g"), called(("h", {"x": 1})))
    assert set(scores(evaluate(turns, truth, metrics=TOOL_METRICS)).values()) == {1.0}


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        ({"per_turn_tools": "search"}, r"\['per_turn_tools'\] is a list with one entry a turn"),
        ({"per_turn_expected": {"1": "a"}}, r"\['per_turn_expected'\] is a list"),
        ({"per_turn_tools": [[{"name": "f"}], 7]}, "are a list, not 7"),
    ],
)
def test_entries_that_cannot_be_read_name_the_session(extra: Any, said: str) -> None:
    truth = GroundTruth(expected_arguments=extra)
    with pytest.raises(GroundTruthError, match=f"session 'abc': .*{said}"):
        evaluate(session("abc", trace()), truth, metrics=TOOL_METRICS)
    results = batch_evaluate(
        [session("abc", trace()), called("f")], [truth, expects("f")], metrics=TOOL_METRICS
    )
    assert results[0].session_id == "abc"
    assert "session 'abc'" in results[0].failures[0]
    assert results[1].overall_score == 1.0


def test_ground_truth_counts_turns_whatever_payloads_call_them() -> None:
    payloads = [
        payload("s", turn, update("model", ai("", f"m{turn}", call(name, f"c{turn}"))))
        for turn, name in ((30, "h"), (10, "f"), (20, "g"))
    ]
    truth = GroundTruth(expected_arguments={"per_turn_tools": [["f"], ["g"], ["h"]]})
    result = batch_evaluate(payloads, [truth], metrics=TOOL_METRICS, adapter="langgraph")[0]
    assert set(scores(result).values()) == {1.0}


# Expected calls: what a GroundTruth takes


def test_none_says_nothing_and_an_empty_list_says_none() -> None:
    nothing = evaluate(called("f"), GroundTruth(), metrics=TOOL_METRICS)
    assert set(whys(nothing).values()) == {"missing_data"}
    none = evaluate(called("f"), GroundTruth(expected_tool_calls=[]), metrics=TOOL_METRICS)
    assert scores(none)["tool_selection_accuracy"] == 0.0


def test_fields_that_are_none_are_empty() -> None:
    fields: Any = {"expected_arguments": None, "context_documents": None}
    truth = GroundTruth(**fields)
    assert (truth.expected_arguments, truth.context_documents) == ({}, [])


# The tables


def truths() -> dict[str, GroundTruth | None]:
    return {
        "b": GroundTruth(
            expected_output="all",
            expected_arguments={
                "per_turn_expected": ["one", None, ""],
                "per_turn_tools": [[{"name": "f", "arguments": {"x": 1}}], []],
                "chatbot_role": "clerk",
            },
            context_documents=["doc"],
        ),
        "nothing": None,
        "a": expects("f", "g"),
    }


def test_ground_truths_become_tables() -> None:
    tables = Expectations.from_ground_truths(truths()).validate()
    assert tables.session_ids == ["b", "a"]
    assert len(tables) == 2
    turns = tables.turn_expectations.select(
        "session_id", "turn_id", "expected_output", "tools_stated"
    )
    assert turns.rows() == [("b", 1, "one", True), ("b", 2, None, True), ("b", 3, "", False)]
    calls = tables.expected_tool_calls.select("session_id", "turn_id", "name", "arguments")
    assert calls.sort("session_id", "name").rows() == [
        ("a", None, "f", "{}"),
        ("a", None, "g", "{}"),
        ("b", 1, "f", '{"x":1}'),
    ]
    row = tables.session_expectations.row(0, named=True)
    assert (row["chatbot_role"], row["context"], row["tools_stated"]) == ("clerk", ["doc"], False)


def test_tables_survive_a_folder_of_parquet(tmp_path: Path) -> None:
    tables = Expectations.from_ground_truths(truths())
    for found in (tables, Expectations.empty()):
        again = Expectations.read_parquet(found.write_parquet(tmp_path / repr(len(found))))
        for name, frame in found.frames().items():
            assert again.frames()[name].equals(frame, null_equal=True)
            assert again.frames()[name].schema == frame.schema
    with pytest.raises(ConfigError, match=r"holds no turn_expectations\.parquet"):
        Expectations.read_parquet(tmp_path)


def test_tables_are_joined_and_filtered_by_session() -> None:
    tables = Expectations.from_ground_truths(truths())
    one, other = tables.filter(["b"]), tables.filter(["a", "unknown"])
    assert (one.session_ids, other.session_ids) == (["b"], ["a"])
    assert (one.turn_expectations.height, other.turn_expectations.height) == (3, 0)
    joined = Expectations.concat([other, one]).validate()
    assert joined.session_ids == ["a", "b"]
    assert joined.expected_tool_calls.height == 3
    with pytest.raises(ConfigError, match="'b' has ground truth in more than one part"):
        Expectations.concat([one, tables])
    assert len(Expectations.concat([])) == 0


def test_tables_and_objects_are_the_same_ground_truth(tmp_path: Path) -> None:
    payloads = [
        payload(sid, n, update("model", ai("", f"{sid}{n}", call(name, f"c{sid}{n}"))))
        for sid, n, name in (("b", 1, "f"), ("b", 2, "g"), ("a", 1, "f"))
    ]
    held = {sid: t for sid, t in truths().items() if t is not None}
    results = batch_evaluate(payloads, held, metrics=TOOL_METRICS, adapter="langgraph")
    run = evaluate_dataset(
        payloads, Expectations.from_ground_truths(held), metrics=TOOL_METRICS, out=tmp_path
    )
    overall = run.sessions.select("session_id", "overall_score").collect().rows()
    assert overall == [(r.session_id, pytest.approx(r.overall_score)) for r in results]
    # b: selection and sequence (1 + 0) / 2, parameters 0 of turn 1; a: one of two expected.
    assert [scores(r)["tool_selection_accuracy"] for r in results] == [0.5, 0.5]
    assert scores(results[0])["parameter_quality"] == 0.0


def test_tables_that_break_a_rule_do_not_validate() -> None:
    tables = Expectations.from_ground_truths(truths())
    twice = Expectations(
        tables.turn_expectations,
        pl.concat([tables.session_expectations] * 2),
        tables.expected_tool_calls,
    )
    with pytest.raises(Exception, match="'primary_key' failed"):
        twice.validate()


def test_expectations_show_themselves() -> None:
    tables = Expectations.from_ground_truths(truths())
    assert repr(tables) == "Expectations(2 sessions, 3 turns, 3 expected tool calls)"
    assert "clerk" not in tables._repr_html_()
    assert repr(tables) in tables._repr_html_()
