"""The simulated disk keeps the contract of the port and misbehaves only as it is told to."""

import errno
from collections.abc import Callable
from random import Random

import pytest

from tests.env.disk_contract import DiskContract, number
from tierlog.env import Disk
from tierlog.sim import DataFate, NameFate, PowerCut, SimDisk


class TestSimDisk(DiskContract):
    @pytest.fixture
    def disk(self) -> Disk:
        disk = SimDisk()
        disk.mkdir("/data")
        return disk

    @pytest.fixture
    def at(self) -> Callable[[str], str]:
        return lambda name: f"/data/{name}"


@pytest.fixture
def disk() -> SimDisk:
    """A disk with a durable, empty directory."""
    disk = SimDisk()
    disk.mkdir("/d")
    disk.sync_dir("/")
    return disk


def write(disk: SimDisk, path: str, data: bytes, position: int = 0, *, sync: bool = False) -> None:
    file = disk.open(path, create=True)
    assert file.pwrite(data, position) == len(data)
    if sync:
        file.fdatasync()
    file.close()


def read(disk: SimDisk, path: str) -> bytes:
    file = disk.open(path)
    data = file.pread(1 << 30, 0)
    file.close()
    return data


# Durability of names


def test_a_synced_file_is_lost_with_its_unsynced_name(disk: SimDisk) -> None:
    write(disk, "/d/f", b"abc", sync=True)
    disk.power_cut(Random(1), names=NameFate.LOST)
    assert not disk.exists("/d/f")


def test_a_synced_name_does_not_save_unsynced_bytes(disk: SimDisk) -> None:
    write(disk, "/d/f", b"abc")
    disk.sync_dir("/d")
    disk.power_cut(Random(1), data=DataFate.LOST)
    assert read(disk, "/d/f") == b""


def test_syncing_a_directory_does_not_save_its_own_name() -> None:
    disk = SimDisk()
    disk.mkdir("/a/b")
    disk.sync_dir("/a/b")
    disk.sync_dir("/a")
    disk.power_cut(Random(1), names=NameFate.LOST)
    assert not disk.exists("/a")


def test_an_unsynced_rename_may_be_lost_and_is_never_halved(disk: SimDisk) -> None:
    write(disk, "/d/old", b"old", sync=True)
    write(disk, "/d/new", b"new", sync=True)
    disk.sync_dir("/d")
    disk.rename("/d/new", "/d/old")
    seen = set()
    for seed in range(40):
        after = disk.after_power_cut(Random(seed))
        seen.add(tuple((name, read(after, f"/d/{name}")) for name in after.listdir("/d")))
    assert seen == {(("old", b"new"),), (("new", b"new"), ("old", b"old"))}


def test_a_synced_rename_does_not_save_the_bytes_of_the_new_file(disk: SimDisk) -> None:
    write(disk, "/d/f", b"old", sync=True)
    disk.sync_dir("/d")
    write(disk, "/d/f.new", b"new")
    disk.rename("/d/f.new", "/d/f")
    disk.sync_dir("/d")
    disk.power_cut(Random(1), data=DataFate.LOST)
    assert (disk.listdir("/d"), read(disk, "/d/f")) == (["f"], b"")


def test_an_unsynced_unlink_may_come_back(disk: SimDisk) -> None:
    write(disk, "/d/f", b"abc", sync=True)
    disk.sync_dir("/d")
    disk.unlink("/d/f")
    seen = {disk.after_power_cut(Random(seed)).exists("/d/f") for seed in range(20)}
    assert seen == {True, False}
    disk.sync_dir("/d")
    assert not any(disk.after_power_cut(Random(seed)).exists("/d/f") for seed in range(20))


