"""The Metadata response, written by hand where it is long: topics and their partitions.

Every client asks for it, again and again, and a topic may have thousands of partitions. All of them
are led by one node, which is their only replica, so each takes one call of `pack`: a tenth of what
message objects cost. The tests compare the two at every version.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from tierlog.wire.codec import encode
from tierlog.wire.primitives import uvarint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tierlog.types import Bytes
    from tierlog.wire.messages.metadata import MetadataResponse

INTERNAL_FROM: Final = 1
OFFLINE_FROM: Final = 5
EPOCHS_FROM: Final = 7
OPERATIONS_FROM: Final = 8
FLEXIBLE_FROM: Final = 9
IDS_FROM: Final = 10
CLUSTER_OPERATIONS: Final = range(8, 11)
NULL_NAMES_FROM: Final = 12
ERROR_FROM: Final = 13

_V0: Final = struct.Struct(">hiiiiii").pack
_V5: Final = struct.Struct(">hiiiiiii").pack
_V7: Final = struct.Struct(">hiiiiiiii").pack
_V9: Final = struct.Struct(">hiiiBiBiBB").pack
_SHORT: Final = struct.Struct(">h").pack
_COUNT: Final = struct.Struct(">i").pack
_OPERATIONS_UNKNOWN: Final = struct.pack(">i", -2147483648)


def encode_led(version: int, node_id: int, epochs: Sequence[int], *, first: int = 0) -> bytes:
    """Partitions from index `first` on, given their leader epochs; `node_id` leads all of them."""
    if version >= FLEXIBLE_FROM:
        made = [
            _V9(0, index, node_id, epoch, 2, node_id, 2, node_id, 1, 0)
            for index, epoch in enumerate(epochs, first)
        ]
    elif version >= EPOCHS_FROM:
        made = [
            _V7(0, index, node_id, epoch, 1, node_id, 1, node_id, 0)
            for index, epoch in enumerate(epochs, first)
        ]
    elif version >= OFFLINE_FROM:
        made = [
            _V5(0, index, node_id, 1, node_id, 1, node_id, 0)
            for index in range(first, first + len(epochs))
        ]
    else:
        made = [
            _V0(0, index, node_id, 1, node_id, 1, node_id)
            for index in range(first, first + len(epochs))
        ]
    return b"".join(made)


def encode_topic(
    version: int,
    *,
    name: str | None,
    topic_id: bytes,
    error_code: int = 0,
    is_internal: bool = False,
    partition_count: int = 0,
    partitions: Sequence[Bytes] = (),
) -> list[Bytes]:
    """One topic as parts; `partitions` are what `encode_led` made of all of them."""
    flexible = version >= FLEXIBLE_FROM
    head = _SHORT(error_code) + _name(version, name)
    if version >= IDS_FROM:
        head += topic_id
    if version >= INTERNAL_FROM:
        head += b"\1" if is_internal else b"\0"
    head += _array(partition_count, flexible)
    tail = _OPERATIONS_UNKNOWN if version >= OPERATIONS_FROM else b""
    return [head, *partitions, tail + b"\0" if flexible else tail]


def encode_metadata(
    response: MetadataResponse, version: int, *, topic_count: int, topics: Sequence[Bytes]
) -> list[Bytes]:
    """The body as parts: the response, which has no topics, with these in their place."""
    assert not response.topics, "topics come encoded"
    flexible = version >= FLEXIBLE_FROM
    body = encode(response, version)
    behind = 4 * (version in CLUSTER_OPERATIONS) + 2 * (version >= ERROR_FROM) + flexible
    end = len(body) - behind
    start = end - len(_array(0, flexible))
    return [body[:start] + _array(topic_count, flexible), *topics, body[end:]]


def _array(count: int, flexible: bool) -> bytes:
    return uvarint(count + 1) if flexible else _COUNT(count)


def _name(version: int, name: str | None) -> bytes:
    if name is None and version >= NULL_NAMES_FROM:
        return b"\0"
    data = (name or "").encode()
    if version >= FLEXIBLE_FROM:
        return uvarint(len(data) + 1) + data
    return _SHORT(len(data)) + data
