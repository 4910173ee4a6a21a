"""Scoring a dataset: files of any size, batch by batch of whole sessions, into a run on disk.

The stream can be read on one screen: index, batch, read, lay out, score, aggregate, write. What
happens in each step is the business of the room it calls.
"""

from __future__ import annotations

import json
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

import polars as pl

from uaef_frames import schemas
from uaef_frames.adapters.batches import Batch, get_batch_reader
from uaef_frames.adapters.lines import IN_MEMORY, LineIndex, index_lines, open_sources
from uaef_frames.arrow import Frame
from uaef_frames.errors import ConfigError, InputFileError, warn
from uaef_frames.evaluation.aggregate import Aggregated, aggregate
from uaef_frames.evaluation.engine import warn_without_judge
from uaef_frames.evaluation.plan import Plan, make_plan
from uaef_frames.evaluation.score import score
from uaef_frames.evaluation.units import expected_tables, lay_out
from uaef_frames.files import scratch_folder
from uaef_frames.ground_truth_files import TruthReader
from uaef_frames.judge.outcomes import FAILED_VERDICTS
from uaef_frames.rows import Reject, rejects_frame
from uaef_frames.store.escaping import is_text
from uaef_frames.store.joining import JoinReport
from uaef_frames.store.manifest import fingerprint
from uaef_frames.store.run import Run, config_json
from uaef_frames.store.writer import RunWriter, new_run_id
from uaef_frames.version import __version__

if TYPE_CHECKING:
    from uaef_frames.adapters.base import Adapter
    from uaef_frames.conversations import Conversations
    from uaef_frames.evaluation.units import Subject
    from uaef_frames.expectations import Expectations
    from uaef_frames.judge.config import Judge

Payloads: TypeAlias = str | Path | Frame | Iterable[Any]
OnError: TypeAlias = Literal["reject", "raise"]
Progress: TypeAlias = Callable[[int, int], None]

_In = TypeVar("_In")
_Out = TypeVar("_Out")

_READERS = 2
"""Batches that are read at once: parsing runs on all cores, what stands around it does not."""

BATCH_TURNS = 20_000
"""Turns that are worked on at once; a batch ends with a session, so it may be larger."""


