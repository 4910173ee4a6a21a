"""Views over a store: what people ask, as SQL over the tables of all its runs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import polars as pl

from uaef_frames import schemas
from uaef_frames.errors import StoreError
from uaef_frames.store.manifest import MANIFEST

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    import duckdb

VIEWS: dict[str, str] = {
    "turn_scores": """
        select s.*, t.turn_index, t.query, t.response
        from scores s join turns t using (run_id, session_id, turn_id)
    """,
    "session_scores": """
        select run_id, session_id, metric, any_value(dimension) as dimension,
               avg(score) as score, count(score) as scored, count(*) as measured
        from scores group by run_id, session_id, metric
    """,
    "metric_summary": """
        select run_id, metric, dimension, mean, sd, lowest, sessions_scored, sessions, scored,
               measured, why_null
        from metrics
    """,
    "worst_turns": """
        select run_id, session_id, turn_id, metric, score, reasoning
        from scores where score is not null and turn_id is not null
        order by score, run_id, session_id, turn_id, metric
    """,
    "session_timeline": """
        select t.run_id, t.session_id, t.turn_id, t.turn_index, t.query, t.response, t.latency_s,
               t.input_tokens, t.output_tokens, t.cost_usd, s.mean_score, s.lowest_metric
        from turns t left join (
            select run_id, session_id, turn_id, avg(score) as mean_score,
                   arg_min(metric, score) as lowest_metric
            from scores where turn_id is not null group by run_id, session_id, turn_id
        ) s using (run_id, session_id, turn_id)
    """,
    "judge_spend": """
        select run_id, metric, model, count(*) as asked,
               count(*) filter (where warning is null or warning not in
                   ('api_error', 'invalid_verdict', 'budget_exhausted')) as verdicts,
               count(*) filter (where cached) as kept,
               sum(input_tokens)::bigint as input_tokens,
               sum(output_tokens)::bigint as output_tokens, sum(cost_usd) as cost_usd
        from scores where request_key is not null group by run_id, metric, model
    """,
    # Calls of a turn meet expected ones of the same name; what is left over meets in its order.
    "tool_confusion": """
        with wanted as (
            select *, row_number() over (
                partition by run_id, session_id, turn_id, name order by call_index) as nth
            from expected_tool_calls
        ), called as (
            select e.run_id, e.session_id, e.turn_id, c.name, row_number() over (
                partition by e.run_id, e.session_id, e.turn_id, c.name
                order by c.turn_id, c.call_index) as nth,
                row_number() over (partition by e.run_id, e.session_id, e.turn_id
                order by c.turn_id, c.call_index) as call_index
            from expected e join tool_calls c
              on e.tools_stated and e.run_id = c.run_id and e.session_id = c.session_id
             and (e.turn_id is null or e.turn_id = c.turn_id)
        ), met as (
            select coalesce(w.run_id, c.run_id) as run_id,
                   coalesce(w.session_id, c.session_id) as session_id,
                   case when w.run_id is null then c.turn_id else w.turn_id end as turn_id,
                   w.name as expected, c.name as called, w.call_index as place_expected,
                   c.call_index as place_called
            from wanted w full join called c
              on w.run_id = c.run_id and w.session_id = c.session_id and w.name = c.name
             and w.nth = c.nth and w.turn_id is not distinct from c.turn_id
        ), missing as (
            select *, row_number() over (
                partition by run_id, session_id, turn_id order by place_expected) as nth
            from met where called is null
        ), extra as (
            select *, row_number() over (
                partition by run_id, session_id, turn_id order by place_called) as nth
            from met where expected is null
        ), pairs as (
            select run_id, expected, called from met
            where expected is not null and called is not null
            union all
            select coalesce(m.run_id, x.run_id), m.expected, x.called
            from missing m full join extra x
              on m.run_id = x.run_id and m.session_id = x.session_id and m.nth = x.nth
             and m.turn_id is not distinct from x.turn_id
        )
        select run_id, expected, called, count(*) as calls from pairs
        group by run_id, expected, called
    """,
}
"""Ready views by name, in the order in which they build on one another."""

_SUMMARY = """
    select s.run_id, metric, any_value(dimension) as dimension, avg(s.score) as mean,
           stddev_samp(s.score) as sd, min(s.score) as lowest,
           count(s.score) as sessions_scored, count(*) as sessions,
           sum(s.scored)::bigint as scored, sum(s.measured)::bigint as measured,
           any_value(w.warning) as why_null
    from (
        select run_id, session_id, metric, any_value(dimension) as dimension,
               avg(score) as score, count(score) as scored, count(*) as measured
        from ({scores}) group by run_id, session_id, metric
    ) s left join (
        select run_id, metric, warning from ({scores}) where warning is not null
        group by run_id, metric, warning
        qualify row_number() over (
            partition by run_id, metric order by count(*) desc, warning) = 1
    ) w using (run_id, metric)
    group by s.run_id, metric
