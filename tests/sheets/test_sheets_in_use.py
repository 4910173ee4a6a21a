"""Sheets in use: joined to payloads, validated at the command line, asked of an agent, exported."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from openpyxl import load_workbook
from polars.testing import assert_frame_equal
from typer.testing import CliRunner

from data.sheet import SHEET, expectations
from tests.helpers import payload
from uaef_frames import (
    ConfigError,
    InputFileError,
    Price,
    evaluate_dataset,
    export_run,
    load_expectations,
    read_ground_truth,
    record_sessions,
    to_ground_truth,
    write_ground_truth,
)
from uaef_frames.cli import app
from uaef_frames.expectations import Expectations, SessionTruth, TurnTruth

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[2]
DATA = ROOT / "data"
TOOL = ["tool_selection_accuracy", "parameter_quality"]


def test_the_shipped_sheet_is_the_shipped_ground_truth() -> None:
    sheet = read_ground_truth(SHEET)
    wanted = expectations()
    for name in wanted.tables:
        assert_frame_equal(getattr(sheet, name), getattr(wanted, name))
    lines = load_expectations(DATA / "booking_ground_truth.jsonl")
    assert_frame_equal(sheet.expected_tool_calls, lines.expected_tool_calls)
    assert sheet.turn_expectations["query"].null_count() == 0


def test_a_sheet_scores_like_the_lines_it_came_from(tmp_path: Path) -> None:
    runs = [
        evaluate_dataset(DATA / "booking.jsonl", truth, metric_set="deterministic", out=tmp_path)
        for truth in (SHEET, DATA / "booking_ground_truth.jsonl")
    ]
    columns = ["session_id", "turn_id", "metric", "score", "warning"]
    one, two = (r.scores.select(columns).collect() for r in runs)
    assert_frame_equal(one, two)


def test_the_join_is_told(tmp_path: Path) -> None:
    payloads = [
        payload("both", 1), payload("both", 2), payload("alone", 1), payload("shifted", 5),
        payload("shifted", 6), payload("longer", 1), payload("longer", 2),
    ]  # fmt: skip
    rows = "session_id,turn_id,tools\nboth,1,[]\nboth,2,[]\nshifted,0,[]\nshifted,1,[]\n"
    rows += "longer,1,[]\nnobody,1,[]\n"
    (tmp_path / "gt.csv").write_text(rows)
    with pytest.warns(UserWarning, match="1 session not in the payloads"):
        run = evaluate_dataset(payloads, tmp_path / "gt.csv", TOOL, out=tmp_path / "runs")
    report = run.join_report
    assert report is not None
    counts = (report.matched, report.without_truth, report.without_payloads)
    assert counts == (3, 1, 1)
    assert report.names["without_truth"] == ["alone"]
    assert report.names["without_payloads"] == ["nobody"]
    assert report.names["turns_differ"] == ["longer: ground truth of 1 turns, 2 in the payloads"]
    assert report.names["by_order"] == ["shifted"]
    assert "3 sessions matched, 1 payloads without truth" in str(report)
    assert run.sessions.collect().height == 4, "sessions without truth are scored too"
    scored = run.scores.filter(pl.col("metric") == TOOL[0]).collect()
    assert scored.filter(pl.col("session_id") == "shifted")["score"].to_list() == [1.0, 1.0]
    assert evaluate_dataset(payloads, metrics=TOOL, out=tmp_path / "runs").join_report is None


def test_rows_that_cannot_be_read_are_rejects_with_their_cell(tmp_path: Path) -> None:
    (tmp_path / "gt.csv").write_text("session_id,turn_id,tools\ns,1,[{\ns,2,[]\n")
    with pytest.warns(UserWarning, match="could not be used"):
        run = evaluate_dataset(
            [payload("s", 1), payload("s", 2)], tmp_path / "gt.csv", TOOL, out=tmp_path / "runs"
        )
    (reject,) = run.rejects.collect().to_dicts()
    assert reject["line"] == 2
    assert "C2 (tools)" in reject["reason"]
    assert reject["source"].endswith("gt.csv")
    with pytest.raises(InputFileError, match="C2"):
        evaluate_dataset(
            [payload("s", 1)], tmp_path / "gt.csv", TOOL, out=tmp_path / "runs", on_error="raise"
        )


def cli(*arguments: str) -> Any:
    return CliRunner().invoke(app, list(arguments))


def test_validate_at_the_command_line(tmp_path: Path) -> None:
    good = cli("validate", str(SHEET))
    assert good.exit_code == 0
    assert "MULTI-TURN — 87 rows, 32 conversations" in good.stdout
    (tmp_path / "gt.csv").write_text("Prompt,Answer,tools\nq,a,oops\n\x1b[31m,b,[]\n")
    bad = cli("validate", str(tmp_path / "gt.csv"), "--column", "question=Prompt")
    assert bad.exit_code == 1
    assert "error C2 (tools)" in bad.stdout
    assert "\x1b" not in bad.stdout
    found = json.loads(cli("validate", str(tmp_path / "gt.csv"), "--json").stdout)
    assert found["valid"] is False
    assert found["problems"][0]["cell"] == "C2"
    assert found["columns"]["Prompt"] == "label"


class Echo:
    """A graph that remembers its thread, counts its tokens, and fails when told to."""

    def __init__(self) -> None:
        self.most = self.running = 0
        self.lock = threading.Lock()
        self.asked: list[str] = []
        graph = StateGraph(MessagesState)
        graph.add_node("agent", self.answer)
        graph.add_edge(START, "agent")
        self.graph = graph.compile(checkpointer=InMemorySaver())

    async def answer(self, state: Any) -> dict[str, Any]:
        said = [m.content for m in state["messages"] if m.type == "human"]
        self.asked.append(said[-1])
        with self.lock:
            self.running += 1
            self.most = max(self.most, self.running)
        await asyncio.sleep(0.05)
        with self.lock:
            self.running -= 1
        if "fail" in said[-1]:
            raise RuntimeError("the supplier is down")
        usage = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
        text = f"heard {len(said)}: {said[-1]}"
        return {
            "messages": [
                AIMessage(text, usage_metadata=usage, response_metadata={"model_name": "echo-1"})
            ]
        }


def sheet(tmp_path: Path) -> Expectations:
    rows = "session_id,turn_id,Question,tools\n"
    rows += "a,1,one,[]\na,2,two,[]\nb,1,fail now,[]\nb,2,never,[]\nc,1,three,[]\nd,1,four,[]\n"
    (tmp_path / "q.csv").write_text(rows)
    return read_ground_truth(tmp_path / "q.csv")


def test_a_sheet_runs_an_agent_and_what_comes_is_scored(tmp_path: Path) -> None:
    echo = Echo()
    path = tmp_path / "out.jsonl"
    prices = {"echo-1": Price(1_000_000, 2_000_000)}
    made = list(
        record_sessions(echo.graph, sheet(tmp_path), path=path, concurrency=3, prices=prices)
    )
    by_session: dict[str, list[Any]] = {}
    for one in made:
        by_session.setdefault(one["session_id"], []).append(one)
    assert {sid: [p["turn_id"] for p in ps] for sid, ps in by_session.items()} == {
        "a": [1, 2], "b": [1], "c": [1], "d": [1],
    }  # fmt: skip
    first, second = by_session["a"]
    assert "__human__" in first["stream_events"][0]
    assert "heard 2: two" in json.dumps(second), "one thread a session"
    assert (second["input_tokens"], second["output_tokens"], second["cost_usd"]) == (10, 5, 20.0)
    assert 0.04 < second["latency"] < 5
    (failed,) = by_session["b"]
    assert failed["workflow_status"] == "failed"
    assert "the supplier is down" in failed["metadata"]["error"]
    assert 1 < echo.most <= 3
    assert [json.loads(line) for line in path.read_text("utf-8").splitlines()] == made
    run = evaluate_dataset(path, tmp_path / "q.csv", TOOL, out=tmp_path / "runs")
    turns = run.turns.sort("session_id", "turn_id").collect()
    assert turns["query"].to_list() == ["one", "two", "fail now", "three", "four"]
    assert turns["response"].to_list()[:2] == ["heard 1: one", "heard 2: two"]


def test_recording_goes_on_where_it_broke_off(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    recording = record_sessions(Echo().graph, sheet(tmp_path), path=path, concurrency=1)
    for _ in range(3):
        next(recording)
    recording.close()  # type: ignore[attr-defined]
    with path.open("a") as opened:
        opened.write('{"session_id": "c", "turn_')
    echo = Echo()
    made = list(record_sessions(echo.graph, sheet(tmp_path), path=path))
    assert sorted((p["session_id"], p["turn_id"]) for p in made) == [
        ("a", 1), ("a", 2), ("b", 1), ("c", 1), ("d", 1),
    ]  # fmt: skip
    assert "one" not in echo.asked, "a whole session is not run again"
    assert "fail now" in echo.asked, "one that broke off is"
    (tmp_path / "other.jsonl").write_text('{"no": "payload"}\n')
    with pytest.raises(InputFileError, match="no turn payload"):
        record_sessions(echo.graph, sheet(tmp_path), path=tmp_path / "other.jsonl")


async def slowly(question: str) -> str:
    await asyncio.sleep(5)
    return question


AGENTS: list[tuple[Callable[..., Any], str]] = [
    (lambda q: f"re {q}", "re hi"),
    (lambda q, sid: f"{sid}: {q}", "s: hi"),
    (lambda q: [{"type": "ai", "content": f"m {q}"}], "m hi"),
    (lambda q: {"messages": [AIMessage(f"d {q}")]}, "d hi"),
    (lambda q: [{"agent": {"messages": [{"role": "assistant", "content": f"e {q}"}]}}], "e hi"),
]


@pytest.mark.parametrize(("agent", "answer"), AGENTS)
def test_any_function_is_an_agent(agent: Any, answer: str, tmp_path: Path) -> None:
    made = list(record_sessions(agent, {"s": ["hi"]}))
    run = evaluate_dataset(made, metrics=["latency_score"], out=tmp_path)
    assert run.turns.collect()["response"].to_list() == [answer]


def test_async_functions_time_limits_and_nonsense() -> None:
    began = time.monotonic()
    (made,) = record_sessions(slowly, {"s": ["hi"]}, timeout_s=0.1)
    assert time.monotonic() - began < 2
    assert "no answer within 0.1 s" in made["metadata"]["error"]
    with pytest.raises(ConfigError, match="no question"):
        record_sessions(slowly, Expectations.empty())
    truths = [SessionTruth("s", turns=[TurnTruth(1, query="q"), TurnTruth(2, "a")])]
    half = Expectations.from_truths(truths)
    with pytest.raises(ConfigError, match="has no question"):
        record_sessions(slowly, half)
    with pytest.raises(ConfigError, match="compiled graph or a function"):
        record_sessions(7, {"s": ["hi"]})


def test_recording_inside_a_running_loop() -> None:
    async def cell() -> list[Any]:
        return list(record_sessions(lambda q: q, {"s": ["hi"], "t": ["ho"]}))

    assert len(asyncio.run(cell())) == 2


def test_a_draft_from_what_was_recorded(tmp_path: Path) -> None:
    draft = to_ground_truth(DATA / "booking.jsonl", tmp_path / "draft.xlsx")
    again = read_ground_truth(tmp_path / "draft.xlsx")
    for name in draft.tables:
        assert_frame_equal(getattr(draft, name), getattr(again, name))
    assert draft.turn_expectations.height == 79
    assert draft.turn_expectations["query"].null_count() == 0
    run = evaluate_dataset(DATA / "booking.jsonl", draft, TOOL, out=tmp_path / "runs")
    scores = run.scores.drop_nulls("score").collect()["score"]
    assert scores.min() == 1.0, "held against itself, every turn does what was expected"
    from_run = to_ground_truth(run.path)
    assert_frame_equal(from_run.expected_tool_calls, draft.expected_tool_calls)


def test_a_run_as_a_workbook_and_as_csv(tmp_path: Path) -> None:
    hostile = '=HYPERLINK("http://x","y")'
    run = evaluate_dataset([payload("s", 1, said=hostile)], metrics=TOOL, out=tmp_path / "runs")
    path = export_run(run, tmp_path / "run.xlsx")
    book = load_workbook(path)
    assert book.sheetnames == ["sessions", "dimensions", "scores", "turns", "rejects", "runs"]
    held = [c for row in book["turns"].iter_rows() for c in row if c.value == hostile]
    assert [c.data_type for c in held] == ["s"]
    assert book["scores"].max_row == 1 + run.scores.collect().height
    folder = export_run(run.path, tmp_path / "csv", ["turns", "scores"])
    assert sorted(p.name for p in folder.iterdir()) == ["scores.csv", "turns.csv"]
    assert "'=HYPERLINK" in (folder / "turns.csv").read_text("utf-8-sig")
    assert (
        cli("export", str(run.path), str(tmp_path / "c.xlsx"), "--tables", "scores").exit_code == 0
    )
    with pytest.raises(ConfigError, match="no table 'nothing'"):
        export_run(run, tmp_path / "x.xlsx", ["nothing"])
    with pytest.raises(ConfigError, match=r"an \.xlsx file, or to a folder"):
        export_run(run, tmp_path / "x.pdf")
    write_ground_truth(None, tmp_path / "t.csv")
