"""The hand-written Fetch response has the compiled codec's bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings

from tests.wire.strategies import messages
from tierlog.wire.codec import encode
from tierlog.wire.errors import EncodeError, UnsupportedVersion
from tierlog.wire.fetch import (
    FLEXIBLE_FROM,
    TOPIC_IDS_FROM,
    FetchWriter,
    partition_tags,
    response_tags,
)
from tierlog.wire.messages.fetch import FetchResponse, PartitionData

if TYPE_CHECKING:
    from collections.abc import Callable

VERSIONS = list(FetchResponse.versions)
LARGE = memoryview(bytes(100_000))


def written(message: FetchResponse, version: int) -> bytes:
    writer = FetchWriter(
        version,
        topic_count=len(message.responses),
        throttle_time_ms=message.throttle_time_ms,
        error_code=message.error_code,
        session_id=message.session_id,
    )
    for topic in message.responses:
        name = topic.topic_id if version >= TOPIC_IDS_FROM else topic.topic
        writer.topic(name, partition_count=len(topic.partitions))
        for partition in topic.partitions:
            add(writer, partition, version)
    nodes = [(node.node_id, node.host, node.port, node.rack) for node in message.node_endpoints]
    return b"".join(writer.finish(response_tags(nodes)))


def add(writer: FetchWriter, partition: PartitionData, version: int) -> None:
    partition.snapshot_id = None  # of the controllers' log, which is not served this way
    diverging, leader = partition.diverging_epoch, partition.current_leader
    aborted = partition.aborted_transactions
    tags = partition_tags(
        diverging_epoch=(diverging.epoch, diverging.end_offset) if diverging is not None else None,
        current_leader=(leader.leader_id, leader.leader_epoch) if leader is not None else None,
    )
    writer.partition(
        partition.partition_index,
        error_code=partition.error_code,
        high_watermark=partition.high_watermark,
        last_stable_offset=partition.last_stable_offset,
        log_start_offset=partition.log_start_offset,
        aborted=None if aborted is None else [(a.producer_id, a.first_offset) for a in aborted],
        preferred_read_replica=partition.preferred_read_replica,
        records=partition.records,
        tags=tags if version >= FLEXIBLE_FROM else b"\0",
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_bytes_are_those_of_the_compiled_writer(version: int) -> None:
    @settings(max_examples=30, deadline=None)
    @given(messages(FetchResponse, version))
    def check(message: FetchResponse) -> None:
        by_hand = written(message, version)
        assert by_hand == encode(message, version)

    check()


def one_partition(version: int, records: memoryview | None) -> list[bytes | bytearray | memoryview]:
    writer = FetchWriter(version, topic_count=1)
    writer.topic(bytes(16) if version >= TOPIC_IDS_FROM else "t", partition_count=1)
    writer.partition(0, high_watermark=5, records=records)
    return writer.finish()


@pytest.mark.parametrize("version", VERSIONS)
def test_records_are_parts_of_their_own_and_not_copied(version: int) -> None:
    assert any(part is LARGE for part in one_partition(version, LARGE))


def test_a_response_without_records_is_one_part() -> None:
    assert len(one_partition(12, None)) == 1


def test_a_name_is_refused_where_an_id_belongs() -> None:
    writer = FetchWriter(13, topic_count=1)
    with pytest.raises(EncodeError):
        writer.topic("sixteen-letters!", partition_count=1)


def test_an_id_is_refused_where_a_name_belongs() -> None:
    writer = FetchWriter(12, topic_count=1)
    with pytest.raises(EncodeError):
        writer.topic(bytes(16), partition_count=1)


@pytest.mark.parametrize("version", [-1, 3, 19])
def test_unknown_versions_are_refused(version: int) -> None:
    with pytest.raises(UnsupportedVersion) as caught:
        FetchWriter(version, topic_count=0)
    assert caught.value.api_key == 1


def id_or_name(version: int) -> str | bytes:
    return bytes(16) if version >= TOPIC_IDS_FROM else "t"


@pytest.mark.parametrize("version", VERSIONS)
def test_topics_and_partitions_must_be_as_many_as_were_announced(version: int) -> None:
    writer = FetchWriter(version, topic_count=1)
    with pytest.raises(EncodeError, match="1 topics were announced and not written"):
        writer.finish()
    with pytest.raises(EncodeError, match="partition 3 was not announced"):
        writer.partition(3, high_watermark=5)
    writer = FetchWriter(version, topic_count=2)
    writer.topic(id_or_name(version), partition_count=2)
    writer.partition(0, high_watermark=5)
    for early in (writer.finish, lambda: writer.topic(id_or_name(version), partition_count=0)):
        with pytest.raises(EncodeError, match="1 partitions of a topic were announced"):
            early()
    writer.partition(1, high_watermark=5)
    with pytest.raises(EncodeError, match="partition 2 was not announced"):
        writer.partition(2, high_watermark=5)
    writer = FetchWriter(version, topic_count=0)
    with pytest.raises(EncodeError, match="more topics"):
        writer.topic(id_or_name(version), partition_count=0)


@pytest.mark.parametrize("version", VERSIONS)
def test_negative_counts_are_refused(version: int) -> None:
    with pytest.raises(EncodeError):
        FetchWriter(version, topic_count=-1)
    with pytest.raises(EncodeError):
        FetchWriter(version, topic_count=1).topic(id_or_name(version), partition_count=-1)


def opened(version: int) -> FetchWriter:
    writer = FetchWriter(version, topic_count=1)
    writer.topic(id_or_name(version), partition_count=1)
    return writer


def test_what_a_version_cannot_carry_is_refused_as_by_the_compiled_writer() -> None:
    with pytest.raises(EncodeError, match="v6 has no session id"):
        FetchWriter(6, topic_count=0, session_id=1)
    with pytest.raises(EncodeError, match="v10 has no preferred read replica"):
        opened(10).partition(0, high_watermark=5, preferred_read_replica=1)
    with pytest.raises(EncodeError, match="v11 has no tag section"):
        opened(11).partition(0, high_watermark=5, tags=partition_tags(current_leader=(1, 1)))
    with pytest.raises(EncodeError, match="v15 has no tag section"):
        FetchWriter(15, topic_count=0).finish(response_tags([(1, "host", 9092, None)]))
    # Ignorable by the schema: left out.
    opened(4).partition(0, high_watermark=5, log_start_offset=3)
    FetchWriter(6, topic_count=0, error_code=1)


@pytest.mark.parametrize("version", [4, 11, 12, 18])
def test_values_that_do_not_fit_raise_our_own_error(version: int) -> None:
    with pytest.raises(EncodeError):
        FetchWriter(version, topic_count=0, throttle_time_ms=2**31)
    for high_watermark, error_code in ((2**63, 0), (0, 2**15)):
        with pytest.raises(EncodeError):
            opened(version).partition(0, high_watermark=high_watermark, error_code=error_code)
    for aborted in ([(2**63, 0)], [(1,)]):
        with pytest.raises(EncodeError):
            opened(version).partition(0, high_watermark=1, aborted=aborted)  # type: ignore[arg-type]  # wrong on purpose
    if version < TOPIC_IDS_FROM:
        with pytest.raises(EncodeError, match="surrogates"):
            FetchWriter(version, topic_count=1).topic("\ud800", partition_count=1)


UNWRITABLE_TAGS: dict[str, Callable[[], bytes]] = {
    "a leader id of 33 bits": lambda: partition_tags(current_leader=(2**31, 1)),
    "an end offset of 65 bits": lambda: partition_tags(diverging_epoch=(1, 2**63)),
    "a host that is no text": lambda: response_tags([(1, "\ud800", 9092, None)]),
    "an endless host": lambda: response_tags([(1, "h" * 40_000, 9092, None)]),
    "a port of 33 bits": lambda: response_tags([(1, "h", 2**31, "rack")]),
}


@pytest.mark.parametrize("name", UNWRITABLE_TAGS)
def test_tags_that_do_not_fit_raise_our_own_error(name: str) -> None:
    with pytest.raises(EncodeError):
        UNWRITABLE_TAGS[name]()
