"""Every notebook runs from top to bottom on the shipped data, within a minute, and is kept without
outputs.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.judge_server import JudgeServer

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
LIMIT_S = 60
JUDGED = {"04_your_own_metrics", "07_judging_at_scale", "08_can_i_trust_my_judge"}
PICTURES = {
    "00_quickstart",
    "03_multi_agent",
    "04_your_own_metrics",
    "05_sql_over_results",
    "06_two_agents_compared",
    "08_can_i_trust_my_judge",
}


def cells(path: Path) -> list[dict[str, Any]]:
    return json.loads(path.read_text("utf-8"))["cells"]


def test_there_is_a_notebook_for_each_subject() -> None:
    assert [p.stem[:2] for p in NOTEBOOKS] == [f"{n:02}" for n in range(9)]
    assert {p.stem for p in NOTEBOOKS} >= JUDGED | PICTURES


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_a_notebook_says_what_the_reader_will_learn_and_keeps_no_output(path: Path) -> None:
    first, *rest = cells(path)
    assert first["cell_type"] == "markdown"
    assert "You will learn" in "".join(first["source"])
    code = [c for c in rest if c["cell_type"] == "code"]
    assert code
    assert [c for c in code if c["outputs"] or c["execution_count"] is not None] == []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_a_notebook_runs_from_top_to_bottom(
    path: Path, tmp_path: Path, server: JudgeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    import nbformat
    from nbclient import NotebookClient

    folder = tmp_path / "notebooks"
    folder.mkdir()
    shutil.copytree(ROOT / "data", tmp_path / "data")
    if path.stem in JUDGED:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-of-a-notebook")
    # The kernel's own debugger and temporary files must not reach for the network or the home.
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT)]))
    notebook = nbformat.read(path, as_version=4)
    began = time.perf_counter()
    client = NotebookClient(
        notebook, timeout=LIMIT_S, resources={"metadata": {"path": str(folder)}}
    )
    client.execute()
    took = time.perf_counter() - began
    outputs = [o for c in notebook.cells if c.cell_type == "code" for o in c.outputs]
    shown = json.dumps(outputs)
    assert took < LIMIT_S, f"{path.stem} took {took:.0f} s"
    assert "sk-of-a-notebook" not in shown
    errors = [o["text"] for o in outputs if o.get("name") == "stderr"]
    assert errors == []
    kinds = {kind for o in outputs for kind in o.get("data", {})}
    assert "text/html" in kinds
    assert any("vega" in json.dumps(o.get("data", {})) for o in outputs) == (path.stem in PICTURES)
    if path.stem in JUDGED:
        assert server.counts()["total"] > 0
