"""The folder store: the port over files.

Crash-safe: an object is drafted elsewhere and synced, then takes its name, then the name is synced;
a crash leaves the old state or the new one, and drafts that the next writer sweeps. Conditional
writes hold between processes on one machine, by the kernel's locks; network file systems that fake
locks are not for this. A key cannot be an object and the folder of others at once.

What blocks runs in threads, few at a time: the log's own syncs need them, too.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, TypeVar

from tierlog.env import Env
from tierlog.objectstore.errors import NoSuchObject
from tierlog.objectstore.folder.doors import uncertain, working
from tierlog.objectstore.folder.drafts import Draft
from tierlog.objectstore.folder.files import Busy, Files
from tierlog.objectstore.folder.room import FloorOf, no_floor
from tierlog.objectstore.folder.uploads import PartsBody, Uploads
from tierlog.objectstore.folder.walk import OWN, keys_below
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
from tierlog.objectstore.shelf import PAGE_COUNT_MAX, check_doomed, check_tail, lost

T = TypeVar("T")

THREAD_COUNT_MAX = 4
LOCK_WAIT_SECONDS_MAX = 10.0
"""Locks are held for milliseconds; a process that was stopped may hold one for ever."""
PAUSE_SECONDS_MIN = 0.001
PAUSE_SECONDS_MAX = 0.05


class FolderStore:
    """Implements `ObjectStore`."""

    def __init__(self, env: Env, path: str, *, floor_of: FloorOf = no_floor) -> None:
        self._env = env
        self._root = path.rstrip("/")
        self._files = Files(env, self._root, floor_of=floor_of)
        self._uploads = Uploads(env, f"{self._root}/{OWN}/uploads", self._files.drafts)
        self._threads = asyncio.Semaphore(THREAD_COUNT_MAX)
        self._abandoned: set[asyncio.Future[Any]] = set()
        """What goes on in threads although nobody waits for it: drafts, and their removal."""
        self._beginning = asyncio.Lock()

    # Reading

    async def get(
        self,
        key: str,
        *,
        span: Span | None = None,
        etag: str | None = None,
        version_id: str | None = None,
    ) -> Got:
        _check_version(key, version_id)
        return await self._run(lambda: self._files.get(key, span=span, etag=etag))

    async def get_tail(self, key: str, size: int) -> Got:
        check_tail(key, size)
        return await self._run(lambda: self._files.get(key, span=None, etag=None, tail=size))

    async def head(self, key: str, *, version_id: str | None = None) -> Stat:
        _check_version(key, version_id)
        return await self._run(lambda: self._files.stat(key))

    async def list(self, prefix: str, *, after: str = "") -> AsyncIterator[Sequence[Stat]]:
        keys = keys_below(self._env.disk, self._root, prefix=prefix, after=after)
        while page := await self._run(lambda: self._files.page(keys, PAGE_COUNT_MAX)):
            yield page

    # Writing

    async def put(self, key: str, body: Body) -> Written:
        return await self._put(key, body)

    async def put_if_absent(self, key: str, body: Body) -> Written:
        return await self._put(key, body, absent=True)

    async def put_if_match(self, key: str, body: Body, *, etag: str) -> Written:
        if not etag:
            return lost("no object has an empty ETag")
        return await self._put(key, body, etag=etag)

    async def copy(self, source: str, target: str) -> Written:
        found = await self.head(source)
        assert found.crc32c is not None, "a folder knows every sum"
        only = Part(1, found.etag, found.size, found.crc32c)
        parts = [(self._files.path(source), only)]
        body = PartsBody(self._env.disk, parts, found.crc32c)
        return await self.put_if_absent(target, body)

    async def delete(self, doomed: Sequence[Doomed]) -> Sequence[DeleteFailed]:
        check_doomed(doomed)
        await self._begin()
        answers = [await self._delete(each.key) for each in doomed if each.version_id is None]
        return [each for each in answers if each is not None]

    async def _delete(self, key: str) -> DeleteFailed | None:
        try:
            return await self._when_free(lambda: self._files.delete(key))
        except Busy:
            return DeleteFailed(key, "somebody holds its lock")

    async def _put(self, key: str, body: Body, *, absent: bool = False, etag: str = "") -> Written:
        await self._begin()
        draft = await self._draft(key, body)
        is_over = False
        try:
            written = await self._when_free(
                lambda: self._files.publish(key, draft, absent=absent, etag=etag)
            )
            is_over = True
        except Busy:
            written = uncertain("somebody holds the lock of this key")
        finally:
            if not is_over:
                self._drop(draft)
        return written

    async def _begin(self) -> None:
        async with self._beginning:
            if not self._files.drafts.has_begun:
                await self._run(self._files.begin)

    async def _draft(self, key: str, body: Body) -> Draft:
        async with self._threads:
            drafting = self._env.tasks.in_thread(self._files.draft, key, body)
            try:
                return await asyncio.shield(drafting)
            except asyncio.CancelledError:
                self._abandoned.add(drafting)
                drafting.add_done_callback(self._drop_late)
                raise

    def _drop_late(self, drafting: asyncio.Future[Draft]) -> None:
        self._abandoned.discard(drafting)
        if not drafting.cancelled() and drafting.exception() is None:
            self._drop(drafting.result())

    def _drop(self, draft: Draft) -> None:
        dropping = self._env.tasks.in_thread(self._files.drafts.drop, draft.path)
        self._abandoned.add(dropping)
        dropping.add_done_callback(self._abandoned.discard)

    async def _when_free(self, call: Callable[[], T]) -> T:
        """Try until the lock of the key was free. Raises `Busy` when it took too long."""
        end = self._env.clock.monotonic() + LOCK_WAIT_SECONDS_MAX
        pause = PAUSE_SECONDS_MIN
        while True:
            try:
                return await self._run(call)
            except Busy:
                if self._env.clock.monotonic() > end:
                    raise
            await asyncio.sleep(pause * (0.5 + self._env.rng.random()))
            pause = min(2 * pause, PAUSE_SECONDS_MAX)

    # Multipart uploads

    async def begin_upload(self, key: str) -> Upload:
        self._files.path(key)
        await self._begin()
        return await self._run(lambda: self._uploads.begin(key))

    async def put_part(self, upload: Upload, number: int, body: Body) -> Part:
        await self._begin()
        async with self._threads:
            return await self._env.tasks.in_thread(self._uploads.put_part, upload, number, body)

    async def complete_upload(
        self, upload: Upload, parts: Sequence[Part], *, crc32c: int
    ) -> Written:
        try:
            body = await self._run(lambda: self._uploads.body(upload, parts, crc32c=crc32c))
        except NoSuchObject:
            return lost("there is no such upload")
        written = await self.put_if_absent(upload.key, body)
        if written.outcome is Outcome.WON:
            await self._run(lambda: self._uploads.drop(upload))
        return written

    async def abort_upload(self, upload: Upload) -> None:
        await self._run(lambda: self._uploads.abort(upload))

    async def list_uploads(self, prefix: str) -> AsyncIterator[Sequence[Upload]]:
        yield await self._run(lambda: self._uploads.list(prefix))

    async def close(self) -> None:
        while self._abandoned:
            await asyncio.wait(self._abandoned)
            await asyncio.sleep(0)  # Their callbacks come first.
        await self._run(self._files.drafts.close)

    async def _run(self, call: Callable[[], T]) -> T:
        async with self._threads:
            return await self._env.tasks.in_thread(_mapped, call)


def _mapped(call: Callable[[], T]) -> T:
    """Whatever was not translated where it happened."""
    with working():
        return call()


def _check_version(key: str, version_id: str | None) -> None:
    """A folder keeps no versions: none has this name."""
    if version_id is not None:
        raise NoSuchObject(key)
