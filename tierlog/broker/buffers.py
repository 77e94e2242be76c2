"""Receive buffers: one for everybody, and a few for those in the middle of a frame.

A loop fills a buffer and hands it over before it turns to the next connection, so all connections
read into one shared `scratch`; an idle connection holds no buffer at all. One that is left with
the beginning of a large frame keeps the scratch for itself and a fresh one takes its place.
"""

from typing import Final

BUFFER_BYTES: Final = 256 * 1024
"""Where reading in bulk stops gaining; still in the second-level cache."""
FREE_MAX: Final = 16
TAKEN_MAX: Final = 128
"""32 MiB. Beyond this, connections keep exact copies of what they have: slower, but no larger."""


class Buffers:
    """See the module."""

    __slots__ = ("_free", "scratch", "taken")

    def __init__(self) -> None:
        self.scratch = memoryview(bytearray(BUFFER_BYTES))
        self.taken = 0
        self._free: list[memoryview] = []

    @property
    def is_scarce(self) -> bool:
        return self.taken >= TAKEN_MAX

    def take_scratch(self) -> memoryview:
        """The scratch with what is in it. Whoever takes it gives it back."""
        taken = self.scratch
        self.scratch = self._free.pop() if self._free else memoryview(bytearray(BUFFER_BYTES))
        self.taken += 1
        return taken

    def give(self, buffer: memoryview) -> None:
        self.taken -= 1
        if len(self._free) < FREE_MAX:
            self._free.append(buffer)
