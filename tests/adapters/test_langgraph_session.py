from __future__ import annotations

from typing import Any

import pytest

from tests.samples.langgraph_records import (
    ai,
    asked,
    call,
    called,
    human,
    read,
    read_turn,
    said,
    tool,
    update,
)
from uaef_frames.adapters.langgraph.reader import ReadOptions


def test_a_node_that_emits_its_whole_state_adds_only_what_is_new() -> None:
    first = [asked("q1", "h1"), update("team", human("q1", "h1"), ai("r1", "a1", usage=(10, 1)))]
    again = [
        human("q1", "h1"),
        ai("r1", "a1", usage=(10, 1)),
        human("q2", "h2"),
        ai("r2", "a2", usage=(20, 2)),
    ]
    session = read(first, [asked("q2", "h2"), update("team", *again)])
    assert said(session.turns[1]) == [("user", "q2"), ("assistant", "r2")]
    assert session.turns[1].input_tokens == 20


def test_history_before_the_human_message_is_dropped_even_if_its_turn_is_missing() -> None:
    thread = [human("q1", "h1"), ai("r1", "a1"), human("q2", "h2"), ai("r2", "a2")]
    assert said(read_turn(asked("q2", "h2"), update("team", *thread))) == [
        ("user", "q2"),
        ("assistant", "r2"),
    ]


def test_a_human_message_recorded_without_id_is_found_by_its_text_last_time_it_occurs() -> None:
    thread = [human("yes", "h1"), ai("old", "a1"), human("yes", "h2"), ai("new", "a2")]
    turn = read_turn(
        asked("yes"), update("team", *thread), update("team", *thread, ai("more", "a3"))
    )
    assert said(turn) == [("user", "yes"), ("assistant", "new"), ("assistant", "more")]
    assert turn.messages[0].message_id == "h2"


def test_messages_without_ids_that_come_again_with_ids_are_the_same() -> None:
    leaf = [
        [["sup:1"], update("agent", ai("", "a1", call("transfer_to_bob", "c1"), name="sup"))],
        [
            ["sup:1"],
            update("tools", tool("Successfully transferred to bob", "c1", name="transfer_to_bob")),
        ],
        [
            [],
            update(
                "bob",
                ai(
                    "Transferring back to sup", None, call("transfer_back_to_sup", "c2"), name="bob"
                ),
            ),
        ],
    ]
    whole = update(
        "sup",
        human("q", "h1"),
        ai("", "a1", call("transfer_to_bob", "c1"), name="sup"),
        tool("Successfully transferred to bob", "c1", "t1", name="transfer_to_bob"),
        ai("Transferring back to sup", "a2", call("transfer_back_to_sup", "c2"), name="bob"),
        ai("done", "a3", name="sup"),
    )
    turn = read_turn(asked("q", "h1"), *leaf, [[], whole])
    assert [m.message_id for m in turn.messages] == ["h1", "a1", "t1", "a2", "a3"]


def test_the_same_words_twice_are_two_messages() -> None:
    turn = read_turn(asked("go"), update("a", ai("OK")), update("a", ai("OK")))
    assert said(turn) == [("user", "go"), ("assistant", "OK"), ("assistant", "OK")]


def test_the_same_words_twice_stay_two_when_a_state_without_ids_repeats_them() -> None:
    thread = [human("go"), ai("OK"), human("go on"), ai("OK"), ai("OK")]
    states = [{"messages": thread[:n]} for n in range(1, 6)]
    first, second = read([asked("go"), *states[:2]], [asked("go on"), *states[2:]]).turns
    assert said(first) == [("user", "go"), ("assistant", "OK")]
    assert said(second) == [("user", "go on"), ("assistant", "OK"), ("assistant", "OK")]


def test_a_whole_state_without_ids_and_without_human_event_is_read_once() -> None:
    thread = [human("hi"), ai("", None, call("f", "c1")), tool("r", "c1"), ai("bye")]
    turn = read_turn(*[{"messages": thread[:n]} for n in range(1, 5)])
    assert said(turn) == [("user", "hi"), ("assistant", ""), ("tool", "r"), ("assistant", "bye")]


