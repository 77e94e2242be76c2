"""One object that is replaced by compare-and-swap, and knows its own writes again.

A conditional write may be answered late, never, or with a refusal of its own success (the first try
landed, its repetition did not). So the answer alone decides nothing but WON: after everything else
the object is read back, and the nonce inside tells whose write it was. A nonce belongs to one
change, however often it is sent; the version inside rises, so two contents never share an ETag.

What cannot be read is `Wrong` once the same bytes came twice: one garbled answer is not believed.
It may be replaced like anything else that was seen, under its own ETag. What a newer tierlog wrote
is not wrong: that is raised, and nobody replaces it.

While the object is unchanged the very same bytes are sent again, under the same condition:
whichever of them lands first, the others cannot.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from tierlog.cold.agreed import READS_MAX, differs
from tierlog.cold.errors import ColdCorrupt
from tierlog.cold.refusals import SwapLost, SwapUncertain
from tierlog.objectstore.body import BytesBody
from tierlog.objectstore.errors import NoSuchObject, StoreUnavailable
from tierlog.objectstore.port import Outcome, Written

if TYPE_CHECKING:
    from collections.abc import Callable

    from tierlog.env import Env, Rng
    from tierlog.objectstore.port import Got, ObjectStore

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


@dataclass(frozen=True, slots=True)
class Wrong:
    """Bytes stand there that are no such object, whoever put them there."""

    etag: str
    fault: ColdCorrupt


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
        """What the store holds now; None if there is nothing. Retries, then `StoreUnavailable`.
        Raises `ColdCorrupt` where `look` finds something wrong."""
        found = await self.look()
        if isinstance(found, Wrong):
            raise found.fault
        return found

    async def look(self) -> Seen[V] | Wrong | None:
        """As `read`, and what cannot be read is told with its ETag. Raises `NewerFormat`."""
        digests: set[bytes] = set()
        for _ in range(READS_MAX):
            got = await self._get()
            if got is None:
                return None
            try:
                # A large manifest takes milliseconds to read: not on the loop.
                value = await self._env.tasks.in_thread(self._decode, bytes(got.data))
            except ColdCorrupt as fault:
                digest = sha256(got.data).digest()
                if digest in digests:
                    return Wrong(got.stat.etag, fault)
                digests.add(digest)
            else:
                return Seen(value, got.stat.etag)
        raise differs(self.key)

    async def _get(self) -> Got | None:
        for attempt in range(ATTEMPTS_MAX):
            try:
                return await self._store.get(self.key)
            except NoSuchObject:
                return None
            except StoreUnavailable:
                if attempt == ATTEMPTS_MAX - 1:
                    raise
                await pause(self._env.rng, attempt)
        raise AssertionError("the last attempt returns or raises")

    async def swap(self, seen: Seen[V] | Wrong | None, value: V) -> Seen[V]:
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
            if isinstance(found, Seen) and found.value.nonce == value.nonce:
                return found
            if _etag(found) != _etag(seen):
                raise SwapLost(self.key, of=self._of)
            await pause(self._env.rng, attempt)
        raise SwapUncertain(self.key, said=said, of=self._of)

    async def _send(self, body: BytesBody, seen: Seen[V] | Wrong | None) -> Written:
        if seen is None:
            return await self._store.put_if_absent(self.key, body)
        return await self._store.put_if_match(self.key, body, etag=seen.etag)

    async def _read_back(self, said: str) -> Seen[V] | Wrong | None:
        try:
            return await self.look()
        except StoreUnavailable as fault:
            raise SwapUncertain(self.key, said=said, of=self._of) from fault


def _etag(seen: Seen[V] | Wrong | None) -> str | None:
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
