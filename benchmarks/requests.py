"""Request frames for the load generator: whole, with size prefix, the same bytes every time.

Written by hand with `struct` on purpose: the C tools must be judged by bytes that do not come from
the codecs under test. Topic and client id are free, so that no tool may rely on a name's length.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from crc32c import crc32c

PRODUCE, FETCH, HEARTBEAT = 0, 1, 12
PRODUCE_FLEXIBLE, FETCH_FLEXIBLE = 9, 12
TOPIC_ID_VERSION = 13
NO_PRODUCER = (-1, -1, -1)

TIMESTAMP_MS = 1_700_000_000_000
"""Fixed, so that a shape is the same bytes on every run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What a request carries: so many records of so many bytes, and how it is driven."""

    name: str
    value_bytes: int
    records: int
    connections: int
    depth: int


SHAPES = (
    Shape(name="produce 64 KB", value_bytes=1024, records=63, connections=1, depth=5),
    Shape(name="produce 1 MB", value_bytes=1024, records=993, connections=1, depth=5),
    Shape(
        name="produce 1 record, 16 connections", value_bytes=100, records=1, connections=16, depth=1
    ),
    Shape(name="produce 1 record, pipelined", value_bytes=100, records=1, connections=1, depth=64),
)


def varint(value: int) -> bytes:
    """Zigzag varint, as record fields have it."""
    return uvarint((value << 1) ^ (value >> 63))


def uvarint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def value(length: int, number: int) -> bytes:
    """Bytes that do not compress well and do not change: a counter stretched by a multiplier."""
    word = (number + 1) * 0x9E3779B97F4A7C15
    words = -(-length // 8)
    return b"".join(((word * (i + 1)) & (2**64 - 1)).to_bytes(8, "big") for i in range(words))[
        :length
    ]


def batch(*, value_bytes: int, records: int) -> bytes:
    """One uncompressed batch v2 with base offset 0, no keys, no headers."""
    body = bytearray()
    for number in range(records):
        payload = value(value_bytes, number)
        record = b"\0" + varint(0) + varint(number) + varint(-1)
        record += varint(value_bytes) + payload + varint(0)
        body += varint(len(record)) + record
    times = (TIMESTAMP_MS, TIMESTAMP_MS)
    covered = struct.pack(">hiqqqhii", 0, records - 1, *times, *NO_PRODUCER, records) + body
    tail = struct.pack(">ibI", 0, 2, crc32c(covered)) + covered
    return struct.pack(">qi", 0, len(tail)) + tail


def frame(*, key: int, version: int, flexible: bool, client_id: str, body: bytes) -> bytes:
    name = client_id.encode()
    head = struct.pack(">hhih", key, version, 1, len(name)) + name + (b"\0" if flexible else b"")
    return struct.pack(">i", len(head) + len(body)) + head + body


class _Shaper:
    """The two shapes of lengths: classic, and compact with tag sections."""

    def __init__(self, flexible: bool) -> None:
        self.tags = b"\0" if flexible else b""
        self._flexible = flexible

    def array(self, items: Sequence[bytes]) -> bytes:
        return self._length(len(items), ">i") + b"".join(items)

    def string(self, text: str) -> bytes:
        return self._length(len(text.encode()), ">h") + text.encode()

    def data(self, data: bytes) -> bytes:
        return self._length(len(data), ">i") + data

    def null_string(self) -> bytes:
        return b"\0" if self._flexible else b"\xff\xff"

    def _length(self, length: int, classic: str) -> bytes:
        return uvarint(length + 1) if self._flexible else struct.pack(classic, length)


def _topic(version: int, topic: str, shaper: _Shaper) -> bytes:
    """By name, or by an id that is the name's bytes padded: enough for a benchmark."""
    if version >= TOPIC_ID_VERSION:
        return topic.encode()[:16].ljust(16, b"\0")
    return shaper.string(topic)


def produce(
    records: bytes,
    *,
    topic: str = "bench",
    partition: int = 0,
    acks: int = 1,
    version: int = 7,
    client_id: str = "load",
) -> bytes:
    """A Produce request, v3-v13, of one partition."""
    flexible = version >= PRODUCE_FLEXIBLE
    shaper = _Shaper(flexible)
    part = struct.pack(">i", partition) + shaper.data(records) + shaper.tags
    topics = [_topic(version, topic, shaper) + shaper.array([part]) + shaper.tags]
    head = shaper.null_string() + struct.pack(">hi", acks, 30_000)
    body = head + shaper.array(topics) + shaper.tags
    return frame(key=PRODUCE, version=version, flexible=flexible, client_id=client_id, body=body)


def fetch(
    *,
    bytes_max: int,
    offset: int = 0,
    topic: str = "bench",
    partition: int = 0,
    version: int = 11,
    client_id: str = "load",
) -> bytes:
    """A Fetch request, v4-v18, of one partition; it waits up to 500 ms for one byte."""
    flexible = version >= FETCH_FLEXIBLE
    shaper = _Shaper(flexible)
    part = _fetch_partition(version, partition, offset, bytes_max) + shaper.tags
    body = b"" if version >= 15 else struct.pack(">i", -1)
    body += struct.pack(">iiib", 500, 1, bytes_max, 0)
    body += struct.pack(">ii", 0, -1) if version >= 7 else b""
    body += shaper.array([_topic(version, topic, shaper) + shaper.array([part]) + shaper.tags])
    body += shaper.array([]) if version >= 7 else b""
    body += shaper.string("") if version >= 11 else b""
    body += shaper.tags
    return frame(key=FETCH, version=version, flexible=flexible, client_id=client_id, body=body)


def _fetch_partition(version: int, partition: int, offset: int, bytes_max: int) -> bytes:
    part = struct.pack(">i", partition)
    part += struct.pack(">i", -1) if version >= 9 else b""
    part += struct.pack(">q", offset)
    part += struct.pack(">i", -1) if version >= 12 else b""
    part += struct.pack(">q", -1) if version >= 5 else b""
    return part + struct.pack(">i", bytes_max)


def heartbeat(*, client_id: str = "load") -> bytes:
    """Heartbeat v3: the smallest request that a broker answers."""
    shaper = _Shaper(flexible=False)
    body = shaper.string("group") + struct.pack(">i", 1) + shaper.string("member")
    body += shaper.null_string()
    return frame(key=HEARTBEAT, version=3, flexible=False, client_id=client_id, body=body)
