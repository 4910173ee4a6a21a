"""Every SQL example that users read runs, over runs of the shipped conversations."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.helpers import shipped_run
from uaef_frames import open_store

if TYPE_CHECKING:
    from uaef_frames import Store

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "data").glob("*.md")])


def examples(text: str) -> list[str]:
    """SQL in its own blocks, in `.sql("…")` of Python blocks, and at the command line."""
    found: list[str] = []
    for block in re.findall(r"```sql\n(.*?)```", text, re.S):
        plain = re.sub(r"^--.*$", "", block, flags=re.M)
        found += [statement.strip() for statement in plain.split(";") if statement.strip()]
    for block in re.findall(r"```python\n(.*?)```", text, re.S):
        found += re.findall(r"""\.sql\(\s*f?"{1,3}(.*?)"{1,3}\s*\)""", block, re.S)
    for line in re.findall(r"^    uaef-frames (?:runs )?sql .*$", text, re.M):
        found.append(shlex.split(line)[-1])
    return found


_SHAPES = {"select ..."}
"""What stands for any query."""
EXAMPLES = [
    (p.name, sql) for p in PAGES for sql in examples(p.read_text("utf-8")) if sql not in _SHAPES
]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    out = tmp_path_factory.mktemp("runs")
    for agent in ("booking", "booking_careless"):
        shipped_run(agent, out)
    return open_store(out)


def test_the_examples_are_found() -> None:
    assert len([sql for page, sql in EXAMPLES if page == "README.md"]) >= 6


@pytest.mark.parametrize(("page", "sql"), EXAMPLES)
def test_an_example_runs_over_a_store_and_over_a_run(store: Store, page: str, sql: str) -> None:
    over_all = store.sql(sql)
    assert over_all.width > 0
    assert store.run("latest").sql(sql).columns == over_all.columns


def test_the_example_on_tools_that_nobody_expected_finds_some(store: Store) -> None:
    sql = next(s for _, s in EXAMPLES if "not expected" in s)
    assert store.run("latest").sql(sql).height > 0
    confused = next(s for _, s in EXAMPLES if "from tool_confusion" in s)
    assert store.sql(confused).height > 0
