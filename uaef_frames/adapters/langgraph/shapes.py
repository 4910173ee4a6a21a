"""Tells plain shapes apart (mappings, sequences, live objects) and describes them for error texts.

It must not know what any of them means.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

from uaef_frames.canonical import scrub

Fields = Mapping[str, Any]


def is_fields(value: object) -> TypeGuard[Fields]:
    """Whether a value is a mapping; its keys are looked up, not trusted to be text."""
    return type(value) is dict or isinstance(value, Mapping)


def is_items(value: object) -> TypeGuard[Sequence[Any]]:
    """Whether a value is a list or a tuple, which JSON does not tell apart."""
    return isinstance(value, list | tuple)


def attributes(value: object) -> dict[str, Any] | None:
    """The fields of a live object by name, without copying them; None for plain values."""
    if isinstance(value, str | bytes | int | float | list | tuple | Mapping | type):
        return None
    try:
        return vars(value)
    except TypeError:
        return None


def describe(value: object) -> str:
    """What a value looks like, short enough for an error message."""
    if is_fields(value):
        keys = [scrub(str(key)[:40]) for key in list(value)[:6]]
        return f"a mapping with keys {', '.join(keys)}" if keys else "an empty mapping"
    if isinstance(value, str):
        return f"the text {scrub(value[:60])!r}"
    if is_items(value):
        inside = ", ".join(type(item).__name__ for item in value[:4])
        return f"a {type(value).__name__} of {len(value)} ({inside})"
    if isinstance(value, bool | int | float) or value is None:
        return repr(value)[:40]
    return f"a {type(value).__name__}"
