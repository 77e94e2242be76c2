"""The simulated object store, as one process sees it: the way to the `SimBucket` and back.

A request that has left a process arrives whether or not the process still lives; of those whose
sender is dead by then, half are lost with it. A `Fate` decides otherwise.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import NoReturn, TypeVar

from tierlog.env import Env
from tierlog.objectstore.body import read_body
from tierlog.objectstore.errors import StoreThrottled, StoreUnavailable
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
from tierlog.sim.bucket import SimBucket
from tierlog.sim.life import Life, context_of, current_host, current_life
from tierlog.sim.storefaults import Fate, Then, When

__all__ = ["SimBucket", "SimStore"]

T = TypeVar("T")


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
        return await self._get(
            key, lambda shelf: shelf.get(key, span=span, etag=etag, version_id=version_id)
        )

    async def get_tail(self, key: str, size: int) -> Got:
        return await self._get(key, lambda shelf: shelf.get_tail(key, size), kind="get_tail")

    async def _get(self, key: str, call: Callable[[Shelf], Got], *, kind: str = "get") -> Got:
        got = await self._ask(kind, key, lambda: call(self._bucket.shown(key)))
        return self._bucket.spoil(got)

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
            lambda: self._put_if(
                key,
                data,
                lambda: self._shelf.put_if_absent(key, data, now_ms=self._now_ms()),
            ),
        )

    async def put_if_match(self, key: str, body: Body, *, etag: str) -> Written:
        data = await self._read(body)
        return await self._write(
            "put_if_match",
            key,
            lambda: self._put_if(
                key,
                data,
                lambda: self._shelf.put_if_match(key, data, etag=etag, now_ms=self._now_ms()),
            ),
        )

    def _put_if(self, key: str, data: bytes, call: Callable[[], Written]) -> Written:
        if self._bucket.faults.ignores_conditions:
            return self._shelf.put(key, data, now_ms=self._now_ms())
        return call()

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

        try:
            return await self._ask(kind, key, land)
        except StoreUnavailable as doubt:
            return Written(outcome=Outcome.AMBIGUOUS, detail=str(doubt))

    async def _ask(self, kind: str, key: str, land: Callable[[], T]) -> T:
        """Raises `StoreUnavailable` for everything that ends without an answer."""
        fate = self._bucket.fate_of(kind, key)
        if fate is None:
            return await self._answer(self._send(land))
        if fate.when is When.BEFORE:
            await self._meet(fate.then)
            if fate.then is Then.FREEZE:
                return await self._answer(self._send(land))
        elif fate.when is When.AFTER:
            answer = self._send(land, fate)
            if fate.then is Then.FREEZE:
                return await self._answer(answer)
            await asyncio.wait([answer])
        else:
            self._send(land, fate)
            await self._meet(fate.then)
        await asyncio.sleep(fate.silent_seconds or self._bucket.draw_delay())
        return _unanswered(fate, kind, key)

    async def _meet(self, then: Then) -> None:
        """What happens to this very process, now."""
        if then is Then.DIE:
            await self._bucket.die()
        elif then is Then.FREEZE:
            life = current_life()
            assert life is not None, "only a process can freeze"
            self._bucket.freeze(life)
            await asyncio.sleep(0)  # It goes on here once it has thawed.

    async def _answer(self, answer: asyncio.Future[T]) -> T:
        try:
            result = await asyncio.shield(answer)
        except Exception:
            await asyncio.sleep(self._bucket.draw_delay())
            raise
        await asyncio.sleep(self._bucket.draw_delay())
        return result

    def _send(self, land: Callable[[], T], fate: Fate | None = None) -> asyncio.Future[T]:
        """Let the request take effect after its way, whatever becomes of its sender."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()
        sender = current_life()

        def arrive() -> None:
            is_orphan = sender is not None and not sender.alive
            if not self._bucket.is_up:
                _give(answer, StoreUnavailable("the store went away"))
            elif not is_orphan or fate is not None or self._bucket.rng.random() < 0.5:
                _land(land, answer)
                if fate is not None and fate.when is When.AFTER:
                    self._strike(sender, fate.then)

        delay = self._bucket.draw_delay() + (fate.late_seconds if fate is not None else 0)
        loop.call_later(delay, arrive, context=context_of(None))
        return answer

    def _strike(self, sender: Life | None, then: Then) -> None:
        """What happens to the sender once its request has taken effect."""
        if then is Then.ERROR:
            return
        assert sender is not None, "only a process can die or freeze"
        if then is Then.DIE:
            self._bucket.kill(sender)
        else:
            self._bucket.freeze(sender)


def _land(land: Callable[[], T], answer: asyncio.Future[T]) -> None:
    try:
        result = land()
    except Exception as error:  # noqa: BLE001  handed to whoever waits
        _give(answer, error)
    else:
        if not answer.done():
            answer.set_result(result)


def _give(answer: asyncio.Future[T], error: Exception) -> None:
    if not answer.done():
        answer.set_exception(error)
        answer.exception()  # A sender that gave up need not hear of it.


def _unanswered(fate: Fate, kind: str, key: str) -> NoReturn:
    if fate.is_throttled:
        raise StoreThrottled(f"503 for {kind} of {key}: slow down")
    raise StoreUnavailable(f"no answer for {kind} of {key}")
