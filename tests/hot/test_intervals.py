"""Sets of ranges, against sets of numbers."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tierlog.hot.intervals import Intervals

spans = st.tuples(st.integers(0, 40), st.integers(1, 10)).map(lambda s: (s[0], s[0] + s[1]))


@given(st.lists(spans, max_size=12), spans)
def test_a_range_is_covered_when_each_of_its_numbers_was_added(
    added: list[tuple[int, int]], asked: tuple[int, int]
) -> None:
    intervals = Intervals()
    held: set[int] = set()
    for start, end in added:
        intervals.add(start, end)
        held |= set(range(start, end))
    assert intervals.covers(*asked) == (set(range(*asked)) <= held)


@given(st.lists(spans, max_size=12))
def test_ranges_that_touch_are_one(added: list[tuple[int, int]]) -> None:
    intervals = Intervals()
    for start, end in added:
        intervals.add(start, end)
    borders = list(zip(intervals._starts, intervals._ends, strict=True))
    assert all(left[1] < right[0] for left, right in pairwise(borders))
