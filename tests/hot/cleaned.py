"""Compacted logs for the tests: keyed batches, a cleaner without threads, what readers then see."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TypeVar

from tests.hot.support import FixedClock, append
from tierlog.env import LocalTasks
from tierlog.hot import Appended, Log, LogSettings
from tierlog.hot.cleaner import Candidate, Cleaner, CleanerSettings, CleanerStats
from tierlog.hot.dirt import CleaningRules
from tierlog.hot.sync import ManualSyncs
from tierlog.records.attributes import Codec
from tierlog.records.batch import iter_batches, validate_stored
from tierlog.records.header import BatchHeader
from tierlog.records.record import Record, decode_records, encode_batch
from tierlog.types import Offset, ProducerEpoch, ProducerId, TimestampMs

NOW_MS = 1_700_000_000_000
SMALL = LogSettings(
    segment_bytes=2048, index_interval_bytes=256, checkpoint_bytes=2048, contiguous=False
)
ALWAYS = CleaningRules(min_dirty_ratio=0.0, delete_retention_ms=1000)

T = TypeVar("T")

Pair = tuple[bytes, bytes | None]


def keyed(
    *pairs: tuple[bytes | None, bytes | None],
    timestamp: int = NOW_MS,
    codec: Codec = Codec.NONE,
    producer: tuple[int, int, int] = (-1, -1, -1),
) -> bytearray:
    """A batch of (key, value) records; `producer` is id, epoch and base sequence."""
    records = [
        Record(Offset(number), TimestampMs(timestamp + number), key, value)
        for number, (key, value) in enumerate(pairs)
    ]
    return encode_batch(
        records,
        codec=codec,
        producer_id=ProducerId(producer[0]),
        producer_epoch=ProducerEpoch(producer[1]),
        base_sequence=producer[2],
    )


def put(log: Log, *pairs: Pair, timestamp: int = NOW_MS) -> Appended:
    return append(log, keyed(*pairs, timestamp=timestamp), now_ms=timestamp)


def seal(log: Log, syncs: ManualSyncs) -> None:
    log.roll()
    syncs.run_all()


class LoopTasks(LocalTasks):
    """Blocking calls run on the loop, at its next turn: the simulated disk is not for threads."""

    def in_thread(self, call: Callable[..., T], *args: object) -> asyncio.Future[T]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()

        def run() -> None:
            try:
                future.set_result(call(*args))
            except BaseException as fault:  # noqa: BLE001  # whoever waits hears it, a power cut too
                future.set_exception(fault)

        loop.call_soon(run)
        return future


def clean(
    log: Log,
    syncs: ManualSyncs,
    *,
    now_ms: int = NOW_MS,
    rules: CleaningRules = ALWAYS,
    key_bytes: int = 1 << 20,
) -> CleanerStats:
    """Let a cleaner clean all of the log that may be cleaned, and sync what it asks for."""
    cleaner, _ = cleaner_of(log, rules, now_ms=now_ms, key_bytes=key_bytes)

    async def run() -> None:
        (one,) = cleaner._candidates()
        task = asyncio.ensure_future(cleaner.clean(one))
        while not task.done():
            await asyncio.sleep(0)
            syncs.run_all()
        await task

    asyncio.run(run())
    syncs.run_all()
    return cleaner.stats


def cleaner_of(
    log: Log,
    rules: CleaningRules = ALWAYS,
    *,
    now_ms: int = NOW_MS,
    key_bytes: int = 1 << 20,
) -> tuple[Cleaner, FixedClock]:
    clock = FixedClock(now_ms)
    env = replace(log._directory.env, clock=clock, tasks=LoopTasks())
    one = Candidate("t-0", log, rules)
    settings = CleanerSettings(dedupe_bytes=key_bytes)
    return Cleaner(env, log._directory, lambda: [one], settings), clock


def records_of(log: Log, start: int | None = None) -> list[Record]:
    """Every record that a reader meets, in order; each batch is checked on the way."""
    return [record for _, records in batches_of(log, start) for record in records]


def batches_of(log: Log, start: int | None = None) -> list[tuple[BatchHeader, list[Record]]]:
    offset = log.log_start if start is None else Offset(start)
    found: list[tuple[BatchHeader, list[Record]]] = []
    while offset < log.visible_end:
        data = log.read(offset, bytes_max=700)
        assert data, f"nothing at {offset}"
        for position, _ in iter_batches(data):
            header = validate_stored(data, position)
            assert header.next_offset > offset, "a reader would not get on"
            found.append((header, decode_records(memoryview(data)[position:])))
            offset = header.next_offset
    return found


def last_of(records: Iterable[Record]) -> dict[bytes, bytes | None]:
    """What somebody knows who reads all records; a deleted key is not there."""
    state: dict[bytes, bytes | None] = {}
    for record in records:
        assert record.key is not None
        state[record.key] = record.value
    return {key: value for key, value in state.items() if value is not None}
