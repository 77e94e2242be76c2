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
    return _times(_zeros(second_bytes), first) ^ second


def joined_blocks(crcs: Sequence[int], *, block_bytes: int) -> int:
    """The CRC of blocks that are equally long."""
    zeros = _zeros(block_bytes)
    whole = 0
    for crc in crcs:
        whole = _times(zeros, whole) ^ crc
    return whole


@lru_cache(64)
def _zeros(count: int) -> Matrix:
    """What so many zero bytes do."""
    made: Matrix = tuple(1 << bit for bit in range(32))
    power = _ONE_ZERO_BIT
    bits = 8 * count
    while bits:
        if bits & 1:
            made = _product(power, made)
        power = _product(power, power)
        bits >>= 1
    return made


def _product(left: Matrix, right: Matrix) -> Matrix:
    return tuple(_times(left, column) for column in right)


def _times(matrix: Matrix, crc: int) -> int:
    found = 0
    for column in matrix:
        if not crc:
            break
        if crc & 1:
            found ^= column
        crc >>= 1
    return found
