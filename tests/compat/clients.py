"""Real clients behind one small interface: produce, consume, administer.

Client ids are set, so that nothing of the machine gets into recorded frames. Every wait has a
deadline; a client that does not get its answer fails the test instead of hanging it.
"""

import asyncio
import shutil
import subprocess
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, Protocol

PATIENCE_S = 20.0
CLIENT_ID = "tierlog-compat"
ALL_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

IDEMPOTENT = "idempotent all"
_ACKS: dict[str, Any] = {"0": 0, "1": 1, "all": "all", IDEMPOTENT: "all"}


@dataclass(frozen=True, slots=True)
class Message:
    key: bytes | None
    value: bytes | None


class Client(Protocol):
    """What every client can do; `transact` and `administer` do nothing where it cannot."""

    name: str
    nulls: bool
    """Whether it can send null keys and values."""

    def version(self) -> str: ...

    def produce(
        self, server: str, topic: str, messages: Sequence[Message], *, codec: str, acks: str
    ) -> None: ...

    def consume(self, server: str, topic: str, count: int, *, group: str | None) -> list[Message]:
        """Read from the beginning, alone or as member of a group, which then commits."""
        ...

    def transact(self, server: str, topic: str, messages: Sequence[Message]) -> None: ...

    def administer(self, server: str, topic: str) -> None:
        """Make a topic, look at it, delete it."""
        ...


class ConfluentKafka:
    name = "confluent-kafka"
    nulls = True

    def version(self) -> str:
        return version("confluent-kafka")

    def produce(
        self, server: str, topic: str, messages: Sequence[Message], *, codec: str, acks: str
    ) -> None:
        from confluent_kafka import Producer

        producer = Producer(
            self._settings(server)
            | {"compression.type": codec, "linger.ms": 50}
            | {"acks": acks.removeprefix("idempotent "), "enable.idempotence": acks == IDEMPOTENT}
        )
        for message in messages:
            producer.produce(topic, key=message.key, value=message.value, headers={"h": b"1"})
        assert producer.flush(PATIENCE_S) == 0

    def consume(self, server: str, topic: str, count: int, *, group: str | None) -> list[Message]:
        from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

        settings = {"group.id": group or "unused", "auto.offset.reset": "earliest"}
        consumer = Consumer(self._settings(server) | settings | {"enable.auto.commit": False})
        try:
            if group:
                consumer.subscribe([topic])
            else:
                consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
            found = consumer.consume(count, PATIENCE_S)
            if group:
                consumer.commit(asynchronous=False)
                consumer.committed([TopicPartition(topic, 0)], timeout=PATIENCE_S)
                consumer.offsets_for_times([TopicPartition(topic, 0, 0)], timeout=PATIENCE_S)
                consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=PATIENCE_S)
        finally:
            consumer.close()
        assert not [one.error() for one in found if one.error()]
        return [Message(one.key(), one.value()) for one in found]

    def transact(self, server: str, topic: str, messages: Sequence[Message]) -> None:
        from confluent_kafka import Producer

        producer = Producer(self._settings(server) | {"transactional.id": "tx"})
        producer.init_transactions(PATIENCE_S)
        producer.begin_transaction()
        for message in messages:
            producer.produce(topic, key=message.key, value=message.value)
        producer.commit_transaction(PATIENCE_S)

    def administer(self, server: str, topic: str) -> None:
        import confluent_kafka.admin

        kafka_admin: Any = confluent_kafka.admin  # its re-exports are not in its types

        admin = kafka_admin.AdminClient(self._settings(server))

        def done(futures: dict[Any, Any]) -> None:
            for future in futures.values():
                future.result(PATIENCE_S)

        done(
            admin.create_topics(
                [kafka_admin.NewTopic(topic, 2, 1, config={"retention.ms": "1000"})]
            )
        )
        done(admin.create_partitions([kafka_admin.NewPartitions(topic, 3)]))
        assert topic in admin.list_topics(timeout=PATIENCE_S).topics
        done(
            admin.describe_configs(
                [kafka_admin.ConfigResource(kafka_admin.ConfigResource.Type.TOPIC, topic)]
            )
        )
        admin.list_consumer_groups().result(PATIENCE_S)
        done(admin.describe_consumer_groups(["nobody"]))
        admin.describe_cluster().result(PATIENCE_S)
        done(admin.delete_topics([topic]))

    def _settings(self, server: str) -> dict[str, Any]:
        return {"bootstrap.servers": server, "client.id": CLIENT_ID, "broker.address.family": "v4"}


