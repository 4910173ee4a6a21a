"""Results as people look at them: plots, tables and conversations, made of polars frames.

Draws; measures nothing. altair and great_tables are loaded when something is drawn.
"""

from __future__ import annotations
