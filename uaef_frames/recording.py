"""Driving an agent: questions in, turn payloads out, ready to be scored.

Each conversation runs in its order against one thread; conversations run side by side. A turn that
fails is recorded as such and ends its conversation, never the others.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from queue import Queue
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import polars as pl

from uaef_frames.errors import ConfigError, InputFileError
from uaef_frames.expectations import Expectations
from uaef_frames.files import make_folder, write_whole
from uaef_frames.judge.prices import Price, as_price

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

Questions: TypeAlias = "Expectations | Mapping[str, Sequence[str]]"
Agent: TypeAlias = Any
"""A compiled LangGraph graph, or a function (sync or async) of (question, session_id) that returns
text, messages, or stream events."""

_DONE = object()


@dataclass(frozen=True, slots=True)
class _Session:
    session_id: str
    questions: list[tuple[int, str]]


def record_sessions(
    graph: Agent,
    questions: Questions,
    *,
    path: str | Path | None = None,
    concurrency: int = 4,
    config: Mapping[str, Any] | None = None,
    stream_mode: str | Sequence[str] = "updates",
    subgraphs: bool = False,
    prices: Mapping[str, Price | tuple[float, ...]] | Price | tuple[float, ...] | None = None,
    timeout_s: float | None = None,
    as_input: Callable[[str], Any] | None = None,
) -> Iterator[dict[str, Any]]:
    """Run an agent over the questions of a sheet, and yield one turn payload after the other.

    Args:
        graph: A compiled LangGraph graph, or a function, sync or async, of the question (or of the
            question and the session_id) that returns the answer as text, a list of messages, or a
            list of stream events.
        questions: Expectations whose turns have questions (`read_ground_truth`), or questions by
            session_id.
        path: JSON lines that grow as turns end. Sessions that are whole there are not run again;
            one that broke off is run anew.
        concurrency: Conversations that run side by side.
        config: Added to the graph's config; `configurable.thread_id` is the session_id.
        stream_mode: As `graph.stream` takes it.
        subgraphs: Whether to record what graphs within the graph do.
        prices: USD a million tokens: one price, or prices by the model's name; None: no cost.
        timeout_s: Seconds that one turn may take.
        as_input: From a question to the graph's input; default: `{"messages": [human message]}`.

    Yields:
        Turn payloads: session_id, turn_id, stream_events with the `__human__` event first, latency
        (s), and where the messages report usage, input_tokens, output_tokens and cost_usd. A turn
        that failed has workflow_status "failed" and metadata with the error.

    Raises:
        ConfigError: There is no question, or the agent is nothing that can be run.
        InputFileError: `path` holds something else.
        StoreError: The disk does not take the file.
    """
    if concurrency < 1:
        raise ConfigError(f"concurrency is at least 1, not {concurrency}")
    if not callable(graph) and not hasattr(graph, "astream"):
        raise ConfigError(
            f"an agent is a compiled graph or a function, not a {type(graph).__name__}"
        )
    sessions = _sessions(questions)
    target = None if path is None else Path(path)
    kept = [] if target is None else _whole_sessions(target, sessions)
    done = {p["session_id"] for p in kept}
    if target is not None:
        _rewrite(target, kept)
    runner = _Runner(graph, config, stream_mode, subgraphs, prices, timeout_s, as_input)
    left = [s for s in sessions if s.session_id not in done]
    return _recorded(kept, left, runner, target, concurrency)


def _recorded(
    kept: list[dict[str, Any]],
    left: list[_Session],
    runner: _Runner,
    target: Path | None,
    concurrency: int,
) -> Iterator[dict[str, Any]]:
    yield from kept
    if not left:
        return
    payloads: Queue[Any] = Queue(maxsize=4 * concurrency)
    stop = threading.Event()
    thread = threading.Thread(
        target=_run_all, args=(left, runner, payloads, concurrency, stop), daemon=True
    )
    thread.start()
    opened: AbstractContextManager[Any] | None = None if target is None else target.open("ab")
    try:
        while (payload := payloads.get()) is not _DONE:
            if isinstance(payload, BaseException):
                raise payload
            if opened is not None:
                opened.write(_line(payload))  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
                opened.flush()  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
            yield payload
    finally:
        stop.set()
        if opened is not None:
            opened.close()  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]


def _run_all(
    left: list[_Session],
    runner: _Runner,
    payloads: Queue[Any],
    concurrency: int,
    stop: threading.Event,
) -> None:
    """All sessions, in an event loop of this thread's own, so that a notebook's is left alone."""

    async def work() -> None:
        waiting = iter(left)

        async def worker() -> None:
            for session in waiting:
                async for payload in runner.session(session):
                    await asyncio.to_thread(payloads.put, payload)
                    if stop.is_set():
                        return

        await asyncio.gather(*(worker() for _ in range(min(concurrency, len(left)))))

    try:
        asyncio.run(work())
    except BaseException as error:  # whatever it was, the caller gets to see it
        payloads.put(error)
    finally:
        payloads.put(_DONE)


class _Runner:
    """Runs one conversation after the questions of its turns."""

    def __init__(
        self,
        graph: Agent,
        config: Mapping[str, Any] | None,
        stream_mode: str | Sequence[str],
        subgraphs: bool,
        prices: Any,
        timeout_s: float | None,
        as_input: Callable[[str], Any] | None,
    ) -> None:
        self._graph = graph
        self._config = dict(config or {})
        self._stream: dict[str, Any] = {
            "stream_mode": stream_mode if isinstance(stream_mode, str) else list(stream_mode)
        }
        if subgraphs:
            self._stream["subgraphs"] = True
        self._prices = _price_table(prices)
        self._timeout_s = timeout_s
        self._as_input = as_input

    async def session(self, session: _Session) -> AsyncIterator[dict[str, Any]]:
        """The payloads of a conversation; the first turn that fails is the last."""
        for turn_id, question in session.questions:
            payload = await self._turn(session.session_id, turn_id, question)
            yield payload
            if payload.get("workflow_status") == "failed":
                return

    async def _turn(self, session_id: str, turn_id: int, question: str) -> dict[str, Any]:
        events: list[Any] = []
        began = time.perf_counter()
        error: BaseException | None = None
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._collect(session_id, question, events)
        except TimeoutError:
            error = TimeoutError(f"no answer within {self._timeout_s:g} s")
        except Exception as failure:  # whatever an agent raises, the others go on
            error = failure
        payload: dict[str, Any] = {
            "session_id": session_id,
            "turn_id": turn_id,
            "stream_events": [
                {"__human__": {"messages": [{"type": "human", "content": question}]}},
                *(_plain(e) for e in events),
            ],
            "latency": time.perf_counter() - began,
        }
        payload |= self._usage(events)
        if error is not None:
            payload["workflow_status"] = "failed"
            payload["metadata"] = {"error": f"{type(error).__name__}: {error}"[:2_000]}
        return payload

    async def _collect(self, session_id: str, question: str, events: list[Any]) -> None:
        graph = self._graph
        if not hasattr(graph, "astream"):
            events.extend(_events_of(await _called(graph, question, session_id)))
            return
        config = {**self._config}
        config["configurable"] = {**config.get("configurable", {}), "thread_id": session_id}
        if self._as_input is None:
            given: Any = {"messages": [{"role": "user", "content": question}]}
        else:
            given = self._as_input(question)
        try:
            async for event in graph.astream(given, config, **self._stream):
                events.append(event)  # noqa: PERF401  what came before a failure counts
        except (NotImplementedError, TypeError) as error:
            # A model or tool that knows no async: the sync way, in a thread.
            if events or not _needs_sync(error):
                raise
            await asyncio.to_thread(
                lambda: events.extend(graph.stream(given, config, **self._stream))
            )

    def _usage(self, events: Sequence[Any]) -> dict[str, Any]:
        """Tokens over all messages that report them, each once, and what they cost."""
        seen: dict[str, tuple[int, int, str]] = {}
        for number, message in enumerate(_messages(events)):
            usage = _field(message, "usage_metadata")
            if isinstance(usage, Mapping):
                counts = cast("Mapping[str, Any]", usage)
                name = _field(message, "id") or f"message-{number}"
                about: Any = _field(message, "response_metadata")
                model: Any = _field(about, "model_name") if about else ""
                seen[str(name)] = (
                    int(counts.get("input_tokens") or 0),
                    int(counts.get("output_tokens") or 0),
                    str(model or ""),
                )
        if not seen:
            return {}
        found: dict[str, Any] = {
            "input_tokens": sum(i for i, _, _ in seen.values()),
            "output_tokens": sum(o for _, o, _ in seen.values()),
        }
        rates = [self._prices.get(m, self._prices.get("")) for _, _, m in seen.values()]
        if all(rate is not None for rate in rates):
            found["cost_usd"] = sum(
                cast("Price", rate).cost(i, o)
                for rate, (i, o, _) in zip(rates, seen.values(), strict=True)
            )
        return found


async def _called(function: Callable[..., Any], question: str, session_id: str) -> Any:
    try:
        takes = len(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        takes = 1
    arguments = (question, session_id) if takes >= 2 else (question,)
    if inspect.iscoroutinefunction(function):
        return await function(*arguments)
    found = await asyncio.to_thread(function, *arguments)
    return await found if inspect.isawaitable(found) else found


def _events_of(answer: Any) -> list[Any]:
    """Stream events from what a function returned."""
    if answer is None:
        return []
    if isinstance(answer, str):
        return [{"agent": {"messages": [{"type": "ai", "content": answer}]}}]
    if isinstance(answer, Mapping):
        held = cast("Mapping[str, Any]", answer)
        return [{"agent": held}] if "messages" in held else [held]
    listed = list(cast("Iterable[Any]", answer))
    events = all(isinstance(e, Mapping) and not _is_message(e) for e in listed)
    return listed if events and listed else [{"agent": {"messages": listed}}]


def _is_message(item: Any) -> bool:
    return isinstance(item, Mapping) and bool({"content", "role", "type"} & set(cast("Any", item)))


def _needs_sync(error: BaseException) -> bool:
    text = str(error).lower()
    return isinstance(error, NotImplementedError) or "sync" in text or "async" in text


def _messages(events: Any) -> Iterator[Any]:
    """Every message within events, however deep."""
    if isinstance(events, Mapping):
        held = cast("Mapping[str, Any]", events)
        if _is_message(held):
            yield held
            return
        for value in held.values():
            yield from _messages(value)
    elif isinstance(events, list | tuple):
        for item in cast("Iterable[Any]", events):
            yield from _messages(item)
    elif hasattr(events, "content") and hasattr(events, "type"):
        yield events


def _field(message: Any, name: str) -> Any:
    if isinstance(message, Mapping):
        return cast("Mapping[str, Any]", message).get(name)
    return getattr(message, name, None)


def _plain(value: Any) -> Any:
    """An event as JSON can hold it: messages as `model_dump` gives them."""
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in cast("Iterable[Any]", value)]
    if hasattr(value, "model_dump"):
        return _plain(value.model_dump())
    if isinstance(value, str | int | float | bool) or value is None:
        return value
    return str(value)


def _line(payload: dict[str, Any]) -> bytes:
    return json.dumps(payload, ensure_ascii=False, default=str).encode("utf-8", "replace") + b"\n"


def _sessions(questions: Questions) -> list[_Session]:
    if isinstance(questions, Expectations):
        asked = questions.turn_expectations.drop_nulls("query")
        missing = questions.turn_expectations.height - asked.height
        if missing and asked.height:
            row = questions.turn_expectations.filter(pl.col("query").is_null()).row(0, named=True)
            raise ConfigError(
                f"turn {row['turn_id']} of session {row['session_id']!r} has no question"
            )
        found: dict[str, list[tuple[int, str]]] = {}
        for sid, turn, query in asked.select("session_id", "turn_id", "query").iter_rows():
            found.setdefault(sid, []).append((turn, query))
    elif isinstance(questions, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        found = {str(sid): list(enumerate(asked, 1)) for sid, asked in questions.items()}
    else:
        raise ConfigError("questions are Expectations, or a mapping of session_id to questions")
    sessions = [_Session(sid, asked) for sid, asked in found.items() if asked]
    if not sessions:
        raise ConfigError("there is no question to ask: the sheet has no column Question")
    return sessions


def _whole_sessions(target: Path, sessions: Sequence[_Session]) -> list[dict[str, Any]]:
    """Payloads of earlier sessions that were asked all they were to be asked."""
    if not target.exists():
        return []
    wanted = {s.session_id: [turn for turn, _ in s.questions] for s in sessions}
    held: dict[str, list[dict[str, Any]]] = {}
    with target.open("rb") as opened:
        for number, line in enumerate(opened, 1):
            if not line.strip():
                continue
            try:
                payload = json.loads(line)
                sid = str(payload["session_id"])
            except (ValueError, TypeError, KeyError) as error:
                if not line.endswith(b"\n"):  # the line that was being written
                    continue
                raise InputFileError(
                    "it holds no turn payload; give another path", source=str(target), line=number
                ) from error
            held.setdefault(sid, []).append(payload)
    return [
        payload
        for sid, payloads in held.items()
        if sid not in wanted or [p.get("turn_id") for p in payloads] == wanted[sid]
        for payload in payloads
    ]


def _rewrite(target: Path, kept: Sequence[dict[str, Any]]) -> None:
    """The file with whole sessions alone; it is replaced in one step."""
    make_folder(target.parent)
    write_whole(target, b"".join(_line(p) for p in kept))


def _price_table(prices: Any) -> dict[str, Price]:
    if prices is None:
        return {}
    if isinstance(prices, Mapping) and not {"input", "output"} & set(cast("Any", prices)):
        named = cast("Mapping[str, Any]", prices)
        return {str(k): p for k, v in named.items() if (p := as_price(v)) is not None}
    one = as_price(cast("object", prices))
    return {} if one is None else {"": one}
