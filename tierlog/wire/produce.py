"""The Produce request, read by hand: the message that brings the data in.

Beside the compiled `ProduceRequest` this makes no object per topic and partition, only tuples, and
the records stay views into the frame, so that the broker can patch and write them where they were
received. Both readers accept the same bytes and hold the same values; the tests compare them at
every version.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple

from tierlog.wire.errors import (
    BadString,
    DecodeError,
    TrailingBytes,
    Truncated,
    UnsupportedVersion,
    WireError,
)
from tierlog.wire.messages.produce import ProduceRequest
from tierlog.wire.primitives import (
    ELEMENTS_MAX,
    bad_array,
    long_string,
    not_a_length,
    skip_tags,
    uvarint_tail,
)

if TYPE_CHECKING:
    from tierlog.types import Bytes

VERSION_MIN: Final = ProduceRequest.versions.first
VERSION_MAX: Final = ProduceRequest.versions.last
FLEXIBLE_FROM: Final = ProduceRequest.flexible.first
TOPIC_IDS_FROM: Final = 13

_ACKS_TIMEOUT_COUNT: Final = struct.Struct(">hii").unpack_from
_ACKS_TIMEOUT_COMPACT: Final = struct.Struct(">hiB").unpack_from
_INDEX_LENGTH: Final = struct.Struct(">ii").unpack_from
_INDEX_COMPACT: Final = struct.Struct(">iB").unpack_from
_INT16: Final = struct.Struct(">h").unpack_from
_INT32: Final = struct.Struct(">i").unpack_from
_CHARS: Final = [struct.Struct(f"{max(0, length - 1)}s").unpack_from for length in range(128)]
"""By the compact length, which is one more than the bytes."""

# The smallest topic and partition in either encoding: what an array of them is measured by.
_OLD_TOPIC_BYTES, _OLD_PARTITION_BYTES = 6, 8
_NAMED_TOPIC_BYTES, _TOPIC_WITH_ID_BYTES, _PARTITION_BYTES = 3, 18, 6


class Produced(NamedTuple):
    """What a Produce request carries."""

    transactional_id: str | None
    acks: int
    timeout_ms: int
    topics: list[tuple[str | bytes, list[tuple[int, memoryview | None]]]]
    """Topic, a name or from v13 on an id of sixteen bytes; per partition its index and records."""


_produced: Final = tuple.__new__
"""Makes a named tuple without the detour through its Python constructor."""


def read_produce(version: int, frame: Bytes, position: int = 0) -> Produced:
    """Read a request body that ends with the frame. Raises only WireError."""
    if not VERSION_MIN <= version <= VERSION_MAX:
        raise UnsupportedVersion(
            message="ProduceRequest", version=version, api_key=ProduceRequest.api_key
        )
    view = memoryview(frame)
    try:
        if version < FLEXIBLE_FROM:
            made, end = _read_old(view, position)
        else:
            made, end = _read_flexible(view, position, version >= TOPIC_IDS_FROM)
        if end != len(view):
            raise _wrong_end(end, len(view))
    except (DecodeError, struct.error, IndexError, UnicodeDecodeError) as error:
        raise _explained(error, version) from None
    return made


def _read_flexible(view: memoryview, p: int, with_ids: bool) -> tuple[Produced, int]:
    """v9 and later. One long function on purpose: a call costs as much as a partition."""
    limit, budget = len(view), ELEMENTS_MAX
    transactional_id, p = _compact_string(view, p) if view[p] else (None, p + 1)
    acks, timeout_ms, topic_count = _ACKS_TIMEOUT_COMPACT(view, p)
    p += 7
    if topic_count > 127:
        topic_count, p = uvarint_tail(view, p, topic_count)
    topic_count -= 1
    least = _TOPIC_WITH_ID_BYTES if with_ids else _NAMED_TOPIC_BYTES
    if not 0 <= topic_count * least <= limit - p or (budget := budget - topic_count) < 0:
        raise _bad_count(view, p, topic_count, least)
    topics: list[tuple[str | bytes, list[tuple[int, memoryview | None]]]] = []
    for _ in range(topic_count):
        topic: str | bytes
        if with_ids:
            topic, p = bytes(view[p : p + 16]), p + 16
        else:
            topic, p = _compact_string(view, p)
        count = view[p]
        p += 1
        if count > 127:
            count, p = uvarint_tail(view, p, count)
        count -= 1
        if not 0 <= count * _PARTITION_BYTES <= limit - p or (budget := budget - count) < 0:
            raise _bad_count(view, p, count, _PARTITION_BYTES)
        partitions: list[tuple[int, memoryview | None]] = []
        topics.append((topic, partitions))
        for _ in range(count):
            index, size = _INDEX_COMPACT(view, p)
            p += 5
            if size > 127:
                # Two and three bytes of varint, up to 2 MiB of records, are not worth a call.
                second = view[p]
                p += 1
                if second < 128:
                    size += (second << 7) - 128
                elif view[p] < 128:
                    size += (second << 7) + (view[p] << 14) - 16_512  # less two top bits
                    p += 1
                else:
                    size, p = uvarint_tail(view, p - 1, size)
            if size:
                end = p + (size - 1)
                partitions.append((index, view[p:end]))
                p = end
            else:
                partitions.append((index, None))
            if view[p]:
                p, budget = skip_tags(view, p + 1, view[p], budget)
            else:
                p += 1
        if view[p]:
            p, budget = skip_tags(view, p + 1, view[p], budget)
        else:
            p += 1
    if view[p]:
        p, budget = skip_tags(view, p + 1, view[p], budget)
    else:
        p += 1
    return _produced(Produced, (transactional_id, acks, timeout_ms, topics)), p


def _read_old(view: memoryview, p: int) -> tuple[Produced, int]:
    """v3 to v8."""
    transactional_id, p = _nullable_string(view, p)
    acks, timeout_ms, count = _ACKS_TIMEOUT_COUNT(view, p)
    p += 10
    budget = _take(view, p, count, _OLD_TOPIC_BYTES, ELEMENTS_MAX)
    topics: list[tuple[str | bytes, list[tuple[int, memoryview | None]]]] = []
    for _ in range(count):
        topic, p = _nullable_string(view, p)
        if topic is None:
            raise not_a_length(-1)
        (inner,) = _INT32(view, p)
        p += 4
        budget = _take(view, p, inner, _OLD_PARTITION_BYTES, budget)
        partitions: list[tuple[int, memoryview | None]] = []
        for _ in range(inner):
            index, size = _INDEX_LENGTH(view, p)
            p += 8
            if size >= 0:
                partitions.append((index, view[p : p + size]))
                p += size
            elif size == -1:
                partitions.append((index, None))
            else:
                raise not_a_length(size)
        topics.append((topic, partitions))
    return _produced(Produced, (transactional_id, acks, timeout_ms, topics)), p


def _take(view: memoryview, p: int, count: int, least: int, budget: int) -> int:
    """What is left of the budget after an array, if its elements can be there at all."""
    if not 0 <= count * least <= len(view) - p or count > budget:
        raise _bad_count(view, p, count, least)
    return budget - count


def _bad_count(view: memoryview, p: int, count: int, least: int) -> WireError:
    return not_a_length(count) if count < 0 else bad_array(view, p, count, least)


def _compact_string(view: memoryview, p: int) -> tuple[str, int]:
    length = view[p]
    if 0 < length < 128:
        # Cheaper than a slice of the view, which is an object of its own.
        return _CHARS[length](view, p + 1)[0].decode(), p + length
    return long_string(view, p + 1, length)


def _nullable_string(view: memoryview, p: int) -> tuple[str | None, int]:
    (length,) = _INT16(view, p)
    p += 2
    if length >= 0:
        return str(view[p : p + length], "utf-8"), p + length
    if length == -1:
        return None, p
    raise not_a_length(length)


def _wrong_end(end: int, limit: int) -> DecodeError:
    if end > limit:
        return Truncated(f"the last field ends at byte {end}, the bytes at {limit}")
    return TrailingBytes(f"{limit - end} bytes after the message", position=end)


def _explained(error: Exception, version: int) -> DecodeError:
    if isinstance(error, UnicodeDecodeError):
        made: DecodeError = BadString(f"not UTF-8: {error.reason}")
    elif isinstance(error, DecodeError):
        made = error
    else:
        made = Truncated("the bytes end inside a field")
    made.message = "ProduceRequest"
    made.version = version
    return made
