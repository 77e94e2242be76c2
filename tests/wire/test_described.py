"""Metadata by hand and by the schema: the same bytes."""

import pytest

from tierlog.wire.codec import encode
from tierlog.wire.described import encode_led, encode_metadata, encode_topic
from tierlog.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tierlog.wire.schema import NO_UUID

ID = bytes(range(16))


def led(count: int) -> list[MetadataResponsePartition]:
    return [
        MetadataResponsePartition(
            error_code=0,
            partition_index=index,
            leader_id=7,
            leader_epoch=index + 1,
            replica_nodes=[7],
            isr_nodes=[7],
        )
        for index in range(count)
    ]


def response(topics: list[MetadataResponseTopic]) -> MetadataResponse:
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=7, host="h", port=9092)],
        cluster_id="c",
        controller_id=7,
        topics=topics,
    )


@pytest.mark.parametrize("version", range(14))
@pytest.mark.parametrize("counts", [[], [0], [1, 3], [126, 127, 200], [1] * 130])
def test_both_ways_make_the_same_bytes(version: int, counts: list[int]) -> None:
    by_schema = response(
        [
            MetadataResponseTopic(
                error_code=0,
                name=f"t{number}" * 50,
                topic_id=ID,
                is_internal=number == 1,
                partitions=led(count),
            )
            for number, count in enumerate(counts)
        ]
        + [MetadataResponseTopic(error_code=3, name="?", topic_id=NO_UUID, partitions=[])]
    )
    parts = []
    for number, count in enumerate(counts):
        epochs = range(1, count + 1)
        some = [
            encode_led(version, 7, epochs[:100]),
            encode_led(version, 7, epochs[100:], first=100),
        ]
        parts += encode_topic(
            version,
            name=f"t{number}" * 50,
            topic_id=ID,
            is_internal=number == 1,
            partition_count=count,
            partitions=some,
        )
    parts += encode_topic(version, name="?", topic_id=NO_UUID, error_code=3)
    made = encode_metadata(response([]), version, topic_count=len(counts) + 1, topics=parts)
    assert b"".join(made) == encode(by_schema, version)


@pytest.mark.parametrize("version", [12, 13])
def test_a_topic_asked_for_by_id_may_have_no_name(version: int) -> None:
    topic = MetadataResponseTopic(error_code=100, name=None, topic_id=ID, partitions=[])
    parts = encode_topic(version, name=None, topic_id=ID, error_code=100)
    made = encode_metadata(response([]), version, topic_count=1, topics=parts)
    assert b"".join(made) == encode(response([topic]), version)
