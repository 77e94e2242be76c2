"""Batches and logs for the tests of the hot log."""

from collections.abc import Iterable

from tests.inline import InlineTasks
from tierlog.env import Env, PlainSenders, SystemRng
from tierlog.hot import Appended, Log, LogDirectory, LogSettings
from tierlog.hot.sync import ManualSyncs
from tierlog.records.attributes import Codec
from tierlog.records.batch import iter_batches, validate_produced, validate_stored
from tierlog.records.record import Record, decode_records, encode_batch
from tierlog.sim.disk import SimDisk
from tierlog.types import Bytes, LeaderEpoch, Offset, ProducerEpoch, ProducerId, TimestampMs

SMALL = LogSettings(segment_bytes=4096, index_interval_bytes=256, checkpoint_bytes=2048)


class FixedClock:
    """A wall clock that the test moves."""

    def __init__(self, ms: int = 1_700_000_000_000) -> None:
        self.ms = ms

    def now_ms(self) -> int:
        return self.ms

    def monotonic(self) -> float:
        return self.ms / 1000


def env_on(disk: SimDisk, clock: FixedClock | None = None) -> Env:
    return Env(
        clock=clock or FixedClock(),
        rng=SystemRng(),
        disk=disk,
        tasks=InlineTasks(),
        senders=PlainSenders(),
    )


def open_log(
    disk: SimDisk, settings: LogSettings = SMALL, *, name: str = "p", start: int = 0
) -> tuple[Log, ManualSyncs]:
    """A log that is synced when the test says so, and who to say it to."""
    syncs = ManualSyncs()
    directory = LogDirectory(env_on(disk), "/data", syncs=syncs, reserve_bytes=0)
    return Log(directory, name, settings, start=Offset(start)), syncs


def batch(
    *values: bytes,
    timestamp: int = 1_700_000_000_000,
    codec: Codec = Codec.NONE,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
) -> bytearray:
    records = [
        Record(Offset(number), TimestampMs(timestamp + number), None, value)
        for number, value in enumerate(values)
    ]
    return bytearray(
        encode_batch(
            records,
            codec=codec,
            producer_id=ProducerId(producer_id),
            producer_epoch=ProducerEpoch(producer_epoch),
            base_sequence=base_sequence,
        )
    )


def append(log: Log, data: bytearray, *, leader_epoch: int = 1, now_ms: int = 1) -> Appended:
    header = validate_produced(data, size_max=1 << 30)
    return log.append(data, header, leader_epoch=LeaderEpoch(leader_epoch), now_ms=now_ms)


def append_values(log: Log, *values: bytes, leader_epoch: int = 1) -> Appended:
    return append(log, batch(*values), leader_epoch=leader_epoch)


def read_values(log: Log, start: int | None = None, *, end: int | None = None) -> dict[int, bytes]:
    """Every record from `start` on, by offset; checks each batch on the way."""
    offset = log.log_start if start is None else Offset(start)
    stop = log.visible_end if end is None else Offset(end)
    found: dict[int, bytes] = {}
    while offset < stop:
        data = log.read(offset, bytes_max=1000, end=stop)
        if not data:
            break
        for position, header in iter_batches(data):
            validate_stored(data, position)
            for record in decode_records(memoryview(data)[position:]):
                assert record.offset not in found
                found[record.offset] = record.value or b""
            offset = header.next_offset
    return found


def values_of(data: Bytes) -> Iterable[bytes]:
    for position, _ in iter_batches(data):
        for record in decode_records(memoryview(data)[position:]):
            yield record.value or b""
