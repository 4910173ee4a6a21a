"""Commands beside scoring: `runs` over a store, `session` in one run, `compare`, `gate` and `power`
over several, `cache` over the verdicts that are kept.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from uaef_frames.files import write_whole
from uaef_frames.terminal import complain, one_line, print_json, print_line, print_table, tell

if TYPE_CHECKING:
    from collections.abc import Generator

    from uaef_frames.judge.cache import AnswerCache
    from uaef_frames.store.compare import Unit

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

Folder = Annotated[str, typer.Option("--store", help="The folder of runs.")]


@runs_app.command("list")
def runs_list(store: Folder = "runs", as_json: Json = False) -> None:
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
    elif shown.is_empty():
        tell(f"there is no run in {store}")
    else:
        print_table(shown)


@runs_app.command("rm")
def runs_rm(
    run: Annotated[str, typer.Argument(help="Its id, or as much of it as only one has.")],
    store: Folder = "runs",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Remove a run."""
    from uaef_frames.store import open_store

    opened = open_store(store)
    name = opened.named(run)
    if not yes:
        typer.confirm(f"Remove {name}?", abort=True)
    print_line(f"removed {opened.remove(name)}")


@runs_app.command("verify")
def runs_verify(
    run: Annotated[str | None, typer.Argument(help="One run; default: all.")] = None,
    store: Folder = "runs",
) -> None:
    """Check runs against their manifests; 1 if anything is not as it was written."""
    from uaef_frames.store import open_store

    found = open_store(store).verify(run)
    if not found:
        complain(f"there is no run in {store}")
        raise typer.Exit(1)
    for name, problems in found.items():
        print_line(f"{name}: {'; '.join(problems) or 'as it was written'}")
    if any(found.values()):
        raise typer.Exit(1)


@runs_app.command("sql")
def runs_sql(
    query: Annotated[str, typer.Argument(help="One SELECT over the tables of all runs.")],
    store: Folder = "runs",
    as_json: Json = False,
) -> None:
    """Ask all runs in SQL (DuckDB, read-only); every table has a run_id."""
    from uaef_frames.store import open_store

    frame = open_store(store).sql(query)
    if as_json:
        print_json(frame.to_dicts())
    else:
        print_table(frame)


@runs_app.command("export")
def runs_export(
    run: Annotated[str, typer.Argument(help="Its id, or as much of it as only one has.")],
    path: Annotated[Path, typer.Argument(help="An .xlsx file, or a folder for csv files.")],
    store: Folder = "runs",
) -> None:
    """Write a run's tables for people: a workbook, or csv files."""
    from uaef_frames.export import export_run
    from uaef_frames.store import open_store

    print_line(f"{export_run(open_store(store).run(run), path)}")


@runs_app.command("history")
def runs_history(
    metric: Annotated[str, typer.Argument(help="A metric, a dimension, or overall.")] = "overall",
    store: Folder = "runs",
    as_json: Json = False,
) -> None:
    """A score over time, with its 95 % interval: one row a run."""
    from uaef_frames.store import open_store

    found = open_store(store).history(metric)
    if as_json:
        print_json(found.to_dicts())
    else:
        print_table(found)


@runs_app.command("attach")
def runs_attach(store: Folder = "runs") -> None:
    """Write attach.sql, with which DuckDB's own shell opens the store."""
    from uaef_frames.store import open_store

    print_line(f"duckdb -init {open_store(store).write_attach()}")


