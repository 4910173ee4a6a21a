"""What the server answers when it behaves: a verdict that fits the request, and its spoilt
forms.
"""

from __future__ import annotations

import random
import re
from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from tests.judge_server.behaviour import Behaviour

_OUTPUT = re.compile(r"^- `([a-z_0-9]+)` \(([^)]*)\):", re.MULTILINE)
_QUOTED = ("response", "reasoning", "exchange", "transcript", "conversation", "team")
_RANGE = re.compile(r"(number|integer) (?:from (-?[\d.]+) to (-?[\d.]+)|of at least (-?[\d.]+))")


def texts_of(body: dict[str, Any]) -> tuple[str, str]:
    """System and user message of a request."""
    by_role = {m["role"]: m["content"] for m in body["messages"]}
    return by_role.get("system", ""), by_role.get("user", "")


def good_fields(body: dict[str, Any], behaviour: Behaviour) -> dict[str, Any]:
    """A valid verdict for a request."""
    system, user = texts_of(body)
    heading = re.search(r"^# (\S+)", system, re.MULTILINE)
    metric = heading[1] if heading else ""
    made: dict[str, Any] = {}
    for name, kind, low, high in _fields(body, system):
        if name == "quote":
            made[name] = quote_of(user)
        elif kind == "string":
            made[name] = "It was looked at closely."
        elif kind == "boolean":
            made[name] = True
        elif kind == "number":
            made[name] = behaviour.scores_by_metric.get(metric, behaviour.score)
        else:
            made[name] = _integer(low, high, behaviour.scores_by_metric.get(metric))
    made |= {k: v for k, v in behaviour.fields.items() if k in made}
    for rule in behaviour.answers:
        if rule["if"] in user:
            made |= rule["then"]
    return made


def _integer(low: float, high: float | None, share: float | None) -> int:
    if high is None:
        return int(max(low, 1))
    wanted = 0.75 if share is None else share
    return int(low + (high - low) * wanted + 0.5)


def _fields(body: dict[str, Any], system: str) -> list[tuple[str, str, float, float | None]]:
    wanted = body.get("response_format") or {}
    schema = (wanted.get("json_schema") or {}).get("schema") or wanted.get("schema")
    if schema:
        found = []
        for name, rule in schema["properties"].items():
            kind = rule["type"] if isinstance(rule["type"], str) else rule["type"][0]
            found.append((name, kind, rule.get("minimum", 0), rule.get("maximum")))
        return found
    found = []
    for name, words in _OUTPUT.findall(system.split("## Output")[-1]):
        bounds = _RANGE.match(words)
        if bounds:
            low = float(bounds[2] or bounds[4] or 0)
            found.append((name, bounds[1], low, float(bounds[3]) if bounds[3] else None))
        else:
            kind = "boolean" if words.startswith("true") else "string"
            found.append((name, kind, 0, None))
    return found


def quote_of(user: str) -> str:
    """A few words of what is judged."""
    for name in _QUOTED:
        opening = re.search(rf"<{name}-([0-9a-f]+)[^>]*>", user)
        if not opening:
            continue
        nonce = opening[1]
        inner = user[opening.end() : user.index(f"</{name}-{nonce}>")]
        said = re.search(rf"<(?:assistant|work)-{nonce}[^>]*>\n(.*?)\n</", inner, re.DOTALL)
        text = said[1] if said else inner
        plain = re.sub(rf"</?[a-z_]+-{nonce}[^>]*>", "\n", text)
        for line in plain.split("\n"):
            if line.strip():
                return " ".join(line.split()[:8])[:200]
    return "nothing"


def completion(
    body: dict[str, Any], content: str | None, behaviour: Behaviour, number: int, **message: Any
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
    numbers = [k for k, v in fields.items() if isinstance(v, int | float) and v is not True]
    first = numbers[0] if numbers else "score"
    text = orjson.dumps(fields).decode()
    message: dict[str, Any] = {}
    content: str | None = text
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
        content = orjson.dumps(fields | {first: 17}).decode()
    elif kind == "nan":
        content = re.sub(rf'"{first}":[^,}}]+', f'"{first}":NaN', text)
    elif kind == "missing_score":
        content = orjson.dumps({k: v for k, v in fields.items() if k != first}).decode()
    elif kind == "surrogate":
        content = text.replace("It was looked at", "It was \\ud800 looked at")
    elif kind == "parts":
        content = [{"type": "text", "text": text[:9]}, {"type": "text", "text": text[9:]}]  # type: ignore[assignment]
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


def draw(faults: dict[str, float], seed: int, body: bytes, seen: int) -> str | None:
    """The fault of the `seen`-th request with this body, the same in every run."""
    if not faults:
        return None
    dice = random.Random(f"{seed}:{hash_of(body)}:{seen}").random()
    for name, share in faults.items():
        dice -= share
        if dice < 0:
            return name
    return None


def hash_of(body: bytes) -> str:
    """A short name of a body."""
    import zlib

    return f"{zlib.crc32(body):08x}{len(body):x}"
