"""Messages to bytes and back: the plain functions over the compiled codecs."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from tierlog.wire.compiler import reader, writer
from tierlog.wire.errors import TrailingBytes
from tierlog.wire.primitives import ELEMENTS_MAX

if TYPE_CHECKING:
    from tierlog.types import Bytes
    from tierlog.wire.schema import Message

M = TypeVar("M", bound="Message")


def decode(message: type[M], version: int, buffer: Bytes, position: int = 0) -> tuple[M, int]:
    """Read one message from the position on; returns it and the position after it.

    `records` fields are views into the buffer and live only as long as its bytes stay untouched;
    everything else is copied out.
    """
    return reader(message, version)(buffer, position)


def decode_whole(
    message: type[M],
    version: int,
    buffer: Bytes,
    position: int = 0,
    *,
    elements_max: int = ELEMENTS_MAX,
) -> M:
    """Read a message that ends where the buffer ends, as requests and responses do."""
    made, end = reader(message, version)(buffer, position, elements_max)
    if end != len(buffer):
        raise TrailingBytes(
            f"{len(buffer) - end} bytes after the message",
            message=message.__name__,
            version=version,
            position=end,
        )
    return made


def encode_parts(message: Message, version: int) -> list[Bytes]:
    """The bytes as parts for one gathering write. Each `records` value is a part, uncopied."""
    return writer(type(message), version)(message)


def encode(message: Message, version: int) -> bytes:
    """The bytes, in one piece."""
    return b"".join(writer(type(message), version)(message))
