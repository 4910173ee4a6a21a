"""What the server answers when it behaves: a verdict that fits the request, and its spoilt
forms.
"""

from __future__ import annotations

import random
import re
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.judge_server.behaviour import Behaviour

_OUTPUT = re.compile(r"^- `([a-z_0-9]+)` \(([^)]*)\):", re.MULTILINE)
_HEADING = re.compile(r"^# (\S+)", re.MULTILINE)
_QUOTED = ("response", "reasoning", "exchange", "transcript", "conversation", "team")
_SPOKEN = ("assistant", "work")
_RANGE = re.compile(r"(number|integer) (?:from (-?[\d.]+) to (-?[\d.]+)|of at least (-?[\d.]+))")
_TAG = re.compile(r"<(/?)([a-z_]+)-([0-9a-f]+)(?: [^<>]*?)?(/?)>")
_WORDS = re.compile(r"\S+(?:[^\S\n]+\S+){0,7}")


class Field(NamedTuple):
    """A field that a verdict should have."""

    name: str
    kind: str
    low: float
    high: float | None


def texts_of(body: dict[str, Any]) -> tuple[str, str]:
    """System and user message of a request."""
    by_role = {m["role"]: m["content"] for m in body["messages"]}
    return by_role.get("system", ""), by_role.get("user", "")


def good_fields(body: dict[str, Any], behaviour: Behaviour) -> dict[str, Any]:
    """A valid verdict for a request."""
    system, user = texts_of(body)
    metric, described = _described(system)
    share = behaviour.scores_by_metric.get(metric)
    made: dict[str, Any] = {}
    for field in _asked(body) or described:
        if field.name == "quote":
            made["quote"] = quote_of(user)
        elif field.kind == "string":
            made[field.name] = "It was looked at closely."
        elif field.kind == "boolean":
            made[field.name] = True
        elif field.kind == "number":
            made[field.name] = _number(field, behaviour.score if share is None else share)
        else:
            made[field.name] = _integer(field, 0.75 if share is None else share)
    made |= {k: v for k, v in behaviour.fields.items() if k in made}
    for rule in behaviour.answers:
        if rule["if"] in user:
            made |= rule["then"]
    return made


def _number(field: Field, share: float) -> float:
    if field.high is None or (field.low, field.high) == (0, 1):
        return share
    return field.low + (field.high - field.low) * share


def _integer(field: Field, share: float) -> int:
    if field.high is None:
        return int(max(field.low, 1))
    return int(field.low + (field.high - field.low) * share + 0.5)


def _asked(body: dict[str, Any]) -> list[Field]:
    """The fields of the schema that came with the request."""
    wanted = body.get("response_format") or {}
    schema = (wanted.get("json_schema") or {}).get("schema") or wanted.get("schema")
    found: list[Field] = []
    for name, rule in (schema or {"properties": {}})["properties"].items():
        kind = rule.get("type")
        if kind is None:
            rule = next(r for r in rule["anyOf"] if r.get("type") != "null")
            kind = rule["type"]
        if not isinstance(kind, str):
            kind = next(k for k in kind if k != "null")
        found.append(Field(name, kind, rule.get("minimum", 0), rule.get("maximum")))
    return found


@lru_cache(maxsize=256)
def _described(system: str) -> tuple[str, list[Field]]:
    """The metric and the fields that the system message names."""
    heading = _HEADING.search(system)
    found: list[Field] = []
    for name, words in _OUTPUT.findall(system.split("## Output")[-1]):
        bounds = _RANGE.match(words)
        if bounds:
            low = float(bounds[2] or bounds[4] or 0)
            found.append(Field(name, bounds[1], low, float(bounds[3]) if bounds[3] else None))
        else:
            kind = "boolean" if words.startswith("true") else "string"
            found.append(Field(name, kind, 0, None))
    return heading[1] if heading else "", found


def quote_of(user: str) -> str:
    """A few words of what is judged."""
    tags = list(_TAG.finditer(user))
    for name in _QUOTED:
        for at, tag in enumerate(tags):
            if tag[2] == name and not tag[1] and not tag[4]:
                texts = list(_innermost(user, tags[at:]))
                spoken = [text for inner, text in texts if inner in _SPOKEN]
                for text in spoken or [text for _, text in texts]:
                    found = _WORDS.search(text)
                    if found:
                        return found[0][:200].rstrip()
                break
    return "nothing"


