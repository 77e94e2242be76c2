"""Cuts a stream of bytes into frames, however it arrives."""

from collections.abc import Iterator

from tierlog.types import Bytes
from tierlog.wire.framing import FRAME_BYTES_MAX, split_frames


class FrameCutter:
    """Feed it what arrived; it gives back the frames that are complete, without their prefix."""

    __slots__ = ("_bytes_max", "_held")

    def __init__(self, *, bytes_max: int = FRAME_BYTES_MAX) -> None:
        self._held = bytearray()
        self._bytes_max = bytes_max

    def feed(self, data: Bytes) -> Iterator[bytes]:
        """Raises BadFrame at a size that cannot be; what came before it was given out."""
        self._held += data
        taken = 0
        try:
            for start, end in split_frames(self._held, bytes_max=self._bytes_max):
                taken = end
                yield bytes(memoryview(self._held)[start:end])
        finally:
            del self._held[:taken]
