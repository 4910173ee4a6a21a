"""`make bench-judge`: the judge engine beside the bare SDK and bare aiohttp, in one run.

A local server answers each request after 100 ms. What is compared is the client: calls a second,
and CPU time a call. Then 100,000 questions are queued, to see what they take of memory.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from tests.judge.asking import RUBRIC
from tests.judge_server import JudgeServer
from uaef_frames import Judge
from uaef_frames.judge.outcomes import QUESTION_COLUMNS, Questions
from uaef_frames.judge.prompts import tagged
from uaef_frames.judge.requests import Capabilities, Request, key_prefix
from uaef_frames.judge.session import JudgeSession

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

ANSWER = "Your booking {} is confirmed for Friday; the receipt is in your mail. " * 8


def questions(count: int, start: int = 0, size: int = 2_000) -> Iterator[Questions]:
    for first in range(start, start + count, size):
        last = min(first + size, start + count)
        frame = pl.DataFrame({"unit": range(first, last)}, schema={"unit": pl.Int64}).select(
            "unit",
            part=pl.lit(0, dtype=pl.Int64),
            user=tagged("response", pl.format(ANSWER.replace("{}", "{}", 1), *["unit"] * 8)),
            upper=pl.lit(None, dtype=pl.Float64),
            elided_turns=pl.lit(0, dtype=pl.Int64),
            cut_characters=pl.lit(0, dtype=pl.Int64),
        )
        yield Questions(RUBRIC.name, RUBRIC, ("response",), frame.select(list(QUESTION_COLUMNS)))


def bodies(judge: Judge, count: int, start: int) -> list[dict[str, Any]]:
    prefix = key_prefix(judge, RUBRIC)
    can = Capabilities()
    return [
        Request(judge, RUBRIC, user, 0, prefix).body(can, judge.max_tokens)
        for some in questions(count, start)
        for user in some.frame["user"]
    ]


async def drive(
    ask: Callable[[dict[str, Any]], Awaitable[Any]], work: list[Any], most: int
) -> None:
    waiting = iter(work)

    async def worker() -> None:
        for body in waiting:
            await ask(body)

    await asyncio.gather(*(worker() for _ in range(most)))


async def sdk(url: str, work: list[Any], most: int, *, aio: bool, raw: bool) -> None:
    import httpx2
    from openai import AsyncOpenAI, DefaultAioHttpClient, DefaultAsyncHttpx2Client

    limits = httpx2.Limits(max_connections=most + 8, max_keepalive_connections=most + 8)
    client_of: Any = DefaultAioHttpClient if aio else DefaultAsyncHttpx2Client
    async with AsyncOpenAI(
        api_key="k", base_url=url, max_retries=0, http_client=client_of(limits=limits)
    ) as client:
        resource_ = client.chat.completions
        create: Any = resource_.with_raw_response.create if raw else resource_.create
        await drive(lambda body: create(**body), work, most)


async def bare(url: str, work: list[Any], most: int) -> None:
    import aiohttp
    import orjson

    connector = aiohttp.TCPConnector(limit=most + 8)
    async with aiohttp.ClientSession(connector=connector) as session:

        async def ask(body: dict[str, Any]) -> None:
            headers = {"Content-Type": "application/json"}
            data = orjson.dumps(body)
            async with session.post(f"{url}/chat/completions", data=data, headers=headers) as said:
                orjson.loads(await said.read())

        await drive(ask, work, most)


def engine(judge: Judge, count: int, start: int) -> None:
    with JudgeSession(judge) as session:
        found = session.ask({RUBRIC.name: questions(count, start)})[RUBRIC.name]
    assert found["verdict"].null_count() == 0, found["error"].drop_nulls().head(1)
    assert found.height == count


def measured(work: Callable[[], Any], count: int) -> tuple[float, float]:
    """Calls a second, and milliseconds of this process's CPU a call."""
    began, cpu = time.perf_counter(), time.process_time()
    work()
    return count / (time.perf_counter() - began), 1000 * (time.process_time() - cpu) / count


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--calls", type=int, default=4_000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--concurrency", type=int, default=256)
    parser.add_argument("--queued", type=int, default=100_000)
    chosen = parser.parse_args()
    count, most = chosen.calls, chosen.concurrency
    with JudgeServer(delay=0.1, record=False) as server, tempfile.TemporaryDirectory() as folder:
        url = server.base_url

        def judge(cache: str | None) -> Judge:
            path = None if cache is None else Path(folder) / cache
            return Judge("m", base_url=url, concurrency=most, cache=path, progress=False)

        ways: dict[str, Callable[[list[Any], int], Any]] = {
            "SDK, default transport": lambda work, _: asyncio.run(
                sdk(url, work, most, aio=False, raw=False)
            ),
            "SDK, aiohttp transport": lambda work, _: asyncio.run(
                sdk(url, work, most, aio=True, raw=False)
            ),
            "SDK, aiohttp, raw response": lambda work, _: asyncio.run(
                sdk(url, work, most, aio=True, raw=True)
            ),
            "bare aiohttp": lambda work, _: asyncio.run(bare(url, work, most)),
            "this engine, no cache": lambda _, start: engine(judge(None), count, start),
            "this engine, cache on disk": lambda _, start: engine(judge("c.sqlite"), count, start),
        }
        best: dict[str, tuple[float, float]] = {}
        for turn in range(chosen.rounds):
            for at, (name, way) in enumerate(ways.items()):
                start = 10_000_000 * (turn * len(ways) + at + 1)
                work = bodies(judge(None), count, start) if "engine" not in name else []
                once = partial(way, work, start)
                rate, cpu = measured(once, count)
                if name not in best or rate > best[name][0]:
                    best[name] = rate, cpu
        base = best["SDK, aiohttp transport"][0]
        print(f"{count:,} calls, {most} in flight, 100 ms each, best of {chosen.rounds}")
        print(f"{'client':28} {'calls/s':>8} {'CPU ms':>7} {'to SDK+aiohttp':>15}")
        for name, (rate, cpu) in best.items():
            print(f"{name:28} {rate:8.0f} {cpu:7.2f} {rate / base:14.0%}")
        start = 10_000_000 * (chosen.rounds * len(ways))
        rate, _ = measured(lambda: engine(judge("c.sqlite"), count, start), count)
        print(f"all of them kept already: {rate:,.0f} verdicts/s")
        if chosen.queued:
            before = peak_mb()
            rate, _ = measured(
                lambda: engine(judge("queued.sqlite"), chosen.queued, 10_000_000_000), chosen.queued
            )
            print(
                f"{chosen.queued:,} queued: {rate:,.0f} calls/s, peak RSS {peak_mb():,.0f} MB "
                f"({before:,.0f} before)"
            )


if __name__ == "__main__":
    main()
