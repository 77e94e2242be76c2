"""Loads on one server, and what they tell: figures by name.

Every figure comes from a run whose answers were all checked: no error code, every answer parsed,
and the log's end moved by exactly the records sent. Anything else raises.
"""

import os
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import endtoend, requests, tools
from benchmarks.broker import PAGE_CACHE, Broker, load_on, wait_until

Server = Broker | tools.ReferenceServer

SPEED = "MB/s"
RATE = "requests/s"
CPU_PER_GB = "CPU s/GB"
CPU_PER_REQUEST = "CPU us/request"
PING = "ping p99 ms"
P50 = "p50 ms"
P99 = "p99 ms"
SYNC_P99 = "fdatasync p99 ms"
ABOVE_SYNC = "p99 above fdatasync p99, ms"

SERVING = "serving again, s"
WRITABLE = "writable again, s"

PING_RATE = 1000
"""Small requests a second beside a fetch load: one per millisecond."""

TOPIC = "bench"
FETCH_TOPIC = "fetched"
FETCH_PARTITIONS = 4
FETCH_BATCH = requests.Shape(name="fetched", value_bytes=1024, records=60, connections=4, depth=5)
"""Its batches stay below 64 KiB, so that a fetch of 64 KiB is one of them."""


FETCHES = (
    ("1 MB", 1 << 20, 1),
    ("1 MB", 1 << 20, 4),
    ("1 MB", 1 << 20, 16),
    ("64 KB", 1 << 16, 16),
)
"""Answers of how many bytes, to how many connections."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Produce:
    """How to produce: connection i writes to partition i mod `partitions`."""

    shape: requests.Shape
    acks: int = 1
    partitions: int = 1
    configs: Mapping[str, str] | None = None

    def frames(self) -> list[bytes]:
        batch = requests.batch(value_bytes=self.shape.value_bytes, records=self.shape.records)
        return [
            requests.produce(batch, topic=TOPIC, partition=index, acks=self.acks)
            for index in range(self.partitions)
        ]


def shape(name: str, **changes: Any) -> requests.Shape:
    """A known shape, driven otherwise."""
    known = next(each for each in requests.SHAPES if each.name == name)
    return requests.Shape(
        name=name,
        value_bytes=known.value_bytes,
        records=known.records,
        connections=changes.get("connections", known.connections),
        depth=changes.get("depth", known.depth),
    )


def produce(server: Server, how: Produce, seconds: float) -> dict[str, float]:
    """Write into a new topic for a while; the topic is gone afterwards."""
    if isinstance(server, Broker):
        with_topic = NewTopic(server, how)
        result = with_topic.run(seconds)
    else:
        result = load_on(
            server,
            how.frames(),
            seconds=seconds,
            connections=how.shape.connections,
            depth=how.shape.depth,
        )
    return produce_figures(result)


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic for one measurement: new segments every time, nothing left behind."""

    broker: Broker
    how: Produce

    def run(self, seconds: float) -> dict[str, Any]:
        before = self.create()
        result: dict[str, Any] = load_on(
            self.broker,
            self.how.frames(),
            seconds=seconds,
            connections=self.how.shape.connections,
            depth=self.how.shape.depth,
        )
        self.check(result["records"])
        self.broker.delete_topic(TOPIC, left_bytes=before)
        return result

    def create(self) -> int:
        """Returns what the folder held before."""
        before = self.broker.log_bytes()
        self.broker.create_topic(TOPIC, partitions=self.how.partitions, configs=self.how.configs)
        return before

    def check(self, records: int) -> None:
        """The log grew by what was acknowledged; acks=1 may be ahead of the high watermark."""
        wait_until(
            lambda: self.broker.records_of(TOPIC, self.how.partitions) == records,
            f"{self.broker.name}: the log does not hold the {records} records acknowledged",
        )


def produce_figures(result: Mapping[str, Any]) -> dict[str, float]:
    if result["checked"] != result["answers"] or not result["answers"]:
        raise tools.RunFailed(f"not every answer was checked: {result}")
    sent_gb = result["sent_mb_per_s"] * result["seconds"] / 1000
    return {
        SPEED: result["sent_mb_per_s"],
        RATE: result["answers_per_s"],
        CPU_PER_GB: result["server_cpu_s"] / sent_gb,
        CPU_PER_REQUEST: result["server_cpu_s"] / result["answers"] * 1e6,
        P99: result["p99_ms"],
    }


# Fetch


