"""Snappy as Kafka's clients write it: raw, or in the framing of Java's xerial library.

Raw is one varint with the plain length, then the data. Xerial framing is a head of 16 bytes (the
magic, two versions), then blocks, each an i32 length and that many bytes of raw snappy. Java's
reader lets a new head follow anywhere between blocks, so ours does.

The plain length is a claim of the sender that the library believes: it takes the memory first. So
the claim is checked here, against the bound and against what snappy can do at all.
"""

from struct import Struct

import cramjam

from tierlog.records.errors import MalformedRecords
from tierlog.types import Bytes

XERIAL_MAGIC = b"\x82SNAPPY\x00"
XERIAL_HEAD = XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
XERIAL_BLOCK_BYTES = 32 * 1024
"""Plain bytes per block: the default of the Java library."""

XERIAL_BLOCKS_MAX = 65_536
"""64 MiB in the smallest blocks that the Java library writes, 1 KiB. Heads between blocks count."""

RATIO_MAX = 22
"""The densest element is a copy: 64 plain bytes out of 3."""

LENGTH_VARINT_BYTES_MAX = 5
_BLOCK_LENGTH = Struct(">i")


def compress_raw(data: Bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(data))


def compress_xerial(data: Bytes) -> bytes:
    view = memoryview(data)
    parts = [XERIAL_HEAD]
    for start in range(0, len(view), XERIAL_BLOCK_BYTES):
        block = compress_raw(view[start : start + XERIAL_BLOCK_BYTES])
        parts += (_BLOCK_LENGTH.pack(len(block)), block)
    return b"".join(parts)


def decompress(data: Bytes, bytes_max: int) -> bytes | None:
    """Plain bytes of either kind; None when they would be more than `bytes_max`."""
    view = memoryview(data)
    if view[: len(XERIAL_MAGIC)] == XERIAL_MAGIC:
        return _decompress_xerial(view, bytes_max)
    return _decompress_raw(view, bytes_max)


def _decompress_raw(data: memoryview, bytes_max: int) -> bytes | None:
    claimed = _plain_length(data)
    if claimed > RATIO_MAX * len(data):
        raise MalformedRecords(f"snappy: {len(data)} bytes cannot hold {claimed} plain bytes")
    if claimed > bytes_max:
        return None
    try:
        return bytes(cramjam.snappy.decompress_raw(data))
    except cramjam.DecompressionError as error:
        raise MalformedRecords(str(error)) from None


def _decompress_xerial(data: memoryview, bytes_max: int) -> bytes | None:
    parts: list[bytes] = []
    position = blocks = 0
    while position < len(data):
        blocks += 1
        if blocks > XERIAL_BLOCKS_MAX + 1:  # the first is the head
            raise MalformedRecords(f"snappy: more than {XERIAL_BLOCKS_MAX} blocks")
        if data[position : position + len(XERIAL_MAGIC)] == XERIAL_MAGIC:
            position = _after_head(data, position)
            continue
        block, position = _block(data, position)
        part = _decompress_raw(block, bytes_max)
        if part is None:
            return None
        bytes_max -= len(part)
        parts.append(part)
    return b"".join(parts)


def _after_head(data: memoryview, position: int) -> int:
    end = position + len(XERIAL_HEAD)
    if end > len(data):
        raise MalformedRecords("snappy: the xerial head is cut off")
    # The second number is the oldest reader that understands the stream.
    (needed,) = _BLOCK_LENGTH.unpack_from(data, end - _BLOCK_LENGTH.size)
    if needed > 1:
        raise MalformedRecords(f"snappy: xerial version {needed} is needed, 1 is known")
    return end


def _block(data: memoryview, position: int) -> tuple[memoryview, int]:
    start = position + _BLOCK_LENGTH.size
    if start > len(data):
        raise MalformedRecords("snappy: a block length is cut off")
    (length,) = _BLOCK_LENGTH.unpack_from(data, position)
    if not 0 < length <= len(data) - start:
        raise MalformedRecords(f"snappy: block of {length} bytes, {len(data) - start} are left")
    return data[start : start + length], start + length


def _plain_length(data: memoryview) -> int:
    length = 0
    for index, byte in enumerate(data[:LENGTH_VARINT_BYTES_MAX]):
        length |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return length
    raise MalformedRecords("snappy: the length at the start does not end")
