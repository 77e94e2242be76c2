"""Producer ids for idempotent producers: never given out twice, not even after a restore.

An id is (incarnation << 40) + n. The incarnation is that of the cluster; a restore from the bucket
begins a new one, so that a producer of the old cluster cannot be taken for one of the new: its
batches would look like duplicates, be acknowledged and dropped. Numbers are taken from the
metastore in blocks; what is left of a block at a stop is skipped.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tierlog.broker import state
from tierlog.metastore import Compare, Put
from tierlog.types import ProducerId

if TYPE_CHECKING:
    from tierlog.metastore import Entry, MetaStore

INCARNATION_SHIFT = 40
BLOCK = 1000
FIRST_INCARNATION = 1


class ProducerIds:
    def __init__(self, metastore: MetaStore) -> None:
        self._metastore = metastore
        self._next = 0
        self._end = 0

    async def take(self) -> ProducerId:
        """An id that nobody had before."""
        while self._next >= self._end:
            await self._take_block()
        taken = ProducerId(self._next)
        self._next += 1
        return taken

    async def _take_block(self) -> None:
        known = await self._metastore.get(state.PRODUCER_IDS)
        incarnation, first = _block_after(known)
        value = state.to_json({"incarnation": incarnation, "next": first + BLOCK})
        revision = 0 if known is None else known.revision
        result = await self._metastore.txn(
            [Compare(state.PRODUCER_IDS, revision)], [Put(state.PRODUCER_IDS, value)]
        )
        # Whoever asked at the same time may have brought a block already: what is left of it goes
        # unused, which costs nothing.
        if result.succeeded:
            self._next = (incarnation << INCARNATION_SHIFT) + first
            self._end = self._next + BLOCK


def _block_after(known: Entry | None) -> tuple[int, int]:
    if known is None:
        return FIRST_INCARNATION, 0
    found = json.loads(known.value)
    return found["incarnation"], found["next"]
