"""Sheets: ground truth as people keep it, in Excel and text files, read right or refused
clearly.
"""

from __future__ import annotations

from uaef_frames.sheets.reading import read_ground_truth, read_sheets, validate_ground_truth
from uaef_frames.sheets.report import Problem, ValidationReport
from uaef_frames.sheets.writing import write_ground_truth

__all__ = [
    "Problem",
    "ValidationReport",
    "read_ground_truth",
    "read_sheets",
    "validate_ground_truth",
    "write_ground_truth",
]
