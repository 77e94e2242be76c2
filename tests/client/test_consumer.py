"""Reading without a group."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from tests.client.fake import CLIENT, HOST, FakeBroker, joined
from tierlog.client import EARLIEST, LATEST, BrokerError, Consumer, Fetched, NewRecord
from tierlog.client.values import TopicPartition
from tierlog.records.errors import CorruptBatch
from tierlog.sim import SimWorld, simulate
from tierlog.wire.error_codes import ErrorCode

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


def numbered(start: int, end: int) -> list[NewRecord]:
    return [NewRecord(b"%d" % each, timestamp=each * 10) for each in range(start, end)]


def test_all_partitions_are_read_in_order_with_every_field() -> None:
    async def read(world: SimWorld) -> None:
        async with joined(world, FakeBroker()) as client:
            await client.create_topics("t", partitions=2)
            headers = (("h", b"1"), ("h", None))
            await client.produce("t", 0, [NewRecord(None, b"key", headers, 7)])
            for start in range(0, 30, 3):
                await client.produce("t", 1, numbered(start, start + 3))
            consumer = Consumer(client)
            await consumer.assign("t")
            ends = await consumer.end_offsets()
            assert ends == {P0: 1, P1: 30}
            records = [each async for each in consumer.until(ends)]
            assert [each for each in records if each.partition == 0] == [
                ("t", 0, 0, 7, b"key", None, headers)
            ]
            assert [each.offset for each in records if each.partition == 1] == list(range(30))
            assert consumer.positions == ends
            assert await consumer.poll(max_wait_ms=10) == []

    simulate(read, seed=1)


def test_seeks_lead_where_they_say_also_into_a_batch() -> None:
    async def seek(world: SimWorld) -> None:
        async with joined(world, FakeBroker()) as client:
            await client.create_topics("t", partitions=1)
            await client.produce("t", 0, numbered(0, 5))
            await client.produce("t", 0, numbered(5, 10))
            consumer = Consumer(client)
            await consumer.assign("t", start=LATEST)
            assert consumer.positions == {P0: 10}
            consumer.seek("t", 0, 3)
            assert [each.offset for each in await consumer.poll()] == [3, 4, 5, 6, 7, 8, 9]
            await consumer.seek_to_time(65)
            assert consumer.positions == {P0: 7}
            await consumer.seek_to_time(1000)
            assert consumer.positions == {P0: 10}
            await consumer.seek_to_beginning()
            assert consumer.positions == {P0: 0}
            assert [each.offset async for each in consumer.until({P0: 4})] == [0, 1, 2, 3]

    simulate(seek, seed=1)


def test_an_offset_outside_the_log_raises_or_resets() -> None:
    async def stray(world: SimWorld) -> None:
        async with joined(world, FakeBroker()) as client:
            await client.create_topics("t", partitions=1)
            await client.produce("t", 0, numbered(0, 2))
            consumer = Consumer(client)
            await consumer.assign("t", start=50)
            with pytest.raises(BrokerError, match="OFFSET_OUT_OF_RANGE"):
                await consumer.poll()
            forgiving = Consumer(client, reset=EARLIEST)
            await forgiving.assign("t", start=50)
            assert await forgiving.poll() == []
            assert len(await forgiving.poll()) == 2

    simulate(stray, seed=1)


def test_a_partition_that_is_stuck_is_not_hidden_by_busy_ones() -> None:
    async def stuck(world: SimWorld) -> None:
        async with joined(world, FakeBroker()) as client:
            await client.create_topics("t", partitions=2)
            consumer = Consumer(client)
            await consumer.assign("t")
            consumer.seek("t", 0, 50)
            await client.produce("t", 1, numbered(0, 2))
            assert len(await consumer.poll()) == 2
            await client.produce("t", 1, numbered(2, 4))
            with pytest.raises(BrokerError, match="OFFSET_OUT_OF_RANGE"):
                await consumer.poll()
            assert len(await consumer.poll()) == 2, "nothing was lost"
            consumer.seek("t", 0, 0)  # The cause is gone, and with it the error.
            assert await consumer.poll(max_wait_ms=10) == []

    simulate(stuck, seed=1)


def test_a_leader_that_moved_is_found_although_other_partitions_are_busy() -> None:
    async def moved(world: SimWorld) -> None:
        async with joined(world, FakeBroker()) as client:
            await client.create_topics("t", partitions=2)
            consumer = Consumer(client)
            await consumer.assign("t")
            await client.produce("t", 1, numbered(0, 2))
            fetch_many = client.fetch_many

            async def elsewhere(*args: Any, **options: Any) -> dict[TopicPartition, Fetched]:
                found: dict[TopicPartition, Fetched] = await fetch_many(*args, **options)
                found[P0] = replace(found[P0], error=ErrorCode.NOT_LEADER_OR_FOLLOWER)
                return found

            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(client, "fetch_many", elsewhere)
                assert len(await consumer.poll()) == 2
            assert client.cluster.doubted == {"t"}
            await client.produce("t", 0, numbered(0, 1))
            assert len(await consumer.poll()) == 1
            assert client.cluster.doubted == set()

    simulate(moved, seed=1)


def test_the_endless_iterator_goes_on_through_broken_connections() -> None:
    async def follow(world: SimWorld) -> None:
        async with joined(world, FakeBroker()) as client:
            await client.create_topics("t", partitions=2)
            consumer = Consumer(client)
            await consumer.assign("t")

            async def write() -> None:
                for number in range(20):
                    await asyncio.sleep(1)
                    await client.produce("t", number % 2, numbered(number, number + 1))
                    if number % 3 == 0:
                        await asyncio.sleep(0.5)
                        world.network.reset(CLIENT, HOST)

            writing = asyncio.create_task(write())
            found = []
            async for record in consumer:
                found.append(int(record.value or b""))
                if len(found) == 20:
                    break
            await writing
            assert found == list(range(20))

    simulate(follow, seed=1)


def test_a_flipped_bit_is_not_handed_out() -> None:
    async def flip(world: SimWorld) -> None:
        broker = FakeBroker()
        async with joined(world, broker) as client:
            await client.create_topics("t", partitions=1)
            await client.produce("t", 0, numbered(0, 2))
            broker.world.topics["t"].partitions[0].log[-3] ^= 1
            consumer = Consumer(client)
            await consumer.assign("t")
            with pytest.raises(CorruptBatch):
                await consumer.poll()
            assert consumer.positions == {P0: 0}

    simulate(flip, seed=1)
