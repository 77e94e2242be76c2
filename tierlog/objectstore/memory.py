"""A store in this process's memory, for tests: right, immediate and gone with the process."""

from collections.abc import AsyncIterator, Sequence

from tierlog.env import Clock
from tierlog.objectstore.body import read_body
from tierlog.objectstore.port import (
    Body,
    DeleteFailed,
    Doomed,
    Got,
    Part,
    Span,
    Stat,
    Upload,
    Written,
)
from tierlog.objectstore.shelf import Shelf


class MemoryStore:
    """Implements `ObjectStore`."""

    def __init__(self, clock: Clock) -> None:
        self.shelf = Shelf()
        self._clock = clock

    async def get(
        self,
        key: str,
        *,
        span: Span | None = None,
        etag: str | None = None,
        version_id: str | None = None,
    ) -> Got:
        return self.shelf.get(key, span=span, etag=etag, version_id=version_id)

    async def get_tail(self, key: str, size: int) -> Got:
        return self.shelf.get_tail(key, size)

    async def head(self, key: str, *, version_id: str | None = None) -> Stat:
        return self.shelf.stat(key, version_id=version_id)

    async def put(self, key: str, body: Body) -> Written:
        return self.shelf.put(key, read_body(body), now_ms=self._clock.now_ms())

    async def put_if_absent(self, key: str, body: Body) -> Written:
        return self.shelf.put_if_absent(key, read_body(body), now_ms=self._clock.now_ms())

    async def put_if_match(self, key: str, body: Body, *, etag: str) -> Written:
        now_ms = self._clock.now_ms()
        return self.shelf.put_if_match(key, read_body(body), etag=etag, now_ms=now_ms)

    async def list(self, prefix: str, *, after: str = "") -> AsyncIterator[Sequence[Stat]]:
        for page in self.shelf.list(prefix, after=after):
            yield page

    async def delete(self, doomed: Sequence[Doomed]) -> Sequence[DeleteFailed]:
        self.shelf.delete(doomed)
        return ()

    async def copy(self, source: str, target: str) -> Written:
        return self.shelf.copy(source, target, now_ms=self._clock.now_ms())

    async def begin_upload(self, key: str) -> Upload:
        return self.shelf.begin_upload(key, now_ms=self._clock.now_ms())

    async def put_part(self, upload: Upload, number: int, body: Body) -> Part:
        return self.shelf.put_part(upload, number, read_body(body), now_ms=self._clock.now_ms())

    async def complete_upload(
        self, upload: Upload, parts: Sequence[Part], *, crc32c: int
    ) -> Written:
        now_ms = self._clock.now_ms()
        return self.shelf.complete_upload(upload, parts, crc32c=crc32c, now_ms=now_ms)

    async def abort_upload(self, upload: Upload) -> None:
        self.shelf.abort_upload(upload)

    async def list_uploads(self, prefix: str) -> AsyncIterator[Sequence[Upload]]:
        yield self.shelf.list_uploads(prefix)

    async def close(self) -> None:
        """Nothing is held."""
