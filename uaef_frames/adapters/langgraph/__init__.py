"""The LangGraph adapter."""

from __future__ import annotations

from uaef_frames.adapters.langgraph.adapter import LangGraphAdapter

__all__ = ["LangGraphAdapter"]
