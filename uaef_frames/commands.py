"""Sub-commands of the command line: `runs` over a store, `cache` over the verdicts that are
kept.
"""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from uaef_frames.terminal import complain, print_json, print_line, print_table

if TYPE_CHECKING:
    from collections.abc import Generator

    from uaef_frames.judge.cache import AnswerCache

Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines instead of tables.")]

cache_app = typer.Typer(
    help="Look at the verdicts that are kept, or forget them.", no_args_is_help=True
)

CacheFile = Annotated[
    Path | None, typer.Option("--judge-cache", help="The file; default: the one that scoring uses.")
]


@cache_app.command("stats")
def cache_stats(judge_cache: CacheFile = None, as_json: Json = False) -> None:
    """Verdicts that are kept, by model and metric."""
    import polars as pl

    with _open_cache(judge_cache) as cache:
        rows = cache.stats()
        if as_json:
            print_json({"path": str(cache.path), "verdicts": rows})
            return
        if rows:
            when = [
                pl.from_epoch(pl.col(c), time_unit="s").dt.to_string("%F %T")
                for c in ("first_at", "last_at")
            ]
            print_table(pl.DataFrame(rows, infer_schema_length=None).with_columns(when))
        total = sum(int(str(r["verdicts"])) for r in rows)
        print_line(f"{total:,} verdicts in {cache.path}")


@cache_app.command("clear")
def cache_clear(
    judge_cache: CacheFile = None,
    model: Annotated[str | None, typer.Option(help="Only verdicts of this model.")] = None,
    metric: Annotated[str | None, typer.Option(help="Only verdicts of this metric.")] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Forget kept verdicts. What was paid for them is gone."""
    with _open_cache(judge_cache) as cache:
        if not yes:
            typer.confirm(f"Forget verdicts in {cache.path}?", abort=True)
        gone = cache.clear(model=model, metric=metric)
        print_line(f"{gone:,} verdicts forgotten")


@contextmanager
def _open_cache(path: Path | None) -> Generator[AnswerCache]:
    from uaef_frames.judge.cache import AnswerCache
    from uaef_frames.judge.config import cache_path

    found = cache_path("auto" if path is None else path)
    if found is None or not found.exists():
        complain(f"there is no verdict cache at {found}")
        raise typer.Exit(1)
    cache = AnswerCache(found)
    try:
        yield cache
    finally:
        cache.close()


runs_app = typer.Typer(help="The runs in a folder.", no_args_is_help=True)

Folder = Annotated[Path, typer.Option("--store", help="The folder of runs.")]


@runs_app.command("list")
def runs_list(store: Folder = Path("runs"), as_json: Json = False) -> None:
    """Every run that is whole, the oldest first."""
    from uaef_frames.store import open_store

    found = open_store(store).runs()
    shown = found.select(
        "run_id",
        "created_at",
        "num_sessions",
        "num_turns",
        "num_rejects",
        "mean_overall",
        "pass_rate",
    )
    if as_json:
        print_json(shown.to_dicts())
    else:
        print_table(shown)


@runs_app.command("rm")
def runs_rm(
    run: Annotated[str, typer.Argument(help="Its id, or as much of it as only one has.")],
    store: Folder = Path("runs"),
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Remove a run."""
    from uaef_frames.store import open_store

    opened = open_store(store)
    name = opened.run(run).run_id
    if not yes:
        typer.confirm(f"Remove {name}?", abort=True)
    print_line(f"removed {opened.remove(name)}")


@runs_app.command("verify")
def runs_verify(
    run: Annotated[str | None, typer.Argument(help="One run; default: all.")] = None,
    store: Folder = Path("runs"),
) -> None:
    """Check runs against their manifests; 1 if anything is not as it was written."""
    from uaef_frames.store import open_store

    found = open_store(store).verify(run)
    for name, problems in found.items():
        print_line(f"{name}: {'; '.join(problems) or 'as it was written'}")
    if any(found.values()):
        raise typer.Exit(1)


@runs_app.command("sql")
def runs_sql(
    query: Annotated[str, typer.Argument(help="One SELECT over the tables of all runs.")],
    store: Folder = Path("runs"),
    as_json: Json = False,
) -> None:
    """Ask all runs in SQL (DuckDB, read-only); every table has a run_id."""
    from uaef_frames.store import open_store

    frame = open_store(store).sql(query)
    if as_json:
        print_json(frame.to_dicts())
    else:
        print_table(frame)
