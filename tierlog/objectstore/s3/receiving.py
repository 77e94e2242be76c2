"""Taking the body of an answer: a chunk into memory that was used before, the rest as it comes.

A chunk is received by the socket itself, a mebibyte a call: the kernel returns when all of it is
there. Read through http.client, every few packets are a call, and each of them lets go of the
interpreter and waits to have it back, beside as many threads that do the same. The checksum of
every mebibyte is taken by the thread that received it, while its bytes are still near.

What was received is as long as the store announced, or an error of urllib3's. Blocking.
"""

from typing import Any, NamedTuple

import urllib3
from crc32c import crc32c

from tierlog.env import Slabs
from tierlog.env.inkernel import is_plain, receive_in_kernel
from tierlog.objectstore.errors import StoreLies
from tierlog.objectstore.port import CRC_BYTES
from tierlog.objectstore.s3.deadline import Deadline
from tierlog.types import Bytes

PIECE_BYTES = 8 << 20
"""Between two looks at the clock: a usual chunk. Joining pieces costs as much as receiving them."""

SLAB_BYTES_MIN = PIECE_BYTES // 2
"""Less would waste most of one."""
STEP_BYTES = 1 << 20
"""Between two looks at the clock where no piece has to be joined."""
AHEAD_BYTES = 16 << 10
"""More than http.client may have read along with the headers."""


class Body(NamedTuple):
    data: Bytes
    crcs: tuple[int, ...] = ()
    """Of every `CRC_BYTES` of a chunk; nothing of anything else."""


def received(
    response: urllib3.BaseHTTPResponse, deadline: Deadline, bytes_max: int, slabs: Slabs
) -> Body:
    """Raises `StoreLies` if there is more than `bytes_max`."""
    return _to_slab(response, deadline, bytes_max, slabs) or Body(
        _as_it_comes(response, deadline, bytes_max)
    )


def _as_it_comes(response: urllib3.BaseHTTPResponse, deadline: Deadline, bytes_max: int) -> Bytes:
    pieces: list[bytes] = []
    left = bytes_max
    # One byte more than there may be, to see whether there is.
    while piece := response.read(min(PIECE_BYTES, left + 1), decode_content=False):
        pieces.append(piece)
        left -= len(piece)
        if left < 0:
            raise StoreLies(f"the store sends more than the {bytes_max} bytes that were asked for")
        deadline.check()
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _to_slab(
    response: urllib3.BaseHTTPResponse, deadline: Deadline, bytes_max: int, slabs: Slabs
) -> Body | None:
    """A chunk; None for anything else."""
    size = response.length_remaining
    if size is None or not SLAB_BYTES_MIN <= size <= bytes_max:
        return None
    # Not by urllib3's own `readinto`: it copies every byte once more.
    body = getattr(response, "_original_response", None)
    if body is None or not isinstance(response, urllib3.HTTPResponse):
        return None
    view = slabs.take(size)
    if view is None:
        return None
    intake = Intake(view, deadline)
    with response._error_catcher():
        peer = getattr(response.connection, "sock", None)
        if is_plain(peer) and not body.chunked:
            _by_socket(peer, body, intake)
        while intake.left:
            intake.count(body.readinto(intake.room(STEP_BYTES)))
    return Body(view.toreadonly(), tuple(intake.crcs))


class Intake:
    """A slab that is being filled, and the checksums of what is in it."""

    __slots__ = ("_deadline", "_view", "crcs", "done", "left")

    def __init__(self, view: memoryview, deadline: Deadline) -> None:
        self._view = view
        self._deadline = deadline
        self.done = 0
        self.left = len(view)
        self.crcs: list[int] = []

    def room(self, size: int) -> memoryview:
        """For the next bytes, `size` of them at most."""
        return self._view[self.done : self.done + size]

    def count(self, count: int) -> None:
        """So many bytes came in."""
        if not count:
            raise urllib3.exceptions.IncompleteRead(self.done, self.left)
        self.done += count
        self.left -= count
        start = len(self.crcs) * CRC_BYTES
        while self.done >= start + CRC_BYTES or (not self.left and self.done > start):
            self.crcs.append(crc32c(self._view[start : start + CRC_BYTES]))
            start += CRC_BYTES
        self._deadline.check()


def _by_socket(peer: Any, body: Any, intake: Intake) -> None:
    """All but the last byte: with that http.client sees that the answer has ended."""
    early = body.read1(AHEAD_BYTES)  # From here on it holds nothing back.
    intake.room(len(early))[:] = early
    intake.count(len(early))
    receive_in_kernel(peer, lambda: intake.room(min(STEP_BYTES, intake.left - 1)), intake.count)
    body.length = intake.left
