"""A tiered partition whose log is gone while the store is away: it opens late, and holds up nobody.

And a partition that a copy of this node publishes: it takes no more records.
"""

import asyncio
from dataclasses import replace

from tests.broker import asks
from tests.broker.coldworld import DATA, ColdServed, Lives, in_world, until
from tests.broker.test_cold_topics import lines_of
from tierlog.broker.topics import Topic
from tierlog.cold.codec import decode_head, encode_head
from tierlog.cold.head import Writer
from tierlog.config.directories import LOGS
from tierlog.metastore import values
from tierlog.sim.bucket import SimBucket
from tierlog.wire.error_codes import ErrorCode
from tierlog.wire.messages.describe_log_dirs import DescribeLogDirsRequest

LATE = ErrorCode.KAFKA_STORAGE_ERROR


async def lose(lives: Lives, *, partitions: int = 2) -> None:
    """One life, after which the log of t-0 is gone and the store away. t-1 and u go on."""
    async with lives.node() as served:
        topic = await served.tiered("t", partitions=partitions)
        await served.tiered("u")
        for index in range(partitions):
            await served.make_cold("t", b"a", b"b", index=index)
            await served.append("t", b"c", index=index)
        await served.append("u", b"x")
    remove(lives, f"{DATA}/{LOGS}/{values.log_name(topic.id, 0)}")
    lives.store.is_closed = True


def remove(lives: Lives, path: str) -> None:
    disk = lives.env.disk
    for name in disk.listdir(path):
        disk.unlink(f"{path}/{name}")
    disk.rmdir(path)


async def produced(served: ColdServed, name: str, value: bytes, index: int = 0) -> int:
    request = asks.produce_request(name, asks.batch_of(served, value), partition=index)
    response = await served.call(request, 12)
    return int(response.responses[0].partition_responses[0].error_code)


async def fetched(served: ColdServed, name: str, offset: int, index: int = 0) -> int:
    topic = asks.fetch_topic(name, index, offset=offset)
    return int((await asks.fetch(served, topic, wait_ms=100)).error_code)


@in_world
async def test_one_lost_log_does_not_keep_a_node_from_serving_the_others(lives: Lives) -> None:
    await lose(lives)
    async with lives.node() as served:
        assert await produced(served, "u", b"y") == ErrorCode.NONE
        assert await served.values("u") == [b"x", b"y"]
        assert await produced(served, "t", b"d", index=1) == ErrorCode.NONE
        assert await served.values("t", 2, index=1) == [b"c", b"d"]
        assert len(served.node.topics.named("t").partitions) == 2


@in_world
async def test_a_partition_that_is_late_answers_what_clients_retry(lives: Lives) -> None:
    await lose(lives)
    async with lives.node() as served:
        for _ in range(2):  # The second time by the short road, if there is one.
            assert await produced(served, "t", b"d") == LATE
            assert await fetched(served, "t", 0) == LATE
        assert (await asks.offset_at(served, "t", -1)).error_code == LATE
        assert (await asks.delete_records(served, "t", 1)).error_code == LATE
        described = await served.call(DescribeLogDirsRequest(topics=None), 4)
        assert [one.partition_index for one in described.results[0].topics[0].partitions] == [1]


@in_world
async def test_a_late_partition_opens_when_the_store_answers_and_no_offset_is_given_twice(
    lives: Lives,
) -> None:
    await lose(lives)
    async with lives.node() as served:
        partition = served.node.topics.named("t").partitions[0]
        with lines_of("tierlog.broker.late") as lines:
            await asyncio.sleep(4000)
            assert await produced(served, "t", b"d") == LATE
            assert len(lines) <= 5, "an hour of waiting is not an hour of lines"
        lives.store.is_closed = False
        await until(lambda: partition.late is None)
        assert await produced(served, "t", b"d") == ErrorCode.NONE
        assert await served.values("t") == [b"a", b"b", b"d"], "what was not uploaded is lost"
        await served.make_cold("t", b"e")
        assert await served.values("t") == [b"a", b"b", b"d", b"e"]
    async with lives.node() as served:
        assert await served.values("t") == [b"a", b"b", b"d", b"e"]


