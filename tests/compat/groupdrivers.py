"""Members of consumer groups, of every client that has them, in one set of words.

    member = GROUP_DRIVERS["java"].member(server, "orders", "billing", strategy="sticky")
    member.turn()       # polls for a moment: joins, rebalances, reads
    member.partitions   # what it has of its topic now
    member.read         # what it has read so far

A member lives by its turns: whoever waits for something lets all members take theirs.
As a program (`python -m tests.compat.groupdrivers java HOST:PORT TOPIC GROUP`) it is a member that
takes its turns until it is killed, and says which partitions it has; its session is short.
"""

import asyncio
import sys
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from contextlib import suppress
from functools import cache
from queue import SimpleQueue
from threading import Event, Thread
from typing import Any, Protocol, TypeVar

from tests.compat.drivers.aio import Aio
from tests.compat.drivers.base import CLIENT_ID, PATIENCE_S, Driver
from tests.compat.drivers.confluent import Confluent, _settings
from tests.compat.drivers.java import Java, _config, _ids, jvm
from tests.compat.drivers.kafka_python import KafkaPython

SESSION_MS = 6_000
"""Long enough for a machine that has much to do; a client that begins anew leaves a ghost behind
for as long."""
SHORT_SESSION_MS = 2_000
BEAT_MS = 200
TURN_S = 0.05
LONG_TURN_MS = 400

T = TypeVar("T")

Place = tuple[int, int]
"""Partition and offset."""


class Member(Protocol):
    partitions: set[int]
    read: list[Place]

    def turn(self) -> None: ...

    def commit(self) -> None:
        """Where it is, and wait for the answer."""
        ...

    def close(self) -> None:
        """A member leaves its group; a static one is only gone."""
        ...


class ConfluentMember:
    def __init__(self, server: str, topic: str, group: str, *, strategy: str, **more: Any) -> None:
        from confluent_kafka import Consumer

        self.partitions: set[int] = set()
        self.read: list[Place] = []
        self._consumer = Consumer(
            _settings(
                server,
                group_id=group,
                enable_auto_commit=False,
                auto_offset_reset="earliest",
                partition_assignment_strategy=strategy,
                **{"session_timeout_ms": SESSION_MS, "reconnect_backoff_max_ms": 500, **more},
                heartbeat_interval_ms=BEAT_MS,
            )
        )
        self._consumer.subscribe([topic])

    def turn(self) -> None:
        for one in self._consumer.consume(500, TURN_S):
            partition, offset = one.partition(), one.offset()
            if one.error() is None and partition is not None and offset is not None:
                self.read.append((partition, offset))
        self.partitions = {one.partition for one in self._consumer.assignment()}

    def commit(self) -> None:
        from confluent_kafka import KafkaError, KafkaException

        try:
            self._consumer.commit(asynchronous=False)
        except KafkaException as error:
            # It has read nothing since it was assigned, and says so.
            if error.args[0].code() != KafkaError._NO_OFFSET:
                raise

    def close(self) -> None:
        self._consumer.close()


class KafkaPythonMember:
    """In a thread of its own that polls at length: what a rebalance brings while nobody polls this
    client forgets, and joins again."""

    def __init__(self, server: str, topic: str, group: str, *, strategy: str, **more: Any) -> None:
        from kafka import KafkaConsumer

        self.partitions: set[int] = set()
        self.read: list[Place] = []
        self._consumer = KafkaConsumer(
            topic,
            **{
                "bootstrap_servers": server,
                "client_id": CLIENT_ID,
                "group_id": group,
                "auto_offset_reset": "earliest",
                "enable_auto_commit": False,
                "partition_assignment_strategy": [_kafka_python_assignor(strategy)],
                "session_timeout_ms": SESSION_MS,
                "heartbeat_interval_ms": BEAT_MS,
                "reconnect_backoff_max_ms": 500,
                **more,
            },
        )
        self._asked: SimpleQueue[tuple[Callable[[], object], Future[object]]] = SimpleQueue()
        self._polled = Event()
        self._is_open = True
        self._thread = Thread(target=self._live, name="kafka-python member", daemon=True)
        self._thread.start()

    def _live(self) -> None:
        while self._is_open:
            for records in self._consumer.poll(timeout_ms=LONG_TURN_MS).values():
                self.read += [(one.partition, one.offset) for one in records]
            self.partitions = {one.partition for one in self._consumer.assignment()}
            self._polled.set()
            while not self._asked.empty():
                work, done = self._asked.get()
                try:
                    done.set_result(work())
                except Exception as error:  # noqa: BLE001  # it is raised where it was asked for
                    done.set_exception(error)

    def _ask(self, work: Callable[[], object]) -> None:
        done: Future[object] = Future()
        self._asked.put((work, done))
        done.result(PATIENCE_S)

    def turn(self) -> None:
        self._polled.wait(TURN_S)
        self._polled.clear()

    def commit(self) -> None:
        self._ask(self._consumer.commit)

    def close(self) -> None:
        self._ask(self._end)
        self._thread.join()

    def _end(self) -> None:
        self._is_open = False
        self._consumer.close(autocommit=False)


