"""The object's end: footers come back, and what is none is refused."""

import json
from struct import pack

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from tests.cold.segments import KEY, PRODUCERS, a_segment, scanned
from tierlog.cold import segment_object
from tierlog.cold.errors import ColdCorrupt, NewerFormat, TailCut
from tierlog.cold.segment_object import BLOCK_BYTES, MAGIC, parse_tail
from tierlog.hot.epochs import EpochStart
from tierlog.records.header import parse_header
from tierlog.types import LeaderEpoch, Offset, TimestampMs

SEGMENT = a_segment(40, epochs=(3, 4))
START_OF_4 = parse_header(SEGMENT.data, SEGMENT.positions[20]).base_offset
LINEAGE = (
    EpochStart(LeaderEpoch(1), Offset(0)),
    EpochStart(LeaderEpoch(3), Offset(500)),
    EpochStart(LeaderEpoch(4), START_OF_4),
)
TAIL = scanned(SEGMENT, lineage=LINEAGE)
OBJECT = SEGMENT.data + TAIL.data


def parsed(data: bytes = OBJECT) -> segment_object.Footer:
    return parse_tail(data, object_size=len(data), key=KEY)


def test_the_footer_gives_back_the_entry() -> None:
    entry = TAIL.entry
    again = parsed().entry(key=entry.key, size=entry.size, sha256=entry.sha256, crc32c=entry.crc32c)
    assert again == entry


def test_a_footer_is_found_from_the_last_bytes_alone() -> None:
    last = OBJECT[-segment_object.TAIL_BYTES :]
    assert parse_tail(last, object_size=len(OBJECT), key=KEY) == parsed()


def test_too_few_bytes_say_how_many_are_needed() -> None:
    for size in (0, 5, 100):
        with pytest.raises(TailCut) as caught:
            parse_tail(OBJECT[len(OBJECT) - size :], object_size=len(OBJECT), key=KEY)
        assert caught.value.needed > size
    enough = OBJECT[-caught.value.needed :]
    assert parse_tail(enough, object_size=len(OBJECT), key=KEY) == parsed()


def test_sections_lie_side_by_side_with_their_checksums() -> None:
    footer = parsed()
    assert tuple(one.name for one in footer.sections) == segment_object.SECTIONS
    position = footer.data_bytes
    for section in footer.sections:
        assert section.position == position
        content = OBJECT[position : position + section.size]
        segment_object.check_section(section, content, key=KEY)
        if content:
            with pytest.raises(ColdCorrupt, match=section.name):
                segment_object.check_section(section, content[:-1] + b"?", key=KEY)
        position += section.size


def content_of(name: str) -> bytes:
    section = parsed().section(name)
    assert section
    return OBJECT[section.position : section.position + section.size]


def test_producers_and_lineage_come_back() -> None:
    assert content_of("producers") == PRODUCERS
    assert segment_object.decode_epochs(content_of("leader_epochs"), key=KEY) == LINEAGE
    with pytest.raises(ColdCorrupt):
        segment_object.decode_epochs(b"x", key=KEY)


def test_the_reader_index_leads_to_every_batch() -> None:
    start, end = segment_object.reader_span(TAIL.entry)
    index = segment_object.open_reader_index(TAIL.entry, OBJECT[start:end])
    assert list(index.block_crcs) == [crc32c(SEGMENT.data)]
    assert len(index.offsets) > 3
    for position in SEGMENT.positions:
        header = parse_header(SEGMENT.data, position)
        entry = index.offsets.at_or_before(header.last_offset)
        assert entry is None or entry.position <= position
        assert entry is None or entry.position in SEGMENT.positions
    last = index.times.before(TimestampMs(2**62))
    assert last == (TAIL.entry.max_timestamp, TAIL.entry.max_timestamp_offset)


def test_a_reader_index_with_a_wrong_byte_is_refused() -> None:
    start, end = segment_object.reader_span(TAIL.entry)
    data = bytearray(OBJECT[start:end])
    data[5] ^= 1
    with pytest.raises(ColdCorrupt):
        segment_object.open_reader_index(TAIL.entry, data)
    with pytest.raises(ColdCorrupt):
        segment_object.open_reader_index(TAIL.entry, data[:-1])


def test_every_block_has_its_checksum() -> None:
    large = a_segment(70, value=b"x" * 20_000)
    tail = scanned(large, piece=300_007)
    start, end = segment_object.reader_span(tail.entry)
    whole = large.data + tail.data
    index = segment_object.open_reader_index(tail.entry, whole[start:end])
    blocks = [large.data[at : at + BLOCK_BYTES] for at in range(0, len(large.data), BLOCK_BYTES)]
    assert len(blocks) == 3
    assert list(index.block_crcs) == [crc32c(block) for block in blocks]
    assert tail.entry.crc32c == crc32c(whole)


def with_footer(change: dict[str, object]) -> bytes:
    """The object with fields of its footer replaced, checksum included."""
    size = int.from_bytes(OBJECT[-16:-12], "big")
    value = json.loads(OBJECT[-16 - size : -16]) | change
    data = json.dumps(value).encode()
    return OBJECT[: -16 - size] + data + pack(">II", len(data), crc32c(data)) + MAGIC


def test_a_newer_format_is_refused() -> None:
    with pytest.raises(NewerFormat):
        parsed(with_footer({"format": 2}))


@pytest.mark.parametrize(
    "change",
    [
        {"sections": []},
        {"sections": [{"name": "x", "position": 0, "size": 1, "crc32c": 0}]},
        {"last": 1},
        {"records": "many"},
        {"samples": [[1, 2, 3]]},
        {"leader_epochs": [[4, 1], [3, 2]]},
        {"data_bytes": 2**62},
        {"merkle_root": "xyz"},
        {"extra": 1},
        {"topic": None},
    ],
)
def test_a_footer_that_makes_no_sense_is_corrupt(change: dict[str, object]) -> None:
    with pytest.raises(ColdCorrupt):
        parsed(with_footer(change))


@given(st.integers(len(SEGMENT.data), len(OBJECT) - 1), st.integers(1, 255))
def test_a_flipped_byte_of_the_tail_is_noticed(position: int, flip: int) -> None:
    data = bytearray(OBJECT)
    data[position] ^= flip
    try:
        footer = parse_tail(data, object_size=len(data), key=KEY)
    except ColdCorrupt:
        return
    (hit,) = [one for one in footer.sections if 0 <= position - one.position < one.size]
    with pytest.raises(ColdCorrupt):
        segment_object.check_section(hit, data[hit.position : hit.position + hit.size], key=KEY)


@given(st.binary(max_size=200))
def test_random_bytes_are_no_footer(data: bytes) -> None:
    with pytest.raises(ColdCorrupt):
        parse_tail(data, object_size=len(data), key=KEY)
    ended = data + pack(">II", len(data), crc32c(data)) + MAGIC
    with pytest.raises(ColdCorrupt):
        parse_tail(ended, object_size=len(ended), key=KEY)
