"""What was deleted is told to the bucket; what was dropped is not taken for it."""

import asyncio

import pytest

from tests.cold.tiering import (
    KEYS,
    NODE,
    TOPIC_ID,
    TierNode,
    bucket_of,
    eager,
    head_in,
    play,
    play_node,
)
from tierlog.sim import SimWorld
from tierlog.sim.bucket import SimBucket
from tierlog.types import Offset


async def seconds(count: float) -> None:
    await asyncio.sleep(count)


def test_what_was_deleted_stays_deleted_though_head_could_not_be_told_at_once() -> None:
    async def scenario(node: TierNode) -> None:
        await node.open()
        await node.produce_sealed(b"0")
        await seconds(3)
        puts = 0

        def watch(kind: str, key: str) -> None:
            nonlocal puts
            if key == KEYS.head and kind == "put_if_match":
                puts += 1
                if puts == 1:  # The publish.
                    node.log.trim(Offset(3))
                elif puts == 2:  # What tells HEAD of the trim.
                    node.store.is_closed = True

        node.store.watch = watch
        await node.produce_sealed(b"1", b"2", b"3")
        await seconds(30)
        assert head_in(bucket_of(node)).log_start == 0
        node.store.is_closed = False
        await seconds(300)
        head = head_in(bucket_of(node))
        assert (head.log_start, head.next_offset) == (3, 4)

    play_node(scenario)


def test_a_restart_tells_head_what_was_deleted_before_it() -> None:
    async def scenario(world: SimWorld, bucket: SimBucket) -> None:
        async def first() -> None:
            node = await TierNode(world.env(NODE), bucket).open()
            await node.produce_sealed(b"0", b"1")
            await seconds(3)
            node.store.is_closed = True
            node.log.trim(Offset(1))
            await node.log.settle()

        async def second() -> None:
            node = await TierNode(world.env(NODE), bucket, leader_epoch=2).open()
            await seconds(3)
            assert node.prefix.log_start == 1

        await world.start(NODE, first(), what="first")
        world.kill(NODE)
        assert head_in(bucket).log_start == 0
        await world.start(NODE, second(), what="second")
        assert head_in(bucket).log_start == 1

    play(scenario)


def test_what_is_deleted_where_nothing_is_local_any_more_is_told_to_head() -> None:
    async def scenario(node: TierNode) -> None:
        node.tiering = eager()
        await node.open()
        await node.produce_sealed(b"0", b"1")
        await seconds(20)
        assert len(node.log.segments) == 1
        node.log.trim(Offset(1))
        await seconds(3)
        assert head_in(bucket_of(node)).log_start == 1

    play_node(scenario)


async def drop_all(world: SimWorld, bucket: SimBucket, epoch: int, *values: bytes) -> None:
    """One life that keeps nothing of what is cold."""

    async def live() -> None:
        node = TierNode(world.env(NODE), bucket, leader_epoch=epoch)
        node.tiering = eager()
        await node.open()
        for value in values:
            await node.produce_sealed(value)
        await seconds(20)
        await node.log.settle()
        assert node.log.log_start == node.log.log_end

    await world.start(NODE, live(), what=f"life {epoch}")
    world.kill(NODE)


@pytest.mark.parametrize("is_gone", [False, True], ids=["rolled back", "gone"])
def test_an_older_head_than_was_dropped_by_is_not_taken_for_deleted_records(is_gone: bool) -> None:
    """The local copy of HEAD is lost as well: only the log's own start tells."""

    async def scenario(world: SimWorld, bucket: SimBucket) -> None:
        await drop_all(world, bucket, 1, b"a", b"b")
        old = bucket.shelf.items[KEYS.head]
        await drop_all(world, bucket, 2, b"c", b"d")
        new = bucket.shelf.items[KEYS.head]
        world.disk(NODE).unlink(f"/data/cold/{TOPIC_ID}-0.head")
        bucket.shelf.items[KEYS.head] = old
        if is_gone:
            del bucket.shelf.items[KEYS.head]

        async def live() -> None:
            node = await TierNode(world.env(NODE), bucket, leader_epoch=3).open()
            await node.produce_sealed(b"e")
            await seconds(20)
            error = node.partition.status.last_error
            assert error is not None
            assert "nobody deleted them" in error
            assert bucket.shelf.items.get(KEYS.head) == (None if is_gone else old)
            bucket.shelf.items[KEYS.head] = new
            await seconds(120)
            head = head_in(bucket)
            assert (head.log_start, head.next_offset, head.skips) == (0, 5, ())

        await world.start(NODE, live(), what="life 3")

    play(scenario)
