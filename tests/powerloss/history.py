"""A seeded history of one log, and what its users know at every moment of it.

The history appends, syncs, rolls, trims, truncates, closes, is killed, rebooted, runs into a full
disk and starts again. Its topic may count on the page cache (`flush.messages` above 1), and may
stamp batches; values may hold whole batches, as those of a backup topic do. `Known` is what the
outside world may hold the log to: which record was given which offset, up to where it was told that
records are durable.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from random import Random
from typing import TYPE_CHECKING

from tests.hot.support import append, batch, open_log
from tierlog.hot import Log, LogSettings
from tierlog.hot.errors import DiskFull, LogError
from tierlog.records.attributes import Codec
from tierlog.records.batch import patch_log_append_time, patch_offset
from tierlog.records.header import HEADER_BYTES
from tierlog.sim.disk import SimDisk
from tierlog.sim.nodes import BLOCK_BYTES
from tierlog.types import LeaderEpoch, Offset

if TYPE_CHECKING:
    from tierlog.hot.sync import ManualSyncs

SETTINGS = LogSettings(segment_bytes=6000, index_interval_bytes=300, checkpoint_bytes=2500)
BASE_MS = 1_700_000_000_000
ROOMY = 1 << 40
EMBEDDED_SHARE = 0.06
FAR_OFFSETS = (10**6, 2**40, 2**62)


def draw_settings(seed: int) -> LogSettings:
    """What kind of topic a seed is about: every third counts on the page cache."""
    rng = Random(f"settings {seed}")
    return replace(
        SETTINGS,
        flush_messages=rng.choice((1, 1, 1, 1, 7, 40)),
        log_append_time=rng.random() < 0.25,
    )


@dataclass(frozen=True, slots=True)
class Placed:
    """A batch as it was handed to the log, and where the log was about to put it."""

    base_offset: int
    values: tuple[bytes, ...]
    data: bytes
    path: str
    position: int
    producer: tuple[int, int, int] | None

    @property
    def header(self) -> bytes:
        return self.data[:HEADER_BYTES]

    @property
    def next_offset(self) -> int:
        return self.base_offset + len(self.values)


@dataclass(slots=True)
class Known:
    """What users of the log know. Copied at the moment of a power cut."""

    settings: LogSettings = SETTINGS
    placed: dict[int, Placed] = field(default_factory=dict)
    """By base offset: every batch that may be there, the one under way included."""
    durable_end: int = 0
    """At `flush.messages` above 1 too: what is only in the page cache is promised to nobody."""
    refused_end: int = 0
    """Up to here batches were refused. Half of one may be seen: then its offsets are skipped."""
    log_start_min: int = 0
    log_start_max: int = 0
    truncating_to: int | None = None

    def copy(self) -> "Known":
        return replace(self, placed=dict(self.placed))

    def records(self) -> dict[int, bytes]:
        return {
            offset: value
            for one in self.placed.values()
            for offset, value in enumerate(one.values, one.base_offset)
        }


class History:
    """Runs steps against a log on a simulated disk."""

    def __init__(self, seed: int, disk: SimDisk | None = None) -> None:
        self.rng = Random(seed)
        self.disk = disk or SimDisk()
        self.known = Known(settings=draw_settings(seed))
        self.serial = 0
        self.leader_epoch = 1
        self.was_put_off = False
        self.sequences: dict[int, int] = {}
        self.log: Log
        self.syncs: ManualSyncs

    def run(self, steps: int) -> None:
        self.open()
        for _ in range(steps):
            self.step()

    def open(self) -> None:
        self.was_put_off = False
        self.log, self.syncs = open_log(self.disk, self.known.settings)
        self.known.durable_end = max(self.known.durable_end, self.log.durable_end)

    def step(self) -> None:
        choices = {
            self.append: 61,
            self.sync: 24,
            self.roll: 4,
            self.trim: 3,
            self.truncate: 2,
            self.close_and_restart: 1,
            self.reboot: 1,
            self.kill: 3,
            self.fill_disk: 1,
        }
        (choice,) = self.rng.choices(list(choices), list(choices.values()))
        choice()

    def append(self) -> None:
        data, values, producer = self._batch()
        now_ms = self._timestamp()
        active = self.log.segments.active
        base = int(self.log.log_end)
        rolls = not active.has_room(len(data), base + len(values) - 1)
        path = f"{self.log.path}/{base:020d}.log" if rolls else active.path
        self.known.placed[base] = Placed(
            base_offset=base,
            values=values,
            data=self._as_stored(data, base, now_ms),
            path=path,
            position=0 if rolls else int(active.size),
            producer=producer,
        )
        try:
            placed = append(self.log, data, leader_epoch=self.leader_epoch, now_ms=now_ms)
        except DiskFull:
            refused = self.known.placed.pop(base)
            self.known.refused_end = max(self.known.refused_end, refused.next_offset)
            return
        assert placed.base_offset == base
        if producer is not None:
            self.sequences[producer[0]] = producer[2] + len(values)
        if self.rng.random() < 0.03:
            self.leader_epoch += 1

    def _as_stored(self, data: bytearray, base: int, now_ms: int) -> bytes:
        stored = bytearray(data)
        if self.known.settings.log_append_time:
            patch_log_append_time(stored, timestamp_ms=now_ms)
        patch_offset(stored, Offset(base), LeaderEpoch(self.leader_epoch))
        return bytes(stored)

    def _timestamp(self) -> int:
        return BASE_MS + self.serial * 10 + self.rng.randrange(-200, 200)

    def _value(self) -> bytes:
        """A value that no other record has; now and then one with a whole batch inside."""
        rng = self.rng
        self.serial += 1
        value = b"%08d" % self.serial + rng.randbytes(rng.choice((0, 10, 100, 700, 1500)))
        if rng.random() >= EMBEDDED_SHARE:
            return value
        near = max(0, int(self.log.log_end) + rng.randrange(-4, 12))
        inner = batch(b"inside %08d" % self.serial, timestamp=BASE_MS)
        offset = Offset(rng.choice((near, near, rng.choice(FAR_OFFSETS))))
        patch_offset(inner, offset, LeaderEpoch(self.leader_epoch))
        return value + bytes(inner) + rng.randbytes(rng.choice((0, 500, 1500)))

    def _batch(self) -> tuple[bytearray, tuple[bytes, ...], tuple[int, int, int] | None]:
        rng = self.rng
        values = tuple(self._value() for _ in range(rng.choice((1, 1, 2, 3, 8))))
        producer = None
        if rng.random() < 0.4:
            producer_id = rng.randrange(3)
            producer = (producer_id, 0, self.sequences.get(producer_id, 0))
        data = batch(
            *values,
            timestamp=self._timestamp(),
            codec=rng.choice((Codec.NONE, Codec.NONE, Codec.LZ4)),
            producer_id=producer[0] if producer else -1,
            producer_epoch=producer[1] if producer else -1,
            base_sequence=producer[2] if producer else -1,
        )
        return data, values, producer

    def sync(self) -> None:
        if self.was_put_off:
            self.syncs.request(self.log)  # What a full disk put off waits until it is asked for.
        try:
            self.syncs.run_all()
        except LogError:
            assert self.disk.capacity < ROOMY, "nothing but a full disk keeps a sync from its end"
            self.known.durable_end = int(self.log.durable_end)
            self.was_put_off = True
            return
        self.was_put_off = False
        self.known.durable_end = int(self.log.durable_end)
        self.known.log_start_min = self.known.log_start_max

    def roll(self) -> None:
        self.log.roll()

    def fill_disk(self) -> None:
        """Next to no space for a while; then it comes back, and so does the log if it broke."""
        self.disk.capacity = self.disk.used + self.rng.randrange(5) * BLOCK_BYTES
        for _ in range(self.rng.randrange(3, 9)):
            if self.syncs.broken is None:
                self.rng.choice((self.append, self.append, self.append, self.sync))()
        self.disk.capacity = ROOMY
        if self.syncs.broken is not None:
            self.kill()

    def trim(self) -> None:
        start = self.rng.randrange(self.log.log_start, self.log.log_end + 1)
        start = min(start, self.log.durable_end)
        if start < self.log.log_start:
            return
        self.known.log_start_max = start
        self.log.trim(Offset(start))

    def truncate(self) -> None:
        self.sync()
        low = max(self.log.log_start, self.log.log_end - 12)
        cut = self.log.segments.place_of(Offset(self.rng.randrange(low, self.log.log_end + 1)))[1]
        if cut < self.log.log_start:
            return
        self.known.durable_end = min(self.known.durable_end, cut)
        self.known.truncating_to = cut
        self.log.truncate(Offset(cut))
        self.known.truncating_to = None
        self._forget_from(cut)

    def _forget_from(self, cut: int) -> None:
        gone = [one for one in self.known.placed.values() if one.base_offset >= cut]
        for one in gone:
            del self.known.placed[one.base_offset]
            if one.producer is not None:
                producer_id, _, sequence = one.producer
                self.sequences[producer_id] = min(self.sequences[producer_id], sequence)

    def kill(self) -> None:
        self.disk.kill()
        self.open()
        # Killed before its job ran, a trim may not have been written down.
        self.known.log_start_min = self.known.log_start_max = int(self.log.log_start)

    def close(self) -> None:
        self.log.close_now()
        self.known.durable_end = int(self.log.durable_end)
        self.known.log_start_min = self.known.log_start_max

    def close_and_restart(self) -> None:
        self.close()
        self.disk.kill()
        self.open()

    def reboot(self) -> None:
        """The page cache goes; after a clean close that must cost nothing."""
        self.close()
        self.disk.power_cut(Random(self.rng.random()))
        self.open()


def moments(
    seed: int, *, steps: int, count: int, make: Callable[[int], History] = History
) -> Iterator[tuple[SimDisk, Known]]:
    """The disk and what was known at `count` random moments inside one history."""
    dry = make(seed)
    dry.run(steps)
    picked = set(Random(seed).sample(range(dry.disk.op_count), min(count, dry.disk.op_count)))
    found: list[tuple[SimDisk, Known]] = []
    history = make(seed)

    def on_op(_: str) -> None:
        if history.disk.op_count in picked:
            disk = history.disk.snapshot()
            disk.capacity = ROOMY  # Whoever starts a machine with a full disk makes room first.
            found.append((disk, history.known.copy()))

    history.disk.on_op = on_op
    history.run(steps)
    yield from found
