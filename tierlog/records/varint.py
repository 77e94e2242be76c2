"""Zigzag varints: seven bits a byte, least significant first, small numbers of either sign short.

The high bit of a byte says that another follows. A 32-bit number takes at most 5 bytes, a 64-bit
one at most 10; longer ones, and numbers that do not fit, are refused. Padded forms that fit are
read, as Java reads them.
"""

from tierlog.records.errors import MalformedRecords

VARINT_BYTES_MAX = 5
VARLONG_BYTES_MAX = 10


def encode_varint(number: int) -> bytes:
    """Of a number of up to 64 bits; the form is the same for both widths."""
    rest = (number << 1) ^ (number >> 63)
    if rest < 0x80:
        return _ONE_BYTE[rest]
    out = bytearray()
    while rest >= 0x80:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def decode_varint(data: bytes, position: int) -> tuple[int, int]:
    """The 32-bit number at `position`, and the position after it."""
    raw, position = decode_unsigned(data, position, bytes_max=VARINT_BYTES_MAX, bits=32)
    return raw >> 1 ^ -(raw & 1), position


def decode_varlong(data: bytes, position: int) -> tuple[int, int]:
    """The 64-bit number at `position`, and the position after it."""
    raw, position = decode_unsigned(data, position, bytes_max=VARLONG_BYTES_MAX, bits=64)
    return raw >> 1 ^ -(raw & 1), position


def decode_unsigned(data: bytes, position: int, *, bytes_max: int, bits: int) -> tuple[int, int]:
    """The number before the zigzag is undone, and the position after it."""
    raw = shift = 0
    for byte in data[position : position + bytes_max]:
        raw |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            if raw >> bits:
                raise MalformedRecords(f"varint at position {position} exceeds {bits} bits")
            return raw, position + shift // 7
    if position + bytes_max > len(data):
        raise MalformedRecords(f"varint at position {position} is cut off")
    raise MalformedRecords(f"varint at position {position} has more than {bytes_max} bytes")


_ONE_BYTE = tuple(bytes((byte,)) for byte in range(0x80))
