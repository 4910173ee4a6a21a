"""What every picture needs: the libraries, and text that does no harm in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl
import polars.selectors as cs

from uaef_frames.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

_UNSEEN = r"[\p{Cc}\p{Zl}\p{Zp}\x{FFFE}\x{FFFF}\x{202A}-\x{202E}\x{2066}-\x{2069}]"
"""Control characters, separators of lines and paragraphs, what is no character, and what turns the
direction of the text around it."""
LONGEST = 200
"""Characters of a text in a tooltip."""
LABEL = 60
"""Characters of a name beside an axis."""
_MOST = 500
"""Characters of any text: a name of a million takes minutes to be laid out."""


def library() -> Any:
    """altair, loaded on first use.

    Raises:
        ConfigError: It is not installed.
    """
    try:
        import altair
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"plots need {error.name}, which is not installed; "
            "python -m pip install 'uaef-frames[look]'"
        ) from error
    return altair


def data(frame: pl.DataFrame) -> Any:
    """A frame as the data of a chart.

    A chart writes its data into a script of the page that shows it, as JSON in which `</script>`
    stands as it is: whoever names a session could run code there. So no text keeps its `<`, nor a
    character that SVG cannot hold: one in a title would end the process that saves the chart.
    Numbers that are none, which JSON does not have, are null.
    """
    number = cs.float()
    safe = frame.with_columns(
        pl.col(pl.String).map_batches(_safe, return_dtype=pl.String),
        pl.when(number.is_finite()).then(number).name.keep(),
    )
    return library().Data(values=safe.to_dicts())


def seconds(column: str) -> pl.Expr:
    """A duration as a chart can show it: null where clocks gave none, or less than none."""
    value = pl.col(column)
    return pl.when(value.is_finite() & (value >= 0)).then(value).alias(column)


def words(text: str) -> str:
    """A text for a title or a label."""
    return _safe(pl.Series([text])).item()


def short(column: str, longest: int = LONGEST) -> pl.Expr:
    """A text that may be long, for a tooltip."""
    text = pl.col(column)
    cut = text.str.slice(0, longest) + "…"
    return pl.when(text.str.len_chars() > longest).then(cut).otherwise(text).alias(column)


def rows_of(alt: Any, frame: pl.DataFrame, column: str, title: str | None = None) -> Any:
    """A row a name, from the top in the frame's order; the names are `short` to LABEL.

    The library's own limit would cut a name by half characters, which ends in an error.
    """
    order = [words(name) for name in frame[column].unique(maintain_order=True)]
    return alt.Y(f"{column}:N", sort=order, title=title, axis=alt.Axis(labelLimit=0))


def tooltips(alt: Any, fields: Mapping[str, str]) -> list[Any]:
    """Tooltips by field, each with its title; figures with three places."""
    return [
        alt.Tooltip(field, title=title, **({"format": ".3f"} if field.endswith(":Q") else {}))
        for field, title in fields.items()
    ]


def _safe(text: pl.Series) -> pl.Series:
    text = text.str.slice(0, _MOST)
    return text.str.replace_all("<", "‹", literal=True).str.replace_all(_UNSEEN, " ")
