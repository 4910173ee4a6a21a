"""What a model may answer, and what counts as a verdict: nothing is clipped, guessed or looked
for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.judge.asking import ask, judge, texts
from uaef_frames import ConfigError
from uaef_frames.judge import Rubric
from uaef_frames.judge.prompts import MARK, with_nonce
from uaef_frames.judge.verdicts import InvalidVerdictError, VerdictReader

if TYPE_CHECKING:
    from tests.judge_server import JudgeServer

SCORE = "- `score` (number from 0 to 1): how good"
FIVE = "- `score` (integer from 1 to 5): how good"
COUNT = "- `count` (integer of at least 0): how many"
MAYBE = (
    "- `applicable` (true or false): whether it applies\n"
    "- `score` (number from 0 to 1, or null): how good"
)


def rubric(numbers: str = SCORE) -> Rubric:
    head = "# m\n\nJudge.\n\n## Output\n\n- `quote` (text): words\n- `reasoning` (text): why\n"
    return Rubric.read("m", head + numbers)


def read(
    content: str, numbers: str = SCORE, upper: float | None = None, quotes: bool = True
) -> Any:
    user, nonce = with_nonce(f"<response-{MARK}>\nHello,  good\nWorld [b>\n</response-{MARK}>")
    reader = VerdictReader(rubric(numbers), ("response",), check_quotes=quotes)
    return reader.read(content, user, nonce, upper)


GOOD = '{"quote": "good world", "reasoning": "r", "score": 0.5}'


@pytest.mark.parametrize(
    "content",
    [
        GOOD,
        f"```json\n{GOOD}\n```",
        f"```\n{GOOD}```",
        f"My verdict is this: {GOOD} I hope it helps.",
        f"<think>{{maybe 0.2?}} or so</think>\n{GOOD}",
        GOOD.replace("0.5", "5e-1"),
        GOOD.replace("good world", "HELLO, good world [B>"),
    ],
)
def test_a_verdict_is_found_bare_fenced_or_wrapped(content: str) -> None:
    assert read(content).values["score"] == 0.5


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("There are 5 reasons why this is a 9", "no JSON object"),
        ("0.8", "no JSON object"),
        ("[0.8]", "no JSON object"),
        ("", "no JSON object"),
        (GOOD[:-4], "not JSON"),
        (GOOD.replace("0.5", '"0.5"'), "score: input should be a valid number"),
        (GOOD.replace("0.5", "true"), "score: input should be a valid number"),
        (GOOD.replace("0.5", "null"), "score"),
        (GOOD.replace("0.5", "NaN"), "NaN, which is no number"),
        (GOOD.replace("0.5", "Infinity"), "no number"),
        (GOOD.replace("0.5", "1e999"), "score"),
        (GOOD.replace("0.5", "1.01"), "less than or equal to 1, not 1.01"),
        (GOOD.replace("0.5", "-0.01"), "greater than or equal to 0"),
        (GOOD.replace("0.5", "85"), "less than or equal to 1, not 85"),
        ('{"quote": "good", "reasoning": "r"}', "score: field required"),
        ('{"quote": "good", "score": 1}', "reasoning: field required"),
        (GOOD.replace('"score"', '"score": 1, "score"'), "one key twice"),
        (GOOD.replace('"score"', '"note": 1, "score"'), "note: extra"),
        (f"{GOOD} {GOOD.replace('0.5', '1.0')}", "2 JSON objects"),
        (f'{GOOD} and finally {{"score": 1}}', "2 JSON objects"),
        (GOOD.replace("good world", "splendid world"), "does not stand in what it judged"),
        (GOOD.replace("good world", ""), "quotes nothing"),
        (GOOD.replace("good world", "  "), "quotes nothing"),
        (GOOD.replace("good world", "response-"), "does not stand in what it judged"),
    ],
)
def test_anything_else_is_refused_with_its_reason(content: str, words: str) -> None:
    with pytest.raises(InvalidVerdictError, match=words.replace("(", r"\(")):
        read(content)


@pytest.mark.parametrize(("given", "kept"), [("4", 4), ("4.0", 4), ("4.5", None), ("6", None)])
def test_whole_numbers_are_asked_for_and_given(given: str, kept: int | None) -> None:
    content = GOOD.replace("0.5", given)
    if kept is None:
        with pytest.raises(InvalidVerdictError):
            read(content, FIVE)
    else:
        assert read(content, FIVE).values["score"] == kept


def test_a_count_is_bounded_by_its_row() -> None:
    content = GOOD.replace("score", "count").replace("0.5", "4")
    assert read(content, COUNT, upper=4).values["count"] == 4
    with pytest.raises(InvalidVerdictError, match="above 3"):
        read(content, COUNT, upper=3)


def test_the_judge_may_say_that_a_metric_does_not_apply() -> None:
    apart = GOOD.replace('"score": 0.5', '"applicable": false, "score": null')
    assert read(apart, MAYBE).applicable is False
    with pytest.raises(InvalidVerdictError, match="null although"):
        read(apart.replace("false", "true"), MAYBE)


def test_quotes_need_not_be_checked() -> None:
    assert read(GOOD.replace("good world", "made up"), quotes=False).values["score"] == 0.5
    assert read('{"reasoning": "r", "score": 1}', quotes=False).values["score"] == 1


@pytest.mark.parametrize(
    "fault",
    ["malformed", "wrong_schema", "out_of_range", "nan", "missing_score", "false_quote",
     "no_quote", "null_content", "no_choices"],
)  # fmt: skip
def test_an_unreadable_answer_is_asked_for_once_more(server: JudgeServer, fault: str) -> None:
    server.set(fault_plan=[fault])
    assert ask(judge(server), texts(1))["score"].to_list() == [0.75]
    assert server.counts()["total"] == 2
    server.set(fault_always=fault)
    server.reset()
    found = ask(judge(server), ["another text"])
    assert found["warning"].to_list() == ["invalid_verdict"]
    assert found["score"].to_list() == [None]
    assert found["error"][0]
    assert found["input_tokens"][0] > 0, "what was paid is told, though it bought nothing"
    assert server.counts()["total"] == 2


@pytest.mark.parametrize("fault", ["refusal", "content_filter"])
def test_a_refusal_is_no_verdict_and_not_asked_again(server: JudgeServer, fault: str) -> None:
    server.set(fault_always=fault)
    assert ask(judge(server), texts(1))["warning"].to_list() == ["invalid_verdict"]
    assert server.counts()["total"] == 1


@pytest.mark.parametrize("fault", ["fenced", "wrapped", "parts", "surrogate"])
def test_odd_forms_of_a_good_answer_are_read_at_once(server: JudgeServer, fault: str) -> None:
    server.set(fault_always=fault)
    assert ask(judge(server), texts(1))["score"].to_list() == [0.75]
    assert server.counts()["total"] == 1


def test_an_answer_cut_short_gets_more_room_once(server: JudgeServer) -> None:
    server.set(length_below=200)
    found = ask(judge(server, max_tokens=100), texts(1))
    assert found["score"].to_list() == [0.75]
    assert [r["body"]["max_tokens"] for r in server.requests()] == [100, 400]
    server.set(length_below=2_000)
    found = ask(judge(server, max_tokens=101), texts(1))
    assert found["warning"].to_list() == ["invalid_verdict"]
    assert "token limit" in found["error"][0]


def test_unreadable_answers_are_not_kept(server: JudgeServer) -> None:
    server.set(fault_always="malformed")
    ask(judge(server), texts(3))
    server.set()
    server.reset()
    assert ask(judge(server), texts(3))["score"].null_count() == 0
    assert server.counts()["total"] == 3


FORMS = [
    ({}, "json_schema"),
    ({"json_schema": False}, "json_object with schema"),
    ({"json_schema": "500"}, "json_object with schema"),
    ({"json_schema": False, "json_object_schema": False}, "json_object"),
    ({"json_schema": False, "json_object_schema": False, "json_object": False}, "text"),
]


def form(body: dict[str, Any]) -> str:
    wanted = body.get("response_format")
    if wanted is None:
        return "text"
    return wanted["type"] + (" with schema" if "schema" in wanted else "")


@pytest.mark.parametrize(("behaviour", "wanted"), FORMS)
def test_the_strictest_form_that_the_endpoint_knows_is_found_once(
    server: JudgeServer, behaviour: dict[str, Any], wanted: str
) -> None:
    server.set(**behaviour)
    found = ask(judge(server), texts(50))
    assert found["score"].null_count() == 0
    answered = [form(r["body"]) for r in server.requests() if r["status"] == 200]
    assert set(answered) == {wanted}
    assert server.counts()["total"] <= 50 + 4
    schema = next(r["body"] for r in server.requests() if r["status"] == 200).get("response_format")
    if wanted == "json_schema":
        held = schema["json_schema"]
        assert held["strict"] is True
        assert list(held["schema"]["properties"]) == ["quote", "reasoning", "score"]
        assert held["schema"]["additionalProperties"] is False


@pytest.mark.parametrize("names", [["temperature"], ["seed"], ["max_tokens"],
                                   ["temperature", "seed", "max_tokens"],
                                   ["max_tokens", "max_completion_tokens"]])  # fmt: skip
def test_a_refused_parameter_is_dropped_once(server: JudgeServer, names: list[str]) -> None:
    server.set(rejects=names)
    found = ask(judge(server, seed=3), texts(40))
    assert found["score"].null_count() == 0
    counts = server.counts()
    assert counts["by_status"]["400"] == len(names)
    last = server.requests()[-1]["body"]
    assert not set(names) & set(last)
    if names == ["max_tokens"]:
        assert last["max_completion_tokens"] == 1024
    others = {"temperature", "seed"} - set(names)
    assert others <= set(last)


def test_what_was_learned_of_an_endpoint_does_not_change_keys(server: JudgeServer) -> None:
    server.set(json_schema=False, rejects=["temperature"])
    ask(judge(server), texts(5))
    server.reset()
    ask(judge(server), texts(5))
    assert server.counts()["total"] == 0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "blank"),
        ("# x\n\n## Output\n\n- `score` (number from 0 to 1): s", "lists `quote`"),
        ("# x\n\n## Output\n\n- quote: text", "an output line reads"),
        (
            "## Output\n\n- `quote` (text): q\n- `reasoning` (text): r\n- `score` (percent): s",
            "of type 'percent'",
        ),
    ],
)
def test_a_rubric_that_cannot_work_is_refused(text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        Rubric.read("x", text)


def test_a_word_changed_in_a_rubric_is_another_version() -> None:
    one, two = Rubric.read("x", "Is it good?"), Rubric.read("x", "Is it fine?")
    assert one.version != two.version
    assert one.version == Rubric.read("x", "Is it good?\r\n").version
