"""One conversation as a person reads it: bubbles, tool calls folded, scores beside each turn.

Everything that agents, users and judges wrote is escaped; nothing of it is ever markup.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from uaef_frames.files import write_whole
from uaef_frames.terminal import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import polars as pl

SESSION_TABLES = (
    "turns",
    "messages",
    "tool_calls",
    "handoffs",
    "scores",
    "dimensions",
    "expected",
    "expected_tool_calls",
)
_MOST_TURNS = 100
"""Turns that a notebook shows; a saved page has all."""
_FEW = 5
"""Remarks that stand open above a conversation."""
_LONGEST = 8_000
"""Characters of one text that are shown."""
_SHORT = 300
"""Characters of a result or an expectation at a terminal."""
_STYLE = """
.uaef-session{font:14px/1.45 system-ui,sans-serif;color:#1d2129;background:#fff;max-width:1100px}
.uaef-session h3{margin:.2em 0}.uaef-session .note{color:#5f6671;font-size:12px}
.uaef-session .turn{display:grid;grid-template-columns:minmax(0,2fr) minmax(0,1fr);gap:16px;
border-top:1px solid #e3e6ea;padding:10px 0}
.uaef-session .bubble{white-space:pre-wrap;overflow-wrap:anywhere;unicode-bidi:isolate;
border-radius:10px;padding:6px 10px;margin:4px 0;width:fit-content;max-width:88%}
.uaef-session .user{background:#dce9fb;margin-left:auto}
.uaef-session .assistant{background:#f0f2f5}
.uaef-session .synthetic,.uaef-session .system{background:#fff;border:1px dashed #b8bec8}
.uaef-session .error{border-left:3px solid #b3261e}
.uaef-session .who{color:#5f6671;font-size:12px;margin-top:4px}
.uaef-session details{margin:4px 0;font-size:13px}
.uaef-session summary{cursor:pointer;overflow-wrap:anywhere}
.uaef-session pre{white-space:pre-wrap;overflow-wrap:anywhere;background:#f7f8fa;
padding:6px 8px;margin:2px 0;unicode-bidi:isolate}
.uaef-session .score{display:grid;grid-template-columns:1fr 60px 44px;gap:6px;font-size:12px;
align-items:center}
.uaef-session .bar{background:#e3e6ea;height:7px;border-radius:4px;overflow:hidden}
.uaef-session .bar i{display:block;height:100%;background:#3b6fb6}
.uaef-session .low .bar i{background:#d9822b}
.uaef-session .why{color:#5f6671;font-size:12px;margin:0 0 4px;overflow-wrap:anywhere;
unicode-bidi:isolate}
"""


@dataclass(frozen=True, repr=False)
class SessionView:
    """One conversation of a run, to be read.

    Attributes:
        session_id: Its id.
        session: Its row of the table `sessions`.
        tables: Its rows of the tables in `SESSION_TABLES`.
    """

    session_id: str
    session: Mapping[str, Any]
    tables: Mapping[str, pl.DataFrame]

    def to_html(self) -> str:
        """A whole page."""
        title = escape(self.session_id)
        return (
            f'<!doctype html><html><head><meta charset="utf-8"><title>{title}</title></head>'
            f"<body>{self._html(None)}</body></html>\n"
        )

    def save(self, path: str | Path) -> Path:
        """Write the page to a file. The file.

        Raises:
            StoreError: The disk does not take it.
        """
        target = Path(path)
        # What agents wrote may hold halves of surrogate pairs, which no file takes.
        write_whole(target, self.to_html().encode("utf-8", "replace"))
        return target

    def _repr_html_(self) -> str:
        return self._html(_MOST_TURNS)

    def _html(self, most: int | None) -> str:
        turns = self._rows("turns", "turn_index")
        parts = [f'<div class="uaef-session"><style>{_STYLE}</style>', self._head_html()]
        parts += [self._turn_html(turn) for turn in turns[:most]]
        if most is not None and len(turns) > most:
            parts.append(
                f'<p class="note">… {len(turns) - most} more turns: save("x.html") writes all</p>'
            )
        parts += [self._whole_html(), "</div>"]
        return "".join(parts)

    def _head_html(self) -> str:
        facts = escape(" · ".join(self._facts()))
        remarks = self._remarks()
        said = "".join(f'<p class="why">{_text(line)}</p>' for line in remarks)
        if len(remarks) > _FEW:
            said = _folded(f"{len(remarks)} remarks", said)
        return f'<h3 dir="auto">{_text(self.session_id)}</h3><p class="note">{facts}</p>{said}'

    def _turn_html(self, turn: Mapping[str, Any]) -> str:
        turn_id = turn["turn_id"]
        left = [
            _call_html(row) if is_call else _message_html(row)
            for is_call, row in self._happened(turn_id)
        ]
        if turn["interrupted"]:
            left.append('<p class="note">ended by asking a human</p>')
        route = self._route(turn_id)
        handed = f'<p class="note">{_text(route)}</p>' if route else ""
        head = f'<p class="note">{escape(_turn_line(turn))}</p>{handed}'
        right = "".join(map(_score_html, self._of("scores", turn_id))) + self._expected_html(
            turn_id
        )
        return f'<div class="turn"><div>{head}{"".join(left)}</div><div>{right}</div></div>'

    def _happened(self, turn_id: int) -> Iterator[tuple[bool, dict[str, Any]]]:
        """Messages and calls (true) of a turn: each call behind the message that made it, and its
        result with it. A message that is no call's result, such as a second one, stands by itself.
        """
        calls = _by(self._of("tool_calls", turn_id, "call_index"), "message_index")
        results = Counter((c["tool_call_id"], c["result"]) for some in calls.values() for c in some)
        for message in self._of("messages", turn_id, "message_index"):
            shown = message["tool_call_id"], message["content"]
            if message["role"] == "tool" and results[shown] > 0:
                results[shown] -= 1
                continue
            yield False, message
            yield from ((True, call) for call in calls.pop(message["message_index"], ()))
        yield from ((True, call) for some in calls.values() for call in some)

    def _whole_html(self) -> str:
        right = "".join(map(_score_html, self._of("scores", None))) + self._expected_html(None)
        if not right:
            return ""
        return (
            '<div class="turn"><div><p class="note">the conversation as a whole</p></div>'
            f"<div>{right}</div></div>"
        )

    def _expected_html(self, turn_id: int | None) -> str:
        lines = self._expected(turn_id)
        if not lines:
            return ""
        return _folded(
            "expected", "".join(f'<pre dir="auto">{_text(line)}</pre>' for line in lines)
        )

    def __str__(self) -> str:
        return "\n".join(map(one_line, self._lines()))

    def __repr__(self) -> str:
        return f"SessionView({self.session_id!r}: {self.tables['turns'].height} turns)"

    def _lines(self) -> Iterator[str]:
        """What is said takes several lines, all but the first behind a bar: none can be taken for
        another speaker, a call or a score.
        """
        yield f"{self.session_id}: {' · '.join(self._facts())}"
        yield from (f"  {line}" for line in self._remarks())
        for turn in self._rows("turns", "turn_index"):
            turn_id = turn["turn_id"]
            yield ""
            yield f"── {_turn_line(turn)}"
            if route := self._route(turn_id):
                yield f"   {route}"
            for is_call, row in self._happened(turn_id):
                if is_call:
                    yield f"  → {_call_line(row)}"
                    if row["result"]:
                        yield f"    ← {_cut(row['result'], _SHORT)}"
                elif row["content"]:
                    first, *more = _cut(row["content"]).split("\n")
                    yield f"{_who(row)}: {first}"
                    yield from (f"│ {line}" for line in more)
            yield from self._judged(turn_id)
        whole = list(self._judged(None))
        if whole:
            yield ""
            yield "── the conversation as a whole"
            yield from whole

    def _judged(self, turn_id: int | None) -> Iterator[str]:
        """What was expected, and the scores."""
        yield from (f"  expected: {_cut(line, _SHORT)}" for line in self._expected(turn_id))
        yield from (f"    {_score_line(s)}" for s in self._of("scores", turn_id))

    def _facts(self) -> list[str]:
        overall = self.session["overall_score"]
        facts = ["not scored" if overall is None else f"overall {overall:.3f}"]
        facts.append("passed" if self.session["passed"] else "not passed")
        for row in self._rows("dimensions"):
            if row["score"] is not None:
                below = row["threshold"] is not None and row["score"] < row["threshold"]
                mark = f" (below {row['threshold']:g})" if below else ""
                facts.append(f"{row['dimension']} {row['score']:.3f}{mark}")
        return facts

    def _remarks(self) -> list[str]:
        return [*(self.session["failures"] or ()), *(self.session["warnings"] or ())]

    def _route(self, turn_id: int) -> str:
        steps = self._of("handoffs", turn_id, "event_index")
        return "; ".join(f"{s['from_agent'] or '?'} → {s['to_agent'] or '?'}" for s in steps)

    def _expected(self, turn_id: int | None) -> list[str]:
        lines: list[str] = []
        for row in self._of("expected", turn_id):
            if row["expected_output"]:
                lines.append(row["expected_output"])
            if row["tools_stated"]:
                calls = self._of("expected_tool_calls", turn_id, "call_index")
                lines += [f"{c['name']}({c['arguments']})" for c in calls] or ["no tool call"]
        return lines

    def _rows(self, table: str, order: str | None = None) -> list[dict[str, Any]]:
        frame = self.tables[table]
        return (frame if order is None else frame.sort(order)).to_dicts()

    def _of(
        self, table: str, turn_id: int | None, order: str | None = None
    ) -> list[dict[str, Any]]:
        rows = self._parts[table].get(turn_id, [])
        return rows if order is None else sorted(rows, key=lambda row: row[order])

    @cached_property
    def _parts(self) -> dict[str, dict[Any, list[dict[str, Any]]]]:
        """The rows of each table by turn."""
        return {
            name: _by(frame.to_dicts(), "turn_id")
            for name, frame in self.tables.items()
            if "turn_id" in frame.columns
        }


def _by(rows: list[dict[str, Any]], column: str) -> dict[Any, list[dict[str, Any]]]:
    found: dict[Any, list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault(row[column], []).append(row)
    return found


def _who(message: Mapping[str, Any]) -> str:
    agent = message["agent"]
    name = f"{message['role']} {agent}" if agent and message["role"] != "user" else message["role"]
    return f"{name} (written by the harness)" if message["is_synthetic"] else name


def _message_html(message: Mapping[str, Any]) -> str:
    role = message["role"]
    kinds = ["bubble", role]
    kinds += ["synthetic"] if message["is_synthetic"] else []
    kinds += ["error"] if message["is_error"] else []
    text = message["content"]
    said = f'<div class="{" ".join(kinds)}" dir="auto">{_text(text)}</div>' if text else ""
    if said and role in ("system", "tool"):
        said = _folded(_who(message), said)
    elif said and role != "user":
        said = f'<div class="who">{_text(_who(message))}</div>{said}'
    if message["reasoning"]:
        said += _folded("reasoning", f'<pre dir="auto">{_text(message["reasoning"])}</pre>')
    return said


def _call_html(call: Mapping[str, Any]) -> str:
    given = call["arguments"] if call["arguments"] is not None else call["raw_arguments"]
    body = f'<pre dir="auto">{_text(_indented(given))}</pre>'
    if call["result"] is not None:
        body += f'<pre dir="auto">{_text(call["result"])}</pre>'
    return _folded(f"→ {_call_line(call)}", body)


def _call_line(call: Mapping[str, Any]) -> str:
    given = call["arguments"] if call["arguments"] is not None else call["raw_arguments"]
    state = "" if call["status"] == "ok" else f" [{call['status']}]"
    return f"{call['name']}({_cut(given or '', 120)}){state}"


def _score_html(score: Mapping[str, Any]) -> str:
    value = score["score"]
    low = " low" if value is not None and value < 0.5 else ""
    width = 0 if value is None else round(100 * value)
    why = "".join(
        f'<p class="why" dir="auto">{_text(w)}</p>'
        for w in (score["warning"], score["reasoning"])
        if w
    )
    return (
        f'<div class="score{low}"><span>{_text(score["metric"])}</span>'
        f'<span class="bar"><i style="width:{width}%"></i></span>'
        f"<span>{_figure(value)}</span></div>{why}"
    )


def _score_line(score: Mapping[str, Any]) -> str:
    why = " – ".join(_cut(w, 200) for w in (score["warning"], score["reasoning"]) if w)
    return f"{score['metric']} {_figure(score['score'])}{'  ' + why if why else ''}"


def _turn_line(turn: Mapping[str, Any]) -> str:
    facts = [f"turn {turn['turn_index']}"]
    if turn["turn_id"] != turn["turn_index"]:
        facts.append(f"turn_id {turn['turn_id']}")
    if turn["latency_s"] is not None:
        facts.append(f"{turn['latency_s']:.2f} s")
    if turn["input_tokens"] is not None and turn["output_tokens"] is not None:
        facts.append(f"{turn['input_tokens']:,.0f} + {turn['output_tokens']:,.0f} tokens")
    if turn["cost_usd"] is not None:
        facts.append(f"{turn['cost_usd']:.4f} USD")
    return " · ".join(facts)


def _folded(title: str, body: str) -> str:
    return f"<details><summary>{_text(title)}</summary>{body}</details>"


def _indented(text: str | None) -> str:
    """JSON over several lines; any other text as it is."""
    if not text or len(text) > _LONGEST:
        return text or ""
    try:
        return json.dumps(json.loads(text), ensure_ascii=False, indent=1)
    except (ValueError, RecursionError):
        return text


def _figure(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _text(text: str) -> str:
    return escape(_cut(text))


def _cut(text: str, longest: int = _LONGEST) -> str:
    if len(text) <= longest:
        return text
    return f"{text[:longest]}… {len(text) - longest:,} more characters"
