"""Zstandard: one or more frames, skippable frames between them.

The library's streaming reader stops at the bound, but takes a frame that is cut off for a frame
that has ended. So the frames are walked first, block by block, without decompressing: every frame
must be whole and nothing may follow the last. One frame that says how much it holds is unpacked in
one piece, which takes two thirds of the time.
"""

import zstandard

from tierlog.records.errors import MalformedRecords
from tierlog.types import Bytes

LEVEL = 3
"""The library's default, and Kafka's."""

WINDOW_BYTES_MAX = 128 * 1024 * 1024
"""A stream of level 22, the highest, asks for so much whatever its size, and Kafka accepts it. It
is address space only: pages are touched as output is made, and that is bounded."""

FRAMES_MAX = 1000
"""Clients write one. A frame costs microseconds to set up, however little it holds."""

BLOCKS_MAX = 65_536
"""Of all frames together: 64 MiB in blocks of 1 KiB. An empty block has 3 bytes, so a batch could
hold very many."""

STEP_BYTES = 256 * 1024

SPARE_MAX = 16
_spare: list[zstandard.ZstdDecompressor] = []
"""Not in use: making one takes a third of the time of a batch. One that failed is not used again,
nor is one that read a stream, since it keeps the stream's window. Whoever takes one has it alone: a
list gives each away once, to whichever thread."""

SKIPPABLE_MAGIC = b"\x2a\x4d\x18"
_RLE, _RESERVED = 1, 3


def compress(data: Bytes) -> bytes:
    return zstandard.ZstdCompressor(level=LEVEL).compress(data)


def decompress(data: Bytes, bytes_max: int) -> bytes | None:
    """Plain bytes; None when they would be more than `bytes_max`."""
    try:
        plain_bytes = _walk_frames(memoryview(data))
        if plain_bytes is None:
            return _read(data, bytes_max)
        return None if plain_bytes > bytes_max else _unpacked(data)
    except zstandard.ZstdError as error:
        raise MalformedRecords(f"zstd: {error}") from None


def _unpacked(data: Bytes) -> bytes:
    """One frame, at once, that says how much it holds."""
    try:
        unpacker = _spare.pop()
    except IndexError:
        unpacker = zstandard.ZstdDecompressor()
    plain = unpacker.decompress(data)
    if len(_spare) < SPARE_MAX:
        _spare.append(unpacker)
    return plain


def _read(data: Bytes, bytes_max: int) -> bytes | None:
    reader = zstandard.ZstdDecompressor(max_window_size=WINDOW_BYTES_MAX).stream_reader(
        data, read_across_frames=True
    )
    parts: list[bytes] = []
    # One byte more than allowed tells "exactly full" from "too much".
    while part := reader.read(min(STEP_BYTES, bytes_max + 1)):
        bytes_max -= len(part)
        if bytes_max < 0:
            return None
        parts.append(part)
    return b"".join(parts)


def _walk_frames(data: memoryview) -> int | None:
    """How many plain bytes there are, where one frame is all and says so."""
    position = frames = 0
    plain_bytes: int | None = None
    blocks_left = BLOCKS_MAX
    while position < len(data) or frames == 0:
        frames += 1
        if frames > FRAMES_MAX:
            raise MalformedRecords(f"zstd: more than {FRAMES_MAX} frames")
        if _is_skippable(data, position):
            position += 8 + int.from_bytes(data[position + 4 : position + 8], "little")
        else:
            plain_bytes = _said_bytes(data, position)
            position, blocks_left = _after_frame(data, position, blocks_left)
    if position > len(data):
        raise MalformedRecords("zstd: the last frame is cut off")
    return plain_bytes if frames == 1 else None


def _said_bytes(data: memoryview, position: int) -> int | None:
    said = zstandard.frame_content_size(data[position : position + 18])
    return None if said < 0 else said


def _is_skippable(data: memoryview, position: int) -> bool:
    magic = data[position : position + 4]
    return magic[1:] == SKIPPABLE_MAGIC and magic[0] & 0xF0 == 0x50


def _after_frame(data: memoryview, position: int, blocks_left: int) -> tuple[int, int]:
    """Where the frame at `position` ends, beyond the data when it is cut off; and how many blocks
    may follow it."""
    head = data[position : position + 18]  # the largest frame header
    parameters = zstandard.get_frame_parameters(head)
    position += zstandard.frame_header_size(head)
    while blocks_left:
        blocks_left -= 1
        # Three bytes, little-endian: last block, type in two bits, size.
        block = int.from_bytes(data[position : position + 3], "little")
        kind, size = block >> 1 & 3, block >> 3
        if kind == _RESERVED:
            raise MalformedRecords("zstd: a block of the reserved type")
        position += 3 + (1 if kind == _RLE else size)
        if block & 1 or position > len(data):
            return position + (4 if parameters.has_checksum else 0), blocks_left
    raise MalformedRecords(f"zstd: more than {BLOCKS_MAX} blocks")
