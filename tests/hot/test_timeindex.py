"""The time index, against a list of what it was told."""

from hypothesis import given
from hypothesis import strategies as st

from tierlog.hot.timeindex import TimeEntry, TimeIndex
from tierlog.types import Offset, TimestampMs

BASE = 500
told = st.lists(st.tuples(st.integers(0, 60), st.integers(1, 9)), max_size=30)


def filled(steps: list[tuple[int, int]]) -> tuple[TimeIndex, list[TimeEntry]]:
    """An index that was offered the largest timestamp so far at each step, and what it may keep."""
    index = TimeIndex(Offset(BASE))
    kept: list[TimeEntry] = []
    offset, largest = BASE - 1, -1
    for timestamp, more in steps:
        offset += more
        index.maybe_append(TimestampMs(max(largest, timestamp)), Offset(offset))
        if timestamp > largest:
            largest = timestamp
            kept.append(TimeEntry(TimestampMs(timestamp), Offset(offset)))
    return index, kept


@given(told, st.integers(-1, 70))
def test_the_entry_before_a_moment_is_the_last_that_is_earlier(
    steps: list[tuple[int, int]], moment: int
) -> None:
    index, kept = filled(steps)
    earlier = [entry for entry in kept if entry.timestamp < moment]
    assert index.before(TimestampMs(moment)) == (earlier[-1] if earlier else None)


@given(told, st.integers(BASE - 3, BASE + 200))
def test_the_entry_before_an_offset_is_the_last_that_ends_there(
    steps: list[tuple[int, int]], offset: int
) -> None:
    index, kept = filled(steps)
    before = [entry for entry in kept if entry.last_offset < offset]
    assert index.before_offset(Offset(offset)) == (before[-1] if before else None)
    index.truncate(Offset(offset))
    assert len(index) == len(before)


def test_an_entry_is_twelve_bytes_timestamp_first_and_big_endian() -> None:
    index = TimeIndex(Offset(BASE))
    index.maybe_append(TimestampMs(0x0102030405060708), Offset(BASE + 0x0A0B))
    assert index.to_bytes().hex() == "0102030405060708" + "00000a0b"


def test_records_without_a_timestamp_leave_no_entry() -> None:
    index = TimeIndex(Offset(BASE))
    index.maybe_append(TimestampMs(-1), Offset(BASE))
    assert index.to_bytes() == b""


def test_a_file_that_does_not_rise_is_no_index() -> None:
    assert TimeIndex.from_bytes(Offset(0), bytes(24)) is None
    assert TimeIndex.from_bytes(Offset(0), bytes(11)) is None
