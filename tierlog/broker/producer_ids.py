"""Producer ids for idempotent producers: never given out twice, not even after a restore.

An id is (incarnation << 40) + n. The incarnation is that of the cluster; a restore from the bucket
begins a new one, so that a producer of the old cluster cannot be taken for one of the new: its
batches would look like duplicates, be acknowledged and dropped. Numbers are taken from the
metastore in blocks; what is left of a block at a stop is skipped.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tierlog.metastore import Compare, Put, values
from tierlog.metastore.values import ProducerIdsState
from tierlog.types import ProducerId

if TYPE_CHECKING:
    from tierlog.metastore import MetaStore

INCARNATION_SHIFT = 40
BLOCK = 1000


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
        known = await self._metastore.get(values.PRODUCER_IDS)
        before = ProducerIdsState.from_bytes(known.value) if known else ProducerIdsState()
        taken = replace(before, next=before.next + BLOCK)
        revision = 0 if known is None else known.revision
        result = await self._metastore.txn(
            [Compare(values.PRODUCER_IDS, revision)], [Put(values.PRODUCER_IDS, taken.to_bytes())]
        )
        # Whoever asked at the same time may have brought a block already: what is left of it goes
        # unused, which costs nothing.
        if result.succeeded:
            self._next = (before.incarnation << INCARNATION_SHIFT) + before.next
            self._end = self._next + BLOCK
