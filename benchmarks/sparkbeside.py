"""The tail beside a conversion: does it hurt a producer that its node makes tables?

A producer sends 10 MB/s by the clock, and a slow answer does not hold back what is due next. The
node converts a cold topic meanwhile, in its worker, at the pace that it has by default; or, as the
baseline, has the same topic and leaves it as it is. Both begin with a node that was just started
and a history without a table. Of the conversion it is seen to that it goes on from before the first
request until after the last.
"""

import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from benchmarks import requests, tools
from benchmarks.broker import PAGE_CACHE, Tierlog, wait_until
from benchmarks.coldbeside import (
    P50,
    P99,
    PRODUCE_BYTES_PER_S,
    RECORDS,
    SETTLE_S,
    TAIL,
    UNTIERED,
)
from benchmarks.coldstage import EARLIEST_LOCAL, SEALED, WITHOUT_TABLE
from benchmarks.coldupload import worker_cpu_seconds
from benchmarks.gauge import Figures, Gauge, Promise
from benchmarks.harness import Size
from benchmarks.sparkstage import Events
from tierlog.client import Client
from tierlog.records.attributes import Codec
from tierlog.records.record import Record, encode_batch
from tierlog.types import Offset, TimestampMs

CONVERTED = "converted"
PARTITIONS = 8
KINDS_EACH = 8
"""Batches of a partition that differ: a megabyte of them, more than a codec looks back."""
BATCHES_SHARE = 14
"""Of `Size.data_bytes`: 896 MiB of batches, fourteen seconds at the pace of a node. The first of
the eight partitions are done before anything is measured."""
WITHOUT, WITH = "nothing is converted", "while it converts"
CORES = "cores that the conversion takes"
REAL_BYTES = 32 << 20
"""Of `Size.data_bytes`: with less a conversion is over before it can be in anybody's way."""


def gauges(size: Size) -> Iterator[Gauge]:
    tools.build()
    ways: dict[str, tuple[int, Mapping[str, str]]] = {
        "acks=all, default": (-1, {}),
        "acks=1, page cache": (1, PAGE_CACHE),
    }
    with Beside(size) as beside:
        for way, (acks, configs) in ways.items():
            seen: list[Figures] = []
            name = f"produce of 10 MB/s by the clock while tables are made, {way}"
            yield Gauge(
                name=name,
                variants={
                    WITHOUT: partial(beside.without, acks, configs),
                    WITH: partial(beside.converting, acks, configs, seen),
                },
                promises={P99: Promise(hold=1.5, aim=1.1), P50: Promise()},
                baseline=WITHOUT,
                note="latency counts from when a request was due",
            )
            took = iter(seen)
            yield Gauge(
                name=f"{name}: what it took",
                variants={"tierlog": partial(next, took)},
                promises={CORES: Promise()},
            )


class Beside:
    """Leaving the block ends the node."""

    def __init__(self, size: Size) -> None:
        self._is_real = size.data_bytes >= REAL_BYTES
        self._seconds = 4.0 if self._is_real else 0.3
        self._bytes = BATCHES_SHARE * size.data_bytes
        self._node = Tierlog(size.scratch / "beside")
        self._store = Path(f"{size.scratch / 'beside'}-store")

    def __enter__(self) -> "Beside":
        self._node.start()
        try:
            self._fill()
        except BaseException:
            self._node.kill()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._node.stop()

    def without(self, acks: int, configs: Mapping[str, str]) -> Figures:
        self._begin_anew(is_converting=False)
        with self._tail(acks, configs):
            return self._figures(acks)

    def converting(self, acks: int, configs: Mapping[str, str], seen: list[Figures]) -> Figures:
        self._begin_anew(is_converting=True)
        wait_until(lambda: self._tables() > 0, "the node converts nothing")
        with self._tail(acks, configs):
            cpu_s, began = worker_cpu_seconds(self._node.pid), time.perf_counter()
            figures = self._figures(acks)
            cores = (worker_cpu_seconds(self._node.pid) - cpu_s) / (time.perf_counter() - began)
            if self._is_real and self._tables() == PARTITIONS:
                raise tools.RunFailed("the conversion was over before the load was")
        seen.append({CORES: cores})
        return figures

    @contextmanager
    def _tail(self, acks: int, configs: Mapping[str, str]) -> Iterator[None]:
        """A topic for the producer, that has had its first requests: the node has just begun."""
        before = self._node.log_bytes()
        self._node.create_topic(TAIL, configs={**UNTIERED, **configs})
        self._load(acks, SETTLE_S)
        yield
        self._node.delete_topic(TAIL, left_bytes=before)

    def _figures(self, acks: int) -> Figures:
        made = self._load(acks, self._seconds)
        return {P50: made["p50_ms"], P99: made["p99_ms"]}

    def _load(self, acks: int, seconds: float) -> dict[str, float]:
        batch = requests.batch(value_bytes=1000, records=RECORDS)
        made = tools.load(
            [requests.produce(batch, topic=TAIL, acks=acks)],
            ports=[self._node.port],
            seconds=seconds,
            options={"rate": str(PRODUCE_BYTES_PER_S / len(batch))},
        )
        if made["checked"] != made["answers"] or not made["answers"]:
            raise tools.RunFailed(f"not every answer was checked: {made}")
        return made

    # The history

    def _begin_anew(self, *, is_converting: bool) -> None:
        """The node starts, and no table is there: a node keeps what it knows of one."""
        switch = {"tierlog.table.enable": "true" if is_converting else "false"}

        async def alter(client: Client) -> None:
            await client.alter_configs(CONVERTED, set=switch)

        self._node.call(alter)
        self._node.stop()
        for path in list(self._store.rglob("TABLE")):
            path.unlink()
        for path in list(self._store.rglob("pq")):
            shutil.rmtree(path)
        self._node.start()

    def _tables(self) -> int:
        return sum(1 for _ in self._store.rglob("TABLE"))

    def _fill(self) -> None:
        batches = list(self._batches())
        frames = [
            requests.produce(batch, topic=CONVERTED, partition=number % PARTITIONS)
            for number, batch in enumerate(batches)
        ]
        configs = {"segment.bytes": str(128 << 20), **WITHOUT_TABLE, **PAGE_CACHE}
        self._node.create_topic(CONVERTED, partitions=PARTITIONS, configs=configs)
        tools.load(
            frames,
            ports=[self._node.port],
            requests_max=max(1, self._bytes // sum(map(len, batches))),
            connections=len(frames),
            depth=2,
        )

        async def seal(client: Client) -> None:
            await client.alter_configs(CONVERTED, set=SEALED)

        self._node.call(seal)
        wait_until(self._is_cold, "the topic is not in the store")

    def _batches(self) -> Iterator[bytes]:
        events = Events()
        now_ms = TimestampMs(int(time.time() * 1000))
        count = 1_000 if self._is_real else 100
        for _ in range(PARTITIONS * KINDS_EACH):
            records = [
                Record(Offset(number), now_ms, key, value)
                for number, (key, value) in enumerate(events.some(count))
            ]
            yield bytes(encode_batch(records, codec=Codec.LZ4))

    def _is_cold(self) -> bool:
        async def ask(client: Client) -> bool:
            every = range(PARTITIONS)
            local = await client.list_offsets(CONVERTED, dict.fromkeys(every, EARLIEST_LOCAL))
            end = await client.list_offsets(CONVERTED, dict.fromkeys(every, -1))
            return all(local[index].offset == end[index].offset > 0 for index in every)

        time.sleep(0.2)
        return self._node.call(ask)
