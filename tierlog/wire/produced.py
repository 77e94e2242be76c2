"""The Produce response of the common request, written by hand: one topic, one partition, no error.

A producer of small records gets one such answer for each of them, so this makes no object on the
way. Everything else goes through the compiled codec; the tests compare the two at every version.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import lru_cache
from typing import Final, TypeAlias

from tierlog.wire.primitives import uvarint
from tierlog.wire.produce import FLEXIBLE_FROM, TOPIC_IDS_FROM

LOG_START_FROM: Final = 5
RECORD_ERRORS_FROM: Final = 8

WriteProduced: TypeAlias = Callable[[int, int, int, int], bytes]
"""Correlation id, base offset, log append time and log start: the whole framed response, without a
throttle. Arguments by place: this is the hot path."""

_ERRORS_V9: Final = struct.pack(">BBBBiB", 1, 0, 0, 0, 0, 0)
_ERRORS_V8: Final = struct.pack(">ihi", 0, -1, 0)
_THROTTLE: Final = struct.pack(">i", 0)


@lru_cache(maxsize=4096)
def produced_writer(version: int, topic: str | bytes, index: int) -> WriteProduced:
    """Writes the answers to one producer of one partition: four numbers are all that moves."""
    before = _opening(version, topic) + struct.pack(">ih", index, 0)
    if version >= FLEXIBLE_FROM:
        before, after = b"\0" + before, _ERRORS_V9
    else:
        after = _ERRORS_V8 if version >= RECORD_ERRORS_FROM else _THROTTLE
    offsets = "qqq" if version >= LOG_START_FROM else "qq"
    layout = struct.Struct(f">ii{len(before)}s{offsets}{len(after)}s")
    pack, size = layout.pack, layout.size - 4
    if version < LOG_START_FROM:
        return lambda correlation_id, base_offset, time_ms, _: pack(
            size, correlation_id, before, base_offset, time_ms, after
        )
    return lambda correlation_id, base_offset, time_ms, log_start: pack(
        size, correlation_id, before, base_offset, time_ms, log_start, after
    )


def _opening(version: int, topic: str | bytes) -> bytes:
    """What stands before the partition: one topic, one partition of it."""
    if version >= TOPIC_IDS_FROM:
        assert isinstance(topic, bytes), "v13 and later name topics by id"
        return b"\2" + topic + b"\2"
    assert isinstance(topic, str), "before v13 topics have names"
    name = topic.encode()
    if version >= FLEXIBLE_FROM:
        return b"\2" + uvarint(len(name) + 1) + name + b"\2"
    return struct.pack(">ih", 1, len(name)) + name + struct.pack(">i", 1)
