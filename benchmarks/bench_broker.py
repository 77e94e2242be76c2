"""The broker beside the C reference, and beside itself with less asked of it.

- produce, acks=1, page cache and at the default `flush.messages=1`, against a server in C that
  frames, checks the CRC, writes and answers: 64 KB and 1 MB requests, one small record a request.
- acks=all against acks=1, over one partition and over a hundred.
- two nodes against one: what a second core is worth.
- fetch of 1 MB and 64 KB answers over a topic of its own, walked from end to end, with a small
  request every millisecond beside it. Against the C reference this is context; the promise is made
  against Kafka (`bench_kafka`).
- end to end through librdkafka at 10,000 records a second, linger 0.

Every produce measurement writes a new topic: new segments of 512 MiB on both sides.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks import drive, tools
from benchmarks.broker import PAGE_CACHE, UNTIERED, Tierlog
from benchmarks.drive import Produce
from benchmarks.gauge import Figures, Gauge, Promise
from benchmarks.harness import Size

REPORT = Promise()
NODES_NOTE = "4 connections, 4 partitions; the generator shares the two cores with the nodes"
END_TO_END_RATE = 10_000


def comparisons(size: Size) -> Iterator[Gauge]:
    tools.build()
    with Rig(size) as rig:
        yield from produce_gauges(rig)
        yield from acks_gauges(rig)
        yield nodes_gauge(rig)
        yield from fetch_gauges(rig)
        yield from end_to_end_gauges(rig)


class Rig:
    """The servers, all of them up during the whole run; whoever is not driven is idle."""

    def __init__(self, size: Size) -> None:
        self.size = size
        self.is_full = size.name != "smoke"
        self.seconds = {"full": 0.6, "quick": 0.3}.get(size.name, 0.05)
        self._stack = ExitStack()

    def __enter__(self) -> "Rig":
        enter = self._stack.enter_context
        self.reference = enter(tools.ReferenceServer(self.size.scratch))
        self.reference_logs = enter(
            tools.ReferenceServer(self.size.scratch, logs=drive.FETCH_PARTITIONS)
        )
        self.node = enter(Tierlog(self.folder("node"), sets=UNTIERED).start())
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def folder(self, name: str) -> Path:
        path = self.size.scratch / name
        path.mkdir()
        return path

    def second_node(self) -> Tierlog:
        return self._stack.enter_context(Tierlog(self.folder("second"), sets=UNTIERED).start())

    def produce(self, how: Produce) -> Figures:
        return drive.produce(self.node, how, self.seconds)

    def reference_produce(self, how: Produce) -> Figures:
        return drive.produce(self.reference, how, self.seconds)

    def connections(self, wanted: int) -> int:
        return wanted if self.is_full else min(wanted, 4)


def produce_gauges(rig: Rig) -> Iterator[Gauge]:
    bulk = Promise(hold=0.55, aim=0.75, is_speed=True)
    synced = Promise(hold=0.35, aim=0.50, is_speed=True)
    small = Promise(hold=0.40, aim=0.60, is_speed=True)
    for name in ("produce 64 KB", "produce 1 MB"):
        yield against_reference(rig, name, "page cache", bulk, drive.SPEED)
    for name in ("produce 64 KB", "produce 1 MB"):
        yield against_reference(rig, name, "flush.messages=1", synced, drive.SPEED)
    yield against_reference(rig, "one record, 16 connections", "page cache", small, drive.RATE)
    pipelined = Promise(is_speed=True)
    yield against_reference(rig, "one record, pipelined", "page cache", pipelined, drive.RATE)


def against_reference(rig: Rig, shape: str, flush: str, promise: Promise, figure: str) -> Gauge:
    configs = PAGE_CACHE if flush == "page cache" else {}
    how = Produce(shape=drive.shape(shape), configs=configs)
    cpu = drive.CPU_PER_GB if figure == drive.SPEED else drive.CPU_PER_REQUEST
    return Gauge(
        name=f"{shape}, acks=1, {flush}",
        variants={
            "C reference": lambda: rig.reference_produce(how),
            "tierlog": lambda: rig.produce(how),
        },
        baseline="C reference",
        promises={figure: promise, cpu: REPORT},
    )


def acks_gauges(rig: Rig) -> Iterator[Gauge]:
    four = drive.shape("produce 64 KB", connections=4)
    yield Gauge(
        name="produce 64 KB, 4 connections",
        variants={
            "acks=1, page cache": lambda: rig.produce(Produce(shape=four, configs=PAGE_CACHE)),
            "acks=all, default": lambda: rig.produce(Produce(shape=four, acks=-1)),
        },
        baseline="acks=1, page cache",
        promises={
            drive.SPEED: Promise(hold=0.45, aim=0.60, is_speed=True),
            drive.CPU_PER_GB: REPORT,
        },
        note="one partition",
    )
    many = rig.connections(100)
    wide = drive.shape("produce 64 KB", connections=many, depth=1)
    yield Gauge(
        name="produce 64 KB, acks=all, default, 100 connections",
        variants={
            "1 partition": lambda: rig.produce(Produce(shape=wide, acks=-1)),
            "100 partitions": lambda: rig.produce(Produce(shape=wide, acks=-1, partitions=many)),
        },
        baseline="1 partition",
        promises={drive.SPEED: Promise(aim=0.5, is_speed=True), drive.P99: REPORT},
        note="one request in flight on each connection",
    )


def nodes_gauge(rig: Rig) -> Gauge:
    second = rig.second_node()
    how = Produce(
        shape=drive.shape("produce 64 KB", connections=4), partitions=4, configs=PAGE_CACHE
    )
    return Gauge(
        name="produce 64 KB, page cache, nodes on two cores",
        variants={
            "one node": lambda: rig.produce(how),
            "two nodes": lambda: produce_on_two(rig.node, second, how, rig.seconds),
        },
        baseline="one node",
        promises={drive.SPEED: Promise(hold=1.6, aim=1.9, is_speed=True), drive.CPU_PER_GB: REPORT},
        note=NODES_NOTE,
    )


def produce_on_two(one: Tierlog, other: Tierlog, how: Produce, seconds: float) -> Figures:
    """Connections take turns over the nodes, so each node sees half of the partitions."""
    topics = [drive.NewTopic(node, how) for node in (one, other)]
    before = [topic.create() for topic in topics]
    cpu = -one.cpu_s() - other.cpu_s()
    result: dict[str, Any] = tools.load(
        how.frames(),
        ports=[one.port, other.port],
        seconds=seconds,
        connections=how.shape.connections,
        depth=how.shape.depth,
    )
    result["server_cpu_s"] = cpu + one.cpu_s() + other.cpu_s()
    held = [node.records_of(drive.TOPIC, how.partitions) for node in (one, other)]
    if sum(held) != result["records"] or not all(held):
        raise tools.RunFailed(f"two nodes hold {held} of {result['records']} records")
    for topic, left in zip(topics, before, strict=True):
        topic.broker.delete_topic(drive.TOPIC, left_bytes=left)
    return drive.produce_figures(result)


def fetch_gauges(rig: Rig) -> Iterator[Gauge]:
    bytes_each = min(256 << 20, 4 * rig.size.data_bytes)  # 256 MiB at the full size.
    for server in (rig.reference_logs, rig.node):
        drive.fill(server, bytes_each=bytes_each)
    for label, bytes_max, connections in drive.FETCHES:
        yield fetch_gauge(rig, label, bytes_max, rig.connections(connections))


def fetch_gauge(rig: Rig, label: str, bytes_max: int, connections: int) -> Gauge:
    def run(server: drive.Server) -> Figures:
        return drive.fetch(
            server, bytes_max=bytes_max, connections=connections, seconds=rig.seconds
        )

    return Gauge(
        name=f"fetch {label} x {connections}",
        variants={"C reference": lambda: run(rig.reference_logs), "tierlog": lambda: run(rig.node)},
        baseline="C reference",
        promises={
            drive.SPEED: Promise(is_speed=True),
            drive.CPU_PER_GB: REPORT,
            drive.PING: REPORT,
        },
        note="context; the C reference sends by sendfile, a thread per connection",
    )


def end_to_end_gauges(rig: Rig) -> Iterator[Gauge]:
    rate = END_TO_END_RATE if rig.is_full else 200
    seconds = 3.0 if rig.is_full else 0.1
    note = (
        f"{rate} records a second of 1 KB, linger 0, librdkafka on both ends, from due to received"
    )

    def page_cache() -> Figures:
        return drive.end_to_end(rig.node, rate=rate, seconds=seconds, configs=PAGE_CACHE)

    def default() -> Figures:
        figures = drive.end_to_end(rig.node, rate=rate, seconds=seconds, configs={})
        sync_ms = drive.fdatasync_p99_ms(rig.size.scratch, count=300 if rig.is_full else 20)
        above = figures[drive.P99] - sync_ms
        return {**figures, drive.SYNC_P99: sync_ms, drive.ABOVE_SYNC: above}

    yield Gauge(
        name="end to end, page cache",
        variants={"tierlog": page_cache},
        promises={drive.P50: Promise(hold=1.0), drive.P99: Promise(hold=5.0, aim=2.0)},
        rounds=7,
        note=note,
    )
    yield Gauge(
        name="end to end, default",
        variants={"tierlog": default},
        promises={
            drive.P50: REPORT,
            drive.P99: REPORT,
            drive.SYNC_P99: REPORT,
            drive.ABOVE_SYNC: Promise(hold=5.0),
        },
        rounds=7,
        note=note,
    )
