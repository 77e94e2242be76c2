"""The Produce response of the common request, written by hand: one topic, one partition, no error.

A producer of small records gets one such answer for each of them, so this makes no object on the
way. Everything else goes through the compiled codec; the tests compare the two at every version.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Final

from tierlog.wire.primitives import uvarint
from tierlog.wire.produce import FLEXIBLE_FROM, TOPIC_IDS_FROM

LOG_START_FROM: Final = 5
RECORD_ERRORS_FROM: Final = 8

_V3: Final = struct.Struct(">ihqqi")
_V5: Final = struct.Struct(">ihqqqi")
_V8: Final = struct.Struct(">ihqqqihi")
_V9: Final = struct.Struct(">ihqqqBBBBiB")
_SIZE_AND_ID: Final = struct.Struct(">ii").pack
_SIZE_ID_TAGS: Final = struct.Struct(">iiB").pack


@lru_cache(maxsize=4096)
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


def encode_produced(
    version: int,
    correlation_id: int,
    topic: str | bytes,
    index: int,
    base_offset: int,
    log_append_time_ms: int,
    log_start: int,
) -> bytes:
    """The whole framed response, without a throttle. Arguments by place: this is the hot path."""
    opening = _opening(version, topic)
    if version >= FLEXIBLE_FROM:
        body = _V9.pack(index, 0, base_offset, log_append_time_ms, log_start, 1, 0, 0, 0, 0, 0)
        return _SIZE_ID_TAGS(5 + len(opening) + len(body), correlation_id, 0) + opening + body
    if version >= RECORD_ERRORS_FROM:
        body = _V8.pack(index, 0, base_offset, log_append_time_ms, log_start, 0, -1, 0)
    elif version >= LOG_START_FROM:
        body = _V5.pack(index, 0, base_offset, log_append_time_ms, log_start, 0)
    else:
        body = _V3.pack(index, 0, base_offset, log_append_time_ms, 0)
    return _SIZE_AND_ID(4 + len(opening) + len(body), correlation_id) + opening + body
