"""The offset index, against a list of its entries."""

from hypothesis import given
from hypothesis import strategies as st

from tierlog.hot.index import IndexEntry, OffsetIndex
from tierlog.types import Offset, Position

BASE = 1000
steps = st.lists(st.tuples(st.integers(1, 50), st.integers(1, 900)), max_size=30)


def filled(gaps: list[tuple[int, int]]) -> tuple[OffsetIndex, list[IndexEntry]]:
    index = OffsetIndex(Offset(BASE))
    entries: list[IndexEntry] = []
    offset, position = BASE - 1, 0
    for more_offsets, more_bytes in gaps:
        offset += more_offsets
        position += more_bytes
        entries.append(IndexEntry(Offset(offset), Position(position)))
        index.append(*entries[-1])
    return index, entries


@given(steps, st.integers(BASE - 5, BASE + 2000))
def test_the_entry_at_or_before_an_offset_is_the_last_of_them(
    gaps: list[tuple[int, int]], offset: int
) -> None:
    index, entries = filled(gaps)
    before = [entry for entry in entries if entry.last_offset <= offset]
    assert index.at_or_before(Offset(offset)) == (before[-1] if before else None)


@given(steps, st.integers(0, 30_000))
def test_the_entry_before_a_position_is_the_last_of_them(
    gaps: list[tuple[int, int]], position: int
) -> None:
    index, entries = filled(gaps)
    before = [entry for entry in entries if entry.position <= position]
    assert index.before_position(Position(position)) == (before[-1] if before else None)


@given(steps, st.integers(0, 30))
def test_truncating_forgets_the_batches_from_a_place_on(
    gaps: list[tuple[int, int]], count: int
) -> None:
    index, entries = filled(gaps)
    kept, gone = entries[:count], entries[count:]
    if gone:
        index.truncate(gone[0].position, Offset(gone[0].last_offset))
    assert len(index) == len(kept)
    assert index.at_or_before(Offset(BASE + 10**6)) == (kept[-1] if kept else None)


def test_an_entry_is_eight_bytes_offset_first_both_relative_and_big_endian() -> None:
    index = OffsetIndex(Offset(BASE))
    index.append(Offset(BASE + 0x0102), Position(0x0A0B0C0D))
    assert index.to_bytes().hex() == "00000102" + "0a0b0c0d"
    loaded = OffsetIndex.from_bytes(Offset(BASE), index.to_bytes())
    assert loaded is not None
    assert loaded.at_or_before(Offset(BASE + 0x0102)) == (BASE + 0x0102, 0x0A0B0C0D)


def test_a_file_that_does_not_rise_is_no_index() -> None:
    assert OffsetIndex.from_bytes(Offset(0), bytes(16)) is None
    assert OffsetIndex.from_bytes(Offset(0), bytes(7)) is None
