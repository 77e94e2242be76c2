"""Time in a log: stamps, the first record at or after a moment, the latest; against brute force."""

from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.hot.support import append, append_values, batch, open_log
from tierlog.hot import Log, LogSettings, bytime
from tierlog.hot.bytime import Found, Question, Steps
from tierlog.hot.errors import DamagedOffsets
from tierlog.hot.sync import ManualSyncs
from tierlog.records.attributes import Codec
from tierlog.records.batch import crc_of, parse_header, patch_max_timestamp, validate_stored
from tierlog.records.errors import MalformedRecords
from tierlog.records.record import Record, decode_records, encode_batch
from tierlog.sim.disk import SimDisk
from tierlog.types import Offset, TimestampMs

TINY = LogSettings(segment_bytes=1024, index_interval_bytes=128, checkpoint_bytes=600)
STAMPED = LogSettings(log_append_time=True)


def stamped(timestamps: list[int]) -> bytearray:
    records = [
        Record(Offset(number), TimestampMs(timestamp), None, b"v" * 20)
        for number, timestamp in enumerate(timestamps)
    ]
    return bytearray(encode_batch(records))


def first_at(model: dict[int, int], moment: int) -> tuple[int, int] | None:
    return next(((at, model[at]) for at in sorted(model) if model[at] >= moment), None)


def latest(model: dict[int, int]) -> tuple[int, int] | None:
    return min(model.items(), key=lambda one: (-one[1], one[0]), default=None)


def check(log: Log, model: dict[int, int]) -> None:
    check_once(log, model)
    with patch.object(bytime, "HEADERS_A_STEP", 1):
        check_once(log, model)


def check_once(log: Log, model: dict[int, int]) -> None:
    seen = {at: model[at] for at in model if log.log_start <= at < log.visible_end}
    for moment in sorted({0, *(t + d for t in seen.values() for d in (0, 1))}):
        assert log.find_by_time(TimestampMs(moment)) == first_at(seen, moment)
    assert log.latest_by_time() == latest(seen)


batches = st.lists(st.lists(st.integers(0, 60), min_size=1, max_size=5), max_size=40)


@given(batches, st.data())
@settings(max_examples=60, deadline=None)
def test_lookups_by_time_agree_with_looking_at_every_record(
    appended: list[list[int]], data: st.DataObject
) -> None:
    """Out of order, over several segments, trimmed, not yet visible, and after a restart."""
    disk = SimDisk()
    log, syncs = open_log(disk, TINY)
    model: dict[int, int] = {}
    visible = data.draw(st.integers(0, len(appended)))
    for number, timestamps in enumerate(appended):
        if number == visible:
            syncs.run_all()
        placed = append(log, stamped(timestamps))
        model |= dict(enumerate(timestamps, placed.base_offset))
    log.trim(Offset(data.draw(st.integers(0, log.visible_end))))
    check(log, model)
    syncs.run_all()
    check(log, model)
    disk.kill()
    log, _ = open_log(disk, TINY)
    check(log, model)


def test_a_header_that_overstates_its_largest_timestamp_is_seen_through() -> None:
    log, syncs = open_log(SimDisk(), TINY)
    lying = stamped([10, 20])
    patch_max_timestamp(lying, timestamp_ms=1000)
    append(log, lying)
    append(log, stamped([30, 40]))
    syncs.run_all()
    assert log.find_by_time(TimestampMs(25)) == (2, 30)
    assert log.find_by_time(TimestampMs(41)) is None


def unreadable(timestamps: list[int]) -> bytearray:
    """A batch that passes produce and that nobody can decode: its codec says gzip, falsely."""
    data = stamped(timestamps)
    data[22] |= Codec.GZIP
    data[17:21] = crc_of(data).to_bytes(4, "big")
    validate_stored(data)
    with pytest.raises(MalformedRecords):
        decode_records(data)
    return data


def test_a_batch_that_nobody_can_decode_answers_by_its_header() -> None:
    log, syncs = open_log(SimDisk(), TINY)
    append(log, stamped([1, 2]))
    append(log, unreadable([30, 40, 35]))
    append(log, stamped([20, 50]))
    syncs.run_all()
    assert log.find_by_time(TimestampMs(2)) == (1, 2)
    assert log.find_by_time(TimestampMs(31)) == (2, 40)
    assert log.find_by_time(TimestampMs(41)) == (6, 50)
    assert log.latest_by_time() == (6, 50)


def test_the_latest_batch_may_be_one_that_nobody_can_decode() -> None:
    log, syncs = open_log(SimDisk(), TINY)
    append(log, stamped([1, 2]))
    append(log, unreadable([30, 40, 35]))
    append(log, stamped([3]))
    syncs.run_all()
    append(log, stamped([99]))  # Not visible: the headers are walked.
    assert log.latest_by_time() == (2, 40)
    log.trim(Offset(3))
    assert log.latest_by_time() == (3, 40)
    assert log.find_by_time(TimestampMs(0)) == (3, 40)
    syncs.run_all()
    assert log.latest_by_time() == (6, 99)


def test_nothing_is_found_in_an_empty_log() -> None:
    log, _ = open_log(SimDisk())
    assert log.find_by_time(TimestampMs(0)) is None
    assert log.latest_by_time() is None


def test_what_is_not_visible_is_not_found() -> None:
    log, syncs = open_log(SimDisk(), TINY)
    append(log, stamped([5]))
    syncs.run_all()
    append(log, stamped([9]))
    assert log.find_by_time(TimestampMs(6)) is None
    assert log.latest_by_time() == (0, 5)


# Log append time


def stamping_log(disk: SimDisk) -> tuple[Log, ManualSyncs]:
    return open_log(disk, STAMPED)


