"""Evaluate multi-turn AI-agent conversations as dataframes.

Turn payloads become Arrow tables, metrics are column expressions over them, results are Parquet.
The names below are loaded on first use, so that importing the package costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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
    from uaef_frames.export import export_run, to_ground_truth
    from uaef_frames.ground_truth import (
        build_ground_truth,
        build_multi_turn_ground_truth,
        parse_ground_truth_row,
    )
    from uaef_frames.ground_truth_files import load_expectations
    from uaef_frames.judge import Judge, Price
    from uaef_frames.metrics import (
        MetricSpec,
        Scored,
        Unless,
        judge_metric,
        list_metrics,
        metric,
        metric_sets,
        register_judge_metric,
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
    from uaef_frames.planning import plan
    from uaef_frames.recording import record_sessions
    from uaef_frames.sheets import (
        ValidationReport,
        read_ground_truth,
        validate_ground_truth,
        write_ground_truth,
    )
    from uaef_frames.store import (
        Agreement,
        Comparison,
        GateResult,
        Power,
        Run,
        Store,
        agreement,
        compare,
        gate,
        open_run,
        open_store,
        power,
    )
    from uaef_frames.version import __version__

__all__ = [
    "AdapterTransformationError",
    "AgentTrace",
    "Agreement",
    "Comparison",
    "ConfigError",
    "Conversations",
    "CoordinationEvent",
    "DimensionResult",
    "EvaluationResult",
    "Expectations",
    "GateResult",
    "GroundTruth",
    "GroundTruthError",
    "InputFileError",
    "Judge",
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
    "Power",
    "Price",
    "Run",
    "Scored",
    "SingleAgentEvaluator",
    "Store",
    "StoreError",
    "ToolCall",
    "UaefError",
    "Unless",
    "ValidationReport",
    "__version__",
    "agreement",
    "batch_evaluate",
    "build_ground_truth",
    "build_multi_turn_ground_truth",
    "compare",
    "evaluate",
    "evaluate_dataset",
    "export_run",
    "gate",
    "get_adapter",
    "judge_metric",
    "list_metrics",
    "load_expectations",
    "metric",
    "metric_sets",
    "open_run",
    "open_store",
    "parse_ground_truth_row",
    "plan",
    "power",
    "read_ground_truth",
    "record_sessions",
    "register_judge_metric",
    "register_metric",
    "register_use_case_specific_metrics",
    "to_ground_truth",
    "unregister_metric",
    "validate_ground_truth",
    "write_ground_truth",
]

_HOMES = {
    "uaef_frames.adapters": ("LangGraphAdapter", "OpenAIMessagesAdapter", "get_adapter"),
    "uaef_frames.api": ("batch_evaluate", "evaluate"),
    "uaef_frames.conversations": ("Conversations",),
    "uaef_frames.dataset": ("evaluate_dataset",),
    "uaef_frames.errors": (
        "AdapterTransformationError",
        "ConfigError",
        "GroundTruthError",
        "InputFileError",
        "JudgeError",
        "StoreError",
        "UaefError",
    ),
    "uaef_frames.evaluation": (
        "MultiAgentEvaluator",
        "MultiTurnEvaluator",
        "OfflineEvaluator",
        "SingleAgentEvaluator",
    ),
    "uaef_frames.expectations": ("Expectations",),
    "uaef_frames.export": ("export_run", "to_ground_truth"),
    "uaef_frames.ground_truth": (
        "build_ground_truth",
        "build_multi_turn_ground_truth",
        "parse_ground_truth_row",
    ),
    "uaef_frames.ground_truth_files": ("load_expectations",),
    "uaef_frames.judge": ("Judge", "Price"),
    "uaef_frames.metrics": (
        "MetricSpec",
        "Scored",
        "Unless",
        "judge_metric",
        "list_metrics",
        "metric",
        "metric_sets",
        "register_judge_metric",
        "register_metric",
        "register_use_case_specific_metrics",
        "unregister_metric",
    ),
    "uaef_frames.models": (
        "AgentTrace",
        "CoordinationEvent",
        "DimensionResult",
        "EvaluationResult",
        "GroundTruth",
        "Message",
        "MetricScore",
        "MultiAgentTrace",
        "ToolCall",
    ),
    "uaef_frames.planning": ("plan",),
    "uaef_frames.recording": ("record_sessions",),
    "uaef_frames.sheets": (
        "ValidationReport",
        "read_ground_truth",
        "validate_ground_truth",
        "write_ground_truth",
    ),
    "uaef_frames.store": (
        "Agreement",
        "Comparison",
        "GateResult",
        "Power",
        "Run",
        "Store",
        "agreement",
        "compare",
        "gate",
        "open_run",
        "open_store",
        "power",
    ),
    "uaef_frames.version": ("__version__",),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    if name in _HOME:
        value: object = getattr(import_module(_HOME[name]), name)
        globals()[name] = value
        return value
    room = f"{__name__}.{name}"
    try:
        return import_module(room)
    except ModuleNotFoundError as error:
        if error.name != room:
            raise
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
