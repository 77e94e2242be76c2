"""Scanning a segment: what is gathered is right, and what is unsound is refused."""

from hashlib import sha256
from itertools import pairwise

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from tests.cold.segments import KEY, Segment, a_segment, new_scan, scanned
from tests.hot.support import batch
from tierlog.cold import merkle
from tierlog.cold.entry_codec import SAMPLES_MAX
from tierlog.cold.errors import SegmentUnsound
from tierlog.cold.segment_object import GAPS_MAX, parse_tail
from tierlog.hot.epochs import EpochStart
from tierlog.records.attributes import Codec
from tierlog.records.batch import patch_offset
from tierlog.records.header import parse_header
from tierlog.types import LeaderEpoch, Offset

SEGMENT = a_segment()


def test_the_entry_describes_the_object() -> None:
    tail = scanned(SEGMENT)
    entry, whole = tail.entry, SEGMENT.data + tail.data
    assert (entry.key, entry.base, entry.last) == (KEY, SEGMENT.base, SEGMENT.last)
    assert entry.size == len(whole)
    assert entry.sha256 == sha256(whole).hexdigest()
    assert entry.crc32c == crc32c(whole)
    assert entry.data_bytes == len(SEGMENT.data)
    assert entry.batches == 20
    assert entry.records == SEGMENT.last - SEGMENT.base + 1
    assert entry.max_append_ms == 1_800_000_000_000
    assert entry.chain == ""


def test_times_are_those_of_the_batches() -> None:
    entry = scanned(SEGMENT).entry
    headers = [parse_header(SEGMENT.data, position) for position in SEGMENT.positions]
    assert entry.min_timestamp == min(header.base_timestamp for header in headers)
    assert entry.max_timestamp == max(header.max_timestamp for header in headers)
    assert entry.max_timestamp_offset == headers[-1].last_offset


def test_the_merkle_root_is_over_the_batches_as_stored() -> None:
    bounds = (*SEGMENT.positions, len(SEGMENT.data))
    batches = [SEGMENT.data[start:end] for start, end in pairwise(bounds)]
    hashes = b"".join(merkle.leaf_hash(one) for one in batches)
    assert scanned(SEGMENT).entry.merkle_root == merkle.root(hashes).hex()


def test_samples_are_few_and_name_batches() -> None:
    long = a_segment(500)
    entry = scanned(long).entry
    assert 12 <= len(entry.samples) <= SAMPLES_MAX
    assert entry.samples[0] == (long.base, 0)
    for offset, position in entry.samples:
        assert position in long.positions
        assert parse_header(long.data, position).base_offset == offset


@given(st.integers(1, 200), st.sampled_from(Codec))
def test_it_does_not_matter_how_the_bytes_are_cut(piece: int, codec: Codec) -> None:
    segment = a_segment(6, codec=codec)
    assert scanned(segment, piece=piece) == scanned(segment)


def test_codecs_are_noted_by_name() -> None:
    assert scanned(a_segment(2, codec=Codec.ZSTD)).entry.codecs == ("zstd",)
    assert scanned(SEGMENT).entry.codecs == ("none",)


# Leader epochs


def test_leader_epochs_are_noted_where_they_begin() -> None:
    segment = a_segment(4, epochs=(3, 5))
    start = parse_header(segment.data, segment.positions[2]).base_offset
    assert scanned(segment).entry.leader_epochs == (
        EpochStart(LeaderEpoch(3), segment.base),
        EpochStart(LeaderEpoch(5), start),
    )


def lineage_of(*starts: tuple[int, int]) -> list[EpochStart]:
    return [EpochStart(LeaderEpoch(epoch), Offset(start)) for epoch, start in starts]


def test_the_lineage_says_where_the_first_epoch_began() -> None:
    segment = a_segment(4, epochs=(3, 5))
    start = parse_header(segment.data, segment.positions[2]).base_offset
    known = lineage_of((1, 0), (3, 900), (5, start), (6, segment.last + 1))
    assert scanned(segment, lineage=known).entry.leader_epochs == tuple(known[1:3])


def test_epochs_that_the_lineage_does_not_have_are_refused() -> None:
    for known in ([(2, 0)], [(4, 1001)], [(3, 0), (4, 1005)], [(3, 1001), (4, 1005)]):
        with pytest.raises(SegmentUnsound, match="leader epochs"):
            scanned(SEGMENT, lineage=lineage_of(*known))


def test_a_lineage_trimmed_to_the_inside_of_the_segment_agrees() -> None:
    entry = scanned(SEGMENT, lineage=lineage_of((3, 1003), (9, SEGMENT.last + 1))).entry
    assert entry.leader_epochs == (EpochStart(LeaderEpoch(3), SEGMENT.base),)


def test_an_epoch_that_goes_back_is_refused() -> None:
    with pytest.raises(SegmentUnsound, match="comes after 5"):
        scanned(a_segment(4, epochs=(5, 3)))


# What is unsound


@given(st.data())
def test_a_flipped_bit_does_not_get_a_fresh_hash(data: st.DataObject) -> None:
    position = data.draw(st.integers(0, len(SEGMENT.data) - 1))
    start = max(one for one in SEGMENT.positions if one <= position)
    damaged = bytearray(SEGMENT.data)
    damaged[position] ^= 1 << data.draw(st.integers(0, 7))
    # Against the lineage: the leader epoch lies outside the CRC.
    with pytest.raises(SegmentUnsound) as caught:
        scanned(SEGMENT._replace(data=bytes(damaged)), piece=300, lineage=lineage_of((3, 0)))
    assert caught.value.position >= start


