"""The Fetch response of the common request, written by hand: one partition, no error, some records.

A consumer of one partition gets such an answer for every fetch that finds something, so this makes
no object on the way. Everything else goes through `FetchWriter`; the tests compare the two at every
version.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from tierlog.wire.fetch import (
    FLEXIBLE_FROM,
    LOG_START_FROM,
    PREFERRED_REPLICA_FROM,
    SESSIONS_FROM,
    TOPIC_IDS_FROM,
)
from tierlog.wire.primitives import uvarint

if TYPE_CHECKING:
    from tierlog.types import Bytes

_V4: Final = struct.Struct(">ihqqii").pack
_V5: Final = struct.Struct(">ihqqqii").pack
_V11: Final = struct.Struct(">ihqqqiii").pack
_V12: Final = struct.Struct(">ihqqqBi").pack
_SIZE_AND_ID: Final = struct.Struct(">ii").pack
_NO_REPLICA: Final = -1
_TAGS: Final = b"\0\0\0"
"""Of partition, topic and response, behind the records."""


@lru_cache(maxsize=4096)
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


def encode_fetched(
    version: int,
    correlation_id: int,
    topic: str | bytes,
    index: int,
    high_watermark: int,
    log_start: int,
    records: Bytes,
    lists_aborted: bool,
) -> list[Bytes]:
    """The whole framed response as parts; with `lists_aborted` an empty list of aborted
    transactions, else none. Arguments by place: this is the hot path."""
    opening = _opening(version, topic)
    size = len(records)
    if version >= FLEXIBLE_FROM:
        body = _V12(
            index, 0, high_watermark, high_watermark, log_start, lists_aborted, _NO_REPLICA
        ) + uvarint(size + 1)
        whole = 4 + len(opening) + len(body) + size + len(_TAGS)
        return [_SIZE_AND_ID(whole, correlation_id) + opening + body, records, _TAGS]
    aborted = 0 if lists_aborted else -1
    if version >= PREFERRED_REPLICA_FROM:
        body = _V11(index, 0, high_watermark, high_watermark, log_start, aborted, _NO_REPLICA, size)
    elif version >= LOG_START_FROM:
        body = _V5(index, 0, high_watermark, high_watermark, log_start, aborted, size)
    else:
        body = _V4(index, 0, high_watermark, high_watermark, aborted, size)
    whole = 4 + len(opening) + len(body) + size
    return [_SIZE_AND_ID(whole, correlation_id) + opening + body, records]
