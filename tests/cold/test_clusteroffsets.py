"""OFFSETS as bytes, and which offsets of groups a restore brings back."""

import json

import pytest

from tests.cold import golden
from tests.cold.publishing import CLUSTER, SECOND_LIFE, TOPIC_ID
from tierlog.cold import canonical
from tierlog.cold.clusteroffsets import (
    ClusterOffsets,
    GroupOffset,
    Spot,
    decode_offsets,
    encode_offsets,
)
from tierlog.cold.errors import ColdCorrupt, NewerFormat
from tierlog.cold.head import Writer
from tierlog.cold.regrouping import SetBack, regroup
from tierlog.cold.report import Outcome, PartitionReport
from tierlog.types import LeaderEpoch, Offset

GONE = "f" * 32
OFFSETS = ClusterOffsets(
    version=7,
    nonce="0" * 32,
    cluster_id=CLUSTER,
    incarnation=SECOND_LIFE,
    writer=Writer(LeaderEpoch(3), "a process"),
    written_ms=1_700_000_000_000,
    groups={
        "billing": {
            Spot(TOPIC_ID, 0): GroupOffset(Offset(100), 2, "by hand", 1_699_999_999_000),
            Spot(TOPIC_ID, 1): GroupOffset(Offset(7), -1, "", 1_699_999_998_000),
        },
        "": {Spot(GONE, 2): GroupOffset(Offset(0), 0, "ä", 1)},
    },
)


def changed(**members: object) -> bytes:
    plain = canonical.decompress(encode_offsets(OFFSETS), key="OFFSETS", size_max=1 << 20)
    return canonical.compress(canonical.to_bytes({**json.loads(plain), **members}))


def test_offsets_come_back_as_they_were() -> None:
    assert decode_offsets(encode_offsets(OFFSETS)) == OFFSETS


def test_offsets_are_written_as_they_always_were() -> None:
    assert golden.plain(encode_offsets(OFFSETS)) == golden.kept_plain("OFFSETS.hex")


def test_offsets_of_an_earlier_day_are_read() -> None:
    assert decode_offsets(golden.kept("OFFSETS.hex")) == OFFSETS


def test_newer_offsets_are_refused() -> None:
    with pytest.raises(NewerFormat):
        decode_offsets(changed(format=2))


ROW = {"topic_id": TOPIC_ID, "partition": 0, "offset": 1, "committed_ms": 1}


@pytest.mark.parametrize(
    "members",
    [
        {"kind": "state"},
        {"version": -1},
        {"something": "new"},
        {"groups": 5},
        {"groups": [{"group": "g", "offsets": [{**ROW, "offset": -1}]}]},
        {"groups": [{"group": "g", "offsets": [{**ROW, "partition": "0"}]}]},
        {"groups": [{"group": "g", "offsets": [{**ROW, "topic_id": "../x"}]}]},
        {"groups": [{"group": "g", "offsets": [{**ROW, "more": 1}]}]},
        {"incarnation": {"number": 0, "id": "x"}},
        {"writer": {"leader_epoch": -1, "process": "x"}},
    ],
)
def test_offsets_that_make_no_sense_are_refused(members: dict[str, object]) -> None:
    with pytest.raises(ColdCorrupt):
        decode_offsets(changed(**members))


def back(partition: int, *, end: int, start: int = 0) -> PartitionReport:
    return PartitionReport(
        topic="orders",
        topic_id=TOPIC_ID,
        partition=partition,
        outcome=Outcome.RESTORED,
        leader_epoch=LeaderEpoch(4),
        log_start=Offset(start),
        next_offset=Offset(end),
    )


def test_an_offset_behind_what_was_restored_is_set_back_and_told() -> None:
    found = regroup(OFFSETS.groups, [back(0, end=60), back(1, end=7)])
    assert found.groups == {
        "billing": {
            # The epoch was that of records that are gone.
            Spot(TOPIC_ID, 0): GroupOffset(Offset(60), -1, "by hand", 1_699_999_999_000),
            Spot(TOPIC_ID, 1): OFFSETS.groups["billing"][Spot(TOPIC_ID, 1)],
        }
    }
    nameless, billing = found.reports
    assert (billing.group, billing.offsets, billing.gone) == ("billing", 2, 0)
    assert billing.set_back == (SetBack("orders", 0, Offset(100), Offset(60)),)
    assert (nameless.offsets, nameless.gone) == (0, 1)


def test_an_offset_before_what_was_restored_is_left_alone() -> None:
    found = regroup(OFFSETS.groups, [back(0, start=500, end=600)])
    assert found.groups["billing"] == {
        Spot(TOPIC_ID, 0): OFFSETS.groups["billing"][Spot(TOPIC_ID, 0)]
    }
    assert not found.reports[1].set_back
