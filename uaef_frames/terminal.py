"""Words and tables at a terminal: for people, for machines, and safe from what agents wrote.

Prints; decides nothing.
"""

from __future__ import annotations

import re
import sys
from decimal import Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl


def print_table(frame: pl.DataFrame) -> None:
    """A frame as a table, every cell as text that cannot steer a terminal."""
    rows = [[cell(v) for v in row] for row in frame.iter_rows()]
    numeric = {n for n, t in frame.schema.items() if t.is_numeric()}
    print_rows(frame.columns, rows, numeric)


def print_rows(
    columns: Sequence[str], rows: Sequence[Sequence[str]], numeric: set[str] | None = None
) -> None:
    """Rows of text as a table."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        side = "right" if column in (numeric or ()) else "left"
        table.add_column(Text(cell(column)), justify=side, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console().print(table)


def cell(value: object) -> str:
    """A cell as text that cannot steer a terminal: agents' words come here."""
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.3f}"
    text = str(value)
    return one_line(text[:200]) + ("…" if len(text) > 200 else "")


def visible(text: str) -> str:
    """Text without anything that a terminal would obey, line breaks aside."""
    return "".join(c if c.isprintable() or c == "\n" else " " for c in text)


def one_line(text: str) -> str:
    """`visible` text without line breaks: with one, agents could imitate the next line."""
    return visible(text).replace("\n", " ")


def print_line(text: str) -> None:
    """A line, as it stands."""
    console().print(visible(text), markup=False, emoji=False, highlight=False, soft_wrap=True)


def print_json(value: object) -> None:
    """JSON for machines."""
    import orjson

    octets = orjson.dumps(
        value, default=_plain, option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS
    )
    # JSON escapes the control characters of ASCII; terminals obey some that stand behind them.
    text = re.sub("[\x7f-\x9f]", lambda found: f"\\u{ord(found[0]):04x}", octets.decode())
    sys.stdout.write(text + "\n")


def _plain(value: object) -> object:
    """A decimal is a number, the rest a text."""
    return float(value) if isinstance(value, Decimal) else str(value)


def complain(text: str) -> None:
    """An error, on stderr."""
    tell(f"error: {text}")


def show_warning(message: Warning | str, *_: Any) -> None:
    """A warning as the command line shows it."""
    tell(f"warning: {message}")


def tell(text: str) -> None:
    """A line on stderr."""
    from rich.console import Console

    said = Console(stderr=True, emoji=False, markup=False, highlight=False)
    said.print(visible(text), soft_wrap=True)


def console() -> Any:
    """Where tables go."""
    from rich.console import Console

    found = Console()
    # A pipe has no width; a table cut at 80 columns helps nobody who reads it from a file.
    return found if found.is_terminal else Console(width=200)
