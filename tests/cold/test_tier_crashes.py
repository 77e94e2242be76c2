"""Lives of a node that end at any moment: nothing is lost, and no key is written twice."""

import asyncio
from contextlib import suppress
from dataclasses import replace

import pytest

from tests.cold.tiering import NODE, TierNode, data_of, eager, head_in, play
from tests.hot.support import values_of
from tierlog.sim import HostDied, SimWorld
from tierlog.sim.bucket import SimBucket
from tierlog.sim.storefaults import Fate, StoreCall, StoreFaults, Then, When
from tierlog.types import Offset


async def seconds(count: float) -> None:
    await asyncio.sleep(count)


class Ledger:
    """What was acknowledged, and what a judge finds of it in the bucket."""

    def __init__(self, bucket: SimBucket) -> None:
        self.bucket = bucket
        self.acked: dict[int, bytes] = {}

    async def produce(self, node: TierNode) -> None:
        offset = node.log.log_end
        value = b"%d-%d" % (node.leader_epoch, offset)
        node.produce(value)
        await node.log.wait_visible(Offset(offset + 1))
        self.acked[offset] = value

    async def judge(self, node: TierNode) -> None:
        """Everything is cold in the end, once, whatever happened before."""
        await self.produce(node)
        node.log.roll()
        await node.log.settle()
        for _ in range(300):
            await seconds(0.5)
            if node.prefix.uploaded_end == node.log.log_end and node.partition.task is None:
                break
        head = head_in(self.bucket)
        assert (head.next_offset, node.partition.status.last_error) == (node.log.log_end, None)
        assert head.log_start == 0, "local drops are no deletions"
        found: dict[int, bytes] = {}
        offset = Offset(0)
        while (entry := await node.prefix.entry_for(offset)) is not None:
            found.update(enumerate(values_of(data_of(self.bucket, entry)), start=entry.base))
            offset = entry.next_offset
        assert {key: found.get(key) for key in self.acked} == self.acked
        assert not self.bucket.written_twice()


TROUBLE = StoreFaults(
    throttled_share=0.05,
    lost_share=0.05,
    unanswered_share=0.05,
    late_share=0.03,
    late_seconds_max=5,
    short_share=0.05,
    flipped_share=0.02,
)


async def crashes(world: SimWorld, bucket: SimBucket) -> int:
    """Lives that end at any moment, on a store in trouble; the last one judges."""
    rng = world.rng("crashes")
    ledger = Ledger(bucket)

    async def live(epoch: int) -> None:
        node = TierNode(world.env(NODE), bucket, leader_epoch=epoch)
        node.tiering = replace(eager(), upload_lag_max_ms=2000)
        await node.open()
        while True:
            await ledger.produce(node)
            await seconds(rng.random() * 0.4)
            if rng.random() < 0.3:
                node.log.roll()

    async def last() -> None:
        await ledger.judge(await TierNode(world.env(NODE), bucket, leader_epoch=9).open())

    bucket.faults = TROUBLE
    for epoch in range(1, 7):
        life = world.start(NODE, live(epoch), what="live")
        await seconds(rng.random() * 6)
        (world.kill if rng.random() < 0.5 else world.power_cut)(NODE)
        with pytest.raises(HostDied):
            await life
    bucket.faults = StoreFaults()
    await world.start(NODE, last(), what="judge")
    return len(ledger.acked)


def test_killed_at_any_moment_nothing_is_lost_and_nothing_uploaded_under_one_key_twice() -> None:
    assert sum(play(crashes, seed) for seed in range(3)) > 80


@pytest.mark.slow
def test_killed_at_any_moment_over_many_seeds() -> None:
    for seed in range(100, 160):
        play(crashes, seed)


def dies_at(number: int, when: When) -> int:
    """A life with two uploads and their drop dies at its `number`-th request. How many it had."""

    async def scenario(world: SimWorld, bucket: SimBucket) -> int:
        ledger = Ledger(bucket)
        is_over = False

        def decide(call: StoreCall) -> Fate | None:
            dies = call.number == number and not is_over
            return Fate(when, Then.DIE) if dies else None

        async def first() -> None:
            node = TierNode(world.env(NODE), bucket)
            node.tiering = eager()
            await node.open()
            for _ in range(2):
                await ledger.produce(node)
                node.log.roll()
                await seconds(3)

        async def second() -> None:
            await ledger.judge(await TierNode(world.env(NODE), bucket, leader_epoch=2).open())

        bucket.on_call = decide
        life = world.start(NODE, first(), what="first")
        with suppress(HostDied):
            await life
        count = bucket.call_count
        is_over = True
        if count <= number:
            return 0
        await world.start(NODE, second(), what="second")
        return count

    return play(scenario)


@pytest.mark.parametrize("when", list(When))
def test_a_death_at_any_request_loses_nothing(when: When) -> None:
    number = 0
    while dies_at(number, when):
        number += 1
    assert number > 15, "two uploads, two publishes, two drops"