def test_the_broker_stamps_the_batch_and_its_crc_stays_right() -> None:
    log, syncs = stamping_log(SimDisk())
    placed = append(log, batch(b"a", b"b", timestamp=5), now_ms=777)
    assert placed.timestamp == 777
    syncs.run_all()
    data = log.read(Offset(0), bytes_max=1000)
    header = validate_stored(data)
    assert header.is_log_append_time
    assert header.max_timestamp == 777
    assert {record.timestamp for record in decode_records(data)} == {777}
    assert log.find_by_time(TimestampMs(700)) == (0, 777)


def test_a_duplicate_is_answered_with_the_stamp_of_its_first_copy() -> None:
    disk = SimDisk()
    log, syncs = stamping_log(disk)
    data = batch(b"a", producer_id=1, producer_epoch=0, base_sequence=0)
    append(log, bytearray(data), now_ms=777)
    syncs.run_all()
    assert append(log, bytearray(data), now_ms=888) == (0, 0, 777, True)
    disk.kill()
    log, _ = stamping_log(disk)
    assert append(log, bytearray(data), now_ms=999) == (0, 0, 777, True)


def test_without_log_append_time_the_producers_stamps_stand() -> None:
    log, syncs = open_log(SimDisk())
    assert append(log, batch(b"a", timestamp=5), now_ms=777).timestamp == -1
    syncs.run_all()
    assert parse_header(log.read(Offset(0), bytes_max=10)).max_timestamp == 5


# Reads and their end


@pytest.mark.parametrize("restart", [False, True])
def test_a_read_that_ends_inside_a_batch_does_not_confuse_the_next_one(restart: bool) -> None:
    disk = SimDisk()
    log, syncs = open_log(disk)
    append_values(log, b"a", b"b")
    append_values(log, b"c", b"d", b"e")
    append_values(log, b"f")
    syncs.run_all()
    if restart:
        log.close_now()
        disk.kill()
        log, syncs = open_log(disk)
    first = log.read(Offset(0), bytes_max=10_000, end=Offset(3))
    assert parse_header(first).next_offset == 2
    assert len(first) == parse_header(first).size_bytes
    rest = log.read(Offset(3), bytes_max=10_000)
    assert parse_header(rest).base_offset == 2
    log.truncate(Offset(3))
    assert log.log_end == 2


def test_a_damaged_length_costs_no_memory_and_is_told() -> None:
    disk = SimDisk()
    log, syncs = open_log(disk)
    append_values(log, b"a" * 200)
    append_values(log, b"b" * 200)
    syncs.run_all()
    log.close_now()
    disk.kill()
    disk.flip_bit("/data/p/00000000000000000000.log", 8, 6)  # The length grows by a gigabyte.
    log, _ = open_log(disk)
    with pytest.raises(DamagedOffsets) as damage:
        log.read(Offset(0), bytes_max=100)
    assert (damage.value.start, damage.value.end) == (0, 1)
    assert parse_header(log.read(Offset(1), bytes_max=100)).base_offset == 1


@pytest.mark.parametrize("size", [0, 10, 100, 280, 300])
def test_a_file_that_lost_its_end_under_a_running_log_is_damage(size: int) -> None:
    disk = SimDisk()
    log, syncs = open_log(disk)
    append_values(log, b"a" * 200)
    append_values(log, b"b" * 200)
    syncs.run_all()
    disk.open("/data/p/00000000000000000000.log", write=True).truncate(size)
    for bytes_max in (1, 10_000):
        for offset in (0, 1):
            if offset == 0 and size >= 270:
                assert validate_stored(log.read(Offset(0), bytes_max=bytes_max)).base_offset == 0
            else:
                with pytest.raises(DamagedOffsets):
                    log.read(Offset(offset), bytes_max=bytes_max)


def test_a_damaged_header_that_claims_its_neighbours_offsets_does_not_hide_them() -> None:
    disk = SimDisk()
    log, syncs = open_log(disk)
    append_values(log, b"a", b"b", b"c")
    for value in (b"d", b"e"):
        append_values(log, value)
    syncs.run_all()
    log.close_now()
    disk.kill()
    disk.flip_bit("/data/p/00000000000000000000.log", 26, 4)  # Last offset delta: 2 becomes 18.
    log, _ = open_log(disk)
    for offset in range(3):
        with pytest.raises(DamagedOffsets) as damage:
            log.read(Offset(offset), bytes_max=100)
        assert (damage.value.start, damage.value.end) == (0, 3)
    for offset in (3, 4):
        assert validate_stored(log.read(Offset(offset), bytes_max=1)).base_offset == offset


def finished(steps: Steps[Found | None], question: Question | None) -> Found | None:
    """The end of a search whose first question was asked already."""
    while True:
        try:
            question = steps.send(question.answer() if question else None)
        except StopIteration as stop:
            result: Found | None = stop.value
            return result


@pytest.mark.parametrize("by_time", [True, False])
def test_a_search_goes_on_where_segments_were_trimmed_meanwhile(by_time: bool) -> None:
    log, syncs = open_log(SimDisk(), TINY)
    for _ in range(60):
        made = stamped([10])
        patch_max_timestamp(made, timestamp_ms=50)
        append(log, made)
    append(log, stamped([40]))
    syncs.run_all()
    count = len(log.segments)
    steps = log.search_time(TimestampMs(30)) if by_time else log.search_latest()
    question = next(steps)
    log.trim(Offset(40))
    syncs.run_all()
    assert len(log.segments) < count - 2
    found = finished(steps, question)
    assert found is not None
    if by_time:
        assert found == (60, 40)
