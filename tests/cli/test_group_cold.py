"""`tierlog group lag --watch` while a real consumer catches up through the bucket."""

import json
import subprocess
import sys
import time
from pathlib import Path
from urllib.request import urlopen

from confluent_kafka import Consumer

from tests.cli.served import run, starting

LIMIT_S = 60
RECORDS = 4_000
CONFIGS = ["segment.bytes=20000", "segment.ms=1000", "local.retention.ms=0"]


def test_a_watch_shows_a_group_catching_up_through_the_bucket(tmp_path: Path) -> None:
    with starting(tmp_path) as start:
        ready = start("--set", "group.initial.rebalance.delay.ms=0").ready()
        kafka, http = ready[1], ready[2]
        at = ["--bootstrap", kafka]
        sets = [word for one in CONFIGS for word in ("--set", one)]
        assert run("topic", "create", "t", *sets, *at, cwd=tmp_path).code == 0
        lines = tmp_path / "lines"
        lines.write_text("a record of some length\n" * RECORDS)
        assert run("produce", "t", "--file", str(lines), *at, cwd=tmp_path).code == 0
        wait_until_cold(http)
        words = ["late", "--topic", "t", "--to-earliest", "--execute"]
        assert run("group", "reset", *words, *at, cwd=tmp_path).code == 0
        words = ["group", "lag", "late", "--http", http, "--json"]
        until = time.monotonic() + LIMIT_S
        while run(*words, cwd=tmp_path).code:
            assert time.monotonic() < until, "nobody heard of the group"
        watch = [sys.executable, "-m", "tierlog", *words, "--watch", "--until-caught-up"]
        watching = subprocess.Popen([*watch, "--every", "1"], stdout=subprocess.PIPE, text=True)
        with watching:
            assert watching.stdout is not None
            looks = [json.loads(watching.stdout.readline())]
            consume_all(kafka)
            looks += map(json.loads, watching.stdout)
    first, last = looks[0], looks[-1]
    assert (first["records"], first["cold_partitions"]) == (RECORDS, 1)
    assert first["partitions"][0]["is_cold"]
    assert first["seconds"] > 0
    assert first["bytes"] > RECORDS * len("a record of some length")
    assert (last["records"], last["seconds"], last["trend"]) == (0, 0.0, "caught up")
    records = [one["records"] for one in looks]
    assert records == sorted(records, reverse=True)


def wait_until_cold(http: str) -> None:
    until = time.monotonic() + LIMIT_S
    while time.monotonic() < until:
        with urlopen(f"http://{http}/state", timeout=10) as answer:
            topics = json.load(answer)["topics"]
        (one,) = next(each["partitions"] for each in topics if each["name"] == "t")
        if one["local_start"] == one["high_watermark"] == RECORDS:
            return
        time.sleep(0.1)
    raise AssertionError(f"it is not cold: {one}")


def consume_all(kafka: str) -> None:
    """By a member of the group, which commits as it goes."""
    consumer = Consumer(
        {"bootstrap.servers": kafka, "group.id": "late", "auto.commit.interval.ms": 200}
    )
    consumer.subscribe(["t"])
    count, until = 0, time.monotonic() + LIMIT_S
    while count < RECORDS and time.monotonic() < until:
        count += len(consumer.consume(RECORDS // 8, timeout=0.5))
    consumer.close()
    assert count == RECORDS
