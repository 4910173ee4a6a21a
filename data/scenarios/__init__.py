"""The scripted sessions, in the order in which they are recorded."""

from __future__ import annotations

from .conduct_mistakes import CONDUCT_MISTAKES
from .languages import LANGUAGES
from .smooth import SMOOTH
from .teams import TEAMS
from .tool_mistakes import TOOL_MISTAKES

__all__ = ["SESSIONS"]

SESSIONS = [*SMOOTH, *LANGUAGES, *TOOL_MISTAKES, *CONDUCT_MISTAKES, *TEAMS]
