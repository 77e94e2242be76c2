"""The log of one partition: appending, reading, rolling, shortening, closing."""

import pytest

from tests.hot.support import SMALL, append, append_values, batch, open_log, read_values, values_of
from tierlog.hot.errors import LogClosed, OffsetOutOfRange
from tierlog.records.batch import parse_header
from tierlog.sim.disk import SimDisk
from tierlog.types import Offset


def filled(disk: SimDisk, count: int = 40) -> dict[int, bytes]:
    """A closed log of `count` batches with two records each, over several segments."""
    log, syncs = open_log(disk)
    expected: dict[int, bytes] = {}
    for number in range(count):
        values = (b"a%04d" % number * 20, b"b%04d" % number * 20)
        placed = append_values(log, *values)
        expected |= dict(enumerate(values, placed.base_offset))
    syncs.run_all()
    log.close_now()
    return expected


def test_offsets_are_given_out_in_order() -> None:
    log, _ = open_log(SimDisk())
    assert append_values(log, b"x", b"y").base_offset == 0
    assert append_values(log, b"z").base_offset == 2
    assert log.log_end == 3


def test_nothing_is_visible_before_it_is_synced() -> None:
    log, syncs = open_log(SimDisk())
    append_values(log, b"x")
    assert log.visible_end == 0
    assert log.read(Offset(0), bytes_max=100) == b""
    syncs.run_all()
    assert log.visible_end == log.durable_end == 1
    assert list(values_of(log.read(Offset(0), bytes_max=100))) == [b"x"]


def test_a_log_that_was_closed_opens_without_reading_a_log_file() -> None:
    disk = SimDisk()
    expected = filled(disk)
    for name in disk.listdir("/data/p"):
        if name.endswith(".log"):
            disk.fail_reads(f"/data/p/{name}")
    disk.kill()
    log, _ = open_log(disk)
    assert log.log_end == 80
    assert log.scanned_bytes == 0
    for name in disk.listdir("/data/p"):
        disk.heal_reads(f"/data/p/{name}")
    assert read_values(log) == expected
    assert len(log.segments) > 2


def test_an_offset_inside_a_batch_gives_the_whole_batch() -> None:
    log, syncs = open_log(SimDisk())
    append_values(log, b"x", b"y", b"z")
    syncs.run_all()
    data = log.read(Offset(2), bytes_max=1000)
    assert parse_header(data).base_offset == 0
    assert list(values_of(data)) == [b"x", b"y", b"z"]


def test_a_read_returns_at_least_one_batch_and_only_whole_ones() -> None:
    log, syncs = open_log(SimDisk())
    for number in range(5):
        append_values(log, b"%d" % number * 100)
    syncs.run_all()
    assert len(list(values_of(log.read(Offset(0), bytes_max=1)))) == 1
    one = len(log.read(Offset(0), bytes_max=1))
    for bytes_max in range(one, 5 * one + 10, 7):
        assert len(log.read(Offset(0), bytes_max=bytes_max)) == bytes_max // one * one or (
            bytes_max >= 5 * one
        )


def test_reading_outside_the_log_is_refused() -> None:
    log, syncs = open_log(SimDisk())
    append_values(log, b"x")
    syncs.run_all()
    assert log.read(Offset(1), bytes_max=10) == b""
    for offset in (-1, 2):
        with pytest.raises(OffsetOutOfRange):
            log.read(Offset(offset), bytes_max=10)


def test_a_new_log_may_begin_anywhere() -> None:
    disk = SimDisk()
    log, syncs = open_log(disk, start=500)
    assert append_values(log, b"x").base_offset == 500
    syncs.run_all()
    log.close_now()
    disk.kill()
    log, _ = open_log(disk)
    assert (log.log_start, log.log_end) == (500, 501)


def test_trimming_removes_whole_segments_and_is_remembered() -> None:
    disk = SimDisk()
    expected = filled(disk)
    disk.kill()
    log, syncs = open_log(disk)
    before = len(log.segments)
    log.trim(Offset(51))
    syncs.run_all()
    assert len(log.segments) < before
    assert read_values(log) == {k: v for k, v in expected.items() if k >= 50}
    with pytest.raises(OffsetOutOfRange):
        log.read(Offset(50), bytes_max=10)
    disk.kill()
    log, _ = open_log(disk)
    assert log.log_start == 51
    bases = [segment.base_offset for segment in log.segments]
    names = {int(name.split(".")[0]) for name in disk.listdir("/data/p") if name.endswith(".log")}
    assert names == set(bases)


def test_truncating_cuts_at_the_batch_border() -> None:
    disk = SimDisk()
    expected = filled(disk)
    disk.kill()
    log, syncs = open_log(disk)
    log.truncate(Offset(31))
    assert log.log_end == log.durable_end == 30
    assert read_values(log) == {k: v for k, v in expected.items() if k < 30}
    assert append_values(log, b"new", leader_epoch=2).base_offset == 30
    syncs.run_all()
    disk.kill()
    log, _ = open_log(disk)
    assert read_values(log)[30] == b"new"
    assert [tuple(entry) for entry in log.epochs.entries] == [(1, 0), (2, 30)]


def test_a_closed_log_refuses_appends() -> None:
    log, _ = open_log(SimDisk())
    log.close_now()
    with pytest.raises(LogClosed):
        append_values(log, b"x")


def test_a_batch_larger_than_a_segment_gets_one_of_its_own() -> None:
    log, syncs = open_log(SimDisk())
    append_values(log, b"x")
    append_values(log, b"y" * (SMALL.segment_bytes * 2))
    append_values(log, b"z")
    syncs.run_all()
    assert [segment.base_offset for segment in log.segments] == [0, 1, 2]
    assert sorted(read_values(log)) == [0, 1, 2]


def test_open_files_are_bounded_while_many_segments_are_read() -> None:
    disk = SimDisk()
    filled(disk, 200)
    disk.kill()
    log, _ = open_log(disk)
    log._directory.pool._open_max = 2
    assert len(read_values(log)) == 400
    assert len(log._directory.pool) <= 3


def test_a_duplicate_is_answered_with_its_first_offset_after_a_restart_too() -> None:
    disk = SimDisk()
    log, syncs = open_log(disk)
    append_values(log, b"other")
    for sequence in range(5):
        data = batch(b"x", producer_id=7, producer_epoch=0, base_sequence=sequence)
        append(log, data)
    syncs.run_all()
    disk.kill()
    log, _ = open_log(disk)
    for sequence in range(5):
        data = batch(b"x", producer_id=7, producer_epoch=0, base_sequence=sequence)
        placed = append(log, data)
        assert (placed.base_offset, placed.is_duplicate) == (1 + sequence, True)
    assert log.log_end == 6