def evaluate_dataset(
    payloads: Payloads,
    ground_truth: Expectations | str | Path | Sequence[str | Path] | Frame | None = None,
    metrics: Iterable[str] | None = None,
    metric_set: str | None = None,
    *,
    out: str | Path = "runs",
    name: str | None = None,
    adapter: str | Adapter = "langgraph",
    on_error: OnError = "reject",
    dimension_weights: Mapping[str, float] | None = None,
    thresholds: Mapping[str, float] | None = None,
    constants: Mapping[str, Mapping[str, Any]] | None = None,
    judge: Judge | str | bool | None = None,
    judges: Mapping[str, Judge | str] | None = None,
    progress: Progress | None = None,
    batch_turns: int = BATCH_TURNS,
    now: datetime | None = None,
) -> Run:
    """Score a dataset and keep the result as a run.

    Args:
        payloads: A path, a glob or a list of paths of JSON lines (.gz and .zst too), or an iterable
            of records; or a frame (polars, pandas, pyarrow, a DuckDB relation) with a row a record,
            whose `stream_events` are JSON text. Turns of a session may stand anywhere.
        ground_truth: Expectations, or a path, glob or list of paths of JSON lines, Parquet, or
            sheets (xlsx, csv, tsv, json, or a frame: see `read_ground_truth`) with a
            row a turn (session_id, turn_id, expected_output, expected_tool_calls, context) or a row
            a session (session_id, per_turn_expected, per_turn_expected_tool_calls, expected_output,
            expected_tool_calls, chatbot_role, system_instructions, context_documents). Other
            columns are kept as labels.
        metrics: As for `evaluate`.
        metric_set: As for `evaluate`.
        out: The folder of runs; it is made.
        name: Part of the run's id, for people.
        adapter: The name of an adapter, or one.
        on_error: `reject` puts a record that cannot be used into `rejects`, with its line, and goes
            on; `raise` stops at the first.
        dimension_weights: As for `evaluate`.
        thresholds: As for `evaluate`.
        constants: As for `evaluate`.
        judge: Who scores the judge metrics: a `Judge` or a model's name; None: as the variable
            UAEF_JUDGE_MODEL says, False: nobody.
        judges: Judges of single metrics, by name.
        progress: Called with (turns done, turns in all) after each batch.
        batch_turns: Turns that are worked on at once.
        now: The time that the run's id and row carry.

    The run's folder appears when it is whole; one that is interrupted leaves nothing behind.

    Raises:
        ConfigError: Anything unknown among the arguments, or no such file.
        InputFileError: A file cannot be read; or a record cannot be used and `on_error="raise"`.
        StoreError: The run cannot be written, or the disk has no room for records.
        JudgeError: The judge cannot be asked at all; verdicts that are in are kept in its cache.
    """
    plan = make_plan(
        metrics,
        metric_set,
        dimension_weights=dimension_weights,
        thresholds=thresholds,
        constants=constants,
        judge=judge,
        judges=judges,
    )
    if name is not None and not is_text(name):
        raise ConfigError(f"a run's name is text that UTF-8 can hold, not {name!r}")
    began = time.perf_counter()
    when = now or datetime.now(UTC)
    with ExitStack() as stack:
        scratch = stack.enter_context(scratch_folder())
        reader = get_batch_reader(adapter)
        index = reader.named(index_lines(open_sources(payloads, scratch)))
        truths = TruthReader.open(ground_truth, scratch)
        warn_without_judge(plan)
        asked = stack.enter_context(plan.open_judges())
        writer = stack.enter_context(RunWriter(out, new_run_id(name, when)))
        totals = _Totals()
        for strays in reader.strays(index):
            _keep_rejects(strays, writer, totals, on_error)
            totals.lines += len(strays)
        _keep_rejects(truths.strays(), writer, totals, on_error)

        def read(rows: pl.DataFrame) -> tuple[Batch, Expectations]:
            batch = reader.read(index, rows)
            expectations, rejects = truths.of(batch.conversations.turns["session_id"].unique())
            batch.rejects += rejects
            return batch, expectations

        pool = stack.enter_context(_Threads())
        for batch, expectations in pool.ahead(read, _batches(index, batch_turns)):
            _keep_rejects(batch.rejects, writer, totals, on_error)
            totals.join.add(batch.conversations, expectations)
            subject = lay_out(batch.conversations, expectations)
            found = aggregate(score(subject, plan, asked), subject, plan)
            pool.then(_write, writer, batch, expectations, subject, found, totals.sessions)
            totals.add(found, batch)
            if progress is not None:
                progress(totals.lines, index.lines.height)
        pool.wait()
        _warn(index, truths, totals)
        row = _runs_row(writer.run_id, name, when, began, index, plan, totals)
        if ground_truth is not None:
            row = row.with_columns(join_report=pl.lit(totals.join.to_json()))
        writer.append("runs", row)
        writer.about = {
            "created_at": when.astimezone(UTC).isoformat(),
            "config": json.loads(row["config"][0]),
            "inputs": {s.name: fingerprint(s.path) for s in index.sources if s.name != IN_MEMORY},
        }
        return Run(writer.commit())


def open_dataset(
    payloads: Payloads,
    ground_truth: Expectations | str | Path | Sequence[str | Path] | Frame | None,
    adapter: str | Adapter,
    scratch: Path,
    batch_turns: int = BATCH_TURNS,
) -> Iterator[tuple[Conversations, Expectations]]:
    """The usable sessions of a dataset with what is expected of them, batch by batch."""
    reader = get_batch_reader(adapter)
    index = reader.named(index_lines(open_sources(payloads, scratch)))
    truths = TruthReader.open(ground_truth, scratch)
    for rows in _batches(index, batch_turns):
        conversations = reader.read(index, rows).conversations
        yield conversations, truths.of(conversations.turns["session_id"].unique())[0]


