"""Decoding takes at most a stated multiple of the frame, for the worst arrays of every schema."""

from __future__ import annotations

import tracemalloc
from typing import TYPE_CHECKING

import pytest

from tests.fuzz.wire import memory_bytes_max
from tests.wire.smallest import with_one_large_array
from tests.wire.values import every_message
from tierlog.wire.codec import decode_whole, encode
from tierlog.wire.schema import Message

if TYPE_CHECKING:
    from tierlog.wire.schema import Struct

COUNT = 2_000
"""Enough elements for the fixed part of the bound not to matter."""


def peak_bytes(kind: type[Message], version: int, data: bytes) -> int:
    decode_whole(kind, version, data)  # compiles, and fills caches that stay
    tracemalloc.start(1)
    try:
        decode_whole(kind, version, data)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def encoded(message: Struct, version: int) -> bytes:
    assert isinstance(message, Message)
    return encode(message, version)


@pytest.mark.slow
@pytest.mark.parametrize("kind", every_message(), ids=lambda kind: kind.__name__)
def test_arrays_of_the_smallest_elements_stay_within_the_bound(kind: type[Message]) -> None:
    """The last version of each encoding: earlier ones have the same or fewer fields."""
    for version in {kind.versions.last, kind.versions.first, max(kind.flexible.first, 0)}:
        if version not in kind.versions:
            continue
        for message in with_one_large_array(kind, version, COUNT):
            data = encoded(message, version)
            assert peak_bytes(kind, version, data) <= memory_bytes_max(data)
