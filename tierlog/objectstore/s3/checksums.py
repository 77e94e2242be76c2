"""CRC-32C as S3 writes it, and of bytes that were summed in parts.

`combine` answers the CRC of two pieces laid end to end from the CRCs of each. Appending a zero bit
to a message multiplies its CRC by x in the field; appending `n` bytes applies that `8 n` times, by
squaring.
"""

import base64
from collections.abc import Iterable

_POLYNOMIAL = 0x82F63B78
_ONE = 1 << 31
"""The polynomial 1: bits are reflected, so the highest is the constant term."""


def to_header(crc: int) -> str:
    return base64.b64encode(crc.to_bytes(4, "big")).decode()


def from_header(text: str | None) -> int | None:
    """None where the store has none, or one of another kind (`...-3`: a sum over parts' sums)."""
    if not text or "-" in text:
        return None
    try:
        return int.from_bytes(base64.b64decode(text, validate=True), "big")
    except ValueError:  # Not base64, or not even ASCII.
        return None


def combine(parts: Iterable[tuple[int, int]]) -> int:
    """Of `(crc32c, size)` pairs in order. The CRC of nothing is 0."""
    whole = 0
    for crc, size in parts:
        whole = _multiply(whole, _power_of_x(8 * size)) ^ crc
    return whole


def _power_of_x(exponent: int) -> int:
    result, square = _ONE, _ONE >> 1
    while exponent:
        if exponent & 1:
            result = _multiply(result, square)
        square = _multiply(square, square)
        exponent >>= 1
    return result


def _multiply(a: int, b: int) -> int:
    """Product of two polynomials modulo the CRC's."""
    product = 0
    for bit in range(31, -1, -1):
        if a >> bit & 1:
            product ^= b
        b = b >> 1 ^ (_POLYNOMIAL if b & 1 else 0)
    return product