_STRAY = pl.col("session_id").is_null()


def _batches(index: LineIndex, size: int) -> Iterator[pl.DataFrame]:
    """Rows of the index, whole sessions at a time, in first-seen order."""
    lines = index.lines.filter(~_STRAY)
    order = lines.select(pl.col("session_id").unique(maintain_order=True)).with_row_index("place")
    placed = lines.join(order, on="session_id", how="left", maintain_order="left")
    if not placed["place"].is_sorted():
        placed = placed.sort("place", maintain_order=True)
    begins = (
        placed.with_row_index("row")
        .group_by("place", maintain_order=True)
        .agg(pl.col("row").first())
    )
    # A batch begins with the first session that begins in the next `size` lines.
    edges = begins.group_by(pl.col("row") // size, maintain_order=True).agg(
        at=pl.col("row").first()
    )
    starts = [*edges["at"], placed.height]
    for start, end in pairwise(starts):
        yield placed[start:end].drop("place")


class _Threads:
    """Threads that read ahead and one that writes behind, while this one scores."""

    def __enter__(self) -> _Threads:
        self._reading = ThreadPoolExecutor(_READERS, thread_name_prefix="uaef-read")
        self._writing = ThreadPoolExecutor(1, thread_name_prefix="uaef-write")
        self._last: Future[None] | None = None
        return self

    def __exit__(self, *_: object) -> None:
        self._reading.shutdown(cancel_futures=True)
        self._writing.shutdown(cancel_futures=True)

    def ahead(self, read: Callable[[_In], _Out], items: Iterator[_In]) -> Iterator[_Out]:
        """What `read` gives for each item, in order, the next ones under way while one is used."""
        coming: deque[Future[_Out]] = deque()
        for item in items:
            coming.append(self._reading.submit(read, item))
            if len(coming) > _READERS:
                yield coming.popleft().result()
        while coming:
            yield coming.popleft().result()

    def then(self, write: Callable[..., None], *arguments: Any) -> None:
        """Write behind; one batch at most waits to be written."""
        self.wait()
        self._last = self._writing.submit(write, *arguments)

    def wait(self) -> None:
        """Until everything is written.

        Raises:
            Whatever the writing raised.
        """
        if self._last is not None:
            self._last.result()


@dataclass(slots=True)
class _Totals:
    """What the run's own row and the progress tell."""

    lines: int = 0
    sessions: int = 0
    turns: int = 0
    rejects: int = 0
    passed: int = 0
    scored: int = 0
    unanswered: Counter[str] = field(default_factory=Counter[str])
    overall: float = 0.0
    join: JoinReport = field(default_factory=JoinReport)

    def add(self, found: Aggregated, batch: Batch) -> None:
        sessions = found.sessions
        self.lines += batch.lines
        self.sessions += sessions.height
        self.turns += batch.conversations.turns.height
        self.passed += int(sessions["passed"].sum())
        self.scored += int(sessions["overall_score"].count())
        self.overall += float(sessions["overall_score"].sum() or 0.0)
        failed = found.scores.filter(pl.col("warning").is_in(FAILED_VERDICTS))
        self.unanswered.update(failed["warning"].to_list())


def _keep_rejects(
    rejects: Sequence[Reject], writer: RunWriter, totals: _Totals, on_error: OnError
) -> None:
    if rejects and on_error == "raise":
        first = rejects[0]
        raise InputFileError(first.reason, source=first.source, line=first.line)
    totals.rejects += len(rejects)
    writer.append("rejects", rejects_frame(rejects))


