"""Frames: a four-byte size, then that many bytes.

A size below one or beyond the limit means that the other side does not speak Kafka, or means
harm; nothing after it can be understood, so the connection ends there. A TLS or HTTP client that
came to the wrong port is recognised by its first bytes, for the sake of whoever reads the log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tierlog.wire.errors import BadFrame

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tierlog.types import Bytes

SIZE_BYTES: Final = 4
FRAME_BYTES_MAX: Final = 100 * 1024 * 1024
"""Kafka's default of socket.request.max.bytes."""
FRAME_BYTES_MAX_BEFORE_LOGIN: Final = 512 * 1024
"""Until SASL is done nobody has a reason to send more."""

_STRANGERS: Final = {
    b"\x16\x03": "this looks like TLS on a plain port",
    b"\x15\x03": "this looks like a TLS alert on a plain port",
}
"""By the first two bytes."""

_HTTP_METHODS: Final = frozenset(
    word[:SIZE_BYTES]
    for word in (
        b"GET /",
        b"PUT /",
        b"HEAD",
        b"POST",
        b"PATCH",
        b"TRACE",
        b"DELETE",
        b"CONNECT",
        b"OPTIONS",
    )
)
"""As much of each as a prefix shows. Read as a size, all are beyond 1 GiB, hence no frame's."""


def frame_size(prefix: Bytes, *, bytes_max: int = FRAME_BYTES_MAX) -> int:
    """The size that a prefix of four bytes states, if a Kafka client could have sent it."""
    size = int.from_bytes(prefix[:SIZE_BYTES], "big", signed=True)
    if 0 < size <= bytes_max:
        return size
    hint = _hint(bytes(prefix[:SIZE_BYTES]))
    limits = f"a frame of {size} bytes, allowed are 1 to {bytes_max}"
    raise BadFrame(f"{limits}; {hint}" if hint else limits)


def _hint(prefix: bytes) -> str:
    if prefix in _HTTP_METHODS:
        return "this looks like HTTP"
    return _STRANGERS.get(prefix[:2], "")


def split_frames(buffer: Bytes, *, bytes_max: int = FRAME_BYTES_MAX) -> Iterator[tuple[int, int]]:
    """The ranges `[start, end)` of the complete frames in a buffer, prefixes left out.

    What follows the last end is the beginning of a frame still under way. Raises BadFrame when it
    meets a size that cannot be.
    """
    position, limit = 0, len(buffer)
    while position + SIZE_BYTES <= limit:
        start = position + SIZE_BYTES
        end = start + frame_size(buffer[position:start], bytes_max=bytes_max)
        if end > limit:
            return
        yield start, end
        position = end


def framed(parts: list[Bytes]) -> list[Bytes]:
    """The parts of a body with their size before them."""
    return [sum(map(len, parts)).to_bytes(SIZE_BYTES, "big"), *parts]
