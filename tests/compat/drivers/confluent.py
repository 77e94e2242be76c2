"""confluent-kafka, on librdkafka."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import Any

from tests.compat.drivers.base import (
    CLIENT_ID,
    EARLIEST,
    FETCH_BYTES,
    LATEST,
    MAX_TIMESTAMP,
    PATIENCE_S,
    Record,
    Refused,
    Sending,
    dotted,
    headers_of,
)


def _settings(server: str, **more: Any) -> dict[str, Any]:
    return {
        "bootstrap.servers": server,
        "client.id": CLIENT_ID,
        "broker.address.family": "v4",
        "log_level": 0,  # a node that is stopped under it is no news
    } | {name.replace("_", "."): value for name, value in more.items()}


@contextmanager
def _refusals() -> Iterator[None]:
    from confluent_kafka import KafkaException

    try:
        yield
    except KafkaException as error:
        raise Refused(error.args[0].code(), str(error)) from error


class ConfluentProducer:
    def __init__(self, server: str, sending: Sending) -> None:
        from confluent_kafka import Producer

        self._producer = Producer(
            _settings(
                server,
                compression_type=sending.codec,
                acks=sending.acks,
                enable_idempotence=sending.idempotent,
                message_max_bytes=sending.bytes_max,
                linger_ms=20,
                message_timeout_ms=int(sending.patience_s * 1000),
                topic_metadata_propagation_max_ms=int(sending.patience_s * 1000),
            )
        )

    def send(self, topic: str, records: Sequence[Record]) -> list[int]:
        reports: list[Any] = [None] * len(records)

        def report(number: int) -> Any:
            def keep(error: Any, message: Any) -> None:
                reports[number] = (error, message)

            return keep

        for number, record in enumerate(records):
            self._producer.produce(
                topic,
                key=record.key,
                value=record.value,
                headers=list(record.headers),
                partition=record.partition,
                timestamp=record.timestamp_ms or 0,
                on_delivery=report(number),
            )
        assert self._producer.flush(PATIENCE_S) == 0
        for error, _ in reports:
            if error is not None:
                raise Refused(error.code(), error.str())
        return [-1 if offset is None else offset for offset in (m.offset() for _, m in reports)]

    def close(self) -> None:
        self._producer.flush(PATIENCE_S)


class ConfluentConsumer:
    def __init__(
        self,
        server: str,
        topic: str,
        partitions: Sequence[int],
        offset: int | None,
        fetch_bytes: int,
    ) -> None:
        from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

        self._first = (topic, partitions[0])
        self._consumer = Consumer(
            _settings(
                server,
                group_id="unused",
                enable_auto_commit=False,
                auto_offset_reset="earliest",
                topic_metadata_refresh_interval_ms=500,
                topic_metadata_propagation_max_ms=500,
                fetch_message_max_bytes=fetch_bytes,
            )
        )
        start = OFFSET_BEGINNING if offset is None else offset
        self._consumer.assign([TopicPartition(topic, one, start) for one in partitions])

    def read(self, count: int) -> list[Record]:
        from confluent_kafka import KafkaError

        passing = {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_PARTITION}
        found: list[Record] = []
        deadline = monotonic() + PATIENCE_S
        while len(found) < count and monotonic() < deadline:
            for message in self._consumer.consume(count - len(found), 1.0):
                error = message.error()
                if error is None:
                    found.append(_record(message))
                elif error.code() not in passing:
                    raise Refused(error.code(), error.str())
        return found

    def seek(self, offset: int) -> None:
        for one in self._consumer.assignment():
            one.offset = offset
            self._consumer.seek(one)

    def offset_at(self, timestamp_ms: int) -> int | None:
        from confluent_kafka import TopicPartition

        ask = TopicPartition(*self._first, timestamp_ms)
        (answer,) = self._consumer.offsets_for_times([ask], timeout=PATIENCE_S)
        return None if answer.offset < 0 else int(answer.offset)

    def close(self) -> None:
        self._consumer.close()


def _record(message: Any) -> Record:
    return Record(
        key=message.key(),
        value=message.value(),
        headers=headers_of(message.headers()),
        partition=message.partition(),
        timestamp_ms=message.timestamp()[1],
        offset=message.offset(),
    )


class ConfluentAdmin:
    def __init__(self, server: str) -> None:
        import confluent_kafka.admin

        self._kafka: Any = confluent_kafka.admin  # its re-exports are not in its types
        self._admin = self._kafka.AdminClient(_settings(server))

    def create(self, topic: str, partitions: int = 1, **configs: str) -> None:
        wanted = self._kafka.NewTopic(topic, partitions, config=dotted(configs))
        self._one(self._admin.create_topics([wanted]))

    def delete(self, topic: str) -> None:
        self._one(self._admin.delete_topics([topic]))

    def topics(self) -> set[str]:
        return set(self._admin.list_topics(timeout=PATIENCE_S).topics)

    def partition_count(self, topic: str) -> int:
        from confluent_kafka import TopicCollection

        described = self._one(self._admin.describe_topics(TopicCollection([topic])))
        return len(described.partitions)

    def grow(self, topic: str, total: int) -> None:
        self._one(self._admin.create_partitions([self._kafka.NewPartitions(topic, total)]))

    def configs(self, topic: str) -> Mapping[str, str | None]:
        found = self._one(self._admin.describe_configs([self._resource(topic)]))
        return {name: entry.value for name, entry in found.items()}

    def alter(self, topic: str, **configs: str) -> None:
        changes = [
            self._kafka.ConfigEntry(
                name, value, incremental_operation=self._kafka.AlterConfigOpType.SET
            )
            for name, value in dotted(configs).items()
        ]
        resource = self._kafka.ConfigResource(
            self._kafka.ConfigResource.Type.TOPIC, topic, incremental_configs=changes
        )
        self._one(self._admin.incremental_alter_configs([resource]))

    def trim(self, topic: str, before: int) -> int:
        from confluent_kafka import TopicPartition

        deleted = self._one(self._admin.delete_records([TopicPartition(topic, 0, before)]))
        return int(deleted.low_watermark)

    def offset_of(self, topic: str, question: int) -> int | None:
        from confluent_kafka import TopicPartition

        specs = {LATEST: "latest", EARLIEST: "earliest", MAX_TIMESTAMP: "max_timestamp"}
        if question not in specs:
            return None
        wanted = getattr(self._kafka.OffsetSpec, specs[question])()
        found = self._one(self._admin.list_offsets({TopicPartition(topic, 0): wanted}))
        return int(found.offset)

    def cluster(self) -> tuple[str | None, set[str]]:
        found = self._admin.describe_cluster().result(PATIENCE_S)
        return found.cluster_id, {f"{node.host}:{node.port}" for node in found.nodes}

    def stored_bytes(self, topic: str) -> int:
        raise NotImplementedError("this client does not ask for log directories")

    def close(self) -> None:
        """It has no close."""

    def _resource(self, topic: str) -> Any:
        return self._kafka.ConfigResource(self._kafka.ConfigResource.Type.TOPIC, topic)

    def _one(self, futures: Mapping[Any, Any]) -> Any:
        (future,) = futures.values()
        with _refusals():
            return future.result(PATIENCE_S)


class Confluent:
    name = "confluent-kafka"

    def missing(self) -> str | None:
        return None

    def producer(self, server: str, sending: Sending) -> ConfluentProducer:
        return ConfluentProducer(server, sending)

    def consumer(
        self,
        server: str,
        topic: str,
        partitions: Sequence[int],
        *,
        offset: int | None = None,
        fetch_bytes: int = FETCH_BYTES,
    ) -> ConfluentConsumer:
        return ConfluentConsumer(server, topic, partitions, offset, fetch_bytes)

    def admin(self, server: str) -> ConfluentAdmin:
        return ConfluentAdmin(server)
