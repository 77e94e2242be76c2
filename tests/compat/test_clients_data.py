"""Real clients write to a real node and read it back: every codec and acks, any offset and time."""

import asyncio
import itertools
import zlib
from contextlib import closing
from dataclasses import replace

import pytest

from tests.compat.conftest import available
from tests.compat.drivers import DRIVERS
from tests.compat.drivers.base import CODECS, Admin, Driver, Record, Sending
from tests.compat.drivers.confluent import Confluent
from tests.compat.samples import (
    MARKS,
    NOON_MS,
    odd_records,
    placed,
    read,
    timed,
    without_places,
    write,
)
from tierlog.client import Client
from tierlog.env import local_env
from tierlog.records.batch import iter_batches

pytestmark = MARKS

WAYS = {
    **{f"{codec}-acks-1": Sending(codec=codec, acks="1") for codec in CODECS},
    "acks-0": Sending(acks="0"),
    "acks-all": Sending(acks="all"),
    "idempotent": Sending(codec="lz4", idempotent=True),
}
PARTITIONS = 200


@pytest.mark.parametrize("way", WAYS)
def test_a_client_reads_back_what_it_wrote(
    driver: Driver, admin: Admin, server: str, way: str
) -> None:
    topic = f"{driver.name}-{way}"
    sending = WAYS[way]
    admin.create(topic)
    records = odd_records()
    offsets = write(driver, server, topic, records, sending)
    assert without_places(read(driver, server, topic, len(records))) == records
    assert sending.codec in codecs_in(server, topic)
    if driver.name != "kcat" and sending.acks != "0":
        assert offsets == list(range(len(records)))


def codecs_in(server: str, topic: str) -> set[str]:
    """Of the batches as the node keeps them."""

    async def run() -> set[str]:
        env = local_env()
        host, port = server.split(":")
        async with Client([(host, int(port))], clock=env.clock, rng=env.rng) as client:
            fetched = await client.fetch(topic, 0, 0)
        return {header.codec.name.lower() for _, header in iter_batches(fetched.batches)}

    return asyncio.run(run())


def test_a_consumer_begins_at_any_offset(driver: Driver, admin: Admin, server: str) -> None:
    """Also inside a batch: the node sends the whole batch and the client drops what is before."""
    topic = f"{driver.name}-offsets"
    admin.create(topic)
    records = timed([Record(value=b"%d" % number) for number in range(12)])
    for first in (0, 5, 10):
        write(Confluent(), server, topic, records[first : first + 5], Sending(codec="lz4"))
    for offset in (0, 3, 5, 9, 11):
        found = read(driver, server, topic, len(records) - offset, offset=offset)
        assert found == placed(records)[offset:]


def test_a_consumer_finds_the_first_record_at_or_after_a_time(
    driver: Driver, admin: Admin, server: str
) -> None:
    topic = f"{driver.name}-times"
    admin.create(topic)
    records = timed([Record(value=b"%d" % number) for number in range(10)])
    for first in (0, 4):  # batches of records 0-3 and 4-9
        write(Confluent(), server, topic, records[first : 4 if first == 0 else 10], Sending())
    with closing(driver.consumer(server, topic, [0])) as consumer:
        assert consumer.offset_at(NOON_MS - 1) == 0
        assert consumer.offset_at(NOON_MS) == 0
        assert consumer.offset_at(NOON_MS + 2000) == 2
        assert consumer.offset_at(NOON_MS + 4001) == 5
        assert consumer.offset_at(NOON_MS + 9000) == 9
        assert consumer.offset_at(NOON_MS + 9001) is None


@pytest.mark.parametrize("writer", DRIVERS, ids=lambda driver: driver.name)
def test_every_client_reads_the_same_from_what_one_wrote(writer: Driver, server: str) -> None:
    topic = f"matrix-{available(writer).name}"
    with closing(Confluent().admin(server)) as admin:
        admin.create(topic)
    written: list[Record] = []
    for number, codec in enumerate(CODECS):
        records = timed(odd_records(), first_ms=NOON_MS + 60_000 * number)
        write(writer, server, topic, records, Sending(codec=codec))
        written += records
    views = {
        reader.name: read(reader, server, topic, len(written))
        for reader in DRIVERS
        if reader.missing() is None
    }
    first = next(iter(views.values()))
    assert all(view == first for view in views.values())
    if writer.name == "kcat":  # it cannot set times
        written = without_places(written)
        first = [replace(one, timestamp_ms=None) for one in first]
    assert first == placed(written)


def test_two_hundred_partitions_are_written_and_read(
    driver: Driver, admin: Admin, server: str
) -> None:
    topic = f"{driver.name}-wide"
    admin.create(topic, PARTITIONS)
    records = [
        Record(key=key_of(one), value=b"%d" % one, partition=one) for one in range(PARTITIONS)
    ]
    write(driver, server, topic, records, Sending(codec="lz4"))
    found = read(driver, server, topic, PARTITIONS, partitions=range(PARTITIONS))
    assert sorted(without_places(found), key=lambda one: one.partition) == records
    assert {one.offset for one in found} == {0}
    admin.delete(topic)


def key_of(partition: int) -> bytes:
    """A key that librdkafka's partitioner sends there: kcat can be told no other way."""
    keys = (b"%d" % number for number in itertools.count())
    return next(key for key in keys if zlib.crc32(key) % PARTITIONS == partition)
