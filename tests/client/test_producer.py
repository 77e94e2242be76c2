"""The promise of the producer: written once or not at all, in order, and told truly which."""

import asyncio
from random import Random

import pytest

from tests.client.fake import CLIENT, HOST, FakeBroker, Fate, Plan, joined
from tierlog.client import (
    BrokerError,
    Client,
    ClientError,
    DeliveryUnknown,
    NotConnected,
    OutcomeUnknown,
    Placed,
    Producer,
    ProducerFailed,
    ProducerSettings,
)
from tierlog.records.attributes import Codec
from tierlog.records.batch import iter_batches
from tierlog.records.record import decode_records
from tierlog.sim import SimWorld, simulate
from tierlog.wire.error_codes import ErrorCode
from tierlog.wire.messages.produce import ProduceRequest

SMALL = ProducerSettings(batch_bytes_max=60, delivery_timeout_s=60.0)
"""About two records of the tests in a batch."""


def written(broker: FakeBroker, partition: int = 0, topic: str = "t") -> list[bytes]:
    log = bytes(broker.world.topics[topic].partitions[partition].log)
    return [
        record.value or b""
        for position, header in iter_batches(log)
        for record in decode_records(log[position : position + header.size_bytes])
    ]


def by_number(fates: dict[int, Fate | ErrorCode]) -> Plan:
    return lambda number, _: fates.get(number, Fate.ANSWERED)


async def send_all(
    client: Client, count: int, settings: ProducerSettings = SMALL
) -> list[Placed | BaseException]:
    """Send numbered records to partition 0 and wait for every outcome."""
    async with Producer(client, settings) as producer:
        futures = [
            await producer.send("t", b"%04d" % number, partition=0) for number in range(count)
        ]
        await producer.flush()
    return await asyncio.gather(*futures, return_exceptions=True)


def check_promise(broker: FakeBroker, outcomes: list[Placed | BaseException]) -> None:
    found = written(broker)
    assert found == sorted(set(found)), "in order, none twice"
    for number, outcome in enumerate(outcomes):
        value = b"%04d" % number
        if isinstance(outcome, Placed):
            assert found[outcome.offset] == value
        else:
            assert isinstance(outcome, ClientError)
            assert isinstance(outcome, OutcomeUnknown) or value not in found


@pytest.mark.parametrize(
    "fate", [Fate.LOST_BEFORE, Fate.LOST_AFTER, Fate.HALF_ANSWERED, Fate.SILENT, Fate.LATE]
)
@pytest.mark.parametrize("number", [0, 1, 3])
def test_a_lost_answer_leads_to_one_copy(fate: Fate, number: int) -> None:
    async def lose(world: SimWorld) -> None:
        broker = FakeBroker(plan=by_number({number: fate}))
        async with joined(world, broker) as client:
            await client.create_topics("t", partitions=1)
            outcomes = await send_all(client, 20)
            assert outcomes == [Placed(0, place) for place in range(20)]
            assert written(broker) == [b"%04d" % each for each in range(20)]
            assert broker.produce_count > 10  # ten batches, and those that were repeated

    simulate(lose, seed=1)


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.KAFKA_STORAGE_ERROR,
    ],
)
def test_a_retriable_refusal_among_pipelined_batches_keeps_the_order(code: ErrorCode) -> None:
    async def refuse(world: SimWorld) -> None:
        broker = FakeBroker(plan=by_number({2: code, 3: code, 7: code}))
        async with joined(world, broker) as client:
            await client.create_topics("t", partitions=1)
            assert await send_all(client, 20) == [Placed(0, place) for place in range(20)]
            assert written(broker) == [b"%04d" % each for each in range(20)]

    simulate(refuse, seed=1)


def test_a_refused_batch_fails_alone_and_the_rest_is_numbered_anew() -> None:
    async def refuse(world: SimWorld) -> None:
        broker = FakeBroker(plan=by_number({1: ErrorCode.MESSAGE_TOO_LARGE}))
        async with joined(world, broker) as client:
            await client.create_topics("t", partitions=1)
            outcomes = await send_all(client, 20)
            failed = [each for each in outcomes if not isinstance(each, Placed)]
            assert [type(each) for each in failed] == [BrokerError, BrokerError]
            assert len(written(broker)) == 18
            check_promise(broker, outcomes)

    simulate(refuse, seed=1)


def test_a_forgotten_position_begins_a_new_epoch() -> None:
    async def forget(world: SimWorld) -> None:
        broker = FakeBroker(plan=by_number({3: ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER}))
        async with joined(world, broker) as client:
            await client.create_topics("t", partitions=1)
            assert await send_all(client, 20) == [Placed(0, place) for place in range(20)]
            log = bytes(broker.world.topics["t"].partitions[0].log)
            assert {header.producer_epoch for _, header in iter_batches(log)} == {0, 1}

    simulate(forget, seed=1)


