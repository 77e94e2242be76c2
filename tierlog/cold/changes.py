"""The changes that a publisher commits, each fit to be tried again on a later HEAD.

A commit whose answer was lost may have happened: so every change first looks whether it is in the
HEAD already, and answers None if it is. Segments are known again by their keys, which are never
used twice.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from tierlog.cold import codec, expiry, lookup, replacing, shedding, tree
from tierlog.cold.head import DELETE_RECORDS, RETENTION_BYTES, RETENTION_MS, PageRef
from tierlog.cold.holds import movable_to
from tierlog.cold.publisher import Draft
from tierlog.cold.refusals import NotNext, PolicyDiffers, RunChanged, name_of
from tierlog.hot.log import FIRST_OFFSET

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Sequence

    from tierlog.cold.entry import Entry
    from tierlog.cold.head import Head, Policy
    from tierlog.cold.layout import PartitionKeys
    from tierlog.cold.page import Page
    from tierlog.env import Env
    from tierlog.objectstore.port import ObjectStore
    from tierlog.types import Offset

GARBAGE_GRACE_MS = 24 * 3600 * 1000
"""Readers may hold the HEAD before this one for a day: Spark jobs plan once and read for long."""


class Append:
    """Add segments at the end. Raises `NotNext` where HEAD ends elsewhere: go on from there."""

    def __init__(
        self,
        entries: Sequence[Entry],
        *,
        store: ObjectStore,
        keys: PartitionKeys,
        env: Env,
        limits: tree.Limits = tree.LIMITS,
        trimmed_to: Offset = FIRST_OFFSET,
        grace_ms: int = GARBAGE_GRACE_MS,
    ) -> None:
        """`trimmed_to`: what lies below was given up. HEAD starts there, at its end at the latest;
        where that is past what was uploaded, the offsets up to the first segment are skipped
        (U10)."""
        assert entries, "there is something to add"
        self._entries = tuple(entries)
        self._store = store
        self._keys = keys
        self._env = env
        self._limits = limits
        self._trimmed_to = trimmed_to
        self._grace_ms = grace_ms

    async def __call__(self, head: Head) -> Draft | None:
        now_ms = self._env.clock.now_ms()
        deleted_to = max(self._trimmed_to, head.log_start)
        if head.next_offset < self._entries[0].base <= deleted_to:
            head = tree.skip(head, self._entries[0].base, now_ms=now_ms)
        wanted = await self._not_yet_in(head)
        if not wanted:
            return None
        grown = tree.extend(head, wanted)
        start = movable_to(grown, min(self._trimmed_to, grown.next_offset))
        grown = shedding.moved(grown, start, why=DELETE_RECORDS, now_ms=now_ms)
        opened = {
            ref.key: await self._read(ref) for ref in tree.to_open(grown, limits=self._limits)
        }
        seal = partial(
            tree.seal,
            grown,
            mint=partial(_mint, self._env),
            not_before_ms=now_ms + self._grace_ms,
            opened=opened,
            limits=self._limits,
        )
        # A full page takes 30 ms to make.
        fills_page = len(grown.entries) >= self._limits.entries_inline
        head, pages = await self._env.tasks.in_thread(seal) if fills_page else seal()
        return Draft(head=head, pages=pages)

    async def _not_yet_in(self, head: Head) -> tuple[Entry, ...]:
        """What is left to add. Those before it must be in HEAD under their own keys: the same
        offsets under other keys were published by somebody else, or by an earlier attempt."""
        for number, entry in enumerate(self._entries):
            if entry.base == head.next_offset:
                return self._entries[number:]
            if entry.base > head.next_offset or await self._key_at(head, entry.base) != entry.key:
                raise NotNext(
                    self._keys.head,
                    base=entry.base,
                    next_offset=head.next_offset,
                    of=name_of(head),
                )
        return ()

    async def _key_at(self, head: Head, offset: Offset) -> str | None:
        opened: dict[str, Page] = {}
        while isinstance(found := lookup.find(head, offset, opened), PageRef):
            opened[found.key] = await self._read(found)
        return None if found is None else found.key

    async def _read(self, ref: PageRef) -> Page:
        got = await self._store.get(self._keys.full(ref.key))
        return codec.open_page(ref, got.data)


class Replace:
    """List one merged segment in place of a run of others, which become garbage.

    Nothing else changes: neither end, nor the number of records, nor any chain value. Raises
    `RunChanged` where the run is not there any more as it was.
    """

    def __init__(
        self,
        merged: Entry,
        run: Sequence[Entry],
        sources: Sequence[Entry],
        *,
        store: ObjectStore,
        keys: PartitionKeys,
        env: Env,
        grace_ms: int = GARBAGE_GRACE_MS,
        limits: tree.Limits = tree.LIMITS,
    ) -> None:
        """`merged` is not linked into the chain yet; `sources` are the run as it was uploaded."""
        self._merged = merged
        self._run = [one.key for one in run]
        self._sources = sources
        self._store = store
        self._keys = keys
        self._env = env
        self._grace_ms = grace_ms
        self._limits = limits

    async def __call__(self, head: Head) -> Draft | None:
        opened: dict[str, Page] = {}
        base, end = self._merged.base, self._merged.next_offset
        while isinstance(region := replacing.region_of(head, base, end, opened), PageRef):
            opened[region.key] = await self._read(region)
        if region is None:
            raise RunChanged(base, end, of=name_of(head))
        if replacing.is_replaced(region, self._merged):
            return None
        work = partial(
            replacing.replaced,
            head,
            region,
            self._merged,
            self._run,
            self._sources,
            mint=partial(_mint, self._env),
            not_before_ms=self._env.clock.now_ms() + self._grace_ms,
            opened=opened,
            limits=self._limits,
        )
        # A full page takes 30 ms to make.
        head, pages = await self._env.tasks.in_thread(work) if region.leaves else work()
        return Draft(head=head, pages=pages)

    async def _read(self, ref: PageRef) -> Page:
        got = await self._store.get(self._keys.full(ref.key))
        page = codec.open_page(ref, got.data)
        await self._env.tasks.in_thread(codec.check_page, ref, page)
        return page


class MoveLogStart:
    """Nothing before this offset is served any more, up to a hold. Never back; beyond the end is
    allowed (U10): the next `Append` then skips. Its objects are `Expire`'s business."""

    def __init__(self, log_start: Offset, *, now_ms: int = -1) -> None:
        self._log_start = log_start
        self._now_ms = now_ms

    async def __call__(self, head: Head) -> Draft | None:
        start, now_ms = movable_to(head, self._log_start), self._now_ms
        if head.log_start >= start:
            return None
        return Draft(head=shedding.moved(head, start, why=DELETE_RECORDS, now_ms=now_ms))


