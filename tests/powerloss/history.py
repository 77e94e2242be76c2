"""A seeded history of one log, and what its users know at every moment of it.

The history appends, syncs, rolls, trims, truncates, closes, is killed and starts again. `Known` is
what the outside world may hold the log to: which record was given which offset, up to where it was
told that records are durable.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from random import Random
from typing import TYPE_CHECKING

from tests.hot.support import append, batch, open_log
from tierlog.hot import Log, LogSettings
from tierlog.records.attributes import Codec
from tierlog.records.header import HEADER_BYTES
from tierlog.sim.disk import SimDisk
from tierlog.types import Offset

if TYPE_CHECKING:
    from tierlog.hot.sync import ManualSyncs

SETTINGS = LogSettings(segment_bytes=6000, index_interval_bytes=300, checkpoint_bytes=2500)
BASE_MS = 1_700_000_000_000


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

    placed: dict[int, Placed] = field(default_factory=dict)
    """By base offset: every batch that may be there, the one under way included."""
    durable_end: int = 0
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
        self.known = Known()
        self.serial = 0
        self.leader_epoch = 1
        self.sequences: dict[int, int] = {}
        self.log: Log
        self.syncs: ManualSyncs

    def run(self, steps: int) -> None:
        self.open()
        for _ in range(steps):
            self.step()

    def open(self) -> None:
        self.log, self.syncs = open_log(self.disk, SETTINGS)
        self.known.durable_end = max(self.known.durable_end, self.log.durable_end)

    def step(self) -> None:
        choice = self.rng.random()
        if choice < 0.62:
            self.append()
        elif choice < 0.86:
            self.sync()
        elif choice < 0.90:
            self.log.roll()
        elif choice < 0.93:
            self.trim()
        elif choice < 0.95:
            self.truncate()
        elif choice < 0.97:
            self.restart(clean=True)
        else:
            self.restart(clean=False)

    def append(self) -> None:
        data, values, producer = self._batch()
        active = self.log.segments.active
        base = int(self.log.log_end)
        rolls = not active.has_room(len(data), base + len(values) - 1)
        path = f"{self.log.path}/{base:020d}.log" if rolls else active.path
        patched = bytearray(data)
        patched[:8] = base.to_bytes(8, "big")
        patched[12:16] = self.leader_epoch.to_bytes(4, "big")
        self.known.placed[base] = Placed(
            base_offset=base,
            values=values,
            data=bytes(patched),
            path=path,
            position=0 if rolls else int(active.size),
            producer=producer,
        )
        placed = append(self.log, data, leader_epoch=self.leader_epoch, now_ms=BASE_MS)
        assert placed.base_offset == base
        if producer is not None:
            self.sequences[producer[0]] = producer[2] + len(values)
        if self.rng.random() < 0.03:
            self.leader_epoch += 1

    def _batch(self) -> tuple[bytearray, tuple[bytes, ...], tuple[int, int, int] | None]:
        rng = self.rng
        values = []
        for _ in range(rng.choice((1, 1, 2, 3, 8))):
            self.serial += 1
            size = rng.choice((0, 10, 100, 700, 1500))
            values.append(b"%08d" % self.serial + rng.randbytes(size))
        producer = None
        if rng.random() < 0.4:
            producer_id = rng.randrange(3)
            producer = (producer_id, 0, self.sequences.get(producer_id, 0))
        data = batch(
            *values,
            timestamp=BASE_MS + self.serial * 10 + rng.randrange(-200, 200),
            codec=rng.choice((Codec.NONE, Codec.NONE, Codec.LZ4)),
            producer_id=producer[0] if producer else -1,
            producer_epoch=producer[1] if producer else -1,
            base_sequence=producer[2] if producer else -1,
        )
        return data, tuple(values), producer

    def sync(self) -> None:
        self.syncs.run_all()
        self.known.durable_end = int(self.log.durable_end)
        self.known.log_start_min = self.known.log_start_max

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

    def restart(self, *, clean: bool) -> None:
        if clean:
            self.log.close_now()
            self.known.log_start_min = self.known.log_start_max
        self.disk.kill()
        self.open()
        # Killed before its job ran, a trim may not have been written down.
        if not clean:
            self.known.log_start_min = self.known.log_start_max = int(self.log.log_start)


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
            found.append((history.disk.snapshot(), history.known.copy()))

    history.disk.on_op = on_op
    history.run(steps)
    yield from found
