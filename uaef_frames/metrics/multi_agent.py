"""Multi-Agent: how work is shared and passed on. Null, `not_applicable`, on single-agent traces."""

from __future__ import annotations

import polars as pl

from uaef_frames.metrics.registry import judged, metric
from uaef_frames.metrics.spec import (
    MISSING,
    NOT_APPLICABLE,
    Constants,
    Scored,
    Unless,
    verdict,
)

_DIMENSION = "Multi-Agent"


@metric("agent_utilization", _DIMENSION, needs=("agent_work",), requires_multi_agent=True)
def agent_utilization() -> Scored:
    """exp(-CV) of the agents' work (their messages and tool calls): 1 when it is shared evenly."""
    return Scored(
        score=(-pl.col("work_cv")).exp(),
        reasoning=pl.format("{} over {} agents: {}", "work_total", "work_agents", "work_text"),
        details=pl.struct("work_total", "work_agents", "work_cv"),
        unless=(_no_work(),),
    )


DELEGATION_QUALITY = judged(
    "delegation_quality",
    _DIMENSION,
    "Was work handed to the right agent with what it needs?",
    shows=("team",),
    needs=("agent_work",),
    unless=(
        Unless(pl.col("handoff_count").fill_null(0) == 0, NOT_APPLICABLE, "no handoff was made"),
    ),
    requires_multi_agent=True,
)
FAILED_STATUSES = (
    "failed",
    "failure",
    "error",
    "errored",
    "aborted",
    "cancelled",
    "canceled",
    "timeout",
)
"""Words for a workflow that did not end well."""

_FAILED = (
    pl.col("workflow_status")
    .str.strip_chars()
    .str.to_lowercase()
    .is_in(FAILED_STATUSES)
    .fill_null(value=False)
)

WORKFLOW_COMPLETION = judged(
    "workflow_completion",
    _DIMENSION,
    "Did the agents together finish the job? A failed workflow halves the score.",
    shows=("conversation", "expected_output"),
    may_show=("workflow_status",),
    ground_truth="expected output",
    score=verdict("score") * pl.when(_FAILED).then(0.5).otherwise(1.0),
    details=pl.struct(raw=verdict("score"), workflow_failed=_FAILED),
    requires_multi_agent=True,
)


@metric(
    "coordination_efficiency",
    _DIMENSION,
    constants={"free_ratio": 0.10, "steepness": 5.0},
    needs=("agent_work",),
    requires_multi_agent=True,
)
def coordination_efficiency(c: Constants) -> Scored:
    """1 while handoffs are a small part of the work, then falling with their part."""
    ratio = pl.col("handoff_count") / pl.col("work_total")
    excess = pl.max_horizontal(pl.lit(0.0), ratio - c.free_ratio)
    return Scored(
        score=(-c.steepness * excess).exp(),
        reasoning=pl.format("{} handoffs for {} pieces of work", "handoff_count", "work_total"),
        details=pl.struct("handoff_count", "work_total"),
        unless=(_no_work(),),
    )


def _no_work() -> Unless:
    return Unless(pl.col("work_total").fill_null(0) == 0, MISSING, "no agent did any work")
