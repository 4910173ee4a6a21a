"""How payloads and ground truth met: which sessions have both, and where their turns differ."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

import polars as pl

if TYPE_CHECKING:
    from uaef_frames.conversations import Conversations
    from uaef_frames.expectations import Expectations

_NAMED = 100
"""Sessions of each kind that are named; all are counted."""


@dataclass(slots=True)
class JoinReport:
    """How a dataset's sessions met their ground truth.

    Attributes:
        matched: Sessions with payloads and ground truth.
        without_truth: Sessions with payloads alone; they are scored without.
        without_payloads: Sessions with ground truth alone; they are not scored.
        turns_differ: Matched sessions whose ground truth speaks of another number of turns.
        by_order: Matched sessions whose turn_ids do not agree, so that order counts.
        names: The first sessions of each kind, by its name; `turns_differ` as "id: 2 of 3 turns".
    """

    matched: int = 0
    without_truth: int = 0
    without_payloads: int = 0
    turns_differ: int = 0
    by_order: int = 0
    names: dict[str, list[str]] = field(default_factory=dict[str, list[str]])

    def add(self, conversations: Conversations, expectations: Expectations) -> None:
        """Take in a batch: whole sessions, and what is expected of them."""
        ours = conversations.turns.group_by("session_id", maintain_order=True).agg(
            turns=pl.len(), ids=pl.col("turn_id")
        )
        theirs = expectations.turn_expectations.group_by("session_id").agg(
            expected=pl.len(),
            expected_ids=pl.col("turn_id"),
            positional=pl.col("positional").any(),
        )
        there = expectations.session_expectations.select("session_id")
        met = ours.join(there, on="session_id", how="semi", maintain_order="left").join(
            theirs, on="session_id", how="left", maintain_order="left"
        )
        self.matched += met.height
        alone = ours.join(there, on="session_id", how="anti", maintain_order="left")
        self.without_truth += alone.height
        self._name("without_truth", alone["session_id"].to_list())
        differ = met.filter(pl.col("expected") != pl.col("turns"))
        self.turns_differ += differ.height
        self._name(
            "turns_differ",
            [f"{s}: ground truth of {e} turns, {t} in the payloads"
             for s, e, t in differ.select("session_id", "expected", "turns").head(_NAMED).rows()],
        )  # fmt: skip
        agree = pl.col("expected_ids").list.set_difference("ids").list.len() == 0
        ordered = met.filter(~pl.col("positional") & ~agree)
        self.by_order += ordered.height
        self._name("by_order", ordered["session_id"].to_list())

    def unmet(self, session_ids: pl.Series) -> None:
        """Take in the sessions of ground truth that have no payload."""
        self.without_payloads += len(session_ids)
        self._name("without_payloads", session_ids.head(_NAMED).to_list())

    def _name(self, kind: str, sessions: list[str]) -> None:
        held = self.names.setdefault(kind, [])
        held += sessions[: max(_NAMED - len(held), 0)]

    def to_json(self) -> str:
        """As it is stored with a run."""
        return json.dumps({name: getattr(self, name) for name in self.__slots__}, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> JoinReport:
        """As it was stored."""
        held: dict[str, Any] = json.loads(text)
        known = {f.name for f in fields(cls)}  # a later version may tell more
        return cls(**{k: v for k, v in held.items() if k in known})

    def __str__(self) -> str:
        parts = [f"ground truth: {self.matched} sessions matched"]
        for count, words in (
            (self.without_truth, "payloads without truth"),
            (self.without_payloads, "truth without payloads"),
            (self.turns_differ, "with another number of turns"),
            (self.by_order, "matched by the order of turns, not their numbers"),
        ):
            if count:
                parts.append(f"{count} {words}")
        return ", ".join(parts)
