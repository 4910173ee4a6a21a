"""JSON as this package compares and stores it: one text for one value.

Keys sorted, no spaces, integral floats written as integers, text as it is. Nothing here knows what
the values mean.
"""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any, cast

import orjson

if TYPE_CHECKING:
    from collections.abc import Iterable

_MAYBE_FLOAT = re.compile(rb"[0-9][.eE]")
_READ_AS_FLOAT = re.compile(rb"[0-9][.eE]|[0-9]{19}")  # integers beyond 64 bits are read as floats
_LONG_NUMBER = re.compile(r"[0-9]{19}")
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_SORTED = orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS


def canonical_json(value: object) -> str:
    """The canonical JSON text of a value made of JSON types.

    Two values have the same text exactly when they are equal as JSON: objects regardless of key
    order, numbers by value (1 equals 1.0), a boolean never a number, text never a number.
    Lone surrogates become U+FFFD; NaN and infinities, which JSON does not have, become null.
    Values of other types are written as their `str`.
    """
    try:
        text = orjson.dumps(value, option=_SORTED)
    except TypeError:  # an integer beyond 64 bits, a lone surrogate, a type that JSON does not have
        return _dump_slowly(_plain(value))
    # Only a float prints a point or an exponent after a digit; a text without one has no float to
    # rewrite. (Such a pair inside quotes costs a needless walk, not a wrong answer.)
    if _MAYBE_FLOAT.search(text):
        plain = _plain(value)
        try:
            return orjson.dumps(plain, option=_SORTED).decode()
        except TypeError:
            return _dump_slowly(plain)
    return text.decode()


def canonical_texts(texts: Iterable[str]) -> list[str]:
    """`canonical_json` of many JSON texts, which are known to be JSON."""
    loads_one, dumps_one = orjson.loads, orjson.dumps
    given = list(texts)
    if _READ_AS_FLOAT.search("\n".join(given).encode("utf-8", "surrogatepass")):
        return [canonical_json(loads_one(text)) for text in given]
    return [dumps_one(loads_one(text), option=_SORTED).decode() for text in given]


def scrub(text: str) -> str:
    """The text with lone surrogates, which no table can hold, as U+FFFD."""
    return text if text.isascii() else _LONE_SURROGATE.sub("\ufffd", text)


def loads(text: str | bytes) -> Any:
    """Parse JSON, Python's NaN and Infinity and lone surrogates included.

    Raises:
        ValueError: The text is not JSON.
    """
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        try:
            return json.loads(text)
        except RecursionError as error:
            raise ValueError("nested too deeply") from error


def loads_exactly(text: str) -> Any:
    """Parse JSON whose integers may be beyond 64 bits; orjson would read those as floats."""
    return json.loads(text) if _LONG_NUMBER.search(text) else orjson.loads(text)


def _dump_slowly(plain: object) -> str:
    return json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _plain(value: object) -> object:
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        return int(value) if value.is_integer() else value
    if isinstance(value, str):
        return scrub(value)
    if isinstance(value, dict):
        pairs = cast("dict[object, object]", value)
        return {scrub(k if isinstance(k, str) else str(k)): _plain(v) for k, v in pairs.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in cast("list[object]", value)]
    return scrub(str(value))
