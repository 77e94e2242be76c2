"""Recovery: torn or damaged, what a restart may believe, what it writes down."""

import pytest
from crc32c import crc32c

from tests.hot.support import SMALL, append, append_values, batch, open_log, read_values
from tierlog.hot import Log, LogSettings
from tierlog.hot.errors import DamagedOffsets, NewerFormat
from tierlog.hot.names import DAMAGED, TORN
from tierlog.hot.recovery import judge
from tierlog.hot.smallfile import read_all, write_all
from tierlog.sim.disk import SimDisk
from tierlog.types import Offset

FIRST = "/data/p/00000000000000000000.log"


@pytest.mark.parametrize("at_end", [False, True])
@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("same_boot", [False, True])
@pytest.mark.parametrize(
    ("durable_end", "start"), [(None, 10), (11, 10), (10, 10), (9, 10), (0, 10)]
)
def test_torn_or_damaged(
    durable_end: int | None, start: int, same_boot: bool, whole: bool, at_end: bool
) -> None:
    """Torn: not on record as durable, and either the machine rebooted or it is the very end."""
    below_durable_end = durable_end is None or start < durable_end
    interrupted_write = at_end and not whole
    is_torn = not below_durable_end and (interrupted_write or not same_boot)
    assert judge(
        start=Offset(start),
        durable_end=None if durable_end is None else Offset(durable_end),
        same_boot=same_boot,
        at_end=at_end,
        whole=whole,
    ) == (TORN if is_torn else DAMAGED)


def three_batches(disk: SimDisk) -> Log:
    log, syncs = open_log(disk)
    for value in (b"a", b"b", b"c"):
        append_values(log, value * 100)
    syncs.run_all()
    return log


def sizes(log: Log) -> int:
    return log.segments.active.size // 3


def test_a_write_that_a_kill_interrupted_is_torn_and_its_offset_is_not_reused() -> None:
    disk = SimDisk()
    log = three_batches(disk)
    append_values(log, b"d" * 100)
    disk.kill()
    file = disk.open(FIRST, write=True)
    file.truncate(file.size() - 10)
    log, syncs = open_log(disk)
    assert [(gap.start, gap.end, gap.kind) for gap in log.gaps] == [(3, 4, TORN)]
    assert sorted(read_values(log)) == [0, 1, 2]
    assert append_values(log, b"e").base_offset == 4
    syncs.run_all()
    assert sorted(read_values(log)) == [0, 1, 2, 4]


def test_damage_in_the_middle_is_set_aside_told_and_does_not_spread() -> None:
    disk = SimDisk()
    log = three_batches(disk)
    one = sizes(log)
    disk.kill()
    before = read_all(disk, FIRST)
    disk.flip_bit(FIRST, one + 70, 3)
    damaged = read_all(disk, FIRST)[one : 2 * one]
    log, _ = open_log(disk)
    assert [(gap.start, gap.end, gap.kind) for gap in log.gaps] == [(1, 2, DAMAGED)]
    assert read_all(disk, f"/data/p/{1:020d}-{2:020d}.damaged") == damaged
    assert read_all(disk, f"/data/p/{2:020d}.log") == before[2 * one :]
    assert read_values(log, end=1) | read_values(log, 2) == {0: b"a" * 100, 2: b"c" * 100}
    with pytest.raises(DamagedOffsets) as fault:
        log.read(Offset(1), bytes_max=100)
    assert (fault.value.start, fault.value.end) == (1, 2)
    disk.kill()
    log, _ = open_log(disk)
    assert (log.gaps, log.segments.damage) == ([], [(1, 2)])


def test_a_newer_checkpoint_stops_the_start_and_changes_nothing() -> None:
    disk = SimDisk()
    three_batches(disk).close_now()
    disk.kill()
    text = b'{"version": 99}'
    write_all(disk, "/data/p/partition.checkpoint", b"%s\ncrc32c=%08x\n" % (text, crc32c(text)))
    before = disk.state_hash()
    with pytest.raises(NewerFormat):
        open_log(disk)
    assert disk.state_hash() == before


def test_leftovers_that_mean_nothing_are_removed() -> None:
    disk = SimDisk()
    three_batches(disk).close_now()
    disk.kill()
    for name in ("x.tmp", "00000000000000000000.log.deleted"):
        disk.open(f"/data/p/{name}", create=True).close()
    open_log(disk)
    assert not [name for name in disk.listdir("/data/p") if "tmp" in name or "deleted" in name]


def test_without_a_checkpoint_everything_is_read_and_nothing_is_lost() -> None:
    disk = SimDisk()
    log, syncs = open_log(disk)
    for number in range(60):
        append(
            log, batch(b"%02d" % number * 60, producer_id=1, producer_epoch=0, base_sequence=number)
        )
    syncs.run_all()
    log.close_now()
    expected, epochs = read_values_of(disk), log.epochs.entries
    for name in disk.listdir("/data/p"):
        if not name.endswith((".log", ".lock")):
            disk.unlink(f"/data/p/{name}")
    log, _ = open_log(disk)
    assert log.gaps == []
    assert read_values(log) == expected
    assert log.epochs.entries == epochs
    again = batch(b"x", producer_id=1, producer_epoch=0, base_sequence=57)
    assert append(log, again).is_duplicate


def read_values_of(disk: SimDisk) -> dict[int, bytes]:
    disk.kill()
    log, _ = open_log(disk)
    found = read_values(log)
    disk.kill()
    return found


def test_a_restart_scans_no_more_than_what_came_after_the_checkpoint() -> None:
    disk = SimDisk()
    settings = LogSettings(segment_bytes=1 << 20, checkpoint_bytes=10_000)
    log, syncs = open_log(disk, settings)
    for _ in range(300):
        append_values(log, b"v" * 400)
        syncs.run_all()
    disk.kill()
    log, _ = open_log(disk, settings)
    assert 0 <= log.scanned_bytes < 10_000 + 500


def test_indexes_of_scanned_segments_do_not_stay_in_memory() -> None:
    disk = SimDisk()
    log, syncs = open_log(disk)
    for _ in range(60):
        append_values(log, b"v" * 400)
    syncs.run_all()
    disk.kill()
    disk.unlink("/data/p/partition.checkpoint")
    log, _ = open_log(disk)
    assert len(log.segments) > 4
    assert [one._indexes is not None for one in log.segments] == [False] * (
        len(log.segments) - 1
    ) + [True]
    assert SMALL.index_interval_bytes < 400
