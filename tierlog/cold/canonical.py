"""Canonical JSON, and its compressed form.

Equal values are equal bytes: keys sorted, no blanks, ASCII only, whole numbers only. So a hash over
the bytes is a hash over the value. Compressed with gzip without time or name, for `zcat` to read.

Reading is bounded: so many bytes after decompression and no more, whatever the object claims.
"""

import json
import zlib

from tierlog.cold.errors import ColdCorrupt
from tierlog.types import Bytes

GZIP = 16 + zlib.MAX_WBITS
"""zlib's word for: with gzip's header and trailer. The time in the header is then 0."""
GZIP_BEGINS = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00"
"""gzip's header as `compress` makes it; one byte for the operating system follows."""
LEVEL = 6
"""9 saves one byte in two hundred and takes half as long again."""

_encode = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
).encode


def to_bytes(value: object) -> bytes:
    return _encode(value).encode("ascii")


def from_bytes(data: Bytes, *, key: str) -> object:
    try:
        return json.loads(bytes(data), parse_float=_no_number, parse_constant=_no_number)
    # A nest of brackets runs into the recursion limit, a huge number into the limit of digits.
    except (ValueError, RecursionError) as fault:
        raise ColdCorrupt(key, f"it is not the JSON it should be: {fault}") from None


def _no_number(text: str) -> object:
    raise ValueError(f"{text[:40]} is not a whole number")


def compress(data: bytes) -> bytes:
    compressor = zlib.compressobj(LEVEL, zlib.DEFLATED, GZIP)
    return compressor.compress(data) + compressor.flush()


def decompress(data: Bytes, *, key: str, size_max: int) -> bytes:
    """The content of one gzip member, which must be all there is, of at most `size_max` bytes."""
    decompressor = zlib.decompressobj(GZIP)
    try:
        found = decompressor.decompress(data, size_max + 1)
    except zlib.error as fault:
        raise ColdCorrupt(key, f"it is not the gzip it should be: {fault}") from None
    if len(found) > size_max:
        raise ColdCorrupt(key, f"it unpacks to more than {size_max} bytes")
    if not decompressor.eof or decompressor.unused_data:
        raise ColdCorrupt(key, "it is cut short, or something lies behind its end")
    return found


def require_plain(data: Bytes, *, key: str) -> None:
    """`ColdCorrupt` where the gzip header holds what we never put there: nobody reads those bytes,
    so nothing else tells that they were changed."""
    if bytes(data[: len(GZIP_BEGINS)]) != GZIP_BEGINS:
        raise ColdCorrupt(key, "its gzip header is not the one that was written")
