"""Real clients read a history that is in an object store: what was acked, to the byte.

On every store; by every client from a folder, by two from the others.
"""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest

from tests.compat.cold import MARKS, Place, create, kept_hot, make_cold, raw_batches
from tests.compat.drivers import DRIVERS
from tests.compat.drivers.base import (
    CODECS,
    EARLIEST,
    EARLIEST_LOCAL,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
    Driver,
    Record,
    Sending,
)
from tests.compat.drivers.confluent import Confluent
from tests.compat.node import RunningNode
from tests.compat.samples import NOON_MS, odd_records, placed, read, timed, write

pytestmark = MARKS

SECOND_READER = {"moto": "kafka-python", "seaweed": "aiokafka", "minio": "java"}
WIDE = 8
LATE_MS = NOON_MS + 3_600_000


@pytest.fixture(scope="module")
def node(place: Place, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    with place.running(tmp_path_factory.mktemp("node")) as one:
        yield one


@pytest.fixture(scope="module")
def readers(place: Place) -> list[Driver]:
    wanted = ["confluent-kafka", SECOND_READER.get(place.name, "")]
    here = [one for one in DRIVERS if one.missing() is None]
    return [one for one in here if place.name == "folder" or one.name in wanted]


def test_every_reader_finds_the_acked_records_with_their_bytes_in_every_codec(
    node: RunningNode, readers: list[Driver]
) -> None:
    server = node.address
    create(server, "history")
    written: list[Record] = []
    for number, codec in enumerate(CODECS):
        records = timed(odd_records(), first_ms=NOON_MS + 60_000 * number)
        offsets = write(Confluent(), server, "history", records, Sending(codec=codec))
        assert offsets == [len(written) + one for one in range(len(records))]
        written += records
    hot = raw_batches(server, "history", end=len(written))
    make_cold(node, "history")
    assert raw_batches(server, "history", end=len(written)) == hot
    for reader in readers:
        assert read(reader, server, "history", len(written)) == placed(written), reader.name
        found = read(reader, server, "history", len(written) - 3, offset=3)
        assert found == placed(written)[3:], reader.name


def test_small_fetches_and_many_partitions_are_read_whole(
    node: RunningNode, readers: list[Driver]
) -> None:
    """Less than a batch at a time: each answer has one whole batch."""
    server = node.address
    create(server, "wide", WIDE)
    written = [
        Record(key=b"%d" % number, value=b"%d" % number * 100, partition=number % WIDE)
        for number in range(40 * WIDE)
    ]
    for first in range(0, len(written), 10 * WIDE):
        write(Confluent(), server, "wide", written[first : first + 10 * WIDE], Sending())
    make_cold(node, "wide")
    wanted = {
        (one.partition, number // WIDE, one.key, one.value) for number, one in enumerate(written)
    }
    for reader in readers:
        found = read(reader, server, "wide", len(written), partitions=range(WIDE), fetch_bytes=300)
        assert len(found) == len(written), reader.name
        places = {(one.partition, one.offset, one.key, one.value) for one in found}
        assert places == wanted, reader.name


def test_questions_about_times_and_offsets_are_answered_over_both_tiers(
    node: RunningNode, readers: list[Driver]
) -> None:
    server = node.address
    create(server, "both")
    cold = timed([Record(value=b"cold %d" % number * 40) for number in range(30)])
    cold[7] = replace(cold[7], timestamp_ms=LATE_MS)
    hot = timed([Record(value=b"hot %d" % number) for number in range(5)], first_ms=LATE_MS + 1)
    for first in range(0, 30, 6):
        write(Confluent(), server, "both", cold[first : first + 6], Sending(codec="lz4"))
    make_cold(node, "both")
    for reader in readers:
        check_questions(reader, server, {LATEST: 30, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 30})
    with kept_hot(node, "both"):
        write(Confluent(), server, "both", hot, Sending())
        for reader in readers:
            check_questions(reader, server, {LATEST: 35, MAX_TIMESTAMP: 34, EARLIEST_LOCAL: 30})
            check_questions(reader, server, {EARLIEST: 0, LATEST_TIERED: 29})
            check_times(reader, server)


def check_times(reader: Driver, server: str) -> None:
    """Record 7 is later than all others in the store: it is the answer for most times there."""
    wanted = {
        NOON_MS - 1: 0,
        NOON_MS: 0,
        NOON_MS + 5_001: 6,
        NOON_MS + 20_000: 7,
        LATE_MS: 7,
        LATE_MS + 1: 30,
        LATE_MS + 4_001: 34,
        LATE_MS + 4_002: None,
    }
    with closing(reader.consumer(server, "both", [0])) as consumer:
        found = {timestamp_ms: consumer.offset_at(timestamp_ms) for timestamp_ms in wanted}
    assert found == wanted, reader.name


def check_questions(reader: Driver, server: str, wanted: dict[int, int]) -> None:
    admin = reader.admin(server)
    if admin is None:
        return
    with closing(admin):
        for question, offset in wanted.items():
            assert admin.offset_of("both", question) in (offset, None), (reader.name, question)
