"""Tables that belong together, as dataframely collections: what `validate` checks at once.

Nothing here knows how a table is filled.
"""
# No `from __future__ import annotations` in this file: dataframely reads the annotations of a
# collection as objects and refuses them as text.

import dataframely as dy
import polars as pl

from uaef_frames.schemas import (
    ExpectedToolCalls,
    Handoffs,
    Messages,
    SessionExpectations,
    ToolCalls,
    TurnExpectations,
    Turns,
)


class ConversationTables(dy.Collection):
    """The four tables of a set of conversations; every row belongs to a turn."""

    turns: dy.LazyFrame[Turns]
    messages: dy.LazyFrame[Messages]
    tool_calls: dy.LazyFrame[ToolCalls]
    handoffs: dy.LazyFrame[Handoffs]

    @dy.filter()
    def of_a_turn(self) -> pl.LazyFrame:
        """Messages, calls and handoffs are of turns that are there."""
        return self.turns.select("session_id", "turn_id")


class ExpectationTables(dy.Collection):
    """The three tables of ground truth."""

    turn_expectations: dy.LazyFrame[TurnExpectations]
    session_expectations: dy.LazyFrame[SessionExpectations]
    expected_tool_calls: dy.LazyFrame[ExpectedToolCalls]
