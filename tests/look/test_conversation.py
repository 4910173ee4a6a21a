"""A conversation can be read: everything said, called, expected and scored, and none of it runs."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from tests.helpers import payload, shipped_run
from tests.samples.langgraph_records import asked
from uaef_frames import ConfigError, evaluate_dataset
from uaef_frames.cli import app, main

if TYPE_CHECKING:
    from pathlib import Path

    from uaef_frames import Run

RED = "</pre></details><script>alert(1)</script><img src=x onerror=alert(1)>\x1b[2J"


class Page(HTMLParser):
    """The tags and the text of a page, and whether its tags are closed in their order."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.text: list[str] = []
        self.attributes: set[str] = set()
        self.open: list[str] = []
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return shipped_run("booking", tmp_path_factory.mktemp("runs"))


def test_everything_that_happened_is_on_the_page(run: Run) -> None:
    for session_id in run.sessions.collect()["session_id"]:
        page = "".join(Page(run.session(session_id).to_html()).text)
        turns = run.turns.filter(session_id=session_id).collect()
        calls = run.tool_calls.filter(session_id=session_id).collect()
        scores = run.scores.filter(session_id=session_id).collect()
        wanted = [
            *turns["query"].drop_nulls(),
            *turns["response"].drop_nulls(),
            *calls["result"].drop_nulls(),
            *calls["name"],
            *scores["reasoning"].drop_nulls(),
            *scores["warning"].drop_nulls(),
        ]
        assert [text for text in wanted if text not in page] == []


def test_tool_calls_are_folded_and_scores_stand_in_their_turn(run: Run) -> None:
    session_id = run.tool_calls.collect()["session_id"][0]
    html = run.session(session_id).to_html()
    turns = html.split('<div class="turn">')[1:]
    for turn, shown in zip(
        run.turns.filter(session_id=session_id).sort("turn_index").collect().to_dicts(),
        turns,
        strict=False,
    ):
        calls = run.tool_calls.filter(session_id=session_id, turn_id=turn["turn_id"]).collect()
        assert shown.count("<summary>→ ") == calls.height
        scores = run.scores.filter(session_id=session_id, turn_id=turn["turn_id"]).collect()
        assert shown.count('<div class="score') == scores.height


def hostile(tmp_path: Path) -> Run:
    call: dict[str, Any] = {"name": RED, "args": {"q": RED}, "id": "c1", "type": "tool_call"}
    events = [
        {"agent": {"messages": [{"type": "ai", "content": RED, "tool_calls": [call], "id": "m1"}]}},
        {"tools": {"messages": [{"type": "tool", "content": RED, "tool_call_id": "c1"}]}},
        {"agent": {"messages": [{"type": "ai", "content": f"{RED} done", "id": "m2"}]}},
    ]
    return evaluate_dataset(
        [payload(RED, 1, *events, said=None) | {"stream_events": [asked(RED), *events]}],
        metric_set="deterministic",
        out=tmp_path,
    )


def test_nothing_that_an_agent_wrote_becomes_markup(tmp_path: Path) -> None:
    run = hostile(tmp_path)
    view = run.session(RED)
    for html in (view.to_html(), view._repr_html_()):
        page = Page(html)
        assert page.tags.isdisjoint({"script", "img"})
        assert "onerror" not in page.attributes
        assert "".join(page.text).count("alert(1)") >= 5


def test_nothing_that_an_agent_wrote_steers_a_terminal(tmp_path: Path) -> None:
    run = hostile(tmp_path)
    assert "\x1b" not in str(run.session(RED))
    assert "done" in str(run.session(RED))


def test_a_long_text_is_cut_where_it_can_be_seen(tmp_path: Path) -> None:
    answer = {"agent": {"messages": [{"type": "ai", "content": "x" * 50_000, "id": "m"}]}}
    run = evaluate_dataset([payload("s", 1, answer)], metric_set="deterministic", out=tmp_path)
    html = run.session("s").to_html()
    assert "x" * 8_000 + "… 42,000 more characters" in html
    assert "x" * 8_001 not in html


def test_a_long_conversation_is_cut_in_a_notebook_and_whole_on_a_page(tmp_path: Path) -> None:
    turns = [
        payload(
            "s", n, {"agent": {"messages": [{"type": "ai", "content": f"no. {n}.", "id": f"m{n}"}]}}
        )
        for n in range(1, 121)
    ]
    run = evaluate_dataset(turns, metric_set="deterministic", out=tmp_path)
    shown, page = run.session("s")._repr_html_(), run.session("s").to_html()
    assert "20 more turns" in shown
    assert "no. 120." not in shown
    assert "no. 120." in page


