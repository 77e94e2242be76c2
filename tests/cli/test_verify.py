"""`tierlog verify`: its contract, a line a test, on a folder that a cluster lives in."""

import asyncio
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.conftest import Cli
from tests.cli.served import run
from tests.compat.cold import Place, create_cold, wait_cold
from tests.compat.drivers.base import Record, Sending
from tests.compat.drivers.confluent import Confluent
from tests.compat.samples import write
from tests.fetchproxy.support import HandClock
from tests.table.makers import a_file, a_table
from tests.tamper.bucket import CLUSTER, PLACES, make_bucket
from tierlog.cli.verify import Screen, parse_rate
from tierlog.table.codec import encode_table

WAIT_S = 60


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The bucket of the tamper suite, as a store in a folder."""
    bucket = asyncio.run(make_bucket())
    for key, item in bucket.store.shelf.items.items():
        path = tmp_path / "store" / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(item.data)
    return tmp_path / "store"


def segments(folder: Path, topic_id: str = PLACES[2][0]) -> list[Path]:
    return sorted((folder / CLUSTER / "t" / topic_id / "0" / "seg").iterdir())


def content(folder: Path) -> dict[str, bytes]:
    return {str(one): one.read_bytes() for one in sorted(folder.rglob("*")) if one.is_file()}


def test_a_sound_store_exits_0_with_a_table_and_is_not_written_to(
    tierlog: Cli, folder: Path
) -> None:
    before = content(folder)
    outcome = tierlog("verify", "--store", f"file://{folder}")
    assert outcome.code == 0, outcome.err
    assert outcome.lines[0] == f"cluster {CLUSTER}"
    assert outcome.lines[1].split() == [
        *("topic", "partition", "from", "to", "segments", "bytes", "result")
    ]
    assert [line.split()[:2] for line in outcome.lines[2:]] == [
        ["clicks", "0"],
        ["orders", "0"],
        ["orders", "1"],
    ]
    assert all(line.endswith("sound") for line in outcome.lines[2:])
    assert outcome.err.startswith("nothing is damaged; objects were not read: --deep does; ")
    assert "requests (" in outcome.err
    assert content(folder) == before


def test_damage_exits_1_and_says_where_and_what_to_do(tierlog: Cli, folder: Path) -> None:
    segments(folder)[1].unlink()
    outcome = tierlog("verify", "--store", f"file://{folder}")
    assert outcome.code == 1
    place = outcome.lines.index("1. object-missing in clicks-0, offsets 2 to 10")
    key = f"{CLUSTER}/t/{PLACES[2][0]}/0/seg/00000000000000000002-"
    assert outcome.lines[place + 1].startswith(f"   key       {key}")
    assert outcome.lines[place + 2].startswith("   expected  ")
    assert outcome.lines[place + 3] == "   found     there is none"
    assert outcome.lines[place + 4].startswith("   to do     if a node still has the records")
    assert outcome.err.startswith("1 finding; ")


def test_a_flipped_bit_is_found_and_named_in_json(tierlog: Cli, folder: Path) -> None:
    victim = segments(folder)[0]
    data = bytearray(victim.read_bytes())
    data[70] ^= 1
    times = victim.stat()
    victim.write_bytes(data)
    os.utime(victim, ns=(times.st_atime_ns, times.st_mtime_ns))
    outcome = tierlog("verify", "--store", f"file://{folder}", "--deep", "clicks", "--json")
    assert outcome.code == 1
    told = json.loads(outcome.out)
    (finding,) = told["findings"]
    assert (finding["kind"], finding["topic"], finding["partition"]) == (
        "object-wrong",
        "clicks",
        0,
    )
    assert finding["key"].endswith(victim.name)
    assert (told["is_sound"], told["is_deep"], told["cluster_id"]) == (False, True, CLUSTER)
    assert [one["topic"] for one in told["partitions"]] == ["clicks"]
    assert told["requests"]["get"] > 0
    assert set(finding) == {
        *("kind", "topic", "partition", "start", "end", "key", "expected", "found", "advice")
    }
    assert outcome.err == "clicks-0: 3 segments, 4.3 kB read, 1 finding\n", "a line a partition"


def a_parquet(*, rows: int) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table({"offset": range(rows)}), file)
    return file.getvalue()


def test_the_table_beside_the_segments_is_looked_at(tierlog: Cli, folder: Path) -> None:
    topic_id = PLACES[2][0]
    partition = folder / CLUSTER / "t" / topic_id / "0"
    data = a_parquet(rows=5)
    file = replace(a_file(0, 5), sha256=sha256(data).hexdigest(), size=len(data))
    table = replace(a_table([file]), topic_id=topic_id, partition=0)
    (partition / "pq").mkdir()
    (partition / file.key).write_bytes(data)
    (partition / "TABLE").write_bytes(encode_table(table))
    store = ("--store", f"file://{folder}")
    outcome = tierlog("verify", "--deep", "--json", *store)
    assert outcome.code == 0, outcome.err
    rows = {
        (one["topic_id"], one["partition"]): one for one in json.loads(outcome.out)["partitions"]
    }
    assert (rows[topic_id, 0]["table_files"], rows[topic_id, 0]["table_bytes"]) == (1, len(data))
    assert re.search(r"^clicks-0: \d segments, 1 file of its table, ", outcome.err, re.MULTILINE)
    (partition / file.key).write_bytes(data[:-1] + b"x")
    assert tierlog("verify", *store).code == 0
    outcome = tierlog("verify", "--deep", *store)
    assert outcome.code == 1
    assert "1. file-wrong in clicks-0, offsets 0 to 5" in outcome.out
    (partition / file.key).unlink()
    outcome = tierlog("verify", *store)
    assert outcome.code == 1
    assert "1. file-missing in clicks-0, offsets 0 to 5" in outcome.out
    (partition / "TABLE").write_bytes(b"rubbish")
    outcome = tierlog("verify", *store)
    assert "1. table-wrong in clicks-0" in outcome.out


def test_a_topic_that_is_not_there_and_a_store_without_a_cluster_are_errors(
    tierlog: Cli, folder: Path, tmp_path: Path
) -> None:
    outcome = tierlog("verify", "nothing", "--store", f"file://{folder}")
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err == "tierlog: there is no topic nothing in the store\n"
    (tmp_path / "empty").mkdir()
    outcome = tierlog("verify", "--store", f"file://{tmp_path}/empty")
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err == "tierlog: there is no cluster in this store\n"
    outcome = tierlog("verify", "--store", f"file://{tmp_path}/elsewhere")
    assert (outcome.code, outcome.out) == (1, "")
    missing = f"there is no folder {tmp_path}/elsewhere; name the store with --store"
    assert outcome.err == f"tierlog: {missing}\n"


def test_a_store_that_is_away_is_an_error_and_no_damage(tierlog: Cli) -> None:
    outcome = tierlog(
        *("verify", "--store", "s3://bucket/x", "--set", "s3.endpoint=http://127.0.0.1:9"),
        *("--set", "s3.region=us-east-1", "--cluster-id", "x"),
    )
    assert (outcome.code, outcome.out) == (1, "")
    assert "finding" not in outcome.err


def test_words_that_make_no_sense_are_usage_errors(tierlog: Cli, folder: Path) -> None:
    store = f"file://{folder}"
    assert tierlog("verify", "--store", "ftp://x").code == 2
    outcome = tierlog("verify", "--store", store, "--rate", "fast")
    assert (outcome.code, outcome.out) == (2, "")
    assert (
        outcome.err == "tierlog: --rate is 'fast'; it must be bytes a second, as 50000000 or 50M\n"
    )
    outcome = tierlog("verify", "--store", store, "--state", "x")
    assert (outcome.code, outcome.out) == (2, "")
    assert "--state goes with --deep" in outcome.err
    outcome = tierlog("verify", "--deep", "--store", store, "--state", str(folder))
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err == f"tierlog: --state {folder} is a directory; name a file in it\n"


@pytest.mark.parametrize(
    ("text", "rate"), [("5", 5), ("50M", 5e7), ("1.5 GB/s", 1.5e9), ("10kB", 1e4)]
)
def test_rates_are_written_as_people_write_them(text: str, rate: float) -> None:
    assert parse_rate(text) == rate


def test_help_names_every_option(tierlog: Cli) -> None:
    outcome = tierlog("verify", "--help")
    assert outcome.code == 0
    words = "--store --data --cluster-id --deep --state --rate --set --json [TOPIC]..."
    assert all(word in outcome.out for word in words.split())
    assert "verify" in tierlog("--help").out


def test_a_finished_state_begins_anew_and_a_foreign_one_is_refused(
    tierlog: Cli, folder: Path, tmp_path: Path
) -> None:
    state = tmp_path / "state"
    words = ("verify", "--store", f"file://{folder}", "--deep", "--state", str(state), "--json")
    for _ in range(2):
        told = json.loads(tierlog(*words).out)
        assert sum(one["skipped_bytes"] for one in told["partitions"]) == 0
    state.write_text("something else\n")
    outcome = tierlog(*words)
    assert (outcome.code, outcome.out) == (1, "")
    assert "is not the state of a verification of this cluster" in outcome.err
    assert state.read_text() == "something else\n"


def test_a_run_that_is_killed_goes_on_where_it_was(
    tierlog: Cli, folder: Path, tmp_path: Path
) -> None:
    state = tmp_path / "state"
    words = ("verify", "--store", f"file://{folder}", "--deep", "--state", str(state), "--json")
    slow = subprocess.Popen(
        [sys.executable, "-m", "tierlog", *words, "--rate", "5k"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        while not state.exists() or state.read_bytes().count(b"\n") < 4:
            assert slow.poll() is None, "it ended before it could be killed"
            os.sched_yield()
    finally:
        slow.send_signal(signal.SIGKILL)
        slow.wait(WAIT_S)
    state.write_bytes(state.read_bytes() + b'{"key": "torn')
    outcome = tierlog(*words)
    told = json.loads(outcome.out)
    assert outcome.code == 0
    skipped = sum(one["skipped_bytes"] for one in told["partitions"])
    read = sum(one["read_bytes"] for one in told["partitions"])
    assert 0 < skipped < skipped + read == sum(one["bytes"] for one in told["partitions"])


def test_a_terminal_has_a_line_with_bytes_share_and_time_left() -> None:
    screen = Screen(sys.stderr, is_deep=True)
    screen.begin(HandClock())
    screen.total(40_000_000)
    screen.bytes(10_000_000)
    assert screen.line(2.0) == "10.0 MB of 40.0 MB  25 %  5.0 MB/s  0:06 left  0 partitions"


@pytest.mark.compat
def test_a_live_cluster_is_sound_and_its_data_knows_of_a_rolled_back_head(tmp_path: Path) -> None:
    records = [Record(value=b"%d" % number * 30) for number in range(60)]
    with Place(name="folder").running(tmp_path) as node:
        create_cold(node.address, "orders")
        write(Confluent(), node.address, "orders", records[:30], Sending())
        wait_cold(node, "orders")
        (head,) = (tmp_path / "data-store").glob("*/t/*/0/HEAD")
        older = head.read_bytes()
        ended = run("verify", "--deep", "--store", f"file://{tmp_path}/data-store", cwd=tmp_path)
        assert ended.code == 0, ended.out + ended.err
        write(Confluent(), node.address, "orders", records[30:], Sending())
        wait_cold(node, "orders")
    head.write_bytes(older)
    words = ("verify", "--store", f"file://{tmp_path}/data-store", "--data", "data")
    ended = run(*words, cwd=tmp_path)
    assert ended.code == 1
    assert "1. head-older in orders-0" in ended.out
    assert "of which this node has a copy" in ended.out
    shutil.rmtree(tmp_path / "data")
