"""A node with a bucket: what is deleted, and what is known to be there."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from tests.broker.support import DATA, Served, Wedge
from tests.cold.tiering import Door
from tests.hot.support import batch
from tierlog.broker.node import Node
from tierlog.broker.partition import Partition
from tierlog.cold.codec import decode_head
from tierlog.cold.head import Head
from tierlog.config import NodeSettings
from tierlog.config.directories import LOGS, META
from tierlog.fetchproxy.errors import ColdUnavailable
from tierlog.hot import LogDirectory
from tierlog.metastore import LocalMetaStore
from tierlog.objectstore.errors import StoreLies
from tierlog.sim import SimWorld
from tierlog.sim.bucket import SimBucket
from tierlog.types import Offset
from tierlog.wire.error_codes import ErrorCode
from tierlog.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)

HOST = "node"
TOPIC = "t"


class Tiered:
    """One life of a node with one tiered partition."""

    def __init__(self, served: Served, bucket: SimBucket, store: Door) -> None:
        self.served = served
        self.bucket = bucket
        self.store = store

    @property
    def node(self) -> Node:
        return self.served.node

    @property
    def partition(self) -> Partition:
        return self.node.topics.named(TOPIC).partition(0)

    @property
    def tier(self) -> Any:
        assert self.node.tiering is not None
        return self.node.tiering.tier

    async def produce_sealed(self, *values: bytes) -> None:
        now_ms = self.node.env.clock.now_ms()
        for value in values:
            self.partition.append(memoryview(batch(value, timestamp=now_ms)), now_ms)
        self.partition.log.roll()
        await self.partition.log.settle()

    async def delete(self, offset: int, *, timeout_ms: int = 60_000) -> tuple[int, int]:
        """Low watermark and error code."""
        wanted = DeleteRecordsPartition(partition_index=0, offset=offset)
        topic = DeleteRecordsTopic(name=TOPIC, partitions=[wanted])
        request = DeleteRecordsRequest(topics=[topic], timeout_ms=timeout_ms)
        response = await self.served.call(request, 2)
        (result,) = response.topics[0].partitions
        return result.low_watermark, result.error_code

    def head(self) -> Head:
        """As it stands in the bucket."""
        (key,) = (key for key in self.bucket.shelf.items if key.endswith("/HEAD"))
        return decode_head(self.bucket.shelf.items[key].data, key=key)


Scenario = Callable[[Tiered], Awaitable[None]]


async def live(
    world: SimWorld,
    bucket: SimBucket,
    scenario: Scenario,
    *,
    away: bool,
    settings: NodeSettings,
) -> None:
    env = world.env(HOST)
    store = Door(bucket, env)
    store.is_closed = away
    directory = LogDirectory(env, f"{DATA}/{LOGS}", reserve_bytes=0)
    metastore = Wedge(await LocalMetaStore.open(env, f"{DATA}/{META}"))
    node = Node(env, settings, metastore, directory, data=DATA, store=store)
    await node.start()
    served = Served(node, metastore, cast("Any", env.disk))
    if not list(node.catalogue.topics):
        await served.create(TOPIC, remote_storage_enable="true")
    try:
        await scenario(Tiered(served, bucket, store))
    finally:
        metastore.release()
        await node.stop()


def play(*scenarios: Scenario, away: bool = False, settings: NodeSettings | None = None) -> None:
    """One life after the other; `away`: the store does not answer when the last of them begins."""
    world = SimWorld(1)
    bucket = SimBucket(world.rng("bucket"), world=world)

    async def run() -> None:
        for number, scenario in enumerate(scenarios):
            is_away = away and number == len(scenarios) - 1
            life = live(world, bucket, scenario, away=is_away, settings=settings or NodeSettings())
            await world.start(HOST, life, what=f"life {number}")
            world.kill(HOST)

    world.run(run())


def test_records_that_are_published_while_they_are_deleted_are_deleted_in_the_bucket() -> None:
    async def scenario(tiered: Tiered) -> None:
        await tiered.produce_sealed(b"0")
        await asyncio.sleep(5)
        asked: asyncio.Future[asyncio.Task[tuple[int, int]]] = asyncio.Future()

        def watch(kind: str, key: str) -> None:
            if key.endswith("HEAD") and kind.startswith("put") and not asked.done():
                asked.set_result(asyncio.ensure_future(tiered.delete(3)))

        tiered.store.watch = watch
        await tiered.produce_sealed(b"1", b"2", b"3")
        assert await (await asked) == (3, 0)
        assert (tiered.head().log_start, tiered.partition.log_start) == (3, 3)

    play(scenario)


def test_records_in_the_bucket_alone_are_deleted_there() -> None:
    async def scenario(tiered: Tiered) -> None:
        await tiered.produce_sealed(b"0", b"1", b"2")
        await asyncio.sleep(5)
        log = tiered.partition.log
        log.drop(Offset(3))
        assert (tiered.partition.log_start, log.log_start) == (0, 3)
        assert await tiered.delete(2) == (2, 0)
        assert (tiered.head().log_start, tiered.partition.log_start, log.log_start) == (2, 2, 3)

    play(scenario)


def test_deleting_waits_for_the_store_no_longer_than_the_request_says() -> None:
    async def scenario(tiered: Tiered) -> None:
        await tiered.produce_sealed(b"0", b"1")
        await asyncio.sleep(5)
        tiered.store.is_closed = True
        await tiered.produce_sealed(b"2")
        await asyncio.sleep(120)
        assert not tiered.tier.is_ready
        clock = tiered.node.env.clock
        began = clock.monotonic()
        assert await tiered.delete(1, timeout_ms=2000) == (-1, ErrorCode.REQUEST_TIMED_OUT)
        assert 2 <= clock.monotonic() - began < 3
        assert (tiered.partition.log_start, tiered.head().log_start) == (1, 0)
        tiered.store.is_closed = False
        await asyncio.sleep(180)
        assert tiered.head().log_start == 1

    play(scenario)


def test_records_in_a_store_that_is_refused_are_not_deleted() -> None:
    async def scenario(tiered: Tiered) -> None:
        await tiered.produce_sealed(b"0", b"1")
        await asyncio.sleep(5)
        tiered.tier.refusal = StoreLies("it has two values of one key")
        assert await tiered.delete(1) == (-1, ErrorCode.KAFKA_STORAGE_ERROR)
        assert (tiered.partition.log_start, tiered.head().log_start) == (0, 0)

    play(scenario)


def test_where_records_were_only_deleted_the_beginning_is_known_without_the_store() -> None:
    async def first(tiered: Tiered) -> None:
        await tiered.produce_sealed(b"0", b"1")
        assert await tiered.delete(1) == (1, 0)

    async def second(tiered: Tiered) -> None:
        tiered.partition.check_start()
        assert tiered.partition.log_start == 1

    play(first, second, away=True)


def test_what_was_dropped_and_is_not_listed_any_more_is_not_out_of_range() -> None:
    async def scenario(tiered: Tiered) -> None:
        await tiered.produce_sealed(b"0")
        await asyncio.sleep(5)
        await tiered.produce_sealed(b"1")
        tiered.partition.log.drop(Offset(2))
        assert tiered.partition.log_start == 0
        tiered.partition.check_cold(0)
        with pytest.raises(ColdUnavailable, match="does not list it"):
            tiered.partition.check_cold(1)

    play(scenario)


@pytest.mark.parametrize(
    ("settings", "is_read"),
    [(NodeSettings(tierlog_scrub_byte_period_ms=3_600_000), True), (NodeSettings(), False)],
)
def test_every_byte_is_read_in_the_time_that_the_setting_says(
    settings: NodeSettings, is_read: bool
) -> None:
    async def scenario(tiered: Tiered) -> None:
        await tiered.produce_sealed(b"0", b"1")
        await asyncio.sleep(2 * 3600)
        assert (tiered.tier.stats.scrubbed_bytes >= tiered.head().bytes) is is_read

    play(scenario, settings=settings)