def _innermost(user: str, tags: list[re.Match[str]]) -> Iterator[tuple[str, str]]:
    """Names and texts of the elements without elements in the first one of these."""
    name, nonce = tags[0][2], tags[0][3]
    inner, start = name, tags[0].end()
    for tag in tags[1:]:
        if tag[3] != nonce:
            continue
        if inner and (tag[1] or tag[4]) and user[start : tag.start()].strip():
            yield inner, user[start : tag.start()]
        if tag[1] and tag[2] == name:
            return
        if not tag[4]:
            inner = "" if tag[1] else tag[2]
        start = tag.end()


def completion(
    body: dict[str, Any], content: Any, behaviour: Behaviour, number: int, **message: Any
) -> dict[str, Any]:
    """A chat.completion object."""
    system, user = texts_of(body)
    finish = message.pop("finish_reason", "stop")
    prompt = (len(system) + len(user)) // 4
    written = len(content or "") // 4 + 1
    return {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion",
        "created": 1_796_000_000,
        "model": behaviour.served_model or f"{body['model']}-2026-11-01",
        "system_fingerprint": "fp_test",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": content, "refusal": None, **message},
                "finish_reason": finish,
                "logprobs": None,
            }
        ],
        "usage": {
            "prompt_tokens": prompt,
            "completion_tokens": written,
            "total_tokens": prompt + written,
            "prompt_tokens_details": {"cached_tokens": len(system) // 4},
        },
    }


def spoilt(kind: str, body: dict[str, Any], behaviour: Behaviour, number: int) -> dict[str, Any]:
    """An answer of status 200 that is a valid completion without a valid verdict."""
    fields = good_fields(body, behaviour)
    numbers = [
        k for k, v in fields.items() if isinstance(v, int | float) and not isinstance(v, bool)
    ]
    first = numbers[0] if numbers else "score"
    text = orjson.dumps(fields).decode()
    message: dict[str, Any] = {}
    content: Any = text
    if kind == "malformed":
        content = "There are 5 reasons why this is a 9 out of 10."
    elif kind == "null_content":
        content = None
    elif kind == "refusal":
        content, message = None, {"refusal": "I cannot judge this."}
    elif kind == "content_filter":
        content, message = "", {"finish_reason": "content_filter"}
    elif kind == "length":
        content, message = text[: len(text) // 2], {"finish_reason": "length"}
    elif kind == "wrong_schema":
        content = orjson.dumps(fields | {first: "very good"}).decode()
    elif kind == "out_of_range":
        # Below, as "at least A" has no other side.
        content = orjson.dumps(fields | {first: -1_000_000}).decode()
    elif kind == "nan":
        content = re.sub(rf'"{first}":[^,}}]+', f'"{first}":NaN', text)
    elif kind == "missing_score":
        content = orjson.dumps({k: v for k, v in fields.items() if k != first}).decode()
    elif kind == "surrogate":
        content = text.replace("It was looked at", "It was \\ud800 looked at")
    elif kind == "parts":
        content = [{"type": "text", "text": text[:9]}, {"type": "text", "text": text[9:]}]
    elif kind == "fenced":
        content = f"```json\n{text}\n```"
    elif kind == "wrapped":
        content = f"Here is my verdict:\n{text}\nThank you."
    elif kind == "false_quote":
        content = orjson.dumps(fields | {"quote": "words that nobody said"}).decode()
    elif kind == "no_quote":
        content = orjson.dumps(fields | {"quote": ""}).decode()
    found = completion(body, content, behaviour, number, **message)
    if kind == "no_choices":
        found["choices"] = []
    return found


def error_object(
    words: str,
    kind: str = "invalid_request_error",
    code: str | None = None,
    param: str | None = None,
) -> dict[str, Any]:
    """An error as OpenAI writes it."""
    return {"error": {"message": words, "type": kind, "param": param, "code": code}}


def draw(faults: dict[str, float], seed: int, body: bytes, seen: int) -> str | None:
    """The fault of the `seen`-th request with this body, the same in every run."""
    if not faults:
        return None
    dice = random.Random(f"{seed}:{body.hex()}:{seen}").random()
    for name, share in faults.items():
        dice -= share
        if dice < 0:
            return name
    return None


def hash_of(body: bytes) -> bytes:
    """A short name of a body."""
    return blake2b(body, digest_size=16).digest()