def _kafka_python_assignor(strategy: str) -> Any:
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

    return {
        "range": RangePartitionAssignor,
        "roundrobin": RoundRobinPartitionAssignor,
        "sticky": StickyPartitionAssignor,
        "cooperative-sticky": CooperativeStickyAssignor,
    }[strategy]


@cache
def _loop() -> asyncio.AbstractEventLoop:
    """Of all members of aiokafka, which beat in tasks: it turns as long as the process."""
    loop = asyncio.new_event_loop()
    Thread(target=loop.run_forever, name="aiokafka members", daemon=True).start()
    return loop


class AioMember:
    def __init__(self, server: str, topic: str, group: str, *, strategy: str, **more: Any) -> None:
        self.partitions: set[int] = set()
        self.read: list[Place] = []
        self._run(self._start(server, topic, group, strategy, more))

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, _loop()).result(PATIENCE_S)

    async def _start(
        self, server: str, topic: str, group: str, strategy: str, more: Mapping[str, Any]
    ) -> None:
        from aiokafka import AIOKafkaConsumer

        self._consumer = AIOKafkaConsumer(
            topic,
            **{
                "bootstrap_servers": server,
                "client_id": CLIENT_ID,
                "group_id": group,
                "auto_offset_reset": "earliest",
                "enable_auto_commit": False,
                "partition_assignment_strategy": [_aio_assignor(strategy)],
                "session_timeout_ms": SESSION_MS,
                "heartbeat_interval_ms": BEAT_MS,
                "rebalance_timeout_ms": int(PATIENCE_S * 1000),
                "retry_backoff_ms": 50,
                **more,
            },
        )
        await self._consumer.start()

    def turn(self) -> None:
        found = self._run(self._consumer.getmany(timeout_ms=int(TURN_S * 1000)))
        for records in found.values():
            self.read += [(one.partition, one.offset) for one in records]
        self.partitions = {one.partition for one in self._consumer.assignment()}

    def commit(self) -> None:
        self._run(self._consumer.commit())

    def close(self) -> None:
        self._run(self._consumer.stop())


def _aio_assignor(strategy: str) -> Any:
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor
    from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

    class OwnSticky(StickyPartitionAssignor):  # type: ignore[misc]  # it has no types
        """It keeps what its member has in its class: members of one process need one each."""

    return {
        "range": RangePartitionAssignor,
        "roundrobin": RoundRobinPartitionAssignor,
        "sticky": OwnSticky,
    }[strategy]


_JAVA_ASSIGNORS = {
    "range": "RangeAssignor",
    "roundrobin": "RoundRobinAssignor",
    "sticky": "StickyAssignor",
    "cooperative-sticky": "CooperativeStickyAssignor",
}


