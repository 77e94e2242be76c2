"""The few run-time helpers that compiled codecs share: varints, tag sections, runs of integers.

Everything here is off the fast path: a compiled reader handles the one-byte length and the empty
tag section itself and calls in only for the rest.
"""

from collections.abc import Callable
from functools import lru_cache
from struct import Struct
from typing import Any, Final

from tierlog.types import Bytes
from tierlog.wire.errors import (
    BadLength,
    BadTags,
    EncodeError,
    NullNotAllowed,
    TooManyElements,
    Truncated,
    WireError,
)

ELEMENTS_MAX: Final = 1_000_000
"""Array elements and tagged fields in one message, all nested arrays together."""

STRING_BYTES_MAX: Final = 0x7FFF
"""Kafka's own limit, which the old two-byte length implies, holds in flexible versions too."""

VARINT_BYTES_MAX: Final = 5


def uvarint(value: int) -> bytes:
    """An unsigned varint: seven bits a byte, lowest first, the top bit set on all but the last."""
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_uvarint(buffer: Bytes, position: int) -> tuple[int, int]:
    """The value at the position, and the position after it. IndexError at the end of the bytes."""
    first = buffer[position]
    if first < 0x80:
        return first, position + 1
    return uvarint_tail(buffer, position + 1, first)


def uvarint_tail(buffer: Bytes, position: int, first: int) -> tuple[int, int]:
    """The rest of a varint whose first byte, at least 0x80, has been read already."""
    value = first & 0x7F
    for shift in (7, 14, 21, 28):
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise BadLength(f"a varint longer than {VARINT_BYTES_MAX} bytes")


def skip_tags(buffer: Bytes, position: int, first: int, budget: int) -> tuple[int, int]:
    """Step over a tag section of which nothing is known (KIP-482: unknown tags are skipped).

    `first` is the first byte of the tag count. Returns the position after it and what is left of
    the budget.
    """
    count, position, budget = open_tags(buffer, position, first, budget)
    last = -1
    for _ in range(count):
        last, end, position = next_tag(buffer, position, last)
        position = end
    return position, budget


def open_tags(buffer: Bytes, position: int, first: int, budget: int) -> tuple[int, int, int]:
    """The number of tagged fields, the position of the first, and what is left of the budget."""
    count = first
    if first >= 0x80:
        count, position = uvarint_tail(buffer, position, first)
    # Two bytes each at least: tag and size.
    if 2 * count > len(buffer) - position:
        raise Truncated(f"{count} tagged fields in {len(buffer) - position} bytes")
    if count > budget:
        raise TooManyElements("more elements and tags than one message may have")
    return count, position, budget - count


def next_tag(buffer: Bytes, position: int, last: int) -> tuple[int, int, int]:
    """The next tag, the position where its value ends, and the position where it starts."""
    tag, position = read_uvarint(buffer, position)
    size, position = read_uvarint(buffer, position)
    if tag <= last:
        raise BadTags(f"tag {tag} after tag {last}")
    if size > len(buffer) - position:
        raise Truncated(f"tag {tag} of {size} bytes, {len(buffer) - position} left")
    return tag, position + size, position


def bad_tag_end(tag: int, *, stated_end: int, actual_end: int) -> WireError:
    return BadTags(f"tag {tag} ends at byte {actual_end}, its size says {stated_end}")


def short(limit: int, position: int) -> WireError:
    return Truncated(f"the last field ends at byte {position}, the bytes at {limit}")


def bad_array(buffer: Bytes, position: int, count: int, element_bytes_min: int) -> WireError:
    """Which of the two limits of an array was passed."""
    if count * element_bytes_min > len(buffer) - position:
        return Truncated(
            f"{count} elements of at least {element_bytes_min} bytes, {len(buffer) - position} left"
        )
    return TooManyElements("more elements and tags than one message may have")


def not_a_length(value: int) -> WireError:
    """A negative length: null where there may be none, or no length at all."""
    if value == -1:
        return NullNotAllowed("null is not allowed here")
    return BadLength(f"length {value}")


def long_string(buffer: Bytes, position: int, first: int) -> tuple[str, int]:
    """A compact string of 127 bytes or more, or null where none is allowed.

    `first` is the first byte of the length, `position` that of the next.
    """
    length = first
    if first >= 0x80:
        length, position = uvarint_tail(buffer, position, first)
    if length == 0:
        raise not_a_length(-1)
    if length > STRING_BYTES_MAX + 1:
        raise BadLength(f"a string of {length - 1} bytes, at most {STRING_BYTES_MAX}")
    end = position + length - 1
    return str(buffer[position:end], "utf-8"), end


def string(buffer: Bytes, position: int) -> tuple[str, int]:
    """A string with a length of two bytes."""
    start = position + 2
    length = buffer[position] << 8 | buffer[position + 1]
    if length > STRING_BYTES_MAX:
        raise not_a_length(length - 0x10000)
    return str(buffer[start : start + length], "utf-8"), start + length


def nullable_string(buffer: Bytes, position: int) -> tuple[str | None, int]:
    if buffer[position] == 0xFF and buffer[position + 1] == 0xFF:
        return None, position + 2
    return string(buffer, position)


def text_of_view(view: Bytes) -> str:
    return str(view, "utf-8")


def uvarint_of_string(length_plus_one: int) -> bytes:
    """The compact length of a string too long for one byte."""
    if length_plus_one > STRING_BYTES_MAX + 1:
        raise EncodeError(f"a string of {length_plus_one - 1} bytes, at most {STRING_BYTES_MAX}")
    return uvarint(length_plus_one)


def _runs(code: str) -> Callable[[int], Callable[[Bytes, int], tuple[Any, ...]]]:
    """Finds the function that reads a run of so many numbers at once."""
    return lru_cache(maxsize=256)(lambda count: Struct(f">{count}{code}").unpack_from)


RUN_MAX: Final = 17
"""Runs below this length, such as a partition's replicas, have their functions in a list."""

RUNS: Final = {f"run_{code}": _runs(code) for code in "bhHiIqd"} | {
    f"runs_{code}": [Struct(f">{count}{code}").unpack_from for count in range(RUN_MAX)]
    for code in "bhHiIqd"
}


@lru_cache(maxsize=1024)
def pack_many(code: str, count: int) -> Callable[..., bytes]:
    return Struct(f">{count}{code}").pack