def test_a_segment_that_is_cut_short_is_refused() -> None:
    for end in (SEGMENT.positions[-1], SEGMENT.positions[-1] + 5, len(SEGMENT.data) - 1):
        short = SEGMENT._replace(data=SEGMENT.data[:end])
        with pytest.raises(SegmentUnsound):
            scanned(short, size=len(SEGMENT.data))
        with pytest.raises(SegmentUnsound):
            scanned(short)


def test_a_segment_with_other_offsets_than_expected_is_refused() -> None:
    for base in (999, 1001):
        with pytest.raises(SegmentUnsound, match="expected"):
            scanned(SEGMENT, base=Offset(base))
    with pytest.raises(SegmentUnsound, match="ends at offset"):
        scanned(SEGMENT, last=Offset(SEGMENT.last + 1))


def test_an_empty_segment_is_refused() -> None:
    with pytest.raises(SegmentUnsound):
        new_scan(SEGMENT._replace(data=b"")).finish(key=KEY, producers=b"", max_append_ms=1)


def with_a_hole() -> tuple[bytes, Offset]:
    late = batch(b"behind the hole")
    patch_offset(late, Offset(SEGMENT.last + 11), LeaderEpoch(3))
    return SEGMENT.data + late, Offset(SEGMENT.last + 11)


def test_a_hole_is_refused_unless_it_is_accounted_for() -> None:
    data, last = with_a_hole()
    holed = SEGMENT._replace(data=data, last=last)
    with pytest.raises(SegmentUnsound, match="expected"):
        scanned(holed)
    with pytest.raises(SegmentUnsound, match="expected"):
        scanned(holed, gaps=[(SEGMENT.last + 1, last - 1)])
    assert scanned(holed, gaps=[(SEGMENT.last + 1, last)]).entry.last == last


def without(segment: Segment, *gone: int) -> Segment:
    """As a cleaning leaves it that took these batches."""
    bounds = [*pairwise((*segment.positions, len(segment.data)))]
    kept = [bounds[number] for number in range(len(bounds)) if number not in gone]
    data = b"".join(segment.data[start:end] for start, end in kept)
    return segment._replace(data=data)


def test_gaps_that_a_cleaning_left_are_noted_and_make_the_same_object_again() -> None:
    cleaned = without(SEGMENT, 0, 1, 7)
    with pytest.raises(SegmentUnsound, match="expected 1000"):
        scanned(cleaned)
    tail = scanned(cleaned, gaps=None)
    starts = [parse_header(SEGMENT.data, SEGMENT.positions[each]) for each in (2, 7, 8)]
    gaps = [(1000, starts[0].base_offset), (starts[1].base_offset, starts[2].base_offset)]
    size = len(cleaned.data) + len(tail.data)
    assert parse_tail(tail.data, object_size=size, key=KEY).gaps == tuple(gaps)
    assert tail.entry.samples[0] == (1000, 0)
    assert scanned(cleaned, gaps=gaps) == tail
    # What goes back is damage, whatever a log was.
    with pytest.raises(SegmentUnsound, match="expected"):
        scanned(SEGMENT._replace(data=SEGMENT.data + SEGMENT.data), gaps=None)


def test_more_gaps_than_a_footer_has_room_for_are_refused() -> None:
    long = a_segment(2 * GAPS_MAX + 5, value=b"")
    with pytest.raises(SegmentUnsound, match="expected"):
        scanned(without(long, *range(1, 2 * GAPS_MAX + 4, 2)), gaps=None)
    assert scanned(without(long, *range(1, 2 * GAPS_MAX, 2)), gaps=None).entry.last == long.last


def test_leader_epochs_may_begin_in_a_gap_and_be_gone_with_their_batches() -> None:
    segment = a_segment(6, epochs=(3, 5, 6))
    second, third = (parse_header(segment.data, segment.positions[each]) for each in (2, 4))
    known = lineage_of((3, 900), (5, second.base_offset), (6, third.base_offset))
    entry = scanned(without(segment, 2), gaps=None, lineage=known).entry
    assert entry.leader_epochs == tuple(known)
    entry = scanned(without(segment, 0, 1, 2), gaps=None, lineage=known).entry
    assert entry.leader_epochs == tuple(known[1:])
    entry = scanned(without(segment, 2, 3), gaps=None, lineage=known).entry
    assert entry.leader_epochs == (known[0], known[2])
    known[1:2] = lineage_of((5, second.base_offset - 1))
    with pytest.raises(SegmentUnsound, match="leader epochs"):
        scanned(without(segment, 2), gaps=None, lineage=known)


def test_a_length_beyond_all_measure_is_refused_before_it_is_waited_for() -> None:
    damaged = bytearray(SEGMENT.data)
    damaged[8:12] = (2**31 - 1).to_bytes(4, "big")
    for piece in (10, 1 << 20):
        with pytest.raises(SegmentUnsound):
            scanned(SEGMENT._replace(data=bytes(damaged)), piece=piece)
