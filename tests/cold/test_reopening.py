"""Logs that do not go on from the bucket are begun anew where it ends."""

import asyncio
from collections.abc import Callable
from unittest.mock import AsyncMock, patch

import pytest

from tests.cold.tiering import KEYS, NODE, TOPIC_ID, TierNode, head_in, play
from tests.hot.support import append, batch, read_values
from tierlog.cold.localcopy import LocalCopies
from tierlog.objectstore.errors import StoreUnavailable
from tierlog.sim import SimWorld
from tierlog.sim.bucket import SimBucket
from tierlog.sim.disk import SimDisk
from tierlog.types import Offset

LOGS = "/data/logs"
PATH = f"{LOGS}/{TOPIC_ID}-0"


def sent(sequence: int) -> bytearray:
    return batch(b"%d" % sequence, producer_id=7, producer_epoch=0, base_sequence=sequence)


async def three_cold(node: TierNode) -> None:
    """Offsets [0, 3) are cold, written by an idempotent producer."""
    await node.open()
    for sequence in range(3):
        append(node.log, sent(sequence), now_ms=node.env.clock.now_ms())
    node.log.roll()
    await asyncio.sleep(3)
    assert node.prefix.uploaded_end == 3
    await node.log.close()


def remove_log(disk: SimDisk) -> None:
    for name in disk.listdir(PATH):
        disk.unlink(f"{PATH}/{name}")
    disk.rmdir(PATH)


def lose_all_records(disk: SimDisk) -> None:
    """The directory of another machine, or of last week."""
    remove_log(disk)
    disk.mkdir(PATH)


@pytest.mark.parametrize("lose", [remove_log, lose_all_records])
def test_a_log_that_is_gone_is_begun_where_the_bucket_ends(lose: Callable[[SimDisk], None]) -> None:
    async def scenario(world: SimWorld, bucket: SimBucket) -> None:
        await world.start(NODE, three_cold(TierNode(world.env(NODE), bucket)), what="first")
        world.kill(NODE)
        lose(world.disk(NODE))

        async def second() -> None:
            node = await TierNode(world.env(NODE), bucket, leader_epoch=2).open()
            log = node.log
            assert (log.log_start, log.log_end, log.epochs.latest) == (3, 3, 1)
            now_ms = node.env.clock.now_ms()
            again = append(log, sent(2), leader_epoch=2, now_ms=now_ms)
            assert (again.is_duplicate, again.base_offset) == (True, 2)
            append(log, sent(3), leader_epoch=2, now_ms=now_ms)
            log.roll()
            await asyncio.sleep(5)
            assert (head_in(bucket).next_offset, node.partition.status.last_error) == (4, None)

        await world.start(NODE, second(), what="second")

    play(scenario)


def test_a_log_that_ends_too_early_is_kept_aside() -> None:
    async def scenario(world: SimWorld, bucket: SimBucket) -> None:
        await world.start(NODE, three_cold(TierNode(world.env(NODE), bucket)), what="first")
        world.kill(NODE)
        disk = world.disk(NODE)
        remove_log(disk)

        async def elsewhere() -> None:
            """The log of last week, under the copy of today's HEAD."""
            node = TierNode(world.env(NODE), bucket)
            log = await node.directory.open_log(f"{TOPIC_ID}-0", node.logs)
            append(log, batch(b"older"))
            await log.close()
            node.directory.close()

        await world.start(NODE, elsewhere(), what="elsewhere")
        world.kill(NODE)

        async def second() -> None:
            node = await TierNode(world.env(NODE), bucket, leader_epoch=2).open()
            assert (node.log.log_start, node.log.log_end) == (3, 3)
            (kept,) = (name for name in disk.listdir(LOGS) if name.endswith(".kept"))
            assert f"{0:020d}.log" in disk.listdir(f"{LOGS}/{kept}")

        await world.start(NODE, second(), what="second")

    play(scenario)