class KafkaPython:
    name = "kafka-python"
    nulls = True

    def version(self) -> str:
        return version("kafka-python")

    def produce(
        self, server: str, topic: str, messages: Sequence[Message], *, codec: str, acks: str
    ) -> None:
        from kafka import KafkaProducer

        producer = KafkaProducer(
            bootstrap_servers=server,
            client_id=CLIENT_ID,
            compression_type=None if codec == "none" else codec,
            enable_idempotence=acks == IDEMPOTENT,
            acks=_ACKS[acks],
            linger_ms=50,
        )
        try:
            sent = [
                producer.send(topic, key=one.key, value=one.value, headers=[("h", b"1")])
                for one in messages
            ]
            producer.flush(PATIENCE_S)
            for future in sent:
                future.get(PATIENCE_S)
        finally:
            producer.close(PATIENCE_S)

    def consume(self, server: str, topic: str, count: int, *, group: str | None) -> list[Message]:
        from kafka import KafkaConsumer, TopicPartition

        consumer = KafkaConsumer(
            bootstrap_servers=server,
            client_id=CLIENT_ID,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            consumer_timeout_ms=int(PATIENCE_S * 1000),
        )
        try:
            if group:
                consumer.subscribe([topic])
            else:
                consumer.assign([TopicPartition(topic, 0)])
            found = [
                Message(one.key, one.value) for _, one in zip(range(count), consumer, strict=False)
            ]
            if group:
                consumer.commit()
                consumer.committed(TopicPartition(topic, 0))
            consumer.end_offsets([TopicPartition(topic, 0)])
        finally:
            consumer.close()
        return found

    def transact(self, server: str, topic: str, messages: Sequence[Message]) -> None:
        from kafka import KafkaProducer

        producer = KafkaProducer(
            bootstrap_servers=server, client_id=CLIENT_ID, transactional_id="tx"
        )
        try:
            producer.init_transactions()
            producer.begin_transaction()
            for one in messages:
                producer.send(topic, key=one.key, value=one.value)
            producer.commit_transaction()
        finally:
            producer.close(PATIENCE_S)

    def administer(self, server: str, topic: str) -> None:
        from kafka import KafkaAdminClient
        from kafka.admin import ConfigResource, ConfigResourceType, NewTopic

        admin = KafkaAdminClient(bootstrap_servers=server, client_id=CLIENT_ID)
        try:
            admin.create_topics([NewTopic(topic, 2, 1)])
            assert topic in admin.list_topics()
            admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
            admin.describe_cluster()
            admin.list_groups()
            admin.delete_topics([topic])
        finally:
            admin.close()


