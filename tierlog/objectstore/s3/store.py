"""A bucket as an `ObjectStore`.

Each call takes a thread of one of three lanes and ends within its time limit, whatever the store
does: the caller is answered then, and the thread stops at its next look at the clock or when its
connection stays silent for too long. A write that was given up may still land: it is AMBIGUOUS.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Concatenate, ParamSpec, TypeVar

from botocore.exceptions import BotoCoreError

from tierlog.env import Env, LocalTasks
from tierlog.objectstore.body import BytesBody
from tierlog.objectstore.errors import (
    NoSuchObject,
    StoreBadRequest,
    StoreDenied,
    StoreUnavailable,
)
from tierlog.objectstore.keys import check_key
from tierlog.objectstore.port import (
    Body,
    DeleteFailed,
    Doomed,
    Got,
    Outcome,
    Part,
    Span,
    Stat,
    Upload,
    Written,
)
from tierlog.objectstore.s3.control import Control, open_control
from tierlog.objectstore.s3.deadline import Deadline
from tierlog.objectstore.s3.door import Door
from tierlog.objectstore.s3.listing import PAGE_KEYS, Listing, UploadMark, check_order
from tierlog.objectstore.s3.multipart import Multipart
from tierlog.objectstore.s3.objects import Objects, quoted
from tierlog.objectstore.s3.settings import S3Settings
from tierlog.objectstore.s3.transport import Transport

P = ParamSpec("P")
T = TypeVar("T")

SMALL_BYTES = 1 << 20
"""A body up to this goes by the small lane: a manifest must not wait behind segments."""


class S3Store:
    """Implements `ObjectStore` for the keys of `bucket` below `prefix`."""

    def __init__(
        self, env: Env, *, bucket: str, prefix: str = "", settings: S3Settings | None = None
    ) -> None:
        self._env = env
        self._prefix = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
        self._settings = settings = settings or S3Settings()
        control = _opened(bucket, settings)
        self._client = control.client
        self._door = door = Door(bucket, settings.endpoint or control.base)
        self._transport = Transport(control, door, settings)
        self._objects = Objects(self._transport)
        self._listing = Listing(control.client, door)
        self._multipart = Multipart(control.client, door)
        self._reads = LocalTasks(thread_count=settings.reads_max)
        self._writes = LocalTasks(thread_count=settings.writes_max)
        self._small = LocalTasks(thread_count=settings.small_max)
        self._reads.start_threads()

    # Reading

    async def get(
        self,
        key: str,
        *,
        span: Span | None = None,
        etag: str | None = None,
        version_id: str | None = None,
    ) -> Got:
        lane, size = (self._small, 0) if span is None else (self._reads, _checked(span).size)
        path = self._path(key)
        got = await self._bounded(lane, size, self._objects.get, path, span, etag, version_id)
        return replace(got, stat=self._ours(got.stat))

    async def get_tail(self, key: str, size: int) -> Got:
        if size < 1:
            raise StoreBadRequest(f"{key}: a tail of {size} bytes")
        path = self._path(key)
        got = await self._bounded(self._reads, size, self._objects.get_tail, path, size)
        return replace(got, stat=self._ours(got.stat))

    async def head(self, key: str, *, version_id: str | None = None) -> Stat:
        path = self._path(key)
        return self._ours(await self._bounded(self._small, 0, self._objects.head, path, version_id))

    # Writing

    async def put(self, key: str, body: Body) -> Written:
        return await self._put(key, body, {})

    async def put_if_absent(self, key: str, body: Body) -> Written:
        return await self._put(key, body, {"if-none-match": "*"})

    async def put_if_match(self, key: str, body: Body, *, etag: str) -> Written:
        return await self._put(key, body, {"if-match": quoted(etag)})

    async def _put(self, key: str, body: Body, condition: dict[str, str]) -> Written:
        lane, path = self._lane_of(body), self._path(key)
        return await _or_ambiguous(
            self._bounded(lane, body.size, self._objects.put, path, body, condition)
        )

    async def copy(self, source: str, target: str) -> Written:
        origin, path = self._path(source), self._path(target)
        if not (await self.head(source)).size:
            return await self.put_if_absent(target, BytesBody(b""))
        return await _or_ambiguous(self._plain(self._multipart.copy, origin, path))

    # Listing and deleting

    async def list(self, prefix: str, *, after: str = "") -> AsyncIterator[Sequence[Stat]]:
        last = start = self._prefix + after if after else ""
        token: str | None = ""
        while token is not None:
            page = await self._plain(self._listing.stats, self._prefix + prefix, start, token)
            last = check_order(page.stats, last)
            if page.stats:
                yield [self._ours(stat) for stat in page.stats]
            token = page.next or None

    async def delete(self, doomed: Sequence[Doomed]) -> Sequence[DeleteFailed]:
        if len(doomed) > PAGE_KEYS:
            raise StoreBadRequest(f"{len(doomed)} keys to delete at once; {PAGE_KEYS} is the limit")
        if not doomed:
            return ()
        whole = [Doomed(self._path(key), version_id) for key, version_id in doomed]
        failed = await self._plain(self._listing.delete, whole)
        return [DeleteFailed(self._key(each.key), each.reason) for each in failed]

    # Multipart uploads

    async def begin_upload(self, key: str) -> Upload:
        begun = await self._plain(self._multipart.begin, self._path(key))
        return replace(begun, key=key, begun_ms=self._env.clock.now_ms())

    async def put_part(self, upload: Upload, number: int, body: Body) -> Part:
        lane, path = self._lane_of(body), self._path(upload.key)
        return await self._bounded(
            lane, body.size, self._objects.put_part, path, upload, number, body
        )

    async def complete_upload(
        self, upload: Upload, parts: Sequence[Part], *, crc32c: int
    ) -> Written:
        whole = replace(upload, key=self._path(upload.key))
        return await _or_ambiguous(self._plain(self._multipart.complete, whole, parts, crc32c))

    async def abort_upload(self, upload: Upload) -> None:
        whole = replace(upload, key=self._path(upload.key))
        try:
            await self._plain(self._multipart.abort, whole)
        except NoSuchObject:
            return

    async def list_uploads(self, prefix: str) -> AsyncIterator[Sequence[Upload]]:
        mark: UploadMark | None = UploadMark()
        while mark is not None:
            page = await self._plain(self._listing.uploads, self._prefix + prefix, mark)
            if page.uploads:
                yield [replace(each, key=self._key(each.key)) for each in page.uploads]
            mark = page.next

    async def close(self) -> None:
        """Waits for threads that are still in a call, without holding up the loop."""
        for lane in (self._reads, self._writes, self._small):
            await self._env.tasks.in_thread(lane.close)
        self._transport.close()
        self._client.close()

    # How a call is made

    async def _bounded(
        self,
        lane: LocalTasks,
        size: int,
        call: Callable[Concatenate[Deadline, P], T],
        *args: P.args,
        **_: P.kwargs,
    ) -> T:
        """By a call that looks at the clock, too."""
        deadline = Deadline(self._env.clock, self._settings.limit_s(size))
        try:
            async with asyncio.timeout(self._settings.limit_s(size)):
                return await lane.in_thread(call, deadline, *args)
        except TimeoutError as error:
            raise self._late() from error
        finally:
            deadline.drop()

    async def _plain(self, call: Callable[P, T], *args: P.args, **_: P.kwargs) -> T:
        """By a call that carries little and waits for the store only."""
        try:
            async with asyncio.timeout(self._settings.call_s):
                return await self._small.in_thread(call, *args)
        except TimeoutError as error:
            raise self._late() from error

    def _late(self) -> StoreUnavailable:
        return StoreUnavailable(f"{self._door.host} did not answer within the time limit")

    def _lane_of(self, body: Body) -> LocalTasks:
        return self._small if body.size <= SMALL_BYTES else self._writes

    def _path(self, key: str) -> str:
        return check_key(self._prefix + check_key(key))

    def _key(self, path: str) -> str:
        return path.removeprefix(self._prefix)

    def _ours(self, stat: Stat) -> Stat:
        return replace(stat, key=self._key(stat.key)) if self._prefix else stat


def _opened(bucket: str, settings: S3Settings) -> Control:
    """A profile that is missing, half a pair of keys, a region with a blank in it."""
    try:
        return open_control(bucket, settings)
    except BotoCoreError as error:
        raise StoreDenied(f"s3://{bucket}: see the AWS settings of this machine: {error}") from None


async def _or_ambiguous(call: Awaitable[Written]) -> Written:
    """Nobody knows whether a write that was not answered took place."""
    try:
        return await call
    except StoreUnavailable as error:
        return Written(outcome=Outcome.AMBIGUOUS, detail=str(error))


def _checked(span: Span) -> Span:
    if not 0 <= span.start < span.end:
        raise StoreBadRequest(f"{span} is not a range")
    return span
