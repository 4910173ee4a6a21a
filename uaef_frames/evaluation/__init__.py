"""Evaluation: plan, score, aggregate, results; and the evaluator classes over them."""

from __future__ import annotations

from uaef_frames.evaluation.evaluators import (
    BaseEvaluator,
    MultiAgentEvaluator,
    MultiTurnEvaluator,
    OfflineEvaluator,
    SingleAgentEvaluator,
)

__all__ = [
    "BaseEvaluator",
    "MultiAgentEvaluator",
    "MultiTurnEvaluator",
    "OfflineEvaluator",
    "SingleAgentEvaluator",
]
