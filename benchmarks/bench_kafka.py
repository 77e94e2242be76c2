"""The broker beside Apache Kafka: the same load on both, in turns, on the same machine.

- produce of 64 KB requests from one connection, and of one small record from sixteen
- fetch of 1 MB and 64 KB answers, with a small request every millisecond beside it
- end to end through librdkafka at 10,000 records a second, linger 0
- restart after a kill with data in 100 partitions, until each of them takes a write again

Kafka runs at its defaults with the same segment size, both sides acknowledge from the page cache;
after the kill tierlog stands at its own default, where every acknowledged batch was synced. Takes
some minutes: not part of `make bench`, but `make bench-kafka`.

Options: `warm_s` (60), how long the JVM is driven before anything counts; `restart_gb` (5), the
data at the restart; `restart_rounds` (3).
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

from benchmarks import drive, kafka, tools
from benchmarks.broker import PAGE_CACHE, UNTIERED, Broker, Tierlog
from benchmarks.drive import Produce
from benchmarks.gauge import Figures, Gauge, Promise
from benchmarks.harness import Size
from benchmarks.kafka import Kafka

REPORT = Promise()
PING_PROMISE = Promise(hold=1.5, aim=1.0)
FETCH_PROMISES = {
    ("1 MB", 1): Promise(hold=1.2, aim=1.7, is_speed=True),
    ("1 MB", 4): Promise(hold=0.8, aim=1.1, is_speed=True),
    ("1 MB", 16): Promise(hold=0.8, aim=1.1, is_speed=True),
    ("64 KB", 16): Promise(hold=1.0, aim=1.5, is_speed=True),
}
RESTART_PARTITIONS = 100
END_TO_END_RATE = 10_000
BULK = Produce(shape=drive.shape("produce 64 KB"), configs=PAGE_CACHE)
SMALL = Produce(shape=drive.shape("one record, 16 connections"), configs=PAGE_CACHE)


def comparisons(size: Size) -> Iterator[Gauge]:
    kafka.jars()
    tools.build()
    with Pair(size, "served") as pair:
        pair.warm(size.options.get("warm_s", 60.0))
        yield from produce_gauges(pair)
        yield from fetch_gauges(pair)
        yield end_to_end_gauge(pair)
    with Pair(size, "killed") as pair:
        yield restart_gauge(pair)


class Pair:
    """Both brokers, up at the same time; whoever is not driven is idle."""

    def __init__(self, size: Size, name: str) -> None:
        self.size = size
        self.seconds = 1.0 if size.name == "full" else 0.4
        self._folder = size.scratch / name
        self._stack = ExitStack()

    def __enter__(self) -> "Pair":
        enter = self._stack.enter_context
        self.node = enter(Tierlog(self._made("tierlog"), sets=UNTIERED))
        self.kafka = enter(Kafka(self._made("kafka")))
        self.node.start()
        self.kafka.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _made(self, name: str) -> Path:
        path = self._folder / name
        path.mkdir(parents=True)
        return path

    def gauge(
        self,
        name: str,
        run: Callable[[Broker], Figures],
        promises: Mapping[str, Promise],
        *,
        rounds: int | None = None,
        note: str = "",
    ) -> Gauge:
        return Gauge(
            name=name,
            variants={
                each.name: lambda broker=each: run(broker)  # type: ignore[misc]  # bound per turn
                for each in (self.kafka, self.node)
            },
            baseline=self.kafka.name,
            promises=promises,
            rounds=rounds,
            note=note,
        )

    def fill(self) -> None:
        for each in (self.node, self.kafka):
            drive.fill(each, bytes_each=min(256 << 20, 4 * self.size.data_bytes))

    def warm(self, seconds: float) -> None:
        """Give the JVM what it will be asked, until it has compiled its ways."""
        self.fill()
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            for how in (BULK, SMALL):
                drive.produce(self.kafka, how, 1.0)
            for _, bytes_max, connections in drive.FETCHES:
                drive.fetch(self.kafka, bytes_max=bytes_max, connections=connections, seconds=1.0)


def produce_gauges(pair: Pair) -> Iterator[Gauge]:
    yield pair.gauge(
        "produce 64 KB, 1 connection, page cache",
        lambda broker: drive.produce(broker, BULK, pair.seconds),
        {
            drive.SPEED: Promise(hold=2.0, aim=3.0, is_speed=True),
            drive.CPU_PER_GB: Promise(hold=0.5, aim=0.3),
        },
    )
    yield pair.gauge(
        "one record a request, 16 connections, page cache",
        lambda broker: drive.produce(broker, SMALL, pair.seconds),
        {drive.RATE: Promise(is_speed=True), drive.CPU_PER_REQUEST: REPORT},
    )


def fetch_gauges(pair: Pair) -> Iterator[Gauge]:
    for label, bytes_max, connections in drive.FETCHES:
        yield pair.gauge(
            f"fetch {label} x {connections}",
            fetcher(pair, bytes_max, connections),
            {
                drive.SPEED: FETCH_PROMISES[label, connections],
                drive.CPU_PER_GB: REPORT,
                drive.PING: PING_PROMISE,
            },
            note="a topic of its own, walked again and again; ping is ListOffsets, 1 per ms",
        )


def fetcher(pair: Pair, bytes_max: int, connections: int) -> Callable[[Broker], Figures]:
    return lambda broker: drive.fetch(
        broker, bytes_max=bytes_max, connections=connections, seconds=pair.seconds
    )


def end_to_end_gauge(pair: Pair) -> Gauge:
    return pair.gauge(
        "end to end, page cache",
        lambda broker: drive.end_to_end(
            broker, rate=END_TO_END_RATE, seconds=3.0, configs=PAGE_CACHE
        ),
        {drive.P50: REPORT, drive.P99: REPORT},
        rounds=7,
        note=f"{END_TO_END_RATE} records a second of 1 KB, linger 0, librdkafka on both ends",
    )


def restart_gauge(pair: Pair) -> Gauge:
    gigabytes = pair.size.options.get("restart_gb", 5.0)
    return pair.gauge(
        f"restart after kill -9, {gigabytes:g} GB in {RESTART_PARTITIONS} partitions",
        lambda broker: drive.restart_after_kill(
            broker, bytes_total=int(gigabytes * 1e9), partitions=RESTART_PARTITIONS
        ),
        {drive.SERVING: REPORT, drive.WRITABLE: Promise(hold=0.3, aim=0.1)},
        rounds=int(pair.size.options.get("restart_rounds", 3)),
        note="until one write to each partition was acknowledged",
    )
