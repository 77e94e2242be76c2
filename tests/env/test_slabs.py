"""Slabs come back when the last view of them is gone, and not before."""

import gc
from unittest.mock import patch

import pytest

from tierlog.env import Slabs, mapped_bytes, may_lend

SIZE = 1 << 16


def test_a_slab_is_handed_out_again_when_nobody_has_a_view_of_it() -> None:
    slabs = Slabs(size=SIZE, count_max=1)
    view = slabs.take(100)
    assert view is not None
    view[:3] = b"abc"
    part = view.toreadonly()[1:3]
    del view
    gc.collect()
    assert slabs.take(1) is None
    assert bytes(part) == b"bc"
    del part
    gc.collect()
    assert slabs.used == 0
    again = slabs.take(SIZE)
    assert again is not None
    assert bytes(again[:3]) == b"abc"


def test_what_is_too_large_or_too_many_gets_none() -> None:
    slabs = Slabs(size=SIZE, count_max=2)
    assert slabs.take(SIZE + 1) is None
    held = [slabs.take(SIZE), slabs.take(1)]
    assert all(one is not None for one in held)
    assert slabs.take(1) is None


def test_a_slab_that_could_not_be_mapped_does_not_count() -> None:
    slabs = Slabs(size=SIZE, count_max=1)
    with (
        patch("tierlog.env.slabs._mapped", side_effect=MemoryError),
        pytest.raises(MemoryError),
    ):
        slabs.take(1)
    assert slabs.used == 0
    assert slabs.take(1) is not None


def test_slices_are_lent_while_there_are_enough() -> None:
    slabs = Slabs(size=SIZE, count_max=8)
    held = [slabs.take(SIZE) for _ in range(7)]
    assert held[0] is not None
    assert may_lend(held[0])
    assert may_lend(held[0].toreadonly()[5:9])
    held.append(slabs.take(SIZE))
    assert not may_lend(held[0])
    assert not may_lend(b"bytes")
    assert not may_lend(memoryview(b"bytes"))


def test_slabs_count_as_memory() -> None:
    view = Slabs(size=SIZE, count_max=1).take(SIZE)
    assert view is not None
    assert mapped_bytes([view]) == 0
