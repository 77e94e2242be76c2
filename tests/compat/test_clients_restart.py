"""The node goes and comes back under running clients: they go on, nothing is lost or doubled.

Every start takes the next leader epoch, so what clients remember of the old one is fenced first.
"""

import gc
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.compat.drivers import DRIVERS
from tests.compat.drivers.base import Consumer, Driver, Producer, Record, Sending
from tests.compat.drivers.confluent import Confluent
from tests.compat.node import RunningNode, running
from tests.compat.samples import MARKS, read, without_places

pytestmark = [
    *MARKS,
    # kafka-python forgets to close the sockets of connections that are refused.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

BEFORE = [Record(key=b"%d" % number, value=b"before") for number in range(5)]
AFTER = [Record(key=b"%d" % number, value=b"after") for number in range(5)]


@pytest.fixture(autouse=True)
def _sockets_are_collected_here() -> Iterator[None]:
    """And not in a later test, which would be blamed for them."""
    yield
    gc.collect()


@pytest.fixture
def node(tmp_path: Path) -> Iterator[RunningNode]:
    with running(tmp_path) as one:
        yield one


@pytest.mark.parametrize("way", ["stopped", "killed"])
def test_running_clients_go_on_when_the_node_comes_back(node: RunningNode, way: str) -> None:
    server = node.address
    drivers = [one for one in DRIVERS if one.missing() is None]
    with ExitStack() as stack:
        pairs = {one.name: opened(one, server, stack) for one in drivers}
        for topic, (producer, consumer) in pairs.items():
            producer.send(topic, BEFORE)
            assert without_places(consumer.read(len(BEFORE))) == BEFORE, topic
        if way == "stopped":
            node.stop()
        else:
            node.kill()
        node.start()
        assert node.address == server
        for topic, (producer, consumer) in pairs.items():
            producer.send(topic, AFTER)
            assert without_places(consumer.read(len(AFTER))) == AFTER, topic
    for topic in pairs:
        found = read(Confluent(), server, topic, len(BEFORE + AFTER))
        assert without_places(found) == BEFORE + AFTER, topic
        assert [one.offset for one in found] == list(range(10)), topic


def opened(driver: Driver, server: str, stack: ExitStack) -> tuple[Producer, Consumer]:
    """On a topic of the client's name."""
    Confluent().admin(server).create(driver.name)
    producer = driver.producer(server, Sending(idempotent=True))
    stack.callback(producer.close)
    consumer = driver.consumer(server, driver.name, [0])
    stack.callback(consumer.close)
    return producer, consumer
