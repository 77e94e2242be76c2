"""A log against a dictionary: whatever happens, in whatever order, they agree."""

from itertools import pairwise

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.hot.support import append, batch, open_log
from tierlog.hot import Log, LogSettings
from tierlog.hot.sync import ManualSyncs
from tierlog.records.attributes import Codec
from tierlog.records.batch import iter_batches, validate_stored
from tierlog.records.record import decode_records
from tierlog.sim.disk import SimDisk
from tierlog.types import Offset

EAGER = LogSettings(segment_bytes=1500, index_interval_bytes=100, checkpoint_bytes=900)
LAZY = LogSettings(
    segment_bytes=1500, index_interval_bytes=100, checkpoint_bytes=900, flush_messages=50
)

HASTY = LogSettings(segment_bytes=1024, index_interval_bytes=50, checkpoint_bytes=400)


class LogMachine(RuleBasedStateMachine):
    """`batches` is the model: base offset -> values of everything below the log end."""

    disk: SimDisk
    log: Log
    syncs: ManualSyncs
    config: LogSettings

    @initialize(config=st.sampled_from([EAGER, LAZY]), start=st.sampled_from([0, 7000]))
    def begin(self, config: LogSettings, start: int) -> None:
        self.disk = SimDisk()
        self.config = config
        self.batches: dict[int, list[bytes]] = {}
        self.start = self.end = self.durable = self.shown = start
        self.serial = 0
        self.leader_epoch = 1
        self.writers: dict[int, int] = {}
        self.log, self.syncs = open_log(self.disk, config, start=start)

    # What may happen

    @rule(
        sizes=st.lists(st.sampled_from([0, 5, 60, 400]), min_size=1, max_size=4),
        codec=st.sampled_from([Codec.NONE, Codec.NONE, Codec.LZ4]),
        new_epoch=st.booleans(),
    )
    def append(self, sizes: list[int], codec: Codec, new_epoch: bool) -> None:
        values = []
        for size in sizes:
            self.serial += 1
            values.append(b"%06d" % self.serial + b"x" * size)
        self.leader_epoch += new_epoch
        placed = append(self.log, batch(*values, codec=codec), leader_epoch=self.leader_epoch)
        assert (placed.base_offset, placed.last_offset) == (self.end, self.end + len(values) - 1)
        assert not placed.is_duplicate
        self.batches[self.end] = values
        self.writers[self.end] = self.leader_epoch
        self.end += len(values)

    @rule()
    def sync(self) -> None:
        self.syncs.run_all()
        self.durable = self.log.durable_end
        if self.config.flush_messages == 1:
            assert self.durable == self.end

    @rule(config=st.sampled_from([EAGER, LAZY, HASTY]))
    def apply(self, config: LogSettings) -> None:
        self.shown = self.log.visible_end
        self.config = config
        self.log.apply(config)

    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule(share=st.floats(0, 1))
    def trim(self, share: float) -> None:
        self.start += int((self.log.visible_end - self.start) * share)
        self.log.trim(Offset(self.start))

    @rule(share=st.floats(0, 1))
    def truncate(self, share: float) -> None:
        self.sync()
        wanted = self.start + int((self.end - self.start) * share)
        self.log.truncate(Offset(wanted))
        for base in [one for one in self.batches if one + len(self.batches[one]) > wanted]:
            del self.batches[base], self.writers[base]
        kept = [base + len(values) for base, values in self.batches.items()]
        self.end = self.durable = self.shown = max([self.start, *kept])

    @precondition(lambda self: self.config.flush_messages == 1 or self.durable == self.end)
    @rule(clean=st.booleans())
    def restart(self, clean: bool) -> None:
        """A kill loses no byte that was written, synced or not; a trim may be forgotten."""
        if clean:
            self.log.close_now()
        self.disk.kill()
        self.log, self.syncs = open_log(self.disk, self.config)
        assert not clean or self.log.log_start == self.start
        assert self.log.log_start <= self.start
        self.start = self.log.log_start
        self.durable = self.shown = self.end
        assert self.log.gaps == []
        if clean:
            assert self.log.scanned_bytes == 0

    @rule(share=st.floats(0, 1), bytes_max=st.sampled_from([0, 70, 300, 5000]), cut=st.booleans())
    def read(self, share: float, bytes_max: int, cut: bool) -> None:
        visible = self.log.visible_end
        offset = self.start + int((visible - self.start) * share)
        end = (offset + visible + 1) // 2 if cut else visible
        data = self.log.read(Offset(offset), bytes_max=bytes_max, end=Offset(end))
        expected = [base for base in self.batches if base + len(self.batches[base]) > offset]
        bases = []
        for position, header in iter_batches(data):
            validate_stored(data, position)
            values = [r.value for r in decode_records(memoryview(data)[position:])]
            assert values == self.batches[header.base_offset]
            assert header.leader_epoch == self.writers[header.base_offset]
            assert header.next_offset <= end
            bases.append(header.base_offset)
        assert bases == sorted(expected)[: len(bases)]
        if expected and offset < end and min(expected) + len(self.batches[min(expected)]) <= end:
            assert bases, "at least one batch"
            assert len(data) <= bytes_max or len(bases) == 1

    # What always holds

    @invariant()
    def ends_are_in_order(self) -> None:
        log = self.log
        assert (log.log_start, log.log_end) == (self.start, self.end)
        assert self.durable <= log.durable_end <= log.log_end
        assert log.log_start <= log.visible_end <= log.log_end
        eager = self.config.flush_messages == 1
        assert log.visible_end == (max(log.durable_end, self.shown) if eager else log.log_end)

    @invariant()
    def segments_follow_each_other(self) -> None:
        segments = list(self.log.segments)
        assert [one.is_active for one in segments] == [False] * (len(segments) - 1) + [True]
        for one, other in pairwise(segments):
            assert one.base_offset < other.base_offset
            assert one.next_offset <= other.base_offset
        assert segments[-1].next_offset == self.end

    @invariant()
    def epochs_name_the_writers(self) -> None:
        for base, leader_epoch in self.writers.items():
            if base >= self.start:
                assert self.log.epochs.at(Offset(base)) == leader_epoch

    @invariant()
    def everything_can_be_read(self) -> None:
        offset = self.log.log_start
        while offset < self.end:
            data = self.log.read(offset, bytes_max=10_000, end=Offset(self.end))
            assert data, f"nothing at {offset}"
            for position, header in iter_batches(data):
                values = [r.value for r in decode_records(memoryview(data)[position:])]
                assert values == self.batches[header.base_offset]
                offset = header.next_offset


TestLogMachine = LogMachine.TestCase
TestLogMachine.settings = settings(
    max_examples=60,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
