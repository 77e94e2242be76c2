"""Which pages of a mapped file the kernel has, and how often it is asked."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tierlog.env import mapping
from tierlog.env.mapping import BLOCK_BITS, REMEMBERED_S, Mapping

BLOCK = 1 << BLOCK_BITS
SIZE = 2 * BLOCK + 10_000


@pytest.fixture
def fd(tmp_path: Path) -> Iterator[int]:
    descriptor = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    os.pwrite(descriptor, bytes(SIZE), 0)
    yield descriptor
    os.close(descriptor)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The blocks that the kernel is asked about."""
    blocks: list[int] = []
    ask = Mapping._ask

    def noting(self: Mapping, block: int) -> int:
        blocks.append(block)
        return ask(self, block)

    monkeypatch.setattr(Mapping, "_ask", noting)
    return blocks


def test_what_was_just_written_is_cached_and_what_lies_behind_is_not(fd: int) -> None:
    mapped = Mapping(fd, SIZE)
    assert mapped.is_cached(SIZE, 0)
    assert mapped.is_cached(BLOCK, BLOCK // 2)
    assert not mapped.is_cached(SIZE + 2 * mapping._PAGE_BYTES, 0)
    assert not mapped.is_cached(1, 3 * BLOCK)


def test_the_kernel_is_asked_once_for_a_block(fd: int, asked: list[int]) -> None:
    mapped = Mapping(fd, SIZE)
    for position in range(0, BLOCK, 60_000):
        assert mapped.is_cached(1000, position)
    assert asked == [0]
    assert mapped.is_cached(2000, BLOCK - 1000)
    assert asked == [0, 1]


def test_the_end_of_a_growing_file_is_asked_for_again(fd: int, asked: list[int]) -> None:
    mapped = Mapping(fd, SIZE)
    assert mapped.is_cached(10_000, 2 * BLOCK)
    os.pwrite(fd, bytes(100_000), SIZE)
    assert mapped.is_cached(100_000, SIZE)
    assert mapped.is_cached(50_000, SIZE)
    assert asked == [2, 2]


def test_after_a_while_the_kernel_is_asked_again(
    fd: int, asked: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr(mapping, "monotonic", lambda: now)
    mapped = Mapping(fd, SIZE)
    assert mapped.is_cached(1000, 0)
    now += REMEMBERED_S / 2
    assert mapped.is_cached(1000, 0)
    now += REMEMBERED_S
    assert mapped.is_cached(1000, 0)
    assert asked == [0, 0]