def test_an_enclosing_graph_repeats_messages_without_ids() -> None:
    turn = read_turn(
        [["team:1"], update("agent", ai("", None, call("f", "c1")))],
        [["team:1"], update("tools", tool("r", "c1"))],
        [["team:1"], update("agent", ai("done"))],
        [[], update("team", ai("", None, call("f", "c1")), tool("r", "c1"), ai("done"))],
    )
    assert said(turn) == [("assistant", ""), ("tool", "r"), ("assistant", "done")]
    assert turn.agents == ["team"]


def test_the_same_id_with_other_words_is_a_later_version() -> None:
    turn = read_turn(
        asked("hi"),
        update("model", ai("my number is 123", "a1")),
        update("PIIMiddleware.after_model", ai("my number is ***", "a1")),
    )
    assert said(turn) == [("user", "hi"), ("assistant", "my number is ***")]
    assert turn.response == "my number is ***"
    assert turn.agents == ["model"]
    assert any("a1" in note for note in turn.notes)


def test_a_later_version_replaces_arguments_before_they_run() -> None:
    turn = read_turn(
        update("model", ai("", "a1", call("send", "c1", to="bob"), call("drop", "c2"))),
        update("HITL.after_model", ai("", "a1", call("send", "c1", to="eve"), call("add", "c3"))),
        update("tools", tool("sent", "c1")),
    )
    assert called(turn) == [("send", '{"to":"eve"}', "ok", "sent"), ("add", "{}", "pending", None)]


def test_one_id_given_to_two_messages_of_one_update_keeps_both() -> None:
    turn = read_turn(asked("hi"), update("n", ai("one", "x"), ai("two", "x")))
    assert said(turn)[1:] == [("assistant", "one"), ("assistant", "two")]
    again = update("n", human("hi"), ai("one", "x"), ai("two", "x"), ai("three", "y"))
    turn = read_turn(asked("hi"), update("n", ai("one", "x"), ai("two", "x")), again)
    assert said(turn)[1:] == [("assistant", "one"), ("assistant", "two"), ("assistant", "three")]


def test_ids_that_start_anew_in_every_turn_are_other_messages() -> None:
    def turn(question: str, answer: str, tokens: int) -> list[Any]:
        return [
            asked(question, "h1"),
            update("model", ai("", "a1", call("f", "c1", q=question), usage=(tokens, 1))),
            update("tools", tool(f"result {question}", f"c-{question}", "t1")),
            update("model", ai(answer, "a2", usage=(tokens + 1, 1))),
        ]

    first, second = read(turn("one", "1", 10), turn("two", "2", 20)).turns
    assert (first.query, first.response) == ("one", "1")
    assert (second.query, second.response) == ("two", "2")
    assert len(first.messages) == len(second.messages) == 4


def test_a_turn_of_nothing_but_known_messages_says_so() -> None:
    events = [update("model", ai("one", "a1"))]
    first, second = read([asked("q1", "h1"), *events], [asked("q2", "h2"), *events]).turns
    assert first.notes == []
    assert said(second) == [("user", "q2")]
    assert "id of a message of an earlier turn" in second.notes[0]


def test_results_whose_ids_start_anew_answer_the_call_of_their_turn() -> None:
    def turn(n: int) -> list[Any]:
        return [
            asked(f"q{n}"),
            update("model", ai("", "a1", call("f", "c1", n=n), usage=(n, 1))),
            update("tools", tool(f"r{n}", "c1", "t1")),
        ]

    first, second = read(turn(1), turn(2)).turns
    assert called(first) == [("f", '{"n":1}', "ok", "r1")]
    assert called(second) == [("f", '{"n":2}', "ok", "r2")]


def test_removed_messages_stay_as_they_happened() -> None:
    first, second = read(
        [asked("q1", "h1"), update("model", ai("r1", "a1"))],
        [
            asked("q2", "h2"),
            update("trim", {"type": "remove", "id": "h1"}, {"type": "remove", "id": "a1"}),
            update("model", ai("r2", "a2")),
        ],
    ).turns
    assert said(first) == [("user", "q1"), ("assistant", "r1")]
    assert said(second) == [("user", "q2"), ("assistant", "r2")]


