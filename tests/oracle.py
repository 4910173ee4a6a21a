"""The deterministic metrics once more, in plain Python: slow, short and meant to be obvious.

Written from the specification alone. The package's column expressions are checked against it on
generated input, so nothing here may look at how the package computes a score; the only thing it
shares are the injection patterns, which are data. It knows no dataframe.

Where the specification is silent, the choice is said beside the code.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from fractions import Fraction
from functools import cache
from typing import NamedTuple

from uaef_frames.metrics.injection_patterns import FAMILIES, ZERO_WIDTH


class Oracle(NamedTuple):
    """What a metric must say: a score, or null and why."""

    score: float | None
    warning: str | None


class _Malformed:
    """Arguments of a call that could not be read as a JSON object."""

    def __repr__(self) -> str:
        return "MALFORMED"

    def __deepcopy__(self, memo: object) -> _Malformed:
        return self


MALFORMED = _Malformed()
Call = tuple[str, object]

MISSING = Oracle(None, "missing_data")
NOT_APPLICABLE = Oracle(None, "not_applicable")
INVALID = Oracle(None, "invalid_data")


# --- Tool Calling ---------------------------------------------------------------------------


def tool_selection_accuracy(expected: list[Call] | None, actual: list[Call]) -> Oracle:
    """Multiset Jaccard on names."""
    if expected is None:
        return MISSING
    if not expected:
        return Oracle(0.0 if actual else 1.0, None)
    e = Counter(name for name, _ in expected)
    a = Counter(name for name, _ in actual)
    m = sum(min(e[name], a[name]) for name in e)
    return Oracle(m / (len(expected) + len(actual) - m), None)


def tool_sequence_correctness(expected: list[Call] | None, actual: list[Call]) -> Oracle:
    """Longest common subsequence of names over the longer list."""
    if expected is None:
        return MISSING
    if not expected:
        return Oracle(0.0 if actual else 1.0, None)
    e = [name for name, _ in expected]
    a = [name for name, _ in actual]
    return Oracle(longest_common_subsequence(e, a) / max(len(e), len(a)), None)


def parameter_quality(expected: list[Call] | None, actual: list[Call]) -> Oracle:
    """Best total of pair scores over all one-to-one pairings, over the longer list."""
    if expected is None:
        return MISSING
    if not expected:
        return NOT_APPLICABLE
    best = best_pairing(expected, actual)
    return Oracle(float(best / max(len(expected), len(actual))), None)


def mcp_compliance(calls: list[Call], metadata: dict[str, object] | None) -> Oracle:
    """The share of calls that comply, where there is a sign of MCP."""
    shown = (
        any("mcp" in name.lower() for name, _ in calls)
        or any("mcp:" in text for _, arguments in calls for text in strings_in(arguments))
        or names_mcp(metadata)
    )
    if not shown or not calls:
        return NOT_APPLICABLE
    good = sum(
        name.strip() != "" and name == name.lower() and isinstance(arguments, dict)
        for name, arguments in calls
    )
    return Oracle(good / len(calls), None)


def longest_common_subsequence(e: list[str], a: list[str]) -> int:
    """By the textbook table: best[i][j] is the length for the first i and the first j names."""
    best = [[0] * (len(a) + 1) for _ in range(len(e) + 1)]
    for i in range(1, len(e) + 1):
        for j in range(1, len(a) + 1):
            if e[i - 1] == a[j - 1]:
                best[i][j] = best[i - 1][j - 1] + 1
            else:
                best[i][j] = max(best[i - 1][j], best[i][j - 1])
    return best[-1][-1]


def best_pairing(expected: list[Call], actual: list[Call]) -> Fraction:
    """The greatest sum of pair scores; each expected call takes an unused actual one, or none."""

    @cache
    def best(i: int, used: int) -> Fraction:
        if i == len(expected):
            return Fraction(0)
        result = best(i + 1, used)
        for j, call in enumerate(actual):
            if not used & 1 << j and call[0] == expected[i][0]:
                pair = pair_score(expected[i][1], call[1])
                result = max(result, pair + best(i + 1, used | 1 << j))
        return result

    return best(0, 0)


def pair_score(e: object, a: object) -> Fraction:
    """Equal key-value pairs over the union of keys. Exact, so that no order of adding matters."""
    if not isinstance(e, dict) or not isinstance(a, dict):
        return Fraction(0)
    keys = set(e) | set(a)
    if not keys:
        return Fraction(1)
    equal = sum(k in e and k in a and json_equal(e[k], a[k]) for k in keys)
    return Fraction(equal, len(keys))


def json_equal(x: object, y: object) -> bool:
    """Equality of JSON values: numbers by exact value, a boolean is no number, text is text."""
    if isinstance(x, bool) or isinstance(y, bool):
        return x is y
    if isinstance(x, int | float) and isinstance(y, int | float):
        return x == y  # Python compares an int with a float exactly, without rounding
    if isinstance(x, list) and isinstance(y, list):
        return len(x) == len(y) and all(json_equal(v, w) for v, w in zip(x, y, strict=True))
    if isinstance(x, dict) and isinstance(y, dict):
        return set(x) == set(y) and all(json_equal(x[k], y[k]) for k in x)
    return type(x) is type(y) and x == y


def strings_in(value: object) -> list[str]:
    """Every string inside a JSON value, keys of objects included."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, list):
        return [text for item in value for text in strings_in(item)]
    if isinstance(value, dict):
        return [text for k, v in value.items() for text in (k, *strings_in(v))]
    return []


