"""A topic is deleted and made anew while real clients use it: they go on with the new one.

What the new topic holds is read from its beginning; nothing of the old one is seen again. Clients
that name topics by id meet UNKNOWN_TOPIC_ID on the way, the others an offset that is out of range.
"""

from contextlib import closing
from time import monotonic

import pytest

from tests.compat.conftest import available
from tests.compat.drivers import DRIVERS
from tests.compat.drivers.base import PATIENCE_S, Admin, Driver, Record, Sending
from tests.compat.drivers.confluent import Confluent
from tests.compat.drivers.kafka_python import KafkaPython
from tests.compat.samples import MARKS, read, without_places, write

pytestmark = MARKS

# A client that asks between deletion and creation must not make the topic itself.
NODE_SETS = ["auto.create.topics.enable=false"]

OLD = [Record(key=b"%d" % number, value=b"old") for number in range(8)]
NEW = [Record(key=b"%d" % number, value=b"new") for number in range(3)]


@pytest.mark.parametrize("idempotent", [False, True], ids=["plain", "idempotent"])
def test_a_producer_goes_on_with_the_new_topic(
    driver: Driver, admin: Admin, server: str, idempotent: bool
) -> None:
    topic = f"{driver.name}-produced-{idempotent}"
    admin.create(topic)
    with closing(driver.producer(server, Sending(idempotent=idempotent))) as producer:
        producer.send(topic, OLD)
        admin.delete(topic)
        admin.create(topic)
        producer.send(topic, NEW)
    assert without_places(read(Confluent(), server, topic, len(NEW))) == NEW


@pytest.mark.parametrize(
    "driver", [one for one in DRIVERS if one.name != "kafka-python"], ids=lambda one: one.name
)
def test_a_consumer_goes_on_with_the_new_topic(driver: Driver, admin: Admin, server: str) -> None:
    topic = f"{available(driver).name}-consumed"
    admin.create(topic)
    write(Confluent(), server, topic, OLD, Sending())
    with closing(driver.consumer(server, topic, [0])) as consumer:
        assert without_places(consumer.read(len(OLD))) == OLD
        admin.delete(topic)
        admin.create(topic)
        write(Confluent(), server, topic, NEW, Sending())
        found = consumer.read(len(NEW))
    assert without_places(found) == NEW
    assert [one.offset for one in found] == [0, 1, 2]


def test_kafka_python_goes_on_where_the_new_topic_ends(server: str) -> None:
    """It tells the epoch of what it read last, which both topics have, and is told where that epoch
    ends (KIP-595). It takes that for a cut log and goes on from there, with Kafka as well."""
    topic = "consumed-by-epoch"
    admin = Confluent().admin(server)
    admin.create(topic)
    write(Confluent(), server, topic, OLD, Sending())
    with closing(KafkaPython().consumer(server, topic, [0])) as consumer:
        assert without_places(consumer.read(len(OLD))) == OLD
        admin.delete(topic)
        admin.create(topic)
        found: list[Record] = []
        deadline = monotonic() + PATIENCE_S
        while not found and monotonic() < deadline:
            write(Confluent(), server, topic, NEW[:1], Sending())
            found = consumer.read(1, patience_s=1)
    assert without_places(found) == NEW[:1]