def test_a_summary_is_the_harness_speaking_and_kept_messages_are_not_new() -> None:
    summary = human("Summary: he flies", "s1", additional_kwargs={"lc_source": "summarization"})
    first, second = read(
        [asked("q1", "h1"), update("model", ai("r1", "a1"))],
        [
            asked("q2", "h2"),
            update(
                "SummarizationMiddleware.before_model",
                {"type": "remove", "id": "__remove_all__"},
                summary,
                ai("r1", "a1"),
                human("q2", "h2"),
            ),
            update("model", ai("r2", "a2")),
        ],
    ).turns
    assert said(first) == [("user", "q1"), ("assistant", "r1")]
    assert said(second) == [("user", "q2"), ("system", "Summary: he flies"), ("assistant", "r2")]
    assert second.messages[1].is_synthetic
    assert (second.query, second.agents) == ("q2", ["model"])


def test_an_overwritten_thread_is_not_news() -> None:
    turn = read_turn(
        asked("hi"),
        update("a", ai("one", "a1")),
        {"b": {"messages": {"__overwrite__": [human("hi"), ai("one", "a1"), ai("two", "a2")]}}},
    )
    assert said(turn) == [("user", "hi"), ("assistant", "one"), ("assistant", "two")]


def test_a_resumed_turn_has_no_query_unless_a_node_tells_the_answer() -> None:
    interrupt = {"__interrupt__": [{"value": "sure?"}]}
    _, silent = read([asked("go"), interrupt], [update("model", ai("done", "a1"))]).turns
    assert silent.query is None
    _, told = read(
        [asked("go"), interrupt], [update("ask", human("yes", "h2"), ai("done", "a1"))]
    ).turns
    assert told.query == "yes"


def test_several_user_messages_are_one_query() -> None:
    turn = read_turn(
        {"__human__": {"messages": [human("Hi!"), human("Book it")]}}, update("m", ai("ok"))
    )
    assert turn.query == "Hi!\n\nBook it"


def test_a_human_event_that_holds_the_whole_history_adds_the_last_message() -> None:
    history = {"__human__": {"messages": [human("q1"), ai("r1"), human("q2")]}}
    first, second = read(
        [asked("q1"), update("m", ai("r1"))], [history, update("m", ai("r2"))]
    ).turns
    assert said(second) == [("user", "q2"), ("assistant", "r2")]
    assert said(first) == [("user", "q1"), ("assistant", "r1")]


def test_a_greeting_before_the_first_user_message_stays_first() -> None:
    turn = read_turn(
        update("agent", ai("How can I help?")), asked("A flight"), update("agent", ai("Where?"))
    )
    assert said(turn) == [
        ("assistant", "How can I help?"),
        ("user", "A flight"),
        ("assistant", "Where?"),
    ]
    assert turn.response == "Where?"


def test_a_human_message_that_a_node_writes_for_itself_is_not_the_users() -> None:
    turn = read_turn(
        asked("and there?"),
        update("rewrite_question", human("What is the weather in Lisbon?")),
        update("answer", ai("18C")),
    )
    assert turn.query == "and there?"
    assert [m.role for m in turn.messages] == ["user", "system", "assistant"]
    assert any("rewrite_question" in note for note in turn.notes)


def test_an_agents_answer_in_a_human_message_of_its_name_is_the_agents() -> None:
    turn = read_turn(
        asked("do"),
        {"supervisor": None},
        update("researcher", human("I found it", name="researcher")),
        {"supervisor": None},
        update("coder", human("I coded it", name="coder")),
    )
    assert turn.query == "do"
    assert turn.agents == ["researcher", "coder"]
    assert turn.response == "I coded it"


@pytest.mark.parametrize(
    ("message", "told"),
    [
        (ai("Model call limits exceeded: run limit (1/1)", "x"), True),
        (ai("I cannot help with that.", "x"), False),
    ],
)
def test_what_middleware_says_is_no_agents_and_a_limit_is_no_answer(
    message: Any, told: bool
) -> None:
    turn = read_turn(
        asked("hi"),
        update("model", ai("", "a1", call("f", "c1"), usage=(1, 1))),
        update("tools", tool("r", "c1", "t1")),
        update("Limit.before_model", message),
    )
    assert turn.agents == ["model"]
    assert turn.messages[-1].agent is None
    assert turn.messages[-1].is_synthetic is told
    assert turn.response == (None if told else "I cannot help with that.")


