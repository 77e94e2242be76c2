"""What every disk promises while nothing goes wrong. Each adapter subclasses `DiskContract`."""

import errno
from collections.abc import Callable

import pytest

from tierlog.env import Disk


def number(code: int) -> str:
    """How an error's message names its number."""
    return rf"^\[Errno {code}\]"


class DiskContract:
    """Fixtures of the subclass: `disk`, and `at`, which turns a name into a path on that disk.

    `at("")` is an existing, empty directory.
    """

    def test_pread_stops_at_the_end_of_the_file(self, disk: Disk, at: Callable[[str], str]) -> None:
        file = disk.open(at("f"), create=True)
        assert file.pwrite(b"abcdef", 0) == 6
        assert file.pread(10, 4) == b"ef"
        assert file.pread(10, 6) == b""
        assert file.pread(10, 600) == b""
        buffer = bytearray(4)
        assert file.pread_into(buffer, 3) == 3
        assert buffer == b"def\0"
        assert file.pread_into(memoryview(buffer)[:1], 0) == 1
        assert buffer == b"aef\0"
        file.close()

    def test_a_view_shows_what_is_there_and_what_comes(
        self, disk: Disk, at: Callable[[str], str]
    ) -> None:
        file = disk.open(at("f"), create=True)
        file.pwrite(b"abcdef", 0)
        assert bytes(file.view(3, 2)) == b"cde"
        assert file.is_cached(3, 2)
        file.pwrite(b"x" * 10_000, 6)
        assert bytes(file.view(10_004, 2)) == b"cdef" + b"x" * 10_000
        assert file.is_cached(10_004, 2)
        assert bytes(file.view(0, 4)) == b""
        file.close()

    def test_a_view_outlives_handle_and_name(self, disk: Disk, at: Callable[[str], str]) -> None:
        file = disk.open(at("f"), create=True)
        file.pwrite(b"abcdef", 0)
        view = file.view(6, 0)
        file.close()
        disk.unlink(at("f"))
        assert bytes(view) == b"abcdef"

    def test_writing_beyond_the_end_leaves_zeros(
        self, disk: Disk, at: Callable[[str], str]
    ) -> None:
        file = disk.open(at("f"), create=True)
        file.pwrite(memoryview(b"abc"), 5)
        file.pwrite(bytearray(b"x"), 1)
        file.pwrite(b"", 99)
        assert file.pread(99, 0) == b"\0x\0\0\0abc"
        file.truncate(10)
        assert (file.size(), file.pread(9, 6)) == (10, b"bc\0\0")
        file.truncate(6)
        file.truncate(8)
        assert file.pread(9, 4) == b"\0a\0\0"
        file.close()

    def test_fallocate_keeps_the_size(self, disk: Disk, at: Callable[[str], str]) -> None:
        file = disk.open(at("f"), create=True)
        file.pwrite(b"abc", 0)
        file.fallocate(1 << 20)
        assert file.size() == disk.size(at("f")) == 3
        file.truncate(1)
        file.fdatasync()
        assert file.size() == disk.size(at("f")) == 1
        file.close()

    def test_a_missing_file_is_not_made_by_opening(
        self, disk: Disk, at: Callable[[str], str]
    ) -> None:
        for call in (disk.open, disk.size, disk.unlink, disk.listdir, disk.rmdir, disk.sync_dir):
            with pytest.raises(FileNotFoundError):
                call(at("f"))
        with pytest.raises(FileNotFoundError):
            disk.open(at("f"), write=True)
        with pytest.raises(FileNotFoundError):
            disk.open(at("nowhere/f"), create=True)
        with pytest.raises(FileNotFoundError):
            disk.rename(at("f"), at("g"))
        assert not disk.exists(at("f"))

    def test_a_file_opened_for_reading_refuses_writes(
        self, disk: Disk, at: Callable[[str], str]
    ) -> None:
        disk.open(at("f"), create=True).close()
        file = disk.open(at("f"))
        with pytest.raises(OSError, match=number(errno.EBADF)):
            file.pwrite(b"x", 0)
        file.close()

    def test_a_closed_file_refuses_everything_but_closing(
        self, disk: Disk, at: Callable[[str], str]
    ) -> None:
        file = disk.open(at("f"), create=True)
        file.close()
        file.close()
        for call in (
            lambda: file.pread(1, 0),
            lambda: file.pread_into(bytearray(1), 0),
            lambda: file.view(1, 0),
            lambda: file.pwrite(b"x", 0),
            file.fdatasync,
            file.size,
            lambda: file.truncate(0),
            lambda: file.fallocate(1),
        ):
            with pytest.raises(OSError, match=number(errno.EBADF)):
                call()

    def test_two_handles_see_one_file(self, disk: Disk, at: Callable[[str], str]) -> None:
        one = disk.open(at("f"), create=True)
        other = disk.open(at("f"))
        one.pwrite(b"abc", 0)
        assert other.pread(3, 0) == b"abc"
        one.close()
        assert other.pread(3, 0) == b"abc"
        other.close()

    def test_an_open_file_outlives_its_name(self, disk: Disk, at: Callable[[str], str]) -> None:
        file = disk.open(at("f"), create=True)
        file.pwrite(b"abc", 0)
        disk.unlink(at("f"))
        disk.open(at("f"), create=True).close()
        assert file.pread(3, 0) == b"abc"
        assert disk.size(at("f")) == 0
        file.close()

    def test_rename_replaces_and_keeps_handles(self, disk: Disk, at: Callable[[str], str]) -> None:
        file = disk.open(at("new"), create=True)
        file.pwrite(b"new", 0)
        disk.open(at("old"), create=True).close()
        disk.rename(at("new"), at("old"))
        disk.rename(at("old"), at("old"))
        disk.sync_dir(at(""))
        assert disk.listdir(at("")) == ["old"]
        file.pwrite(b"N", 0)
        file.close()
        again = disk.open(at("old"))
        assert again.pread(9, 0) == b"New"
        again.close()

    def test_rename_moves_between_directories(self, disk: Disk, at: Callable[[str], str]) -> None:
        disk.mkdir(at("a"))
        disk.mkdir(at("b"))
        disk.open(at("a/f"), create=True).close()
        disk.rename(at("a/f"), at("b/g"))
        disk.rename(at("a"), at("b/a"))
        assert (disk.listdir(at("")), disk.listdir(at("b"))) == (["b"], ["a", "g"])
        with pytest.raises(OSError, match=number(errno.EINVAL)):
            disk.rename(at("b"), at("b/a/b"))

    def test_rename_does_not_mix_files_and_directories(
        self, disk: Disk, at: Callable[[str], str]
    ) -> None:
        disk.mkdir(at("d/full"))
        disk.mkdir(at("e"))
        disk.open(at("f"), create=True).close()
        with pytest.raises(IsADirectoryError):
            disk.rename(at("f"), at("d"))
        with pytest.raises(NotADirectoryError):
            disk.rename(at("d"), at("f"))
        with pytest.raises(OSError, match=number(errno.ENOTEMPTY)):
            disk.rename(at("e"), at("d"))
        disk.rename(at("d"), at("e"))
        assert disk.listdir(at("e")) == ["full"]

    def test_a_new_name_is_given_only_where_nothing_stands(
        self, disk: Disk, at: Callable[[str], str]
    ) -> None:
        file = disk.open(at("f"), create=True)
        file.pwrite(b"new", 0)
        file.close()
        disk.mkdir(at("d"))
        disk.open(at("d/taken"), create=True).close()
        for target in ("d/taken", "d", "f"):
            with pytest.raises(FileExistsError):
                disk.rename_new(at("f"), at(target))
        with pytest.raises(FileNotFoundError):
            disk.rename_new(at("absent"), at("d/g"))
        with pytest.raises(FileNotFoundError):
            disk.rename_new(at("f"), at("absent/g"))
        with pytest.raises(PermissionError):
            disk.rename_new(at("d"), at("e"))
        disk.rename_new(at("f"), at("d/g"))
        assert (disk.listdir(at("")), disk.listdir(at("d"))) == (["d"], ["g", "taken"])
        assert (disk.size(at("d/g")), disk.size(at("d/taken"))) == (3, 0)

    def test_a_file_keeps_its_identity_under_every_name(
        self, disk: Disk, at: Callable[[str], str]
    ) -> None:
        one = disk.open(at("a"), create=True)
        other = disk.open(at("b"), create=True)
        assert one.identity() != other.identity()
        disk.rename(at("a"), at("b"))
        again = disk.open(at("b"))
        assert one.identity() == again.identity() != other.identity()
        for file in (one, other, again):
            file.close()
        with pytest.raises(OSError, match=number(errno.EBADF)):
            one.identity()

    def test_a_scan_tells_directories_from_files(
        self, disk: Disk, at: Callable[[str], str]
    ) -> None:
        for name in ("b", "c"):
            disk.open(at(name), create=True).close()
        disk.mkdir(at("a"))
        assert disk.scan(at("")) == [("a", True), ("b", False), ("c", False)]
        assert disk.scan(at("a")) == []
        with pytest.raises(FileNotFoundError):
            disk.scan(at("absent"))
        with pytest.raises(NotADirectoryError):
            disk.scan(at("b"))

    def test_listdir_is_sorted(self, disk: Disk, at: Callable[[str], str]) -> None:
        for name in ("b", "a", "c", "B", "00"):
            disk.open(at(name), create=True).close()
        assert disk.listdir(at("")) == ["00", "B", "a", "b", "c"]

    def test_mkdir_makes_parents_and_accepts_what_is_there(
        self, disk: Disk, at: Callable[[str], str]
    ) -> None:
        disk.mkdir(at("a/b/c"))
        disk.mkdir(at("a/b"))
        assert disk.exists(at("a/b/c"))
        disk.open(at("a/f"), create=True).close()
        with pytest.raises(FileExistsError):
            disk.mkdir(at("a/f"))
        with pytest.raises(NotADirectoryError):
            disk.mkdir(at("a/f/g"))
        assert not disk.exists(at("a/f/g"))

    def test_rmdir_takes_only_empty_directories(self, disk: Disk, at: Callable[[str], str]) -> None:
        disk.mkdir(at("a/b"))
        with pytest.raises(OSError, match=number(errno.ENOTEMPTY)):
            disk.rmdir(at("a"))
        disk.rmdir(at("a/b"))
        disk.rmdir(at("a"))
        assert disk.listdir(at("")) == []

    def test_files_and_directories_are_told_apart(
        self, disk: Disk, at: Callable[[str], str]
    ) -> None:
        disk.mkdir(at("d"))
        disk.open(at("f"), create=True).close()
        with pytest.raises(IsADirectoryError):
            disk.open(at("d"), write=True)
        with pytest.raises(IsADirectoryError):
            disk.unlink(at("d"))
        for call in (disk.listdir, disk.rmdir, disk.sync_dir):
            with pytest.raises(NotADirectoryError):
                call(at("f"))

    def test_a_lock_is_held_once(self, disk: Disk, at: Callable[[str], str]) -> None:
        lock = disk.lock(at("lock"))
        with pytest.raises(BlockingIOError) as refused:
            disk.lock(at("lock"))
        assert refused.value.errno == errno.EAGAIN
        disk.lock(at("other")).release()
        lock.release()
        lock.release()
        again = disk.lock(at("lock"))
        lock.release()
        with pytest.raises(BlockingIOError):
            disk.lock(at("lock"))
        again.release()

    def test_free_bytes_and_boot_id_are_told(self, disk: Disk, at: Callable[[str], str]) -> None:
        assert disk.free_bytes(at("")) > 0
        assert disk.boot_id() == disk.boot_id()
        assert len(disk.boot_id()) == 36