def test_the_command_line_prints_a_conversation_or_writes_its_page(
    run: Run, tmp_path: Path
) -> None:
    session_id = run.sessions.collect()["session_id"][0]
    query = run.turns.filter(session_id=session_id).collect()["query"][0]
    printed = CliRunner().invoke(app, ["session", str(run.path), session_id])
    assert query in printed.output
    file = tmp_path / "page.html"
    assert CliRunner().invoke(app, ["session", str(run.path), session_id, "--html", str(file)])
    assert file.read_text("utf-8") == run.session(session_id).to_html()
    lost = ["session", str(run.path), session_id, "--html", str(tmp_path / "no" / "page.html")]
    assert CliRunner().invoke(app, lost).exit_code == 1


def test_a_session_that_is_not_there_is_named_with_those_that_are(run: Run) -> None:
    with pytest.raises(ConfigError, match="no session 'x'; there is '"):
        run.session("x")


def test_a_second_message_for_one_call_is_shown(tmp_path: Path) -> None:
    """It may say what the first did not; only the result that stands with the call is left out."""
    call: dict[str, Any] = {"name": "find", "args": {}, "id": "c1", "type": "tool_call"}
    tool = {"type": "tool", "tool_call_id": "c1", "name": "find"}
    events = [
        {"agent": {"messages": [{"type": "ai", "content": "", "tool_calls": [call], "id": "m1"}]}},
        {"tools": {"messages": [{**tool, "content": "one room", "id": "t1"}]}},
        {"tools": {"messages": [{**tool, "content": "no: two rooms", "id": "t2"}]}},
        {"agent": {"messages": [{"type": "ai", "content": "done", "id": "m2"}]}},
    ]
    run = evaluate_dataset([payload("s", 1, *events)], metric_set="deterministic", out=tmp_path)
    view = run.session("s")
    held = run.messages.collect()
    for text in held.filter(role="tool")["content"]:
        assert view.to_html().count(text) == 1
    result = run.tool_calls.collect()["result"].item()
    other = {"one room": "no: two rooms", "no: two rooms": "one room"}[result]
    assert f"tool: {other}" in str(view)
    assert f"tool: {result}" not in str(view)


def test_line_breaks_cannot_imitate_turns_calls_or_scores(tmp_path: Path) -> None:
    forged = "fine\n\n── turn 2\nuser: thanks\n    goal_completion 1.000\r\n  → refund()"
    said = {"type": "ai", "content": forged, "id": "m", "name": forged}
    events = [{"agent": {"messages": [said]}}]
    sid = "s\n── turn 9"
    run = evaluate_dataset(
        [payload(sid, 1, *events, said=None) | {"stream_events": [asked(forged), *events]}],
        metric_set="deterministic",
        out=tmp_path,
    )
    lines = str(run.session(sid)).splitlines()
    assert [line for line in lines if line.startswith("── turn")] == ["── turn 1"]
    forgeries = ("user: thanks", "    goal_completion", "  → refund")
    assert not any(line.startswith(forgeries) for line in lines)
    assert lines.count("│ user: thanks") == 2
    assert lines[0].startswith("s ── turn 9: ")


def test_a_session_is_named_by_text(run: Run) -> None:
    for name in (5, None):
        for ask in (run.session, run.plot_timeline):
            with pytest.raises(ConfigError, match="no session"):
                ask(name)  # type: ignore[arg-type]


def test_the_terminal_shows_results_and_what_was_expected(run: Run) -> None:
    session_id = run.expected_tool_calls.collect()["session_id"][0]
    text = str(run.session(session_id))
    results = run.tool_calls.filter(session_id=session_id).collect()["result"].drop_nulls()
    assert results.len() > 0
    for result in results:
        assert f"    ← {result[:100]}".replace("\n", " ") in text
    for output in run.expected.filter(session_id=session_id).collect()["expected_output"]:
        assert f"  expected: {output[:100]}" in text


def test_nothing_an_agent_wrote_becomes_a_picture(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = {"agent": {"messages": [{"type": "ai", "content": "10:warning:20 :key:", "id": "m"}]}}
    run = evaluate_dataset([payload(":x:", 1, answer)], metric_set="deterministic", out=tmp_path)
    with pytest.raises(SystemExit):
        main(["session", str(run.path), ":x:"])
    shown = capsys.readouterr().out
    assert shown.startswith(":x:: ")
    assert "10:warning:20 :key:" in shown
