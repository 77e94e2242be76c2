"""The receive buffer of one connection, between reads.

Bytes are read into the shared scratch. What remains of it after the complete frames were handled is
kept in one of three ways: a little is copied aside (`_stash`); more keeps the scratch itself, as
`_own`; a frame larger than that gets a buffer of its own, which grows with what has arrived, not
with what was announced.

Always holds: what was received and not handled is `[_start, _end)` of `_own`, or without one the
first `_end` bytes of `_stash`.
"""

from __future__ import annotations

import asyncio
from struct import Struct
from typing import TYPE_CHECKING, Final

from tierlog.broker.buffers import BUFFER_BYTES
from tierlog.wire.framing import SIZE_BYTES

if TYPE_CHECKING:
    from tierlog.broker.buffers import Buffers

STASH_BYTES_MAX: Final = 16 * 1024
"""Up to here copying is cheaper than holding a buffer."""
GROWTH: Final = 4
"""Few copies for a frame of some megabytes; at most so many times what was received."""

size_at = Struct(">i").unpack_from


class Receiver(asyncio.BufferedProtocol):
    """See the module."""

    def __init__(self, buffers: Buffers) -> None:
        self._buffers = buffers
        self._own: memoryview | None = None
        self._stash = b""
        self._start = self._end = 0

    def get_buffer(self, sizehint: int) -> memoryview:
        own, end = self._own, self._end
        if own is not None:
            return own[end:]
        scratch = self._buffers.scratch
        if not end:
            return scratch
        scratch[:end] = self._stash
        return scratch[end:]

    @property
    def is_mid_frame(self) -> bool:
        return self._end > self._start

    @property
    def kept_bytes(self) -> int:
        """Memory held between reads, beyond what every connection may."""
        if self._own is not None:
            return len(self._own)
        return self._end if self._end > STASH_BYTES_MAX else 0

    def _load(self) -> memoryview:
        """What `_start` and `_end` point into, outside of a read."""
        if self._own is not None:
            return self._own
        if self._end:
            self._buffers.scratch[: self._end] = self._stash
        return self._buffers.scratch

    def _keep(self, view: memoryview, start: int, end: int) -> None:
        """Put `[start, end)` where the next read finds it."""
        count = end - start
        own = self._own
        if not count:
            self._start = self._end = 0
            # A large one stays for the next large frame, until the connection falls quiet.
            if own is not None and len(own) == BUFFER_BYTES:
                self._give_back()
            return
        if own is None and (count <= STASH_BYTES_MAX or self._must_spare(count)):
            self._stash = bytes(view[start:end])
            self._start, self._end = 0, count
            return
        if own is None:
            own = self._own = self._buffers.take_scratch()
            self._stash = b""
        self._start, self._end = start, end
        self._move_to_front(own)

    def _must_spare(self, count: int) -> bool:
        return self._buffers.is_scarce and count < BUFFER_BYTES

    def _move_to_front(self, own: memoryview) -> None:
        """Make room at the end, if the frame under way does not fit where it stands."""
        start, end = self._start, self._end
        if start and start + self._frame_bytes(own) > len(own):
            own[: end - start] = own[start:end]
            self._start, self._end = 0, end - start

    def _frame_bytes(self, own: memoryview) -> int:
        if self._end - self._start < SIZE_BYTES:
            return len(own)  # Not known yet; as much as there is.
        return SIZE_BYTES + int(size_at(own, self._start)[0])

    @property
    def _is_filling(self) -> bool:
        """Whether the buffer has room for more of the frame under way."""
        own = self._own
        return own is not None and self._end - self._start < min(len(own), self._frame_bytes(own))

    @property
    def _must_grow(self) -> bool:
        own = self._own
        return own is not None and self._end - self._start == len(own) < self._frame_bytes(own)

    @property
    def _has_large_buffer(self) -> bool:
        return self._own is not None and len(self._own) > BUFFER_BYTES

    def _grow(self, *, at_once: bool) -> None:
        own = self._own
        assert own is not None
        frame_bytes = self._frame_bytes(own)
        larger = memoryview(
            bytearray(frame_bytes if at_once else min(len(own) * GROWTH, frame_bytes))
        )
        larger[: len(own)] = own
        self._give_back()
        self._own = larger

    def _let_go_of_empty(self) -> None:
        if self._own is not None and not self.is_mid_frame:
            self._give_back()

    def _drop_buffer(self) -> None:
        self._give_back()
        self._stash = b""
        self._start = self._end = 0

    def _give_back(self) -> None:
        own, self._own = self._own, None
        if own is not None and len(own) == BUFFER_BYTES:
            self._buffers.give(own)
