"""The records of consumer groups, byte for byte as the classes of Kafka 4.3.0's group coordinator
write them: golden bytes made by these."""

import pytest

from tierlog.groups.consumer_formats import (
    ClassicProtocol,
    ClassicSide,
    CurrentKey,
    CurrentTopic,
    CurrentValue,
    EpochKey,
    EpochValue,
    KnownPartition,
    KnownTopic,
    PartitionsKey,
    PartitionsValue,
    SubscriberKey,
    SubscriberValue,
    TargetEpochKey,
    TargetEpochValue,
    TargetKey,
    TargetTopic,
    TargetValue,
)
from tierlog.groups.consumer_member import (
    ConsumerMember,
    MemberState,
    current_value,
    subscriber_value,
    target_spots,
    target_value,
    with_current,
    with_subscriber,
)
from tierlog.groups.formats import StateRecord, decode_record, encode_key, encode_value

T = bytes(range(1, 17))
ID = "0102030405060708090a0b0c0d0e0f10"

SUBSCRIBER = SubscriberValue(
    instance_id=None,
    rack_id="r",
    client_id="c",
    client_host="/h",
    topics=["t", "u"],
    regex="x.*",
    rebalance_timeout_ms=60,
    assignor="range",
)
CLASSIC = SubscriberValue(
    instance_id="i",
    rack_id=None,
    client_id="c",
    client_host="/h",
    topics=[],
    regex=None,
    rebalance_timeout_ms=60,
    assignor=None,
    classic=ClassicSide(
        session_timeout_ms=10, protocols=[ClassicProtocol(name="range", metadata=b"\1\2")]
    ),
)
CURRENT = CurrentValue(
    epoch=6,
    previous_epoch=5,
    state=MemberState.UNREVOKED,
    assigned=[CurrentTopic(topic_id=T, partitions=[0, 2], assignment_epochs=[5, 6])],
    revoking=[CurrentTopic(topic_id=T, partitions=[1], assignment_epochs=[4])],
)
TARGET = TargetValue(topics=[TargetTopic(topic_id=T, partitions=[0, 2])])
PARTITIONS = PartitionsValue(
    topics=[
        KnownTopic(
            topic_id=T,
            name="t",
            partition_count=2,
            partitions=[KnownPartition(partition=1, racks=["r"])],
        )
    ]
)

EPOCH_KEY = EpochKey(group="g")
SUBSCRIBER_KEY = SubscriberKey(group="g", member_id="m")
TARGET_EPOCH_KEY = TargetEpochKey(group="g")

GOLDEN = [
    (EPOCH_KEY, "0003000167", EpochValue(epoch=5), "00000000000500"),
    (
        EPOCH_KEY,
        "0003000167",
        EpochValue(epoch=5, metadata_hash=-2),
        "000000000005010008fffffffffffffffe",
    ),
    (
        PartitionsKey(group="g"),
        "0004000167",
        PARTITIONS,
        f"000002{ID}0274000000020200000001020272000000",
    ),
    (
        SUBSCRIBER_KEY,
        "000500016700016d",
        SUBSCRIBER,
        "00000002720263032f68030274027504782e2a0000003c0672616e676500",
    ),
    (
        SUBSCRIBER_KEY,
        "000500016700016d",
        CLASSIC,
        "00000269000263032f6801000000003c00010011010000000a020672616e67650301020000",
    ),
    (TARGET_EPOCH_KEY, "0006000167", TargetEpochValue(epoch=5), "00000000000500"),
    (
        TARGET_EPOCH_KEY,
        "0006000167",
        TargetEpochValue(epoch=5, made_ms=9),
        "0000000000050100080000000000000009",
    ),
    (
        TargetKey(group="g", member_id="m"),
        "000700016700016d",
        TARGET,
        f"000002{ID}0300000000000000020000",
    ),
    (
        CurrentKey(group="g", member_id="m"),
        "000800016700016d",
        CURRENT,
        f"000000000006000000050102{ID}03000000000000000201000903000000050000000602{ID}"
        "0200000001010005020000000400",
    ),
]


@pytest.mark.parametrize(
    ("key", "key_bytes", "value", "value_bytes"),
    GOLDEN,
    ids=[f"{type(one[0]).__name__}-{len(one[3])}" for one in GOLDEN],
)
def test_the_bytes_are_those_of_kafka(
    key: EpochKey, key_bytes: str, value: EpochValue, value_bytes: str
) -> None:
    assert encode_key(key).hex() == key_bytes
    assert encode_value(value).hex() == value_bytes
    found = decode_record(bytes.fromhex(key_bytes), bytes.fromhex(value_bytes))
    assert found == StateRecord(key, value)
    assert decode_record(bytes.fromhex(key_bytes), None) == StateRecord(key, None)


def test_what_a_member_has_is_written_and_read() -> None:
    member = with_current(with_subscriber(ConsumerMember(id="m"), SUBSCRIBER), CURRENT)
    assert member.assigned == {(T, 0): 5, (T, 2): 6}
    assert member.revoking == {(T, 1): 4}
    assert member.state is MemberState.UNREVOKED
    assert subscriber_value(member) == SUBSCRIBER
    assert current_value(member) == CURRENT
    assert target_value(target_spots(TARGET)) == TARGET


def test_a_node_before_kafka_4_3_did_not_write_since_when() -> None:
    plain = f"000000000006000000050102{ID}0300000000000000020002{ID}02000000010000"
    key = encode_key(CurrentKey(group="g", member_id="m"))
    found = decode_record(key, bytes.fromhex(plain)).value
    assert isinstance(found, CurrentValue)
    member = with_current(ConsumerMember(id="m"), found)
    assert member.assigned == {(T, 0): 6, (T, 2): 6}


def test_a_state_that_is_not_known_is_told_apart() -> None:
    strange = CurrentValue(epoch=1, previous_epoch=0, state=9, assigned=[], revoking=[])
    assert with_current(ConsumerMember(id="m"), strange).state is MemberState.UNKNOWN
