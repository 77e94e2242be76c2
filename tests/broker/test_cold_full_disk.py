"""An outage that lasts until the disk is full: producers are slowed down, then refused, nothing is
dropped that is nowhere else, the node lives, and all of them come back when the store does."""

import asyncio
from itertools import count

from tests.broker import asks
from tests.broker.coldworld import NODE, ColdServed, Lives, in_world, until
from tierlog.wire.error_codes import ErrorCode

MIB = 1 << 20
MARK = 100 * MIB
"""Above the 64 MiB that the log keeps for itself, so that producers are refused first."""
LIMITS = {"tierlog_disk_free_min_bytes": MARK, "tierlog_disk_free_min_ratio": 0.0}
VALUE = b"v" * 500_000


async def produced(served: ColdServed) -> int:
    answer = await asks.produce(served, "t", asks.batch_of(served, VALUE))
    await asyncio.sleep(0.6)  # The disk is looked at twice a second.
    return int(answer.error_code)


async def fill(served: ColdServed) -> int:
    """Until producing is refused; how many were accepted."""
    for accepted in count():
        code = await produced(served)
        if code:
            assert code == ErrorCode.KAFKA_STORAGE_ERROR
            return accepted
    raise AssertionError("never")


@in_world
async def test_an_outage_until_the_disk_is_full_loses_nothing_and_ends_by_itself(
    lives: Lives,
) -> None:
    disk = lives.world.disk(NODE)
    async with lives.node(**LIMITS) as served:
        await served.tiered("t", segment_bytes=str(2 * MIB))
        lives.store.is_closed = True
        disk.capacity = disk.used + MARK + 30 * MIB
        accepted = await fill(served)
        assert accepted > 20
        stats = served.node.stats
        assert stats.throttles > 0, "slowed down before they were refused"
        assert served.node.hours_left == 0.0
        partition = served.at("t")
        await asyncio.sleep(300)
        assert (partition.log.log_start, partition.log.log_end) == (0, accepted)
        assert not served.node.broken.done()
        assert await produced(served) == ErrorCode.KAFKA_STORAGE_ERROR
        # The reserve is for what keeps the node going: its metadata, and what makes room.
        assert disk.free_bytes("/data") > MARK // 2
        configs = {**partition.topic.overrides, "retention.ms": "1000000"}
        await served.node.controller.replace_configs(partition.topic, configs)
        lives.store.is_closed = False
        await until(lambda: not served.node.space.is_refusing)
        assert await produced(served) == ErrorCode.NONE
        assert await served.values("t") == [VALUE] * (accepted + 1)


@in_world
async def test_a_restart_on_a_full_disk_without_the_store_serves_and_refuses(lives: Lives) -> None:
    disk = lives.world.disk(NODE)
    async with lives.node(**LIMITS) as served:
        await served.tiered("t", segment_bytes=str(2 * MIB))
        lives.store.is_closed = True
        disk.capacity = disk.used + MARK + 20 * MIB
        accepted = await fill(served)
    async with lives.node(**LIMITS) as served:
        accepted += await fill(served)  # The stop gave blocks back that were kept ahead.
        assert await served.values("t") == [VALUE] * accepted
        lives.store.is_closed = False
        await until(lambda: not served.node.space.is_refusing)
        assert await produced(served) == ErrorCode.NONE


@in_world
async def test_a_disk_that_others_fill_to_the_last_byte_stops_no_node(lives: Lives) -> None:
    disk = lives.world.disk(NODE)
    async with lives.node(**LIMITS) as served:
        await served.tiered("t", segment_bytes=str(2 * MIB))
        await served.seal("t", b"a")
        await served.append("t", b"b")
        lives.store.is_closed = True
        await served.seal("t", b"c")
        roomy = disk.capacity
        disk.capacity = disk.used
        assert await fill(served) <= 1, "refused as soon as the disk is looked at"
        await asyncio.sleep(600)
        assert not served.node.broken.done()
        lives.store.is_closed = False
        await asyncio.sleep(600)
        assert not served.node.broken.done()
        assert (await served.values("t"))[:3] == [b"a", b"b", b"c"]
        disk.capacity = roomy
        await until(lambda: not served.node.space.is_refusing)
        assert await produced(served) == ErrorCode.NONE
