"""Real clients ask for a topic that is not there and may not come by itself."""

from contextlib import closing

import pytest

from tests.compat.drivers.base import Admin, Driver, Record, Refused, Sending
from tests.compat.samples import MARKS, read, without_places

pytestmark = MARKS

NODE_SETS = ["auto.create.topics.enable=false"]


def test_writing_to_an_unknown_topic_fails_in_time_and_makes_nothing(
    driver: Driver, admin: Admin, server: str
) -> None:
    topic = f"{driver.name}-nowhere"
    with (
        closing(driver.producer(server, Sending(patience_s=2))) as producer,
        pytest.raises(Refused),
    ):
        producer.send(topic, [Record(value=b"lost")])
    assert topic not in admin.topics()


def test_an_unknown_topic_can_be_made_and_used(driver: Driver, admin: Admin, server: str) -> None:
    topic = f"{driver.name}-later"
    assert topic not in admin.topics()
    admin.create(topic)
    record = Record(key=b"k", value=b"v")
    with closing(driver.producer(server, Sending())) as producer:
        producer.send(topic, [record])
    assert without_places(read(driver, server, topic, 1)) == [record]
