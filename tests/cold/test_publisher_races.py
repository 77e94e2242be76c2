"""Leaders and zombies on one partition, a store with every fault, and what must hold all the same.

Leaders follow each other, older ones wake up at any moment, writes are lost, answered wrongly or
land late, also those of leaders that are long gone. At the end: HEADs followed each other without a
fork, and whatever a leader was told is published stands there once, under its own key.
"""

import asyncio
import random
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.cold.makers import an_entry
from tests.cold.publishing import KEYS, Scene
from tests.cold.scripted import Fate
from tierlog.cold import invariants
from tierlog.cold.codec import decode_head
from tierlog.cold.entry import Entry
from tierlog.cold.layout import segment_key
from tierlog.cold.publisher import Publisher
from tierlog.cold.refusals import Fenced, NotNext, SwapLost, SwapUncertain
from tierlog.cold.tree import Limits
from tierlog.hot.epochs import EpochStart
from tierlog.objectstore.errors import StoreUnavailable
from tierlog.sim import SimWorld
from tierlog.types import LeaderEpoch, Offset

if TYPE_CHECKING:
    from tierlog.cold.head import Head

LEADERS = 4
SEGMENTS = 8
LIMITS = Limits(entries_inline=40)
"""All entries stay in HEAD, where the test looks for them."""


class Race:
    def __init__(self, scene: Scene, seed: int) -> None:
        self.scene = scene
        self.chance = random.Random(seed)
        self.heads: list[Head] = []
        """Everything that ever stood in the bucket."""
        self.told: list[str] = []
        """Keys that some leader was told are published."""

    async def disturb(self) -> None:
        """Faults in front of the leaders, and late landings, until the race is over."""
        while True:
            await asyncio.sleep(self.chance.random() * 0.05)
            self.scene.store.fates.append(self.chance.choice(list(Fate)))
            if self.chance.random() < 0.1:
                self.scene.store.reads_failing = self.chance.randrange(10)
            if self.chance.random() < 0.3:
                await self.scene.store.land()

    async def lead(self, epoch: int) -> None:
        publisher = self.scene.leader(epoch, f"process {epoch}")
        base = 0
        while base < SEGMENTS * 1000:
            try:
                base = await self.publish(publisher, base)
            except NotNext as refusal:
                base = refusal.next_offset
            except Fenced:
                return
            except (SwapUncertain, SwapLost, StoreUnavailable):
                continue

    async def publish(self, publisher: Publisher, base: int) -> int:
        """The segment at `base`, under a key of this leader, until it is said to be there."""
        entry = self.entry(base, publisher.writer.leader_epoch)
        await asyncio.sleep(self.chance.random() * 0.3)
        head = await publisher.commit(self.scene.append(entry, limits=LIMITS))
        self.told.append(entry.key)
        return head.next_offset

    def entry(self, base: int, epoch: LeaderEpoch) -> Entry:
        plain = an_entry(base // 1000)
        key = segment_key(
            base=plain.base, last=plain.last, leader_epoch=epoch, node=1, attempt=int(epoch)
        )
        return replace(plain, key=key, leader_epochs=(EpochStart(epoch, Offset(base)),))

    def watch(self) -> None:
        """Note every HEAD as it is put on the shelf."""
        shelf = self.scene.store.shelf
        put = shelf.put

        def noted(key: str, data: bytes, *, now_ms: int) -> object:
            if key == KEYS.head:
                self.heads.append(decode_head(data, key=key))
            return put(key, data, now_ms=now_ms)

        shelf.put = noted  # type: ignore[method-assign, assignment]  # what lands is what counts

    async def run(self) -> None:
        self.watch()
        trouble = asyncio.ensure_future(self.disturb())
        leaders = []
        for number in range(LEADERS):
            leaders.append(asyncio.ensure_future(self.lead(number + 1)))
            await asyncio.sleep(self.chance.random() * 2)
        await asyncio.gather(*leaders)
        trouble.cancel()
        await self.scene.store.land()

    def check(self) -> None:
        for before, head in zip(self.heads, self.heads[1:], strict=False):
            invariants.check(head, previous=before)
        last = self.heads[-1]
        keys = [entry.key for entry in last.entries]
        assert last.next_offset == SEGMENTS * 1000
        assert len(keys) == SEGMENTS
        assert set(self.told) <= set(keys)
        assert last.writer.leader_epoch == LEADERS


def race(seed: int) -> None:
    world = SimWorld(seed)

    async def run() -> Race:
        one = Race(Scene(world), seed)
        await one.run()
        return one

    world.run(run()).check()


@pytest.mark.parametrize("seed", range(15))
def test_leaders_that_race_publish_every_segment_once(seed: int) -> None:
    race(seed)


@pytest.mark.slow
def test_leaders_that_race_for_long() -> None:
    for seed in range(15, 300):
        race(seed)
