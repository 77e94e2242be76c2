"""Between the object store and the disk, while both move: no gap, nothing twice, nobody reset."""

import gc
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest

from tests.compat.cold import MARKS, Place, create_cold, eventually, wait_cold
from tests.compat.drivers import DRIVERS
from tests.compat.drivers.base import Record, Sending
from tests.compat.drivers.confluent import Confluent
from tests.compat.node import RunningNode
from tests.compat.samples import read, write

pytestmark = [
    *MARKS,
    # kafka-python forgets to close the sockets of connections that are refused.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

ROUND = 25


@pytest.fixture(autouse=True)
def _sockets_are_collected_here() -> Iterator[None]:
    """And not in a later test, which would be blamed for them."""
    yield
    gc.collect()


@pytest.fixture(scope="module")
def node(place: Place, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    with place.running(tmp_path_factory.mktemp("node")) as one:
        yield one


def numbered(first: int, count: int = ROUND) -> list[Record]:
    return [Record(value=b"%d" % number * 30) for number in range(first, first + count)]


def check(found: list[Record], *, first: int, who: str) -> None:
    """Each offset once, in order, with the value that was written there."""
    ends = range(first, first + len(found))
    assert [one.offset for one in found] == list(ends), who
    assert [one.value for one in found] == [b"%d" % number * 30 for number in ends], who


class Background:
    """Writes numbered records, rounds of them, until it is told to end."""

    def __init__(self, server: str, topic: str, first: int) -> None:
        self.written = first
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, args=[server, topic])
        self._thread.start()

    def _run(self, server: str, topic: str) -> None:
        with closing(Confluent().producer(server, Sending(idempotent=True))) as producer:
            while not self._ending.wait(0.05):
                offsets = producer.send(topic, numbered(self.written))
                assert offsets == list(range(self.written, self.written + ROUND))
                self.written += ROUND

    def end(self) -> int:
        self._ending.set()
        self._thread.join()
        return self.written


@contextmanager
def writing(server: str, topic: str, first: int) -> Iterator[Background]:
    background = Background(server, topic, first)
    try:
        yield background
    finally:
        background.end()


def test_readers_go_back_into_the_cold_range_and_catch_up_while_a_producer_goes_on(
    node: RunningNode, place: Place
) -> None:
    """Segments are sealed, uploaded and dropped under them all the time."""
    server, topic = node.address, "seam"
    create_cold(server, topic)
    for first in range(0, 8 * ROUND, ROUND):
        write(Confluent(), server, topic, numbered(first), Sending())
    wait_cold(node, topic)
    names = [one.name for one in DRIVERS if one.missing() is None]
    wanted = names if place.name == "folder" else ["confluent-kafka", "kafka-python"]
    with ExitStack() as stack:
        consumers = {}
        for one in DRIVERS:
            if one.name in wanted:
                consumers[one.name] = one.consumer(server, topic, [0], offset=8 * ROUND)
                stack.callback(consumers[one.name].close)
        background = stack.enter_context(writing(server, topic, 8 * ROUND))
        for name, consumer in consumers.items():
            check(consumer.read(2 * ROUND), first=8 * ROUND, who=name)
            consumer.seek(3)
            end = background.written + 4 * ROUND
            check(found := consumer.read(end - 3), first=3, who=name)
            assert len(found) >= end - 3, name
        seen = node.partitions(topic)[0]["uploaded_end"]
        eventually(
            lambda: node.partitions(topic)[0]["local_start"] > seen, "more of it has become cold"
        )
        end = background.end()
    check(read(Confluent(), server, topic, end), first=0, who="all of it")


def test_idempotent_producers_go_on_after_everything_was_dropped_and_the_node_restarted(
    node: RunningNode, place: Place
) -> None:
    server = node.address
    drivers = [one for one in DRIVERS if one.missing() is None and one.name != "kcat"]
    if place.name != "folder":
        drivers = [one for one in drivers if one.name in ("confluent-kafka", "aiokafka")]
    with ExitStack() as stack:
        producers = {}
        for one in drivers:
            topic = f"idempotent-{one.name}"
            create_cold(server, topic)
            producers[topic] = one.producer(server, Sending(idempotent=True))
            stack.callback(producers[topic].close)
            assert producers[topic].send(topic, numbered(0)) == list(range(ROUND))
        for topic in producers:
            wait_cold(node, topic)
        node.stop()
        node.start()
        for topic, producer in producers.items():
            assert producer.send(topic, numbered(ROUND)) == list(range(ROUND, 2 * ROUND)), topic
        for topic in producers:
            wait_cold(node, topic)
            check(read(Confluent(), server, topic, 2 * ROUND), first=0, who=topic)


def test_readers_of_cold_records_are_not_reset_by_new_leader_epochs(tmp_path: Path) -> None:
    """They ask where their leader epoch ended; the local log forgot those of what it dropped."""
    topic = "epochs"
    with Place(name="folder").running(tmp_path) as node, ExitStack() as stack:
        server = node.address
        create_cold(server, topic)
        write(Confluent(), server, topic, numbered(0), Sending())
        wait_cold(node, topic)
        node.kill()
        node.start()
        write(Confluent(), server, topic, numbered(ROUND), Sending())
        wait_cold(node, topic)
        readers, found = {}, {}
        for one in DRIVERS:
            if one.missing() is None:
                readers[one.name] = one.consumer(server, topic, [0], fetch_bytes=1)
                stack.callback(readers[one.name].close)
                found[one.name] = readers[one.name].read(5)
        node.kill()
        node.start()
        write(Confluent(), server, topic, numbered(2 * ROUND), Sending())
        for name, reader in readers.items():
            found[name] += reader.read(3 * ROUND - len(found[name]))
            check(found[name], first=0, who=name)
            assert len(found[name]) == 3 * ROUND, name
