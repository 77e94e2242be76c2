"""The short road of the Fetch response writes what the long one does, byte for byte."""

import pytest

from tierlog.types import Bytes
from tierlog.wire.fetch import FLEXIBLE_FROM, FetchWriter
from tierlog.wire.fetched import fetched_writer
from tierlog.wire.header import framed_response


@pytest.mark.parametrize("version", range(4, 19))
@pytest.mark.parametrize("name", ["t", "a" * 126, "a" * 127, "a" * 249])
@pytest.mark.parametrize("size", [1, 126, 127, 70_000])
@pytest.mark.parametrize("lists_aborted", [True, False])
def test_equals_the_writer(version: int, name: str, size: int, lists_aborted: bool) -> None:
    topic = bytes(range(16)) if version >= 13 else name
    records = memoryview(bytes(range(256)) * 300)[:size]
    made = fetched_writer(version, topic, 5, lists_aborted)(77, 2**40 + 7, 99, records, b"")
    writer = FetchWriter(version, topic_count=1)
    writer.topic(topic, partition_count=1)
    writer.partition(
        5,
        high_watermark=2**40 + 7,
        last_stable_offset=2**40 + 7,
        log_start_offset=99,
        aborted=[] if lists_aborted else None,
        records=records,
    )
    flexible = version >= FLEXIBLE_FROM
    expected = framed_response(writer.finish(), correlation_id=77, flexible=flexible)
    assert b"".join(made) == b"".join(expected)


@pytest.mark.parametrize("version", [4, 11, 12, 18])
def test_the_records_are_not_copied(version: int) -> None:
    topic = bytes(16) if version >= 13 else "t"
    records = memoryview(bytes(1000))
    assert fetched_writer(version, topic, 0, False)(1, 9, 0, records, b"")[1] is records


@pytest.mark.parametrize("version", range(4, 19))
@pytest.mark.parametrize("border", [1, 500, 999])
def test_records_in_two_buffers_are_sent_as_if_they_were_one(version: int, border: int) -> None:
    topic = bytes(16) if version >= 13 else "t"
    whole = memoryview(bytes(range(250)) * 4)
    first, second = whole[:border], whole[border:]
    write = fetched_writer(version, topic, 0, False)
    made = write(1, 9, 0, first, second)
    assert b"".join(made) == b"".join(write(1, 9, 0, whole, b""))
    assert made[1] is first
    assert made[2] is second
    assert b"".join(written(version, topic, first, second)) == b"".join(
        written(version, topic, whole, b"")
    )


def written(version: int, topic: str | bytes, records: Bytes, more: Bytes) -> list[Bytes]:
    writer = FetchWriter(version, topic_count=1)
    writer.topic(topic, partition_count=1)
    writer.partition(0, high_watermark=9, records=records, more=more)
    return writer.finish()
