"""kill -9 of a node that uploads, again and again; a store that stops answering.

A real producer goes on through all of it, and a real consumer reads along: nothing that was acked
is lost, every offset is there once.
"""

import itertools
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.compat.cold import (
    MARKS,
    PATIENCE_S,
    Place,
    create_cold,
    eventually,
    fetch_once,
    place_of,
    wait_cold,
)
from tests.compat.drivers.base import Record, Sending
from tests.compat.drivers.confluent import Confluent
from tests.compat.node import RunningNode
from tests.compat.samples import read, write
from tests.stores.servers import Server, paused
from tierlog.wire.error_codes import ErrorCode

pytestmark = MARKS

KILLS = 10
TOPIC = "killed"


class Writer:
    """An idempotent producer on a thread of its own: what was acked, by its offset."""

    def __init__(self, server: str) -> None:
        self.acked: dict[int, bytes] = {}
        self.failed: list[str] = []
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, args=[server])
        self._thread.start()

    def _run(self, server: str) -> None:
        settings = {"bootstrap.servers": server, "enable.idempotence": True, "log_level": 0}
        patience = {"linger.ms": 2, "message.timeout.ms": 120_000, "reconnect.backoff.max.ms": 200}
        producer = Producer(settings | patience)
        for number in itertools.count():
            producer.produce(TOPIC, b"%d " % number * 20, on_delivery=self._delivered)
            producer.poll(0.001)
            if self._ending.is_set():
                break
        producer.flush(PATIENCE_S)

    def _delivered(self, error: Any, message: Any) -> None:
        if error is None:
            assert message.offset() not in self.acked
            self.acked[message.offset()] = message.value()
        else:
            self.failed.append(str(error))

    def end(self) -> None:
        self._ending.set()
        self._thread.join()


class Reader:
    """Reads along from the beginning, through everything that happens to the node."""

    def __init__(self, server: str) -> None:
        self.found: list[bytes] = []
        self._wanted: int | None = None
        self._thread = threading.Thread(target=self._run, args=[server])
        self._thread.start()

    def _run(self, server: str) -> None:
        settings = {"bootstrap.servers": server, "group.id": "unused", "log_level": 0}
        patience = {"auto.offset.reset": "error", "reconnect.backoff.max.ms": 200}
        consumer = Consumer({**settings, **patience, "enable.auto.commit": False})
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        with closing(consumer):
            while self._wanted is None or len(self.found) < self._wanted:
                for message in consumer.consume(1000, 0.2):
                    self._take(message)

    def _take(self, message: Any) -> None:
        if message.error() is not None:
            assert message.error().retriable(), message.error()
        else:
            assert message.offset() == len(self.found)
            self.found.append(message.value())

    def end(self, wanted: int) -> list[bytes]:
        """All there is below an offset; less if it does not come."""
        self._wanted = wanted
        self._thread.join(PATIENCE_S)
        self._wanted = 0
        self._thread.join()
        return self.found


@contextmanager
def under_load(server: str) -> Iterator[tuple[Writer, Reader]]:
    writer, reader = Writer(server), Reader(server)
    try:
        yield writer, reader
    finally:
        writer.end()
        reader.end(0)


@pytest.fixture(params=["folder", "minio"])
def killed(request: pytest.FixtureRequest) -> Place:
    if request.param == "folder":
        return Place(name="folder")
    return place_of(request.getfixturevalue("minio_server"), prefix="killed")


def test_nothing_acked_is_lost_however_often_the_node_is_killed_while_it_uploads(
    killed: Place, tmp_path: Path
) -> None:
    with killed.running(tmp_path) as node:
        create_cold(node.address, TOPIC, segment_bytes="8192")
        with under_load(node.address) as (writer, reader):
            for number in range(KILLS):
                kill_in_an_upload(node, number)
            writer.end()
            assert not writer.failed
            end = max(writer.acked) + 1
            assert sorted(writer.acked) == list(range(end))
            found = reader.end(end)
        assert found == [writer.acked[offset] for offset in range(end)]
        wait_cold(node, TOPIC)
        cold = read(Confluent(), node.address, TOPIC, end)
        assert [one.offset for one in cold] == list(range(end))
        assert [one.value for one in cold] == found


def kill_in_an_upload(node: RunningNode, number: int) -> None:
    """Some publishes in, and a little further each time: the next is on its way."""
    seen = node.partitions(TOPIC)[0]["uploaded_end"]
    eventually(
        lambda: node.partitions(TOPIC)[0]["uploaded_end"] > max(seen, 0), "something is uploaded"
    )
    time.sleep(0.013 * number)  # Not a wait: another moment of the next upload for each kill.
    node.kill()
    node.start()


def test_a_store_that_stops_answering_stops_neither_hot_traffic_nor_a_restart(
    minio_server: Server, tmp_path: Path
) -> None:
    topic = "outage"
    place = place_of(minio_server, prefix="outage")
    with place.running(tmp_path) as node:
        server = node.address
        create_cold(server, topic)
        records = [Record(value=b"%d" % number * 50) for number in range(60)]
        write(Confluent(), server, topic, records[:20], Sending())
        wait_cold(node, topic)
        with paused(minio_server):
            assert cold_fetch_is_retriable(server, topic)
            write(Confluent(), server, topic, records[20:40], Sending(idempotent=True))
            check_values(read(Confluent(), server, topic, 20, offset=20), records[20:40])
            node.stop()
            node.start()
            assert cold_fetch_is_retriable(server, topic)
            write(Confluent(), server, topic, records[40:], Sending(idempotent=True))
            check_values(read(Confluent(), server, topic, 40, offset=20), records[20:])
            assert node.partitions(topic)[0]["uploaded_end"] == 20
        check_values(read(Confluent(), server, topic, 60), records)
        wait_cold(node, topic)


def check_values(found: list[Record], wanted: list[Record]) -> None:
    assert [one.value for one in found] == [one.value for one in wanted]


def cold_fetch_is_retriable(server: str, topic: str) -> bool:
    """Asked for what only the store has: nothing, or an error that clients ask again after."""
    answer = fetch_once(server, topic, 0)
    assert not answer.batches
    return answer.error in (ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR)