class AioKafka:
    name = "aiokafka"
    nulls = True

    def version(self) -> str:
        return version("aiokafka")

    def produce(
        self, server: str, topic: str, messages: Sequence[Message], *, codec: str, acks: str
    ) -> None:
        async def run() -> None:
            from aiokafka import AIOKafkaProducer

            async with AIOKafkaProducer(
                bootstrap_servers=server,
                client_id=CLIENT_ID,
                compression_type=None if codec == "none" else codec,
                enable_idempotence=acks == IDEMPOTENT,
                acks=_ACKS[acks],
                linger_ms=50,
            ) as producer:
                sent = [
                    await producer.send(topic, one.value, one.key, headers=[("h", b"1")])
                    for one in messages
                ]
                await asyncio.gather(*sent)

        self._within_patience(run)

    def consume(self, server: str, topic: str, count: int, *, group: str | None) -> list[Message]:
        async def run() -> list[Message]:
            from aiokafka import AIOKafkaConsumer, TopicPartition

            async with AIOKafkaConsumer(
                bootstrap_servers=server,
                client_id=CLIENT_ID,
                group_id=group,
                auto_offset_reset="earliest",
                enable_auto_commit=False,
            ) as consumer:
                if group:
                    consumer.subscribe([topic])
                else:
                    consumer.assign([TopicPartition(topic, 0)])
                found = [await consumer.getone() for _ in range(count)]
                if group:
                    await consumer.commit()
                    await consumer.committed(TopicPartition(topic, 0))
                await consumer.end_offsets([TopicPartition(topic, 0)])
                return [Message(one.key, one.value) for one in found]

        found: list[Message] = self._within_patience(run)
        return found

    def transact(self, server: str, topic: str, messages: Sequence[Message]) -> None:
        async def run() -> None:
            from aiokafka import AIOKafkaProducer

            async with (
                AIOKafkaProducer(
                    bootstrap_servers=server, client_id=CLIENT_ID, transactional_id="tx"
                ) as producer,
                producer.transaction(),
            ):
                for one in messages:
                    await producer.send(topic, one.value, one.key)

        self._within_patience(run)

    def administer(self, server: str, topic: str) -> None:
        async def run() -> None:
            from aiokafka.admin import AIOKafkaAdminClient, NewTopic
            from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

            admin = AIOKafkaAdminClient(bootstrap_servers=server, client_id=CLIENT_ID)
            await admin.start()
            try:
                await admin.create_topics([NewTopic(topic, 2, 1)])
                assert topic in await admin.list_topics()
                await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
                await admin.list_consumer_groups()
                await admin.delete_topics([topic])
            finally:
                await admin.close()

        self._within_patience(run)

    def _within_patience(self, work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        async def bounded() -> Any:
            async with asyncio.timeout(PATIENCE_S):
                return await work()

        return asyncio.run(bounded())


class Kcat:
    name = "kcat"
    nulls = False

    def version(self) -> str:
        words = self._run("-V").split()
        return words[words.index("Version") + 1]

    def produce(
        self, server: str, topic: str, messages: Sequence[Message], *, codec: str, acks: str
    ) -> None:
        lines = b"".join((one.key or b"") + b":" + (one.value or b"") + b"\n" for one in messages)
        self._run(
            *self._settings(server),
            *("-P", "-t", topic, "-K", ":", "-z", codec, "-H", "h=1"),
            *("-X", f"enable.idempotence={str(acks == IDEMPOTENT).lower()}", "-X", "linger.ms=50"),
            *("-X", f"acks={acks.removeprefix('idempotent ')}"),
            input=lines,
        )

    def consume(self, server: str, topic: str, count: int, *, group: str | None) -> list[Message]:
        where = ["-G", group] if group else ["-C", "-o", "beginning"]
        what = [topic] if group else ["-t", topic]
        self._run(*self._settings(server), "-Q", "-t", f"{topic}:0:-1")
        found = self._run(
            *self._settings(server),
            *("-X", "auto.offset.reset=earliest", "-c", str(count), "-f", r"%k:%s\n"),
            *where,
            *what,
        )
        pairs = [line.partition(":") for line in found.splitlines() if ":" in line]
        return [Message(key.encode(), value.encode()) for key, _, value in pairs]

    def transact(self, server: str, topic: str, messages: Sequence[Message]) -> None:
        """It cannot."""

    def administer(self, server: str, topic: str) -> None:
        self._run(*self._settings(server), "-L")

    def _settings(self, server: str) -> tuple[str, ...]:
        return ("-b", server, "-q", "-X", f"client.id={CLIENT_ID}")

    def _run(self, *arguments: str, input: bytes = b"") -> str:
        program = shutil.which("kcat")
        assert program, "kcat is not installed"
        done = subprocess.run(
            [program, *arguments], input=input, capture_output=True, timeout=PATIENCE_S, check=False
        )
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()


CLIENTS: tuple[Client, ...] = (ConfluentKafka(), KafkaPython(), AioKafka(), Kcat())
