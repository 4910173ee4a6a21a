"""Evaluate multi-turn AI-agent conversations as dataframes.

Turn payloads become Arrow tables, metrics are column expressions over them, results are Parquet.
"""

from __future__ import annotations

from uaef_frames.adapters import LangGraphAdapter, OpenAIMessagesAdapter, get_adapter
from uaef_frames.api import batch_evaluate, evaluate
from uaef_frames.conversations import Conversations
from uaef_frames.dataset import evaluate_dataset
from uaef_frames.errors import (
    AdapterTransformationError,
    ConfigError,
    GroundTruthError,
    InputFileError,
    JudgeError,
    StoreError,
    UaefError,
)
from uaef_frames.evaluation import (
    MultiAgentEvaluator,
    MultiTurnEvaluator,
    OfflineEvaluator,
    SingleAgentEvaluator,
)
from uaef_frames.expectations import Expectations
from uaef_frames.ground_truth import (
    build_ground_truth,
    build_multi_turn_ground_truth,
    parse_ground_truth_row,
)
from uaef_frames.ground_truth_files import load_expectations
from uaef_frames.metrics import (
    MetricSpec,
    Scored,
    Unless,
    list_metrics,
    metric,
    metric_sets,
    register_metric,
    register_use_case_specific_metrics,
    unregister_metric,
)
from uaef_frames.models import (
    AgentTrace,
    CoordinationEvent,
    DimensionResult,
    EvaluationResult,
    GroundTruth,
    Message,
    MetricScore,
    MultiAgentTrace,
    ToolCall,
)
from uaef_frames.store import Run, open_run
from uaef_frames.version import __version__

__all__ = [
    "AdapterTransformationError",
    "AgentTrace",
    "ConfigError",
    "Conversations",
    "CoordinationEvent",
    "DimensionResult",
    "EvaluationResult",
    "Expectations",
    "GroundTruth",
    "GroundTruthError",
    "InputFileError",
    "JudgeError",
    "LangGraphAdapter",
    "Message",
    "MetricScore",
    "MetricSpec",
    "MultiAgentEvaluator",
    "MultiAgentTrace",
    "MultiTurnEvaluator",
    "OfflineEvaluator",
    "OpenAIMessagesAdapter",
    "Run",
    "Scored",
    "SingleAgentEvaluator",
    "StoreError",
    "ToolCall",
    "UaefError",
    "Unless",
    "__version__",
    "batch_evaluate",
    "build_ground_truth",
    "build_multi_turn_ground_truth",
    "evaluate",
    "evaluate_dataset",
    "get_adapter",
    "list_metrics",
    "load_expectations",
    "metric",
    "metric_sets",
    "open_run",
    "parse_ground_truth_row",
    "register_metric",
    "register_use_case_specific_metrics",
    "unregister_metric",
]
