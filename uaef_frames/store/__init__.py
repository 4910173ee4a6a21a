"""Runs on Parquet, and DuckDB over them."""

from __future__ import annotations

from uaef_frames.store.agreement import Agreement, agreement
from uaef_frames.store.compare import Comparison, compare
from uaef_frames.store.gate import GateResult, gate
from uaef_frames.store.power import Power, power
from uaef_frames.store.run import Run, open_run
from uaef_frames.store.store import Store, open_store

__all__ = [
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
]
