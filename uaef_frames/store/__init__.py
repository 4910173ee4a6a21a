"""Runs on Parquet, and DuckDB over them."""

from __future__ import annotations

from uaef_frames.store.agreement import Agreement, agreement
from uaef_frames.store.run import Run, open_run

__all__ = ["Agreement", "Run", "agreement", "open_run"]