def test_a_duplicate_answer_counts_as_written() -> None:
    async def repeat(world: SimWorld) -> None:
        broker = FakeBroker(plan=by_number({0: ErrorCode.DUPLICATE_SEQUENCE_NUMBER}))
        async with joined(world, broker) as client:
            await client.create_topics("t", partitions=1)
            assert await send_all(client, 1) == [Placed(0, -1)]

    simulate(repeat, seed=1)


def test_a_fenced_producer_ends_and_says_so() -> None:
    async def fence(world: SimWorld) -> None:
        broker = FakeBroker(plan=by_number({1: ErrorCode.INVALID_PRODUCER_EPOCH}))
        async with joined(world, broker) as client:
            await client.create_topics("t", partitions=1)
            producer = Producer(client, SMALL)
            assert await (await producer.send("t", b"0000", partition=0)) == (0, 0)
            with pytest.raises(ProducerFailed, match="INVALID_PRODUCER_EPOCH"):
                await (await producer.send("t", b"0001", partition=0))
            with pytest.raises(ProducerFailed, match="INVALID_PRODUCER_EPOCH"):
                await producer.send("t", b"0002", partition=0)
            await producer.close()

    simulate(fence, seed=1)


def test_a_batch_never_sent_fails_with_a_plain_no() -> None:
    async def cut(world: SimWorld) -> None:
        broker = FakeBroker()
        async with joined(world, broker) as client:
            await client.create_topics("t", partitions=1)
            producer = Producer(client, SMALL)
            await client.topic("t")
            world.network.reset(CLIENT, HOST)
            world.kill(HOST)
            future = await producer.send("t", b"0000", partition=0)
            with pytest.raises(NotConnected):
                await future
            await producer.close()

    simulate(cut, seed=1)


def test_a_batch_without_an_answer_fails_with_a_maybe() -> None:
    async def silence(world: SimWorld) -> None:
        broker = FakeBroker(plan=lambda *_: Fate.SILENT)
        async with joined(world, broker) as client:
            await client.create_topics("t", partitions=1)
            outcomes = await send_all(client, 6)
            assert {isinstance(each, OutcomeUnknown) for each in outcomes[:2]} == {True}
            check_promise(broker, outcomes)

    simulate(silence, seed=1)


def test_after_a_maybe_the_producer_goes_on_in_a_new_epoch() -> None:
    async def silence(world: SimWorld) -> None:
        broker = FakeBroker(plan=lambda *_: Fate.SILENT)
        async with joined(world, broker) as client:
            await client.create_topics("t", partitions=1)
            async with Producer(client, SMALL) as producer:
                with pytest.raises(OutcomeUnknown):
                    await (await producer.send("t", b"0000", partition=0))
                broker.plan = by_number({})
                assert await (await producer.send("t", b"0001", partition=0)) == (0, 1)
            log = bytes(broker.world.topics["t"].partitions[0].log)
            assert [header.producer_epoch for _, header in iter_batches(log)] == [0, 1]

    simulate(silence, seed=1)


REFUSALS = [
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.INVALID_RECORD,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.UNKNOWN_PRODUCER_ID,
]
LOSSES = [Fate.LOST_BEFORE, Fate.LOST_AFTER, Fate.HALF_ANSWERED, Fate.SILENT, Fate.LATE]


def hostile(rng: Random) -> Plan:
    """Anything may happen to any request, more on some days than on others."""
    trouble = rng.choice([0.1, 0.3, 0.6, 0.9])

    def plan(number: int, request: ProduceRequest) -> Fate | ErrorCode:
        if rng.random() >= trouble:
            return Fate.ANSWERED
        return rng.choice(LOSSES) if rng.random() < 0.6 else rng.choice(REFUSALS)

    return plan


async def chaos(world: SimWorld) -> None:
    rng = world.rng("chaos")
    broker = FakeBroker(plan=hostile(rng))
    async with joined(world, broker) as client:
        await client.create_topics("t", partitions=1)
        settings = ProducerSettings(
            batch_bytes_max=rng.choice([40, 60, 200]),
            delivery_timeout_s=rng.choice([3.0, 8.0, 20.0]),
            in_flight_max=rng.choice([1, 2, 5]),
            linger_s=rng.choice([0.0, 0.01]),
        )
        world.network.set_delay(CLIENT, HOST, low=0.0, high=rng.choice([0.001, 0.5, 2.0]))
        await client.topic("t")
        stir = world.start(CLIENT, _stir(world, rng), what="stir")
        async with Producer(client, settings) as producer:
            futures = []
            for number in range(40):
                futures.append(await producer.send("t", b"%04d" % number, partition=0))
                if rng.random() < 0.3:
                    await asyncio.sleep(rng.random())
            await producer.flush()
        stir.cancel()
        check_promise(broker, await asyncio.gather(*futures, return_exceptions=True))
    assert broker.faults == []


