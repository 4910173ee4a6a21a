"""`make demo`: score the shipped conversations and show what there is to see.

Prints the SQL that it asks, so that the next question can be the reader's own.
"""

from __future__ import annotations

import sys
from pathlib import Path

from uaef_frames import evaluate_dataset
from uaef_frames.cli import print_run
from uaef_frames.terminal import print_table

HERE = Path(__file__).parent

QUESTIONS = {
    "Which turns went worst?": """
select session_id, turn_id, metric, round(score, 2) as score, reasoning
from turn_scores
where score < 0.7 and dimension <> 'Performance'
order by score, session_id, turn_id, metric
limit 12
""",
    "Which kinds of mistake do the metrics see?": """
select labels ->> '$.mistake' as mistake, count(*) as sessions,
       round(avg(overall_score), 2) as overall, sum(passed::int) as passed
from sessions
group by all
order by overall
""",
    "What was expected, what was called?": """
select s.session_id, s.turn_id, s.reasoning
from scores s
where s.metric = 'tool_sequence_correctness' and s.score < 1
order by s.session_id, s.turn_id
limit 8
""",
}


def main(out: str = "runs") -> None:
    """Score, print, ask."""
    run = evaluate_dataset(
        HERE / "booking.jsonl",
        HERE / "ground-truth-booking.xlsx",
        metric_set="deterministic",
        # The default asks for ten answers a second, as of a service; here one in two will do.
        constants={"throughput": {"target_rps": 0.5}},
        out=out,
        name="demo",
    )
    print_run(run)
    for question, sql in QUESTIONS.items():
        print(f"\n{question}\n{sql.strip()}\n")
        print_table(run.sql(sql))
    print(f'\nYour turn:  .venv/bin/uaef-frames sql {run.path} "select * from scores limit 5"')


if __name__ == "__main__":
    main(*sys.argv[1:2])
