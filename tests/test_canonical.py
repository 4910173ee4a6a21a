"""One text for one value: what canonical JSON keeps apart and what it holds equal."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests import strategies as gen
from tests.oracle import json_equal
from uaef_frames.canonical import canonical_json, canonical_texts, loads, scrub


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"b": 1, "a": {"d": None, "c": True}}, '{"a":{"c":true,"d":null},"b":1}'),
        ([1.0, -0.0, 2.5, 1e22], "[1,0,2.5,10000000000000000000000]"),
        (10**30, "1" + "0" * 30),
        ("é – 検索", '"é – 検索"'),
        ({"n": float("nan"), "i": float("inf")}, '{"i":null,"n":null}'),
        ({1: "one"}, '{"1":"one"}'),
        ("\ud800x", '"\ufffdx"'),
        ("version 2.5", '"version 2.5"'),
        ((1, 2), "[1,2]"),
    ],
)
def test_it_is_written_so(value: object, text: str) -> None:
    assert canonical_json(value) == text


@given(gen.json_values, gen.json_values)
def test_equal_text_is_equal_value(one: Any, other: Any) -> None:
    assert (canonical_json(one) == canonical_json(other)) == json_equal(one, other)


@given(gen.json_values)
def test_reading_it_back_gives_the_value(value: Any) -> None:
    assert json_equal(json.loads(canonical_json(value)), value)


@example([{"a": -(2**63) - 1}])
@given(st.lists(gen.argument_objects, max_size=5))
def test_many_at_once_are_the_same_as_one_by_one(values: list[Any]) -> None:
    # orjson reads integers beyond 64 bits as floats, so both sides begin with what it read.
    texts = [json.dumps(v) for v in values]
    assert canonical_texts(texts) == [canonical_json(loads(t)) for t in texts]


def test_python_s_own_json_is_read_too() -> None:
    assert loads('{"a": NaN, "b": -Infinity}')["b"] == float("-inf")
    assert scrub(loads('"\\ud83d"')) == "\ufffd"
    with pytest.raises(ValueError, match=r"deeply|line 1"):
        loads("[" * 100_000)
