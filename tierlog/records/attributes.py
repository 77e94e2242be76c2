"""The attributes field of a batch: sixteen bits, seven of them with a meaning.

Bits 0-2 name the codec, then one bit each: 3 log append time, 4 transactional, 5 control, 6 delete
horizon (KIP-534: the base timestamp is the time at which tombstones may go). Nobody may set the
others until the protocol gives them a meaning, so that old data never changes its sense.
"""

from enum import IntEnum


class Codec(IntEnum):
    """How the records of a batch are compressed; the numbers are the protocol's."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40

KNOWN = CODEC_MASK | LOG_APPEND_TIME | TRANSACTIONAL | CONTROL | DELETE_HORIZON

# Sets, since one look-up is cheaper on the hot path than a chain of masks.
PRODUCED = frozenset(codec | flag for codec in Codec for flag in (0, TRANSACTIONAL))
STORED = frozenset(bits for bits in range(KNOWN + 1) if bits & CODEC_MASK <= Codec.ZSTD)
