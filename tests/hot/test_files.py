"""The pool of open files: bounded, and what is pinned stays."""

from collections.abc import Callable
from typing import Any

import pytest

from tierlog.env import File
from tierlog.hot.files import FilePool
from tierlog.sim.disk import SimDisk

Made = tuple[FilePool, Callable[[File], bool]]


@pytest.fixture
def disk() -> SimDisk:
    disk = SimDisk()
    for number in range(10):
        disk.open(f"/{number}", create=True).close()
    return disk


def is_open(file: File) -> bool:
    try:
        file.size()
    except OSError:
        return False
    return True


def test_beyond_the_limit_the_least_recently_used_file_is_closed(disk: SimDisk) -> None:
    pool = FilePool(disk, open_max=3)
    files = [pool.get(f"/{number}") for number in range(3)]
    pool.get("/0")
    pool.get("/3")
    assert len(pool) == 3
    assert [is_open(file) for file in files] == [True, False, True]


def test_a_file_that_is_open_is_not_opened_again(disk: SimDisk) -> None:
    pool = FilePool(disk, open_max=3)
    file = pool.get("/0")
    assert pool.get("/0") is file
    assert pool.pin("/0") is file
    assert pool.get("/0") is file
    assert len(pool) == 1


def test_a_pinned_file_survives_the_rush_and_joins_it_when_it_is_let_go(disk: SimDisk) -> None:
    pool = FilePool(disk, open_max=2)
    pinned = pool.pin("/0")
    for number in range(1, 9):
        pool.get(f"/{number}")
    assert is_open(pinned)
    assert len(pool) == 3
    pool.unpin("/0")
    assert len(pool) == 2
    assert is_open(pinned)
    pool.get("/1")
    pool.get("/2")
    assert not is_open(pinned)


def test_a_forgotten_file_is_closed_pinned_or_not(disk: SimDisk) -> None:
    pool = FilePool(disk, open_max=2)
    files: list[Any] = [pool.pin("/0"), pool.get("/1")]
    for path in ("/0", "/1", "/2"):
        pool.forget(path)
    assert [is_open(file) for file in files] == [False, False]
    assert len(pool) == 0


def test_closing_closes_everything(disk: SimDisk) -> None:
    pool = FilePool(disk, open_max=2)
    files = [pool.pin("/0"), pool.get("/1")]
    pool.close()
    assert not any(is_open(file) for file in files)
    assert len(pool) == 0


def test_a_file_that_vanished_is_an_error_each_time_and_takes_no_place(disk: SimDisk) -> None:
    pool = FilePool(disk, open_max=2)
    for _ in range(2):
        with pytest.raises(FileNotFoundError):
            pool.get("/gone")
        with pytest.raises(FileNotFoundError):
            pool.pin("/gone")
    assert len(pool) == 0
    assert pool.pin("/gone", create=True).size() == 0


def test_unpinning_what_is_not_pinned_changes_nothing(disk: SimDisk) -> None:
    pool = FilePool(disk, open_max=2)
    pool.unpin("/0")
    assert len(pool) == 0
