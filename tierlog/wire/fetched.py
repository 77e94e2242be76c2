"""The Fetch response of the common request, written by hand: one partition, no error, some records.

A consumer of one partition gets such an answer for every fetch that finds something, so this makes
no object on the way. Everything else goes through `FetchWriter`; the tests compare the two at every
version.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import lru_cache
from typing import Final, TypeAlias

from tierlog.types import Bytes
from tierlog.wire.fetch import (
    FLEXIBLE_FROM,
    LOG_START_FROM,
    PREFERRED_REPLICA_FROM,
    SESSIONS_FROM,
    TOPIC_IDS_FROM,
)
from tierlog.wire.primitives import uvarint

WriteFetched: TypeAlias = Callable[[int, int, int, Bytes, Bytes], list[Bytes]]
"""Correlation id, high watermark, log start, records, and what goes on where they end, in a buffer
of its own: the whole framed response as parts. Arguments by place: this is the hot path."""

_NO_REPLICA: Final = struct.pack(">i", -1)
_TAGS: Final = b"\0\0\0"
"""Of partition, topic and response, behind the records."""


@lru_cache(maxsize=4096)
def fetched_writer(
    version: int, topic: str | bytes, index: int, lists_aborted: bool
) -> WriteFetched:
    """Writes the answers to one consumer of one partition; with `lists_aborted` an empty list of
    aborted transactions, else none."""
    before = _opening(version, topic) + struct.pack(">ih", index, 0)
    if version >= FLEXIBLE_FROM:
        return _flexible_writer(before, bytes([lists_aborted]) + _NO_REPLICA)
    after = struct.pack(">i", 0 if lists_aborted else -1)
    if version >= PREFERRED_REPLICA_FROM:
        after += _NO_REPLICA
    has_start = version >= LOG_START_FROM
    offsets = "qqq" if has_start else "qq"
    layout = struct.Struct(f">ii{len(before)}s{offsets}{len(after)}si")
    pack, size_before = layout.pack, layout.size - 4

    def write(
        correlation_id: int, high_watermark: int, log_start: int, records: Bytes, more: Bytes
    ) -> list[Bytes]:
        # Without transactions the last stable offset is the high watermark.
        size = len(records) + len(more)
        whole = size_before + size
        ends = (high_watermark, high_watermark, log_start)
        head = pack(whole, correlation_id, before, *ends, after, size)
        return [head, records, more] if more else [head, records]

    def write_old(
        correlation_id: int, high_watermark: int, _: int, records: Bytes, more: Bytes
    ) -> list[Bytes]:
        size = len(records) + len(more)
        whole = size_before + size
        ends = (high_watermark, high_watermark)
        head = pack(whole, correlation_id, before, *ends, after, size)
        return [head, records, more] if more else [head, records]

    return write if has_start else write_old


def _flexible_writer(before: bytes, after: bytes) -> WriteFetched:
    layout = struct.Struct(f">ii{len(before)}sqqq{len(after)}s")
    pack, size_around = layout.pack, layout.size - 4 + len(_TAGS)

    def write(
        correlation_id: int, high_watermark: int, log_start: int, records: Bytes, more: Bytes
    ) -> list[Bytes]:
        size = len(records) + len(more)
        length = uvarint(size + 1)
        whole = size_around + len(length) + size
        ends = (high_watermark, high_watermark, log_start)
        head = pack(whole, correlation_id, before, *ends, after) + length
        return [head, records, more, _TAGS] if more else [head, records, _TAGS]

    return write


def _opening(version: int, topic: str | bytes) -> bytes:
    """What stands between the correlation id and the partition: no throttle, error or session."""
    calm = bytes(4 + 2 + 4 if version >= SESSIONS_FROM else 4)
    if version >= TOPIC_IDS_FROM:
        assert isinstance(topic, bytes), "v13 and later name topics by id"
        return b"\0" + calm + b"\2" + topic + b"\2"
    assert isinstance(topic, str), "before v13 topics have names"
    name = topic.encode()
    if version >= FLEXIBLE_FROM:
        return b"\0" + calm + b"\2" + uvarint(len(name) + 1) + name + b"\2"
    return calm + struct.pack(">ih", 1, len(name)) + name + struct.pack(">i", 1)
