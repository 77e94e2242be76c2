"""What follows what is cold, and logs that may not speak for their partition."""

from dataclasses import replace

import pytest

from tests.cold.makers import a_head
from tests.hot.support import append_values, open_log
from tierlog.cold.choosing import backlog, check_agrees, check_goes_on, lineage_of, upcoming
from tierlog.cold.head import Head, Skip
from tierlog.cold.troubles import LogDiverged, LogGap
from tierlog.hot import Log
from tierlog.hot.epochs import EpochStart
from tierlog.sim.disk import SimDisk
from tierlog.types import LeaderEpoch, Offset


def epoch(number: int, start: int) -> EpochStart:
    return EpochStart(LeaderEpoch(number), Offset(start))


def a_log() -> Log:
    """[0, 2) and [2, 5) are sealed, [5, 6) is active; leader epoch 1 up to 3, then 2."""
    log, syncs = open_log(SimDisk())
    for offset in range(6):
        if offset in (2, 5):
            log.roll()
        append_values(log, b"x", leader_epoch=1 if offset < 3 else 2)
    syncs.run_all()
    return log


def head_at(end: int, *epochs: EpochStart, log_start: int = 0) -> Head:
    return replace(
        a_head(),
        log_start=Offset(log_start),
        next_offset=Offset(end),
        leader_epochs=epochs or (epoch(1, 0), epoch(2, 3)),
    )


@pytest.mark.parametrize(("end", "base", "last"), [(0, 0, 1), (2, 2, 4)])
def test_the_segment_at_the_end_of_what_is_cold_comes_next(end: int, base: int, last: int) -> None:
    found = upcoming(a_log(), Offset(end), deleted_to=Offset(0))
    assert found is not None
    assert (found.base, found.last, found.position, found.torn_from) == (base, last, 0, base)


def test_the_active_segment_is_not_next() -> None:
    assert upcoming(a_log(), Offset(5), deleted_to=Offset(0)) is None


def test_where_another_leader_rolled_elsewhere_the_rest_comes_next() -> None:
    log = a_log()
    found = upcoming(log, Offset(3), deleted_to=Offset(0))
    assert found is not None
    assert (found.base, found.last, found.torn_from) == (3, 4, 3)
    assert found.position == log.segments.place_of(Offset(3))[2] > 0


def test_an_end_inside_a_batch_is_a_fork() -> None:
    log, syncs = open_log(SimDisk())
    append_values(log, b"a", b"b", b"c")
    log.roll()
    syncs.run_all()
    with pytest.raises(LogDiverged, match="inside a batch"):
        upcoming(log, Offset(1), deleted_to=Offset(0))


def test_what_was_deleted_before_its_upload_is_passed_over() -> None:
    log = a_log()
    log.trim(Offset(2))
    found = upcoming(log, Offset(0), deleted_to=log.trimmed_to)
    assert found is not None
    assert (found.base, found.torn_from) == (2, 2)


def test_what_was_dropped_and_is_not_in_the_bucket_is_not_passed_over() -> None:
    log = a_log()
    log.drop(Offset(2))
    with pytest.raises(LogGap, match=r"\[1, 2\) are neither in the log nor in the manifest"):
        upcoming(log, Offset(1), deleted_to=log.trimmed_to)
    with pytest.raises(LogGap, match=r"\[0, 2\)"):
        check_goes_on(log, None)
    with pytest.raises(LogGap, match=r"\[1, 2\)"):
        check_goes_on(log, head_at(1))
    check_goes_on(log, head_at(2))


def test_a_log_that_nobody_shortened_may_begin_a_manifest() -> None:
    log = a_log()
    check_goes_on(log, None)
    log.trim(Offset(4))
    check_goes_on(log, None)
    check_goes_on(log, head_at(1))


def test_the_backlog_is_what_is_sealed_and_not_cold() -> None:
    log = a_log()
    sizes = [one.size for one in log.sealed()]
    assert backlog(log, Offset(0)) == (sum(sizes), 2)
    assert backlog(log, Offset(2)) == (sizes[1], 1)
    assert backlog(log, Offset(5)) == (0, 0)


def test_the_lineage_is_that_of_the_bucket_and_of_the_log() -> None:
    log = a_log()
    head = head_at(2, epoch(0, 0), epoch(1, 1))
    assert lineage_of(log, head, Offset(2)) == (epoch(0, 0), epoch(1, 1), epoch(2, 3))


def test_where_records_were_deleted_the_lineage_is_left_to_the_batches() -> None:
    log = a_log()
    log.trim(Offset(4))
    assert lineage_of(log, head_at(0, epoch(1, 0)), Offset(2)) == ()


@pytest.mark.parametrize("end", [0, 2, 4, 6])
def test_a_log_that_goes_on_by_the_same_leaders_agrees(end: int) -> None:
    check_agrees(a_log(), head_at(end))


def test_a_trimmed_log_agrees_by_what_is_left() -> None:
    log = a_log()
    log.trim(Offset(4))
    check_agrees(log, head_at(6, epoch(0, 0), epoch(1, 1), epoch(2, 3)))


def test_a_log_that_ends_too_early_disagrees() -> None:
    with pytest.raises(LogDiverged, match="it ends at 6, the bucket at 7"):
        check_agrees(a_log(), head_at(7))


def test_a_log_with_other_leaders_disagrees() -> None:
    with pytest.raises(LogDiverged, match="offset 3 was written by leader epoch 2 here, 1 in"):
        check_agrees(a_log(), head_at(5, epoch(1, 0), epoch(2, 4)))
    with pytest.raises(LogDiverged, match="leader epoch 1 here, 2 in"):
        check_agrees(a_log(), head_at(5, epoch(1, 0), epoch(2, 2)))


def test_who_led_in_what_was_passed_over_does_not_count() -> None:
    """Leader epoch 2 began at 3, in a torn write that was cut off; the bucket has it from 4 on."""
    head = head_at(5, epoch(1, 0), epoch(2, 4))
    passed = replace(head, skips=(Skip(Offset(2), Offset(4), 0),))
    check_agrees(a_log(), passed)
    with pytest.raises(LogDiverged, match="offset 3"):
        check_agrees(a_log(), head)
    forked = replace(passed, leader_epochs=(epoch(1, 0), epoch(3, 4)))
    with pytest.raises(LogDiverged, match="offset 4"):
        check_agrees(a_log(), forked)
