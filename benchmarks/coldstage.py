"""A MinIO, a node on it, and a topic of which nothing but the bucket has a copy.

Beside it the same bytes in a topic that is not tiered: what a hot fetch of them is like. The cache
is emptied by a restart without its folder, so every uncached replay meets a node that knows nothing
of the topic but the local copies of its HEADs. A smaller cold topic is replayed after the restart,
so that the node is as one that has been up for a while: memory that a process never touched is dear
on virtual machines, and a node pays for it once.
"""

import asyncio
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from benchmarks import requests, tools
from benchmarks.broker import PAGE_CACHE, Tierlog, wait_until
from benchmarks.replay import Reader, replay
from benchmarks.storewatch import CONNECTIONS, Watched
from tests.stores.servers import BUCKET, Server
from tierlog.client import Client
from tierlog.env import local_env
from tierlog.objectstore.port import Span
from tierlog.types import Position

COLD, HOT, WARM = "cold", "hot", "warm"
PARTITIONS = 8
RECORDS = 63
RANGE_BYTES = 8 << 20
SEGMENT_BYTES = 128 << 20
"""The default."""
WARM_SHARE = 4
"""So many times smaller is the topic that makes a node warm."""
EARLIEST_LOCAL = -4
WITHOUT_TABLE = {"tierlog.table.enable": "false"}
"""Converting a gigabyte takes a core for a while, in the middle of whatever is measured."""
SEALED = {"segment.ms": "1000", "local.retention.ms": "1000"}
SPEED, CPU_PER_GB = "MB/s", "CPU s/GB"
MEMORY = "memory growth, MB"
GETS_PER_GB, GET_BYTES = "GETs/GB", "bytes fetched / bytes read"
GETS_RECKONED = "GETs/GB as the cost model reckons"
"""A GET a chunk, nothing cached; indexes and first blocks are on top."""


