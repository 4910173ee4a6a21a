"""What `uaef_frames` exports: each name once, loaded on first use, and known to type checkers."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import uaef_frames


def test_every_public_name_loads() -> None:
    for name in uaef_frames.__all__:
        assert getattr(uaef_frames, name) is not None
    assert set(uaef_frames.__all__) <= set(dir(uaef_frames))


def test_the_three_lists_of_names_agree() -> None:
    tree = ast.parse(Path(uaef_frames.__file__).read_text(encoding="utf-8"))
    typed = {
        (node.module, alias.name)
        for block in tree.body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    loaded = {(module, name) for name, module in uaef_frames._HOME.items()}
    assert typed == loaded
    assert {name for _, name in loaded} == set(uaef_frames.__all__)


def test_rooms_are_there_and_nothing_else() -> None:
    assert uaef_frames.models.GroundTruth is uaef_frames.GroundTruth
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = uaef_frames.nothing