def names_mcp(metadata: dict[str, object] | None) -> bool:
    """Whether some key or string of the metadata has a name of the protocol in it, as a word."""
    name = r"(?<![a-z0-9])(mcp|model[_ -]context[_ -]protocol)(?![a-z0-9])"
    return any(re.search(name, t.lower()) for t in strings_in(metadata))


# --- Responsible AI -------------------------------------------------------------------------


def prompt_injection_detection(user_messages: list[str]) -> Oracle:
    """0 if any message matches any family."""
    if not user_messages:
        return NOT_APPLICABLE
    hit = any(
        re.search(pattern, re.sub(ZERO_WIDTH, "", unicodedata.normalize("NFKC", message)))
        for message in user_messages
        for pattern in FAMILIES.values()
    )
    return Oracle(0.0 if hit else 1.0, None)


# --- Performance ----------------------------------------------------------------------------


def latency_score(latency_s: float | None, threshold_ms: float = 2000.0) -> Oracle:
    """1 up to the threshold, threshold / latency beyond it."""
    if impossible(latency_s):
        return INVALID
    if latency_s is None:
        return MISSING
    ms = latency_s * 1000
    return Oracle(1.0 if ms <= threshold_ms else threshold_ms / ms, None)


def token_efficiency(
    quality: float | None,
    input_tokens: float | None,
    output_tokens: float | None,
    expected: float = 1000.0,
    penalty: str = "light",
) -> Oracle:
    """Quality, reduced for what is used beyond the expected tokens."""
    if impossible(input_tokens) or impossible(output_tokens) or not_a_score(quality):
        return INVALID
    if input_tokens is None or output_tokens is None:
        return MISSING
    return _efficiency(quality, input_tokens + output_tokens, expected, penalty)


def cost_efficiency(
    quality: float | None,
    cost_usd: float | None,
    expected: float = 0.01,
    penalty: str = "light",
) -> Oracle:
    """Quality, reduced for what is spent beyond the expected cost."""
    if impossible(cost_usd) or not_a_score(quality):
        return INVALID
    if cost_usd is None:
        return MISSING
    return _efficiency(quality, cost_usd, expected, penalty)


def _efficiency(quality: float | None, used: float, expected: float, penalty: str) -> Oracle:
    if quality is None or used == 0:
        return MISSING
    if used <= expected:
        return Oracle(quality, None)
    power = {"light": 0.5, "heavy": 1.0}[penalty]
    return Oracle(quality / (used / expected) ** power, None)


def throughput(
    latency_s: float | None, throughput_rps: float | None, target_rps: float = 10.0
) -> Oracle:
    """Requests per second over the target, 1 at most.

    A given rps decides alone: the latency beside it is not looked at, and an impossible rps is
    not replaced by 1 / latency.
    """
    if throughput_rps is not None:
        if impossible(throughput_rps):
            return INVALID
        return Oracle(min(1.0, throughput_rps / target_rps), None)
    if impossible(latency_s) or latency_s == 0:
        return INVALID
    if latency_s is None:
        return MISSING
    return Oracle(min(1.0, 1 / latency_s / target_rps), None)


def impossible(measured: float | None) -> bool:
    """A measured amount that cannot be: not finite, or negative."""
    return measured is not None and (not math.isfinite(measured) or measured < 0)


def not_a_score(score: float | None) -> bool:
    """A given score that is none: not a number between 0 and 1."""
    return score is not None and not 0 <= score <= 1


# --- Multi-Turn -----------------------------------------------------------------------------


def turn_efficiency(
    roles_and_texts: list[tuple[str, str | None]],
    completeness: float | None,
    expected_turns: int = 5,
) -> Oracle:
    """Completeness, reduced for each complete turn beyond the expected ones."""
    if not_a_score(completeness):
        return INVALID
    n = complete_turns(roles_and_texts)
    if n == 0:
        return MISSING
    c = 1.0 if completeness is None else completeness
    return Oracle(c * min(1.0, expected_turns / n), None)


def complete_turns(roles_and_texts: list[tuple[str, str | None]]) -> int:
    """User messages that get an assistant message with text before the next user message."""
    n = 0
    waiting = False
    for role, text in roles_and_texts:
        if role == "user":
            waiting = True
        elif role == "assistant" and waiting and text is not None and text.strip():
            n += 1
            waiting = False
    return n


# --- Multi-Agent ----------------------------------------------------------------------------


def agent_utilization(work: dict[str, int] | None) -> Oracle:
    """exp(-CV) of the work of the agents; one agent of a multi-agent trace is balanced alone."""
    if work is None:
        return NOT_APPLICABLE
    total = sum(work.values())
    if total == 0:
        return MISSING
    mean = total / len(work)
    variance = sum((w - mean) ** 2 for w in work.values()) / len(work)
    return Oracle(math.exp(-math.sqrt(variance) / mean), None)


def coordination_efficiency(
    handoffs: int,
    work: dict[str, int] | None,
    ratio_threshold: float = 0.10,
    steepness: float = 5.0,
) -> Oracle:
    """1 up to the threshold of handoffs per piece of work, then an exponential fall.

    No work leaves no ratio, whatever the handoffs: null, as for agent_utilization.
    """
    if work is None:
        return NOT_APPLICABLE
    total = sum(work.values())
    if total == 0:
        return MISSING
    r = handoffs / total
    if r <= ratio_threshold:
        return Oracle(1.0, None)
    return Oracle(math.exp(-steepness * (r - ratio_threshold)), None)
