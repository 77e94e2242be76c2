"""Fetch requests that ask on: the same bytes as before, but for the offset.

A consumer of one partition sends one request again and again; only the correlation id and the fetch
offset move. Parsing it costs as much as finding what it asks for, so a connection remembers what
stands around the two, with a value for each, and compares. What differs anywhere else is parsed as
usual.

Only requests for one topic and one partition are remembered. Tagged fields may be there: they stand
behind the offset, and are compared with the rest.
"""

from __future__ import annotations

import struct
from typing import Final, Generic, TypeVar

from tierlog.wire.fetch import (
    FLEXIBLE_FROM,
    LEADER_EPOCHS_FROM,
    REPLICA_STATE_FROM,
    SESSIONS_FROM,
    TOPIC_IDS_FROM,
)
from tierlog.wire.opening import OPENING_BYTES_MAX, OPENINGS_MAX
from tierlog.wire.primitives import uvarint

T = TypeVar("T")

_HEAD_BYTES: Final = 8
"""API, version and correlation id."""
_OFFSET_BYTES: Final = 8


class FetchOpenings(Generic[T]):
    """Requests of one length, with the offset at one place; others replace them all."""

    __slots__ = ("_at", "_known", "_size", "_unpack")

    def __init__(self) -> None:
        self._size = self._at = -1
        self._known: dict[tuple[bytes, bytes, bytes], T] = {}
        self._unpack = struct.Struct("").unpack

    def remember(
        self, frame: memoryview, position: int, version: int, topic: str | bytes, value: T
    ) -> None:
        """A request was parsed, its body at `position`: one partition of this topic."""
        at = offset_at(frame, position, version, topic)
        if at is None or len(frame) > OPENING_BYTES_MAX:
            return
        if (len(frame), at) != (self._size, self._at) or len(self._known) >= OPENINGS_MAX:
            self._begin(len(frame), at)
        head, _, opening, _, rest = self._unpack(frame)
        self._known[head, opening, rest] = value

    def _begin(self, size: int, at: int) -> None:
        self._size, self._at = size, at
        self._known.clear()
        rest = size - at - _OFFSET_BYTES
        self._unpack = struct.Struct(f">4si{at - _HEAD_BYTES}sq{rest}s").unpack

    def find(self, frame: memoryview) -> tuple[int, int, T] | None:
        """Correlation id, fetch offset and value, if the frame is like one that is remembered."""
        if len(frame) != self._size:
            return None
        head, correlation_id, opening, offset, rest = self._unpack(frame)
        value = self._known.get((head, opening, rest))
        return None if value is None else (correlation_id, offset, value)


def offset_at(frame: memoryview, position: int, version: int, topic: str | bytes) -> int | None:
    """Where the fetch offset stands in a request for one partition of the topic.

    None where a length on the way there takes more bytes than it needs.
    """
    at = position + 13  # longest wait, least bytes, most bytes, isolation level
    if version < REPLICA_STATE_FROM:
        at += 4
    if version >= SESSIONS_FROM:
        at += 8
    way = _way(version, topic)
    if bytes(frame[at : at + len(way)]) != way:
        return None
    at += len(way) + 4  # the partition
    return at + 4 if version >= LEADER_EPOCHS_FROM else at


def _way(version: int, topic: str | bytes) -> bytes:
    """One topic, and of it one partition."""
    if isinstance(topic, bytes):
        assert version >= TOPIC_IDS_FROM, "before v13 topics have names"
        return b"\2" + topic + b"\2"
    name = topic.encode()
    if version >= FLEXIBLE_FROM:
        return b"\2" + uvarint(len(name) + 1) + name + b"\2"
    return struct.pack(">ih", 1, len(name)) + name + struct.pack(">i", 1)
