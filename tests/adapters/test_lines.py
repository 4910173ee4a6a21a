"""Lines are found and attributed wherever they stand, however they are packed and written."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Iterator, Mapping
from decimal import Decimal
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import zstandard

from uaef_frames.adapters import lines
from uaef_frames.adapters.lines import LineIndex, Source, index_lines, open_sources, record_line
from uaef_frames.errors import ConfigError, InputFileError

if TYPE_CHECKING:
    from pathlib import Path


def indexed(path: Path, data: bytes) -> LineIndex:
    path.write_bytes(data)
    return index_lines((Source(path.name, path),))


def found(index: LineIndex) -> list[tuple[int, str | None, bytes]]:
    """Line number, session and text of each line."""
    columns = index.lines.select("line", "session_id").rows()
    texts = index.read(index.lines)
    return [(n, sid, text.strip()) for (n, sid), text in zip(columns, texts, strict=True)]


def sessions(index: LineIndex) -> list[str | None]:
    return index.lines["session_id"].to_list()


@pytest.fixture(params=[1 << 24, 1, 7, 64], ids=lambda size: f"block{size}")
def _any_block(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "_BLOCK", request.param)


@pytest.mark.usefixtures("_any_block")
@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n", b"\n\n \n\t\r\n"])
@pytest.mark.parametrize("newline", [b"\n", b"\r\n"])
def test_lines_keep_their_numbers_whatever_stands_between_them(
    tmp_path: Path, newline: bytes, end: bytes
) -> None:
    rows = [b'{"session_id":"a","turn_id":1}', b"", b"  ", b'{"session_id": "b", "t": "\xc3\xa9"}']
    index = indexed(tmp_path / "f.jsonl", newline.join(rows) + end)
    assert found(index) == [(1, "a", rows[0]), (4, "b", rows[3])]


@pytest.mark.usefixtures("_any_block")
def test_lines_longer_than_a_block_are_whole(tmp_path: Path) -> None:
    rows = [json.dumps({"session_id": f"s{n}", "x": "y" * n * 37}).encode() for n in range(12)]
    index = indexed(tmp_path / "f.jsonl", b"\n".join(rows))
    assert found(index) == [(n + 1, f"s{n}", row) for n, row in enumerate(rows)]
    assert index.texts(index.lines).to_pylist() == [
        text.decode() for text in index.read(index.lines)
    ]


@pytest.mark.parametrize(
    ("line", "session"),
    [
        ('{"session_id":"plain","turn_id":1}', "plain"),
        ('{"session_id": "python\'s", "turn_id": 1}', "python's"),
        ('{"session_id": "' + "x" * 200 + '", "turn_id": 1}', "x" * 200),
        ('{ "session_id" : "spaced" }', "spaced"),
        ('{"turn_id":1,"session_id":"later"}', "later"),
        ('{"x":{"session_id":"inner"},"session_id":"outer"}', "outer"),
        ('{"x":"\\"session_id\\":\\"no\\"","session_id":"yes"}', "yes"),
        ('{"session_id":"a\\"b\\\\c"}', 'a"b\\c'),
        ('{"session_id":"caf\\u00e9"}', "café"),
        ('{"session_id":"検索 😀"}', "検索 😀"),
        ('{"session\\u005fid":"escaped"}', "escaped"),
        ('{"session_id":"' + "long" * 60 + '"}', "long" * 60),
        ('{"session_id":"' + "x" * 95 + '"}', "x" * 95),
        ('{"session_id":"' + "x" * 96 + '"}', "x" * 96),
        ('{"session_id":4711}', "4711"),
        ('{"session_id":"4711"}', "4711"),
        ('{"session_id":"\\ud800"}', "\ufffd"),
        ('{"session_id":" a "}', " a "),
        ('{"session_id":"a","latency":NaN}', "a"),
        ('{"turn_id":1}', None),
        ('{"session_id":null}', None),
        ('{"session_id":true}', None),
        ('{"session_id":1.5}', None),
        ('{"session_id":["a"]}', None),
        ('{"session_id":""}', None),
        ('{"session_id":"   "}', None),
        ('["session_id","a"]', None),
        ('"session_id"', None),
        ('{"turn_id":1,"session_id":"cut', None),
    ],
)
def test_the_session_of_a_line(tmp_path: Path, line: str, session: str | None) -> None:
    around = '{"session_id":"first"}\n%s\n{"session_id":"last"}'
    index = indexed(tmp_path / "f.jsonl", (around % line).encode())
    assert sessions(index) == ["first", session, "last"]


def test_a_broken_line_with_a_plain_beginning_belongs_to_its_session(tmp_path: Path) -> None:
    rows = b'{"session_id":"a","turn_id":\n{"session_id": "b", "turn_id": \n'
    assert sessions(indexed(tmp_path / "f.jsonl", rows)) == ["a", "b"]


def test_bytes_that_are_no_text_do_not_hide_the_other_lines(tmp_path: Path) -> None:
    rows = [b'{"session_id":"\xff\xfe"}', b'{"session_id":"b","x":"\xff"}', b'{"session_id":"c"}']
    index = indexed(tmp_path / "f.jsonl", b"\n".join(rows))
    assert sessions(index)[0] is None
    assert sessions(index)[1:] == ["b", "c"]


def test_a_byte_order_mark_is_no_part_of_the_first_line(tmp_path: Path) -> None:
    index = indexed(tmp_path / "f.jsonl", b'\xef\xbb\xbf{"session_id":"a"}\n{"session_id":"b"}\n')
    assert sessions(index) == ["a", "b"]


def test_rows_are_read_in_any_order_and_from_several_files(tmp_path: Path) -> None:
    for name in "ab":
        rows = "".join(f'{{"session_id":"{name}{n}"}}\n' for n in range(5))
        (tmp_path / f"{name}.jsonl").write_text(rows, "utf-8")
    index = index_lines(open_sources(tmp_path / "*.jsonl", tmp_path))
    mixed = index.lines.sample(fraction=1.0, shuffle=True, seed=3)
    read = [json.loads(text)["session_id"] for text in index.read(mixed)]
    assert read == mixed["session_id"].to_list()
    assert [json.loads(t)["session_id"] for t in index.texts(mixed).to_pylist()] == read


def test_an_empty_file_has_no_lines(tmp_path: Path) -> None:
    for data in (b"", b"\n\n", b"  "):
        index = indexed(tmp_path / "f.jsonl", data)
        assert index.lines.height == 0
        assert index.read(index.lines) == []


ROWS = b"".join(b'{"session_id":"s%d"}\n' % n for n in range(3000))


@pytest.mark.parametrize(
    ("name", "packed"),
    [
        ("a.jsonl", ROWS),
        ("a.jsonl.gz", gzip.compress(ROWS)),
        ("members.jsonl.gz", gzip.compress(ROWS[:30]) + gzip.compress(ROWS[30:])),
        ("a.jsonl.zst", zstandard.compress(ROWS)),
        ("a.jsonl.zstd", zstandard.compress(ROWS)),
        ("frames.jsonl.zst", zstandard.compress(ROWS[:30]) + zstandard.compress(ROWS[30:])),
    ],
)
def test_packed_files_are_unpacked(tmp_path: Path, name: str, packed: bytes) -> None:
    path, scratch = tmp_path / name, tmp_path / "scratch"
    path.write_bytes(packed)
    scratch.mkdir()
    index = index_lines(open_sources(str(path), scratch))
    assert sessions(index) == [f"s{n}" for n in range(3000)]
    assert [s.name for s in index.sources] == [str(path)]


@pytest.mark.parametrize("suffix", ["gz", "zst"])
@pytest.mark.parametrize("damage", ["cut", "noise", "flipped"])
def test_a_broken_packed_file_is_an_error_that_names_it(
    tmp_path: Path, suffix: str, damage: str
) -> None:
    packed = gzip.compress(ROWS) if suffix == "gz" else zstandard.compress(ROWS)
    middle = len(packed) // 2
    broken = {
        "cut": packed[:middle],
        "noise": b"this is not what its name says",
        "flipped": packed[:middle] + bytes(255 - b for b in packed[middle : middle + 40]),
    }
    path = tmp_path / f"a.jsonl.{suffix}"
    path.write_bytes(broken[damage])
    with pytest.raises(InputFileError, match="cannot be unpacked") as caught:
        open_sources(path, tmp_path)
    assert caught.value.source == str(path)


def test_globs_lists_and_paths_find_the_same_files_in_order(tmp_path: Path) -> None:
    inner = tmp_path / "deep" / "er"
    inner.mkdir(parents=True)
    paths = [tmp_path / "a.jsonl", tmp_path / "b [1].jsonl", inner / "c.jsonl"]
    for path in paths:
        path.write_text("{}\n", "utf-8")

    def names(payloads: Any) -> list[str]:
        return [s.name for s in open_sources(payloads, tmp_path)]

    assert names(tmp_path / "*.jsonl") == [str(p) for p in paths[:2]]
    assert names(f"{tmp_path}/**/*.jsonl") == sorted(map(str, paths))
    assert names([paths[1], str(paths[0])]) == [str(paths[1]), str(paths[0])]
    assert names([str(tmp_path / "a*"), str(inner / "*")]) == [str(paths[0]), str(paths[2])]
    assert names(str(paths[1])) == [str(paths[1])]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("missing.jsonl", "there is no file"),
        ("*.missing", "nothing matches"),
        ("", "is a folder; give a file or a glob"),
    ],
)
def test_what_is_no_file_is_a_wrong_argument(tmp_path: Path, given: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        open_sources(f"{tmp_path}/{given}", tmp_path)
    with pytest.raises(ConfigError, match=said):
        open_sources([tmp_path / given], tmp_path)


def read_back(tmp_path: Path, records: Any) -> list[Any]:
    index = index_lines(open_sources(records, tmp_path))
    return [json.loads(text) for text in index.read(index.lines)]


def test_records_in_memory_are_lines(tmp_path: Path) -> None:
    records = [{"session_id": "a", "x": [1, 2.5, None, "é"]}, {"session_id": "b", 3: ("t", {"u"})}]
    expected = [records[0], {"session_id": "b", "3": ["t", ["u"]]}]
    assert read_back(tmp_path, records) == expected
    assert read_back(tmp_path, tuple(records)) == expected
    assert read_back(tmp_path, iter(records)) == expected
    assert read_back(tmp_path, (r for r in records)) == expected
    assert read_back(tmp_path, []) == []


class Slotted:
    __slots__ = ("_hidden", "unset", "value")

    def __init__(self) -> None:
        self.value, self._hidden = {"a": 1}, 2


class Dict(dict[str, Any]):
    pass


class Lazy(Mapping[str, Any]):
    def __getitem__(self, key: str) -> Any:
        return {"a": 1}[key]

    def __iter__(self) -> Iterator[str]:
        return iter(["a"])

    def __len__(self) -> int:
        return 1


@pytest.mark.parametrize(
    ("value", "read"),
    [
        (np.int64(3), 3),
        (np.float32(1.5), 1.5),
        (np.float64(1.5), 1.5),
        (np.bool_(True), True),
        (np.array([1, 2]), [1, 2]),
        (Decimal("1.5"), 1.5),
        (2**70, 2**70),
        (float("inf"), math.inf),
        (Slotted(), {"value": {"a": 1}}),
        (Dict(a=1), {"a": 1}),
        (Lazy(), {"a": 1}),
        (MappingProxyType({"a": 1}), {"a": 1}),
        ("\ud800", "\ufffd"),
        (b"x", "b'x'"),
        (len, "<built-in function len>"),
    ],
)
def test_what_is_no_json_is_written_as_what_it_means(value: Any, read: Any) -> None:
    assert json.loads(record_line({"v": value})) == {"v": read}


def test_a_number_that_is_none_stays_one() -> None:
    """An unknown latency and one that makes no sense are not the same."""
    record = {"latency": math.nan, "metadata": {"quality_score": math.nan}}
    again = json.loads(record_line(record))
    assert math.isnan(again["latency"])
    assert math.isnan(again["metadata"]["quality_score"])


def test_a_record_that_cannot_be_written_is_a_line_that_can_be_rejected() -> None:
    circle: dict[str, Any] = {"session_id": "a"}
    circle["self"] = circle
    deep: Any = 1
    for _ in range(3000):
        deep = [deep]

    class Broken:
        def model_dump(self) -> Any:
            raise RuntimeError("broken")

    for record in (circle, {"session_id": "a", "x": deep}, {"session_id": "a", "x": Broken()}):
        line = record_line(record)
        assert line.count(b"\n") == 1
        assert line.endswith(b"\n")
        assert isinstance(json.loads(line), str)


def test_live_messages_are_written_as_they_serialise_themselves() -> None:
    messages = pytest.importorskip("langchain_core.messages")
    types = pytest.importorskip("langgraph.types")
    called = messages.AIMessage(
        content="", id="a1", tool_calls=[{"name": "f", "args": {"x": 1}, "id": "c1"}]
    )
    record = {
        "session_id": "s",
        "turn_id": 1,
        "stream_events": [
            ("updates", {"model": {"messages": [called]}}),
            {"tools": types.Overwrite([messages.ToolMessage("ok", tool_call_id="c1")])},
            {"__interrupt__": (types.Interrupt(value={"q": "sure?"}, id="i"),)},
        ],
    }
    mode, update = json.loads(record_line(record))["stream_events"][0]
    assert mode == "updates"
    message = update["model"]["messages"][0]
    assert (message["type"], message["id"]) == ("ai", "a1")
    assert message["tool_calls"][0]["args"] == {"x": 1}
    _, overwrite, interrupt = json.loads(record_line(record))["stream_events"]
    assert overwrite["tools"]["value"][0]["tool_call_id"] == "c1"
    assert interrupt["__interrupt__"][0]["value"] == {"q": "sure?"}
