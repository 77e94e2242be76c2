"""STATE and format.json as bytes."""

import json

import pytest

from tests.cold import golden
from tests.cold.publishing import CLUSTER, FIRST_LIFE, SECOND_LIFE, TOPIC_ID
from tierlog.cold import canonical
from tierlog.cold.clusterstate import (
    ClusterState,
    DeletedTopic,
    Life,
    TopicRecord,
    decode_format,
    decode_state,
    encode_format,
    encode_state,
)
from tierlog.cold.errors import ColdCorrupt, NewerFormat

STATE = ClusterState(
    version=7,
    nonce="0" * 32,
    cluster_id=CLUSTER,
    lineage=(Life(FIRST_LIFE, 1000, "serve"), Life(SECOND_LIFE, 2000, "restore")),
    topics={TOPIC_ID: TopicRecord(name="orders", partitions=3, configs={"segment.bytes": "1000"})},
    deleted={"f" * 32: DeletedTopic(name="gone", partitions=1, deleted_ms=1500)},
)


def changed(**members: object) -> bytes:
    plain = canonical.decompress(encode_state(STATE), key="STATE", size_max=1 << 20)
    return canonical.compress(canonical.to_bytes({**json.loads(plain), **members}))


def test_state_comes_back_as_it_was() -> None:
    assert decode_state(encode_state(STATE)) == STATE


def test_the_last_life_is_the_one_that_writes() -> None:
    assert STATE.incarnation == SECOND_LIFE
    assert STATE.ancestors == (FIRST_LIFE,)


def test_a_newer_state_is_refused() -> None:
    with pytest.raises(NewerFormat):
        decode_state(changed(format=2))


@pytest.mark.parametrize(
    "members",
    [
        {"lineage": []},
        {"lineage": [{"number": 2, "id": "x", "begun_ms": 0, "by": "serve"}] * 2},
        {"topics": [{"id": "../" * 10 + "ab", "name": "x", "partitions": 1, "configs": []}]},
        {"topics": [{"id": TOPIC_ID, "name": "x", "partitions": 0, "configs": []}]},
        {"topics": 5},
        {"version": -1},
        {"kind": "head"},
        {"something": "new"},
    ],
)
def test_a_state_that_makes_no_sense_is_refused(members: dict[str, object]) -> None:
    with pytest.raises(ColdCorrupt):
        decode_state(changed(**members))


def test_a_state_that_is_cut_short_is_refused() -> None:
    with pytest.raises(ColdCorrupt):
        decode_state(encode_state(STATE)[:-1])


def test_format_json_is_readable_as_it_is() -> None:
    assert json.loads(encode_format(CLUSTER)) == {"cluster_id": CLUSTER, "format": 1}
    assert decode_format(encode_format(CLUSTER)) == CLUSTER


def test_a_newer_format_json_is_refused() -> None:
    with pytest.raises(NewerFormat):
        decode_format(b'{"format":9,"cluster_id":"x"}')


def test_a_state_is_written_as_it_always_was() -> None:
    assert golden.plain(encode_state(STATE)) == golden.kept_plain("STATE.hex")


def test_a_state_of_an_earlier_day_is_read() -> None:
    assert decode_state(golden.kept("STATE.hex")) == STATE
