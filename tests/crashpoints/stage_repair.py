"""The chapter of the scrubber: a store that loses what it had, and a node that still has it.

The node keeps its segments on the disk. Then the store loses an object, damages another, and shows
an older HEAD; and the scrubber has to put all of it back, byte for byte, wherever it is cut off.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.crashpoints import stages
from tests.crashpoints.member import PLACES, SETTLE_SECONDS, Member, Unsettled, believe
from tierlog.cold.codec import decode_head
from tierlog.cold.scrubber import Scrubber
from tierlog.cold.scrubsettings import ScrubSettings
from tierlog.cold.tiersettings import TopicTiering
from tierlog.objectstore.shelf import Shelf

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tierlog.sim.bucket import SimBucket

NEVER_MS = 10**12
KEEPING = TopicTiering(local_retention_ms=NEVER_MS)
SCRUB = ScrubSettings(
    manifest_period_ms=2_000,
    object_period_ms=4_000,
    byte_period_ms=6_000,
    probe_period_ms=NEVER_MS,
    save_period_ms=1_500,
)
POLL_SECONDS = 0.1


def scrub(member: Member) -> None:
    """From now on."""
    member.tier.chores.append(
        Scrubber(
            member.env,
            member.store,
            member.tier.partitions,
            member.tier.maker.pages,
            path="/data/cold",
            stats=member.tier.stats,
            probe=believe,
            settings=SCRUB,
        )
    )


class Losses:
    def __init__(self, bucket: SimBucket) -> None:
        self.began = False
        self.is_over = False
        self._bucket = bucket
        self._right: dict[str, bytes] = {}
        self._end = 0

    async def play(self, is_owner: Callable[[], bool]) -> None:
        """Lose it, once; then all of it comes back. Raises `Unsettled`."""
        if not self.began:
            self._lose()
        until = asyncio.get_running_loop().time() + SETTLE_SECONDS
        while is_owner() and not self._is_back():
            if asyncio.get_running_loop().time() > until:
                raise Unsettled("what the store lost is not back")
            await asyncio.sleep(POLL_SECONDS)
        self.is_over = self.is_over or is_owner()

    def _lose(self) -> None:
        bucket, keys = self._bucket, PLACES[0].keys
        heads = bucket.versions(keys.head)
        head = decode_head(heads[-1], key=keys.head)
        # Of one offset the last is the owner's: others are of uploads that came to nothing.
        there = sorted(key for key in bucket.shelf.items if key.startswith(keys.full("seg/")))
        gone, wrong = (
            next(key for key in reversed(there) if f"/seg/{base:020d}-" in key)
            for base in (head.next_offset - 2, head.next_offset - 4)
        )
        self._right = {key: bucket.shelf.items[key].data for key in (gone, wrong)}
        # As if they had never landed: what is put back is no second write.
        bucket.landed = [one for one in bucket.landed if one.key not in self._right]
        data = self._right[wrong]
        shelf = Shelf()
        shelf.put(wrong, data[:80] + bytes([data[80] ^ 1]) + data[81:], now_ms=1)
        shelf.put(keys.head, heads[-2], now_ms=1)
        bucket.shelf.items.update(shelf.items)
        del bucket.shelf.items[gone]
        self._end = head.next_offset
        self.began = True
        stages.lost.append(True)

    def _is_back(self) -> bool:
        items, key = self._bucket.shelf.items, PLACES[0].keys.head
        if decode_head(items[key].data, key=key).next_offset < self._end:
            return False
        return all(key in items and items[key].data == data for key, data in self._right.items())


@contextmanager
def repairing(bucket: SimBucket) -> Iterator[Losses]:
    stages.is_repairing.append(True)
    try:
        yield Losses(bucket)
    finally:
        stages.is_repairing.clear()
        stages.lost.clear()
