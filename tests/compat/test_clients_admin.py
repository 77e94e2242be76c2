"""The admin calls of real clients against a real node. kcat can look, not change."""

import itertools

import pytest

from tests.compat.conftest import available
from tests.compat.drivers import DRIVERS
from tests.compat.drivers.base import Admin, Driver, Record, Refused, Sending
from tests.compat.drivers.confluent import Confluent
from tests.compat.drivers.kcat import Kcat, listing
from tests.compat.samples import MARKS, read, write

pytestmark = MARKS

UNKNOWN_TOPIC_OR_PARTITION = 3
INVALID_TOPIC_EXCEPTION = 17
TOPIC_ALREADY_EXISTS = 36
INVALID_PARTITIONS = 37
INVALID_CONFIG = 40

_numbers = itertools.count()


ADMINS = [one for one in DRIVERS if one.name != "kcat"]
WITH_LOG_DIRS = [one for one in DRIVERS if one.name in {"kafka-python", "java"}]


@pytest.fixture(params=ADMINS, ids=lambda driver: driver.name)
def driver(request: pytest.FixtureRequest) -> Driver:
    return available(request.param)


@pytest.fixture
def topic(driver: Driver) -> str:
    """A name nobody uses."""
    return f"{driver.name}-{next(_numbers)}"


def code_of(refused: "pytest.ExceptionInfo[Refused]") -> int:
    return refused.value.code


def test_a_topic_is_made_listed_and_deleted(admin: Admin, topic: str) -> None:
    assert topic not in admin.topics()
    admin.create(topic, 3)
    assert topic in admin.topics()
    assert admin.partition_count(topic) == 3
    admin.delete(topic)
    assert topic not in admin.topics()


def test_a_topic_is_made_with_its_settings(admin: Admin, topic: str) -> None:
    admin.create(topic, retention_ms="123456", cleanup_policy="compact,delete")
    found = admin.configs(topic)
    assert found["retention.ms"] == "123456"
    assert set(str(found["cleanup.policy"]).split(",")) == {"compact", "delete"}
    assert found["max.message.bytes"] == "1048588"


def test_settings_are_altered(admin: Admin, topic: str) -> None:
    admin.create(topic)
    admin.alter(topic, max_message_bytes="2222", retention_ms="5000")
    found = admin.configs(topic)
    assert (found["max.message.bytes"], found["retention.ms"]) == ("2222", "5000")


def test_an_altered_setting_takes_effect(admin: Admin, topic: str, server: str) -> None:
    admin.create(topic)
    large = [Record(value=b"x" * 5000)]
    write(Confluent(), server, topic, large, Sending())
    admin.alter(topic, max_message_bytes="1000")
    with pytest.raises(Refused):
        write(Confluent(), server, topic, large, Sending())
    admin.alter(topic, max_message_bytes="10000")
    write(Confluent(), server, topic, large, Sending())


def test_partitions_are_added(admin: Admin, driver: Driver, topic: str, server: str) -> None:
    admin.create(topic)
    admin.grow(topic, 4)
    assert admin.partition_count(topic) == 4
    write(driver, server, topic, [Record(value=b"v", partition=3)], Sending())
    (found,) = read(driver, server, topic, 1, partitions=range(4))
    assert (found.partition, found.value) == (3, b"v")


def test_records_are_deleted_up_to_an_offset(
    admin: Admin, driver: Driver, topic: str, server: str
) -> None:
    admin.create(topic)
    write(driver, server, topic, [Record(value=b"%d" % number) for number in range(6)], Sending())
    assert admin.trim(topic, 4) == 4
    found = read(driver, server, topic, 2)
    assert [(one.offset, one.value) for one in found] == [(4, b"4"), (5, b"5")]
    # An offset that is gone sends a consumer to the beginning of what is left.
    assert read(driver, server, topic, 2, offset=1) == found


def test_a_client_sees_the_cluster(admin: Admin, server: str) -> None:
    cluster_id, nodes = admin.cluster()
    assert cluster_id
    assert nodes == {server}
    assert admin.cluster() == (cluster_id, nodes)


@pytest.mark.parametrize("driver", WITH_LOG_DIRS, indirect=True, ids=lambda driver: driver.name)
def test_log_directories_tell_the_size_of_a_topic(admin: Admin, topic: str, server: str) -> None:
    admin.create(topic, 2)
    assert admin.stored_bytes(topic) == 0
    write(Confluent(), server, topic, [Record(value=b"x" * 5000)], Sending())
    assert 5000 < admin.stored_bytes(topic) < 6000


def test_what_is_wrong_is_told_by_its_code(admin: Admin, topic: str) -> None:
    admin.create(topic, 2)
    with pytest.raises(Refused) as refused:
        admin.create(topic)
    assert code_of(refused) == TOPIC_ALREADY_EXISTS
    with pytest.raises(Refused) as refused:
        admin.create(f"{topic}-bad", retention_ms="soon")
    assert code_of(refused) == INVALID_CONFIG
    with pytest.raises(Refused) as refused:
        admin.create(f"{topic} with spaces")
    assert code_of(refused) == INVALID_TOPIC_EXCEPTION
    with pytest.raises(Refused) as refused:
        admin.create(f"{topic}-none", 0)
    assert code_of(refused) == INVALID_PARTITIONS
    with pytest.raises(Refused) as refused:
        admin.grow(topic, 1)
    assert code_of(refused) == INVALID_PARTITIONS
    with pytest.raises(Refused) as refused:
        admin.alter(topic, max_message_bytes="-5")
    assert code_of(refused) == INVALID_CONFIG
    with pytest.raises(Refused) as refused:
        admin.delete(f"{topic}-missing")
    assert code_of(refused) == UNKNOWN_TOPIC_OR_PARTITION
    assert admin.topics() & {topic, f"{topic}-bad", f"{topic}-none"} == {topic}


def test_kcat_lists_the_cluster(server: str) -> None:
    available(Kcat())
    Confluent().admin(server).create("listed", 3)
    found = listing(server)
    assert [broker["name"] for broker in found["brokers"]] == [server]
    partitions = {one["topic"]: len(one["partitions"]) for one in found["topics"]}
    assert partitions["listed"] == 3
