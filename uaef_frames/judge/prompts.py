"""Prompts as columns: hostile text made safe to show, put between tags, cut to a budget.

Text of agents and users only ever stands between tags that carry a nonce. The nonce comes from the
content itself, so that the same content makes the same request; until the content is whole, `MARK`
stands for it, a character that no material can contain.
"""

from __future__ import annotations

import re
from hashlib import sha256

import polars as pl

from uaef_frames.judge.tokens import token_estimate

MARK = "\ue0f0"
"""Where the nonce will stand. Private use; taken out of all material."""

_LESS_THAN = "<＜﹤‹〈〈⟨❬❰⧼᚜ᐸ˂«《⟪⪡≪‹"
_INVISIBLE = r"[\p{Cf}\p{Mn}\p{Me}]*"
_BLANK = r"[\s\p{Cf}\p{Mn}\p{Me}]"
_TAG_LIKE = (
    rf"[{_LESS_THAN}]({_INVISIBLE}[\p{{L}}_]"
    rf"|{_BLANK}*[/!?|｜∕⁄／\\_]"
    rf"|{_BLANK}+[\p{{L}}_]+{_BLANK}*(?:[-–—]{_BLANK}*[0-9a-fA-F]+{_BLANK}*)?[/>＞])"
)
"""An opening bracket, or one that looks like it, before what would make it a tag or a template's
token: a letter, a slash or bar with anything unseen between, or blanks and a lone word or name with
a nonce that `>` follows. "if a < b" is left alone."""
_TEMPLATE = r"(?i)\[(\s*/?\s*(?:INST|SYS|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS)\b)"
_FORBIDDEN = (
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\x{202a}-\x{202e}\x{2066}-\x{2069}"
    r"\x{e000}-\x{f8ff}\x{e0000}-\x{e007f}\x{f0000}-\x{10ffff}]"
)
"""Controls, directions that reorder what is seen, private use, and invisible twins of ASCII."""
_REPLACEMENT = "\ufffd"
_OUR_TAG = re.compile(r"</?[a-z_]+-[0-9a-f]{16}[^>]*>")
"""Only we can have written one: safe text has no bracket before a letter."""


def safe(text: pl.Expr) -> pl.Expr:
    """Text that cannot end or open a tag, imitate a chat template, or hide from the eye.

    Brackets that would begin a tag become `[`, invisible orders become U+FFFD, line ends become LF.
    """
    return (
        text.str.replace_all("\r\n", "\n", literal=True)
        .str.replace_all("\r", "\n", literal=True)
        .str.replace_all(_FORBIDDEN, _REPLACEMENT)
        .str.replace_all(_TEMPLATE, "($1")
        .str.replace_all(_TAG_LIKE, "[$1")
    )


def attribute(text: pl.Expr) -> pl.Expr:
    """Text safe within the quotes of a tag's attribute, at most 100 characters."""
    return safe(text).str.replace_all(r'["<>\n\[\]]', "_").str.slice(0, 100)


def tagged(name: str, text: pl.Expr, attributes: pl.Expr | None = None) -> pl.Expr:
    """Safe text between tags; null stays null."""
    if attributes is None:
        return pl.format(f"<{name}-{MARK}>\n{{}}\n</{name}-{MARK}>", text)
    return pl.format(f"<{name}-{MARK} {{}}>\n{{}}\n</{name}-{MARK}>", attributes, text)


def elided(what: str, count: pl.Expr) -> pl.Expr:
    """The mark for what was left out."""
    return pl.format(f'<elided-{MARK} {what}="{{}}"/>', count)


def cut(text: pl.Expr, tokens: pl.Expr | int) -> pl.Expr:
    """Safe text within a number of tokens: the middle of a longer one gives way to a mark."""
    size = token_estimate(text)
    limit = pl.lit(tokens) if isinstance(tokens, int) else tokens
    length = text.str.len_chars().cast(pl.Int64)
    kept = (length * limit / pl.max_horizontal(size, pl.lit(1))).floor().cast(pl.Int64)
    half = pl.max_horizontal(kept // 2, pl.lit(1))
    shortened = pl.format(
        "{}\n{}\n{}",
        text.str.head(half),
        elided("characters", length - 2 * half),
        text.str.tail(half),
    )
    return pl.when((size > limit) & (length > 2 * half)).then(shortened).otherwise(text)


def characters_cut(before: pl.Expr, after: pl.Expr) -> pl.Expr:
    """How many characters a cut left out, 0 for none."""
    missing = before.str.len_chars().cast(pl.Int64) - after.str.len_chars().cast(pl.Int64)
    return pl.when(missing > 0).then(missing).otherwise(0)


def with_nonce(text: str) -> tuple[str, str]:
    """A request's user message with its nonce in place, and the nonce: 16 hex digits of SHA-256."""
    nonce = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return text.replace(MARK, nonce), nonce


def quotable(user: str, nonce: str, sections: tuple[str, ...]) -> str:
    """The text that a verdict may quote: what stands in those sections, tags aside, folded."""
    parts: list[str] = []
    for name in sections:
        opening, closing = f"<{name}-{nonce}", f"</{name}-{nonce}>"
        start = user.find(opening)
        end = user.rfind(closing)
        if start >= 0 and end > start:
            parts.append(user[user.index(">", start) + 1 : end])
    return folded(_OUR_TAG.sub(" ", "\n".join(parts)))


def folded(text: str) -> str:
    """Text without case and white space that differs, for comparing quotes."""
    return " ".join(text.split()).casefold()
