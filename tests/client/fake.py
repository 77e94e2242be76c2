"""A broker for the tests of the client, and ways to make it fail.

The recorder of the compatibility tests, with sequences checked as the real log does, and a plan
that says what becomes of each Produce request. Runs in the simulated world: the network there cuts
its answers into drawn pieces.
"""

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from enum import Enum, auto
from typing import TypeAlias

from tests.compat.recorder import CEILINGS, Recorder, _encoded
from tests.compat.world import Partition
from tierlog.client import Client, ClientSettings
from tierlog.env import Env
from tierlog.hot.errors import ProducerFenced, SequenceOutOfOrder
from tierlog.hot.producers import Producers
from tierlog.records.batch import parse_header
from tierlog.sim import SimWorld
from tierlog.wire.api_keys import ApiKey
from tierlog.wire.error_codes import ErrorCode
from tierlog.wire.framing import SIZE_BYTES, frame_size
from tierlog.wire.header import decode_request
from tierlog.wire.messages import produce as produces
from tierlog.wire.messages.produce import ProduceRequest, ProduceResponse

QUICK = ClientSettings(request_timeout_s=5.0, deadline_s=20.0, connect_timeout_s=5.0)
HOST = "server"
CLIENT = "driver"
"""The host on which the scenario itself runs."""
LATE_SECONDS = 7.0
"""Beyond the request timeout: the batch is written while its copy is under way."""


class Fate(Enum):
    """What becomes of a Produce request."""

    ANSWERED = auto()
    LOST_BEFORE = auto()
    """The connection breaks; nothing is written."""
    LOST_AFTER = auto()
    """Written; the connection breaks before the answer."""
    HALF_ANSWERED = auto()
    """Written; the connection breaks inside the answer."""
    SILENT = auto()
    """Written; no answer ever comes, and nothing behind it is looked at."""
    LATE = auto()
    """Written, with all that came behind it, after the client has lost its patience."""


Plan: TypeAlias = Callable[[int, ProduceRequest], Fate | ErrorCode]
"""By the number of the request, from 0. A code is a refusal without writing."""


def no_trouble(number: int, request: ProduceRequest) -> Fate | ErrorCode:
    return Fate.ANSWERED


class FakeBroker(Recorder):
    def __init__(
        self, *, plan: Plan = no_trouble, ceilings: Mapping[ApiKey, int] = CEILINGS
    ) -> None:
        super().__init__(ceilings=ceilings)
        self.plan = plan
        self.produce_count = 0
        self.sequences: dict[int, Producers] = {}

    async def begin(self) -> None:
        self.world.host = HOST
        await self.start()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        frames: asyncio.Queue[bytes | None] = asyncio.Queue()
        worker = asyncio.create_task(self._work(frames, writer))
        self._connections.add(worker)
        try:
            while True:
                size = frame_size(await reader.readexactly(SIZE_BYTES))
                frames.put_nowait(await reader.readexactly(size))
        finally:
            frames.put_nowait(None)

    async def _work(
        self, frames: "asyncio.Queue[bytes | None]", writer: asyncio.StreamWriter
    ) -> None:
        """Carry out what was received, in order, though the sender may be long gone."""
        while (frame := await frames.get()) is not None:
            if int.from_bytes(frame[:2], "big") == ApiKey.PRODUCE:
                if not await self._take_produce(frame, writer):
                    writer.transport.abort()
                    return
            elif (answer := await self._answer(frame)) is not None:
                writer.write(answer)

    async def _take_produce(self, frame: bytes, writer: asyncio.StreamWriter) -> bool:
        """False when the connection is to break."""
        header, request = decode_request(frame)
        assert isinstance(request, ProduceRequest)
        fate = self.plan(self.produce_count, request)
        self.produce_count += 1
        if fate is Fate.LOST_BEFORE:
            return False
        if fate is Fate.LATE:
            await asyncio.sleep(LATE_SECONDS)
        response = self._written(request, fate if isinstance(fate, ErrorCode) else None)
        async with self.world.appended:
            self.world.appended.notify_all()
        answer = _encoded(response, header)
        if fate is Fate.HALF_ANSWERED:
            writer.write(answer[: len(answer) // 2])
            await asyncio.sleep(0.1)
        if fate in (Fate.LOST_AFTER, Fate.HALF_ANSWERED):
            return False
        if fate is Fate.SILENT:
            await asyncio.sleep(1000)
        if request.acks:
            writer.write(answer)
        return True

    def _written(self, request: ProduceRequest, refusal: ErrorCode | None) -> ProduceResponse:
        (data,) = request.topic_data
        (one,) = data.partition_data
        topic = self.world.find(name=data.name, topic_id=data.topic_id)
        partition = self.world.partition(topic, one.index)
        if partition is None:
            refusal = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        code, base = refusal or ErrorCode.NONE, -1
        if refusal is None:
            assert partition is not None
            assert one.records is not None
            code, base = self._append(partition, bytes(one.records))
        answer = produces.PartitionProduceResponse(
            index=one.index, error_code=code, base_offset=base, log_start_offset=0
        )
        return ProduceResponse(
            responses=[
                produces.TopicProduceResponse(
                    name=data.name, topic_id=data.topic_id, partition_responses=[answer]
                )
            ]
        )

    def _append(self, partition: Partition, batch: bytes) -> tuple[ErrorCode, int]:
        header = parse_header(batch)
        known = self.sequences.setdefault(id(partition), Producers())
        try:
            first = known.check(header) if header.has_producer else None
        except SequenceOutOfOrder:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
        except ProducerFenced:
            return ErrorCode.INVALID_PRODUCER_EPOCH, -1
        if first is not None:
            return ErrorCode.NONE, first.base_offset
        base = partition.append(batch)
        if header.has_producer:
            known.note(header, base, header.max_timestamp, now_ms=0)
        return ErrorCode.NONE, base


async def begin(world: SimWorld, broker: FakeBroker) -> FakeBroker:
    """Start it on its host."""
    await world.start(HOST, broker.begin(), what="begin")
    return broker


def client_of(broker: FakeBroker, env: Env, settings: ClientSettings = QUICK) -> Client:
    return Client([(HOST, broker.world.port)], clock=env.clock, rng=env.rng, settings=settings)


@contextlib.asynccontextmanager
async def joined(world: SimWorld, broker: FakeBroker, settings: ClientSettings = QUICK):  # type: ignore[no-untyped-def]
    await begin(world, broker)
    async with client_of(broker, world.env(CLIENT), settings) as client:
        yield client
