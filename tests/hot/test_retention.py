"""Which records retention lets go, and how they go."""

from dataclasses import replace
from random import Random

from tests.hot.support import SMALL, append, batch, open_log, read_values
from tierlog.hot import Log
from tierlog.hot.sync import ManualSyncs
from tierlog.sim.disk import SimDisk
from tierlog.types import Offset

LAZY = replace(SMALL, flush_messages=1 << 40)


def three_segments(disk: SimDisk | None = None) -> tuple[Log, ManualSyncs]:
    """Offsets [0, 2), [2, 4), [4, 6); timestamps 1000-1003, 2000-2003, 3000-3003."""
    log, syncs = open_log(disk or SimDisk())
    for second in (1, 2, 3):
        for number in (0, 2):
            append(log, batch(b"x" * 100, timestamp=second * 1000 + number), now_ms=second * 1000)
        if second < 3:
            log.roll()
    syncs.run_all()
    return log, syncs


def test_without_limits_everything_stays() -> None:
    log, _ = three_segments()
    assert log.expired_end(now_ms=1 << 60) == 0
    assert log.expired_end(now_ms=1 << 60, retention_ms=-1, retention_bytes=-1) == 0


def test_a_segment_goes_when_its_newest_record_is_too_old() -> None:
    log, _ = three_segments()
    assert log.expired_end(now_ms=2001, retention_ms=1000) == 0, "just old enough to stay"
    assert log.expired_end(now_ms=2003, retention_ms=1000) == 2
    assert log.expired_end(now_ms=3003, retention_ms=1000) == 4
    assert log.expired_end(now_ms=4003, retention_ms=1000) == 6, "the active one too"
    assert log.expired_end(now_ms=0, retention_ms=0) == 0, "timestamps of the future stay"


def test_an_old_segment_behind_a_young_one_stays() -> None:
    log, syncs = open_log(SimDisk())
    for timestamp in (9000, 1000, 1000):
        append(log, batch(b"x", timestamp=timestamp))
        log.roll()
    syncs.run_all()
    assert log.expired_end(now_ms=8000, retention_ms=100) == 0
    assert log.expired_end(now_ms=9200, retention_ms=100) == 3


def test_records_without_a_timestamp_age_from_their_append() -> None:
    log, syncs = open_log(SimDisk())
    append(log, batch(b"x", timestamp=-1), now_ms=5000)
    syncs.run_all()
    assert log.segments.active.max_timestamp == -1
    assert log.expired_end(now_ms=6000, retention_ms=1000) == 0
    assert log.expired_end(now_ms=6001, retention_ms=1000) == 1


def test_whole_segments_go_while_enough_is_left() -> None:
    log, _ = three_segments()
    each = log.size_bytes // 3
    assert log.expired_end(now_ms=0, retention_bytes=3 * each) == 0
    assert log.expired_end(now_ms=0, retention_bytes=2 * each + 1) == 0
    assert log.expired_end(now_ms=0, retention_bytes=2 * each) == 2
    assert log.expired_end(now_ms=0, retention_bytes=1) == 4
    assert log.expired_end(now_ms=0, retention_bytes=0) == 6
    assert log.expired_end(now_ms=2003, retention_ms=1000, retention_bytes=each) == 4


def test_an_active_segment_expires_with_its_newest_record() -> None:
    log, _ = open_log(SimDisk())
    assert not log.is_active_expired(now_ms=1 << 40, retention_ms=0), "there is nothing in it"
    append(log, batch(b"x", timestamp=5_000))
    append(log, batch(b"y", timestamp=1_000))
    assert not log.is_active_expired(now_ms=6_000, retention_ms=1_000)
    assert log.is_active_expired(now_ms=6_001, retention_ms=1_000)
    assert not log.is_active_expired(now_ms=1 << 40, retention_ms=-1)
    log.roll()
    assert not log.is_active_expired(now_ms=1 << 40, retention_ms=0)


def test_what_is_not_visible_yet_stays() -> None:
    log, syncs = open_log(SimDisk())
    append(log, batch(b"x", timestamp=1))
    log.roll()
    append(log, batch(b"y", timestamp=1))
    assert log.expired_end(now_ms=1 << 40, retention_ms=1) == 0
    syncs.run_all()
    assert log.expired_end(now_ms=1 << 40, retention_ms=1) == 2


def test_a_log_that_expired_whole_is_rolled_trimmed_and_goes_on() -> None:
    disk = SimDisk()
    log, syncs = three_segments(disk)
    end = log.expired_end(now_ms=1 << 40, retention_ms=1000)
    log.roll()
    log.trim(end)
    syncs.run_all()
    syncs.run_all()
    assert (log.log_start, log.log_end, log.size_bytes) == (6, 6, 0)
    assert log.expired_end(now_ms=1 << 40, retention_ms=0, retention_bytes=0) == 6
    assert [name for name in disk.listdir(log.path) if name.endswith(".log")] == [f"{6:020d}.log"]
    append(log, batch(b"new"))
    syncs.run_all()
    assert read_values(log) == {6: b"new"}


def test_the_answer_can_always_be_trimmed_to() -> None:
    for seed in range(20):
        rng = Random(seed)
        log, syncs = open_log(SimDisk(), rng.choice((SMALL, LAZY)))
        for now_ms in range(0, 4000, 100):
            append(log, batch(b"x" * rng.randrange(900), timestamp=now_ms), now_ms=now_ms)
            if rng.random() < 0.3:
                syncs.run_all()
            end = log.expired_end(
                now_ms=now_ms,
                retention_ms=rng.choice((-1, 500)),
                retention_bytes=rng.choice((-1, 3000)),
            )
            assert log.log_start <= end <= log.visible_end
            log.trim(end)


def test_a_trim_is_told_from_a_drop_also_after_a_power_cut() -> None:
    disk = SimDisk()
    log, syncs = three_segments(disk)
    log.trim(Offset(1))
    log.drop(Offset(4))
    assert (log.log_start, log.trimmed_to) == (4, 1)
    log.trim(Offset(3))
    assert (log.log_start, log.trimmed_to) == (4, 3), "given up, wherever it is kept"
    syncs.run_all()
    left = disk.after_power_cut(Random(1))
    log, _ = open_log(left)
    assert (log.log_start, log.trimmed_to) == (4, 3)
    log.trim(Offset(5))
    assert (log.log_start, log.trimmed_to) == (5, 5)


def test_without_its_checkpoint_a_log_takes_nothing_for_given_up() -> None:
    disk = SimDisk()
    log, syncs = three_segments(disk)
    log.trim(Offset(2))
    syncs.run_all()
    left = disk.after_power_cut(Random(1))
    left.unlink(f"{log.path}/partition.checkpoint")
    log, _ = open_log(left)
    assert (log.log_start, log.trimmed_to) == (2, 0)


def test_a_truncation_keeps_what_was_given_up_in_mind() -> None:
    log, syncs = three_segments()
    log.trim(Offset(1))
    log.drop(Offset(2))
    syncs.run_all()
    log.truncate(Offset(4))
    assert (log.log_start, log.log_end, log.trimmed_to) == (2, 4, 1)
