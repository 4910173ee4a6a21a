"""Response Quality: what a judge says of the answer of one turn."""

from __future__ import annotations

from uaef_frames.metrics.registry import judged

_DIMENSION = "Response Quality"

ANSWER_RELEVANCE = judged(
    "answer_relevance",
    _DIMENSION,
    "Does the answer address the question?",
    shows=("query", "response"),
)
COMPLETENESS = judged(
    "completeness",
    _DIMENSION,
    "Does the answer cover all that was expected?",
    shows=("query", "response", "expected_output"),
    ground_truth="expected output",
)
HALLUCINATION_SCORE = judged(
    "hallucination_score",
    _DIMENSION,
    "Does the answer rest on its context? 1: nothing is made up.",
    shows=("response", "context"),
    ground_truth="context documents, or the turn's tool results",
)
ACCURACY = judged(
    "accuracy",
    _DIMENSION,
    "Does the answer agree with the expected one?",
    shows=("query", "response", "expected_output"),
    ground_truth="expected output",
)
