"""aiokafka, on a loop that turns while somebody waits for it."""

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from time import monotonic
from typing import Any, TypeVar

from tests.compat.drivers.base import (
    CLIENT_ID,
    FETCH_BYTES,
    PATIENCE_S,
    Record,
    Refused,
    Sending,
    dotted,
    headers_of,
)
from tests.compat.drivers.kafka_python import ACKS

T = TypeVar("T")


class _OnLoop:
    """What the library starts lives on this loop; `close` ends both."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        from aiokafka.errors import KafkaError

        async def bounded() -> T:
            async with asyncio.timeout(PATIENCE_S):
                return await work

        try:
            return self._runner.run(bounded())
        except KafkaError as error:
            raise Refused(getattr(error, "errno", -1), str(error)) from error

    def _end(self, stop: Coroutine[Any, Any, None]) -> None:
        with self._runner:
            self._run(stop)


class AioProducer(_OnLoop):
    def __init__(self, server: str, sending: Sending) -> None:
        super().__init__()
        self._run(self._start(server, sending))

    async def _start(self, server: str, sending: Sending) -> None:
        from aiokafka import AIOKafkaProducer

        self._producer = AIOKafkaProducer(
            bootstrap_servers=server,
            client_id=CLIENT_ID,
            compression_type=None if sending.codec == "none" else sending.codec,
            enable_idempotence=sending.idempotent,
            acks=ACKS[sending.acks],
            max_request_size=sending.bytes_max,
            linger_ms=20,
            request_timeout_ms=int(sending.patience_s * 1000),
        )
        await self._producer.start()

    def send(self, topic: str, records: Sequence[Record]) -> list[int]:
        return self._run(self._send(topic, records))

    async def _send(self, topic: str, records: Sequence[Record]) -> list[int]:
        sent = [
            await self._producer.send(
                topic,
                record.value,
                record.key,
                partition=record.partition,
                timestamp_ms=record.timestamp_ms,
                headers=list(record.headers),
            )
            for record in records
        ]
        placed = await asyncio.gather(*sent)
        return [-1 if one is None else one.offset for one in placed]

    def close(self) -> None:
        self._end(self._producer.stop())


class AioConsumer(_OnLoop):
    def __init__(
        self,
        server: str,
        topic: str,
        partitions: Sequence[int],
        offset: int | None,
        fetch_bytes: int,
    ) -> None:
        super().__init__()
        self._run(self._start(server, topic, partitions, offset, fetch_bytes))

    async def _start(
        self,
        server: str,
        topic: str,
        partitions: Sequence[int],
        offset: int | None,
        fetch_bytes: int,
    ) -> None:
        from aiokafka import AIOKafkaConsumer, TopicPartition

        self._consumer = AIOKafkaConsumer(
            bootstrap_servers=server,
            client_id=CLIENT_ID,
            group_id=None,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            max_partition_fetch_bytes=fetch_bytes,
            metadata_max_age_ms=500,
        )
        await self._consumer.start()
        self._assigned = [TopicPartition(topic, one) for one in partitions]
        self._consumer.assign(self._assigned)
        if offset is None:
            await self._consumer.seek_to_beginning()
        else:
            for one in self._assigned:
                self._consumer.seek(one, offset)

    def read(self, count: int) -> list[Record]:
        return self._run(self._read(count))

    async def _read(self, count: int) -> list[Record]:
        found: list[Record] = []
        deadline = monotonic() + PATIENCE_S - 1
        while len(found) < count and monotonic() < deadline:
            batch = await self._consumer.getmany(timeout_ms=500, max_records=count - len(found))
            for messages in batch.values():
                found += [_record(one) for one in messages]
        return found

    def seek(self, offset: int) -> None:
        for one in self._assigned:
            self._consumer.seek(one, offset)

    def offset_at(self, timestamp_ms: int) -> int | None:
        one = self._assigned[0]
        found = self._run(self._consumer.offsets_for_times({one: timestamp_ms}))[one]
        return None if found is None else int(found.offset)

    def close(self) -> None:
        self._end(self._consumer.stop())


def _record(message: Any) -> Record:
    return Record(
        key=message.key,
        value=message.value,
        headers=headers_of(message.headers),
        partition=message.partition,
        timestamp_ms=message.timestamp,
        offset=message.offset,
    )


class AioAdmin(_OnLoop):
    def __init__(self, server: str) -> None:
        super().__init__()
        self._run(self._start(server))

    async def _start(self, server: str) -> None:
        from aiokafka.admin import AIOKafkaAdminClient

        self._admin = AIOKafkaAdminClient(bootstrap_servers=server, client_id=CLIENT_ID)
        await self._admin.start()

    def create(self, topic: str, partitions: int = 1, **configs: str) -> None:
        from aiokafka.admin import NewTopic

        wanted = NewTopic(topic, partitions, 1, topic_configs=dotted(configs))
        answer = self._run(self._admin.create_topics([wanted]))
        _check(*answer.topic_errors[0][1:])

    def delete(self, topic: str) -> None:
        answer = self._run(self._admin.delete_topics([topic]))
        _check(answer.topic_error_codes[0][1])

    def topics(self) -> set[str]:
        return set(self._run(self._admin.list_topics()))

    def partition_count(self, topic: str) -> int:
        (described,) = self._run(self._admin.describe_topics([topic]))
        return len(described["partitions"])

    def grow(self, topic: str, total: int) -> None:
        from aiokafka.admin import NewPartitions

        self._run(self._admin.create_partitions({topic: NewPartitions(total)}))

    def configs(self, topic: str) -> Mapping[str, str | None]:
        (answer,) = self._run(self._admin.describe_configs([self._resource(topic)]))
        (resource,) = answer.resources
        _check(*resource[:2])
        return {entry[0]: entry[1] for entry in resource[4]}

    def alter(self, topic: str, **configs: str) -> None:
        """It has only the old call, which sets everything anew."""
        resource = self._resource(topic, dotted(configs))
        (answer,) = self._run(self._admin.alter_configs([resource]))
        _check(*answer.resources[0][:2])

    def trim(self, topic: str, before: int) -> int:
        from aiokafka import TopicPartition
        from aiokafka.admin import RecordsToDelete

        one = TopicPartition(topic, 0)
        asked = {one: RecordsToDelete(before_offset=before)}
        return int(self._run(self._admin.delete_records(asked))[one])

    def offset_of(self, topic: str, question: int) -> int | None:
        """It has no such call."""
        return None

    def cluster(self) -> tuple[str | None, set[str]]:
        found = self._run(self._admin.describe_cluster())
        return found["cluster_id"], {f"{one['host']}:{one['port']}" for one in found["brokers"]}

    def stored_bytes(self, topic: str) -> int:
        raise NotImplementedError("this client does not ask for log directories")

    def close(self) -> None:
        self._end(self._admin.close())

    def _resource(self, topic: str, configs: Mapping[str, str] | None = None) -> Any:
        from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

        return ConfigResource(ConfigResourceType.TOPIC, topic, configs)


def _check(code: int, sentence: str | None = None) -> None:
    if code:
        raise Refused(code, sentence or "")


class Aio:
    name = "aiokafka"

    def missing(self) -> str | None:
        return None

    def producer(self, server: str, sending: Sending) -> AioProducer:
        return AioProducer(server, sending)

    def consumer(
        self,
        server: str,
        topic: str,
        partitions: Sequence[int],
        *,
        offset: int | None = None,
        fetch_bytes: int = FETCH_BYTES,
    ) -> AioConsumer:
        return AioConsumer(server, topic, partitions, offset, fetch_bytes)

    def admin(self, server: str) -> AioAdmin:
        return AioAdmin(server)
