"""Other settings for a log that stays open."""

from dataclasses import replace

import pytest

from tests.hot.support import SMALL, append, append_values, batch, open_log, read_values
from tierlog.hot.errors import LogClosed
from tierlog.records.batch import parse_header
from tierlog.sim.disk import SimDisk
from tierlog.types import Offset

LAZY = replace(SMALL, flush_messages=1000, checkpoint_bytes=1 << 30)


def test_what_was_visible_stays_so_until_the_disk_has_caught_up() -> None:
    log, syncs = open_log(SimDisk(), LAZY)
    append_values(log, b"a")
    assert (log.visible_end, log.durable_end) == (1, 0)
    log.apply(SMALL)
    assert (log.visible_end, log.durable_end) == (1, 0)
    append_values(log, b"b")
    assert log.visible_end == 1, "new records wait for the disk"
    assert read_values(log) == {0: b"a"}
    syncs.run_all()
    assert (log.visible_end, log.durable_end) == (2, 2)


def test_a_smaller_flush_interval_syncs_what_waits() -> None:
    log, syncs = open_log(SimDisk(), LAZY)
    append_values(log, b"a", b"b")
    assert syncs.is_idle(log)
    log.apply(replace(LAZY, flush_messages=3))
    assert syncs.is_idle(log)
    log.apply(replace(LAZY, flush_messages=2))
    syncs.run_all()
    assert log.durable_end == 2


def test_an_append_waits_for_its_sync_no_longer_than_flush_ms() -> None:
    log, syncs = open_log(SimDisk(), replace(LAZY, flush_ms=1000))
    log.flush_if_due(10_000)
    assert syncs.is_idle(log), "nothing waits"
    append(log, batch(b"a"), now_ms=5000)
    append(log, batch(b"b"), now_ms=5999)
    log.flush_if_due(5999)
    assert syncs.is_idle(log)
    log.flush_if_due(6000)
    syncs.run_all()
    assert log.durable_end == 2
    append(log, batch(b"c"), now_ms=6500)
    log.flush_if_due(7000)
    assert syncs.is_idle(log), "each append has its own time"
    log.flush_if_due(6499)
    syncs.run_all()
    assert log.durable_end == 3, "a clock that went back makes nobody wait"


def test_a_truncation_moves_back_what_was_kept_visible() -> None:
    log, syncs = open_log(SimDisk(), LAZY)
    append_values(log, b"a")
    append_values(log, b"b")
    log.apply(SMALL)
    syncs.run_all()
    log.truncate(Offset(1))
    assert log.visible_end == 1
    append_values(log, b"c")
    assert log.visible_end == 1


def test_a_smaller_segment_rolls_with_the_next_append_and_a_larger_one_goes_on() -> None:
    log, _ = open_log(SimDisk(), replace(SMALL, segment_bytes=1 << 20))
    append_values(log, b"x" * 1500)
    log.apply(replace(SMALL, segment_bytes=1024))
    assert len(log.segments) == 1
    append_values(log, b"y" * 300)
    assert len(log.segments) == 2
    log.apply(replace(SMALL, segment_bytes=1 << 20))
    append_values(log, b"z" * 3000)
    assert len(log.segments) == 2


def test_a_shorter_segment_time_is_due_at_once() -> None:
    log, _ = open_log(SimDisk())
    append(log, batch(b"a"), now_ms=1000)
    assert not log.roll_due(3000)
    log.apply(replace(SMALL, segment_ms=2000))
    assert log.roll_due(3000)


def test_batches_are_stamped_from_the_next_append_on() -> None:
    log, _ = open_log(SimDisk())
    assert append(log, batch(b"a"), now_ms=5).timestamp == -1
    log.apply(replace(SMALL, log_append_time=True))
    assert append(log, batch(b"b"), now_ms=6).timestamp == 6
    assert parse_header(log.read(Offset(1), bytes_max=1, end=log.log_end)).max_timestamp == 6


def test_offsets_that_had_gaps_have_them_for_ever() -> None:
    log, _ = open_log(SimDisk(), replace(SMALL, contiguous=False))
    log.apply(SMALL)
    assert not log.settings.contiguous
    assert not log.segments.active.contiguous


def test_a_closed_log_takes_no_settings() -> None:
    log, _ = open_log(SimDisk())
    log.close_now()
    with pytest.raises(LogClosed):
        log.apply(SMALL)
