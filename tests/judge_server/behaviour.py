"""How the server should behave: everything a test can ask for, with the defaults of a good
server.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

SPOILT = {
    "malformed", "no_choices", "null_content", "refusal", "content_filter", "length",
    "wrong_schema", "out_of_range", "nan", "missing_score", "fenced", "wrapped", "false_quote",
    "no_quote", "surrogate", "parts",
}  # fmt: skip
"""Faults of a completion: status 200, the verdict within is not what it should be."""
STATUSES = {"429": 429, "429_retry_after": 429, "500": 500, "503": 503, "408": 408, "529": 529}
BROKEN = {
    "reset", "hang", "half_body", "drip", "html", "truncated_json", "empty", "error_200",
}  # fmt: skip
"""Faults of the transport, or of something between server and client."""
BATCH_FAULTS = {
    "upload_500", "create_500", "create_500_after_commit", "create_reset_after_commit",
    "retrieve_500", "list_500", "content_500",
}  # fmt: skip
"""How many times each happens, on the first calls; then no more."""


@dataclass
class Behaviour:
    """Settings of the server. `set()` of the handle replaces them whole."""

    delay: float = 0.0
    record: bool = True
    seed: int = 0
    served_model: str | None = None
    # what a good answer says
    score: float = 0.75
    fields: dict[str, Any] = field(default_factory=dict)
    scores_by_metric: dict[str, float] = field(default_factory=dict)
    answers: list[dict[str, Any]] = field(default_factory=list)
    # what is understood
    json_schema: bool | str = True
    json_object_schema: bool = True
    json_object: bool = True
    rejects: list[str] = field(default_factory=list)
    require_key: str | None = None
    models: list[str] | None = None
    status: int | None = None
    quota: bool = False
    # faults
    faults: dict[str, float] = field(default_factory=dict)
    fault_plan: list[str | None] = field(default_factory=list)
    fault_always: str | None = None
    retry_after: float = 1.0
    rate_headers: dict[str, str] = field(default_factory=dict)
    max_concurrent: int | None = None
    requests_per_second: float | None = None
    length_below: int | None = None
    context_limit_chars: int | None = None
    # the Batch API
    batches: bool = True
    batch_seconds: float = 0.2
    batch_error_rate: float = 0.0
    batch_expires: float = 0.0
    batch_fails: str | None = None
    batch_max_requests: int = 50_000
    batch_max_bytes: int = 200_000_000
    batch_faults: dict[str, int] = field(default_factory=dict)
    create_500_after_commit: int = 0  # the same as in `batch_faults`

    def __post_init__(self) -> None:
        named = {*self.faults, *self.fault_plan, self.fault_always} - {None}
        unknown = named - SPOILT - BROKEN - set(STATUSES) | set(self.batch_faults) - BATCH_FAULTS
        if unknown:
            raise ValueError(f"no such fault: {sorted(unknown)}")
        if self.create_500_after_commit:
            self.batch_faults["create_500_after_commit"] = self.create_500_after_commit

    @classmethod
    def of(cls, given: dict[str, Any]) -> Behaviour:
        """From keywords; an unknown one is an error of the test."""
        known = {f.name for f in fields(cls)}
        unknown = set(given) - known
        if unknown:
            raise ValueError(f"no such behaviour: {sorted(unknown)}")
        return cls(**given)
