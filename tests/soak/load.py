"""Real clients under which a soak runs: one topic's writer, a reader that follows it, and one that
reads all of it again and again. All of them go on through whatever happens to the node.

Everything is checked as it comes: offsets one after the other, bytes by the ledger. A reader whose
place is out of range asks for the beginning, which the ledger judges, and goes on there.
"""

import threading
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from tests.soak.ledger import Ledger

IN_FLIGHT_MAX = 2_000
ASK_S = 5.0
LONG_MS = 2**31 - 1
REPLAY_S = 0.5
"""Between two replays: readers share the cores with the node."""
QUIET = {"log_level": 0, "reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 300}
READING = {
    **QUIET,
    "group.id": "unused",
    "enable.auto.commit": False,
    "auto.offset.reset": "error",
    "check.crcs": True,
    "fetch.wait.max.ms": 100,
    "fetch.error.backoff.ms": 50,
    "topic.metadata.refresh.interval.ms": 1000,
}


class Load:
    """Of one life of a topic. What went wrong is in `problems`."""

    def __init__(self, server: str, topic: str, ledgers: list[Ledger], *, rate: int) -> None:
        self.topic = topic
        self.ledgers = ledgers
        self.replays = 0
        self._server = server
        self._rate = rate
        self._problems: list[str] = []
        self._ending = threading.Event()
        self._flowing = threading.Event()
        self._flowing.set()
        self._threads = [
            threading.Thread(target=self._guarded, args=[work], name=f"{topic} {work.__name__}")
            for work in (self._write, self._follow, self._replay)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def problems(self) -> list[str]:
        return [*self._problems, *(text for one in self.ledgers for text in one.problems)]

    def pause(self) -> None:
        """Nothing more is written, once this returns and what was sent is acked."""
        self._flowing.clear()

    def go_on(self) -> None:
        self._flowing.set()

    @property
    def is_acked(self) -> bool:
        return all(one.acked_end == one.sent_end for one in self.ledgers)

    def end(self) -> None:
        self._ending.set()
        self._flowing.set()
        for thread in self._threads:
            thread.join()

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as fault:
            self._problems.append(f"{self.topic}: {work.__name__} ended: {fault!r}")
            raise

    # Writing

    def _write(self) -> None:
        patience = {"linger.ms": 5, "message.timeout.ms": LONG_MS, "enable.idempotence": True}
        producer = Producer({"bootstrap.servers": self._server, **QUIET, **patience})
        due = time.monotonic()
        while not self._ending.is_set():
            self._flowing.wait(0.05)
            producer.poll(0.002)
            now = time.monotonic()
            due = max(due, now - 0.5)  # After a pause: no burst of what was not sent.
            while due <= now and self._may_send():
                for index, ledger in enumerate(self.ledgers):
                    self._send(producer, index, ledger)
                due += len(self.ledgers) / self._rate
        # Some of it may never be acked: the topic may be about to go.
        producer.flush(ASK_S)
        producer.purge()
        producer.flush(ASK_S)

    def _may_send(self) -> bool:
        in_flight = max(one.sent_end - one.acked_end for one in self.ledgers)
        return self._flowing.is_set() and in_flight < IN_FLIGHT_MAX

    def _send(self, producer: Any, index: int, ledger: Ledger) -> None:
        value, time_ms = ledger.next_value()

        def delivered(error: Any, message: Any) -> None:
            if error is None:
                ledger.acked(message.offset())
            elif (
                error.code() != KafkaError._PURGE_QUEUE
                and error.code() != KafkaError._PURGE_INFLIGHT
            ):
                self._problems.append(f"{ledger.name}: a record was refused: {error}")

        producer.produce(
            self.topic, value, partition=index, timestamp=time_ms, on_delivery=delivered
        )

    # Reading

    def _follow(self) -> None:
        """From the beginning, and then along with the writer."""
        with closing(self._reader()) as reader:
            wanted = dict.fromkeys(range(len(self.ledgers)), 0)
            reader.assign([TopicPartition(self.topic, index, 0) for index in wanted])
            while not self._ending.is_set():
                self._take(reader, wanted)

    def _replay(self) -> None:
        """All that is there, from the beginning to the end of that moment, again and again."""
        while not self._ending.is_set():
            for index, ledger in enumerate(self.ledgers):
                with closing(self._reader()) as reader:
                    self._replay_once(reader, index, ledger)
            self._ending.wait(REPLAY_S)

    def _replay_once(self, reader: Any, index: int, ledger: Ledger) -> None:
        end, start = ledger.acked_end, self._start_of(reader, index)
        if start is None:
            return
        wanted = {index: start}
        reader.assign([TopicPartition(self.topic, index, start)])
        while wanted[index] < end and not self._ending.is_set():
            self._take(reader, wanted)
        self.replays += 1

    def _reader(self) -> Any:
        return Consumer({"bootstrap.servers": self._server, **READING})

    def _take(self, reader: Any, wanted: dict[int, int]) -> None:
        for message in reader.consume(500, 0.1):
            error, index = message.error(), message.partition()
            if error is None:
                ledger = self.ledgers[index]
                if message.offset() != wanted[index]:
                    ledger.skipped(wanted[index], message.offset())
                ledger.check(message.offset(), message.value())
                wanted[index] = message.offset() + 1
            elif error.code() == KafkaError._AUTO_OFFSET_RESET:
                self._go_to_start(reader, index, wanted)
                return  # The rest comes again: all partitions are assigned anew.
            elif not passes(error):
                self._problems.append(f"{self.topic}-{index}: a reader was refused: {error}")

    def _go_to_start(self, reader: Any, index: int, wanted: dict[int, int]) -> None:
        start = self._start_of(reader, index)
        if start is None:
            return
        if start < wanted[index]:
            place = f"{wanted[index]}, between {start} and {self.ledgers[index].acked_end}"
            self._problems.append(f"{self.topic}-{index}: out of range at {place}")
        wanted[index] = max(start, wanted[index])
        reader.assign([TopicPartition(self.topic, one, at) for one, at in wanted.items()])

    def _start_of(self, reader: Any, index: int) -> int | None:
        """None: the load ends before the node says."""
        place = TopicPartition(self.topic, index)
        while not self._ending.is_set():
            try:
                start, _ = reader.get_watermark_offsets(place, timeout=ASK_S)
            except KafkaException:
                continue  # It is down, or just up.
            self.ledgers[index].saw_start(start)
            return int(start)
        return None


def passes(error: Any) -> bool:
    """Whether a client asks again by itself: the node is down, or its store is."""
    gone = {
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._RESOLVE,
        KafkaError._TIMED_OUT,
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_PARTITION,
    }
    return bool(error.retriable()) or error.code() in gone