def test_a_rename_between_directories_is_all_or_nothing(disk: SimDisk) -> None:
    disk.mkdir("/e")
    disk.sync_dir("/")
    write(disk, "/d/f", b"abc", sync=True)
    disk.rename("/d/f", "/e/f")
    disk.rename("/e/f", "/e/g")
    for seed in range(60):
        after = disk.after_power_cut(Random(seed))
        assert len(after.listdir("/d") + after.listdir("/e")) <= 1
    disk.sync_dir("/e")
    for seed in range(60):
        after = disk.after_power_cut(Random(seed))
        assert (after.listdir("/d"), after.listdir("/e")) == ([], ["g"])


# The life of processes


def test_a_killed_process_loses_handles_and_locks_but_no_bytes(disk: SimDisk) -> None:
    file = disk.open("/d/f", create=True)
    file.pwrite(b"abc", 0)
    lock = disk.lock("/d/lock")
    boot = disk.boot_id()
    disk.kill()
    with pytest.raises(OSError, match=number(errno.ESTALE)):
        file.pread(1, 0)
    file.close()
    again = disk.lock("/d/lock")
    lock.release()
    with pytest.raises(BlockingIOError):
        disk.lock("/d/lock")
    again.release()
    assert read(disk, "/d/f") == b"abc"
    assert disk.boot_id() == boot
    disk.power_cut(Random(1))
    assert disk.boot_id() != boot


def test_a_machine_that_died_in_a_call_changes_no_more(disk: SimDisk) -> None:
    def die_at_the_third(op: str) -> None:
        if disk.op_count == start + 2:
            raise PowerCut(op)

    start = disk.op_count
    disk.on_op = die_at_the_third
    file = disk.open("/d/f", create=True)
    file.pwrite(b"a", 0)
    with pytest.raises(PowerCut, match=r"^pwrite /d/f 1\+1$"):
        file.pwrite(b"b", 1)
    with pytest.raises(PowerCut):
        file.fdatasync()
    with pytest.raises(PowerCut):
        disk.unlink("/d/f")
    file.close()
    disk.on_op = None
    disk.kill()
    assert read(disk, "/d/f") == b"a"


def test_a_snapshot_is_independent_and_keeps_what_is_pending(disk: SimDisk) -> None:
    write(disk, "/d/f", b"abc", sync=True)
    disk.sync_dir("/d")
    write(disk, "/d/f", b"X", 1)
    write(disk, "/d/g", b"y")
    twin = disk.snapshot()
    assert twin.pending() == disk.pending() == ["create g", "write /d/f 1+1", "write /d/g 0+1"]
    assert twin.state_hash() == disk.state_hash()
    write(disk, "/d/f", b"Z", 2)
    write(twin, "/d/f", b"W", 0)
    disk.unlink("/d/g")
    assert (read(disk, "/d/f"), read(twin, "/d/f")) == (b"aXZ", b"WXc")
    twin.power_cut(Random(1), data=DataFate.LOST, names=NameFate.LOST)
    assert (read(twin, "/d/f"), twin.listdir("/d")) == (b"abc", ["f"])
    assert twin.state_hash() != disk.state_hash()


def test_states_drawn_from_one_disk_are_independent(disk: SimDisk) -> None:
    write(disk, "/d/f", b"abc", sync=True)
    disk.sync_dir("/d")
    one, other = disk.after_power_cut(Random(1)), disk.after_power_cut(Random(2))
    write(one, "/d/f", b"1", sync=True)
    write(disk, "/d/f", b"2")
    other.flip_bit("/d/f", 0, 1)
    one.power_cut(Random(1))
    assert [read(each, "/d/f") for each in (disk, one, other)] == [b"2bc", b"1bc", b"cbc"]
    disk.power_cut(Random(1), data=DataFate.LOST)
    assert read(disk, "/d/f") == b"abc"


# Faults


