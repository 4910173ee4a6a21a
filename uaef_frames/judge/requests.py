"""Requests: what is asked of the model, as one body, and the key under which its answer is kept.

The key is made from what may change a verdict (endpoint, model, messages, schema, sampling, vote)
and from nothing else: not from the key of the account, the pace, or how the endpoint wants its
schema.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Literal

import orjson

from uaef_frames.judge.prompts import with_nonce

if TYPE_CHECKING:
    from uaef_frames.judge.config import Judge
    from uaef_frames.judge.rubrics import Rubric

_KEY_VERSION = 1

Rung = Literal["json_schema", "json_object_schema", "json_object", "text"]
RUNGS: tuple[Rung, ...] = ("json_schema", "json_object_schema", "json_object", "text")
"""How a verdict's form can be asked for, the strictest first."""


@dataclass(slots=True)
class Capabilities:
    """What an endpoint's model understands, as far as the run has found out.

    Attributes:
        rung: The strictest form that has not been refused.
        proven: Whether an answer has come in that form.
        dropped: Parameters that it refuses, and that are not sent any more.
        limit_name: What it calls the limit on the tokens of an answer.
    """

    rung: int = 0
    proven: bool = False
    dropped: set[str] = field(default_factory=set[str])
    limit_name: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"


class Request:
    """One question to the model: the same for the same material, rubric, model and parameters."""

    __slots__ = ("_judge", "key", "nonce", "rubric", "user", "vote")

    def __init__(
        self, judge: Judge, rubric: Rubric, prepared: str, vote: int, prefix: bytes
    ) -> None:
        self.user, self.nonce = with_nonce(prepared)
        self.rubric = rubric
        self.vote = vote
        self._judge = judge
        digest = sha256(prefix)
        digest.update(b"%d\0" % vote)
        digest.update(self.user.encode("utf-8", "replace"))
        self.key = digest.digest()

    def body(self, can: Capabilities, max_tokens: int) -> dict[str, Any]:
        """The body of the request, in the form that the endpoint understands."""
        judge = self._judge
        made: dict[str, Any] = {
            "model": judge.model,
            "messages": [
                {"role": "system", "content": self.rubric.system},
                {"role": "user", "content": self.user},
            ],
        }
        seed = None if judge.seed is None else judge.seed + self.vote
        optional = {"temperature": judge.temperature, "seed": seed, can.limit_name: max_tokens}
        made |= {k: v for k, v in optional.items() if v is not None and k not in can.dropped}
        wanted = _response_format(RUNGS[can.rung], self.rubric)
        if wanted is not None:
            made["response_format"] = wanted
        extra = {k: v for k, v in (judge.extra_body or {}).items() if k not in can.dropped}
        return made | extra


def key_prefix(judge: Judge, rubric: Rubric) -> bytes:
    """What the keys of one rubric's requests have in common."""
    stable = {
        "v": _KEY_VERSION,
        "endpoint": judge.origin,
        "model": judge.model,
        "system": rubric.system,
        "schema": rubric.schema,
        "rubric": rubric.version,
        "temperature": judge.temperature,
        "max_tokens": judge.max_tokens,
        "seed": judge.seed,
        "extra": dict(judge.extra_body or {}),
    }
    return sha256(orjson.dumps(stable, option=orjson.OPT_SORT_KEYS, default=str)).digest()


def _response_format(rung: Rung, rubric: Rubric) -> dict[str, Any] | None:
    if rung == "json_schema":
        schema = {"name": "verdict", "strict": True, "schema": rubric.schema}
        return {"type": "json_schema", "json_schema": schema}
    if rung == "json_object_schema":
        return {"type": "json_object", "schema": rubric.schema}
    return {"type": "json_object"} if rung == "json_object" else None
