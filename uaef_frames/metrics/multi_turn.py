"""Multi-Turn: what is said of a conversation as a whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from uaef_frames.metrics.registry import judged, metric
from uaef_frames.metrics.spec import (
    INVALID,
    MISSING,
    NOT_APPLICABLE,
    Constants,
    Scored,
    Unless,
    verdict,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

_DIMENSION = "Multi-Turn"
_TRANSCRIPT = ("transcript",)
_TURNS = pl.col("complete_turns").fill_null(0)
_ONE_TURN = Unless(_TURNS < 2, NOT_APPLICABLE, "fewer than two complete turns")
_NO_TURN = Unless(_TURNS == 0, MISSING, "no user message got a reply")

CONTEXT_RETENTION = judged(
    "context_retention",
    _DIMENSION,
    "Does the assistant remember what was said before?",
    shows=_TRANSCRIPT,
    phase="session",
    needs=("complete_turns",),
    unless=(_ONE_TURN,),
)
COHERENCE = judged(
    "coherence",
    _DIMENSION,
    "Do the turns fit together?",
    shows=_TRANSCRIPT,
    phase="session",
    needs=("complete_turns",),
    unless=(_ONE_TURN,),
)
CONVERSATION_COMPLETENESS = judged(
    "conversation_completeness",
    _DIMENSION,
    "Did the user get everything they came for?",
    shows=_TRANSCRIPT,
    may_show=("expected_output",),
    phase="session",
    ground_truth="expected output, optional",
)


@metric(
    "turn_efficiency",
    _DIMENSION,
    phase="session",
    constants={"expected_turns": 5.0},
    needs=("complete_turns", "completeness"),
    stage=2,
)
def turn_efficiency(c: Constants) -> Scored:
    """Completeness, divided by how far the complete turns exceed the expected number."""
    turns, done = pl.col("complete_turns"), pl.col("completeness").fill_null(1.0)
    outside = ~done.is_finite() | (done < 0) | (done > 1)
    return Scored(
        score=done * pl.min_horizontal(pl.lit(1.0), c.expected_turns / turns),
        reasoning=pl.format("{} complete turns against {}", turns, pl.lit(f"{c.expected_turns:g}")),
        details=pl.struct("complete_turns", "completeness"),
        unless=(
            Unless(outside, INVALID, pl.format("completeness is {}, outside 0 to 1", done)),
            Unless(turns.fill_null(0) == 0, MISSING, "no user message got a reply"),
        ),
    )


ROLE_ADHERENCE = judged(
    "role_adherence",
    _DIMENSION,
    "Assistant turns in role / assistant turns.",
    shows=("transcript", "chatbot_role"),
    phase="session",
    ground_truth="chatbot_role",
    scale="count",
    needs=("complete_turns",),
    unless=(_NO_TURN,),
    upper=_TURNS,
    score=verdict("turns_in_role") / _TURNS,
    details=pl.struct(turns_in_role=verdict("turns_in_role"), assistant_turns=_TURNS),
)

HOLISTIC_WEIGHTS = {
    "completeness": 0.10,
    "relevancy": 0.10,
    "retention": 0.10,
    "sentiment": 0.10,
    "tone": 0.10,
    "satisfaction": 0.10,
    "containment": 0.40,
}
"""What each part of `holistic_llm_judge` weighs; a part that is null leaves its weight to the
rest.
"""


def _weighed(weights: Mapping[str, float]) -> pl.Expr:
    """The weighted mean of a verdict's fields that are not null."""
    total = pl.sum_horizontal(verdict(n) * w for n, w in weights.items())
    weight = pl.sum_horizontal(
        pl.when(verdict(n).is_not_null()).then(w).otherwise(0.0) for n, w in weights.items()
    )
    return total / weight


HOLISTIC_LLM_JUDGE = judged(
    "holistic_llm_judge",
    _DIMENSION,
    "The conversation as a whole, in seven parts; containment weighs most.",
    shows=_TRANSCRIPT,
    phase="session",
    score=_weighed(HOLISTIC_WEIGHTS),
)
USER_SATISFACTION = judged(
    "user_satisfaction",
    _DIMENSION,
    "How satisfied is the user?",
    shows=_TRANSCRIPT,
    phase="session",
    scale="1-5",
)
SENTIMENT = judged(
    "sentiment",
    _DIMENSION,
    "How does the user feel?",
    shows=_TRANSCRIPT,
    phase="session",
    scale="1-5",
)
AGENT_TONE = judged(
    "agent_tone",
    _DIMENSION,
    "How fitting is the assistant's tone?",
    shows=_TRANSCRIPT,
    phase="session",
    scale="1-5",
)
NATURALNESS = judged(
    "naturalness",
    _DIMENSION,
    "Does the assistant speak naturally?",
    shows=_TRANSCRIPT,
    phase="session",
    scale="1-5",
)
INSTRUCTION_COMPLIANCE = judged(
    "instruction_compliance",
    _DIMENSION,
    "Does the assistant keep to its instructions?",
    shows=("transcript", "instructions"),
    phase="session",
    ground_truth="system_instructions, else expected output",
)
OPTIMUM_TURNS = judged(
    "optimum_turns",
    _DIMENSION,
    "Fewest turns that would do / turns taken.",
    shows=_TRANSCRIPT,
    phase="session",
    scale="count",
    needs=("complete_turns",),
    unless=(_NO_TURN,),
    score=pl.min_horizontal(pl.lit(1.0), verdict("optimum_turns") / _TURNS),
    details=pl.struct(optimum_turns=verdict("optimum_turns"), complete_turns=_TURNS),
)
PER_TURN_SENTIMENT = judged(
    "per_turn_sentiment",
    _DIMENSION,
    "Sentiment, one verdict per exchange, then the mean.",
    shows=("exchange",),
    phase="session",
    scale="1-5",
    in_default=False,
)
PER_TURN_AGENT_TONE = judged(
    "per_turn_agent_tone",
    _DIMENSION,
    "Tone, one verdict per exchange, then the mean.",
    shows=("exchange",),
    phase="session",
    scale="1-5",
    in_default=False,
)
PER_TURN_NATURALNESS = judged(
    "per_turn_naturalness",
    _DIMENSION,
    "Naturalness, one verdict per exchange, then the mean.",
    shows=("exchange",),
    phase="session",
    scale="1-5",
    in_default=False,
)


def register_use_case_specific_metrics() -> None:
    """Register the opt-in contact-center metrics `containment` and `resolution`.

    Calling it again changes nothing.
    """
    judged(
        "containment",
        _DIMENSION,
        "Was the conversation kept from a human agent?",
        shows=_TRANSCRIPT,
        phase="session",
        scale="boolean",
        in_default=False,
    )
    judged(
        "resolution",
        _DIMENSION,
        "Was the user's problem solved?",
        shows=_TRANSCRIPT,
        phase="session",
        scale="boolean",
        in_default=False,
    )
