"""The pattern of every wrapper: each request of the port passes one place.

`Around` passes all calls on. A wrapper overrides `_around` and sees every request, with its name,
its key and its size; a listing is one request for each page.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import NamedTuple, TypeVar

from tierlog.objectstore.port import (
    Body,
    DeleteFailed,
    Doomed,
    Got,
    ObjectStore,
    Part,
    Span,
    Stat,
    Upload,
    Written,
)

T = TypeVar("T")

WRITES = frozenset({"put", "put_if_absent", "put_if_match", "copy", "complete_upload"})
"""Calls that answer with an outcome, and so may answer AMBIGUOUS."""


class Request(NamedTuple):
    name: str
    """Of the port's method."""
    key: str
    """Or the prefix; of several, the first."""
    size: int = 0
    """Bytes to be written."""
    page: int = 0
    """Of a listing, from 0."""


class Around:
    """Implements `ObjectStore` over another one."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    async def _around(self, request: Request, call: Callable[[], Awaitable[T]]) -> T:
        return await call()

    async def get(
        self,
        key: str,
        *,
        span: Span | None = None,
        etag: str | None = None,
        version_id: str | None = None,
    ) -> Got:
        return await self._around(
            Request("get", key),
            lambda: self._store.get(key, span=span, etag=etag, version_id=version_id),
        )

    async def get_tail(self, key: str, size: int) -> Got:
        return await self._around(Request("get_tail", key), lambda: self._store.get_tail(key, size))

    async def head(self, key: str, *, version_id: str | None = None) -> Stat:
        return await self._around(
            Request("head", key), lambda: self._store.head(key, version_id=version_id)
        )

    async def put(self, key: str, body: Body) -> Written:
        return await self._around(
            Request("put", key, body.size), lambda: self._store.put(key, body)
        )

    async def put_if_absent(self, key: str, body: Body) -> Written:
        return await self._around(
            Request("put_if_absent", key, body.size),
            lambda: self._store.put_if_absent(key, body),
        )

    async def put_if_match(self, key: str, body: Body, *, etag: str) -> Written:
        return await self._around(
            Request("put_if_match", key, body.size),
            lambda: self._store.put_if_match(key, body, etag=etag),
        )

    async def list(self, prefix: str, *, after: str = "") -> AsyncIterator[Sequence[Stat]]:
        async for page in self._pages("list", prefix, self._store.list(prefix, after=after)):
            yield page

    async def _pages(
        self, name: str, prefix: str, pages: AsyncIterator[Sequence[T]]
    ) -> AsyncIterator[Sequence[T]]:
        number = 0
        while True:
            page = await self._around(
                Request(name, prefix, page=number), lambda: anext(pages, None)
            )
            if page is None:
                return
            yield page
            number += 1

    async def delete(self, doomed: Sequence[Doomed]) -> Sequence[DeleteFailed]:
        first = doomed[0].key if doomed else ""
        return await self._around(Request("delete", first), lambda: self._store.delete(doomed))

    async def copy(self, source: str, target: str) -> Written:
        return await self._around(Request("copy", target), lambda: self._store.copy(source, target))

    async def begin_upload(self, key: str) -> Upload:
        return await self._around(
            Request("begin_upload", key), lambda: self._store.begin_upload(key)
        )

    async def put_part(self, upload: Upload, number: int, body: Body) -> Part:
        return await self._around(
            Request("put_part", upload.key, body.size),
            lambda: self._store.put_part(upload, number, body),
        )

    async def complete_upload(
        self, upload: Upload, parts: Sequence[Part], *, crc32c: int
    ) -> Written:
        return await self._around(
            Request("complete_upload", upload.key),
            lambda: self._store.complete_upload(upload, parts, crc32c=crc32c),
        )

    async def abort_upload(self, upload: Upload) -> None:
        await self._around(
            Request("abort_upload", upload.key), lambda: self._store.abort_upload(upload)
        )

    async def list_uploads(self, prefix: str) -> AsyncIterator[Sequence[Upload]]:
        async for page in self._pages("list_uploads", prefix, self._store.list_uploads(prefix)):
            yield page

    async def close(self) -> None:
        await self._store.close()
