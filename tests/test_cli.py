"""The command line: what it prints, what it leaves out, and how it exits."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import warnings
from typing import TYPE_CHECKING, Any

import pytest

from uaef_frames import evaluate_dataset, list_metrics, open_run
from uaef_frames.cli import main
from uaef_frames.version import __version__

if TYPE_CHECKING:
    from pathlib import Path

    from uaef_frames import Run

ESCAPES = "\x1b[31mred\x1b]0;title\x07 \x9b31m\x85\x7f\x00\r\b end"
CONTROLS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f]")
MARKUP = "[bold]not bold[/bold] [link=http://x]"


def payload(sid: str, turn: int, said: str, latency: float) -> dict[str, Any]:
    return {
        "session_id": sid,
        "turn_id": turn,
        "stream_events": [
            {"__human__": {"messages": [{"type": "human", "content": said}]}},
            {"model": {"messages": [{"type": "ai", "content": said, "tool_calls": []}]}},
        ],
        "latency": latency,
    }


def write(path: Path, *rows: Any) -> Path:
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two sessions: one is slow (0.5), and its text would steer a terminal; one is fast (1.0)."""
    folder = tmp_path_factory.mktemp("payloads")
    slow = [payload(f"slow {ESCAPES}", t, f"{MARKUP} {ESCAPES}", 4.0) for t in (1, 2)]
    return write(folder / "p.jsonl", *slow, payload("fast", 1, "Hello?", 0.5))


