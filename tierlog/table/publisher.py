"""Publishes the TABLE of one partition, commit by commit, by compare-and-swap.

There is no claim: what a commit may add is bound to `converted_end`, and files are made of what a
HEAD listed, so whoever wins, the table is right. Two converters may work at once; one of them has
worked for nothing. A TABLE that a newer leader or a later life of the cluster wrote ends this one.

- Files and pages lie in the bucket before the TABLE that lists them.
- The invariants of a TABLE are checked before it is sent.
- TABLE never goes back: where the store shows none, or an older one than was seen, the last known
  is put in its place.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from tierlog.cold.cell import Cell, Seen, write_once
from tierlog.cold.refusals import (
    FencedByNewer,
    ForeignIncarnation,
    ForeignObject,
    SwapLost,
    name_of,
)
from tierlog.table.codec import decode_table, encode_table
from tierlog.table.invariants import check
from tierlog.table.manifest import Table

if TYPE_CHECKING:
    from tierlog.cold.head import Incarnation, Writer
    from tierlog.cold.layout import PartitionKeys
    from tierlog.env import Env
    from tierlog.objectstore.port import ObjectStore

ROUNDS_MAX = 10
"""Rebases of one change: two converters alternate, ten do not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What TABLE says of the partition beside its content."""

    topic: str
    topic_id: str
    partition: int


class NewPage(NamedTuple):
    key: str
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A TABLE to be: the publisher fills in version, nonce, writer, incarnation and time."""

    table: Table
    pages: tuple[NewPage, ...] = ()


Change: TypeAlias = Callable[[Table | None], Awaitable[Draft | None]]
"""What a commit makes of a TABLE, or of none; None: it is so already. May be called again."""


class TablePublisher:
    def __init__(
        self,
        store: ObjectStore,
        keys: PartitionKeys,
        env: Env,
        *,
        place: Place,
        writer: Writer,
        incarnation: Incarnation,
    ) -> None:
        self.place = place
        self.keys = keys
        self.writer = writer
        self.incarnation = incarnation
        self.table: Table | None = None
        """The last one known."""
        self._store = store
        self._env = env
        self._cell = Cell(
            store,
            keys.table,
            env,
            encode=encode_table,
            decode=partial(decode_table, key=keys.table),
            of=name_of(place),
        )
        self._seen: Seen[Table] | None = None
        self._turn = asyncio.Lock()

    async def refresh(self) -> Table | None:
        """Read TABLE from the store; None if there is none."""
        async with self._turn:
            self._seen = await self._read()
            return self.table

    async def commit(self, change: Change) -> Table | None:
        """Publish. Returns the TABLE that holds the change; None: there is none, and need not be.

        After `SwapUncertain` or `StoreUnavailable` it may be published all the same: repeat it.
        """
        async with self._turn:
            nonce = self._env.rng.randbytes(16).hex()
            for _ in range(ROUNDS_MAX):
                seen = self._seen or await self._read()
                draft = await change(self.table)
                if draft is None:
                    self._seen = seen
                    return self.table
                if await self._swapped(seen, draft, nonce):
                    return self.table
            raise SwapLost(self.keys.table, of=name_of(self.place))

    async def _swapped(self, seen: Seen[Table] | None, draft: Draft, nonce: str) -> bool:
        value = self._stamp(draft.table, nonce)
        check(value, previous=self.table)
        for page in draft.pages:
            await write_once(self._store, self.keys.full(page.key), page.data, self._env.rng)
        self._seen = None  # Unknown until the answer is in.
        try:
            seen = await self._cell.swap(seen, value)
        except SwapLost:
            return False
        self._seen, self.table = seen, seen.value
        return True

    def _stamp(self, table: Table, nonce: str) -> Table:
        before = 0 if self.table is None else self.table.version
        return replace(
            table,
            version=before + 1,
            nonce=nonce,
            writer=self.writer,
            incarnation=self.incarnation,
            topic=self.place.topic,
            published_ms=self._env.clock.now_ms(),
        )

    async def _read(self) -> Seen[Table] | None:
        """What the next swap is conditional on. `table` is what it must follow from: the same, or
        the last known where the store went back."""
        seen = await self._cell.read()
        if seen is not None:
            self._judge(seen.value)
            if self.table is None or seen.value.version >= self.table.version:
                check(seen.value, previous=None)
                self.table = seen.value
        return seen

    def _judge(self, found: Table) -> None:
        of, mine = name_of(self.place), self.incarnation
        if (found.topic_id, found.partition) != (self.place.topic_id, self.place.partition):
            says = f"{found.topic_id}/{found.partition}"
            raise ForeignObject(self.keys.table, says=says, of=of)
        is_older = found.incarnation.number < mine.number
        if found.incarnation != mine and not is_older:
            raise ForeignIncarnation(self.keys.table, mine=mine, found=found.incarnation, of=of)
        if not is_older and found.writer.leader_epoch > self.writer.leader_epoch:
            raise FencedByNewer(self.keys.table, mine=self.writer, found=found.writer, of=of)
