"""The changes that a publisher commits, each fit to be tried again on a later HEAD.

A commit whose answer was lost may have happened: so every change first looks whether it is in the
HEAD already, and answers None if it is. Segments are known again by their keys, which are never
used twice.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from tierlog.cold import codec, lookup, tree
from tierlog.cold.head import PageRef
from tierlog.cold.publisher import Draft
from tierlog.cold.refusals import NotNext, name_of
from tierlog.hot.log import FIRST_OFFSET

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tierlog.cold.entry import Entry
    from tierlog.cold.head import Head
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

    async def __call__(self, head: Head) -> Draft | None:
        now_ms = self._env.clock.now_ms()
        deleted_to = max(self._trimmed_to, head.log_start)
        if head.next_offset < self._entries[0].base <= deleted_to:
            head = tree.skip(head, self._entries[0].base, now_ms=now_ms)
        wanted = await self._not_yet_in(head)
        if not wanted:
            return None
        grown = _started(tree.extend(head, wanted), self._trimmed_to)
        opened = {
            ref.key: await self._read(ref) for ref in tree.to_open(grown, limits=self._limits)
        }
        seal = partial(
            tree.seal,
            grown,
            mint=self._mint,
            not_before_ms=now_ms + GARBAGE_GRACE_MS,
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

    def _mint(self) -> int:
        return int.from_bytes(self._env.rng.randbytes(8))


class MoveLogStart:
    """Nothing before this offset is served any more. Never back; beyond the end is allowed (U10):
    the next `Append` then skips."""

    def __init__(self, log_start: Offset) -> None:
        self._log_start = log_start

    async def __call__(self, head: Head) -> Draft | None:
        if head.log_start >= self._log_start:
            return None
        return Draft(head=replace(head, log_start=self._log_start))


def _started(head: Head, log_start: Offset) -> Head:
    return replace(head, log_start=max(head.log_start, min(log_start, head.next_offset)))
