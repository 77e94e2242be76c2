"""`tierlog cost actual` and `cost quote replay` on buckets that a real node filled.

The recount is independent of tierlog: the files of a folder, or a listing by boto3.
"""

import json
import time
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from tests.cli.conftest import Cli
from tests.cli.served import Ended, run, starting
from tests.stores.servers import BUCKET, Server

RECORDS = 2_000
PATIENCE_S = 60.0
COLD = {"segment.ms": "1000", "local.retention.ms": "1000", "tierlog.table.enable": "false"}
"""Without tables: when a conversion is done is the node's affair. `tests/cold/test_census.py` has
them."""


class Filled:
    """A store with two topics of different owners, one that is deleted, an orphan and a table."""

    def __init__(self, words: list[str], env: dict[str, str], folder: Path) -> None:
        self.words = words
        self.env = env
        self.folder = folder
        self.kafka = self.http = ""
        self.ids: dict[str, str] = {}

    def fill(self, kafka: str, http: str) -> None:
        self.kafka, self.http = kafka, http
        for name in ("orders", "clicks", "gone"):
            owner = {"tierlog.owner": f"team {name}"} if name != "gone" else {}
            self._tierlog("topic", "create", name, *_configs({**COLD, **owner}))
            self._produce(name)
        self._wait_cold()
        self._tierlog("topic", "delete", "gone", "--yes")

    def _produce(self, name: str) -> None:
        from confluent_kafka import Producer

        producer = Producer({"bootstrap.servers": self.kafka, "linger.ms": 20})
        for number in range(RECORDS):
            producer.produce(name, value=b"value %d" % number * 5, partition=0)
        assert producer.flush(PATIENCE_S) == 0

    def _wait_cold(self) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            with urlopen(f"http://{self.http}/state", timeout=10) as answer:
                topics = json.load(answer)["topics"]
            ours = [one["partitions"][0] for one in topics if not one["name"].startswith("__")]
            if all(one["uploaded_end"] == one["high_watermark"] == RECORDS for one in ours):
                self.ids = {one["name"]: one["id"] for one in topics}
                return
            time.sleep(0.1)
        raise AssertionError(f"not in the store: {topics}")

    def _tierlog(self, *words: str) -> None:
        done = run(*words, "--bootstrap", self.kafka, cwd=self.folder, environment=self.env)
        assert done.code == 0, done.err

    def done(self, *words: str) -> Ended:
        return run("cost", *words, *self.words, cwd=self.folder, environment=self.env)

    def cost(self, *words: str) -> Any:
        done = self.done(*words, "--json")
        assert done.code == 0, done.err
        return json.loads(done.out)


def _configs(values: dict[str, str]) -> list[str]:
    return [word for item in values.items() for word in ("--config", "=".join(item))]


Listing = Callable[[], dict[str, int]]


def recounted_folder(store: Path) -> dict[str, int]:
    return {
        str(path.relative_to(store)): path.stat().st_size
        for path in store.rglob("*")
        if path.is_file() and not str(path.relative_to(store)).startswith(".")
    }


def recounted_bucket(server: Server, prefix: str) -> dict[str, int]:
    pages = server.client().get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix)
    return {
        one["Key"].removeprefix(prefix): one["Size"]
        for page in pages
        for one in page.get("Contents", ())
    }


