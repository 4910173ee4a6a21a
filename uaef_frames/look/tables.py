"""A run's summary as a table for a notebook."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from uaef_frames.errors import ConfigError

if TYPE_CHECKING:
    import great_tables

_LONGEST = 1_000
"""Characters of a cell that a notebook shows."""
PASS, FAIL, NONE = "✓", "✗", "–"


def marked(summary: pl.DataFrame) -> pl.DataFrame:
    """The summary for reading: `scored` as "34 of 36", `passed` as a mark."""
    coverage = pl.format("{} of {}", "scored", "measured")
    mark = (
        pl.when("passed").then(pl.lit(PASS)).when(~pl.col("passed")).then(pl.lit(FAIL))
    ).otherwise(pl.lit(NONE))
    return summary.with_columns(scored=coverage, passed=mark).drop("measured")


def whole(frame: pl.DataFrame) -> str:
    """A frame as HTML with all its rows and all its words, escaped."""
    with pl.Config(
        tbl_rows=-1,
        tbl_cols=-1,
        fmt_str_lengths=_LONGEST,
        tbl_hide_column_data_types=True,
        tbl_hide_dataframe_shape=True,
    ):
        return frame._repr_html_()  # pyright: ignore[reportPrivateUsage]


def summary_table(summary: pl.DataFrame, title: str, subtitle: str = "") -> great_tables.GT:
    """A summary as a table: metrics by dimension, with interval, coverage, threshold, pass mark.

    Args:
        summary: As `Run.summary()` gives it.
        title: Above the table.
        subtitle: Below the title.

    Raises:
        ConfigError: great_tables is not installed.
    """
    try:
        import great_tables
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"this table needs {error.name}, which is not installed; "
            "python -m pip install 'uaef-frames[look]'"
        ) from error
    spans = [
        NONE if low is None else f"{low:.3f} – {high:.3f}"
        for low, high in summary.select("low", "high").rows()
    ]
    shown = marked(summary).with_columns(
        pl.Series("low", spans, dtype=pl.String), pl.col("why_null").fill_null("")
    )
    made: Any = great_tables.GT(
        shown.drop("high"),
        rowname_col="metric",
        groupname_col="dimension",
    )
    return (
        made.tab_header(title=title, subtitle=subtitle)
        .fmt_number(columns=["mean", "lowest"], decimals=3)
        .fmt_number(columns="threshold", decimals=2)
        .sub_missing(missing_text=NONE)
        .cols_label(low="95 %", passed="", why_null="no score because")
        .cols_align(align="center", columns=["low", "scored", "passed"])
        .tab_style(
            style=great_tables.style.text(color="#b3261e", weight="bold"),
            locations=great_tables.loc.body(columns="passed", rows=pl.col("passed") == FAIL),
        )
        .tab_options(table_font_size="13px", data_row_padding="3px", container_width="100%")
    )
