"""The command line: the same verbs as the library, for people at a terminal and for machines.

Formats and exits; every answer comes from the public functions.
"""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from uaef_frames.commands import cache_app, compare, gate, power, runs_app, session
from uaef_frames.errors import UaefError
from uaef_frames.terminal import (
    complain,
    print_json,
    print_line,
    print_rows,
    print_table,
    show_warning,
)
from uaef_frames.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from uaef_frames.judge import Judge, Progress
    from uaef_frames.store import Run

app = typer.Typer(
    name="uaef-frames",
    help="Evaluate multi-turn AI-agent conversations as dataframes.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _judge(words: str, *names: str, **options: Any) -> Any:
    """An option about the judge; they stand together in the help."""
    return typer.Option(*names, help=words, rich_help_panel="Judge", show_envvar=False, **options)


app.add_typer(cache_app, name="cache")
app.add_typer(runs_app, name="runs")
app.command()(compare)
app.command()(gate)
app.command()(power)
app.command()(session)

Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines instead of tables.")]


@app.command()
def score(
    payloads: Annotated[
        list[str],
        typer.Argument(help="JSON lines of turn payloads: paths or globs (.gz, .zst too)."),
    ],
    ground_truth: Annotated[
        list[str] | None,
        typer.Option("--ground-truth", "-g", help="xlsx, csv, tsv, JSON lines, json or Parquet."),
    ] = None,
    metrics: Annotated[
        str | None,
        typer.Option("--metrics", "-m", help="Metrics or sets of them, separated by commas."),
    ] = None,
    metric_set: Annotated[
        str | None, typer.Option(help="A set of metrics: default, all, deterministic, judge, …")
    ] = None,
    out: Annotated[str, typer.Option("--out", "-o", help="The folder of runs.")] = "runs",
    name: Annotated[str | None, typer.Option(help="Part of the run's id, for people.")] = None,
    adapter: Annotated[str, typer.Option(help="langgraph or openai.")] = "langgraph",
    fail_under: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Exit with 1 if the mean overall score is below this."),
    ] = None,
    on_error: Annotated[
        str, typer.Option(help="reject: keep bad records aside; raise: stop at the first.")
    ] = "reject",
    judge_model: Annotated[
        str | None, _judge("The model that scores judge metrics.", envvar="UAEF_JUDGE_MODEL")
    ] = None,
    judge_base_url: Annotated[
        str | None, _judge("Its endpoint, ending in /v1.", envvar="OPENAI_BASE_URL")
    ] = None,
    judge_concurrency: Annotated[int | None, _judge("The most requests in flight.")] = None,
    judge_rpm: Annotated[float | None, _judge("The most requests a minute.")] = None,
    judge_tpm: Annotated[float | None, _judge("The most tokens a minute.")] = None,
    judge_budget: Annotated[float | None, _judge("The most USD to spend.")] = None,
    judge_price: Annotated[
        str | None, _judge("USD a million tokens: IN,OUT or IN,OUT,CACHED.")
    ] = None,
    judge_votes: Annotated[int | None, _judge("Verdicts a score; the median counts.")] = None,
    judge_temperature: Annotated[float | None, _judge("Sampling temperature.")] = None,
    judge_seed: Annotated[int | None, _judge("Seed, passed on.")] = None,
    judge_max_tokens: Annotated[int | None, _judge("Tokens of one verdict.")] = None,
    judge_max_input_tokens: Annotated[int | None, _judge("Tokens one request may show.")] = None,
    judge_timeout: Annotated[float | None, _judge("Seconds one attempt may take.")] = None,
    judge_retries: Annotated[int | None, _judge("Further attempts after a fault.")] = None,
    judge_quotes: Annotated[
        bool,
        _judge("Whether verdicts must quote what they judge.", "--judge-quotes/--no-judge-quotes"),
    ] = True,
    judge_mode: Annotated[str | None, _judge("live, or batch: the Batch API.")] = None,
    judge_cache: Annotated[Path | None, _judge("The file that keeps verdicts.")] = None,
    no_cache: Annotated[bool, _judge("Keep no verdicts.", "--no-cache")] = False,
    dry_run: Annotated[
        bool, _judge("Print what would be asked, and ask nothing.", "--dry-run")
    ] = False,
    as_json: Json = False,
) -> None:
    """Score a dataset and keep the result as a run.

    The judge's key is read from OPENAI_API_KEY.
    """
    from uaef_frames.dataset import evaluate_dataset

    if on_error not in ("reject", "raise"):
        raise typer.BadParameter("reject or raise", param_hint="--on-error")
    wanted = None if metrics is None else [m.strip() for m in metrics.split(",") if m.strip()]
    bar = _Progress(quiet=as_json)
    judge = _judge_of(
        {
            "model": judge_model,
            "base_url": judge_base_url,
            "concurrency": judge_concurrency,
            "requests_per_minute": judge_rpm,
            "tokens_per_minute": judge_tpm,
            "budget_usd": judge_budget,
            "price": judge_price,
            "votes": judge_votes,
            "temperature": judge_temperature,
            "seed": judge_seed,
            "max_tokens": judge_max_tokens,
            "max_input_tokens": judge_max_input_tokens,
            "timeout_s": judge_timeout,
            "max_retries": judge_retries,
            "mode": judge_mode,
            "cache": judge_cache,
        },
        check_quotes=judge_quotes,
        no_cache=no_cache,
        progress=bar.judged,
    )
    if dry_run:
        _print_plan(payloads, ground_truth, wanted, metric_set, adapter, judge, as_json=as_json)
        return
    try:
        with bar as progress:
            run = evaluate_dataset(
                payloads,
                ground_truth or None,
                wanted,
                metric_set,
                out=out,
                name=name,
                adapter=adapter,
                on_error="raise" if on_error == "raise" else "reject",
                judge=judge or False,
                progress=progress,
            )
    except KeyboardInterrupt:
        kept = "" if judge is None or judge.cache is None else "; the verdicts that came are"
        complain(f"interrupted; no run was kept{kept}")
        raise typer.Exit(130) from None
    print_run(run, as_json=as_json)
    overall = run.info["mean_overall"]
    if fail_under is not None and (overall is None or overall < fail_under):
        shown = (
            "nothing was scored" if overall is None else f"the mean overall score is {overall:.3f}"
        )
        complain(f"{shown}, below --fail-under {fail_under:g}")
        raise typer.Exit(1)


