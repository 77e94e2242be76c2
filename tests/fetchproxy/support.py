"""Cold partitions in a memory store, and ways to see what a proxy asks of it."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from dataclasses import replace
from random import Random
from typing import Any, TypeVar
from unittest.mock import patch

from tierlog.cold import segment_scan
from tierlog.cold.entry import Entry
from tierlog.cold.head import Head, Incarnation, Writer
from tierlog.cold.segment_scan import SegmentScan
from tierlog.env import Env, PlainSenders, SystemRng
from tierlog.fetchproxy import ColdRead, FetchProxy, ProxySettings
from tierlog.objectstore.body import BytesBody
from tierlog.objectstore.errors import NoSuchObject
from tierlog.objectstore.memory import MemoryStore
from tierlog.objectstore.port import Got, Span
from tierlog.records.attributes import Codec
from tierlog.records.batch import iter_batches, patch_offset
from tierlog.records.record import Record, encode_batch
from tierlog.sim.disk import SimDisk
from tierlog.types import LeaderEpoch, Offset, TimestampMs

T = TypeVar("T")

BLOCK = 1 << 10
CHUNK = 4 << 10
INDEX_INTERVAL = BLOCK // 16

SMALL = ProxySettings(
    cache_bytes=1 << 20,
    chunk_bytes=CHUNK,
    block_bytes=BLOCK,
    lead_bytes=BLOCK,
    memory_bytes=16 * CHUNK,
    readahead_bytes_max=8 * CHUNK,
    disk_free_min=0,
)
WHOLE_CHUNKS = replace(SMALL, lead_bytes=0)


class PlayedTasks:
    """Implements `Tasks`; what would be a thread's work is done on the spot."""

    def spawn(self, work: Coroutine[Any, Any, T], *, name: str) -> asyncio.Task[T]:
        return asyncio.get_running_loop().create_task(work, name=name)

    def in_thread(self, call: Callable[..., T], *args: object) -> asyncio.Future[T]:
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        try:
            done.set_result(call(*args))
        except Exception as fault:  # noqa: BLE001  # The future's, as a thread's would be.
            done.set_exception(fault)
        return done

    def in_process(
        self, call: Callable[..., T], *args: object, limit_s: float | None = None
    ) -> asyncio.Future[T]:
        return self.in_thread(call, *args)


class HandClock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def now_ms(self) -> int:
        return int(self.seconds * 1000)

    def monotonic(self) -> float:
        return self.seconds


def env_on(disk: SimDisk | None = None, clock: HandClock | None = None) -> Env:
    return Env(
        clock=clock or HandClock(),
        rng=SystemRng(),
        disk=disk or SimDisk(),
        tasks=PlayedTasks(),
        senders=PlainSenders(),
    )


def make_batch(
    base: int, sizes: Sequence[int], *, rng: Random, times: Sequence[int] | None = None
) -> bytes:
    """Records of these value sizes."""
    stamps = times or [1000 + base + number for number in range(len(sizes))]
    records = [
        Record(Offset(base + number), TimestampMs(stamp), None, rng.randbytes(size))
        for number, (size, stamp) in enumerate(zip(sizes, stamps, strict=True))
    ]
    batch = bytearray(encode_batch(records, base_offset=Offset(base), codec=Codec.NONE))
    patch_offset(batch, Offset(base), LeaderEpoch(1))
    return bytes(batch)


def make_segment(base: int, batches: Sequence[bytes]) -> tuple[bytes, Entry]:
    """The object, and its entry."""
    data = b"".join(batches)
    last = max(header.last_offset for _, header in iter_batches(data))
    scan = SegmentScan(
        topic="t",
        topic_id="id",
        partition=0,
        base=Offset(base),
        last=last,
        size=len(data),
        index_interval_bytes=INDEX_INTERVAL,
    )
    # The format's blocks have a MiB; the tests' are small.
    with patch.object(segment_scan, "BLOCK_BYTES", BLOCK):
        scan.feed(data)
        tail = scan.finish(key=f"seg/{base:020d}.seg", producers=b"", max_append_ms=0)
    return data + tail.data, tail.entry


class Watched(MemoryStore):
    """A memory store that tells what is asked of it, waits where it is told to, and lies."""

    def __init__(self) -> None:
        super().__init__(HandClock())
        self.gets: list[tuple[str, Span]] = []
        self.gate: asyncio.Event | None = None
        """Answers wait for it."""
        self.spoil: Callable[[str, Span, bytes], bytes] | None = None
        """What a GET gives instead."""
        self.fault: Exception | None = None
        self.under_way = 0
        self.under_way_bytes = 0
        self.under_way_bytes_peak = 0

    async def get(
        self,
        key: str,
        *,
        span: Span | None = None,
        etag: str | None = None,
        version_id: str | None = None,
    ) -> Got:
        assert span is not None
        self.gets.append((key, span))
        self.under_way += 1
        self.under_way_bytes += span.size
        self.under_way_bytes_peak = max(self.under_way_bytes_peak, self.under_way_bytes)
        try:
            await self._answer_time()
            if self.fault is not None:
                raise self.fault
            got = await super().get(key, span=span)
            data = bytes(got.data)
            return replace(got, data=self.spoil(key, span, data) if self.spoil else data, crcs=())
        finally:
            self.under_way -= 1
            self.under_way_bytes -= span.size

    async def _answer_time(self) -> None:
        if self.gate is not None:
            await self.gate.wait()
        else:
            await asyncio.sleep(0)


