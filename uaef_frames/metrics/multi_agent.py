"""Multi-Agent: how work is shared and passed on. Null, `not_applicable`, on single-agent traces."""

from __future__ import annotations

import polars as pl

from uaef_frames.metrics.registry import judged, metric
from uaef_frames.metrics.spec import MISSING, Constants, Scored, Unless

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
    requires_multi_agent=True,
)
WORKFLOW_COMPLETION = judged(
    "workflow_completion",
    _DIMENSION,
    "Did the agents together finish the job? A failed workflow halves the score.",
    ground_truth="expected output",
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