@pytest.fixture(params=["folder", "moto", "minio"])
def filled(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[tuple[Filled, Listing, Callable[[str, bytes], None]]]:
    """The node runs on; the listing is that of nobody who has to do with tierlog."""
    if request.param == "folder":
        folder = tmp_path / "store"
        made = Filled(["--store", f"file://{folder}"], {}, tmp_path)

        def listing() -> dict[str, int]:
            return recounted_folder(folder)

        def put(key: str, data: bytes) -> None:
            (folder / key).parent.mkdir(parents=True, exist_ok=True)
            (folder / key).write_bytes(data)

    else:
        server: Server = request.getfixturevalue(f"{request.param}_server")
        prefix = f"actual-{tmp_path.name}"
        url = ["--store", f"s3://{BUCKET}/{prefix}", "--set", f"s3.endpoint={server.endpoint}"]
        made = Filled(url, server.environment(), tmp_path)

        def listing() -> dict[str, int]:
            return recounted_bucket(server, f"{prefix}/")

        def put(key: str, data: bytes) -> None:
            server.client().put_object(Bucket=BUCKET, Key=f"{prefix}/{key}", Body=data)

    with starting(tmp_path, made.env) as start:
        node = start(*made.words)
        ready = node.ready()
        made.fill(ready[1], ready[2])
        yield made, listing, put


@pytest.mark.store
@pytest.mark.compat
def test_the_listing_is_referenced_and_garbage_and_orphans_and_metadata_to_the_byte(
    filled: tuple[Filled, Listing, Callable[[str, bytes], None]],
) -> None:
    bucket, listing, put = filled
    cluster = next(iter(listing())).partition("/")[0]
    living = f"{bucket.ids['orders']}/0/HEAD"
    head = next(key for key in listing() if key.endswith(living))
    # An upload and a file of a table that nobody published.
    place = head.removesuffix("HEAD")
    name = f"{0:020d}-{9:020d}-e00000000-n00001-{7:016x}.seg"
    put(f"{place}seg/{name}", b"orphan")
    put(f"{place}pq/{name.removesuffix('.seg')}.parquet", b"parquet")

    found = bucket.cost("actual", "--http", bucket.http)
    outside = {key: size for key, size in listing().items() if key.startswith(f"{cluster}/")}
    assert found["cluster_id"] == cluster
    assert found["listing"] == {"objects": len(outside), "bytes": sum(outside.values())}
    assert found["agrees"], found["troubles"]

    def total(standing: str, topic: str | None = None) -> int:
        rows = [row for row in found["rows"] if row["standing"] == standing]
        return sum(row["bytes"] for row in rows if topic is None or row["topic"] == topic)

    standings = {row["standing"] for row in found["rows"]}
    assert standings == {"referenced", "garbage", "orphans", "metadata"}
    assert sum(map(total, standings)) == sum(outside.values())
    assert total("orphans") == len(b"orphan") + len(b"parquet")
    ids = bucket.ids

    def held(topic: str, words: str = "") -> int:
        return sum(size for key, size in outside.items() if ids[topic] in key and words in key)

    alive = held("orders", "/seg/") + held("clicks", "/seg/")
    assert total("referenced") == alive - len(b"orphan")
    assert total("garbage") == held("gone") > 0
    _check_money(found)

    one = bucket.cost("actual", "--topic", "orders")
    assert one["listing"]["bytes"] == held("orders")
    _check_quote(bucket, one)


def _check_money(found: Any) -> None:
    bill = Decimal(found["bill"]["usd_month"])
    for split in ("usd_by_topic", "usd_by_owner"):
        assert sum(map(Decimal, found[split].values())) == bill
    assert {"team orders", "team clicks"} <= set(found["usd_by_owner"])
    requests = found["requests"]
    parts = (*requests["usd_by_topic"].values(), *requests["usd_by_reader"].values())
    assert sum(map(Decimal, parts)) == Decimal(requests["bill"]["usd_month"]) > 0
    # Two small writes for the cluster, an object and a HEAD at least for each topic.
    assert requests["puts"] >= 8


def _check_quote(bucket: Filled, one: Any) -> None:
    quote = bucket.cost("quote", "replay", "--topic", "orders", "--from", "segments")
    segments = sum(row["objects"] for row in one["rows"] if row["what"] == "segments")
    assert quote["records"] == RECORDS
    assert quote["segments"] == segments
    assert quote["gets"] == 2 * segments  # Each is one chunk and its index.
    assert Decimal(quote["usd"]) == quote["gets"] * Decimal("0.0000004")
    none = bucket.cost("quote", "replay", "--topic", "orders", "--until", "2001-01-01")
    assert (none["bytes"], none["usd"]) == (0, "0")
    _check_that_what_is_too_dear_is_refused(bucket, Decimal(quote["usd"]))


def _check_that_what_is_too_dear_is_refused(bucket: Filled, price: Decimal) -> None:
    words = ["quote", "replay", "--topic", "orders", "--from", "segments", "--max-usd"]
    dear = bucket.done(*words, f"{price / 2:f}")
    assert dear.code == 1
    assert "more than --max-usd" in dear.err
    assert "GETs" in dear.out  # What it would have cost is told all the same.
    assert bucket.done(*words, f"{price * 2:f}").code == 0


def test_a_quote_needs_a_bucket(tierlog: Cli, tmp_path: Path) -> None:
    done = tierlog("cost", "quote", "replay", "--topic", "x", "--store", f"file://{tmp_path}/none")
    assert done.code == 1
    assert "there is no folder" in done.err
