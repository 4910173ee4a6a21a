"""Reasoning: what a judge says of the reasoning in an answer."""

from __future__ import annotations

from uaef_frames.metrics.registry import judged

_DIMENSION = "Reasoning"

CHAIN_OF_THOUGHT_COHERENCE = judged(
    "chain_of_thought_coherence",
    _DIMENSION,
    "Does each step follow from the one before?",
    shows=("reasoning",),
)
LOGICAL_CONSISTENCY = judged(
    "logical_consistency",
    _DIMENSION,
    "Is the reasoning free of contradictions?",
    shows=("reasoning",),
)
REASONING_STEP_CORRECTNESS = judged(
    "reasoning_step_correctness", _DIMENSION, "Is each step right in itself?", shows=("reasoning",)
)
FALLACY_DETECTION = judged(
    "fallacy_detection",
    _DIMENSION,
    "Is the reasoning free of fallacies? 1: none found.",
    shows=("reasoning",),
)
