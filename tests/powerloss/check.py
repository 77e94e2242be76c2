"""What must hold after a power cut, whatever the disk kept.

`check` recovers a log from a drawn disk state and raises `Violation` with a sentence when the log
breaks a promise: a durable record is missing, a record is not what was written at its offset, an
offset is given out twice, a healthy log cries damage, recovery is not repeatable.
"""

from random import Random

from tests.hot.support import append, batch, open_log, read_values
from tests.powerloss.history import BASE_MS, Known, Placed
from tierlog.hot import Log
from tierlog.hot.errors import LogError
from tierlog.records.batch import iter_batches
from tierlog.records.errors import BatchError
from tierlog.records.record import decode_records
from tierlog.sim.disk import PowerCut, SimDisk
from tierlog.types import TimestampMs


class Violation(AssertionError):
    """A promise was broken."""


def require(holds: bool, sentence: str) -> None:
    if not holds:
        raise Violation(sentence)


def check(disk: SimDisk, known: Known, rng: Random) -> None:
    """Recover from `disk`, which is in a legal state, and hold the log to what was known."""
    seen = first_seen_end(disk, known)
    log = recover(disk, known)
    found = check_content(log, known)
    check_time_lookup(log, rng)
    check_producers(log, known, found)
    require(log.log_end >= seen, f"offsets below {seen} were seen on disk, {log.log_end} is next")
    again = known.copy()
    again.log_start_min = again.log_start_max = int(log.log_start)
    again.truncating_to = None
    again.placed = {
        base: one for base, one in known.placed.items() if base in found or base < log.log_end
    }
    check_again(disk, again, found, log, rng)


def recover(disk: SimDisk, known: Known) -> Log:
    try:
        log, _ = open_log(disk, known.settings)
    except (LogError, BatchError, OSError) as fault:
        raise Violation(f"recovery failed: {fault!r}") from fault
    require(not log.segments.damage, f"a sound disk was called damaged: {log.segments.damage}")
    return log


def check_content(log: Log, known: Known) -> dict[int, bytes]:
    require(
        known.log_start_min <= log.log_start <= known.log_start_max,
        f"log start {log.log_start}, known [{known.log_start_min}, {known.log_start_max}]",
    )
    require(log.log_end >= known.durable_end, f"{log.log_end} ends below {known.durable_end}")
    require(log.durable_end == log.log_end, "recovered bytes are not durable")
    try:
        found = read_values(log, end=int(log.log_end))
    except (LogError, BatchError, AssertionError) as fault:
        raise Violation(f"reading failed: {fault!r}") from fault
    written = known.records()
    for offset, value in found.items():
        require(written.get(offset) == value, f"offset {offset} holds what was never written there")
    for offset in range(log.log_start, known.durable_end):
        require(offset in found, f"offset {offset} was durable and is gone")
    last = max((one.next_offset for one in known.placed.values()), default=known.log_start_max)
    require(
        log.log_end <= max(last, known.durable_end, known.refused_end),
        f"offsets up to {log.log_end} invented",
    )
    return found


def check_time_lookup(log: Log, rng: Random) -> None:
    """Answers by time are those of a search through all records."""
    records = []
    offset = log.log_start
    while offset < log.log_end and (data := log.read(offset, bytes_max=1 << 20)):
        for position, header in iter_batches(data):
            records += decode_records(memoryview(data)[position:])
            offset = header.next_offset
    records = [record for record in records if record.offset >= log.log_start]
    for _ in range(2):
        timestamp = TimestampMs(BASE_MS + rng.randrange(3000))
        expected = next(
            ((r.offset, r.timestamp) for r in records if r.timestamp >= timestamp), None
        )
        got = log.find_by_time(timestamp)
        require(got == expected, f"time {timestamp}: got {got}, expected {expected}")


def check_producers(log: Log, known: Known, found: dict[int, bytes]) -> None:
    """The last batch of each producer, sent again, is a duplicate of itself."""
    last: dict[int, Placed] = {}
    for base in sorted(known.placed):
        one = known.placed[base]
        if one.producer is not None and base in found:
            last[one.producer[0]] = one
    end = log.log_end
    for one in last.values():
        assert one.producer is not None
        producer_id, producer_epoch, sequence = one.producer
        data = batch(
            *one.values,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=sequence,
        )
        try:
            placed = append(log, data)
        except LogError as fault:
            raise Violation(f"a retry was refused: {fault}") from fault
        require(
            (placed.base_offset, placed.is_duplicate) == (one.base_offset, True),
            f"a retry of offset {one.base_offset} became {placed}",
        )
    assert log.log_end == end


def first_seen_end(disk: SimDisk, known: Known) -> int:
    """The end of the first batch that may be lost, if its header can be seen on the disk.

    Whoever reads the header knows that these offsets were given out.
    """
    for base in sorted(known.placed):
        one = known.placed[base]
        if base < known.durable_end or not disk.exists(one.path):
            continue
        file = disk.open(one.path)
        try:
            header = file.pread(len(one.header), one.position)
        finally:
            file.close()
        preceding = [p for p in known.placed.values() if known.durable_end <= p.base_offset < base]
        if header == one.header and not preceding:
            return one.next_offset
        break
    return 0


def check_again(
    disk: SimDisk, known: Known, found: dict[int, bytes], log: Log, rng: Random
) -> None:
    """Recovery is repeatable, also when it is cut off itself, and what it showed stays."""
    end = int(log.log_end)
    after = disk.after_power_cut(rng)
    log = recover(after, known)
    require(int(log.log_end) == end, f"log end moved from {end} to {log.log_end}")
    require(check_content(log, known) == found, "a second recovery found other records")


def check_cut_recovery(disk: SimDisk, known: Known, rng: Random) -> None:
    """Cut the power in the middle of recovery, then recover for good."""
    probe = disk.snapshot()
    before = probe.op_count
    recover(probe, known)
    ops = probe.op_count - before
    if ops == 0:
        return
    stop = before + rng.randrange(ops)

    def on_op(_: str) -> None:
        if disk.op_count == stop:
            raise PowerCut

    disk.on_op = on_op
    try:
        recover(disk, known)
    except PowerCut:
        pass
    else:
        raise AssertionError("the cut did not happen")
    disk.on_op = None
    check(disk.after_power_cut(rng), known, rng)
