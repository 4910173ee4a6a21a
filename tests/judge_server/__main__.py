"""`python -m tests.judge_server --port 0`: serve until killed, or until who started it is gone."""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import socket

from aiohttp import web

from tests.judge_server.behaviour import Behaviour
from tests.judge_server.server import application


async def _serve(port: int, delay: float) -> None:
    # Asked before the port is printed: a parent that dies earlier leaves a broken pipe behind.
    parent = os.getppid()
    runner = web.AppRunner(application(Behaviour(delay=delay)), access_log=None)
    await runner.setup()
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind(("127.0.0.1", port))
    listening.listen(2048)
    await web.SockSite(runner, listening, backlog=2048).start()
    print(json.dumps({"port": listening.getsockname()[1]}), flush=True)  # noqa: T201
    while os.getppid() == parent:
        await asyncio.sleep(1.0)


def main() -> None:
    """Parse and serve."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--delay", type=float, default=0.0)
    arguments = parser.parse_args()
    logging.disable(logging.CRITICAL)
    asyncio.run(_serve(arguments.port, arguments.delay))


if __name__ == "__main__":
    main()
