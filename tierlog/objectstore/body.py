"""Bodies that are in memory already, and how an adapter takes one whole."""

from collections.abc import Iterator

from crc32c import crc32c

from tierlog.objectstore.errors import StoreBadRequest
from tierlog.objectstore.port import Body
from tierlog.types import Bytes

PIECE_BYTES_MAX = 1 << 20
"""What `Body.pieces` may give at once."""


class BytesBody:
    """Implements `Body` over bytes that nobody changes."""

    __slots__ = ("_crc32c", "_data")

    def __init__(self, data: Bytes) -> None:
        self._data = memoryview(data).cast("B")
        self._crc32c: int | None = None

    @property
    def size(self) -> int:
        return len(self._data)

    @property
    def crc32c(self) -> int:
        if self._crc32c is None:
            self._crc32c = crc32c(self._data)
        return self._crc32c

    def pieces(self) -> Iterator[Bytes]:
        for start in range(0, len(self._data), PIECE_BYTES_MAX):
            yield self._data[start : start + PIECE_BYTES_MAX]


def read_body(body: Body) -> bytes:
    """All of it, for stores that keep bytes in memory; checked as a store checks what arrives."""
    data = b"".join(body.pieces())
    check_arrived(size=len(data), crc=crc32c(data), body=body)
    return data


def check_arrived(*, size: int, crc: int, body: Body) -> None:
    """Raises `StoreBadRequest` if what arrived is not what the body says of itself."""
    if size != body.size:
        raise StoreBadRequest(f"{size} bytes arrived of a body of {body.size}")
    if crc != body.crc32c:
        raise StoreBadRequest(f"what arrived has CRC-32C {crc:08x}, not {body.crc32c:08x}")
