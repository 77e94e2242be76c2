"""Every call of the client, against a broker that answers."""

import asyncio

import pytest
import uvloop

from tests.client.fake import CLIENT, HOST, QUICK, FakeBroker, begin, client_of, joined
from tests.compat.recorder import CLASSIC, Recorder
from tierlog.client import (
    EARLIEST,
    LATEST,
    MAX_TIMESTAMP,
    BrokerError,
    Client,
    ConnectionLost,
    NewRecord,
    NotConnected,
    VersionNotShared,
)
from tierlog.env import local_env
from tierlog.records.batch import iter_batches
from tierlog.sim import SimWorld, simulate
from tierlog.wire.api_keys import ApiKey
from tierlog.wire.error_codes import ErrorCode

TWO = [NewRecord(b"a", key=b"k", timestamp=100), NewRecord(None, timestamp=200)]


async def every_call(client: Client) -> None:
    made = await client.create_topics(["t", "u"], partitions=2, configs={"retention.ms": "5"})
    assert sorted(made) == ["t", "u"]
    names = {each.name for each in (await client.metadata()).topics}
    assert names == {"t", "u"}
    assert len((await client.topic("t")).partitions) == 2

    assert (await client.produce("t", 1, TWO)).base_offset == 0
    assert (await client.produce("t", 1, TWO, acks=1)).base_offset == 2
    fetched = await client.fetch("t", 1, 0, max_wait_ms=10)
    assert (fetched.error, fetched.high_watermark, fetched.log_start) == (ErrorCode.NONE, 4, 0)
    assert [header.base_offset for _, header in iter_batches(fetched.batches)] == [0, 2]
    assert (await client.fetch("t", 1, 4, max_wait_ms=10)).batches == b""
    assert (await client.fetch("t", 1, 9)).error is ErrorCode.OFFSET_OUT_OF_RANGE

    ends = await client.list_offsets("t", {0: LATEST, 1: LATEST})
    assert {partition: each.offset for partition, each in ends.items()} == {0: 0, 1: 4}
    for timestamp, offset in [(EARLIEST, 0), (MAX_TIMESTAMP, 3), (150, 1), (201, -1)]:
        assert (await client.list_offsets("t", {1: timestamp}))[1].offset == offset

    await client.create_partitions("t", 3)
    await client.describe_configs("t")
    await client.alter_configs("t", set={"retention.ms": "1"}, delete=["segment.ms"])
    await client.delete_topics("u")
    assert {each.name for each in (await client.metadata()).topics} == {"t"}


def test_every_call_at_the_newest_versions() -> None:
    async def run(world: SimWorld) -> None:
        broker = FakeBroker()
        async with joined(world, broker) as client:
            await every_call(client)
            assert (await client.describe_cluster()).brokers[0].host == HOST
            used = {each.api: each.version for each in broker.exchanges}
            assert (used[ApiKey.FETCH], used[ApiKey.METADATA]) == (18, 13)
        assert broker.faults == []

    simulate(run, seed=1)


def test_every_call_at_the_versions_before_flexible_ones() -> None:
    async def run(world: SimWorld) -> None:
        broker = FakeBroker(ceilings=CLASSIC)
        async with joined(world, broker) as client:
            await every_call(client)
            with pytest.raises(VersionNotShared):
                await client.describe_cluster()
        assert broker.faults == []

    simulate(run, seed=1)


async def test_every_call_on_the_real_loop() -> None:
    recorder = Recorder()
    await recorder.start()
    env = local_env()
    address = (recorder.world.host, recorder.world.port)
    async with Client([address], clock=env.clock, rng=env.rng, settings=QUICK) as client:
        await every_call(client)
    await recorder.stop()
    assert recorder.faults == []


def test_every_call_on_the_loop_that_the_node_runs_on() -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(test_every_call_on_the_real_loop())