def test_the_answer_of_a_whole_state_is_not_a_limit_either() -> None:
    limit = ai("Model call limits exceeded: run limit (1/1)", "x")
    turn = read_turn({"messages": [human("hi", "h"), limit]})
    assert turn.response is None


def test_the_outermost_graph_has_the_last_word() -> None:
    turn = read_turn(
        asked("q"),
        [[], update("outer", ai("", "o1", call("ask", "c1"), name="outer"))],
        [["tools:1"], update("model", ai("inner thought", "i1", name="inner"))],
        [[], update("tools", tool("inner thought", "c1", "t1"))],
        [[], update("outer", ai("outer answer", "o2", name="outer"))],
        [["tools:2"], update("model", ai("a late inner word", "i2", name="inner"))],
    )
    assert turn.response == "outer answer"


def test_a_tool_that_returns_directly_is_the_answer() -> None:
    turn = read_turn(
        asked("q"),
        update("model", ai("", "a1", call("f", "c1"))),
        update("tools", tool("42", "c1", "t1")),
    )
    assert turn.response == "42"


@pytest.mark.parametrize(
    "events",
    [
        [
            update("model", ai("", "a1", call("f", "c1"), call("g", "c2"))),
            update("tools", tool("42", "c1")),
        ],
        [
            update("model", ai("", "a1", call("f", "c1"))),
            update("tools", tool("boom", "c1", status="error")),
        ],
        [update("model", ai("Let me see", "a1", call("f", "c1")))],
    ],
)
def test_a_run_that_broke_off_has_no_answer(events: list[Any]) -> None:
    assert read_turn(asked("q"), *events).response is None


def test_a_structured_answer_is_the_answer_and_no_tool_use() -> None:
    turn = read_turn(
        asked("q"),
        update("model", ai("", "a1", call("get", "c1"))),
        update("tools", tool("18C", "c1", "t1")),
        update(
            "model",
            ai("", "a2", call("Weather", "c2", deg=18)),
            tool("Here you are", "c2", "t2", name="Weather"),
            structured_response={"deg": 18},
        ),
    )
    assert called(turn) == [("get", "{}", "ok", "18C")]
    assert turn.response == '{"deg":18}'
    assert turn.messages[-1].is_synthetic


def test_a_structured_answer_that_failed_is_no_tool_use_either() -> None:
    error = (
        "Error: Failed to parse structured output for tool 'Weather': deg missing.\n Please fix."
    )
    turn = read_turn(
        update(
            "model", ai("", "a1", call("Weather", "c1")), tool(error, "c1", "t1", status="error")
        ),
        update(
            "model",
            ai("", "a2", call("Weather", "c2", deg=18)),
            tool("Returning structured response: deg=18", "c2", "t2"),
            structured_response={"deg": 18},
        ),
    )
    assert called(turn) == []
    assert turn.response == '{"deg":18}'


def test_tokens_are_summed_over_messages_once_and_payload_values_win() -> None:
    events = [
        update("model", ai("", "a1", call("f", "c1"), usage=(10, 2))),
        update("tools", tool("r", "c1", "t1")),
        update(
            "team",
            ai("", "a1", call("f", "c1"), usage=(10, 2)),
            ai("x", "a2", usage=(20, 3)),
            ai("y", "a3"),
        ),
    ]
    turn = read_turn(*events)
    assert (turn.input_tokens, turn.output_tokens) == (30, 5)
    stated = read_turn(*events, input_tokens=50, output_tokens=5)
    assert (stated.input_tokens, stated.output_tokens) == (50, 5)
    assert len(stated.notes) == 1
    assert "50 input tokens" in stated.notes[0]


def test_the_same_events_read_without_the_human_event_lose_only_the_query() -> None:
    events = [update("model", ai("hello", "a1"))]
    assert said(read_turn(asked("hi"), *events))[1:] == said(read_turn(*events))
    assert read_turn(*events).query is None


def test_reading_does_not_change_what_it_reads() -> None:
    events = [
        update("model", ai("", "a1", call("f", "c1", x=1))),
        {"HITL.after_model": {"hitl_edited_tool_calls": {"c1": {"name": "f", "args": {"x": 2}}}}},
        update("tools", tool("r", "c1")),
    ]
    before = repr(events)
    assert read_turn(*events, options=ReadOptions()) == read_turn(*events, options=ReadOptions())
    assert repr(events) == before
