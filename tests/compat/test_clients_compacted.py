"""A compacted topic, written by a real client and cleaned: every client reads what is left."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from random import Random

import pytest

from tests.compat.cold import eventually
from tests.compat.drivers.base import Driver, Record, Refused, Sending
from tests.compat.drivers.confluent import Confluent
from tests.compat.node import RunningNode, running
from tests.compat.samples import MARKS, NOON_MS, read, timed, write

pytestmark = MARKS

TOPIC = "compacted"
SETS = ("log.cleaner.backoff.ms=20", "log.cleaner.dedupe.buffer.size=6000")
"""Thirty keys fit: it takes several rounds."""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    with running(tmp_path_factory.mktemp("node"), sets=SETS) as one:
        yield one


@pytest.fixture(scope="module")
def left(node: RunningNode) -> list[Record]:
    """What must be left of two thousand records over fifty keys, a tenth of them deletions."""
    Confluent().admin(node.address).create(
        TOPIC,
        1,
        **{
            "cleanup.policy": "compact",
            "segment.bytes": "8192",
            "segment.ms": "100",
            "min.cleanable.dirty.ratio": "0.01",
        },
    )
    rng = Random(7)
    records = timed([drawn(number, rng) for number in range(2000)])
    for first in range(0, len(records), 400):
        codec = ("none", "lz4", "zstd", "gzip", "snappy")[first // 400]
        part = records[first : first + 400]
        write(Confluent(), node.address, TOPIC, part, Sending(codec=codec, idempotent=True))
    eventually(lambda: is_clean(node), "the topic is clean to its end")
    last = {record.key: replace(record, offset=offset) for offset, record in enumerate(records)}
    return sorted(last.values(), key=lambda record: record.offset)


def drawn(number: int, rng: Random) -> Record:
    value = None if rng.random() < 0.1 else b"%d " % number + b"x" * rng.randrange(60)
    return Record(key=b"key %d" % rng.randrange(50), value=value)


def is_clean(node: RunningNode) -> bool:
    (one,) = node.partitions(TOPIC)
    return one["cleaned_to"] == one["log_end"] == 2000


def test_a_client_reads_the_last_record_of_every_key(
    driver: Driver, node: RunningNode, left: list[Record]
) -> None:
    assert read(driver, node.address, TOPIC, len(left)) == left


def test_a_client_begins_at_an_offset_that_is_gone(
    driver: Driver, node: RunningNode, left: list[Record]
) -> None:
    for offset in (1, left[10].offset + 1, left[-1].offset):
        expected = [record for record in left if record.offset >= offset]
        assert read(driver, node.address, TOPIC, len(expected), offset=offset) == expected


def test_a_client_finds_times_among_what_is_left(
    driver: Driver, node: RunningNode, left: list[Record]
) -> None:
    if driver.name == "kcat":
        pytest.skip("kcat does not ask for times here")
    with closing(driver.consumer(node.address, TOPIC, [0])) as consumer:
        assert consumer.offset_at(NOON_MS) == left[0].offset
        middle = left[20]
        assert middle.timestamp_ms is not None
        assert consumer.offset_at(middle.timestamp_ms) == middle.offset


def test_most_of_the_bytes_are_gone(node: RunningNode, left: list[Record]) -> None:
    (one,) = node.partitions(TOPIC)
    assert one["bytes"] < 8192


def test_a_record_without_a_key_is_refused(driver: Driver, node: RunningNode) -> None:
    if driver.name in ("kcat", "aiokafka"):
        pytest.skip("it does not tell this error by its number")
    admin = Confluent().admin(node.address)
    admin.create(f"keys-{driver.name}", 1, **{"cleanup.policy": "compact"})
    with pytest.raises(Refused) as refused:
        write(
            driver,
            node.address,
            f"keys-{driver.name}",
            [Record(key=None, value=b"x" * 200)],
            Sending(codec="gzip"),
        )
    assert refused.value.code == 87, "INVALID_RECORD"
