"""A body on its way out, checked as it goes.

The last piece leaves only when all bytes have turned out to be what the body said they are: a store
never holds a whole object that was misread from a disk, whether it compares checksums or not.
"""

from collections.abc import Iterator

from crc32c import crc32c

from tierlog.objectstore.errors import StoreBadRequest
from tierlog.objectstore.port import Body
from tierlog.objectstore.s3.deadline import Deadline
from tierlog.types import Bytes


class SendingStopped(Exception):
    """Ends a request from inside; `Sending.error` says why."""


class Sending:
    """The pieces of one body, once.

    An error of the disk must not pass through the HTTP library, which would take it for an error of
    the connection: it is kept here and raised by whoever sent.
    """

    def __init__(self, key: str, body: Body, deadline: Deadline) -> None:
        self.error: Exception | None = None
        self._key = key
        self._body = body
        self._deadline = deadline

    def __iter__(self) -> Iterator[Bytes]:
        try:
            yield from self._checked()
        except Exception as error:
            self.error = error
            raise SendingStopped from error

    def _checked(self) -> Iterator[Bytes]:
        crc, left = 0, self._body.size
        if not left:
            self._compare(crc, left)
        for piece in self._body.pieces():
            self._deadline.check()
            crc, left = crc32c(piece, crc), left - len(piece)
            if left <= 0:
                self._compare(crc, left)
            yield piece
        if left:
            raise StoreBadRequest(f"{self._key}: the body ended {left} bytes early")

    def _compare(self, crc: int, left: int) -> None:
        if left < 0:
            raise StoreBadRequest(f"{self._key}: the body is longer than it said")
        if crc != self._body.crc32c:
            raise StoreBadRequest(
                f"{self._key}: the body has CRC-32C {crc:08x}, not {self._body.crc32c:08x}"
            )