@pytest.fixture(scope="module")
def run(file: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    out = tmp_path_factory.mktemp("runs")
    return evaluate_dataset(file, metrics=["latency_score"], out=out, name="base")


class Cli:
    """Calls the command line in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *arguments: str | Path) -> tuple[int, str, str]:
        """Exit status, standard output and standard error."""
        self._capsys.readouterr()
        with pytest.raises(SystemExit) as left:
            main([str(a) for a in arguments])
        told = self._capsys.readouterr()
        code = left.value.code
        return code if isinstance(code, int) else int(code is not None), told.out, told.err


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cli:
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    return Cli(capsys)


def score(file: Path, out: Path, *more: str) -> list[str | Path]:
    return ["score", file, "--out", out, "--metrics", "latency_score", *more]


def test_score_makes_a_run_and_shows_it(cli: Cli, file: Path, tmp_path: Path) -> None:
    status, out, err = cli(*score(file, tmp_path, "--name", "first"))
    assert (status, err) == (0, "")
    (folder,) = tmp_path.iterdir()
    assert open_run(folder).info["name"] == "first"
    assert str(folder) in out
    assert "2 sessions, 3 turns, overall 0.750" in out
    assert re.search(r"Performance +0\.750 +0\.000 +1\.000 +0\.600 +2 +2 +0\.500", out)
    assert re.search(r"latency_score +0\.750 +0\.000 +1\.000 +0\.500 +3 of 3 +0\.600 +✓", out)


def test_json_is_all_that_is_printed(cli: Cli, file: Path, run: Run, tmp_path: Path) -> None:
    status, out, err = cli(*score(file, tmp_path, "--json"))
    told = json.loads(out)
    assert (status, err) == (0, "")
    assert (told["num_sessions"], told["mean_overall"]) == (2, 0.75)
    assert open_run(told["path"]).run_id == told["run_id"]
    assert told["dimensions"][0]["dimension"] == "Performance"
    assert told["metrics_summary"][0]["mean"] == 0.75
    assert json.loads(cli("show", run.path, "--json")[1])["run_id"] == run.run_id
    assert json.loads(cli("metrics", "--json")[1])[0]["metric"] == list_metrics()[0].name
    query = "select session_id, score from session_scores order by score"
    rows = json.loads(cli("sql", run.path, query, "--json")[1])
    assert rows == [
        {"session_id": f"slow {ESCAPES}", "score": 0.5},
        {"session_id": "fast", "score": 1.0},
    ]


def test_ground_truth_and_several_files(cli: Cli, file: Path, tmp_path: Path) -> None:
    truth = write(tmp_path / "t.jsonl", {"session_id": "fast", "expected_tool_calls": []})
    other = write(tmp_path / "other.jsonl", payload("more", 1, "?", 1.0))
    arguments = ["--ground-truth", truth, "--metrics", "tool_selection_accuracy", "--json"]
    status, out, _ = cli("score", file, other, "--out", tmp_path / "runs", *arguments)
    told = json.loads(out)
    assert (status, told["num_sessions"], told["mean_overall"]) == (0, 3, 1.0)
    assert told["sources"] == [str(file), str(other)]


def test_metrics_lists_every_metric(cli: Cli) -> None:
    status, out, _ = cli("metrics")
    assert status == 0
    for spec in list_metrics():
        assert spec.name in out
    table = cli("metrics", "--markdown")[1].splitlines()
    assert len(table) == len(list_metrics()) + 2
    assert all(line.startswith("| ") and line.endswith(" |") for line in table)


def test_version(cli: Cli) -> None:
    assert cli("--version")[:2] == (0, f"{__version__}\n")


@pytest.mark.parametrize(
    ("limit", "status", "said"),
    [
        ("0.75", 0, ""),
        ("0.8", 1, "the mean overall score is 0.750, below --fail-under 0.8"),
        ("1.5", 2, "--fail-under"),
        ("x", 2, "--fail-under"),
    ],
)
def test_fail_under(
    cli: Cli, file: Path, tmp_path: Path, limit: str, status: int, said: str
) -> None:
    found, _, err = cli(*score(file, tmp_path, "--fail-under", limit))
    assert found == status
    assert said in err


def test_nothing_scored_is_below_any_limit(cli: Cli, file: Path, tmp_path: Path) -> None:
    arguments = ["--out", tmp_path, "--metrics", "parameter_quality", "--fail-under", "0"]
    status, out, err = cli("score", file, *arguments)
    assert status == 1
    assert "nothing scored" in out
    assert "nothing was scored" in err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["score"], "Missing argument"),
        (["score", "missing.jsonl"], "there is no file 'missing.jsonl'"),
        (["score", "*.missing"], "nothing matches '*.missing'"),
        (["score", "."], "is a folder"),
        (["score", "p.jsonl", "--metrics", "latency"], "latency_score"),
        (["score", "p.jsonl", "--metric-set", "nope"], "nope"),
        (["score", "p.jsonl", "--adapter", "langgraf"], "Did you mean 'langgraph'?"),
        (["score", "p.jsonl", "--ground-truth", "missing"], "ground_truth: there is no file"),
        (["score", "p.jsonl", "--on-error", "ignore"], "reject or raise"),
        (["score", "p.jsonl", "--nope"], "No such option"),
        (["show", "--worst", "-1", "x"], "--worst"),
        (["sql", "x"], "Missing argument"),
        (["nope"], "No such command"),
    ],
)
def test_bad_usage_is_status_2_and_makes_nothing(
    cli: Cli,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "p.jsonl", payload("a", 1, "?", 1.0))
    status, out, err = cli(*arguments)
    assert (status, out) == (2, "")
    assert said in " ".join(err.replace("│", " ").split())
    assert [p.name for p in tmp_path.iterdir()] == ["p.jsonl"]


def test_errors_are_status_1_without_a_traceback(cli: Cli, run: Run, tmp_path: Path) -> None:
    bad = write(tmp_path / "bad.jsonl", "{")
    for arguments, said in (
        (["show", tmp_path], "is not a run"),
        (["sql", run.path, "drop view scores"], "only one SELECT at a time"),
        (["sql", run.path, "from read_text('/etc/passwd')"], "disabled"),
        ([*score(bad, tmp_path / "runs"), "--on-error", "raise"], "bad.jsonl, line 1: not JSON"),
    ):
        status, out, err = cli(*arguments)
        assert (status, out) == (1, "")
        assert err.startswith("error: ")
        assert said in err
    assert list((tmp_path / "runs").iterdir()) == []


@pytest.mark.filterwarnings("always::UserWarning")
def test_rejects_are_told_on_standard_error(cli: Cli, tmp_path: Path) -> None:
    bad = write(tmp_path / "p.jsonl", payload("a", 1, "?", 1.0), "{", {"session_id": ESCAPES})
    status, out, err = cli(*score(bad, tmp_path / "runs", "--json"))
    assert (status, json.loads(out)["num_rejects"]) == (0, 2)
    assert err == "warning: 2 records could not be used; run.rejects says why, line by line\n"


def test_what_agents_wrote_cannot_steer_a_terminal(cli: Cli, run: Run) -> None:
    for arguments in (
        ["show", run.path],
        ["show", run.path, "--json"],
        ["sql", run.path, "select session_id, query, response from turn_scores"],
        ["sql", run.path, "select session_id, query from turns", "--json"],
        [
            "sql",
            run.path,
            "select messages from (select array_agg(content) as messages from messages)",
        ],
        ["sql", run.path, f'select 1 as "{ESCAPES}{MARKUP}"'.replace("\x00", "")],
    ):
        status, out, err = cli(*arguments)
        assert (status, err) == (0, "")
        assert CONTROLS.search(out) is None, arguments
    assert "[bold]not bold[/bold]" in cli("sql", run.path, "select query from turns limit 1")[1]


def test_what_is_wrong_with_hostile_records_cannot_steer_a_terminal(
    cli: Cli, tmp_path: Path
) -> None:
    hostile = {"session_id": "a", "turn_id": 1, "stream_events": [{ESCAPES: ESCAPES}, 5]}
    file = write(tmp_path / "p.jsonl", {ESCAPES: 1}, hostile)
    status, out, err = cli(*score(file, tmp_path / "runs", "--on-error", "raise"))
    assert (status, out) == (1, "")
    assert CONTROLS.search(err) is None


def test_long_text_is_cut_and_many_lines_are_one(cli: Cli, run: Run) -> None:
    query = "select repeat('x', 500) as x, 'a' || chr(10) || 'b' as y"
    out = cli("sql", run.path, query)[1]
    assert "x" * 201 not in out
    assert "…" in out
    assert "a b" in out


def command(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "uaef_frames", *map(str, arguments)]


def test_the_module_is_a_command(file: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        command(*score(file, tmp_path, "--fail-under", "0.9")),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1
    assert "2 sessions, 3 turns" in done.stdout
    # No terminal: no progress, nothing but what is wrong.
    assert done.stderr == "error: the mean overall score is 0.750, below --fail-under 0.9\n"
    assert CONTROLS.search(done.stdout) is None


def test_progress_is_shown_on_a_terminal_and_only_there(file: Path, tmp_path: Path) -> None:
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm"}
    with subprocess.Popen(
        command(*score(file, tmp_path)), stdout=subprocess.PIPE, stderr=theirs, env=environment
    ) as process:
        os.close(theirs)
        shown = b""
        try:
            while piece := os.read(ours, 4096):
                shown += piece
        except OSError:  # how a closed terminal ends on Linux
            pass
        assert process.stdout is not None
        out = process.stdout.read().decode()
    os.close(ours)
    assert process.returncode == 0
    assert "scoring turns" in shown.decode()
    assert "scoring turns" not in out
    assert CONTROLS.search(out) is None


def test_a_reader_that_goes_away_is_no_crash(file: Path, run: Run) -> None:
    query = "select repeat('x', 1000) as x from range(5000)"
    with subprocess.Popen(
        command("sql", run.path, query, "--json"), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(10)
        process.stdout.close()
        err = process.stderr.read().decode()
    assert "Traceback" not in err


def test_control_c_leaves_nothing_and_says_so(tmp_path: Path) -> None:
    pipe = tmp_path / "never.jsonl"
    slow = (
        "import sys, time\n"
        "from uaef_frames import cli, dataset\n"
        "def wait(*_):\n"
        "    print('ready', flush=True)\n"
        "    time.sleep(30)\n"
        "dataset.score = wait\n"
        "cli.main(sys.argv[1:])\n"
    )
    write(pipe, payload("a", 1, "?", 1.0))
    with subprocess.Popen(
        [sys.executable, "-c", slow, *map(str, score(pipe, tmp_path / "runs"))],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert err.decode() == "error: interrupted; no run was kept\n"
    assert list((tmp_path / "runs").iterdir()) == []
