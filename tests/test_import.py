"""Importing the package is cheap, and inside it imports run one way: downward."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import uaef_frames

PACKAGE = Path(uaef_frames.__file__).parent
LATE = [
    "altair",
    "duckdb",
    "great_tables",
    "langchain",
    "langchain_core",
    "langgraph",
    "openai",
    "pandas",
    "pyarrow",
    "rich",
    "scipy",
    "typer",
    "zstandard",
]
"""What is loaded on first use; none of it when the package is imported."""
MEASURE = """
import json, sys, time
began = time.perf_counter()
import uaef_frames
took = time.perf_counter() - began
print(json.dumps([took, sorted({name.partition(".")[0] for name in sys.modules})]))
"""


def imported() -> tuple[float, set[str]]:
    """Seconds that the import takes in a fresh interpreter, and the top-level modules after it."""
    done = subprocess.run([sys.executable, "-c", MEASURE], capture_output=True, check=True)
    took, modules = json.loads(done.stdout)
    return took, set(modules)


def test_importing_loads_nothing_that_is_not_needed() -> None:
    assert imported()[1].isdisjoint(LATE)


def test_importing_takes_less_than_half_a_second() -> None:
    limit, best = 0.5, float("inf")
    for _ in range(5):
        best = min(best, imported()[0])
        if best < limit:
            return
    pytest.fail(f"the best of five imports took {best:.2f} s")


def names() -> dict[str, Path]:
    """Every module of the package by its dotted name, without the package's own."""
    found: dict[str, Path] = {}
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(path: Path, known: set[str]) -> set[str]:
    """The package's modules that a file imports: at its top, in functions and for types only."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            whole = [f"{node.module}.{alias.name}" for alias in node.names]
            inner = [name.removeprefix("uaef_frames.") in known for name in whole]
            targets = [w if i else str(node.module) for w, i in zip(whole, inner, strict=True)]
        else:
            continue
        found |= {t.removeprefix("uaef_frames").lstrip(".") for t in targets if _is_ours(t)}
    return found


def _is_ours(target: str) -> bool:
    return target == "uaef_frames" or target.startswith("uaef_frames.")


@pytest.fixture(scope="module")
def graph() -> dict[str, set[str]]:
    known = names()
    return {name: imports(path, set(known)) for name, path in known.items()}


def test_no_module_imports_itself_by_a_detour(graph: dict[str, set[str]]) -> None:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"a circle of imports: {' -> '.join(error.args[1])}")


def test_no_module_imports_the_package_s_face(graph: dict[str, set[str]]) -> None:
    assert [name for name, targets in graph.items() if "" in targets] == []


def under(name: str, *rooms: str) -> bool:
    return any(name == room or name.startswith(f"{room}.") for room in rooms)


GROUND = ("arrow", "canonical", "errors", "files", "version")
"""What any room may stand on: no room of its own."""
ROWS = ("models", "schemas", "schema_sets", "rows", "table_set", "traces")
MAY = {
    "arrow": (),
    "canonical": (),
    "errors": (),
    "files": ("arrow", "errors"),
    "version": (),
    "models": (),
    "schemas": (),
    "judge": ("judge", "schemas", *GROUND),
    # A judge metric is a rubric and what it shows: both are the judge's words.
    "metrics": ("metrics", "judge", "schemas", *GROUND),
    "terminal": (),
    # Draws frames; that they come from a run is not its business.
    "look": ("look", "terminal", *GROUND),
    # Labels of people are sheets, read on the scale that their metric declares.
    "store": (
        "store",
        "look",
        "metrics",
        "judge",
        "schemas",
        "conversations",
        "expectations",
        "sheets",
        *GROUND,
    ),
    "conversations": (*ROWS, *GROUND),
    "expectations": (*ROWS, *GROUND),
    "adapters": ("adapters", "conversations", *ROWS, *GROUND),
    "sheets": ("sheets", "expectations", *ROWS, *GROUND),
    "ground_truth": ("adapters", "expectations", *ROWS, *GROUND),
    "ground_truth_bulk": ("adapters", "expectations", *ROWS, *GROUND),
    "ground_truth_files": (
        "adapters",
        "expectations",
        "ground_truth",
        "ground_truth_bulk",
        "sheets",
        *ROWS,
        *GROUND,
    ),
}
"""What each room may import; a room that is not listed may import anything below it."""
NEVER = {
    "evaluation": ("store", "dataset", "cli", "api", "ground_truth_files"),
    "api": ("store", "dataset", "cli"),
    "dataset": ("cli", "api"),
}


@pytest.mark.parametrize("room", MAY)
def test_a_room_imports_only_what_stands_below_it(graph: dict[str, set[str]], room: str) -> None:
    mine = {name: targets for name, targets in graph.items() if under(name, room)}
    assert mine
    for name, targets in mine.items():
        assert {t for t in targets if not under(t, *MAY[room])} == set(), name


@pytest.mark.parametrize("room", NEVER)
def test_a_room_never_imports_what_stands_above_it(graph: dict[str, set[str]], room: str) -> None:
    mine = {name: targets for name, targets in graph.items() if under(name, room)}
    assert mine
    for name, targets in mine.items():
        assert {t for t in targets if under(t, *NEVER[room])} == set(), name


def test_only_the_entry_point_imports_the_command_line(graph: dict[str, set[str]]) -> None:
    assert [name for name, targets in graph.items() if "cli" in targets] == ["__main__"]