class JavaMember:
    def __init__(self, server: str, topic: str, group: str, *, strategy: str, **more: Any) -> None:
        self.partitions: set[int] = set()
        self.read: list[Place] = []
        self._id = next(_ids)
        config = _config(
            server,
            group_id=group,
            enable_auto_commit="false",
            auto_offset_reset="earliest",
            partition_assignment_strategy=(
                f"org.apache.kafka.clients.consumer.{_JAVA_ASSIGNORS[strategy]}"
            ),
            heartbeat_interval_ms=BEAT_MS,
            **{"session_timeout_ms": SESSION_MS, "reconnect_backoff_max_ms": 500, **more},
        )
        self._ask("subscribe", config=config, topic=topic)

    def _ask(self, do: str, **rest: Any) -> Any:
        return jvm().ask(f"consumer.{do}", self._id, **rest)

    def turn(self) -> None:
        answer = self._ask("poll")
        self.read += [(one["partition"], one["offset"]) for one in answer["records"]]
        self.partitions = set(answer["partitions"])

    def commit(self) -> None:
        self._ask("commit")

    def close(self) -> None:
        self._ask("close")


class ConfluentConsumer(ConfluentMember):
    """In the consumer protocol (KIP-848): sessions are the node's, so are assignors."""

    def __init__(self, server: str, topic: str, group: str, *, strategy: str, **more: Any) -> None:
        from confluent_kafka import Consumer

        self.partitions = set()
        self.read = []
        more.pop("session_timeout_ms", None)
        self._consumer = Consumer(
            _settings(
                server,
                group_id=group,
                group_protocol="consumer",
                group_remote_assignor=strategy,
                enable_auto_commit=False,
                auto_offset_reset="earliest",
                reconnect_backoff_max_ms=500,
                topic_metadata_refresh_interval_ms=1_000,
                **more,
            )
        )
        self._consumer.subscribe([topic])


class JavaConsumer(JavaMember):
    """In the consumer protocol (KIP-848)."""

    def __init__(self, server: str, topic: str, group: str, *, strategy: str, **more: Any) -> None:
        self.partitions = set()
        self.read = []
        self._id = next(_ids)
        more.pop("session_timeout_ms", None)
        config = _config(
            server,
            group_id=group,
            group_protocol="consumer",
            group_remote_assignor=strategy,
            enable_auto_commit="false",
            auto_offset_reset="earliest",
            reconnect_backoff_max_ms=500,
            metadata_max_age_ms=1_000,
            **more,
        )
        self._ask("subscribe", config=config, topic=topic)


class GroupDriver:
    def __init__(self, driver: Driver, member: Any, *strategies: str, kind: str = "") -> None:
        self.name = driver.name + kind
        self.driver = driver
        self.strategies = strategies
        self._member = member

    def member(
        self, server: str, topic: str, group: str, *, strategy: str = "range", **more: Any
    ) -> Member:
        """`topic` may be a pattern that begins with ^, in the consumer protocol. `more`: settings
        that all clients call the same, with underscores."""
        made: Member = self._member(server, topic, group, strategy=strategy, **more)
        return made


_ALL = (
    GroupDriver(Confluent(), ConfluentMember, "range", "roundrobin", "cooperative-sticky"),
    GroupDriver(
        KafkaPython(), KafkaPythonMember, "range", "roundrobin", "sticky", "cooperative-sticky"
    ),
    GroupDriver(Aio(), AioMember, "range", "roundrobin", "sticky"),
    GroupDriver(Java(), JavaMember, "range", "roundrobin", "sticky", "cooperative-sticky"),
)
GROUP_DRIVERS = {one.name: one for one in _ALL}
_CONSUMER = (
    GroupDriver(Confluent(), ConfluentConsumer, "range", "uniform", kind="-consumer"),
    GroupDriver(Java(), JavaConsumer, "range", "uniform", kind="-consumer"),
)
CONSUMER_DRIVERS = {one.name: one for one in _CONSUMER}
"""Of those who speak KIP-848."""
ALL_DRIVERS = GROUP_DRIVERS | CONSUMER_DRIVERS


def main(name: str, server: str, topic: str, group: str) -> None:
    member = ALL_DRIVERS[name].member(server, topic, group, session_timeout_ms=SHORT_SESSION_MS)
    told: set[int] = set()
    while True:
        member.turn()
        if member.partitions != told:
            told = set(member.partitions)
            print(*sorted(told), flush=True)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        main(*sys.argv[1:])
