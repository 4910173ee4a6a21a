"""Processes are killed, disks fill up and runs are taken away: what was whole stays whole, and what
was not is never seen.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from tests.store.test_run import hand_made, rows, score
from uaef_frames import StoreError, evaluate_dataset, open_run, open_store
from uaef_frames.store.writer import RunWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from multiprocessing.connection import Connection
    from pathlib import Path

    from uaef_frames import Store

# Children of a server that has imported everything and started no thread begin in milliseconds.
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload([__name__, "pyarrow.parquet", "duckdb", "scipy.stats"])

_PAGE = 4096
_BATCHES = 3


def written(
    out: Path, run_id: str, size: int = 60, start: Callable[[], None] | None = None
) -> Path:
    """A run of `_BATCHES * size` sessions of one turn, of text that does not compress.

    `start` is called when all is appended and nothing committed.
    """
    noise = random.Random(run_id)
    with RunWriter(out, run_id) as writer:
        for batch in range(_BATCHES):
            ids = [f"s{batch}-{n}" for n in range(size)]
            said = [{"session_id": s, "query": noise.randbytes(150).hex()} for s in ids]
            writer.append("turns", rows("turns", *({**t, "turn_id": 1} for t in said)))
            scored = (score(s, 1, "latency_score", 0.5) for s in ids)
            writer.append("scores", rows("scores", *({**t, "run_id": run_id} for t in scored)))
            found = ({"session_id": s, "overall_score": 0.5, "run_id": run_id} for s in ids)
            writer.append("sessions", rows("sessions", *found))
        run = {"metrics": ["latency_score"], "config": "{}", "num_turns": _BATCHES * size}
        writer.append("runs", rows("runs", {"run_id": run_id, **run}))
        if start is not None:
            start()
        return writer.commit()


def evaluated(out: Path, run_id: str, start: Callable[[], None]) -> None:
    """A run as people make one; `start` is called before the commit."""
    commit = RunWriter.commit

    def told(writer: RunWriter) -> Path:
        start()
        return commit(writer)

    RunWriter.commit = told  # this process is a child, and ends soon
    payloads = [{"session_id": f"s{n % 20}", "turn_id": n, "stream_events": []} for n in range(60)]
    evaluate_dataset(payloads, metrics=["latency_score"], out=out, name=run_id, batch_turns=10)


def counted(store: Store) -> dict[str, int]:
    """Turns by run, as SQL sees them, and only if the frames say the same."""
    asked = store.sql("select run_id, count(*) as n from turns group by all order by all")
    told = store.runs().sort("run_id")
    assert dict(asked.rows()) == dict(told.select("run_id", "num_turns").rows())
    assert asked["run_id"].to_list() == store.run_ids
    return dict(asked.rows())


def hidden(folder: Path) -> list[str]:
    return [p.name for p in folder.iterdir() if p.name.startswith(".")]


# Killed while writing.


def _write_and_tell(way: str, out: Path, run_id: str, scratch: Path, tell: Connection) -> None:
    tempfile.tempdir = str(scratch)
    write = evaluated if way == "evaluated" else written
    tell.send("writing")
    write(out, run_id, start=lambda: tell.send("committing"))
    tell.send("done")


class _Child:
    """A process that writes a run and tells how far it is."""

    def __init__(self, way: str, out: Path, run_id: str, scratch: Path) -> None:
        self._hear, tell = _CONTEXT.Pipe(duplex=False)
        given = (way, out, run_id, scratch, tell)
        self._process = _CONTEXT.Process(target=_write_and_tell, args=given)
        self._process.start()
        tell.close()

    def until(self, phase: str) -> float:
        while self._hear.recv() != phase:
            pass
        return time.perf_counter()

    def killed(self, last: str) -> str:
        """The phase in which it was killed."""
        self._process.kill()
        self._process.join()
        while True:
            try:
                last = self._hear.recv()
            except EOFError:
                return last


@pytest.mark.parametrize(("way", "kills"), [("written", 32), ("evaluated", 18)])
def test_a_run_that_is_killed_while_it_is_written_is_whole_or_not_there(
    way: str, kills: int, tmp_path: Path
) -> None:
    out = tmp_path / "runs"
    written(out, "before")
    spans: dict[str, float] = {}
    for n in range(3):  # the last is taken: the first ones still load and compile
        child = _Child(way, out, f"rehearsal-{n}", tmp_path)
        began, committing, done = map(child.until, ("writing", "committing", "done"))
        child.killed("done")
        spans = {"writing": committing - began, "committing": done - committing}
    store = open_store(out)
    chance = random.Random(way)
    phases: Counter[str] = Counter()
    before = counted(store)
    for n in range(kills):
        child = _Child(way, out, f"killed-{n}", tmp_path)
        aimed = ("writing", "committing")[n % 2]
        child.until(aimed)
        time.sleep(chance.uniform(0, spans[aimed]))
        phase = child.killed(aimed)
        phases[phase] += 1
        after = counted(store)
        assert before.items() <= after.items()
        new = after.keys() - before.keys()
        assert len(new) == 1 if phase == "done" else len(new) <= (phase == "committing")
        assert set(after.values()) <= {_BATCHES * 60, _BATCHES, 60}
        written(out, f"next-{n}", size=1)
        assert sorted(p.name for p in out.iterdir()) == store.run_ids
        assert not any(store.verify().values())
        before = after | {f"next-{n}": _BATCHES}
    assert counted(store) == before
    assert phases["writing"] >= 3
    assert phases["committing"] >= 3


def _die_while_removing(out: Path, run_id: str) -> None:
    def die(*_: Any, **__: Any) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    shutil.rmtree = die  # pyright: ignore[reportAttributeAccessIssue]
    open_store(out).remove(run_id)


@pytest.mark.parametrize("by", ["a writer", "a remover"])
def test_what_a_killed_remover_left_is_swept_by_the_next(by: str, tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        written(tmp_path, name, size=1)
    process = _CONTEXT.Process(target=_die_while_removing, args=(tmp_path, "a"))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    store = open_store(tmp_path)
    assert list(counted(store)) == ["b", "c"]
    assert len(hidden(tmp_path)) == 1
    if by == "a writer":
        written(tmp_path, "d", size=1)
    else:
        store.remove("b")
    assert hidden(tmp_path) == []
    assert list(counted(store)) == (["b", "c", "d"] if by == "a writer" else ["c"])


# A disk that is full.


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of a megabyte."""
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "uaef-frames-tests", str(disk)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
        refused = done.stderr.strip() if done.returncode else ""
    except OSError as error:
        refused = str(error)
    if refused:
        pytest.skip(f"a small disk cannot be mounted here (it needs root): {refused}")
    yield disk
    subprocess.run(["umount", "--lazy", str(disk)], check=True, timeout=30)


