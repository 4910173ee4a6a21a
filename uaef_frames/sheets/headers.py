"""Headers: which row of a grid is its header, and what each column means."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from uaef_frames.errors import ConfigError
from uaef_frames.sheets.grids import Merged

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from uaef_frames.sheets.grids import Grid

MEANINGS: Mapping[str, tuple[str, ...]] = {
    "question": ("question", "query", "input"),
    "expected_output": ("answer", "expected_answer", "expected_output", "expected"),
    "context": ("context", "context_documents"),
    "expected_tool_calls": ("expected_tool_calls", "tools"),
    "session_id": ("session_id",),
    "turn_id": ("turn_id",),
    "chatbot_role": ("chatbot_role",),
    "system_instructions": ("system_instructions",),
    "labels": ("labels",),
    "per_turn_expected": ("per_turn_expected",),
    "per_turn_tools": ("per_turn_expected_tool_calls", "per_turn_tools"),
}
"""What a column can mean, and the headers that say so; case, blanks and underscores aside."""

LABEL_PREFIX = "label:"
"""Before a header that is a label's name, whatever else it could mean."""
_HEADER_ROWS = 15


@dataclass(slots=True)
class Header:
    """The header row of a grid, and the rows below it.

    Attributes:
        row: Its number.
        names: The headers as they stand.
        meaning: Column by meaning.
        labels: Column by label.
        columns: What each header was taken for.
        rows: The rows below.
        fine: Whether every column has one meaning.
    """

    row: int
    names: list[str]
    rows: Iterator[tuple[int, list[Any]]]
    meaning: dict[str, int] = field(default_factory=dict[str, int])
    labels: dict[str, int] = field(default_factory=dict[str, int])
    columns: dict[str, str] = field(default_factory=dict[str, str])
    fine: bool = True

    @classmethod
    def find(cls, grid: Grid, by_hand: Mapping[str, str]) -> Header | None:
        """The first row that reads like a header, with what its columns mean; None: there is none.

        Args:
            grid: Its rows are used up to there; what is odd about the header becomes its problem.
            by_hand: Headers by meaning.

        Raises:
            ConfigError: `by_hand` names a header that there is not.
        """
        ahead, found = _look(grid, by_hand)
        if found is None:
            # A lone recognised header is one too, where nothing fits better.
            found = next((r for r in ahead if _known(r[1], by_hand)), None)
        if found is None:
            return None
        number, raw = found
        names = ["" if c is None else str(unwrapped(c)) for c in raw]
        below = _again([r for r in ahead if r[0] > number], grid.rows)
        header = cls(number, names, below)
        header._give_meanings(grid, by_hand)
        return header

    def _give_meanings(self, grid: Grid, by_hand: Mapping[str, str]) -> None:
        mapped = {squash(h): m for m, h in by_hand.items()}
        missing = [h for h in by_hand.values() if squash(h) not in map(squash, self.names)]
        if missing:
            there = ", ".join(repr(n) for n in self.names if n)
            raise ConfigError(f"columns: there is no header {missing[0]!r}; there is {there}")
        taken: dict[str, str] = {}
        for at, name in enumerate(self.names):
            squashed = squash(name)
            if not squashed:
                continue
            meaning = mapped.get(squashed) or _MEANING.get(squashed)
            if meaning in by_hand and squashed not in mapped:
                meaning = None  # mapped by hand to another column
            shown = name.strip()
            if meaning is None:
                label = shown.removeprefix(LABEL_PREFIX)
                if label in self.labels:
                    self._doubled(grid, label, shown, "the same label")
                self.labels[label] = at
                self.columns[shown] = "label"
                continue
            if meaning in taken:
                self._doubled(grid, taken[meaning], shown, meaning)
                continue
            taken[meaning] = shown
            self.meaning[meaning] = at
            self.columns[shown] = meaning
            if meaning in ("session_id", "turn_id") and shown != meaning:
                grid.note("note", f"the column {shown!r} is read as {meaning}")

    def _doubled(self, grid: Grid, one: str, two: str, meaning: str) -> None:
        words = (
            f"the header {one!r} is there twice"
            if one == two
            else f"the headers {one!r} and {two!r} both mean {meaning}"
        )
        grid.note("error", f"{words}; keep one")
        self.fine = False


def looks_like_ground_truth(grid: Grid, by_hand: Mapping[str, str]) -> bool:
    """Whether one of the first rows reads like a header; none of them is used up."""
    ahead, found = _look(grid, by_hand)
    grid.rows = _again(ahead, grid.rows)
    return found is not None


_Numbered: TypeAlias = "tuple[int, list[Any]]"


def _look(grid: Grid, by_hand: Mapping[str, str]) -> tuple[list[_Numbered], _Numbered | None]:
    """The first rows, and that among them which is plainly a header."""
    ahead: list[_Numbered] = []
    for row in grid.rows:
        ahead.append(row)
        known = _known(row[1], by_hand)
        alone = len(ahead) == 1 and (filled(row[1]) == len(known) or not grid.lettered)
        if len(known) >= 2 or (known and alone):
            return ahead, row
        if len(ahead) >= _HEADER_ROWS:
            break
    return ahead, None


def _again(
    ahead: list[tuple[int, list[Any]]], rest: Iterator[tuple[int, list[Any]]]
) -> Iterator[Any]:
    yield from ahead
    yield from rest


def unwrapped(cell: Any) -> Any:
    """A cell's value, be it merged with others or not."""
    return cell.value if isinstance(cell, Merged) else cell


def filled(row: Sequence[Any]) -> int:
    """How many cells hold something."""
    return sum(1 for c in row if c is not None and str(unwrapped(c)).strip())


def _known(row: Sequence[Any], columns: Mapping[str, str]) -> set[str]:
    mapped = {squash(h) for h in columns.values()}
    found = {squash(str(unwrapped(c))) for c in row if isinstance(unwrapped(c), str)}
    return {m for s in found if (m := _MEANING.get(s) or (s if s in mapped else None))}


def squash(header: str) -> str:
    """A header without case, blanks, underscores and what cannot be seen."""
    text = unicodedata.normalize("NFKC", header)
    kept = (c for c in text if unicodedata.category(c) not in ("Cf", "Cc", "Zs", "Zl", "Zp"))
    return "".join(kept).replace("_", "").casefold()


_MEANING = {squash(h): meaning for meaning, headers in MEANINGS.items() for h in headers}


def meaning_of(header: str) -> str | None:
    """What a header means; None: it is a label."""
    return _MEANING.get(squash(header))


def is_plain_label(key: str) -> bool:
    """Whether a label's name reads back as it is when it heads a column."""
    return key == key.strip() and bool(squash(key)) and key.isprintable()