async def _stir(world: SimWorld, rng: Random) -> None:
    """The network misbehaves, too."""
    while True:
        await asyncio.sleep(rng.random() * 5)
        if rng.random() < 0.5:
            world.network.reset(CLIENT, HOST)
        else:
            world.network.partition(CLIENT, HOST)
            await asyncio.sleep(rng.random() * 4)
            world.network.heal()


@pytest.mark.parametrize("first", range(0, 40, 10))
def test_whatever_happens_records_are_written_once_in_order_and_told_truly(first: int) -> None:
    for seed in range(first, first + 10):
        simulate(chaos, seed=seed)


@pytest.mark.slow
def test_whatever_happens_for_many_seeds() -> None:
    for seed in range(1000, 1600):
        simulate(chaos, seed=seed)


def test_without_idempotence_a_doubtful_batch_is_not_repeated() -> None:
    async def lose(world: SimWorld) -> None:
        plan = by_number({0: Fate.LOST_AFTER, 1: ErrorCode.NOT_LEADER_OR_FOLLOWER})
        broker = FakeBroker(plan=plan)
        settings = ProducerSettings(idempotent=False, acks=1, batch_bytes_max=30)
        async with joined(world, broker) as client:
            await client.create_topics("t", partitions=1)
            outcomes = await send_all(client, 4, settings)
            assert isinstance(outcomes[0], OutcomeUnknown)
            assert outcomes[1:] == [Placed(0, 1), Placed(0, 2), Placed(0, 3)]
            check_promise(broker, outcomes)

    simulate(lose, seed=1)


def test_acks_0_waits_for_nothing() -> None:
    async def tell(world: SimWorld) -> None:
        broker = FakeBroker()
        settings = ProducerSettings(idempotent=False, acks=0, batch_bytes_max=30)
        async with joined(world, broker) as client:
            await client.create_topics("t", partitions=1)
            assert await send_all(client, 4, settings) == [Placed(0, -1)] * 4
            await asyncio.sleep(1)
            assert written(broker) == [b"%04d" % each for each in range(4)]

    simulate(tell, seed=1)


def test_linger_gathers_records_and_flush_does_not_wait_for_it() -> None:
    async def gather(world: SimWorld) -> None:
        broker = FakeBroker()
        async with joined(world, broker) as client:
            await client.create_topics("t", partitions=1)
            async with Producer(client, ProducerSettings(linger_s=50.0)) as producer:
                for number in range(10):
                    await producer.send("t", b"%d" % number, partition=0)
                    await asyncio.sleep(1)
                assert broker.produce_count == 0
                before = world.loop.time()
                await producer.flush()
                assert world.loop.time() - before < 1
                assert broker.produce_count == 1

    simulate(gather, seed=1)


def test_keys_choose_partitions_and_codecs_travel() -> None:
    async def spread(world: SimWorld) -> None:
        broker = FakeBroker()
        async with joined(world, broker) as client:
            await client.create_topics("t", partitions=4)
            settings = ProducerSettings(codec=Codec.ZSTD)
            async with Producer(client, settings) as producer:
                futures = [
                    await producer.send("t", b"x" * 99, key=b"%d" % (each % 20))
                    for each in range(60)
                ]
            placed = [await each for each in futures]
            assert len({each.partition for each in placed}) == 4
            assert placed[0].partition == placed[20].partition == placed[40].partition
            assert sum(len(written(broker, each)) for each in range(4)) == 60

    simulate(spread, seed=1)


def test_send_waits_while_too_much_is_unsettled() -> None:
    async def fill(world: SimWorld) -> None:
        broker = FakeBroker(plan=by_number({0: Fate.SILENT}))
        async with joined(world, broker) as client:
            await client.create_topics("t", partitions=1)
            async with Producer(client, ProducerSettings(buffer_bytes_max=100)) as producer:
                await producer.send("t", b"x" * 100, partition=0)
                before = world.loop.time()
                await producer.send("t", b"y", partition=0)
                assert world.loop.time() - before > 4  # until the silent request timed out

    simulate(fill, seed=1)


def test_closing_without_flush_tells_the_rest() -> None:
    async def close(world: SimWorld) -> None:
        broker = FakeBroker(plan=by_number({0: Fate.SILENT}))
        async with joined(world, broker) as client:
            await client.create_topics("t", partitions=1)
            producer = Producer(client, SMALL)
            futures = [await producer.send("t", b"%04d" % n, partition=0) for n in range(4)]
            await asyncio.sleep(1)
            await producer.close(flush=False)
            outcomes = await asyncio.gather(*futures, return_exceptions=True)
            kinds = [type(each) for each in outcomes]
            assert kinds == [DeliveryUnknown, DeliveryUnknown, ProducerFailed, ProducerFailed]

    simulate(close, seed=1)