def compare(
    run_a: Annotated[str, typer.Argument(help="The folder of a run.")],
    run_b: Annotated[str, typer.Argument(help="The folder of another.")],
    as_json: Json = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print a Markdown table.")] = False,
    unit: Annotated[str, typer.Option(help="What is paired: session, or turn.")] = "session",
    bootstrap: Annotated[int, typer.Option(help="Resamples for the intervals; 0: t test.")] = 0,
    changed: Annotated[
        int, typer.Option(min=0, help="Show so many sessions that changed most.")
    ] = 5,
) -> None:
    """Compare two runs over the sessions that both have, with intervals and p values."""
    from uaef_frames.store import compare as compared

    found = compared(run_a, run_b, unit=cast("Unit", unit), bootstrap=bootstrap)
    most = found.changed_most(changed)
    if as_json:
        print_json({**found.to_dict(), "changed_most": most.to_dicts()})
        return
    if markdown:
        sys.stdout.write(found.to_markdown())
        return
    print_table(found.readable())
    if most.height:
        print_line("changed most")
        print_table(most)
    for line in found.remarks:
        print_line(one_line(f"note: {line}"))


def gate(
    run: Annotated[str, typer.Argument(help="The folder of the run to pass.")],
    against: Annotated[str | None, typer.Option(help="The folder of the run before.")] = None,
    fail_if: Annotated[
        list[str] | None, typer.Option(help='Such as "accuracy drops 0.02 with p<0.05".')
    ] = None,
    fail_under: Annotated[
        list[str] | None, typer.Option(help="Such as overall=0.7: a metric, dimension or overall.")
    ] = None,
    max_missing: Annotated[
        int | None, typer.Option(help="Sessions of the run before that may be missing; default 0.")
    ] = None,
    rules: Annotated[
        Path | None, typer.Option(help="A YAML file with fail_if, fail_under and max_missing.")
    ] = None,
    junit: Annotated[Path | None, typer.Option(help="Write JUnit XML there.")] = None,
    markdown: Annotated[Path | None, typer.Option(help="Write a Markdown table there.")] = None,
    annotations: Annotated[
        bool, typer.Option("--annotations", help="Print GitHub annotations.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Hold a run against rules; 1 if one is not passed."""
    from uaef_frames.store import gate as held

    found = held(
        run,
        against=against,
        fail_if=fail_if or (),
        fail_under=fail_under or (),
        max_missing=max_missing,
        rules=rules,
    )
    if junit is not None:
        _write(junit, found.to_junit())
    if markdown is not None:
        _write(markdown, found.to_markdown())
    if as_json:
        print_json(found.to_dict())
    elif annotations:
        print_line(found.annotations().rstrip("\n"))
    else:
        print_table(found.table)
        for note in found.notes:
            print_line(one_line(f"note: {note}"))
    if not found.passed:
        raise typer.Exit(1)


def _write(path: Path, text: str) -> None:
    """A file for people; half of a surrogate pair, which agents may write, becomes a `?` in it."""
    write_whole(path, text.encode("utf-8", "replace"))


def session(
    run: Annotated[str, typer.Argument(help="The folder of a run.")],
    session_id: Annotated[str, typer.Argument(help="The conversation.")],
    html: Annotated[Path | None, typer.Option(help="Write a page there instead.")] = None,
) -> None:
    """Show one conversation: what was said, called, expected and scored, turn by turn."""
    from uaef_frames.store import open_run

    view = open_run(run).session(session_id)
    if html is None:
        print_line(str(view))
        return
    _write(html, view.to_html())
    print_line(str(html))


def power(
    run: Annotated[str, typer.Argument(help="The folder of a run.")],
    metric: Annotated[str, typer.Argument(help="A metric, a dimension, or overall.")],
    difference: Annotated[float, typer.Argument(help="The difference to be seen, such as 0.02.")],
    against: Annotated[
        str | None, typer.Option(help="Another run: their differences tell how much they vary.")
    ] = None,
    chance: Annotated[float, typer.Option("--power", help="The chance to see it.")] = 0.8,
    alpha: Annotated[float, typer.Option(help="The p value below which it is seen.")] = 0.05,
) -> None:
    """How many sessions a comparison needs to see a difference."""
    from uaef_frames.store import compare, open_run
    from uaef_frames.store import power as needed

    opened = open_run(run) if against is None else compare(against, run)
    print_line(str(needed(opened, metric, difference, power=chance, alpha=alpha)))
