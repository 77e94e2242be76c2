"""What users of a compacted log may hold it to, whatever was cleaned and whatever crashed."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.hot.cleaned import records_of
from tierlog.hot import Log
from tierlog.records.record import Record
from tierlog.types import TimestampMs


@dataclass(slots=True)
class Ledger:
    """By offset, everything that was handed to the log; and what is known to be durable."""

    retention_ms: int = 1000
    written: dict[int, set[tuple[bytes, bytes | None]]] = field(default_factory=dict)
    """Several at one offset: a crash may take the first before anybody saw it."""
    durable: dict[int, tuple[bytes, bytes | None]] = field(default_factory=dict)
    cleaned_ms: list[int] = field(default_factory=list)
    """When cleanings began, those that were cut off included."""
    covered: dict[int, int] = field(default_factory=dict)
    """Of tombstones, when the first cleaning began that may have met them."""

    def note_written(self, offset: int, key: bytes, value: bytes | None) -> None:
        self.written.setdefault(offset, set()).add((key, value))

    def note_durable(self, offset: int, key: bytes, value: bytes | None) -> None:
        before = self.durable.setdefault(offset, (key, value))
        assert before == (key, value), f"offset {offset} names two records"

    def note_cleaning(self, end: int, now_ms: int) -> None:
        """A cleaning of what lies below `end` begins."""
        self.cleaned_ms.append(now_ms)
        for offset, candidates in self.written.items():
            if offset < end and any(value is None for _, value in candidates):
                self.covered.setdefault(offset, now_ms)

    def last(self) -> dict[bytes, tuple[int, bytes | None]]:
        """Where the last durable record of every key stands, and its value."""
        found: dict[bytes, tuple[int, bytes | None]] = {}
        for offset in sorted(self.durable):
            key, value = self.durable[offset]
            found[key] = offset, value
        return found

    def may_be_gone(self, offset: int) -> bool:
        """Whether a tombstone was met by a cleaning, and by another after its time was over."""
        met_ms = self.covered.get(offset)
        return met_ms is not None and max(self.cleaned_ms) >= met_ms + self.retention_ms

    def check(self, log: Log) -> list[Record]:
        """Hold a log to all of this; returns what can be read of it."""
        assert not log.segments.damage, f"a sound disk was called damaged: {log.segments.damage}"
        assert log.log_end > max(self.durable, default=-1), "offsets would be given out again"
        records = [record for record in records_of(log) if record.offset >= log.log_start]
        self.check_records(records, start=log.log_start)
        check_times(log, records)
        return records

    def check_records(self, records: Iterable[Record], *, start: int) -> None:
        found = {record.offset: (record.key, record.value) for record in records}
        for offset, (key, value) in found.items():
            assert key is not None
            assert (key, value) in self.written[offset], f"{offset} holds what nobody wrote there"
            assert self.durable.get(offset, (key, value)) == (key, value), f"{offset} has changed"
        for known, (place, content) in self.last().items():
            if place < start or place in found:
                continue
            assert content is None, f"the last value of {known!r}, at {place}, is gone"
            assert self.may_be_gone(place), f"the tombstone of {known!r}, at {place}, went early"


def check_times(log: Log, records: list[Record]) -> None:
    """Answers by time are those of a search through all records."""
    times = sorted({record.timestamp for record in records})
    for timestamp in {*times[:: max(len(times) // 5, 1)], *times[-1:]}:
        expected = next(
            (one.offset, one.timestamp) for one in records if one.timestamp >= timestamp
        )
        assert log.find_by_time(TimestampMs(timestamp)) == expected
    best = max(records, key=lambda one: (one.timestamp, -one.offset), default=None)
    assert log.latest_by_time() == (None if best is None else (best.offset, best.timestamp))


def check_clean(log: Log, records: list[Record]) -> None:
    """Below the first dirty offset no key is there twice."""
    clean = [record.key for record in records if record.offset < log.cleaned_to]
    assert len(clean) == len(set(clean)), "two records of one key are called clean"