def fill(server: Server, *, bytes_each: int) -> None:
    """Make the topic that fetches walk, `bytes_each` in every partition; written once."""
    if isinstance(server, Broker):
        server.create_topic(FETCH_TOPIC, partitions=FETCH_PARTITIONS, configs=PAGE_CACHE)
    batch = requests.batch(value_bytes=FETCH_BATCH.value_bytes, records=FETCH_BATCH.records)
    tools.load(
        [
            requests.produce(batch, topic=FETCH_TOPIC, partition=index)
            for index in range(FETCH_PARTITIONS)
        ],
        ports=[server.port],
        seconds=300,
        connections=FETCH_PARTITIONS,
        depth=FETCH_BATCH.depth,
        requests_max=max(1, bytes_each // len(batch)),
    )
    if isinstance(server, Broker):
        server.sync_files()


def fetch(server: Server, *, bytes_max: int, connections: int, seconds: float) -> dict[str, float]:
    """Walk the filled topic from its start to its end and over again, and ping meanwhile."""
    frames = [
        requests.fetch(bytes_max=bytes_max, topic=FETCH_TOPIC, partition=index, wait_ms=0)
        for index in range(FETCH_PARTITIONS)
    ]
    options: dict[str, str | None] = {"walk": None}
    if isinstance(server, Broker) and server.cuts_batches:
        options["cut"] = None
    with ThreadPoolExecutor(1) as pool:
        pings = pool.submit(_ping, server, seconds)
        result = load_on(server, frames, seconds=seconds, connections=connections, options=options)
        ping = pings.result()
    if result["checked"] != result["answers"] or not result["records"]:
        raise tools.RunFailed(f"not every answer was checked: {result}")
    received_gb = result["received_mb_per_s"] * result["seconds"] / 1000
    return {
        SPEED: result["received_mb_per_s"],
        CPU_PER_GB: result["server_cpu_s"] / received_gb,
        PING: ping["p99_ms"],
    }


def _ping(server: Server, seconds: float) -> dict[str, Any]:
    """A small request every millisecond on a connection of its own, latency from when it is due."""
    return tools.load(
        [requests.latest_offset(topic=FETCH_TOPIC)],
        ports=[server.port],
        seconds=seconds,
        options={"rate": str(PING_RATE)},
    )


# End to end


def end_to_end(
    broker: Broker, *, rate: float, seconds: float, configs: Mapping[str, str]
) -> dict[str, float]:
    """A measurement without a second to warm up is none; it shows that the code runs."""
    before = broker.log_bytes()
    broker.create_topic(TOPIC, configs=configs)
    warm_s = min(endtoend.WARM_S, seconds)
    latency = endtoend.measure(broker.port, TOPIC, rate=rate, seconds=seconds, warm_s=warm_s)
    broker.delete_topic(TOPIC, left_bytes=before)
    return {P50: latency.p50_ms, P99: latency.p99_ms}


def fdatasync_p99_ms(folder: Path, *, count: int = 300) -> float:
    """What one append of 4 KiB and its fdatasync take here and now."""
    path = folder / "sync-probe"
    took: list[float] = []
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT)
    try:
        for number in range(count):
            began = time.perf_counter()
            os.pwrite(descriptor, bytes(4096), number * 4096)
            os.fdatasync(descriptor)
            took.append(time.perf_counter() - began)
    finally:
        os.close(descriptor)
        path.unlink()
    return sorted(took)[int(count * 0.99)] * 1e3


def restart_after_kill(broker: Broker, *, bytes_total: int, partitions: int) -> dict[str, float]:
    """Fill many partitions, kill, start, and write to all of them again."""
    left = broker.log_bytes()
    broker.create_topic(TOPIC, partitions=partitions, configs={"segment.bytes": str(64 << 20)})
    batch = requests.batch(value_bytes=FETCH_BATCH.value_bytes, records=FETCH_BATCH.records)
    frames = [requests.produce(batch, topic=TOPIC, partition=index) for index in range(partitions)]
    each = max(1, bytes_total // partitions // len(batch))
    tools.load(frames, ports=[broker.port], seconds=600, connections=partitions, requests_max=each)
    records = each * partitions * FETCH_BATCH.records
    wait_until(lambda: broker.records_of(TOPIC, partitions) == records, "not all was written")
    broker.kill()
    began = time.monotonic()
    broker.start()
    serving_s = time.monotonic() - began
    _write_to_all(broker, frames)
    writable_s = time.monotonic() - began
    if broker.records_of(TOPIC, partitions) < records:
        raise tools.RunFailed(f"{broker.name} lost records that were durable")
    broker.delete_topic(TOPIC, left_bytes=left)
    return {SERVING: serving_s, WRITABLE: writable_s}


def _write_to_all(broker: Broker, frames: Sequence[bytes]) -> None:
    """One batch to every partition; tried again until each was taken."""

    def taken() -> bool:
        try:
            tools.load(frames, ports=[broker.port], connections=len(frames), requests_max=1)
        except tools.RunFailed:  # Not yet the leader of all of them.
            return False
        return True

    wait_until(taken, f"{broker.name} does not take writes to all partitions")