def test_an_error_of_the_broker_raises_with_its_code() -> None:
    async def run(world: SimWorld) -> None:
        async with joined(world, FakeBroker()) as client:
            await client.create_topics("t", partitions=1)
            with pytest.raises(BrokerError) as caught:
                await client.create_topics("t", partitions=1)
            assert caught.value.code is ErrorCode.TOPIC_ALREADY_EXISTS
            assert not caught.value.retriable

    simulate(run, seed=1)


def test_a_topic_that_appears_in_time_is_waited_for() -> None:
    async def run(world: SimWorld) -> None:
        broker = FakeBroker()
        async with joined(world, broker) as client:
            world.loop.call_later(10, lambda: broker.world.create("late", 1))
            assert (await client.produce("late", 0, TWO)).base_offset == 0
            before = world.loop.time()
            with pytest.raises(BrokerError, match="UNKNOWN_TOPIC_OR_PARTITION"):
                await client.produce("never", 0, TWO)
            assert 15 < world.loop.time() - before <= QUICK.deadline_s
            with pytest.raises(BrokerError, match="no partition 7"):
                await client.produce("late", 7, TWO, deadline_s=1)

    simulate(run, seed=1)


def test_a_topic_made_anew_is_found_under_its_new_id() -> None:
    async def run(world: SimWorld) -> None:
        broker = FakeBroker()
        async with joined(world, broker) as client:
            await client.create_topics("t", partitions=1)
            assert (await client.produce("t", 0, TWO)).base_offset == 0
            del broker.world.topics["t"]
            broker.world.create("t", 1)
            assert (await client.produce("t", 0, TWO)).base_offset == 0

    simulate(run, seed=1)


def test_a_plain_produce_is_not_repeated_when_its_outcome_is_unknown() -> None:
    async def run(world: SimWorld) -> None:
        broker = FakeBroker()
        async with joined(world, broker) as client:
            await client.create_topics("t", partitions=1)
            await client.produce("t", 0, TWO)
            lost = asyncio.create_task(client.produce("t", 0, TWO))
            world.loop.call_later(0.0001, world.network.reset, CLIENT, HOST)
            world.loop.call_later(0.0001, world.kill, HOST)
            with pytest.raises((ConnectionLost, NotConnected)):
                await lost

    simulate(run, seed=1)


def test_a_broker_that_comes_back_is_found_again() -> None:
    async def run(world: SimWorld) -> None:
        broker = await begin(world, FakeBroker())
        port = broker.world.port
        async with client_of(broker, world.env(CLIENT)) as client:
            await client.create_topics("t", partitions=1)
            world.kill(HOST)
            again = FakeBroker()
            again.world.create("t", 1)

            async def listen() -> None:
                again.world.host, again.world.port = HOST, port
                again._server = await asyncio.start_server(again._accept, HOST, port)

            world.loop.call_later(5, lambda: world.start(HOST, listen(), what="again"))
            assert (await client.list_offsets("t", {0: LATEST}))[0].offset == 0

    simulate(run, seed=1)


def test_addresses_that_do_not_answer_are_passed_over() -> None:
    async def run(world: SimWorld) -> None:
        broker = await begin(world, FakeBroker())
        env = world.env(CLIENT)
        bootstrap = [("nowhere", 1), (HOST, broker.world.port)]
        async with Client(bootstrap, clock=env.clock, rng=env.rng, settings=QUICK) as client:
            await client.metadata()
        async with Client(bootstrap[:1], clock=env.clock, rng=env.rng, settings=QUICK) as client:
            with pytest.raises(NotConnected, match="nowhere:1"):
                await client.metadata()

    simulate(run, seed=1)


def test_a_long_poll_does_not_hold_up_other_calls() -> None:
    async def run(world: SimWorld) -> None:
        async with joined(world, FakeBroker()) as client:
            await client.create_topics("t", partitions=1)
            poll = asyncio.create_task(client.fetch("t", 0, 0, max_wait_ms=4000))
            await asyncio.sleep(1)
            before = world.loop.time()
            await client.produce("t", 0, TWO)
            assert (await poll).high_watermark == 2
            assert world.loop.time() - before < 1

    simulate(run, seed=1)