def _write(
    writer: RunWriter,
    batch: Batch,
    expectations: Expectations,
    subject: Subject,
    found: Aggregated,
    first_session: int,
) -> None:
    run = pl.lit(writer.run_id).alias("run_id")
    index = pl.col("session_index") + first_session
    happened = batch.conversations
    order = found.sessions.select("session_id", at=index)
    turns = happened.turns.join(order, on="session_id", how="left", maintain_order="left")
    writer.append("turns", turns.with_columns(session_index=pl.col("at")))
    for name in ("messages", "tool_calls", "handoffs"):
        writer.append(name, getattr(happened, name))
    writer.append(
        "scores", found.scores.sort("session_unit", maintain_order=True).with_columns(run)
    )
    writer.append("dimensions", found.dimensions.with_columns(run))
    for name, rows in expected_tables(subject).items():
        writer.append(name, rows)
    labels = expectations.session_expectations.select("session_id", "labels")
    rejected = Counter(r.session_id for r in batch.rejects if r.session_id is not None)
    spoilt = pl.DataFrame(
        [(sid, _spoilt(n)) for sid, n in rejected.items()],
        schema={"session_id": pl.String, "spoilt": pl.String},
        orient="row",
    )
    sessions = (
        found.sessions.join(labels, on="session_id", how="left", maintain_order="left")
        .join(spoilt, on="session_id", how="left", maintain_order="left")
        .with_columns(
            run,
            session_index=index,
            warnings=pl.concat_list("warnings", "spoilt").list.drop_nulls(),
        )
    )
    writer.append("sessions", sessions)


def _spoilt(count: int) -> str:
    return f"{_counted(count, 'record')} of this session {'was' if count == 1 else 'were'} rejected"


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _warn(index: LineIndex, truths: TruthReader, totals: _Totals) -> None:
    if totals.rejects:
        records = _counted(totals.rejects, "record")
        warn(f"{records} could not be used; run.rejects says why, line by line")
    if totals.unanswered:
        counts = ", ".join(f"{n} {what}" for what, n in sorted(totals.unanswered.items()))
        warn(
            f"some scores have no verdict ({counts}); run.scores says why, and evaluating again "
            "asks for them alone"
        )
    happened = index.lines["session_id"].unique()
    unmet = truths.session_ids.filter(~truths.session_ids.is_in(happened.implode()))
    totals.join.unmet(unmet)
    if len(unmet):
        shown = ", ".join(map(repr, unmet.head(3))) + (", …" if len(unmet) > 3 else "")
        sessions = _counted(len(unmet), "session")
        warn(f"ground truth speaks of {sessions} not in the payloads: {shown}")
    if not totals.turns:
        warn("there was no turn to score")


def _runs_row(
    run_id: str,
    name: str | None,
    when: datetime,
    began: float,
    index: LineIndex,
    plan: Plan,
    totals: _Totals,
) -> pl.DataFrame:
    config = {
        "constants": {s.name: dict(s.constants) for s in plan.metrics if s.constants},
        "dimension_weights": plan.weights,
        "thresholds": plan.thresholds,
        "judge": None if plan.judge is None else plan.judge.settings(),
        "judges": {name: judge.settings() for name, judge in plan.judges.items()},
        "rubrics": {s.name: s.asked.rubric.version for s in plan.metrics if s.asked is not None},
    }
    row = {
        "run_id": run_id,
        "name": name,
        "created_at": when.astimezone(UTC),
        "duration_s": time.perf_counter() - began,
        "version": __version__,
        "sources": [s.name for s in index.sources if s.name != IN_MEMORY],
        "metrics": [s.name for s in plan.metrics],
        "config": config_json(config),
        "join_report": None,
        "num_sessions": totals.sessions,
        "num_turns": totals.turns,
        "num_rejects": totals.rejects,
        "mean_overall": totals.overall / totals.scored if totals.scored else None,
        "pass_rate": totals.passed / totals.sessions if totals.sessions else None,
    }
    return pl.DataFrame([row], schema=schemas.columns(schemas.Runs))