def leave(disk: Path, room: int) -> None:
    """Fill a disk until so many bytes are left."""
    filler = disk / "filler"
    filler.unlink(missing_ok=True)
    free = shutil.disk_usage(disk).free
    filler.write_bytes(bytes(free - room))
    assert shutil.disk_usage(disk).free == room


def test_a_disk_that_is_full_at_any_page_leaves_no_half_run(small_disk: Path) -> None:
    out = small_disk / "runs"
    old = written(out, "old", size=5)
    pages = sum(-(-f.stat().st_size // _PAGE) for f in old.iterdir())
    store = open_store(out)
    before = counted(store)
    for room in range(pages):
        leave(small_disk, room * _PAGE)
        with pytest.raises(StoreError, match=r"^run new could not be written: .*No space left"):
            written(out, "new", size=5)
        assert [p.name for p in out.iterdir()] == ["old"]
        assert shutil.disk_usage(small_disk).free == room * _PAGE
    assert counted(store) == before
    leave(small_disk, pages * _PAGE)
    written(out, "new", size=5)
    assert store.verify() == {"new": [], "old": []}


def _write_with_less_and_less(out: Path, limits: list[int], tell: Connection) -> None:
    for limit in limits:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
        try:
            written(out, "new", size=20)
            said = "written"
        except StoreError as error:
            said = str(error)
        tell.send((said, sorted(p.name for p in out.iterdir())))


def test_a_file_that_may_not_grow_leaves_no_half_run(tmp_path: Path) -> None:
    old = written(tmp_path, "old", size=20)
    largest = max(f.stat().st_size for f in old.iterdir())
    limits = [largest * n // 40 for n in range(38)] + [2 * largest]
    hear, tell = _CONTEXT.Pipe(duplex=False)
    child = _CONTEXT.Process(target=_write_with_less_and_less, args=(tmp_path, limits, tell))
    child.start()
    tell.close()
    for _ in limits[:-1]:
        said, left = hear.recv()
        assert said.startswith("run new could not be written: ")
        assert "File too large" in said
        assert left == ["old"]
    assert hear.recv() == ("written", ["new", "old"])
    child.join()
    assert open_store(tmp_path).verify() == {"new": [], "old": []}


LIMITED = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), resource.RLIM_INFINITY))
os.execv(sys.executable, [sys.executable, "-m", "uaef_frames", *sys.argv[2:]])
"""


def scored_at_the_command_line(
    folder: Path, out: Path, limit: int
) -> subprocess.CompletedProcess[str]:
    noise = random.Random(1)
    human = [{"type": "human", "content": noise.randbytes(2000).hex()} for _ in range(60)]
    lines = [
        json.dumps(
            {
                "session_id": f"s{n}",
                "turn_id": 1,
                "stream_events": [{"__human__": {"messages": [said]}}],
            }
        )
        for n, said in enumerate(human)
    ]
    payloads = folder / "payloads.jsonl"
    payloads.write_text("\n".join(lines), "utf-8")
    score_it = ["score", str(payloads), "--metrics", "latency_score", "--out", str(out)]
    return subprocess.run(
        [sys.executable, "-c", LIMITED, str(limit), *score_it],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def refused_in_one_line(done: subprocess.CompletedProcess[str], reason: str) -> bool:
    (line,) = done.stderr.splitlines()
    said = line.startswith("error: run 2") and "could not be written: " in line
    return done.returncode == 1 and said and reason in line and done.stdout == ""


def test_the_command_line_says_in_one_line_that_a_file_may_not_grow(tmp_path: Path) -> None:
    out = tmp_path / "runs"
    written(out, "old", size=1)
    done = scored_at_the_command_line(tmp_path, out, 30_000)
    assert refused_in_one_line(done, "File too large")
    assert [p.name for p in out.iterdir()] == ["old"]
    assert counted(open_store(out)) == {"old": _BATCHES}


def test_the_command_line_says_in_one_line_that_the_disk_is_full(
    small_disk: Path, tmp_path: Path
) -> None:
    out = small_disk / "runs"
    written(out, "old", size=1)
    leave(small_disk, 10 * _PAGE)
    done = scored_at_the_command_line(tmp_path, out, resource.RLIM_INFINITY)
    assert refused_in_one_line(done, "No space left")
    assert [p.name for p in out.iterdir()] == ["old"]
    assert counted(open_store(out)) == {"old": _BATCHES}


# Many at once.

_SECONDS = 6.0


def _size(run_id: str) -> int:
    """The turns of a run of `_write_many`: its id ends with them."""
    return int(run_id.rpartition("-")[2])


def _write_many(out: Path, number: int, until: float, tell: Connection) -> None:
    chance = random.Random(number)
    made: list[str] = []
    while time.time() < until:
        size = chance.randint(1, 8)
        made.append(f"{time.time_ns()}-{number}-{_BATCHES * size}")
        written(out, made[-1], size)
        time.sleep(chance.uniform(0.1, 0.5))
    tell.send(made)


def _remove_many(out: Path, number: int, until: float, tell: Connection) -> None:
    chance = random.Random(number)
    store = open_store(out)
    gone: list[str] = []
    while time.time() < until:
        names = store.run_ids
        if len(names) > 3:
            gone.append(store.remove(chance.choice([*names, "latest"])))
        time.sleep(chance.uniform(0.05, 0.15))
    tell.send(gone)


def _read_many(out: Path, number: int, until: float, tell: Connection) -> None:
    """Read until then; tells how often each way gave an answer, and what was wrong."""
    store = open_store(out)
    answers: Counter[str] = Counter()
    wrong: list[str] = []

    def note(way: str, sizes: dict[str, int]) -> None:
        answers[way] += 1
        wrong.extend(f"{way}: {r} has {n}" for r, n in sizes.items() if n != _size(r))

    def latest() -> dict[str, int]:
        run = store.run("latest")
        try:
            return {run.run_id: run.summary()["scored"].item()}
        except StoreError as error:
            if "removed after it was opened" not in str(error):
                raise
            return {}

    def verified() -> dict[str, int]:
        found = store.verify()
        wrong.extend(f"verify: {run_id}: {p}" for run_id, p in found.items() if p)
        return {}

    joined = "select run_id, count(*) from scores join turns using (run_id, session_id) group by 1"
    ways: dict[str, Callable[[], dict[str, int]]] = {
        "runs": lambda: dict(store.runs().select("run_id", "num_turns").rows()),
        "sql": lambda: dict(store.sql("select run_id, count(*) from scores group by all").rows()),
        "join": lambda: dict(store.sql(joined).rows()),
        "history": lambda: dict(store.history("overall").select("run_id", "sessions").rows()),
        "verify": verified,
        "latest": latest,
    }
    order = random.Random(number)
    while time.time() < until:
        way = order.choice(list(ways))
        try:
            note(way, ways[way]())
        except Exception as error:
            wrong.append(f"{way}: {type(error).__name__}: {error}")
    tell.send((answers, wrong))


def test_many_write_read_and_remove_at_once_and_nobody_sees_half_a_run(tmp_path: Path) -> None:
    for n in range(3):
        written(tmp_path, f"{n}-first-{_BATCHES}", size=1)
    warm = _CONTEXT.Process(target=time.time)  # the server is up before the clock runs
    warm.start()
    warm.join()
    until = time.time() + _SECONDS
    working: dict[str, list[tuple[Any, Connection]]] = {}
    for work, many in ((_write_many, 8), (_read_many, 8), (_remove_many, 1)):
        for number in range(many):
            hear, tell = _CONTEXT.Pipe(duplex=False)
            child = _CONTEXT.Process(target=work, args=(tmp_path, number, until, tell))
            child.start()
            tell.close()
            working.setdefault(work.__name__, []).append((child, hear))
    told = {name: [hear.recv() for _, hear in those] for name, those in working.items()}
    for those in working.values():
        for child, _ in those:
            child.join()
    answers = sum((a for a, _ in told["_read_many"]), Counter[str]())
    assert [w for _, wrong in told["_read_many"] for w in wrong] == []
    assert set(answers) == {"runs", "sql", "join", "history", "verify", "latest"}
    (removed,) = told["_remove_many"]
    made = [run_id for some in told["_write_many"] for run_id in some]
    assert removed
    first = {f"{n}-first-{_BATCHES}" for n in range(3)}
    store = open_store(tmp_path)
    assert set(store.run_ids) == (first | set(made)) - set(removed)
    assert counted(store) == {run_id: _size(run_id) for run_id in store.run_ids}
    assert not any(store.verify().values())
    assert hidden(tmp_path) == []


@pytest.mark.parametrize("asked_before", [True, False])
def test_a_run_that_was_opened_and_is_gone_says_so(asked_before: bool, tmp_path: Path) -> None:
    run = open_run(hand_made(tmp_path))
    query = "select count(*) from scores"
    if asked_before:
        assert run.sql(query).item() > 0
        assert run.summary().height == 2
    assert open_store(tmp_path).remove("latest") == run.run_id
    asks: list[Callable[[], object]] = [
        run.summary,
        run.dimension_summary,
        run.worst_turns,
        lambda: run.info,
        lambda: run.scores,
        lambda: run.sql(query),
    ]
    for ask in asks:
        with pytest.raises(StoreError, match=f"run {run.run_id} is not in .* any more"):
            ask()


def test_a_run_with_a_broken_file_is_not_taken_for_a_removed_one(tmp_path: Path) -> None:
    for name in ("broken", "whole"):
        written(tmp_path, name, size=1)
    store = open_store(tmp_path)
    run = store.run("broken")
    for table in ("runs", "scores"):
        (run.path / f"{table}.parquet").write_bytes(b"no parquet")
    for ask in (store.runs, store.connect, lambda: store.history("overall"), run.summary):
        with pytest.raises(StoreError, match=r"(?i)broken|parquet"):
            ask()
    problems = store.verify("broken")["broken"]
    assert [p.split()[0] for p in problems] == ["runs.parquet", "scores.parquet"]
    assert store.remove("broken") == "broken"
    assert counted(store) == {"whole": _BATCHES}
