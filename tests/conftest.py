"""What every test stands on: no judge from the environment, and a verdict cache of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.judge_server import JudgeServer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_VARIABLES = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "UAEF_JUDGE_MODEL")


@pytest.fixture(autouse=True)
def _no_judge_of_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in _VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("UAEF_JUDGE_CACHE", str(tmp_path / "verdicts.sqlite"))


@pytest.fixture(scope="session")
def _one_server() -> Iterator[JudgeServer]:
    with JudgeServer() as server:
        yield server


@pytest.fixture
def server(_one_server: JudgeServer) -> JudgeServer:
    """A judge's endpoint that behaves, until the test asks for something else."""
    _one_server.set()
    _one_server.reset()
    return _one_server
