"""What a log offers to another tier: only what will never change again."""

from dataclasses import replace

import pytest

from tests.hot.support import SMALL, append, append_values, batch, open_log
from tierlog.hot import Log
from tierlog.hot.errors import LogClosed
from tierlog.hot.snapshot import decode_snapshot, encode_snapshot
from tierlog.hot.sync import ManualSyncs
from tierlog.sim.disk import SimDisk
from tierlog.types import Offset


def offsets(log: Log) -> list[tuple[int, int]]:
    return [(one.base_offset, one.next_offset) for one in log.sealed()]


def two_segments(disk: SimDisk) -> tuple[Log, ManualSyncs]:
    """Offsets [0, 2) sealed by two producers, [2, 3) active; all of it synced."""
    log, syncs = open_log(disk)
    for number in (0, 1):
        data = batch(b"x", producer_id=number, producer_epoch=0, base_sequence=0)
        append(log, data, now_ms=100 + number)
    log.roll()
    append(log, batch(b"y", producer_id=7, producer_epoch=0, base_sequence=0), now_ms=200)
    syncs.run_all()
    return log, syncs


def test_the_active_segment_is_not_sealed() -> None:
    log, syncs = open_log(SimDisk())
    append_values(log, b"x")
    syncs.run_all()
    assert log.sealed() == ()


def test_a_rolled_segment_is_not_sealed_before_its_sync() -> None:
    log, syncs = open_log(SimDisk())
    append_values(log, b"x")
    syncs.run_all()
    log.roll()
    assert (log.durable_end, log.sealed()) == (1, ())
    syncs.run_all()
    assert offsets(log) == [(0, 1)]


def test_what_the_page_cache_shows_is_not_sealed_before_it_is_durable() -> None:
    log, syncs = open_log(SimDisk(), replace(SMALL, flush_messages=1 << 40))
    append_values(log, b"x")
    log.roll()
    append_values(log, b"y")
    assert (log.visible_end, log.sealed()) == (2, ())
    syncs.run_all()
    assert offsets(log) == [(0, 1)]


def test_a_sealed_segment_says_where_it_is_and_when_it_was_written() -> None:
    log, _ = two_segments(SimDisk())
    (only,) = log.sealed()
    first = next(iter(log.segments))
    assert (only.base_offset, only.next_offset, only.size) == (0, 2, first.size)
    assert (only.first_append_ms, only.last_append_ms) == (100, 200)
    assert (only.path, only.max_timestamp) == (first.path, 1_700_000_000_000)
    assert log.active_since_ms == 200


def test_a_restart_seals_what_was_sealed() -> None:
    disk = SimDisk()
    two_segments(disk)
    disk.kill()
    log, _ = open_log(disk)
    assert offsets(log) == [(0, 2)]


def test_segments_that_hold_nothing_are_left_out() -> None:
    log, syncs = open_log(SimDisk())
    append_values(log, b"x")
    log.roll()
    syncs.run_all()
    assert offsets(log) == [(0, 1)], "the active one is empty"
    assert log.sealed()[0].last_append_ms == log.active_since_ms == -1


def test_a_closed_log_offers_nothing() -> None:
    log, _ = two_segments(SimDisk())
    log.close_now()
    with pytest.raises(LogClosed):
        log.sealed()


async def test_producers_at_a_segments_end_are_those_of_its_snapshot() -> None:
    disk = SimDisk()
    log, _ = two_segments(disk)
    data = await log.producers_at(Offset(2))
    known = decode_snapshot(data)
    assert known is not None
    assert [producer_id for producer_id, _ in known] == [0, 1]
    assert [one.last_seen_ms for _, one in known] == [100, 101]
    file = disk.open(f"{log.path}/{2:020d}.snapshot")
    assert data == file.pread(file.size(), 0)


async def test_producers_are_found_without_their_snapshot() -> None:
    disk = SimDisk()
    log, _ = two_segments(disk)
    whole = await log.producers_at(Offset(2))
    disk.unlink(f"{log.path}/{2:020d}.snapshot")
    known, before = decode_snapshot(await log.producers_at(Offset(2))), decode_snapshot(whole)
    assert known is not None
    assert before is not None
    assert [(one, state.batches) for one, state in known] == [
        (one, state.batches) for one, state in before
    ]


async def test_snapshots_of_segments_that_stay_survive_checkpoints_and_trims() -> None:
    disk = SimDisk()
    log, syncs = two_segments(disk)
    wanted = await log.producers_at(Offset(2))
    for _ in range(20):
        append_values(log, b"z" * 500)
        syncs.run_all()
    log.trim(Offset(2))
    syncs.run_all()
    syncs.run_all()
    assert log.segments.active.base_offset > 2
    assert f"{2:020d}.snapshot" in disk.listdir(log.path)
    assert await log.producers_at(Offset(2)) == wanted


async def test_a_snapshot_that_goes_while_it_is_read_is_done_without() -> None:
    disk = SimDisk()
    log, _ = two_segments(disk)
    listed = disk.listdir(log.path)
    disk.listdir = lambda path: [*listed, f"{1:020d}.snapshot"]  # type: ignore[method-assign]  # a stand-in
    known = decode_snapshot(await log.producers_at(Offset(1)))
    assert known is not None
    assert [producer_id for producer_id, _ in known] == [0]


def test_damage_is_named() -> None:
    disk = SimDisk()
    log, _ = open_log(disk)
    for _ in range(3):
        append_values(log, b"x" * 100)
    log.close_now()
    file = disk.open(f"{log.path}/{0:020d}.log", write=True)
    file.pwrite(b"!", file.size() // 2)
    disk.unlink(f"{log.path}/partition.checkpoint")
    disk.kill()
    log, _ = open_log(disk)
    assert log.damage_in(Offset(0), Offset(3)) == (1, 2)
    assert log.damage_in(Offset(0), Offset(1)) is None
    assert log.damage_in(Offset(2), Offset(3)) is None
    assert offsets(log) == [(0, 1)]


def test_an_empty_state_is_a_snapshot_too() -> None:
    assert decode_snapshot(encode_snapshot(())) is not None
