"""CRC-32C of two runs of bytes side by side, from those of each: nothing is read again.

The CRC of `a + b` is that of `a` with as many zeros behind it as `b` has bytes, with that of `b`
added to it. What zeros do to a CRC is linear over its bits, so it is a matrix of 32 by 32, one
column to a number; that of twice as many zeros is the matrix times itself.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

Matrix = tuple[int, ...]

_POLYNOMIAL: Final = 0x82F63B78
"""Castagnoli's, the lowest power in the highest bit."""
_ONE_ZERO_BIT: Final[Matrix] = (_POLYNOMIAL, *(1 << bit for bit in range(31)))


def joined(first: int, second: int, *, second_bytes: int) -> int:
    """The CRC of both, one behind the other."""
    return _with_zeros(first, second_bytes) ^ second


def joined_blocks(crcs: Sequence[int], *, block_bytes: int) -> int:
    """The CRC of blocks that are equally long."""
    whole = 0
    for crc in crcs:
        whole = _with_zeros(whole, block_bytes) ^ crc
    return whole


def _with_zeros(crc: int, count: int) -> int:
    """That of the same bytes with `count` zeros behind them."""
    power = 0
    while count >> power:
        if count >> power & 1:
            crc = _times(_zeros(power), crc)
        power += 1
    return crc


@lru_cache(64)
def _zeros(power: int) -> Matrix:
    """What 2 ** power zero bytes do."""
    half = _zeros(power - 1) if power else _ONE_ZERO_BIT
    for _ in range(1 if power else 3):
        half = tuple(_times(half, column) for column in half)
    return half


def _times(matrix: Matrix, crc: int) -> int:
    found = 0
    for column in matrix:
        if not crc:
            break
        if crc & 1:
            found ^= column
        crc >>= 1
    return found
