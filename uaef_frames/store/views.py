"""Views over a store: what people ask, as SQL over the tables of all its runs."""

from __future__ import annotations

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
        select run_id, metric, any_value(dimension) as dimension,
               avg(score) as mean, min(score) as lowest,
               sum(scored)::bigint as scored, sum(measured)::bigint as measured
        from session_scores group by run_id, metric
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
        select run_id, metric, model, count(*) as verdicts,
               count(*) filter (where cached) as kept,
               sum(input_tokens)::bigint as input_tokens,
               sum(output_tokens)::bigint as output_tokens, sum(cost_usd) as cost_usd
        from scores where request_key is not null group by run_id, metric, model
    """,
}
"""Ready views by name, in the order in which they build on one another."""
