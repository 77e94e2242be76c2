"""A compacted log against a dictionary, with cleanings that power cuts interrupt anywhere."""

from contextlib import suppress
from dataclasses import replace
from random import Random

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.hot.cleaned import ALWAYS, NOW_MS, SMALL, clean, keyed
from tests.hot.keyedmodel import Ledger, check_clean
from tests.hot.support import append, open_log
from tierlog.hot import Log
from tierlog.hot.sync import ManualSyncs
from tierlog.records.attributes import Codec
from tierlog.records.batch import iter_batches
from tierlog.records.record import decode_records
from tierlog.sim.disk import PowerCut, SimDisk
from tierlog.types import Offset, ProducerId

CONFIG = replace(SMALL, segment_bytes=1024)
RETENTION_MS = 1000


class Reader:
    """Reads from the beginning, slowly, and keeps what it has seen."""

    def __init__(self, log: Log, now_ms: int) -> None:
        self.began_ms = now_ms
        self.offset = log.log_start
        self.state: dict[bytes, bytes | None] = {}

    def read(self, log: Log) -> None:
        data = log.read(self.offset, bytes_max=300)
        for position, header in iter_batches(data):
            for record in decode_records(memoryview(data)[position:]):
                assert record.key is not None
                if record.offset >= self.offset:
                    self.state[record.key] = record.value
            self.offset = header.next_offset


class CleanedMachine(RuleBasedStateMachine):
    disk: SimDisk
    log: Log
    syncs: ManualSyncs

    @initialize()
    def begin(self) -> None:
        self.disk = SimDisk()
        self.ledger = Ledger(retention_ms=RETENTION_MS)
        self.now_ms = NOW_MS
        self.serial = 0
        self.reader: Reader | None = None
        self.unsynced: dict[int, tuple[bytes, bytes | None]] = {}
        self.open()

    def open(self) -> None:
        self.log, self.syncs = open_log(self.disk, CONFIG)
        self.unsynced.clear()
        known = self.log.producers.copy()
        self.sequences = {int(producer): one.last.last_sequence + 1 for producer, one in known}
        found = self.ledger.check(self.log)
        for record in found:  # Recovery makes durable what it shows.
            assert record.key is not None
            self.ledger.note_durable(record.offset, record.key, record.value)

    @rule(
        keys=st.lists(st.sampled_from([b"a", b"b", b"c", b"d"]), min_size=1, max_size=5),
        deletes=st.booleans(),
        codec=st.sampled_from([Codec.NONE, Codec.NONE, Codec.LZ4, Codec.ZSTD]),
        producer=st.sampled_from([-1, -1, 0, 1]),
        size=st.sampled_from([0, 20, 300]),
    )
    def append(
        self, keys: list[bytes], deletes: bool, codec: Codec, producer: int, size: int
    ) -> None:
        pairs: list[tuple[bytes, bytes | None]] = []
        for key in keys:
            self.serial += 1
            pairs.append((key, None if deletes else b"%d" % self.serial + b"x" * size))
        sequence = self.sequences.get(producer, 0)
        base = self.log.log_end
        for offset, (key, value) in enumerate(pairs, base):
            self.ledger.note_written(offset, key, value)
        data = keyed(
            *pairs,
            timestamp=self.now_ms,
            codec=codec,
            producer=(producer, 0, sequence) if producer >= 0 else (-1, -1, -1),
        )
        placed = append(self.log, data, now_ms=self.now_ms)
        assert placed.base_offset == base
        self.sequences[producer] = sequence + len(pairs)
        self.unsynced.update(enumerate(pairs, base))

    @rule()
    def sync(self) -> None:
        self.syncs.run_all()
        for offset, (key, value) in self.unsynced.items():
            self.ledger.note_durable(offset, key, value)
        self.unsynced.clear()

    @rule()
    def roll(self) -> None:
        self.log.roll()
        self.sync()

    @rule(later_ms=st.sampled_from([1, 400, 1000]))
    def wait(self, later_ms: int) -> None:
        self.now_ms += later_ms

    @rule(key_bytes=st.sampled_from([1, 600, 1 << 20]))
    def clean(self, key_bytes: int) -> None:
        self.sync()
        self._clean(key_bytes)
        check_clean(self.log, self.ledger.check(self.log))
        sealed = self.log.cleanable()
        assert not sealed or self.log.cleaned_to == sealed[-1].next_offset

    def _clean(self, key_bytes: int = 1 << 20) -> None:
        sealed = self.log.cleanable()
        self.ledger.note_cleaning(sealed[-1].next_offset if sealed else 0, self.now_ms)
        rules = replace(ALWAYS, delete_retention_ms=RETENTION_MS)
        clean(self.log, self.syncs, now_ms=self.now_ms, rules=rules, key_bytes=key_bytes)

    @rule(after=st.integers(1, 120), seed=st.integers(0, 1000))
    def cut_the_power_while_it_cleans(self, after: int, seed: int) -> None:
        self.sync()
        last = self.disk.op_count + after

        def cut(_: str) -> None:
            if self.disk.op_count >= last:
                raise PowerCut

        self.disk.on_op = cut
        with suppress(PowerCut):
            self._clean()
        self.disk.on_op = None
        self.disk.power_cut(Random(seed))
        self.open()

    @rule(seed=st.integers(0, 1000), is_kill=st.booleans())
    def crash(self, seed: int, is_kill: bool) -> None:
        if is_kill:
            self.disk.kill()
        else:
            self.disk.power_cut(Random(seed))
        self.open()

    @rule(share=st.floats(0, 1))
    def trim(self, share: float) -> None:
        self.sync()
        start = self.log.log_start + int((self.log.visible_end - self.log.log_start) * share)
        self.log.trim(Offset(start))
        self.syncs.run_all()
        self.reader = None

    @rule()
    def a_reader_begins(self) -> None:
        self.reader = Reader(self.log, self.now_ms)

    @precondition(lambda self: self.reader is not None)
    @rule()
    def the_reader_reads(self) -> None:
        assert self.reader is not None
        self.reader.read(self.log)

    @precondition(lambda self: self.reader is not None)
    @rule()
    def the_reader_comes_to_the_end(self) -> None:
        """Within `delete.retention.ms` it knows what is deleted."""
        self.sync()
        reader, self.reader = self.reader, None
        assert reader is not None
        if self.now_ms - reader.began_ms >= RETENTION_MS:
            return
        while reader.offset < self.log.visible_end:
            reader.read(self.log)
        known = {key: value for key, value in reader.state.items() if value is not None}
        truth = {
            key: value
            for key, (offset, value) in self.ledger.last().items()
            if value is not None and offset >= self.log.log_start
        }
        assert known == truth

    @invariant()
    def a_producer_goes_on(self) -> None:
        for producer, sequence in self.sequences.items():
            known = dict(self.log.producers.copy()).get(ProducerId(producer))
            if producer >= 0 and known is not None:
                assert known.last.last_sequence == sequence - 1


TestCleanedMachine = CleanedMachine.TestCase
TestCleanedMachine.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