def test_a_failed_fsync_drops_the_data_but_shows_it_still(disk: SimDisk) -> None:
    write(disk, "/d/f", b"old!", sync=True)
    disk.sync_dir("/d")
    file = disk.open("/d/f", write=True)
    file.pwrite(b"new", 0)
    file.pwrite(b"more", 4)
    disk.fail_fsync("/d/f")
    with pytest.raises(OSError, match=number(errno.EIO)):
        file.fdatasync()
    file.fdatasync()
    assert file.pread(9, 0) == b"new!more"
    disk.power_cut(Random(1), data=DataFate.KEPT)
    assert read(disk, "/d/f") == b"old!\0\0\0\0"


def test_dropped_data_disappears_when_its_pages_leave_memory(disk: SimDisk) -> None:
    write(disk, "/d/f", b"abc")
    disk.fail_fsync()
    with pytest.raises(OSError, match=number(errno.EIO)):
        write(disk, "/d/f", b"def", sync=True)
    write(disk, "/d/f", b"!", 0)
    assert read(disk, "/d/f") == b"!ef"
    disk.drop_caches()
    assert read(disk, "/d/f") == b"!"


def test_a_failed_fsync_may_have_written_a_part(disk: SimDisk) -> None:
    seen = set()
    for seed in range(30):
        twin = disk.snapshot()
        twin.fail_fsync(rng=Random(seed))
        with pytest.raises(OSError, match=number(errno.EIO)):
            write(twin, "/d/f", b"a" * 1024, sync=True)
        twin.power_cut(Random(1), names=NameFate.KEPT)
        seen.add(read(twin, "/d/f").count(b"a"))
    assert seen == {0, 512, 1024}


def test_a_failed_directory_sync_leaves_the_names_pending(disk: SimDisk) -> None:
    write(disk, "/d/f", b"")
    disk.fail_sync_dir("/d")
    with pytest.raises(OSError, match=number(errno.EIO)):
        disk.sync_dir("/d")
    assert not disk.after_power_cut(Random(1), names=NameFate.LOST).exists("/d/f")
    disk.sync_dir("/d")
    assert disk.after_power_cut(Random(1), names=NameFate.LOST).exists("/d/f")


def test_a_full_disk_writes_short_and_then_refuses(disk: SimDisk) -> None:
    disk.capacity = 3 * 4096
    file = disk.open("/d/f", create=True)
    file.fallocate(4096)
    assert disk.free_bytes("/d") == 2 * 4096
    other = disk.open("/d/g", create=True)
    assert other.pwrite(bytes(3 * 4096), 0) == 2 * 4096
    assert disk.free_bytes("/d") == 0
    with pytest.raises(OSError, match=number(errno.ENOSPC)):
        other.pwrite(b"x", 2 * 4096)
    with pytest.raises(OSError, match=number(errno.ENOSPC)):
        file.fallocate(4097)
    assert file.pwrite(bytes(4096), 0) == 4096
    disk.unlink("/d/g")
    assert disk.free_bytes("/d") == 0
    other.close()
    assert disk.free_bytes("/d") == 2 * 4096
    file.truncate(0)
    assert disk.free_bytes("/d") == 3 * 4096


def test_reads_of_a_bad_range_fail_until_healed(disk: SimDisk) -> None:
    write(disk, "/d/f", b"abcdef")
    disk.fail_reads("/d/f", start=2, end=4)
    file = disk.open("/d/f")
    assert (file.pread(2, 0), file.pread(2, 4)) == (b"ab", b"ef")
    with pytest.raises(OSError, match=number(errno.EIO)):
        file.pread(3, 0)
    with pytest.raises(OSError, match=number(errno.EIO)):
        file.pread_into(bytearray(9), 3)
    disk.heal_reads("/d/f")
    assert file.pread(6, 0) == b"abcdef"


def test_rot_changes_what_is_seen_and_what_is_durable(disk: SimDisk) -> None:
    write(disk, "/d/f", b"abc", sync=True)
    disk.sync_dir("/d")
    disk.flip_bit("/d/f", 1, 0)
    disk.corrupt("/d/f", 2, b"X")
    assert read(disk, "/d/f") == b"acX"
    disk.power_cut(Random(1))
    assert read(disk, "/d/f") == b"acX"
