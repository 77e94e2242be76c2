"""A topic is deleted while the store is away, and made anew: the old one goes from the bucket once
the store is back, the new one keeps everything."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.compat.cold import MARKS, Place, create_cold, eventually, place_of, wait_cold
from tests.compat.drivers.base import Record, Sending
from tests.compat.drivers.confluent import Confluent
from tests.compat.samples import read, write
from tests.stores.servers import BUCKET, Server, paused

pytestmark = MARKS

TOPIC = "orders"
OLD = [Record(value=b"old %d" % number * 20) for number in range(40)]
NEW = [Record(value=b"new %d" % number * 20) for number in range(30)]


def keys_in(server: Server, prefix: str) -> list[str]:
    pages = server.client().get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix)
    return [one["Key"] for page in pages for one in page.get("Contents", [])]


def topic_ids(keys: list[str]) -> set[str]:
    return {key.split("/t/")[1][:32] for key in keys if "/t/" in key}


def orphans(place: Place) -> dict[str, Any]:
    """As the command line reports them."""
    assert place.url is not None
    sets = [word for one in place.sets for word in ("--set", one)]
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "tierlog",
            "store",
            "orphans",
            "--store",
            place.url,
            "--json",
            *sets,
        ],
        env={**os.environ, **place.environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def test_a_topic_that_is_deleted_during_an_outage_is_swept_and_its_namesake_stays(
    minio_server: Server, tmp_path: Path
) -> None:
    place = place_of(minio_server, prefix="deletion")
    with place.running(tmp_path, sets=["tierlog.garbage.grace.ms=1000"]) as node:
        admin = Confluent().admin(node.address)
        create_cold(node.address, TOPIC)
        write(Confluent(), node.address, TOPIC, OLD, Sending())
        wait_cold(node, TOPIC)
        (old,) = topic_ids(keys_in(minio_server, "deletion"))
        with paused(minio_server):
            admin.delete(TOPIC)
            create_cold(node.address, TOPIC)
            write(Confluent(), node.address, TOPIC, NEW[:10], Sending())
            node.stop()
            node.start()
            write(Confluent(), node.address, TOPIC, NEW[10:], Sending())
        wait_cold(node, TOPIC)
        eventually(
            lambda: old not in topic_ids(keys_in(minio_server, "deletion")), "the old topic is gone"
        )
        found = read(Confluent(), node.address, TOPIC, len(NEW))
        assert [one.value for one in found] == [one.value for one in NEW]
        eventually(lambda: not orphans(place)["deleted_topics"], "nothing is left to be swept")
        keys = keys_in(minio_server, "deletion")
        assert len(topic_ids(keys)) == 1
        assert [key for key in keys if key.endswith(f"cluster/receipts/topic-{old}.json.gz")]
        report = orphans(place)
        assert [one["topic"] for one in report["partitions"]] == [TOPIC]
        assert report["partitions"][0]["orphan_objects"] == 0
        assert report["unknown_topic_ids"] == []