def _judge_of(
    given: Mapping[str, Any], *, check_quotes: bool, no_cache: bool, progress: Any
) -> Judge | None:
    """The judge of the flags; None where no model is named."""
    from uaef_frames.judge import Judge

    settings = {k: v for k, v in given.items() if v is not None}
    if "model" not in settings:
        others = sorted(set(settings) - {"base_url"})
        if others or no_cache:
            complain("no --judge-model: the other --judge-… settings are not used")
        return None
    if "price" in settings:
        try:
            settings["price"] = tuple(float(p) for p in settings["price"].split(","))
        except ValueError:
            raise typer.BadParameter(
                "IN,OUT in USD a million tokens", param_hint="--judge-price"
            ) from None
    if no_cache:
        settings["cache"] = None
    return Judge(**settings, check_quotes=check_quotes, progress=progress)


def _print_plan(
    payloads: list[str],
    ground_truth: list[str] | None,
    wanted: list[str] | None,
    metric_set: str | None,
    adapter: str,
    judge: Judge | None,
    *,
    as_json: bool,
) -> None:
    from uaef_frames.planning import plan

    found = plan(payloads, ground_truth or None, wanted, metric_set, adapter=adapter, judge=judge)
    if as_json:
        print_json(
            {
                "calls": found.calls,
                "cached": found.cached,
                "input_tokens": found.input_tokens,
                "output_tokens": found.output_tokens,
                "cost_usd": found.cost_usd,
                "duration_s": found.duration_s,
                "metrics": found.table.to_dicts(),
            }
        )
        return
    print_table(found.table)
    print_line(str(found))
    print_line("nothing was sent (--dry-run)")


@app.command()
def show(
    run: Annotated[str, typer.Argument(help="The folder of a run.")],
    worst: Annotated[int, typer.Option(min=0, help="How many of the worst turns.")] = 5,
    as_json: Json = False,
) -> None:
    """Show a run: its dimensions, its metrics and its worst turns."""
    from uaef_frames.store import open_run

    opened = open_run(run)
    print_run(opened, as_json=as_json, worst=worst)


