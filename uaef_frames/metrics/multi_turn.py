"""Multi-Turn: what is said of a conversation as a whole."""

from __future__ import annotations

import polars as pl

from uaef_frames.metrics.registry import judged, metric
from uaef_frames.metrics.spec import INVALID, MISSING, Constants, Scored, Unless

_DIMENSION = "Multi-Turn"

CONTEXT_RETENTION = judged(
    "context_retention",
    _DIMENSION,
    "Does the assistant remember what was said before?",
    phase="session",
)
COHERENCE = judged("coherence", _DIMENSION, "Do the turns fit together?", phase="session")
CONVERSATION_COMPLETENESS = judged(
    "conversation_completeness",
    _DIMENSION,
    "Did the user get everything they came for?",
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
    phase="session",
    ground_truth="chatbot_role",
)
HOLISTIC_LLM_JUDGE = judged(
    "holistic_llm_judge", _DIMENSION, "The conversation as a whole.", phase="session"
)
USER_SATISFACTION = judged(
    "user_satisfaction", _DIMENSION, "How satisfied is the user?", phase="session", scale="1-5"
)
SENTIMENT = judged("sentiment", _DIMENSION, "How does the user feel?", phase="session", scale="1-5")
AGENT_TONE = judged(
    "agent_tone", _DIMENSION, "How fitting is the assistant's tone?", phase="session", scale="1-5"
)
NATURALNESS = judged(
    "naturalness", _DIMENSION, "Does the assistant speak naturally?", phase="session", scale="1-5"
)
INSTRUCTION_COMPLIANCE = judged(
    "instruction_compliance",
    _DIMENSION,
    "Does the assistant keep to its instructions?",
    phase="session",
    ground_truth="system_instructions, else expected output",
)
OPTIMUM_TURNS = judged(
    "optimum_turns",
    _DIMENSION,
    "Fewest turns that would do / turns taken.",
    phase="session",
    scale="count",
)
PER_TURN_SENTIMENT = judged(
    "per_turn_sentiment",
    _DIMENSION,
    "Sentiment, one verdict per exchange, then the mean.",
    phase="session",
    scale="1-5",
    in_default=False,
)
PER_TURN_AGENT_TONE = judged(
    "per_turn_agent_tone",
    _DIMENSION,
    "Tone, one verdict per exchange, then the mean.",
    phase="session",
    scale="1-5",
    in_default=False,
)
PER_TURN_NATURALNESS = judged(
    "per_turn_naturalness",
    _DIMENSION,
    "Naturalness, one verdict per exchange, then the mean.",
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
        phase="session",
        scale="boolean",
        in_default=False,
    )
    judged(
        "resolution",
        _DIMENSION,
        "Was the user's problem solved?",
        phase="session",
        scale="boolean",
        in_default=False,
    )
