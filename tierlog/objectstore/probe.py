"""Asks a store whether its conditional writes hold, before manifests rest on them.

Stores that speak S3 differ here: some take `If-None-Match` and `If-Match` and ignore them, some
let several of many parallel writers win. The probe races 32 writers for a new key and 32 for its
replacement, then tries what must be refused. An object below `probe/`, removed afterwards; about 75
requests. No clear answer is `StoreUnavailable`, which says nothing about lying.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from tierlog.env import Rng
from tierlog.objectstore.body import BytesBody
from tierlog.objectstore.errors import NoSuchObject, StoreError, StoreLies, StoreUnavailable
from tierlog.objectstore.port import Doomed, Got, ObjectStore, Outcome, Written

RACER_COUNT = 32
REFUSALS_MAX = 5
"""Tries of a write that must be refused, until there is a clear answer."""
NO_ETAG = '"00000000000000000000000000000000"'

REMEDY = (
    "tierlog keeps its manifests by such writes and would lose data here: use AWS S3, a current "
    "release of a store with working If-None-Match and If-Match (behind one gateway), or a folder"
)


async def probe(store: ObjectStore, rng: Rng) -> None:
    """Raises `StoreLies`, or `StoreUnavailable` where the store does not answer."""
    key = f"probe/{rng.uuid().hex}"
    try:
        await _Probe(store, rng, key).run()
    finally:
        with suppress(StoreError):
            await store.delete([Doomed(key)])


class _Probe:
    def __init__(self, store: ObjectStore, rng: Rng, key: str) -> None:
        self._store = store
        self._rng = rng
        self._key = key

    async def run(self) -> None:
        await self._check_absent_swap()
        created = await self._race_create()
        await self._check_refused("an object that exists is created again", created, absent=True)
        swapped = await self._race_swap(created)
        stale = created.stat.etag
        await self._check_refused("an object is replaced by a stale ETag", swapped, etag=stale)

    async def _check_absent_swap(self) -> None:
        written = await self._store.put_if_match(self._key, self._body(), etag=NO_ETAG)
        if written.outcome is Outcome.WON:
            raise _lies("an object that is not there is replaced")

    async def _race_create(self) -> Got:
        bodies = [self._body() for _ in range(RACER_COUNT)]
        calls = (self._store.put_if_absent(self._key, body) for body in bodies)
        return await self._judge("create", bodies, await asyncio.gather(*calls))

    async def _race_swap(self, before: Got) -> Got:
        etag = before.stat.etag
        bodies = [self._body() for _ in range(RACER_COUNT)]
        calls = (self._store.put_if_match(self._key, body, etag=etag) for body in bodies)
        return await self._judge("replace", bodies, await asyncio.gather(*calls))

    async def _judge(
        self, what: str, bodies: Sequence[BytesBody], answers: Sequence[Written]
    ) -> Got:
        """What stands there: it must be the one winner's.

        Many may be in doubt on a right store, too: S3 answers 409 to some who race. If nobody heard
        of a victory, one of those in doubt may have won.
        """
        outcomes = [each.outcome for each in answers]
        win_count = outcomes.count(Outcome.WON)
        if win_count > 1:
            raise _lies(f"{win_count} of {RACER_COUNT} writers {what} the same object at once")
        if outcomes.count(Outcome.LOST) == RACER_COUNT:
            raise _lies(f"of {RACER_COUNT} writers that {what} an object every one is refused")
        best = Outcome.WON if win_count else Outcome.AMBIGUOUS
        pairs = zip(bodies, outcomes, strict=True)
        hopeful = {_bytes(body) for body, outcome in pairs if outcome is best}
        got = await self._find()
        if got is not None and bytes(got.data) in hopeful:
            return got
        if win_count and await self._is_read_again(got):
            raise _lies("what is read back is not what the winner of a race wrote")
        raise StoreUnavailable(f"no clear answer to {RACER_COUNT} writers that {what} an object")

    async def _check_refused(
        self, what: str, standing: Got, *, absent: bool = False, etag: str = ""
    ) -> None:
        """As often as it takes to be told: a store that has too much to do refuses for that reason,
        and a node that waited for a probe without a single such answer would wait for long."""
        for _ in range(REFUSALS_MAX):
            body = self._body()
            written = await (
                self._store.put_if_absent(self._key, body)
                if absent
                else self._store.put_if_match(self._key, body, etag=etag)
            )
            got = await self._find()
            is_changed = got is None or bytes(got.data) != bytes(standing.data)
            if written.outcome is Outcome.WON or (is_changed and await self._is_read_again(got)):
                raise _lies(what)
            if written.outcome is Outcome.LOST and not is_changed:
                return
        raise StoreUnavailable("the store gave no clear answer to a write it must refuse")

    async def _find(self) -> Got | None:
        with suppress(NoSuchObject):
            return await self._store.get(self._key)
        return None

    async def _is_read_again(self, seen: Got | None) -> bool:
        """One garbled answer is no proof: whether a second reading says the same."""
        again = await self._find()
        if seen is None or again is None:
            return seen is again
        return bytes(again.data) == bytes(seen.data)

    def _body(self) -> BytesBody:
        return BytesBody(b"tierlog probe " + self._rng.uuid().hex.encode())


def _bytes(body: BytesBody) -> bytes:
    return b"".join(body.pieces())


def _lies(what: str) -> StoreLies:
    return StoreLies(f"the store's conditional writes do not hold: {what}. {REMEDY}")
