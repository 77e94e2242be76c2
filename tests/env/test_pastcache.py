"""Writes past the page cache leave the same bytes as any other."""

import errno
import os
from pathlib import Path

import pytest

from tierlog.env import pastcache
from tierlog.env.disk import LocalDisk
from tierlog.env.pastcache import BLOCK_BYTES, BUFFER_BYTES
from tierlog.types import Bytes

SIZES = [1, BLOCK_BYTES - 1, BLOCK_BYTES, 3 * BLOCK_BYTES + 17, BUFFER_BYTES + 2 * BLOCK_BYTES + 5]


def write(path: Path, data: Bytes, position: int = 0) -> int:
    file = LocalDisk().open(str(path), create=True)
    try:
        return file.pwrite_past_cache(data, position)
    finally:
        file.close()


@pytest.mark.parametrize("size", SIZES)
def test_all_bytes_are_written_whatever_their_number(tmp_path: Path, size: int) -> None:
    data = os.urandom(size)
    assert write(tmp_path / "file", memoryview(data)) == size
    assert (tmp_path / "file").read_bytes() == data


def test_a_place_between_blocks_is_written_as_usual(tmp_path: Path) -> None:
    data = os.urandom(2 * BLOCK_BYTES)
    assert write(tmp_path / "file", data, 100) == len(data)
    assert (tmp_path / "file").read_bytes() == bytes(100) + data


def test_the_file_takes_any_write_afterwards(tmp_path: Path) -> None:
    file = LocalDisk().open(str(tmp_path / "file"), create=True)
    assert file.pwrite_past_cache(bytes(BLOCK_BYTES), 0) == BLOCK_BYTES
    assert file.pwrite(b"odd", 7) == 3
    assert file.pread(3, 7) == b"odd"
    file.close()


def test_a_file_system_that_refuses_gets_it_as_usual(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Refusing:
        """`os` as such a file system has it."""

        calls = 0

        def __getattr__(self, name: str) -> object:
            return getattr(os, name)

        def pwrite(self, fd: int, data: memoryview, position: int) -> int:
            self.calls += 1
            if self.calls <= 2:  # As it lies, and from a buffer.
                raise OSError(errno.EINVAL, "not here")
            return os.pwrite(fd, data, position)

    refusing = Refusing()
    monkeypatch.setattr(pastcache, "os", refusing)
    data = os.urandom(2 * BLOCK_BYTES)
    assert write(tmp_path / "file", data) == len(data)
    assert refusing.calls == 3
    assert (tmp_path / "file").read_bytes() == data