class SetPolicy:
    """By this the topic's records expire from now on; also where it says the same (U7b)."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    async def __call__(self, head: Head) -> Draft | None:
        if head.policy == self._policy:
            return None
        version = head.policy_version + 1
        return Draft(head=replace(head, policy=self._policy, policy_version=version))


class Expire:
    """Move the start by retention, and make garbage of what lies below it, whoever moved it there.

    A bounded piece, and the same choice again on a later HEAD: what a commit did whose answer was
    lost is not found a second time. Raises `PolicyDiffers` unless HEAD says the same policy.
    """

    def __init__(
        self,
        policy: Policy,
        *,
        read: Callable[[PageRef], Awaitable[Page]],
        env: Env,
        grace_ms: int,
        unpublished_bytes: int,
    ) -> None:
        self._policy = policy
        self._read = read
        self._env = env
        self._grace_ms = grace_ms
        self._unpublished_bytes = unpublished_bytes
        self.due_ms: float = 0
        """When time alone expires more; known after a call."""
        self.shed: shedding.Shed | None = None
        """What the last call made garbage of."""

    async def __call__(self, head: Head) -> Draft | None:
        if head.policy != self._policy:
            raise PolicyDiffers(of=name_of(head))
        now_ms = self._env.clock.now_ms()
        opened: dict[str, Page] = {}
        started = await self._started(head, opened, now_ms)
        while isinstance(found := self._shed(started, opened, now_ms), PageRef):
            opened[found.key] = await self._read(found)
        self.shed = found
        return None if found.head == head else Draft(head=found.head)

    async def _started(self, head: Head, opened: dict[str, Page], now_ms: int) -> Head:
        while isinstance(found := self._choose(head, opened, now_ms), PageRef):
            opened[found.key] = await self._read(found)
        self.due_ms = found.due_ms
        head = shedding.moved(head, found.time_end, why=RETENTION_MS, now_ms=now_ms)
        return shedding.moved(head, found.size_end, why=RETENTION_BYTES, now_ms=now_ms)

    def _choose(self, head: Head, opened: tree.Opened, now_ms: int) -> expiry.Choice | PageRef:
        return expiry.choose(
            head,
            opened,
            policy=self._policy,
            now_ms=now_ms,
            unpublished_bytes=self._unpublished_bytes,
        )

    def _shed(self, head: Head, opened: tree.Opened, now_ms: int) -> shedding.Shed | PageRef:
        return shedding.shed(head, opened, not_before_ms=now_ms + self._grace_ms)


class Collected:
    """These objects are deleted: HEAD forgets them."""

    def __init__(self, keys: Collection[str]) -> None:
        self._keys = frozenset(keys)

    async def __call__(self, head: Head) -> Draft | None:
        left = tuple(one for one in head.garbage if one.key not in self._keys)
        return None if len(left) == len(head.garbage) else Draft(head=replace(head, garbage=left))


def _mint(env: Env) -> int:
    return int.from_bytes(env.rng.randbytes(8))
