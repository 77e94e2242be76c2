"""kafka-python."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import Any

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

ACKS: Mapping[str, Any] = {"0": 0, "1": 1, "all": "all"}


@contextmanager
def _refusals() -> Iterator[None]:
    from kafka.errors import KafkaError

    try:
        yield
    except KafkaError as error:
        raise Refused(getattr(error, "errno", -1), str(error)) from error


def close_refused_sockets() -> None:
    """kafka-python 3.0 leaves the socket of a connection that failed to the collector, which finds
    it during whatever test runs then. From now on in this process it is closed at once; what the
    client sends and does is as it was."""
    from kafka.net.inet import KafkaNetSocket

    connect = KafkaNetSocket.sock_connect

    async def closing(self: Any, net: Any, sock: Any, *args: Any, **named: Any) -> Any:
        try:
            return await connect(self, net, sock, *args, **named)
        except BaseException:
            sock.close()
            raise

    KafkaNetSocket.sock_connect = closing


class KafkaPythonProducer:
    def __init__(self, server: str, sending: Sending) -> None:
        from kafka import KafkaProducer

        self._producer = KafkaProducer(
            bootstrap_servers=server,
            client_id=CLIENT_ID,
            compression_type=None if sending.codec == "none" else sending.codec,
            enable_idempotence=sending.idempotent,
            acks=ACKS[sending.acks],
            max_request_size=sending.bytes_max,
            linger_ms=20,
            max_block_ms=int(sending.patience_s * 1000),
        )

    def send(self, topic: str, records: Sequence[Record]) -> list[int]:
        with _refusals():
            sent = [
                self._producer.send(
                    topic,
                    key=record.key,
                    value=record.value,
                    headers=list(record.headers),
                    partition=record.partition,
                    timestamp_ms=record.timestamp_ms,
                )
                for record in records
            ]
            self._producer.flush(PATIENCE_S)
            return [one.get(PATIENCE_S).offset for one in sent]

    def close(self) -> None:
        self._producer.close(PATIENCE_S)


class KafkaPythonConsumer:
    def __init__(
        self,
        server: str,
        topic: str,
        partitions: Sequence[int],
        offset: int | None,
        fetch_bytes: int,
    ) -> None:
        from kafka import KafkaConsumer, TopicPartition

        self._consumer = KafkaConsumer(
            bootstrap_servers=server,
            client_id=CLIENT_ID,
            group_id=None,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            max_partition_fetch_bytes=fetch_bytes,
            metadata_max_age_ms=500,
        )
        self._assigned = [TopicPartition(topic, one) for one in partitions]
        self._consumer.assign(self._assigned)
        if offset is None:
            self._consumer.seek_to_beginning()
        else:
            for one in self._assigned:
                self._consumer.seek(one, offset)

    def read(self, count: int, *, patience_s: float = PATIENCE_S) -> list[Record]:
        found: list[Record] = []
        deadline = monotonic() + patience_s
        while len(found) < count and monotonic() < deadline:
            for messages in self._consumer.poll(1000, max_records=count - len(found)).values():
                found += [_record(one) for one in messages]
        return found

    def seek(self, offset: int) -> None:
        for one in self._assigned:
            self._consumer.seek(one, offset)

    def offset_at(self, timestamp_ms: int) -> int | None:
        one = self._assigned[0]
        found = self._consumer.offsets_for_times({one: timestamp_ms})[one]
        return None if found is None else found.offset

    def close(self) -> None:
        self._consumer.close()


def _record(message: Any) -> Record:
    return Record(
        key=message.key,
        value=message.value,
        headers=headers_of(message.headers),
        partition=message.partition,
        timestamp_ms=message.timestamp,
        offset=message.offset,
    )


class KafkaPythonAdmin:
    def __init__(self, server: str) -> None:
        from kafka import KafkaAdminClient

        self._admin = KafkaAdminClient(bootstrap_servers=server, client_id=CLIENT_ID)

    def create(self, topic: str, partitions: int = 1, **configs: str) -> None:
        wanted = {"num_partitions": partitions, "configs": dotted(configs)}
        with _refusals():
            self._admin.create_topics({topic: wanted})

    def delete(self, topic: str) -> None:
        with _refusals():
            self._admin.delete_topics([topic])

    def topics(self) -> set[str]:
        return set(self._admin.list_topics())

    def partition_count(self, topic: str) -> int:
        (described,) = self._admin.describe_topics([topic])
        return len(described["partitions"])

    def grow(self, topic: str, total: int) -> None:
        with _refusals():
            self._admin.create_partitions({topic: total})

    def configs(self, topic: str) -> Mapping[str, str | None]:
        found = self._admin.describe_configs([self._resource(topic)], config_filter="all")
        return {name: entry["value"] for name, entry in found["topic"][topic].items()}

    def alter(self, topic: str, **configs: str) -> None:
        answer = self._admin.alter_configs([self._resource(topic, dotted(configs))])
        outcome = answer["topic"][topic]
        if outcome != "OK":  # the error, as a sentence that begins with [Error CODE]
            raise Refused(int(outcome.removeprefix("[Error ").partition("]")[0]), outcome)

    def trim(self, topic: str, before: int) -> int:
        from kafka import TopicPartition

        one = TopicPartition(topic, 0)
        return int(self._admin.delete_records({one: before})[one]["low_watermark"])

    def offset_of(self, topic: str, question: int) -> int | None:
        from kafka import TopicPartition

        one = TopicPartition(topic, 0)
        with _refusals():
            return int(self._admin.list_partition_offsets({one: question})[one].offset)

    def cluster(self) -> tuple[str | None, set[str]]:
        found = self._admin.describe_cluster()
        return found["cluster_id"], {f"{one['host']}:{one['port']}" for one in found["brokers"]}

    def stored_bytes(self, topic: str) -> int:
        (node,) = self._admin.describe_log_dirs([topic])
        return sum(
            partition["partition_size"]
            for directory in node["log_dirs"]
            for one in directory["topics"]
            for partition in one["partitions"]
        )

    def close(self) -> None:
        self._admin.close()

    def _resource(self, topic: str, configs: Mapping[str, str] | None = None) -> Any:
        from kafka.admin import ConfigResource, ConfigResourceType

        return ConfigResource(ConfigResourceType.TOPIC, topic, configs)


class KafkaPython:
    name = "kafka-python"

    def missing(self) -> str | None:
        return None

    def producer(self, server: str, sending: Sending) -> KafkaPythonProducer:
        return KafkaPythonProducer(server, sending)

    def consumer(
        self,
        server: str,
        topic: str,
        partitions: Sequence[int],
        *,
        offset: int | None = None,
        fetch_bytes: int = FETCH_BYTES,
    ) -> KafkaPythonConsumer:
        return KafkaPythonConsumer(server, topic, partitions, offset, fetch_bytes)

    def admin(self, server: str) -> KafkaPythonAdmin:
        return KafkaPythonAdmin(server)
