"""A judge's endpoint for tests: an OpenAI-compatible server in its own process, and the handle to
it.
"""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import TracebackType

_ROOT = Path(__file__).parents[2]


class JudgeServer:
    """Starts the server and talks to its control door. Keywords are those of `Behaviour`."""

    def __init__(self, **behaviour: Any) -> None:
        self._behaviour = behaviour
        self._process: subprocess.Popen[str] | None = None
        self.port = 0

    def __enter__(self) -> JudgeServer:
        self._start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def _start(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.judge_server", "--port", str(self.port)],
            cwd=_ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self.kill()
            raise RuntimeError("the server did not start; its error stands above")
        self.port = json.loads(line)["port"]
        self._control("set", self._behaviour)

    def set(self, **behaviour: Any) -> None:
        """Replace the behaviour whole."""
        self._behaviour = behaviour
        self._control("set", behaviour)

    def reset(self) -> None:
        """Forget what was asked; the behaviour stays."""
        self._control("reset", {})

    def counts(self) -> dict[str, Any]:
        return self._control("counts", {})

    def requests(self, limit: int | None = None) -> list[dict[str, Any]]:
        return self._control("requests", {} if limit is None else {"limit": limit})

    def duplicates(self) -> int:
        """Billed requests whose body had been billed before."""
        return self.counts()["duplicates"]

    def kill(self) -> None:
        """Kill it hard."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            if self._process.stdout is not None:
                self._process.stdout.close()
            self._process = None

    def restart(self) -> None:
        """Start anew on the same port with the same behaviour."""
        self.kill()
        self._start()

    def _control(self, what: str, given: dict[str, Any]) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request("POST", f"/_control/{what}", json.dumps(given))
            response = connection.getresponse()
            text = response.read()
            if response.status != 200:
                raise RuntimeError(f"{what}: {response.status} {text[:500]!r}")
            return json.loads(text)
        finally:
            connection.close()
