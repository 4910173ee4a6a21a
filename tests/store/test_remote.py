"""A store in an object store answers as the same store on a disk does, and is only read.

The object store is a server that speaks S3, in its own process.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from polars.testing import assert_frame_equal

from tests.helpers import shipped_run
from tests.store.test_run import hand_made
from uaef_frames import ConfigError, StoreError, compare, evaluate_dataset, open_run, open_store
from uaef_frames.store.views import VIEWS

if TYPE_CHECKING:
    from collections.abc import Iterator

    import polars as pl

    from uaef_frames import Store

pytest.importorskip("moto", reason="moto is not installed: pip install 'moto[server]'")

ROOT = Path(__file__).parents[2]
SECRET = "of-nobody-else-0123456789"
BUCKET = "evaluations"


def options(port: int) -> dict[str, str]:
    return {
        "aws_access_key_id": "reader-of-runs",
        "aws_secret_access_key": SECRET,
        "aws_region": "us-east-1",
        "aws_endpoint_url": f"http://127.0.0.1:{port}",
    }


def free_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return held.getsockname()[1]


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    number = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(number)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(600):
            try:
                socket.create_connection(("127.0.0.1", number), timeout=1).close()
                break
            except OSError:
                assert process.poll() is None, "the server ended"
                time.sleep(0.05)
        yield number
    finally:
        process.kill()
        process.wait()


def file_system(port: int) -> Any:
    from pyarrow import fs

    return fs.S3FileSystem(
        access_key="writer",
        secret_key="of-the-test",
        region="us-east-1",
        endpoint_override=f"127.0.0.1:{port}",
        scheme="http",
        allow_bucket_creation=True,
    )


def upload(port: int, folder: Path, to: str) -> None:
    from pyarrow import fs

    files = file_system(port)
    files.create_dir(to)
    fs.copy_files(str(folder), to, destination_filesystem=files)


@pytest.fixture(scope="module")
def stores(port: int, tmp_path_factory: pytest.TempPathFactory) -> tuple[Store, Store]:
    """The same runs on a disk and in the cloud: two new ones, an older one, and half a one."""
    out = tmp_path_factory.mktemp("store") / "runs"
    for agent in ("booking", "booking_careless"):
        shipped_run(agent, out)
    older(hand_made(out))
    half = out / "20261207-000000-half-000000"
    shutil.copytree(next(out.glob("*booking-*")), half)
    (half / "manifest.json").unlink()
    upload(port, out, f"{BUCKET}/team/runs")
    return open_store(out), open_store(f"s3://{BUCKET}/team/runs/", options(port))


def older(run: Path) -> None:
    """A run as an earlier version left it: without tables that came later."""
    import json

    manifest = json.loads((run / "manifest.json").read_text())
    for table in ("metrics", "expected", "expected_tool_calls"):
        (run / f"{table}.parquet").unlink()
        del manifest["tables"][table]
    (run / "manifest.json").write_text(json.dumps(manifest))


def same(local: pl.DataFrame, remote: pl.DataFrame) -> None:
    assert local.height > 0
    assert_frame_equal(local, remote, check_row_order=False)


def test_the_runs_that_are_whole_are_listed(stores: tuple[Store, Store]) -> None:
    local, remote = stores
    assert remote.run_ids == local.run_ids
    assert len(remote.run_ids) == 3
    same(local.runs(), remote.runs())
    assert repr(remote) == f"Store(s3://{BUCKET}/team/runs: 3 runs)"


@pytest.mark.parametrize("view", ["scores", "sessions", "turns", *VIEWS])
def test_every_view_answers_the_same(stores: tuple[Store, Store], view: str) -> None:
    local, remote = stores
    query = f"select * from {view}" if view != "judge_spend" else "select count(*) from judge_spend"
    same(local.sql(query), remote.sql(query))


def test_a_run_answers_the_same_in_frames_and_in_words(stores: tuple[Store, Store]) -> None:
    for name in ("booking_careless", "hand-abc123"):
        local, remote = (s.run(next(i for i in s.run_ids if name in i)) for s in stores)
        same(local.summary(), remote.summary())
        same(local.dimension_summary(), remote.dimension_summary())
        same(local.worst_turns(), remote.worst_turns())
        same(local.scores.collect(), remote.scores.collect())
        assert repr(local) == repr(remote)
        assert local.expected.collect().equals(remote.expected.collect())
        session = local.sessions.collect()["session_id"][0]
        assert str(local.session(session)) == str(remote.session(session))


def test_runs_are_compared_and_followed_over_time(stores: tuple[Store, Store]) -> None:
    local, remote = (
        compare(*(s.run(next(i for i in s.run_ids if n in i)) for n in ("booking-", "careless")))
        for s in stores
    )
    same(local.table, remote.table)
    same(stores[0].history("Tool Calling"), stores[1].history("Tool Calling"))


def test_a_run_opens_by_its_address(stores: tuple[Store, Store], port: int) -> None:
    name = stores[0].run_ids[0]
    run = open_run(f"s3://{BUCKET}/team/runs/{name}", options(port))
    assert run.run_id == name
    assert SECRET not in f"{run!r}{run.path!r}{vars(run)!r}{stores[1]!r}{vars(stores[1])!r}"
    with pytest.raises(StoreError, match=r"holds no manifest\.json"):
        open_run(f"s3://{BUCKET}/team/runs/nothing", options(port))


def test_no_other_file_is_in_reach_of_a_query(stores: tuple[Store, Store], tmp_path: Path) -> None:
    file = tmp_path / "secret.csv"
    file.write_text("a\n1\n")
    for query in (f"select * from '{file}'", f"select * from read_csv('{file}')"):
        with pytest.raises(StoreError):
            stores[1].sql(query)
    with pytest.raises(StoreError, match="one SELECT"):
        stores[1].sql("create table x as select 1")


def test_what_is_not_as_it_was_written_is_found(stores: tuple[Store, Store], port: int) -> None:
    local, remote = stores
    assert remote.verify() == local.verify()
    assert remote.verify() == {run_id: [] for run_id in local.run_ids}
    upload(port, local.path, f"{BUCKET}/spoilt")
    spoilt = open_store(f"s3://{BUCKET}/spoilt", options(port))
    name = spoilt.run_ids[0]
    with file_system(port).open_output_stream(f"{BUCKET}/spoilt/{name}/scores.parquet") as stream:
        stream.write(b"PAR1 and no more")
    assert "scores.parquet has 16 bytes" in spoilt.verify()[name][0]
    with pytest.raises(StoreError, match=r"no whole scores\.parquet"):
        spoilt.run(name)


def test_nothing_is_written_there(stores: tuple[Store, Store], port: int) -> None:
    remote = stores[1]
    for write in (lambda: remote.remove(remote.run_ids[0]), remote.write_attach):
        with pytest.raises(StoreError, match="read only"):
            write()
    with pytest.raises(StoreError, match="read only"):
        evaluate_dataset(
            ROOT / "data" / "booking.jsonl",
            metric_set="deterministic",
            out=f"s3://{BUCKET}/team/runs",
        )
    assert len(remote.run_ids) == 3
    assert not Path("s3:").exists()


def test_copies_go_with_their_reader(stores: tuple[Store, Store], port: int) -> None:
    store = open_store(f"s3://{BUCKET}/team/runs", options(port))
    store.sql("select count(*) from scores")
    assert store._mirror is not None
    folder = store._mirror._folder
    assert {f.name for f in folder.rglob("*.parquet")} == {"scores.parquet"}
    del store
    assert not folder.exists()


def test_an_object_store_that_does_not_answer_is_one_clear_error_without_secrets(
    stores: tuple[Store, Store], port: int
) -> None:
    closed = open_store("s3://evaluations/runs", options(free_port()))
    nowhere = open_store("s3://no-such-bucket/runs", options(port))
    assert nowhere.run_ids == []
    for ask in (lambda: closed.run_ids, closed.runs, lambda: closed.sql("select 1 from scores")):
        with pytest.raises(StoreError, match="s3://evaluations/runs cannot be listed") as told:
            ask()
        assert SECRET not in str(told.value)
        assert "\n" not in str(told.value)


def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigError, match="ftp:// is no place for runs; there is s3"):
        open_store("ftp://host/runs")
    with pytest.raises(ConfigError, match="holds no credentials") as told:
        open_store(f"s3://key:{SECRET}@bucket/runs")
    assert SECRET not in str(told.value)


def test_the_command_line_reads_it_with_the_credentials_of_the_environment(
    stores: tuple[Store, Store], port: int
) -> None:
    name = stores[0].run_ids[0]
    environment = {
        **os.environ,
        "AWS_ACCESS_KEY_ID": "reader-of-runs",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ALLOW_HTTP": "true",
    }
    address = f"s3://{BUCKET}/team/runs"
    for arguments, wanted in (
        (["runs", "list", "--store", address], name),
        (["show", f"{address}/{name}"], name),
        (["sql", f"{address}/{name}", "select count(*) as held from scores"], "held"),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "uaef_frames", *arguments],
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert wanted in done.stdout
    payloads = str(ROOT / "data" / "booking.jsonl")
    command = [sys.executable, "-m", "uaef_frames", "score", payloads, "--out", address]
    refused = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert refused.returncode == 1
    assert "read only" in refused.stderr
    assert SECRET not in refused.stderr
