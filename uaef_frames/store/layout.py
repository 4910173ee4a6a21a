"""FORMAT.md: what stands in a run on disk, written from the schemas.

`python -m uaef_frames.store.layout > FORMAT.md`
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import polars as pl

from uaef_frames import schemas
from uaef_frames.store.manifest import FORMAT, MANIFEST
from uaef_frames.store.views import VIEWS, connect

if TYPE_CHECKING:
    import dataframely as dy

_HEAD = f"""# A run on disk

Written from `uaef_frames.schemas` by `python -m uaef_frames.store.layout`; version {FORMAT} of the
layout.

A store is a folder of runs, a run a folder of Parquet files (zstd; text that repeats has a
dictionary) and `{MANIFEST}`:

```
runs/
  20261201-101500-demo-1a2b3c/     the time it began (UTC), its name, six random digits
    {MANIFEST}                  written last: a folder without it is no run
    turns.parquet … rejects.parquet
  attach.sql                       written on request: duckdb -init runs/attach.sql
```

- Every table is there in every run, with no rows where there is nothing to tell.
- Rows stand session by session, in the order in which sessions were first seen; a row group holds
  whole sessions (one batch of the evaluation), so a filter on `session_id` reads little.
- What is being written stands in a hidden folder (`.RUN.draft-HOST.PID`), is synced to the disk and
  then renamed: readers see a run whole or not at all. Drafts of processes that died are removed by
  the next writer on that machine.
- A run that is removed is first renamed to `.gone-RUN.PID`; whoever writes or removes next takes
  away what is left of such a folder.
- Later versions add tables and columns and never change what one means; what an older run lacks is
  read as empty, or null. A change of meaning would raise `format`, and readers refuse a format that
  they do not know.
- Scores lie in [0, 1] and 1 is good. **Null is never zero**: a row without a score says why in
  `warning`.

## {MANIFEST}

| key | what it holds |
|---|---|
| `run_id` | the run's name |
| `format` | the version of this layout |
| `package` | the version of the package that wrote it |
| `tables` | of each table `rows`, `bytes` and `sha256` (`uaef-frames runs verify` compares) |
| `about.created_at` | when the run began |
| `about.config` | constants, weights, thresholds, judges, and the hashes of rubrics |
| `about.inputs` | of each input file `bytes` and a hash of its ends |

## Tables
"""


def layout() -> str:
    """The text of FORMAT.md."""
    parts = [_HEAD]
    for name, schema in schemas.RUN_TABLES.items():
        parts.append(_table(name, schema))
    parts.append(
        '## Views\n\n`open_store("runs").sql(…)` and `uaef-frames sql` have every table above, '
        "each with a `run_id`, and these:\n"
    )
    connection = connect({}, {*schemas.RUN_TABLES, *VIEWS})
    for name in VIEWS:
        described = connection.sql(f"describe {name}").pl()
        rows = [f"| `{c}` | {t} |" for c, t in described.select(pl.nth(0), pl.nth(1)).iter_rows()]
        about = _VIEWS[name]
        parts.append(
            "\n".join([f"### {name}\n\n{about}\n", "| column | type |\n|---|---|", *rows, ""])
        )
    connection.close()
    return "\n".join(parts)


_VIEWS = {
    "turn_scores": "Each score of a turn beside its query and response.",
    "session_scores": "The mean of each metric in each session; null where no turn is scored.",
    "metric_summary": (
        "The table `metrics`: each metric in each run, sessions counting once. For runs that were "
        "written before there was that table, it is computed from `scores`."
    ),
    "worst_turns": "Scored turns, the lowest first; add a `limit`.",
    "session_timeline": (
        "One row a turn: what was said, what it took, its mean score, its weakest metric."
    ),
    "judge_spend": (
        "What was asked, the verdicts that came (of several votes, one), tokens and USD by metric "
        "and model (null: none answered); `kept` came from the cache."
    ),
    "tool_confusion": (
        "Tools expected × called, over the turns and conversations whose tools are stated. A call "
        "meets an expected one of the same name; those left over meet in their order. Null "
        "`called`: expected, and not called; null `expected`: called, and not expected."
    ),
}


def _table(name: str, schema: type[dy.Schema]) -> str:
    about = (schema.__doc__ or "").strip()
    rows = [
        f"| `{column}` | {_kind(held.dtype)} | {'yes' if held.nullable else 'no'} "
        f"| {(held.description or '').replace('|', chr(92) + '|')} |"
        for column, held in schema.columns().items()
    ]
    key = ", ".join(f"`{k}`" for k in schema.primary_key())
    unique = f" A row is known by {key}." if key else ""
    return "\n".join(
        [
            f"### {name}\n\n{about}{unique}\n",
            "| column | type | may be null | what it holds |\n|---|---|---|---|",
            *rows,
            "",
        ]
    )


def _kind(kind: pl.DataType) -> str:
    if isinstance(kind, pl.Enum):
        return "text"  # as Parquet has it
    if isinstance(kind, pl.List):
        return "list of text"
    if isinstance(kind, pl.Datetime):
        return "UTC time, microseconds"
    names = {pl.Int64: "int64", pl.Float64: "float64", pl.Boolean: "boolean"}
    return next((n for t, n in names.items() if kind == t), "text")


if __name__ == "__main__":
    sys.stdout.write(layout())
