"""The judge: asking an LLM, with prompts, pace, cache, budget and verdicts. Knows rows, not
metrics.
"""

from __future__ import annotations

from uaef_frames.judge.config import Judge, as_judge
from uaef_frames.judge.prices import Price
from uaef_frames.judge.progress import Progress
from uaef_frames.judge.rubrics import Rubric

__all__ = ["Judge", "Price", "Progress", "Rubric", "as_judge"]
