"""`tierlog cost actual --http` on a living node: who read how much from the store, and who pays.

Real consumers in groups of their own, on a bucket with a table.
"""

import json
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from tests.cli.served import run, starting

pytestmark = pytest.mark.compat

PATIENCE_S = 60.0
RECORDS = {"orders": 4_000, "clicks": 1_000}
COLD = ["segment.ms=1000", "local.retention.ms=1000"]
VALUE = b"a value that is long enough to tell readers apart by what they have read"


class Node:
    """A node on a folder, by its addresses."""

    def __init__(self, folder: Path, kafka: str, http: str) -> None:
        self.store = folder / "store"
        self._folder = folder
        self.kafka, self.http = kafka, http

    def tierlog(self, *words: str) -> str:
        done = run(*words, cwd=self._folder)
        assert done.code == 0, done.err
        return done.out

    def cost(self, *words: str) -> str:
        return self.tierlog("cost", "actual", "--store", f"file://{self.store}", *words)

    def partition(self, topic: str) -> Any:
        with urlopen(f"http://{self.http}/state", timeout=10) as answer:
            topics = json.load(answer)["topics"]
        return next(one["partitions"][0] for one in topics if one["name"] == topic)

    def wait(self, is_done: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not is_done():
            assert time.monotonic() < deadline, [self.partition(name) for name in RECORDS]
            time.sleep(0.1)

    def fill(self, topic: str, *, table: bool) -> None:
        from confluent_kafka import Producer

        configs = [*COLD, f"tierlog.table.enable={str(table).lower()}"]
        words = [word for each in configs for word in ("--config", each)]
        self.tierlog("topic", "create", topic, *words, "--bootstrap", self.kafka)
        producer = Producer({"bootstrap.servers": self.kafka, "linger.ms": 20})
        for number in range(RECORDS[topic]):
            producer.produce(topic, value=b"%d %s" % (number, VALUE), partition=0)
        assert producer.flush(PATIENCE_S) == 0

    def is_cold(self, topic: str) -> bool:
        one = self.partition(topic)
        return bool(one["local_start"] == one["uploaded_end"] == RECORDS[topic])

    def is_converted(self, topic: str) -> bool:
        return bool(self.partition(topic).get("converted_end", -1) == RECORDS[topic])

    def read(self, topic: str, *, group: str) -> None:
        from confluent_kafka import Consumer

        consumer = Consumer(
            {
                "bootstrap.servers": self.kafka,
                "group.id": group,
                "client.id": f"{group}-1",
                "auto.offset.reset": "earliest",
            }
        )
        consumer.subscribe([topic])
        left, deadline = RECORDS[topic], time.monotonic() + PATIENCE_S
        while left > 0 and time.monotonic() < deadline:
            left -= len([one for one in consumer.consume(1000, 1.0) if one.error() is None])
        consumer.close()
        assert left == 0


def files_of(store: Path, words: str = "") -> list[int]:
    """Sizes; what starts with a dot is how a folder keeps house."""
    paths = [path for path in store.glob("[!.]*/**/*") if path.is_file()]
    return [path.stat().st_size for path in paths if words in str(path)]


def test_cold_reads_are_charged_to_the_group_that_reads(tmp_path: Path) -> None:
    with starting(tmp_path) as start:
        served = start("--store", f"file://{tmp_path}/store")
        ready = served.ready()
        node = Node(tmp_path, ready[1], ready[2])
        node.fill("orders", table=True)
        node.fill("clicks", table=False)
        node.wait(lambda: all(map(node.is_cold, RECORDS)) and node.is_converted("orders"))
        node.read("orders", group="audit")
        node.read("clicks", group="report")
        node.read("orders", group="late")  # What audit has brought into the cache.

        asked = json.loads(node.cost("--http", node.http, "--json"))["requests"]
        check_readers(asked, {name: node.partition(name)["cold_bytes"] for name in RECORDS})
        page = tmp_path / "actual.html"
        shown = node.cost("--http", node.http, "--html", str(page)).splitlines()
        for name in ("group audit", "group report", "group late"):
            assert any(line.startswith(name) for line in shown), name
            assert f"<td>{name}</td>" in page.read_text()
        check_listing(node)


def check_readers(asked: Any, held: dict[str, int]) -> None:
    readers = {one["reader"]: one for one in asked["readers"]}
    # Beside them there may be searches by time, of which nobody knows for whom they are.
    audit, report, late = (readers[f"group {name}"] for name in ("audit", "report", "late"))
    assert audit["read_bytes"] == late["read_bytes"]
    # Objects have an index behind their batches.
    for one, topic in ((audit, "orders"), (report, "clicks")):
        assert 0.9 * held[topic] < one["read_bytes"] <= held[topic]
        assert one["gets"] >= 2  # An index and a chunk.
        assert one["get_bytes"] >= one["read_bytes"]
    assert late["gets"] == 0
    usd = {name: Decimal(part) for name, part in asked["usd_by_reader"].items()}
    # A GET of STANDARD is $0.0000004.
    for one in readers.values():
        assert usd[one["reader"]] == one["gets"] * Decimal("0.0000004")
    parts = (*usd.values(), *map(Decimal, asked["usd_by_topic"].values()))
    assert sum(parts) == Decimal(asked["bill"]["usd_month"])


def check_listing(node: Node) -> None:
    """With a table: its files are referenced, its manifest is metadata."""
    found = json.loads(node.cost("--json"))
    sizes = files_of(node.store)
    assert found["listing"] == {"objects": len(sizes), "bytes": sum(sizes)}
    assert found["agrees"], found["troubles"]

    def total(**wanted: str) -> int:
        rows = [row for row in found["rows"] if wanted.items() <= row.items()]
        return sum(int(row["bytes"]) for row in rows)

    standings = ("referenced", "garbage", "orphans", "metadata")
    assert sum(total(standing=each) for each in standings) == sum(sizes)
    assert total(standing="referenced", what="Parquet") == sum(files_of(node.store, "/pq/")) > 0
    assert total(standing="metadata", what="table manifests") == sum(files_of(node.store, "/TABLE"))
    assert total(standing="referenced", what="segments") == sum(files_of(node.store, "/seg/"))
