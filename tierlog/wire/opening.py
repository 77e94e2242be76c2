"""What the Produce requests of one connection begin with.

A producer sends the same bytes before each batch: API, version, client, acks, time limit, topic and
partition. Parsing them costs as much as writing a small record, so a connection remembers the
openings it has seen, with a value for each, and compares. What does not begin like one of them is
parsed as usual; what does reads exactly as `read_produce` would read it, which the tests compare.

Only requests of one topic and one partition have an opening, and only without tagged fields.
"""

from __future__ import annotations

import struct
from typing import Final, Generic, TypeVar

from tierlog.wire.primitives import uvarint
from tierlog.wire.produce import FLEXIBLE_FROM

T = TypeVar("T")

OPENINGS_MAX: Final = 128
"""Partitions of a topic that one producer writes to in turn; beyond that it begins again."""
OPENING_BYTES_MAX: Final = 512
"""The longest topic name with a usual client id. Longer ones are parsed each time: a connection
that says little must not make the node remember megabytes."""

_HEAD_BYTES: Final = 8
"""API, version and correlation id; the opening stands behind them."""
_SIZE_BYTES: Final = 4
_TAGS: Final = b"\0\0\0"
"""The empty tag sections of partition, topic and request, which end a flexible one."""


class ProduceOpenings(Generic[T]):
    """Openings of one length and version; another length or version replaces them all."""

    __slots__ = ("_flexible", "_head", "_known", "_length", "_unpack")

    def __init__(self) -> None:
        self._head = b""
        self._length = -1
        self._flexible = False
        self._known: dict[bytes, T] = {}
        self._unpack = struct.Struct("").unpack_from

    def remember(self, frame: memoryview, version: int, batch_bytes: int, value: T) -> None:
        """A request was parsed: one topic, one partition, a batch of so many bytes."""
        flexible = version >= FLEXIBLE_FROM
        if flexible:
            size = uvarint(batch_bytes + 1)
            end = len(frame) - len(_TAGS) - batch_bytes - len(size)
            if (
                end < _HEAD_BYTES
                or bytes(frame[-3:]) != _TAGS
                or bytes(frame[end : end + len(size)]) != size
            ):
                return  # Tagged fields, or a length written in more bytes than it needs.
        else:
            end = len(frame) - batch_bytes - _SIZE_BYTES
        head, length = bytes(frame[:4]), end - _HEAD_BYTES
        if length > OPENING_BYTES_MAX:
            return
        if head != self._head or length != self._length or len(self._known) >= OPENINGS_MAX:
            self._begin(head, length, flexible=flexible)
        self._known[bytes(frame[_HEAD_BYTES:end])] = value

    def _begin(self, head: bytes, length: int, *, flexible: bool) -> None:
        self._head, self._length, self._flexible = head, length, flexible
        self._known.clear()
        layout = f">4si{length}s" if flexible else f">4si{length}si"
        self._unpack = struct.Struct(layout).unpack_from

    def find(self, frame: memoryview) -> tuple[int, memoryview, T] | None:
        """Correlation id, batch and value, if the frame begins like one that is remembered."""
        try:
            if self._flexible:
                return self._find_flexible(frame)
            head, correlation_id, opening, size = self._unpack(frame)
        except (struct.error, ValueError, IndexError):
            return None
        value = self._known.get(opening)
        start = self._length + 12
        if value is None or head != self._head or size != len(frame) - start:
            return None
        return correlation_id, frame[start:], value

    def _find_flexible(self, frame: memoryview) -> tuple[int, memoryview, T] | None:
        head, correlation_id, opening = self._unpack(frame)
        value = self._known.get(opening)
        if value is None or head != self._head:
            return None
        position = self._length + _HEAD_BYTES
        size, shift = 0, 0
        while True:
            byte = frame[position]
            position += 1
            size |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift > 28:
                return None
        end = position + size - 1
        if size < 1 or end != len(frame) - 3 or bytes(frame[-3:]) != _TAGS:
            return None
        return correlation_id, frame[position:end], value
