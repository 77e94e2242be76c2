"""Real clients and large records: what fits goes through whole, what does not is refused."""

from contextlib import closing

import pytest

from tests.compat.conftest import available
from tests.compat.drivers.base import CODECS, Admin, Driver, Record, Refused, Sending
from tests.compat.drivers.confluent import Confluent
from tests.compat.drivers.java import Java
from tests.compat.samples import MARKS, noise, read, without_places, write

pytestmark = MARKS

MIB = 1 << 20
MESSAGE_TOO_LARGE = 10


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_a_record_of_one_mebibyte_goes_through_whole(
    driver: Driver, admin: Admin, server: str, codec: str
) -> None:
    topic = f"{driver.name}-{codec}-large"
    admin.create(topic, max_message_bytes=str(2 * MIB))
    records = [Record(key=b"%d" % number, value=noise(MIB, seed=number)) for number in range(3)]
    write(driver, server, topic, records, Sending(codec=codec, bytes_max=2 * MIB))
    assert without_places(read(driver, server, topic, len(records))) == records


def test_a_record_larger_than_the_topic_allows_is_refused_and_the_next_one_is_not(
    driver: Driver, admin: Admin, server: str
) -> None:
    topic = f"{driver.name}-too-large"
    admin.create(topic, max_message_bytes="10000")
    small = Record(key=b"small", value=b"fits")
    with closing(driver.producer(server, Sending())) as producer:
        with pytest.raises(Refused) as refused:
            producer.send(topic, [Record(key=b"large", value=noise(50_000))])
        producer.send(topic, [small])
    assert refused.value.code == MESSAGE_TOO_LARGE
    assert without_places(read(driver, server, topic, 1)) == [small]


@pytest.mark.parametrize("driver", [Confluent(), Java()], ids=lambda driver: driver.name)
def test_an_idempotent_producer_outlives_a_refused_record(
    driver: Driver, admin: Admin, server: str
) -> None:
    """The sequence numbers of the refused batch are used up on one side only.

    kafka-python and aiokafka do not try to go on: an idempotent producer of theirs ends here.
    """
    available(driver)
    topic = f"{driver.name}-refused-once"
    admin.create(topic, max_message_bytes="10000")
    before, after = Record(value=b"before"), Record(value=b"after")
    with closing(driver.producer(server, Sending(idempotent=True))) as producer:
        producer.send(topic, [before])
        with pytest.raises(Refused):
            producer.send(topic, [Record(value=noise(50_000))])
        producer.send(topic, [after])
    assert without_places(read(driver, server, topic, 2)) == [before, after]


def test_what_compresses_below_the_limit_is_taken(
    driver: Driver, admin: Admin, server: str
) -> None:
    """The limit holds for the batch as it is sent."""
    topic = f"{driver.name}-shrinks"
    admin.create(topic, max_message_bytes="10000")
    record = Record(value=b"the same again, " * 10_000)
    for codec in CODECS[1:]:
        write(driver, server, topic, [record], Sending(codec=codec))
    found = read(driver, server, topic, len(CODECS) - 1)
    assert without_places(found) == [record] * (len(CODECS) - 1)
