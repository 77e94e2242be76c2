"""The tail beside a replay: does it hurt a producer that old records leave through its broker?

A producer sends 10 MB/s by the clock, and a slow answer does not hold back what is due next. One
consumer replays the cold topic at 50 MB/s meanwhile: through the same node, or, as the baseline,
past it, by GETs of the same objects. So machine and store have the same guests on both sides, and
what differs is the broker's. Both begin with a node that was just started and has nothing cached.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

from benchmarks import requests, tools
from benchmarks.broker import PAGE_CACHE
from benchmarks.coldstage import COLD, PARTITIONS, Stage
from benchmarks.gauge import Figures, Gauge, Promise
from benchmarks.harness import Size
from benchmarks.replay import Reader

TAIL = "tail"
UNTIERED = {"remote.storage.enable": "false"}
PAST, THROUGH = "replay past the broker", "replay through it"
P50, P99 = "p50 ms", "p99 ms"
REPLAYED = "MB/s replayed"
REPLAY_BYTES_PER_S = 50_000_000
PRODUCE_BYTES_PER_S = 10_000_000
RECORDS = 10
"""Of a kilobyte, in a request: a thousand requests a second."""
ROUNDS = 11
SETTLE_S = 0.5
"""The replay has begun when the producer does."""


def gauges(stage: Stage, size: Size) -> Iterator[Gauge]:
    seconds = 4.0 if size.is_full else 0.3
    ways: dict[str, tuple[int, Mapping[str, str]]] = {
        "acks=all, default": (-1, {}),
        "acks=1, page cache": (1, PAGE_CACHE),
    }
    for way, (acks, configs) in ways.items():
        tail = Tail(stage, seconds=seconds, acks=acks, configs=configs)
        yield Gauge(
            name=f"produce of 10 MB/s by the clock during a replay of 50 MB/s, {way}",
            variants={PAST: tail.past, THROUGH: tail.through},
            promises={
                P99: Promise(hold=1.5, aim=1.1),
                P50: Promise(),
                REPLAYED: Promise(is_speed=True),
            },
            baseline=PAST,
            rounds=ROUNDS,
            note="latency counts from when a request was due; one consumer of 8 partitions",
        )


class Tail:
    """A producer, and the two ways of a replay."""

    def __init__(
        self, stage: Stage, *, seconds: float, acks: int, configs: Mapping[str, str]
    ) -> None:
        self._stage = stage
        self._seconds = seconds
        self._configs = {**UNTIERED, **configs}
        batch = requests.batch(value_bytes=1000, records=RECORDS)
        self._frame = requests.produce(batch, topic=TAIL, acks=acks)
        self._rate = PRODUCE_BYTES_PER_S / len(batch)

    def through(self) -> Figures:
        return self._beside(self._replay_through)

    def past(self) -> Figures:
        return self._beside(self._replay_past)

    def _beside(self, replay: Callable[["Pace"], None]) -> Figures:
        self._stage.forget()
        node = self._stage.node
        before = node.log_bytes()
        node.create_topic(TAIL, configs=self._configs)
        pace = Pace()
        with ThreadPoolExecutor(1) as threads:
            replayed = threads.submit(replay, pace)
            time.sleep(SETTLE_S)
            made = tools.load(
                [self._frame],
                ports=[node.port],
                seconds=self._seconds,
                options={"rate": str(self._rate)},
            )
            pace.is_over.set()
            replayed.result()
        if made["checked"] != made["answers"] or not made["answers"]:
            raise tools.RunFailed(f"not every answer was checked: {made}")
        node.delete_topic(TAIL, left_bytes=before)
        return {P50: made["p50_ms"], P99: made["p99_ms"], REPLAYED: pace.speed}

    def _replay_through(self, pace: "Pace") -> None:
        reader = Reader(self._stage.node.port, COLD, range(PARTITIONS))
        try:
            while pace.goes_on(reader.bytes) and not reader.is_at(self._stage.end):
                reader.fetch()
        finally:
            reader.close()

    def _replay_past(self, pace: "Pace") -> None:
        self._stage.raw(range(PARTITIONS), at_once=1, goes_on=pace.goes_on)


class Pace:
    """Fifty megabytes a second, until it is over."""

    def __init__(self) -> None:
        self.is_over = threading.Event()
        self._began = time.perf_counter()
        self._bytes = 0
        self._took_s = 0.0

    @property
    def speed(self) -> float:
        return self._bytes / max(self._took_s, 1e-9) / 1e6

    def goes_on(self, done: int) -> bool:
        """Back when it is time for more than `done` bytes; False when there shall be no more."""
        self._bytes = done
        wait_s = done / REPLAY_BYTES_PER_S - (time.perf_counter() - self._began)
        is_over = self.is_over.wait(max(wait_s, 0))
        self._took_s = time.perf_counter() - self._began
        return not is_over
