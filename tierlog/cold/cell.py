"""One object that is replaced by compare-and-swap, and knows its own writes again.

A conditional write may be answered late, never, or with a refusal of its own success (the first try
landed, its repetition did not). So the answer alone decides nothing but WON: after everything else
the object is read back, and the nonce inside tells whose write it was. A nonce belongs to one
change, however often it is sent; the version inside rises, so two contents never share an ETag.

While the object is unchanged the very same bytes are sent again, under the same condition:
whichever of them lands first, the others cannot.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from tierlog.cold.refusals import SwapLost, SwapUncertain
from tierlog.objectstore.body import BytesBody
from tierlog.objectstore.errors import NoSuchObject, StoreUnavailable
from tierlog.objectstore.port import Outcome, Written

if TYPE_CHECKING:
    from collections.abc import Callable

    from tierlog.env import Env, Rng
    from tierlog.objectstore.port import ObjectStore

ATTEMPTS_MAX = 7
BACKOFF_SECONDS_MIN = 0.05
BACKOFF_SECONDS_MAX = 2.0
"""Seven tries wait 0.05, 0.1, ... 1.6 s in between, 3 s in all: what takes longer is an outage, and
an outage is the caller's to wait for."""


class Nonced(Protocol):
    @property
    def nonce(self) -> str: ...


V = TypeVar("V", bound=Nonced)


@dataclass(frozen=True, slots=True)
class Seen(Generic[V]):
    """The object as it was at some moment."""

    value: V
    etag: str


class Cell(Generic[V]):
    def __init__(
        self,
        store: ObjectStore,
        key: str,
        env: Env,
        *,
        encode: Callable[[V], bytes],
        decode: Callable[[bytes], V],
        of: str = "",
    ) -> None:
        """`of`: the partition, as people call it."""
        self.key = key
        self._of = of
        self._store = store
        self._env = env
        self._encode = encode
        self._decode = decode

    async def read(self) -> Seen[V] | None:
        """What the store holds now; None if there is nothing. Retries, then `StoreUnavailable`."""
        for attempt in range(ATTEMPTS_MAX - 1):
            try:
                return await self._read_once()
            except StoreUnavailable:
                await pause(self._env.rng, attempt)
        return await self._read_once()

    async def _read_once(self) -> Seen[V] | None:
        try:
            got = await self._store.get(self.key)
        except NoSuchObject:
            return None
        # A large manifest takes milliseconds to read: not on the loop.
        value = await self._env.tasks.in_thread(self._decode, bytes(got.data))
        return Seen(value, got.stat.etag)

    async def swap(self, seen: Seen[V] | None, value: V) -> Seen[V]:
        """Replace what was seen (None: create). Returns once the write is known to have happened.

        Raises `SwapLost` if somebody else's came first: read, judge, rebase. `SwapUncertain` if the
        store does not say within the budget: it may have happened, or may happen yet.
        """
        body = BytesBody(await self._env.tasks.in_thread(self._encode, value))
        said = ""
        for attempt in range(ATTEMPTS_MAX):
            written = await self._send(body, seen)
            if written.outcome is Outcome.WON:
                return Seen(value, written.etag)
            said = written.detail or written.outcome.value
            found = await self._read_back(said)
            if found is not None and found.value.nonce == value.nonce:
                return found
            if _etag(found) != _etag(seen):
                raise SwapLost(self.key, of=self._of)
            await pause(self._env.rng, attempt)
        raise SwapUncertain(self.key, said=said, of=self._of)

    async def _send(self, body: BytesBody, seen: Seen[V] | None) -> Written:
        if seen is None:
            return await self._store.put_if_absent(self.key, body)
        return await self._store.put_if_match(self.key, body, etag=seen.etag)

    async def _read_back(self, said: str) -> Seen[V] | None:
        try:
            return await self.read()
        except StoreUnavailable as fault:
            raise SwapUncertain(self.key, said=said, of=self._of) from fault


def _etag(seen: Seen[V] | None) -> str | None:
    return None if seen is None else seen.etag


async def pause(rng: Rng, attempt: int) -> None:
    """Twice as long each time, and never in step with others."""
    longest = min(BACKOFF_SECONDS_MIN * 2**attempt, BACKOFF_SECONDS_MAX)
    await asyncio.sleep(longest * (0.5 + rng.random() / 2))


async def write_once(store: ObjectStore, key: str, data: bytes, rng: Rng) -> None:
    """Write an object whose key nobody else uses, surely: after a doubtful answer look, and send
    again if it is not there. Raises `SwapUncertain` in the end, and `SwapLost` if other bytes stand
    under the key."""
    body, said = BytesBody(data), ""
    for attempt in range(ATTEMPTS_MAX):
        written = await store.put_if_absent(key, body)
        if written.outcome is Outcome.WON:
            return
        said = written.detail or written.outcome.value
        try:
            if bytes((await store.get(key)).data) == data:
                return
        except (NoSuchObject, StoreUnavailable):
            await pause(rng, attempt)
        else:
            raise SwapLost(key)
    raise SwapUncertain(key, said=said)
