"""Adapters: raw records of a framework in, conversations out."""

from __future__ import annotations

from uaef_frames.adapters.base import Adapter, get_adapter
from uaef_frames.adapters.langgraph import LangGraphAdapter
from uaef_frames.adapters.openai_messages import OpenAIMessagesAdapter

__all__ = ["Adapter", "LangGraphAdapter", "OpenAIMessagesAdapter", "get_adapter"]
