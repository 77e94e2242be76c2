"""The disk adapter of this machine, against the promises of the port."""

import errno
from pathlib import Path

import pytest

from tierlog.env import LocalDisk


def test_pread_stops_at_the_end_of_the_file(tmp_path: Path) -> None:
    file = LocalDisk().open(str(tmp_path / "f"), create=True)
    assert file.pwrite(b"abcdef", 0) == 6
    assert file.pread(10, 4) == b"ef"
    assert file.pread(10, 6) == b""
    buffer = bytearray(4)
    assert file.pread_into(buffer, 3) == 3
    assert buffer == b"def\0"
    file.close()


def test_fallocate_keeps_the_size(tmp_path: Path) -> None:
    file = LocalDisk().open(str(tmp_path / "f"), create=True)
    file.pwrite(b"abc", 0)
    file.fallocate(1 << 20)
    assert file.size() == 3
    file.truncate(1)
    file.fdatasync()
    assert file.size() == 1
    file.close()


def test_a_missing_file_is_not_made_by_reading(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        LocalDisk().open(str(tmp_path / "f"))
    with pytest.raises(FileNotFoundError):
        LocalDisk().open(str(tmp_path / "f"), write=True)


def test_listdir_is_sorted_and_rename_replaces(tmp_path: Path) -> None:
    disk = LocalDisk()
    for name in ("b", "a", "c"):
        disk.open(str(tmp_path / name), create=True).close()
    disk.rename(str(tmp_path / "c"), str(tmp_path / "a"))
    disk.sync_dir(str(tmp_path))
    assert disk.listdir(str(tmp_path)) == ["a", "b"]


def test_a_lock_is_held_once(tmp_path: Path) -> None:
    disk = LocalDisk()
    lock = disk.lock(str(tmp_path / "lock"))
    with pytest.raises(BlockingIOError) as refused:
        disk.lock(str(tmp_path / "lock"))
    assert refused.value.errno == errno.EAGAIN
    lock.release()
    disk.lock(str(tmp_path / "lock")).release()


def test_free_bytes_and_boot_id_are_told(tmp_path: Path) -> None:
    assert LocalDisk().free_bytes(str(tmp_path)) > 0
    assert LocalDisk().boot_id() == LocalDisk().boot_id()