class Stage:
    """Leaving the block ends the node; the folder belongs to whoever gave it."""

    def __init__(self, server: Server, folder: Path, *, partition_bytes: int) -> None:
        self._server = server
        self._data = folder / "node"
        self._batch = requests.batch(value_bytes=1024, records=RECORDS)
        self._count = max(partition_bytes // len(self._batch), WARM_SHARE)
        self._segment_bytes = min(max(partition_bytes, 1 << 20), SEGMENT_BYTES)
        self.node = self._node(0.0)
        self.uploading: dict[str, float] = {}
        """What the road to the bucket took: requests, bytes, seconds, memory."""

    @property
    def end(self) -> int:
        """Of every partition."""
        return self._count * RECORDS

    @property
    def bytes(self) -> int:
        """Of all partitions."""
        return self._count * len(self._batch) * PARTITIONS

    @property
    def segment_bytes(self) -> int:
        return self._segment_bytes

    def __enter__(self) -> Self:
        self.node.start()
        try:
            self._fill()
        except BaseException:
            self.node.kill()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.node.kill()

    def _node(self, get_delay_ms: float) -> Tierlog:
        return Tierlog(
            self._data,
            sets=[f"s3.endpoint={self._server.endpoint}", f"tierlog.cache.bytes={16 << 30}"],
            store=f"s3://{BUCKET}/cold",
            get_delay_ms=get_delay_ms,
            environ=self._server.environment(),
        )

    def forget(self, *, get_delay_ms: float = 0.0, is_warm: bool = True) -> None:
        """The node starts anew, without its cache."""
        self.node.stop()
        shutil.rmtree(self._data / "cache", ignore_errors=True)
        self.node = self._node(get_delay_ms).start()
        if is_warm:
            groups = [[index] for index in range(PARTITIONS)]
            replay(self.node.port, WARM, groups, end=self._count // WARM_SHARE * RECORDS)
        self.node.store_requests()

    # Data

    def _fill(self) -> None:
        tiered = {"segment.bytes": str(self._segment_bytes), **WITHOUT_TABLE, **PAGE_CACHE}
        untiered = {**tiered, "remote.storage.enable": "false"}
        self._fill_topic(COLD, tiered, self._count)
        self._fill_topic(HOT, untiered, self._count)
        self._go_cold()
        self._fill_topic(WARM, tiered, self._count // WARM_SHARE)
        self.node.call(partial(_seal, WARM))
        wait_until(lambda: self._is_cold(WARM, self._count // WARM_SHARE), "it is not cold")

    def _fill_topic(self, topic: str, configs: Mapping[str, str], count: int) -> None:
        """`count` batches in each partition."""
        self.node.create_topic(topic, partitions=PARTITIONS, configs=configs)
        frames = [
            requests.produce(self._batch, topic=topic, partition=index)
            for index in range(PARTITIONS)
        ]
        tools.load(
            frames,
            ports=[self.node.port],
            requests_max=count,
            connections=PARTITIONS,
            depth=2,
        )
        assert self.node.records_of(topic, PARTITIONS) == count * RECORDS * PARTITIONS

    def _go_cold(self) -> None:
        self.node.store_requests()  # What the node's start asked for is no part of it.
        began = time.perf_counter()
        with peak_of(self.node) as memory:
            self.node.call(partial(_seal, COLD))
            wait_until(lambda: self._is_cold(COLD, self._count), "the topic is not in the bucket")
        seconds = time.perf_counter() - began
        self.uploading = {
            **self.node.store_requests(),
            "seconds": seconds,
            "memory_mb": memory[0],
        }

    def _is_cold(self, topic: str, count: int) -> bool:
        async def starts(client: Client) -> bool:
            asked = dict.fromkeys(range(PARTITIONS), EARLIEST_LOCAL)
            found = await client.list_offsets(topic, asked)
            return all(one.offset == count * RECORDS for one in found.values())

        time.sleep(0.2)
        return self.node.call(starts)

    # Reading

    def read_cold(self, groups: Sequence[Sequence[int]]) -> dict[str, float]:
        """One pass over the cold topic, as it is: cached or not."""
        self.node.store_requests()
        with peak_of(self.node) as memory:
            figures = self._read(COLD, groups)
        asked = self.node.store_requests()
        size = self.bytes / PARTITIONS * sum(len(one) for one in groups)
        gets = asked.get("get", 0) + asked.get("get_tail", 0)
        return {
            **figures,
            MEMORY: memory[0],
            GETS_PER_GB: gets / size * 1e9,
            GETS_RECKONED: 1e9 / RANGE_BYTES,
            GET_BYTES: asked.get("get_bytes", 0) / size,
        }

    def read_hot(self, groups: Sequence[Sequence[int]]) -> dict[str, float]:
        return self._read(HOT, groups)

    def _read(self, topic: str, groups: Sequence[Sequence[int]]) -> dict[str, float]:
        cpu_s = self.node.cpu_s() + time.process_time()
        size, seconds = replay(self.node.port, topic, groups, end=self.end)
        cpu_s = self.node.cpu_s() + time.process_time() - cpu_s
        assert size >= self.bytes / PARTITIONS * sum(len(one) for one in groups)
        return {SPEED: size / seconds / 1e6, CPU_PER_GB: cpu_s / size * 1e9}

    def first_record(self, partition: int, offset: int) -> dict[str, float]:
        """Of a reader that nobody knows: milliseconds to its first answer, and what it took."""
        self.node.store_requests()
        reader = Reader(self.node.port, COLD, [partition])
        try:
            reader.seek(partition, offset)
            began = time.perf_counter()
            while not reader.bytes:
                reader.fetch()
            took_s = time.perf_counter() - began
        finally:
            reader.close()
        asked = self.node.store_requests()
        return {"ms": took_s * 1000, "round trips": asked["trips"], "GETs": asked.get("get", 0)}

    # The same objects without a node

    def objects(self, partitions: Sequence[int]) -> list[tuple[str, Span]]:
        """Of these partitions, in ranges as a replay reads them."""
        client = self._server.client()
        try:
            found = [
                (one["Key"], one["Size"])
                for page in client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET)
                for one in page.get("Contents", ())
                if "/seg/" in one["Key"] and one["Key"].startswith("cold/")
            ]
        finally:
            client.close()
        folders = sorted({key.partition("/seg/")[0] for key, _ in found})
        chosen = {folders[index] for index in partitions}
        return [
            (key, Span(Position(start), Position(min(start + RANGE_BYTES, size))))
            for key, size in found
            if key.partition("/seg/")[0] in chosen
            for start in range(0, size, RANGE_BYTES)
        ]

    def raw(
        self,
        partitions: Sequence[int],
        *,
        get_delay_ms: float = 0.0,
        at_once: int = CONNECTIONS,
        goes_on: Callable[[int], bool] = lambda _: True,
    ) -> dict[str, float]:
        """As many GETs at once as a node makes at most. `goes_on` is asked before each of them,
        with the bytes so far; it may wait."""
        ranges = self.objects(partitions)
        return asyncio.run(self._get_all(ranges, get_delay_ms / 1000, at_once, goes_on))

    async def _get_all(
        self,
        ranges: list[tuple[str, Span]],
        get_delay_s: float,
        at_once: int,
        goes_on: Callable[[int], bool],
    ) -> dict[str, float]:
        env = local_env()
        store = Watched(self._server.open(env), get_delay_s=get_delay_s)
        left = iter(ranges)
        size = 0

        async def work() -> None:
            nonlocal size
            for key, span in left:
                if not goes_on(size):
                    return
                assert len((await store.get(key, span=span)).data) == span.size
                size += span.size

        try:
            # Its memory is not new either when it counts.
            await asyncio.gather(*(store.get(key, span=span) for key, span in ranges[:at_once]))
            began, cpu_s = time.perf_counter(), time.process_time()
            await asyncio.gather(*(work() for _ in range(at_once)))
            seconds, cpu_s = time.perf_counter() - began, time.process_time() - cpu_s
        finally:
            await store.close()
            env.tasks.close()  # type: ignore[attr-defined]  # local ones have it
        return {SPEED: size / seconds / 1e6, CPU_PER_GB: cpu_s / max(size, 1) * 1e9}


async def _seal(topic: str, client: Client) -> None:
    await client.alter_configs(topic, set=SEALED)


@contextmanager
def peak_of(node: Tierlog) -> Iterator[list[float]]:
    """By how many MB the node's own memory grew at most; known when the block is left."""
    before = node.memory().anon_mb
    grown = [0.0]
    is_over = threading.Event()

    def look() -> None:
        while not is_over.wait(0.02):
            grown[0] = max(grown[0], node.memory().anon_mb - before)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield grown
    finally:
        is_over.set()
        thread.join()
