"""Keys: what they look like, and what can be read from them."""

from hypothesis import given
from hypothesis import strategies as st

from tierlog.cold.layout import (
    OFFSET_MAX,
    PageName,
    PartitionKeys,
    SegmentName,
    cluster_prefix,
    page_key,
    parse_page_key,
    parse_segment_key,
    segment_key,
)
from tierlog.types import LeaderEpoch, Offset

KEYS = PartitionKeys(cluster_prefix("/some/prefix/", "c1"), "topic-id", 7)
attempts = st.integers(0, 2**64 - 1)
offsets = st.integers(0, OFFSET_MAX)


def test_keys_are_those_of_the_documented_layout() -> None:
    assert KEYS.head == "some/prefix/c1/t/topic-id/7/HEAD"
    assert KEYS.table == "some/prefix/c1/t/topic-id/7/TABLE"
    assert KEYS.page(first=Offset(5), attempt=255) == (
        "some/prefix/c1/t/topic-id/7/page/00000000000000000005-00000000000000ff.json.gz"
    )
    assert KEYS.segment(
        base=Offset(5), last=Offset(9), leader_epoch=LeaderEpoch(3), node=1, attempt=1 << 60
    ) == (
        "some/prefix/c1/t/topic-id/7/seg/"
        "00000000000000000005-00000000000000000009-e00000003-n00001-1000000000000000.seg"
    )


def test_a_cluster_without_a_prefix_lies_at_the_root_of_the_store() -> None:
    assert cluster_prefix("", "c1") == "c1/"


@given(offsets, offsets, st.integers(0, 2**31 - 1), st.integers(0, 2**31 - 1), attempts)
def test_a_segment_key_says_what_it_was_made_of(
    one: int, two: int, epoch: int, node: int, attempt: int
) -> None:
    base, last = Offset(min(one, two)), Offset(max(one, two))
    key = segment_key(
        base=base, last=last, leader_epoch=LeaderEpoch(epoch), node=node, attempt=attempt
    )
    assert parse_segment_key(key) == SegmentName(base, last, LeaderEpoch(epoch), node, attempt)


@given(offsets, attempts)
def test_a_page_key_says_what_it_was_made_of(first: int, attempt: int) -> None:
    key = page_key(first=Offset(first), attempt=attempt)
    assert parse_page_key(key) == PageName(Offset(first), attempt)


def test_what_is_no_such_key_is_not_taken_for_one() -> None:
    good = segment_key(
        base=Offset(5), last=Offset(9), leader_epoch=LeaderEpoch(3), node=1, attempt=1
    )
    assert parse_segment_key(good)
    nines = "9" * 20
    for bad in ("", "HEAD", good + "x", good.upper(), good.replace("05-", f"{nines}-", 1)):
        assert parse_segment_key(bad) is None
    assert parse_segment_key(good.replace("9-e", "4-e")) is None, "ends before it begins"
    assert parse_page_key(good) is None
    assert parse_page_key(f"page/{nines}-{0:016x}.json.gz") is None


def test_a_key_of_another_partition_is_not_relative_to_this_one() -> None:
    assert KEYS.relative(KEYS.full("seg/x")) == "seg/x"
    assert KEYS.relative("some/prefix/c1/t/topic-id/77/seg/x") is None
