"""One connection: versions, matching, timeouts, and everything that can break it."""

import asyncio
import struct
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.client.fake import CLIENT, HOST, FakeBroker, begin
from tests.compat.recorder import CLASSIC
from tierlog.client import (
    BadAnswer,
    Connection,
    ConnectionLost,
    NotConnected,
    OutcomeUnknown,
    RequestTimedOut,
    VersionNotShared,
)
from tierlog.client.frames import FrameCutter
from tierlog.sim import SimWorld, simulate
from tierlog.wire.api_keys import ApiKey
from tierlog.wire.errors import BadFrame
from tierlog.wire.framing import framed
from tierlog.wire.header import encode_request, encode_response
from tierlog.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from tierlog.wire.messages.describe_cluster import DescribeClusterRequest
from tierlog.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tierlog.wire.messages.metadata import MetadataRequest, MetadataResponse
from tierlog.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

PORT = 9092
Script = Callable[[int, asyncio.Transport, list[int]], None]
"""Called after each request behind the handshake with its number from 0, and all ids so far."""

ROWS = [ApiVersion(api_key=ApiKey.INIT_PRODUCER_ID, min_version=0, max_version=3)]


class Scripted(asyncio.Protocol):
    """Shakes hands, then leaves every answer to a script."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.ids: list[int] = []
        self.frames = FrameCutter()
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        for frame in self.frames.feed(data):
            api, _, number = struct.unpack_from(">hhi", frame)
            if api == ApiKey.API_VERSIONS:
                hello = ApiVersionsResponse(error_code=0, api_keys=ROWS)
                self.transport.writelines(encode_response(hello, 4, correlation_id=number))
            else:
                self.ids.append(number)
                self.script(len(self.ids) - 1, self.transport, self.ids)


async def listen(script: Script) -> None:
    await asyncio.get_running_loop().create_server(lambda: Scripted(script), "0.0.0.0", PORT)


def answer(number: int, producer_id: int) -> bytes:
    made = InitProducerIdResponse(
        throttle_time_ms=0, error_code=0, producer_id=producer_id, producer_epoch=0
    )
    return b"".join(encode_response(made, 3, correlation_id=number))


ASK = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)


async def connect(world: SimWorld, script: Script, *, timeout_s: float = 5.0) -> Connection:
    await world.start(HOST, listen(script), what="listen")
    return await Connection.connect(HOST, PORT, timeout_s=timeout_s)


def silent(number: int, writer: asyncio.Transport, ids: list[int]) -> None:
    pass


# Versions


def test_the_highest_shared_version_is_used_unless_capped() -> None:
    async def ask(world: SimWorld) -> list[int]:
        broker = await begin(world, FakeBroker(ceilings={ApiKey.METADATA: 9}))
        for caps in ({}, {ApiKey.METADATA: 5}, {ApiKey.METADATA: 13}):
            connection = await Connection.connect(HOST, broker.world.port, versions_max=caps)
            made = await connection.call(MetadataRequest(topics=None))
            assert isinstance(made, MetadataResponse)
            await connection.call(MetadataRequest(topics=None), version=2)
            await connection.close()
        return [each.version for each in broker.exchanges if each.api is ApiKey.METADATA]

    assert simulate(ask, seed=1) == [9, 2, 5, 2, 9, 2]


def test_a_broker_that_knows_only_old_handshakes_is_asked_again() -> None:
    async def ask(world: SimWorld) -> list[int]:
        broker = await begin(world, FakeBroker(ceilings={ApiKey.API_VERSIONS: 0}))
        connection = await Connection.connect(HOST, broker.world.port)
        assert connection.ranges[ApiKey.API_VERSIONS] == (0, 0)
        await connection.close()
        return [each.version for each in broker.exchanges]

    assert simulate(ask, seed=1) == [0]


def test_an_api_without_a_shared_version_is_refused_here() -> None:
    async def ask(world: SimWorld) -> None:
        broker = await begin(world, FakeBroker(ceilings=CLASSIC))
        connection = await Connection.connect(HOST, broker.world.port)
        with pytest.raises(VersionNotShared, match="DESCRIBE_CLUSTER"):
            await connection.call(
                DescribeClusterRequest(include_cluster_authorized_operations=False)
            )
        assert connection.is_open
        await connection.close()

    simulate(ask, seed=1)


# Matching


@given(
    sizes=st.lists(st.integers(1, 40), max_size=8),
    cuts=st.lists(st.integers(1, 30), min_size=1, max_size=30),
)
def test_frames_come_out_whole_however_the_bytes_arrive(sizes: list[int], cuts: list[int]) -> None:
    frames = [bytes([place]) * size for place, size in enumerate(sizes)]
    stream = b"".join(len(each).to_bytes(4, "big") + each for each in frames)
    cutter, found, at, turn = FrameCutter(), [], 0, 0
    while at < len(stream):
        step = cuts[turn % len(cuts)]
        found += list(cutter.feed(stream[at : at + step]))
        at, turn = at + step, turn + 1
    assert found == frames


def test_a_frame_beyond_the_limit_is_refused_after_those_before_it() -> None:
    cutter = FrameCutter(bytes_max=10)
    frames = cutter.feed(b"\0\0\0\1a\0\0\0\x0bx")
    assert next(frames) == b"a"
    with pytest.raises(BadFrame):
        next(frames)


@pytest.mark.parametrize("seed", range(10))
def test_pipelined_answers_in_odd_pieces_reach_their_callers(seed: int) -> None:
    async def pipeline(world: SimWorld) -> None:
        rng = world.rng("pieces")

        def batch_up(number: int, writer: asyncio.Transport, ids: list[int]) -> None:
            if number == 29:
                data = b"".join(answer(each, 1000 + each) for each in ids)
                asyncio.get_running_loop().create_task(drip(data, writer))

        async def drip(data: bytes, writer: asyncio.Transport) -> None:
            while data:
                size = rng.randrange(1, 60)
                writer.write(data[:size])
                data = data[size:]
                await asyncio.sleep(rng.random() / 100)

        connection = await connect(world, batch_up)
        futures = [connection.send(ASK) for _ in range(30)]
        futures[7].cancel()  # the answer is given up, those behind it are not
        made = await asyncio.gather(*futures, return_exceptions=True)
        for number, each in enumerate(made):
            if number != 7:
                assert isinstance(each, InitProducerIdResponse)
                assert each.producer_id == 1000 + number
        assert connection.in_flight_count == 0
        await connection.close()

    simulate(pipeline, seed=seed)


def test_acks_0_expects_no_answer() -> None:
    async def tell(world: SimWorld) -> None:
        broker = await begin(world, FakeBroker())
        connection = await Connection.connect(HOST, broker.world.port)
        data = TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0)])
        request = ProduceRequest(acks=0, timeout_ms=1, topic_data=[data])
        made = await connection.call(request, version=12)
        assert isinstance(made, ProduceResponse)
        assert connection.in_flight_count == 0
        # What follows is answered as its own.
        assert isinstance(await connection.call(MetadataRequest(topics=[])), MetadataResponse)
        assert broker.produce_count == 1
        await connection.close()

    simulate(tell, seed=1)


def test_a_raw_frame_is_answered_by_a_raw_frame() -> None:
    async def ask(world: SimWorld) -> None:
        connection = await connect(world, lambda n, writer, ids: writer.write(answer(ids[n], 5)))
        frame = b"".join(encode_request(ASK, 3, correlation_id=77, client_id=None))[4:]
        assert await connection.call_raw(frame) == answer(77, 5)[4:]
        await connection.close()

    simulate(ask, seed=1)


# What breaks it


@pytest.mark.parametrize(
    "nonsense",
    [
        answer(99, 1),
        b"".join(framed([answer(0, 1)[4:] + b"\0"])),
        b"\xff\xff\xff\xff",
        b"HTTP/1.1 400",
        b"\0\0\0\1x",
    ],
    ids=["wrong id", "trailing", "negative size", "http", "too short"],
)
def test_an_answer_that_makes_no_sense_ends_the_connection(nonsense: bytes) -> None:
    async def ask(world: SimWorld) -> None:
        connection = await connect(world, lambda n, writer, ids: writer.write(nonsense))
        with pytest.raises(OutcomeUnknown) as caught:
            await connection.call(ASK)
        assert isinstance(caught.value, BadAnswer | RequestTimedOut)
        assert not connection.is_open
        with pytest.raises(NotConnected):
            await connection.call(ASK)
        await connection.close()

    simulate(ask, seed=1)


def test_an_answer_nobody_asked_for_ends_the_connection() -> None:
    async def ask(world: SimWorld) -> None:
        def twice(number: int, writer: asyncio.Transport, ids: list[int]) -> None:
            writer.write(answer(ids[number], 1) * 2)

        connection = await connect(world, twice)
        await connection.call(ASK)
        await asyncio.sleep(1)
        assert not connection.is_open

    simulate(ask, seed=1)


def test_silence_is_a_timeout_and_a_maybe_for_all_under_way() -> None:
    async def ask(world: SimWorld) -> None:
        connection = await connect(world, silent)
        before = world.loop.time()
        futures = [connection.send(ASK) for _ in range(3)]
        made = await asyncio.gather(*futures, return_exceptions=True)
        assert [type(each) for each in made] == [RequestTimedOut] * 3
        assert world.loop.time() - before == pytest.approx(5, abs=0.1)
        assert not connection.is_open

    simulate(ask, seed=1)


@pytest.mark.parametrize("size", [0, 3, 4, 9])
def test_a_reset_inside_an_answer_fails_every_request_under_way(size: int) -> None:
    async def ask(world: SimWorld) -> None:
        def cut(number: int, writer: asyncio.Transport, ids: list[int]) -> None:
            if number == 2:
                writer.write(answer(ids[0], 1) + answer(ids[1], 2)[:size])
                writer.close()

        connection = await connect(world, cut)
        futures = [connection.send(ASK) for _ in range(3)]
        first, *others = await asyncio.gather(*futures, return_exceptions=True)
        assert isinstance(first, InitProducerIdResponse)
        assert [type(each) for each in others] == [ConnectionLost] * 2

    simulate(ask, seed=1)


def test_a_slow_network_is_waited_for_and_a_split_one_times_out() -> None:
    async def ask(world: SimWorld) -> None:
        world.network.set_delay(CLIENT, HOST, low=0.5, high=1.0)
        connection = await connect(world, lambda n, writer, ids: writer.write(answer(ids[n], 5)))
        await connection.call(ASK)
        world.network.partition(CLIENT, HOST)
        with pytest.raises(RequestTimedOut):
            await connection.call(ASK)

    simulate(ask, seed=1)


def test_no_connection_is_a_plain_no() -> None:
    async def ask(world: SimWorld) -> None:
        with pytest.raises(NotConnected, match="connection refused"):
            await Connection.connect(HOST, PORT)

    async def deaf(world: SimWorld) -> None:
        async def listen_only() -> None:
            await asyncio.get_running_loop().create_server(asyncio.Protocol, "", PORT)

        await world.start(HOST, listen_only(), what="listen")
        with pytest.raises(NotConnected):
            await Connection.connect(HOST, PORT, timeout_s=2)

    simulate(ask, seed=1)
    simulate(deaf, seed=1)
