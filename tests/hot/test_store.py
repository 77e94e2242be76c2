"""The `.log` file of a segment: whole appends, reserved space, short writes."""

import errno
from typing import Any

import pytest

from tierlog.env import File
from tierlog.hot.errors import DiskFull
from tierlog.hot.store import RESERVE_STEP_MAX, RESERVE_STEP_MIN, Store
from tierlog.sim.disk import SimDisk
from tierlog.types import Bytes, Position

MIB = 1 << 20


class Claims:
    """Remembers what was asked for; refuses beyond `free`."""

    def __init__(self, free: int = 1 << 40) -> None:
        self.free = free
        self.asked: list[int] = []

    def claim(self, size: int) -> None:
        self.asked.append(size)
        if size > self.free:
            raise DiskFull("full")


class OnePool:
    """Has one file, and knows whether it is pinned."""

    def __init__(self, file: Any) -> None:
        self.file = file
        self.is_pinned = False

    def pin(self, path: str, *, create: bool = False) -> File:
        self.is_pinned = True
        return self.file  # type: ignore[no-any-return]  # a fake file

    def unpin(self, path: str) -> None:
        self.is_pinned = False


class Moody:
    """A file that takes a few bytes at a time, then fails as told."""

    def __init__(self, file: File, *, step: int, fault: int | None = None, after: int = 0) -> None:
        self._file = file
        self._step = step
        self._fault = fault
        self._after = after
        self.reserved: list[int] = []

    def pwrite(self, data: Bytes, position: int) -> int:
        if self._fault is not None:
            if self._after == 0:
                raise OSError(self._fault, "as told")
            self._after -= 1
        return self._file.pwrite(memoryview(data)[: self._step], position)

    def fallocate(self, size: int) -> None:
        self.reserved.append(size)
        self._file.fallocate(size)

    def __getattr__(self, name: str) -> object:
        return getattr(self._file, name)


def moody(step: int, fault: int | None = None, after: int = 0) -> Moody:
    return Moody(SimDisk().open("/log", create=True), step=step, fault=fault, after=after)


def store_on(file: object, *, size_max: int = 128 * MIB, claims: Claims | None = None) -> Store:
    space = claims or Claims()
    return Store(OnePool(file), "/log", size=Position(0), size_max=size_max, space=space)


def test_short_writes_are_finished() -> None:
    file = moody(step=7)
    store = store_on(file)
    assert store.append(b"0123456789" * 3, 30) == 0
    assert store.append(b"abc", 3) == 30
    assert file._file.pread(100, 0) == b"0123456789" * 3 + b"abc"
    assert store.size == 33


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_disk_that_fills_up_in_the_middle_leaves_no_trace(code: int) -> None:
    file = moody(step=7, fault=code, after=2)
    store = store_on(file)
    with pytest.raises(DiskFull):
        store.append(b"x" * 30, 30)
    assert (store.size, file.size()) == (0, 0)  # type: ignore[operator]  # a fake file
    file._fault = None
    assert store.append(b"y" * 10, 10) == 0
    assert file._file.pread(100, 0) == b"y" * 10


def test_other_faults_stay_what_they_are() -> None:
    store = store_on(moody(step=7, fault=errno.EIO, after=1))
    with pytest.raises(OSError, match="as told") as fault:
        store.append(b"x" * 30, 30)
    assert fault.value.errno == errno.EIO
    assert store.size == 0


def test_space_is_reserved_in_growing_steps_up_to_the_segments_size() -> None:
    file = moody(step=1 << 40)
    store = store_on(file)
    piece = bytes(MIB // 2)
    while store.size < 128 * MIB:
        store.append(piece, len(piece))
    steps = [
        later - earlier for earlier, later in zip([0, *file.reserved], file.reserved, strict=False)
    ]
    assert file.reserved[-1] == 128 * MIB
    assert RESERVE_STEP_MIN <= steps[0] <= 2 * RESERVE_STEP_MIN
    assert max(steps) <= RESERVE_STEP_MAX + len(piece)
    assert steps[:4] == sorted(steps[:4])
    assert len(steps) < 15


def test_a_batch_larger_than_a_segment_reserves_what_it_needs() -> None:
    file = moody(step=1 << 40)
    store_on(file, size_max=1000).append(bytes(5000), 5000)
    assert file.reserved == [5000]


def test_a_refused_claim_writes_nothing_and_is_asked_again() -> None:
    claims = Claims(free=10)
    file = moody(step=100)
    store = store_on(file, claims=claims)
    for _ in range(2):
        with pytest.raises(DiskFull):
            store.append(b"x" * 30, 30)
    assert claims.asked[1::2] == [30, 30]
    assert file.reserved == []
    claims.free = 1 << 40
    assert store.append(b"x" * 30, 30) == 0


def test_a_batch_that_fits_is_taken_when_a_whole_step_does_not() -> None:
    claims = Claims(free=100)
    file = moody(step=100)
    store = store_on(file, claims=claims)
    assert store.append(b"x" * 30, 30) == 0
    assert store.append(b"y" * 30, 30) == 30
    assert file.reserved == [30, 60]
    claims.free = 20
    with pytest.raises(DiskFull):
        store.append(b"z" * 30, 30)
    assert store.size == 60


def test_a_disk_that_can_reserve_no_whole_step_reserves_the_batch() -> None:
    disk = SimDisk(capacity=8192)
    store = store_on(disk.open("/log", create=True))
    assert store.append(b"x" * 30, 30) == 0


def test_a_disk_that_cannot_reserve_is_full_before_anything_is_written() -> None:
    disk = SimDisk(capacity=20)
    store = store_on(disk.open("/log", create=True))
    with pytest.raises(DiskFull):
        store.append(b"x" * 30, 30)
    assert disk.size("/log") == 0