@in_world
async def test_a_store_that_hangs_makes_the_partition_late_and_not_the_node(lives: Lives) -> None:
    await lose(lives)
    lives.store.is_closed = False
    lives.store.is_open.clear()
    async with lives.node() as served:
        assert await produced(served, "t", b"d") == LATE
        lives.store.is_open.set()
        partition = served.node.topics.named("t").partitions[0]
        await until(lambda: partition.late is None)


@in_world
async def test_a_topic_is_altered_and_grows_while_a_partition_of_it_is_late(lives: Lives) -> None:
    await lose(lives)
    async with lives.node() as served:
        topic = served.node.topics.named("t")
        configs = {**topic.overrides, "local.retention.ms": "5000"}
        await served.node.controller.replace_configs(topic, configs)
        await served.node.controller.add_partitions(topic, 3)
        assert await produced(served, "t", b"d", index=2) == ErrorCode.NONE
        lives.store.is_closed = False
        await until(lambda: topic.partitions[0].late is None)
        tiered = served.uploads("t")
        assert tiered.dropper.tiering.local_retention_ms == 5000
        assert tiered.place.partition_count == 3


@in_world
async def test_a_topic_with_a_late_partition_can_be_deleted(lives: Lives) -> None:
    await lose(lives)
    async with lives.node() as served:
        topic = served.node.topics.named("t")
        await served.node.controller.delete(topic)
        await served.node.catalogue.deleted()
        assert "t" not in served.node.topics.by_name
        lives.store.is_closed = False
        await until(lambda: topic.id.hex() in lives.state().deleted)
        assert not [name for name in served.node.directory.names() if topic.id.hex() in name]


@in_world
async def test_a_node_stops_and_starts_while_a_partition_is_late(lives: Lives) -> None:
    await lose(lives)
    for _ in range(2):
        async with lives.node() as served:
            assert await produced(served, "t", b"d") == LATE
    lives.store.is_closed = False
    async with lives.node() as served:
        assert await served.values("t") == [b"a", b"b"]


# Fenced


def claim_as_twin(bucket: SimBucket, topic: Topic, leader_epoch: int) -> None:
    """A copy of this node came first."""
    items = bucket.shelf.items
    for key in [key for key in items if key.endswith(f"{topic.id.hex()}/0/HEAD")]:
        head = decode_head(items[key].data, key=key)
        taken = replace(
            head, writer=Writer(head.writer.leader_epoch, "the twin"), version=head.version + 1
        )
        assert head.writer.leader_epoch == leader_epoch
        items[key] = replace(items[key], data=encode_head(taken), etag="taken")


@in_world
async def test_a_partition_that_a_twin_publishes_takes_no_more_records(lives: Lives) -> None:
    async with lives.node() as served:
        topic = await served.tiered("t", partitions=2)
        await served.make_cold("t", b"a")
        claim_as_twin(lives.bucket, topic, served.at("t").leader_epoch)
        assert await produced(served, "t", b"b") == ErrorCode.NONE, "nobody knows yet"
        with lines_of("tierlog.cold.partitionmaker") as lines:
            await served.seal("t", b"c")
            await until(lambda: served.uploads("t").is_fenced)
            await asyncio.sleep(300)
        for _ in range(2):
            assert await produced(served, "t", b"d") == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert [line for line in lines if "t-0 is read-only from now on" in line] == lines
        assert await produced(served, "t", b"e", index=1) == ErrorCode.NONE, "it has its own HEAD"
        assert await served.values("t", 1) == [b"b", b"c"], "what is here stays readable"
        assert served.node.stats.produce_refusals


@in_world
async def test_a_fence_that_a_deletion_meets_closes_the_partition_as_well(lives: Lives) -> None:
    async with lives.node() as served:
        topic = await served.tiered("t")
        await served.make_cold("t", b"a", b"b")
        served.uploads("t").uploader.publisher._seen = None
        claim_as_twin(lives.bucket, topic, served.at("t").leader_epoch)
        await asks.delete_records(served, "t", 1)
        assert await produced(served, "t", b"c") == ErrorCode.NOT_LEADER_OR_FOLLOWER
