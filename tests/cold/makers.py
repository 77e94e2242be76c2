"""Entries and heads for the tests: plain ones, and as many as it takes."""

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import count

from tierlog.cold import chain, codec, tree
from tierlog.cold.entry import BLOCK_BYTES, Entry, Sample
from tierlog.cold.head import Head, Incarnation, PageRef, Writer
from tierlog.cold.layout import segment_key
from tierlog.cold.page import Page
from tierlog.hot.epochs import EpochStart
from tierlog.types import LeaderEpoch, Offset, Position, TimestampMs

TOPIC_ID = "6f1c2a34-5b6d-4e7f-8a90-b1c2d3e4f506"
START_MS = 1_700_000_000_000
SEGMENT_BYTES = 128 << 20


def an_entry(number: int = 0, *, base: int | None = None, records: int = 1000) -> Entry:
    """An entry as a segment of 128 MiB would have it; all that looks random is."""
    rng = random.Random(number)
    first = number * records if base is None else base
    data_bytes = SEGMENT_BYTES - rng.randrange(1 << 14)
    time = START_MS + number * 60_000
    samples = [
        Sample(
            Offset(first + records * place // 16),
            Position(data_bytes * place // 16 - (rng.randrange(1 << 14) if place else 0)),
        )
        for place in range(16)
    ]
    return Entry(
        key=segment_key(
            base=Offset(first),
            last=Offset(first + records - 1),
            leader_epoch=LeaderEpoch(3),
            node=1,
            attempt=rng.getrandbits(64),
        ),
        size=data_bytes + 80_000,
        sha256=rng.randbytes(32).hex(),
        crc32c=rng.getrandbits(32),
        base=Offset(first),
        last=Offset(first + records - 1),
        records=records,
        batches=8192 + rng.randrange(100),
        data_bytes=data_bytes,
        min_timestamp=TimestampMs(time),
        max_timestamp=TimestampMs(time + 59_000 + rng.randrange(1000)),
        max_timestamp_offset=Offset(first + records - 1),
        max_append_ms=time + 60_000 + rng.randrange(1000),
        sections={
            "block_crcs": (data_bytes, 512),
            "offset_index": (data_bytes + 512, 16_376),
            "time_index": (data_bytes + 16_888, 24_564),
            "batch_hashes": (data_bytes + 41_452, 30_000),
        },
        index_crc32c=rng.getrandbits(32),
        samples=tuple(samples),
        leader_epochs=(EpochStart(LeaderEpoch(3), Offset(0)),),
        merkle_root=rng.randbytes(32).hex(),
        codecs=("zstd",),
    )


def merged_of(run: Sequence[Entry], seed: int = 0) -> Entry:
    """As an object of all their batches would have it; not linked yet."""
    rng = random.Random(seed)
    data_bytes = sum(one.data_bytes for one in run)
    sections, position = {}, data_bytes
    blocks = 4 * -(-data_bytes // BLOCK_BYTES)
    for name, size in (("block_crcs", blocks), ("offset_index", 8), ("time_index", 12)):
        sections[name] = (position, size)
        position += size
    latest = max(run, key=lambda one: one.max_timestamp)
    base, last = run[0].base, run[-1].last
    return replace(
        run[0],
        key=segment_key(
            base=base,
            last=last,
            leader_epoch=LeaderEpoch(3),
            node=1,
            attempt=rng.getrandbits(64),
        ),
        chain="",
        replaces=None,
        last=last,
        sha256=rng.randbytes(32).hex(),
        data_bytes=data_bytes,
        size=position + 100,
        sections=sections,
        records=sum(one.records for one in run),
        batches=sum(one.batches for one in run),
        samples=(Sample(base, Position(0)),),
        min_timestamp=min(one.min_timestamp for one in run),
        max_timestamp=latest.max_timestamp,
        max_timestamp_offset=latest.max_timestamp_offset,
        max_append_ms=max(one.max_append_ms for one in run),
    )


def a_head(*, log_start: int = 0) -> Head:
    return Head(
        version=1,
        nonce="0123456789abcdef",
        incarnation=Incarnation(1, "9f8e7d6c-0000-4000-8000-000000000001"),
        writer=Writer(LeaderEpoch(3), "9f8e7d6c-0000-4000-8000-000000000002"),
        topic="orders",
        topic_id=TOPIC_ID,
        partition=7,
        partition_count=12,
        log_start=Offset(log_start),
        next_offset=Offset(log_start),
        chain_anchor=chain.genesis(TOPIC_ID, 7),
        published_ms=START_MS,
    )


class Bucket:
    """Pages as they were put, and how often they are read."""

    def __init__(self, *, limits: tree.Limits = tree.LIMITS) -> None:
        self.limits = limits
        self.objects: dict[str, bytes] = {}
        self.bytes_put = 0
        self.reads = 0
        self._numbers = count(1)

    def mint(self) -> int:
        return random.Random(next(self._numbers)).getrandbits(64)

    def read(self, ref: PageRef) -> Page:
        self.reads += 1
        return codec.open_page(ref, self.objects[ref.key])

    def append(self, head: Head, entries: Iterable[Entry]) -> Head:
        grown = tree.extend(head, entries)
        opened = {ref.key: self.read(ref) for ref in tree.to_open(grown, limits=self.limits)}
        done = tree.seal(grown, mint=self.mint, not_before_ms=1, opened=opened, limits=self.limits)
        for page in done.pages:
            assert page.key not in self.objects, "a key is never reused"
            self.objects[page.key] = page.data
            self.bytes_put += len(page.data)
        return done.head


def entries(numbers: Iterable[int]) -> Iterator[Entry]:
    return (an_entry(number) for number in numbers)