@app.command()
def validate(
    file: Annotated[
        str, typer.Argument(help="Ground truth: xlsx, csv, tsv, jsonl, json, parquet.")
    ],
    sheet: Annotated[str | None, typer.Option(help="The sheet of a workbook; * for all.")] = None,
    column: Annotated[
        list[str] | None,
        typer.Option(help="MEANING=HEADER, where headers are called otherwise; may be repeated."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Check ground truth: how its columns are understood, and every problem with its cell."""
    from uaef_frames.sheets import validate_ground_truth

    pairs = [c.partition("=") for c in column or []]
    if not all(sep for _, sep, _ in pairs):
        raise typer.BadParameter("MEANING=HEADER", param_hint="--column")
    report = validate_ground_truth(file, sheet, columns={m: h for m, _, h in pairs})
    if as_json:
        print_json(
            {
                "valid": report.valid,
                "headline": report.headline,
                "rows": report.rows,
                "conversations": report.conversations,
                "columns": report.columns,
                "problems": [{**asdict(p), "cell": p.cell} for p in report.problems],
                "preview": report.preview.to_dicts(),
            }
        )
    else:
        print_line(str(report))
        if report.preview.height:
            print_table(report.preview)
    if not report.valid:
        raise typer.Exit(1)


@app.command()
def sql(
    run: Annotated[str, typer.Argument(help="The folder of a run.")],
    query: Annotated[str, typer.Argument(help="One SELECT over the run's tables.")],
    as_json: Json = False,
) -> None:
    """Ask a run in SQL (DuckDB, read-only)."""
    from uaef_frames.store import open_run

    frame = open_run(run).sql(query)
    if as_json:
        print_json(frame.to_dicts())
    else:
        print_table(frame)


@app.command()
def agreement(
    run: Annotated[str, typer.Argument(help="The folder of a run.")],
    labels: Annotated[str, typer.Argument(help="Labels of people: csv, xlsx, jsonl or parquet.")],
    metric: Annotated[str | None, typer.Option(help="Only this metric.")] = None,
    as_json: Json = False,
) -> None:
    """Hold a judge's scores against the labels of people."""
    from uaef_frames.store import agreement as held_against

    found = held_against(run, labels, metric=metric)
    if as_json:
        print_json(found.to_dict())
        return
    print_line(repr(found))
    print_table(found.disagreements())


@app.command()
def export(
    run: Annotated[str, typer.Argument(help="The folder of a run.")],
    path: Annotated[Path, typer.Argument(help="An .xlsx file, or a folder for csv files.")],
    tables: Annotated[str | None, typer.Option(help="Tables, separated by commas.")] = None,
) -> None:
    """Write a run for a spreadsheet: one sheet a table; nothing in it runs when opened."""
    from uaef_frames.export import export_run

    wanted = None if tables is None else [t.strip() for t in tables.split(",") if t.strip()]
    print_line(str(export_run(run, path, wanted)))


@app.command()
def metrics(
    as_json: Json = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print a Markdown table.")] = False,
) -> None:
    """List every metric."""
    from uaef_frames.metrics import list_metrics

    specs = list_metrics()
    columns = ["metric", "dimension", "phase", "by", "ground truth", "constants", "description"]
    rows = [
        [s.name, s.dimension, s.phase, s.by, s.ground_truth, _constants(s.constants), s.description]
        for s in specs
    ]
    if as_json:
        keys = [c.replace(" ", "_") for c in columns]
        print_json(
            [
                {**dict(zip(keys, row, strict=True)), "constants": dict(s.constants)}
                for s, row in zip(specs, rows, strict=True)
            ]
        )
    elif markdown:
        lines = [columns, ["---"] * len(columns), *([f"`{r[0]}`", *r[1:]] for r in rows)]
        sys.stdout.writelines("| " + " | ".join(line) + " |\n" for line in lines)
    else:
        print_rows(columns, rows)


def _constants(constants: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{k} = {v:g}" if isinstance(v, float) else f"{k} = {v}" for k, v in constants.items()
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line: 0 well, 1 a failed threshold or error, 2 bad usage, 130 Ctrl-C."""
    import warnings

    warnings.showwarning = show_warning
    try:
        app(args=arguments, standalone_mode=True)
    except UaefError as error:
        complain(str(error))
        usage = isinstance(error, ValueError) and type(error).__name__ == "ConfigError"
        raise SystemExit(2 if usage else 1) from None
    except BaseException as error:
        # Polars panics over dates that Python does not have; anything else is a fault of ours.
        if type(error).__name__ != "PanicException":
            raise
        complain(f"the answer cannot be shown: {error}; cast it in the query, such as x::varchar")
        raise SystemExit(1) from None


def print_run(run: Run, *, as_json: bool = False, worst: int = 0) -> None:
    """A run as a person reads it at a terminal, or as JSON."""
    if as_json:
        info = {k: v for k, v in run.info.items() if k != "config"}
        print_json(
            {
                **info,
                "path": str(run.path),
                "dimensions": run.dimension_summary().to_dicts(),
                "metrics_summary": run.summary().to_dicts(),
            }
        )
        return
    from uaef_frames.look.tables import marked

    print_line(repr(run))
    print_table(run.dimension_summary())
    print_table(marked(run.summary()))
    if worst:
        print_line("worst turns")
        print_table(run.worst_turns(worst))
    joined = run.join_report
    if joined is not None:
        print_line(str(joined))
    print_line(f"{run.path}")
    print_line(f'ask more: uaef-frames sql {run.path} "select * from session_scores limit 5"')


class _Progress:
    """A bar on a terminal, nothing anywhere else."""

    def __init__(self, *, quiet: bool) -> None:
        self._bar: Any = None
        self._task: Any = None
        self._quiet = quiet

    def __enter__(self) -> Any:
        from rich.console import Console

        console = Console(stderr=True)
        if self._quiet or not console.is_terminal:
            return None
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )

        columns = [
            TextColumn("scoring turns"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[judge]}", markup=False),
        ]
        self._bar = Progress(*columns, console=console, transient=True)
        self._bar.start()
        self._task = self._bar.add_task("turns", total=None, judge="")
        return self._advance

    def judged(self, progress: Progress) -> None:
        """Show where the judge stands, beside the bar."""
        if self._bar is not None:
            self._bar.update(self._task, judge=f" {progress}")

    def _advance(self, done: int, total: int) -> None:
        self._bar.update(self._task, completed=done, total=total)

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    if version:
        print_line(__version__)
        raise typer.Exit


if __name__ == "__main__":
    main()