"""
"""The table `metrics` of runs that were written before there was one."""


def connect(runs: Mapping[str, Path], wanted: set[str]) -> duckdb.DuckDBPyConnection:
    """A DuckDB connection with the tables and views named, over runs by their ids.

    It can read the runs' files and nothing else, and cannot be told otherwise.

    Raises:
        StoreError: DuckDB cannot read them.
    """
    import duckdb

    connection = duckdb.connect(":memory:")
    files = [str(folder / f"{t}.parquet") for folder in runs.values() for t in schemas.RUN_TABLES]
    try:
        connection.execute("set allowed_paths = $1", [sorted({*files, *map(_literal, files)})])
        connection.execute("set enable_external_access = false")
        for statement in statements(runs, wanted):
            connection.execute(statement)
        connection.execute("set lock_configuration = true")
    except duckdb.Error as error:
        connection.close()
        raise StoreError(f"{error}") from error
    return connection


def needed(query: str) -> set[str]:
    """The tables and views that a query names, and those that these are made of."""
    known = {*schemas.RUN_TABLES, *VIEWS}
    found = set(re.findall(r"[a-z_]+", query.lower())) & known
    for name in reversed(VIEWS):
        if name in found:
            found |= set(re.findall(r"[a-z_]+", VIEWS[name])) & known
    return found


def files_of(wanted: set[str], held: Iterable[str]) -> list[str]:
    """The files of a run that the tables named are read from, and its manifest."""
    tables = {t for t in schemas.RUN_TABLES if t in wanted}
    if "metrics" in tables and "metrics" not in held:
        tables.add("scores")
    return [MANIFEST, *(f"{t}.parquet" for t in sorted(tables))]


def statements(runs: Mapping[str, Path], wanted: set[str]) -> list[str]:
    """The SQL that makes the tables and views of these runs."""
    made = [_table(table, runs) for table in schemas.RUN_TABLES if table in wanted]
    made += [
        f"create or replace view {name} as {sql}" for name, sql in VIEWS.items() if name in wanted
    ]
    return made


def _table(table: str, runs: Mapping[str, Path]) -> str:
    """A table of all runs: with its columns whatever the runs hold, and a run_id."""
    columns = schemas.columns(schemas.RUN_TABLES[table])
    own = "" if "run_id" in columns else "null::varchar as run_id, "
    empty = ", ".join(f'null::{_sql_type(t)} as "{n}"' for n, t in columns.items())
    parts = [f"select {own}{empty} where false"]
    held = {run_id: folder / f"{table}.parquet" for run_id, folder in runs.items()}
    there = {run_id: file for run_id, file in held.items() if file.exists()}
    parts += _read(table, there)
    if table == "metrics":
        old = {r: f.with_name("scores.parquet") for r, f in held.items() if r not in there}
        for scores in _read("scores", {r: f for r, f in old.items() if f.exists()}):
            parts.append(_SUMMARY.format(scores=scores))
    return f"create or replace view {table} as " + " union all by name ".join(parts)


def _read(table: str, files: Mapping[str, Path]) -> list[str]:
    """SELECTs with a run_id: the rows' own, or else that of the run in whose folder they stand."""
    moved = {run_id: f for run_id, f in files.items() if f.parent.name != run_id}
    stored = "run_id" in schemas.columns(schemas.RUN_TABLES[table])
    at_home = [f for run_id, f in files.items() if stored or run_id not in moved]
    made: list[str] = []
    if at_home:
        source = f"read_parquet([{', '.join(map(_quoted, at_home))}], union_by_name = true"
        name = "regexp_extract(filename, '([^/\\\\]+)[/\\\\][^/\\\\]+$', 1)"
        named = f"select {name} as run_id, * exclude (filename) from {source}, filename = true)"
        made.append(f"select * from {source})" if stored else named)
    if not stored:
        made += [
            f"select {_text(run_id)} as run_id, * from read_parquet({_quoted(file)})"
            for run_id, file in moved.items()
        ]
    return made


def _quoted(file: Path) -> str:
    return _text(_literal(str(file)))


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _literal(path: str) -> str:
    """A path in which DuckDB sees no pattern."""
    return re.sub(r"[*?[]", r"[\g<0>]", path)


def _sql_type(kind: pl.DataType) -> str:
    if isinstance(kind, pl.List):
        return f"{_sql_type(kind.inner)}[]"  # pyright: ignore[reportArgumentType]
    if isinstance(kind, pl.Datetime):
        return "timestamptz"
    names = {pl.Int64: "bigint", pl.Float64: "double", pl.Boolean: "boolean"}
    return next((n for t, n in names.items() if kind == t), "varchar")
