"""Metrics: one file a dimension, each metric declared once. Importing this fills the registry."""

from __future__ import annotations

# The order of these imports is the order of the registry.
from uaef_frames.metrics import (
    multi_agent,
    multi_turn,
    performance,
    reasoning,
    response_quality,
    responsible_ai,
    tool_calling,
)
from uaef_frames.metrics.custom import judge_metric, register_judge_metric
from uaef_frames.metrics.multi_turn import register_use_case_specific_metrics
from uaef_frames.metrics.registry import (
    get_metric,
    list_metrics,
    metric,
    metric_sets,
    register_metric,
    resolve_metrics,
    unregister_metric,
    with_constants,
)
from uaef_frames.metrics.spec import DIMENSIONS, Constants, MetricSpec, Scored, Unless

__all__ = [
    "DIMENSIONS",
    "Constants",
    "MetricSpec",
    "Scored",
    "Unless",
    "get_metric",
    "judge_metric",
    "list_metrics",
    "metric",
    "metric_sets",
    "multi_agent",
    "multi_turn",
    "performance",
    "reasoning",
    "register_judge_metric",
    "register_metric",
    "register_use_case_specific_metrics",
    "resolve_metrics",
    "response_quality",
    "responsible_ai",
    "tool_calling",
    "unregister_metric",
    "with_constants",
]
