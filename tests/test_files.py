"""Files that people get are whole or not there, and one that cannot be written is one line."""

from __future__ import annotations

import json
import resource
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.helpers import payload
from uaef_frames import (
    ConfigError,
    Conversations,
    Expectations,
    GroundTruthError,
    InputFileError,
    StoreError,
    evaluate_dataset,
    get_adapter,
    load_expectations,
    open_run,
    open_store,
    to_ground_truth,
    write_ground_truth,
)
from uaef_frames.cli import main
from uaef_frames.export import export_run
from uaef_frames.files import write_whole

if TYPE_CHECKING:
    from collections.abc import Iterator

    from uaef_frames import Run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    answer = {"agent": {"messages": [{"type": "ai", "content": "yes", "id": "m"}]}}
    out = tmp_path_factory.mktemp("runs")
    return evaluate_dataset([payload("s", 1, answer)], metric_set="deterministic", out=out)


DOORS = {
    "gate --junit": ["gate", "RUN", "--fail-under", "overall=0", "--junit", "PATH"],
    "gate --markdown": ["gate", "RUN", "--fail-under", "overall=0", "--markdown", "PATH"],
    "session --html": ["session", "RUN", "s", "--html", "PATH"],
    "export xlsx": ["export", "RUN", "PATH.xlsx"],
    "export csv": ["export", "RUN", "PATH/csv"],
    "runs export": ["runs", "export", "latest", "PATH.xlsx", "--store", "STORE"],
}


@pytest.mark.parametrize("door", DOORS)
def test_what_cannot_be_written_is_one_line(
    run: Run, tmp_path: Path, door: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("no folder")
    named = {"PATH": f"{tmp_path}/file/x", "RUN": str(run.path), "STORE": str(run.path.parent)}
    arguments = []
    for word in DOORS[door]:
        filled = word
        for key, value in named.items():
            filled = filled.replace(key, value)
        arguments.append(filled)
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 1
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert f"{tmp_path}/file/x" in said
    assert len(said.splitlines()) == 1


def test_what_cannot_be_written_from_python(run: Run, tmp_path: Path) -> None:
    held = to_ground_truth(run)
    conversations = get_adapter("langgraph").to_conversations([payload("s", 1)])
    (tmp_path / "file").write_text("no folder")
    for folder in (tmp_path / "no", tmp_path / "file"):
        for ending in ("xlsx", "csv", "tsv", "jsonl"):
            with pytest.raises(StoreError, match=r"x\.\w+ cannot be written: "):
                write_ground_truth(held, folder / f"x.{ending}")
        with pytest.raises(StoreError):
            to_ground_truth(run, folder / "x.xlsx")
        with pytest.raises(StoreError):
            export_run(run, folder / "x.xlsx")
        with pytest.raises(StoreError):
            run.session("s").save(folder / "x.html")
    for made in (conversations, Expectations.empty()):
        with pytest.raises(StoreError, match=r"folder .* cannot be made"):
            made.write_parquet(tmp_path / "file" / "x")
    with pytest.raises(StoreError):
        export_run(run, tmp_path / "file" / "x")


def test_a_full_disk_leaves_what_was_there(run: Run, tmp_path: Path) -> None:
    sheet, folder = tmp_path / "x.csv", tmp_path / "parquet"
    write_ground_truth(to_ground_truth(run), sheet)
    held = sheet.read_bytes()
    conversations = get_adapter("langgraph").to_conversations([payload("s", 1)])
    conversations.write_parquet(folder)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, limits[1]))
    try:
        with pytest.raises(StoreError, match="cannot be written"):
            write_ground_truth(to_ground_truth(run), sheet)
        with pytest.raises(StoreError, match="cannot be written"):
            conversations.write_parquet(folder)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert sheet.read_bytes() == held
    assert Conversations.read_parquet(folder).turns.equals(conversations.turns)
    assert [p.name for p in (*tmp_path.iterdir(), *folder.iterdir()) if p.name[0] == "."] == []


def test_without_room_for_records_the_error_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    payloads = [payload(f"s{n}", 1, said="x" * 10_000) for n in range(300)]
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        with pytest.raises(StoreError, match="TMPDIR names another place"):
            evaluate_dataset(payloads, metric_set="deterministic", out=tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "no"))
    for ask in (
        lambda: evaluate_dataset(payloads, metric_set="deterministic", out=tmp_path),
        lambda: to_ground_truth(payloads),
    ):
        with pytest.raises(StoreError, match="no temporary folder"):
            ask()


def test_an_error_of_who_makes_the_records_goes_through(tmp_path: Path) -> None:
    def records() -> Iterator[dict[str, Any]]:
        yield payload("s", 1)
        raise OSError("the line to my own database is down")

    with pytest.raises(OSError, match="my own database"):
        evaluate_dataset(records(), metric_set="deterministic", out=tmp_path)


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    broken = tmp_path / "truth.parquet"
    broken.write_bytes(b"PAR1 and no more")
    with pytest.raises(GroundTruthError, match=r"truth\.parquet: cannot be read"):
        load_expectations(broken)
    with pytest.raises(GroundTruthError, match=r"truth\.parquet: cannot be read"):
        evaluate_dataset([payload("s", 1)], broken, metric_set="deterministic", out=tmp_path)


# What a mode of 000 keeps from others it does not keep from root, whom containers run as.
UNREADABLE = Path("/proc/self/mem")


@pytest.mark.skipif(not UNREADABLE.exists(), reason="no file that is there and cannot be read")
def test_a_file_that_is_there_and_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputFileError, match="cannot be read"):
        evaluate_dataset(UNREADABLE, metric_set="deterministic", out=tmp_path)


def test_names_of_files_that_are_not_utf_8(tmp_path: Path) -> None:
    line = json.dumps(payload("s", 1), default=lambda o: o.model_dump()).encode()
    source = tmp_path / "p\udcff.jsonl"
    source.write_bytes(line + b"\n{\n")
    with pytest.warns(UserWarning, match="1 record could not be used"):
        run = evaluate_dataset(source, metric_set="deterministic", out=tmp_path / "runs")
    assert run.rejects.collect()["source"].item() == f"{tmp_path}/p\ufffd.jsonl"
    for wrong in ({"name": "a\udcff"}, {"name": 5}, {"out": tmp_path / "\udcff"}):
        given: dict[str, Any] = {"metric_set": "deterministic", "out": tmp_path, **wrong}
        with pytest.raises(ConfigError, match="UTF-8"):
            evaluate_dataset([payload("s", 1)], **given)
    odd = run.path.rename(run.path.with_name("run\udcff"))
    with pytest.raises(ConfigError, match="rename it"):
        open_run(odd)
    for ask in (open_store(odd.parent).runs, lambda: open_store(odd.parent).run("latest")):
        with pytest.raises(StoreError, match="rename it"):
            ask()


def test_a_link_stays_a_link_and_a_device_is_written_to(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write_whole(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"
    write_whole(Path("/dev/null"), b"new")
    assert Path("/dev/null").is_char_device()
    with pytest.raises(StoreError):
        write_whole(tmp_path, b"new")


def test_a_second_export_takes_the_place_of_the_first(run: Run, tmp_path: Path) -> None:
    for _ in range(2):
        for path in (tmp_path / "x.xlsx", tmp_path / "csv"):
            export_run(open_run(run.path), path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["csv", "x.xlsx"]