def test_while_the_store_is_away_a_lost_log_is_not_begun() -> None:
    async def scenario(world: SimWorld, bucket: SimBucket) -> None:
        await world.start(NODE, three_cold(TierNode(world.env(NODE), bucket)), what="first")
        world.kill(NODE)
        remove_log(world.disk(NODE))

        async def second() -> None:
            node = TierNode(world.env(NODE), bucket, leader_epoch=2)
            node.store.is_closed = True
            with pytest.raises(StoreUnavailable):
                await node.open()
            node.store.is_closed = False
            await asyncio.sleep(60)
            assert node.tier.is_ready
            await node.open_partition()
            assert node.log.log_start == 3

        await world.start(NODE, second(), what="second")

    play(scenario)


def test_an_ordinary_start_asks_no_store() -> None:
    async def scenario(world: SimWorld, bucket: SimBucket) -> None:
        async def first() -> None:
            node = await TierNode(world.env(NODE), bucket).open()
            await node.produce_sealed(b"a")
            node.produce(b"b")
            await asyncio.sleep(3)

        async def second() -> None:
            node = TierNode(world.env(NODE), bucket, leader_epoch=2)
            node.store.is_closed = True
            await node.open()
            assert read_values(node.log) == {0: b"a", 1: b"b"}
            assert node.prefix.covers(Offset(0))

        await world.start(NODE, first(), what="first")
        world.kill(NODE)
        await world.start(NODE, second(), what="second")

    play(scenario)


def test_a_lost_log_begins_where_the_bucket_ends_and_not_where_an_old_copy_says() -> None:
    """The process died between the publish and the local copy of it."""

    async def scenario(world: SimWorld, bucket: SimBucket) -> None:
        async def first() -> None:
            node = await TierNode(world.env(NODE), bucket).open()
            await node.produce_sealed(b"a")
            await node.partition.uploader.upload()
            with patch.object(LocalCopies, "save", AsyncMock()):
                await node.produce_sealed(b"b", b"c")
                await node.partition.uploader.upload()

        await world.start(NODE, first(), what="first")
        world.kill(NODE)
        remove_log(world.disk(NODE))

        async def second() -> None:
            node = await TierNode(world.env(NODE), bucket, leader_epoch=2).open()
            assert node.log.log_start == 3
            await node.produce_sealed(b"d")
            await node.partition.uploader.upload()
            assert node.prefix.uploaded_end == 4

        await world.start(NODE, second(), what="second")

    play(scenario)


def test_a_log_that_is_lost_with_the_copy_of_its_manifest_begins_where_the_bucket_ends() -> None:
    async def scenario(world: SimWorld, bucket: SimBucket) -> None:
        await world.start(NODE, three_cold(TierNode(world.env(NODE), bucket)), what="first")
        world.kill(NODE)
        disk = world.disk(NODE)
        remove_log(disk)
        for name in disk.listdir("/data/cold"):
            disk.unlink(f"/data/cold/{name}")

        async def second() -> None:
            node = TierNode(world.env(NODE), bucket, leader_epoch=2)
            node.is_first = False
            await node.open()
            assert node.log.log_start == 3

        await world.start(NODE, second(), what="second")

    play(scenario)


def test_a_commit_that_lands_after_the_log_was_begun_again_is_refused() -> None:
    """HEAD is claimed before: what was on its way then names another ETag."""

    async def scenario(world: SimWorld, bucket: SimBucket) -> None:
        await world.start(NODE, three_cold(TierNode(world.env(NODE), bucket)), what="first")
        world.kill(NODE)
        remove_log(world.disk(NODE))
        before = bucket.shelf.items[KEYS.head].etag

        async def second() -> None:
            node = await TierNode(world.env(NODE), bucket, leader_epoch=2).open()
            assert bucket.shelf.items[KEYS.head].etag != before
            assert head_in(bucket).writer.leader_epoch == 2
            assert node.log.log_start == 3

        await world.start(NODE, second(), what="second")

    play(scenario)