class Prefix:
    """Implements `ColdPrefix` from a list."""

    def __init__(self, entries: Sequence[Entry], *, log_start: int = 0) -> None:
        self.entries = tuple(entries)
        self._log_start = Offset(log_start)

    @property
    def head(self) -> Head:
        return Head(
            version=1,
            nonce="",
            incarnation=Incarnation(1, ""),
            writer=Writer(LeaderEpoch(1), ""),
            topic="t",
            topic_id="id",
            partition=0,
            partition_count=1,
            log_start=self._log_start,
            next_offset=self.entries[-1].next_offset,
            entries=self.entries,
        )

    def full_key(self, key: str) -> str:
        return f"c/t/id/0/{key}"

    async def renew(self) -> None:
        """There is no newer one."""

    async def entry_for(self, offset: Offset) -> Entry | None:
        return next((one for one in self.entries if offset < one.next_offset), None)

    async def entry_by_time(self, timestamp: TimestampMs, *, start: Offset) -> Entry | None:
        behind = (one for one in self.entries if start < one.next_offset)
        return next((one for one in behind if one.max_timestamp >= timestamp), None)

    async def entry_latest(self, *, start: Offset) -> Entry | None:
        behind = [one for one in self.entries if start < one.next_offset]
        return max(behind, key=lambda one: one.max_timestamp, default=None)


class BrokenPrefix(Prefix):
    """One whose pages the store does not give."""

    async def entry_for(self, offset: Offset) -> Entry | None:
        raise NoSuchObject("page")

    async def entry_by_time(self, timestamp: TimestampMs, *, start: Offset) -> Entry | None:
        raise NoSuchObject("page")

    async def entry_latest(self, *, start: Offset) -> Entry | None:
        raise NoSuchObject("page")


async def upload(
    store: Watched, segments: Iterable[Sequence[bytes]], *, folder: str = "seg"
) -> Prefix:
    """Segments of batches, whose offsets follow each other."""
    entries = []
    prefix = Prefix(())
    for batches in segments:
        _, header = next(iter_batches(batches[0]))
        data, entry = make_segment(header.base_offset, batches)
        entry = replace(entry, key=entry.key.replace("seg/", f"{folder}/", 1))
        await store.put(prefix.full_key(entry.key), BytesBody(data))
        entries.append(entry)
    return Prefix(entries)


def history(rng: Random, *, segment_sizes: Sequence[Sequence[Sequence[int]]]) -> list[list[bytes]]:
    """Batches of records of these sizes, by segment."""
    offset = 0
    segments = []
    for batch_sizes in segment_sizes:
        segment = []
        for sizes in batch_sizes:
            segment.append(make_batch(offset, sizes, rng=rng))
            offset += len(sizes)
        segments.append(segment)
    return segments


def even_history(
    *, segments: int = 2, batches: int = 40, value_bytes: int = 400, seed: int = 1
) -> list[list[bytes]]:
    """Each batch one record."""
    return history(Random(seed), segment_sizes=[[[value_bytes]] * batches] * segments)


async def read(proxy: FetchProxy, prefix: Prefix, offset: int, *, bytes_max: int) -> ColdRead:
    found = proxy.read(prefix, Offset(offset), bytes_max=bytes_max)
    return found if isinstance(found, ColdRead) else await found


async def read_all(
    proxy: FetchProxy, prefix: Prefix, *, start: int = 0, bytes_max: int = 1024
) -> bytes:
    """Everything from `start` on, as a consumer gets it."""
    parts = []
    offset = start
    while offset < prefix.head.next_offset:
        got = await read(proxy, prefix, offset, bytes_max=bytes_max)
        assert got.next_offset > offset
        parts += [bytes(got.records), bytes(got.more)]
        offset = got.next_offset
    return b"".join(parts)


async def settled() -> None:
    """Until nothing happens any more without somebody's doing: threads are played on the loop."""
    for _ in range(200):
        await asyncio.sleep(0)


async def count_rounds(store: Watched, work: Awaitable[T]) -> tuple[int, T]:
    """How many round trips to the store `work` takes, one after the other."""
    gate = store.gate = asyncio.Event()
    task = asyncio.ensure_future(work)
    await settled()
    rounds = 0
    while not task.done():
        rounds += 1
        passed, gate = gate, asyncio.Event()
        store.gate = gate  # Who asks from now on waits for the next round.
        passed.set()
        await settled()
    store.gate = None
    gate.set()
    await settled()
    return rounds, task.result()


async def begin(
    segments: list[list[bytes]], proxy_settings: ProxySettings = SMALL
) -> tuple[FetchProxy, Prefix, Watched]:
    store = Watched()
    prefix = await upload(store, segments)
    proxy = FetchProxy(env_on(), store, proxy_settings, "/data/cache")
    await proxy.start()
    return proxy, prefix, store


def whole(segments: list[list[bytes]]) -> bytes:
    return b"".join(batch for segment in segments for batch in segment)
