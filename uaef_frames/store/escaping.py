"""Text of others at the doors of reports: Markdown, XML, and GitHub's workflow commands."""

from __future__ import annotations

import re

_UNPRINTABLE = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff\u202a-\u202e\u2066-\u2069]"
)
_JOINER = "\u2060"
_LONGEST = 1_000
_BREAKS = re.compile("[\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
"""What some programs take for the end of a line, beside \\r and \\n."""


def markdown(text: str) -> str:
    """A text for a cell of a Markdown table: one line, nothing in it is markup, names nobody and
    links nowhere.
    """
    flat = " ".join(_UNPRINTABLE.sub("", _BREAKS.sub(" ", text[:_LONGEST])).split())
    plain = re.sub(r"([\\`*_{}\[\]<>|~$])", r"\\\1", flat.replace("&", "&amp;"))
    # A word joiner between parts them: neither a mention nor an address is seen.
    return (
        plain.replace("@", f"@{_JOINER}")
        .replace("://", f":{_JOINER}//")
        .replace("www.", f"www{_JOINER}.")
    )


def xml(text: str) -> str:
    """A text without the characters that XML cannot hold; `ElementTree` escapes the others."""
    return _UNPRINTABLE.sub("", text)


def command_data(text: str) -> str:
    """The message of a workflow command."""
    flat = _UNPRINTABLE.sub("", _BREAKS.sub(" ", text))
    return flat.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def command_property(text: str) -> str:
    """A property of a workflow command, such as its title."""
    return command_data(text).replace(":", "%3A").replace(",", "%2C")


def is_text(text: object) -> bool:
    """Whether it is a text that UTF-8 can hold: an argument of the shell may have other bytes."""
    if not isinstance(text, str):
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
