"""Every call of the client, against a broker that answers."""

from tests.client.fake import FakeBroker, joined
from tierlog.client import (
    Consumer,
    NewRecord,
    Producer,
)
from tierlog.sim import SimWorld, simulate


async def smoke(world: SimWorld) -> None:
    async with joined(world, FakeBroker()) as client:
        await client.create_topics("t", partitions=2)
        assert (await client.produce("t", 0, [NewRecord(b"a"), NewRecord(b"b")])).base_offset == 0
        async with Producer(client) as producer:
            placed = await (await producer.send("t", b"c", partition=0))
            assert placed == (0, 2)
        consumer = Consumer(client)
        await consumer.assign("t")
        values = [each.value async for each in consumer.until(await consumer.end_offsets())]
        assert values == [b"a", b"b", b"c"]


def test_what_is_produced_is_consumed() -> None:
    simulate(smoke, seed=1)
