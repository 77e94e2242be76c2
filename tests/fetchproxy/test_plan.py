import itertools
from random import Random

from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fetchproxy.support import BLOCK, CHUNK, history, make_segment
from tierlog.cold.entry import Entry
from tierlog.fetchproxy import plan, segmentindex
from tierlog.fetchproxy.segmentindex import SegmentIndex
from tierlog.objectstore.port import Span
from tierlog.records.batch import iter_batches
from tierlog.types import Offset, Position, TimestampMs

SIZES = st.lists(st.lists(st.integers(0, 600), min_size=1, max_size=4), min_size=1, max_size=30)


def indexed(sizes: list[list[int]]) -> tuple[bytes, Entry, SegmentIndex]:
    segment = history(Random(1), segment_sizes=[sizes])[0]
    data, entry = make_segment(0, segment)
    span = segmentindex.sections_span(entry)
    sections = data[span.start : span.end]
    assert segmentindex.is_sound(entry, sections)
    return data[: entry.data_bytes], entry, SegmentIndex(entry, sections, block_bytes=BLOCK)


@settings(max_examples=50)
@given(SIZES)
def test_the_place_of_an_offset_holds_its_batch_whole(sizes: list[list[int]]) -> None:
    data, entry, index = indexed(sizes)
    starts = {position for position, _ in iter_batches(data)}
    for position, header in iter_batches(data):
        for offset in range(header.base_offset, header.next_offset):
            place = plan.place_of(index, Offset(offset), data_bytes=entry.data_bytes)
            assert place.low in starts
            assert place.low <= position < position + header.size_bytes <= place.high
        known = plan.place_behind(index, Position(position), data_bytes=entry.data_bytes)
        assert known.low == position
        assert position + header.size_bytes <= known.high


@settings(max_examples=50)
@given(SIZES, st.integers(1, 5000))
def test_a_lead_is_whole_blocks_around_the_place(sizes: list[list[int]], bytes_max: int) -> None:
    _, entry, index = indexed(sizes)
    for offset in range(entry.next_offset):
        place = plan.place_of(index, Offset(offset), data_bytes=entry.data_bytes)
        span = plan.lead_span(
            place,
            bytes_max=bytes_max,
            lead_bytes=BLOCK,
            block_bytes=BLOCK,
            data_bytes=entry.data_bytes,
        )
        guess = plan.guess_span(entry, Offset(offset), block_bytes=BLOCK)
        assert span.start <= place.low
        assert place.high <= span.end
        for one in (span, guess):
            assert one.size > 0
            assert one.start % BLOCK == 0
            assert one.end % BLOCK == 0 or one.end == entry.data_bytes
        assert guess.size <= 2 * BLOCK


@given(st.integers(0, 10 * CHUNK), st.integers(1, 3 * CHUNK), st.integers(0, CHUNK))
def test_chunks_tile_the_data_part(start: int, size: int, rest: int) -> None:
    data_bytes = start + size + rest
    span = Span(Position(start), Position(start + size))
    chunks = [
        plan.chunk_span(number, chunk_bytes=CHUNK, data_bytes=data_bytes)
        for number in plan.chunk_numbers(span, chunk_bytes=CHUNK)
    ]
    assert chunks[0].start <= start < chunks[0].end
    assert chunks[-1].start < start + size <= chunks[-1].end
    assert all(one.end == two.start for one, two in itertools.pairwise(chunks))


@settings(max_examples=30)
@given(SIZES, st.integers(0), st.integers(1, 255))
def test_every_flipped_bit_is_found_in_its_block(
    sizes: list[list[int]], where: int, flip: int
) -> None:
    data, entry, index = indexed(sizes)
    span = Span(Position(0), Position(entry.data_bytes))
    assert index.bad_block(span, data) is None
    at = where % len(data)
    bad = data[:at] + bytes([data[at] ^ flip]) + data[at + 1 :]
    assert index.bad_block(span, bad) == at - at % BLOCK
    assert index.bad_block(span, data[:at]) == at
    # With checksums that somebody took before: they are what counts.
    crcs = tuple(crc32c(data[start : start + BLOCK]) for start in range(0, len(data), BLOCK))
    number = at // BLOCK
    wrong = (*crcs[:number], crcs[number] ^ 1, *crcs[number + 1 :])
    assert index.bad_block(span, data, crcs) is None
    assert index.bad_block(span, data, wrong) == at - at % BLOCK
    assert index.bad_block(span, data[:at], crcs) == at


def test_the_index_finds_times_as_the_one_of_the_log_does() -> None:
    _, entry, index = indexed([[100]] * 40)
    assert index.before_time(entry.min_timestamp) is None
    found = index.before_time(TimestampMs(entry.max_timestamp + 1))
    assert found is not None
    assert found.timestamp <= entry.max_timestamp
    assert found.last_offset <= entry.last
