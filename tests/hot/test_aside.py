"""What recovery set aside goes when its offsets leave the log."""

from pathlib import PurePosixPath

import pytest

from tests.hot.support import append_values, open_log, read_values
from tierlog.hot import Log
from tierlog.hot.aside import aside_range, drop_asides
from tierlog.hot.errors import DamagedOffsets
from tierlog.hot.sync import ManualSyncs
from tierlog.sim.disk import SimDisk
from tierlog.types import Offset

FIRST = "/data/p/00000000000000000000.log"


def asides(disk: SimDisk) -> list[str]:
    names = disk.listdir("/data/p")
    return [name for name in names if PurePosixPath(name).suffix in (".damaged", ".torn")]


def damaged_in_the_middle(disk: SimDisk) -> tuple[Log, ManualSyncs]:
    """Records 0 and 2 are sound, 1 is damaged."""
    log, syncs = open_log(disk)
    append_values(log, b"a" * 100)
    begin = disk.size(FIRST)
    append_values(log, b"b" * 100)
    end = disk.size(FIRST)
    append_values(log, b"c" * 100)
    syncs.run_all()
    disk.kill()
    disk.flip_bit(FIRST, (begin + end) // 2, 0)
    disk.unlink("/data/p/partition.checkpoint")
    log, syncs = open_log(disk)
    assert log.segments.damage == [(1, 2)]
    assert len(asides(disk)) == 1
    return log, syncs


def test_names_of_both_kinds_are_known() -> None:
    name = "00000000000000000001-00000000000000000005"
    assert aside_range(f"{name}.torn") == aside_range(f"{name}.damaged") == (1, 5)
    assert aside_range("00000000000000000001.log") is None


def test_only_unwanted_ones_go() -> None:
    disk = SimDisk()
    disk.mkdir("/data/p")
    for name in ("1-2.torn", "2-5.damaged", "5-6.torn", "7.log"):
        disk.open(f"/data/p/{name}", create=True).close()
    drop_asides(disk, "/data/p", lambda _, end: end <= 5)
    assert disk.listdir("/data/p") == ["5-6.torn", "7.log"]


def test_a_trim_past_damage_forgets_it() -> None:
    disk = SimDisk()
    log, syncs = damaged_in_the_middle(disk)
    log.trim(Offset(1))
    syncs.run_all()
    assert len(asides(disk)) == 1
    with pytest.raises(DamagedOffsets):
        log.read(Offset(1), bytes_max=10)
    log.trim(Offset(2))
    assert log.segments.damage == []
    syncs.run_all()
    assert asides(disk) == []
    disk.kill()
    log, _ = open_log(disk)
    assert (log.gaps, log.segments.damage) == ([], [])
    assert read_values(log) == {2: b"c" * 100}


def test_a_truncation_before_damage_forgets_it() -> None:
    disk = SimDisk()
    log, syncs = damaged_in_the_middle(disk)
    log.truncate(Offset(1))
    assert log.segments.damage == []
    assert asides(disk) == []
    append_values(log, b"B")
    syncs.run_all()
    disk.kill()
    log, _ = open_log(disk)
    assert read_values(log) == {0: b"a" * 100, 1: b"B"}


def test_a_truncation_behind_damage_keeps_it() -> None:
    disk = SimDisk()
    log, _ = damaged_in_the_middle(disk)
    log.truncate(Offset(2))
    assert log.segments.damage == [(1, 2)]
    assert len(asides(disk)) == 1
