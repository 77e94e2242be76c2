"""The records of the group state are Kafka's own, byte for byte."""

import pytest

from tierlog.groups.formats import (
    GroupKey,
    GroupValue,
    MemberValue,
    OffsetKey,
    OffsetValue,
    StateRecord,
    UnknownKey,
    decode_record,
    encode_key,
    encode_value,
)

OFFSET = StateRecord(
    OffsetKey(group="g", topic="t", partition=3),
    OffsetValue(offset=7, leader_epoch=2, metadata="m", commit_timestamp=5),
)
GROUP = StateRecord(
    GroupKey(group="g"),
    GroupValue(
        protocol_type="consumer",
        generation=4,
        protocol="range",
        leader="m1",
        current_state_timestamp=9,
        members=[
            MemberValue(
                member_id="m1",
                group_instance_id=None,
                client_id="c",
                client_host="/h",
                rebalance_timeout=60,
                session_timeout=10,
                subscription=b"s",
                assignment=b"a",
            )
        ],
    ),
)


@pytest.mark.parametrize("record", [OFFSET, GROUP])
def test_what_is_written_is_read(record: StateRecord) -> None:
    key, value = record
    assert value is not None
    assert decode_record(encode_key(key), encode_value(value)) == record
    assert decode_record(encode_key(key), None) == StateRecord(key, None)


def test_the_bytes_are_those_of_kafka() -> None:
    key, value = OFFSET
    assert value is not None
    assert encode_key(key).hex() == "000100016700017400000003"
    assert encode_value(value).hex() == ("000300000000000000070000000200016d0000000000000005")
    assert encode_key(GROUP.key).hex() == "0002000167"


def test_an_offset_with_its_topics_id_is_written_as_kafka_does_since_4_1() -> None:
    """Version 4, flexible, with the id as tag 0 (KAFKA-19141)."""
    value = OffsetValue(
        offset=7, leader_epoch=2, metadata="m", commit_timestamp=5, topic_id=bytes(range(16))
    )
    assert encode_value(value).hex() == (
        "0004000000000000000700000002026d0000000000000005010010000102030405060708090a0b0c0d0e0f"
    )
    assert decode_record(encode_key(OFFSET.key), encode_value(value)).value == value


def test_an_offset_of_an_older_kafka_is_read() -> None:
    key = bytes.fromhex("000000016700017400000003")
    value = bytes.fromhex("00010000000000000007000000000000000000050000000000000006")
    found = decode_record(key, value).value
    assert isinstance(found, OffsetValue)
    assert (found.offset, found.leader_epoch, found.commit_timestamp) == (7, -1, 5)


@pytest.mark.parametrize(("key", "value"), [("0009aa", None), ("0002000167", "0063")])
def test_what_a_newer_node_wrote_is_told_apart(key: str, value: str | None) -> None:
    with pytest.raises(UnknownKey):
        decode_record(bytes.fromhex(key), None if value is None else bytes.fromhex(value))
