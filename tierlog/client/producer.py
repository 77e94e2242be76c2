"""Writes records: partitions, batches, retries.

    async with Producer(client) as producer:
        placed = await (await producer.send("t", b"value", key=b"k"))

By default idempotent: each record that `send` took is written once or not at all, and the records
of one partition keep the order of their `send` calls. A future fails with an `OutcomeUnknown` where
it cannot be said which; any other error means that the record was not written.

Not a transactional producer: a new one has a new producer id and knows nothing of the last.
"""

import asyncio
from collections.abc import Callable
from types import TracebackType

from tierlog.client.client import Client
from tierlog.client.errors import ClientError, ProducerFailed, check
from tierlog.client.partition_producer import PartitionProducer
from tierlog.client.router import call
from tierlog.client.settings import ProducerSettings
from tierlog.client.values import Placed, TopicPartition
from tierlog.client.window import Batch, Identity
from tierlog.records.partitioners import Keyed
from tierlog.records.record import FIRST_OFFSET, Record, RecordHeader
from tierlog.types import ProducerEpoch, ProducerId, TimestampMs
from tierlog.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

RECORD_BYTES = 24
"""What a record takes beside its key, value and headers, at most: six varints and a byte."""


class Producer:
    """See the module."""

    def __init__(
        self,
        client: Client,
        settings: ProducerSettings | None = None,
        *,
        on_trouble: Callable[[TopicPartition, ClientError], None] | None = None,
    ) -> None:
        """`on_trouble` hears of every failure that is tried again, for whoever waits."""
        self.settings = settings or ProducerSettings()
        self.router = client.router
        self._client = client
        self._on_trouble = on_trouble
        self._partitions: dict[TopicPartition, PartitionProducer] = {}
        self._partitioners: dict[str, Keyed] = {}
        self._failed: ProducerFailed | None = None
        self._identity: Identity | None = None
        self._asking = asyncio.Lock()
        self._unsettled_bytes = 0
        self._change = asyncio.Event()

    async def __aenter__(self) -> "Producer":
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close(flush=kind is None)

    async def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: tuple[RecordHeader, ...] = (),
        timestamp: int | None = None,
        partition: int | None = None,
    ) -> asyncio.Future[Placed]:
        """Take a record; the future tells where it went. Waits for metadata and for room."""
        self._check_alive()
        # A doubted picture will do to choose a partition: leaders are found when a batch is sent.
        known = self.router.cluster.topics.get(topic) or await self._client.topic(topic)
        while self._unsettled_bytes >= self.settings.buffer_bytes_max:
            self._change.clear()
            await self._change.wait()
        self._check_alive()
        if partition is None:
            partition = self._partitioner(topic).choose(key, len(known.partitions))
        stamp = self.router.clock.now_ms() if timestamp is None else timestamp
        if not -1 <= stamp < 2**63:
            raise ValueError(f"timestamp {stamp} does not fit a record")
        record = Record(FIRST_OFFSET, TimestampMs(stamp), key, value, headers)
        size = _size_of(record)
        self._unsettled_bytes += size
        return self._partition(TopicPartition(topic, partition)).append(record, size)

    async def flush(self) -> None:
        """Wait until every record taken is written or has failed."""
        partitions = list(self._partitions.values())
        for each in partitions:
            each.hurry = True
            each.wake()
        while self._unsettled_bytes:
            self._change.clear()
            await self._change.wait()
        for each in partitions:
            each.hurry = False

    async def close(self, *, flush: bool = True) -> None:
        if flush:
            await self.flush()
        error = self._failed = self._failed or ProducerFailed("the producer is closed")
        for each in self._partitions.values():
            await each.stop(error)
        self._partitions.clear()

    def _check_alive(self) -> None:
        if self._failed is not None:
            raise ProducerFailed(str(self._failed))

    def _partitioner(self, topic: str) -> Keyed:
        if topic not in self._partitioners:
            self._partitioners[topic] = Keyed(self.router.rng)
        return self._partitioners[topic]

    def _partition(self, place: TopicPartition) -> PartitionProducer:
        if place not in self._partitions:
            self._partitions[place] = PartitionProducer(place, self)
        return self._partitions[place]

    # What the partitions ask for

    async def identity(self, used: Identity) -> Identity:
        """One attempt. Partitions share an id until one of them has used up its epochs."""
        async with self._asking:
            known = self._identity
            if known is not None and known.producer_id != used.producer_id:
                return known
            request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)
            connection = await self.router.any_connection()
            answer = await call(connection, request, InitProducerIdResponse)
            check(answer.error_code)
            self._identity = Identity(
                ProducerId(answer.producer_id), ProducerEpoch(answer.producer_epoch)
            )
            return self._identity

    def admitted(self, place: TopicPartition) -> None:
        if (topic := self.router.cluster.topics.get(place.topic)) is not None:
            self._partitioner(place.topic).batch_completed(len(topic.partitions))

    def settled(self, batch: Batch) -> None:
        self._unsettled_bytes -= batch.size_bytes
        self._change.set()

    def troubled(self, place: TopicPartition, error: ClientError) -> None:
        if self._on_trouble is not None:
            self._on_trouble(place, error)

    def end(self, error: ProducerFailed) -> None:
        """Everything taken and not written fails; so does every later `send`."""
        self._failed = self._failed or error
        for each in self._partitions.values():
            each.fail_all(error)


def _size_of(record: Record) -> int:
    headers = sum(len(name) + len(value or b"") + 10 for name, value in record.headers)
    return RECORD_BYTES + len(record.key or b"") + len(record.value or b"") + headers
