"""The four codecs of record batches, and none.

`decompress` reads what any client writes. Output is made in steps, stopped at the bound that
`Limits` set, and joined at the end, so the pieces and the whole live side by side for a moment.
Measured over all codecs, resident memory grows by twice the output, and what is asked of the
allocator is at most 2.2 times the bound, beside a codec's own tables. What is accepted:

    gzip    one or more members, as Java reads them
    snappy  raw (librdkafka) or xerial framing (Java); see `snappy.py`
    lz4     exactly one frame: Java stops reading after the first, librdkafka refuses a second
    zstd    one or more frames, skippable ones ignored, as Java and librdkafka do; see `zstd.py`

Empty or truncated input and bytes after the end are errors in every codec: two readers might
otherwise see different records in the same batch. `compress` writes what Java would.
"""

import zlib
from collections.abc import Callable

import lz4.frame

from tierlog.records import snappy, zstd
from tierlog.records.attributes import Codec
from tierlog.records.errors import InflatedTooLarge, MalformedRecords
from tierlog.records.limits import DEFAULT_LIMITS, Limits
from tierlog.types import Bytes

GZIP_MEMBERS_MAX = 100
"""Clients write one. Each costs its set-up and a copy of all that follows it."""

_GZIP_WINDOW = 16 + zlib.MAX_WBITS
_LZ4_MAGIC = b"\x04\x22\x4d\x18"


def compress(codec: Codec, data: Bytes) -> bytes:
    return _COMPRESS[codec](data)


def decompress(codec: Codec, data: Bytes, *, limits: Limits = DEFAULT_LIMITS) -> bytes:
    """Plain bytes. `InflatedTooLarge` beyond the limits, `MalformedRecords` when unreadable."""
    inflated = _DECOMPRESS[codec](data, limits.inflated_bytes_max(len(data)))
    if inflated is None:
        raise InflatedTooLarge(
            codec=codec.name.lower(),
            compressed_bytes=len(data),
            inflated_bytes_max=limits.inflated_bytes_max(len(data)),
        )
    return inflated


# Each reader below returns None when the output would pass `bytes_max`.


def _plain(data: Bytes, bytes_max: int) -> bytes | None:
    """Nothing grows here, so no bound applies: the batch itself was bounded."""
    return bytes(data)


def _gunzip(data: Bytes, bytes_max: int) -> bytes | None:
    parts: list[bytes] = []
    for _ in range(GZIP_MEMBERS_MAX):
        member = zlib.decompressobj(wbits=_GZIP_WINDOW)
        try:
            # One byte more than allowed tells "exactly full" from "too much".
            parts.append(member.decompress(data, bytes_max + 1))
        except zlib.error as error:
            raise MalformedRecords(f"gzip: {error}") from None
        bytes_max -= len(parts[-1])
        if bytes_max < 0:
            return None
        if not member.eof:
            raise MalformedRecords("gzip: the data ends before its end mark")
        data = member.unused_data
        if not data:
            return b"".join(parts)
    raise MalformedRecords(f"gzip: more than {GZIP_MEMBERS_MAX} members")


def _gzip(data: Bytes) -> bytes:
    packer = zlib.compressobj(wbits=_GZIP_WINDOW)
    return packer.compress(data) + packer.flush()


def _unlz4(data: Bytes, bytes_max: int) -> bytes | None:
    # The library would also skip a skippable frame and call that the end.
    if bytes(data[:4]) != _LZ4_MAGIC:
        raise MalformedRecords("lz4: no frame begins here")
    frame = lz4.frame.LZ4FrameDecompressor()
    try:
        inflated: bytes = frame.decompress(data, max_length=bytes_max + 1)
    except RuntimeError as error:
        raise MalformedRecords(f"lz4: {error}") from None
    if len(inflated) > bytes_max:
        return None
    if not frame.eof:
        raise MalformedRecords("lz4: the frame ends before its end mark")
    if frame.unused_data:
        raise MalformedRecords(f"lz4: {len(frame.unused_data)} bytes follow the frame")
    return inflated


def _lz4(data: Bytes) -> bytes:
    # Independent blocks of 64 KiB: Java's reader knows no linked ones (KIP-57).
    packed: bytes = lz4.frame.compress(
        data,
        block_linked=False,
        block_size=lz4.frame.BLOCKSIZE_MAX64KB,
        store_size=False,
    )
    return packed


_COMPRESS: dict[Codec, Callable[[Bytes], bytes]] = {
    Codec.NONE: bytes,
    Codec.GZIP: _gzip,
    Codec.SNAPPY: snappy.compress_xerial,
    Codec.LZ4: _lz4,
    Codec.ZSTD: zstd.compress,
}
_DECOMPRESS: dict[Codec, Callable[[Bytes, int], bytes | None]] = {
    Codec.NONE: _plain,
    Codec.GZIP: _gunzip,
    Codec.SNAPPY: snappy.decompress,
    Codec.LZ4: _unlz4,
    Codec.ZSTD: zstd.decompress,
}
