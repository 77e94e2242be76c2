"""The simulated object store: a bucket that outlives every process, and the way to it.

`SimBucket` is the bucket, somewhere else on the network: linearizable (a request takes effect at
one moment between call and answer) and with a perfect memory for what was ever written, so that a
test can ask it (`written_twice`, `versions`). `SimStore` is the client of one process. A request
that has left a process lands whether or not the process still lives; one that dies while it is on
its way may be lost with it.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import TypeVar

from tierlog.env import Env
from tierlog.objectstore.body import read_body
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
from tierlog.objectstore.shelf import Shelf
from tierlog.sim.life import context_of, current_host, current_life

T = TypeVar("T")

DELAY_SECONDS_MAX = 0.05
"""The longest way there or back; most are far shorter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Landed:
    """A write that took effect."""

    kind: str
    key: str
    data: bytes
    host: str
    """Who sent it."""
    seconds: float
    """Virtual time."""


class SimBucket:
    """The bucket and what it remembers."""

    def __init__(self, rng: Random, *, delay_seconds_max: float = DELAY_SECONDS_MAX) -> None:
        self.shelf = Shelf()
        self.landed: list[Landed] = []
        self.deleted: list[str] = []
        """Keys, in order, of objects that were there."""
        self.rng = rng
        self._delay_seconds_max = delay_seconds_max

    # Asked by tests

    def versions(self, key: str) -> list[bytes]:
        """Everything that ever stood under the key, oldest first."""
        return [each.data for each in self.landed if each.key == key]

    def written_twice(self) -> list[str]:
        """Keys that were created more than once, deletion in between or not. Those that are
        replaced by `put_if_match` alone are not among them."""
        seen: set[str] = set()
        again: dict[str, None] = {}
        for each in self.landed:
            if each.kind != "put_if_match":
                if each.key in seen:
                    again[each.key] = None
                seen.add(each.key)
        return list(again)

    # Asked by clients

    def draw_delay(self) -> float:
        return self._delay_seconds_max * self.rng.random() ** 2

    def record(self, kind: str, key: str, *, host: str, written: Written) -> None:
        if written.outcome is Outcome.WON:
            self.landed.append(
                Landed(
                    kind=kind,
                    key=key,
                    data=self.shelf.items[key].data,
                    host=host,
                    seconds=asyncio.get_running_loop().time(),
                )
            )


class SimStore:
    """Implements `ObjectStore` for one process."""

    def __init__(self, bucket: SimBucket, env: Env) -> None:
        self._bucket = bucket
        self._shelf = bucket.shelf
        self._env = env

    async def get(
        self,
        key: str,
        *,
        span: Span | None = None,
        etag: str | None = None,
        version_id: str | None = None,
    ) -> Got:
        return await self._ask(
            "get", key, lambda: self._shelf.get(key, span=span, etag=etag, version_id=version_id)
        )

    async def get_tail(self, key: str, size: int) -> Got:
        return await self._ask("get", key, lambda: self._shelf.get_tail(key, size))

    async def head(self, key: str, *, version_id: str | None = None) -> Stat:
        return await self._ask("head", key, lambda: self._shelf.stat(key, version_id=version_id))

    async def put(self, key: str, body: Body) -> Written:
        data = await self._read(body)
        return await self._write(
            "put", key, lambda: self._shelf.put(key, data, now_ms=self._now_ms())
        )

    async def put_if_absent(self, key: str, body: Body) -> Written:
        data = await self._read(body)
        return await self._write(
            "put_if_absent",
            key,
            lambda: self._shelf.put_if_absent(key, data, now_ms=self._now_ms()),
        )

    async def put_if_match(self, key: str, body: Body, *, etag: str) -> Written:
        data = await self._read(body)
        return await self._write(
            "put_if_match",
            key,
            lambda: self._shelf.put_if_match(key, data, etag=etag, now_ms=self._now_ms()),
        )

    async def list(self, prefix: str, *, after: str = "") -> AsyncIterator[Sequence[Stat]]:
        pages = self._shelf.list(prefix, after=after)
        while page := await self._ask("list", prefix, lambda: next(pages, ())):
            yield page

    async def delete(self, doomed: Sequence[Doomed]) -> Sequence[DeleteFailed]:
        first = doomed[0].key if doomed else ""
        return await self._ask("delete", first, lambda: self._delete(doomed))

    def _delete(self, doomed: Sequence[Doomed]) -> Sequence[DeleteFailed]:
        there = [each.key for each in doomed if each.key in self._shelf.items]
        self._shelf.delete(doomed)
        self._bucket.deleted += [key for key in there if key not in self._shelf.items]
        return ()

    async def copy(self, source: str, target: str) -> Written:
        return await self._write(
            "copy", target, lambda: self._shelf.copy(source, target, now_ms=self._now_ms())
        )

    async def begin_upload(self, key: str) -> Upload:
        return await self._ask(
            "begin_upload", key, lambda: self._shelf.begin_upload(key, now_ms=self._now_ms())
        )

    async def put_part(self, upload: Upload, number: int, body: Body) -> Part:
        data = await self._read(body)
        return await self._ask(
            "put_part",
            upload.key,
            lambda: self._shelf.put_part(upload, number, data, now_ms=self._now_ms()),
        )

    async def complete_upload(
        self, upload: Upload, parts: Sequence[Part], *, crc32c: int
    ) -> Written:
        return await self._write(
            "complete_upload",
            upload.key,
            lambda: self._shelf.complete_upload(
                upload, parts, crc32c=crc32c, now_ms=self._now_ms()
            ),
        )

    async def abort_upload(self, upload: Upload) -> None:
        await self._ask("abort_upload", upload.key, lambda: self._shelf.abort_upload(upload))

    async def list_uploads(self, prefix: str) -> AsyncIterator[Sequence[Upload]]:
        yield await self._ask("list_uploads", prefix, lambda: self._shelf.list_uploads(prefix))

    async def close(self) -> None:
        """Nothing is held."""

    # The way there and back

    def _now_ms(self) -> int:
        return self._env.clock.now_ms()

    async def _read(self, body: Body) -> bytes:
        return await self._env.tasks.in_thread(read_body, body)

    async def _write(self, kind: str, key: str, call: Callable[[], Written]) -> Written:
        host = current_host()

        def land() -> Written:
            written = call()
            self._bucket.record(kind, key, host=host, written=written)
            return written

        return await self._ask(kind, key, land)

    async def _ask(self, kind: str, key: str, land: Callable[[], T]) -> T:
        answer = self._send(land)
        try:
            return await asyncio.shield(answer)
        finally:
            await asyncio.sleep(self._bucket.draw_delay())

    def _send(self, land: Callable[[], T]) -> asyncio.Future[T]:
        """Let the request take effect after its way, whatever becomes of its sender."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()
        sender = current_life()

        def arrive() -> None:
            if sender is not None and not sender.alive and self._bucket.rng.random() < 0.5:
                return
            try:
                result = land()
            except Exception as error:  # noqa: BLE001  handed to whoever waits
                answer.set_exception(error)
                answer.exception()  # A sender that gave up need not hear of it.
            else:
                answer.set_result(result)

        loop.call_later(self._bucket.draw_delay(), arrive, context=context_of(None))
        return answer
