"""What is dirty, when it is due, and what becomes one segment."""

from dataclasses import replace

import pytest

from tests.hot.support import FixedClock
from tierlog.hot import LogSettings
from tierlog.hot.dirt import GROUP_MAX, CleaningRules, Dirt, groups_of, measure
from tierlog.hot.files import FilePool
from tierlog.hot.segment import Segment, SegmentNumbers
from tierlog.hot.settings import RELATIVE_OFFSET_MAX
from tierlog.sim.disk import SimDisk
from tierlog.types import Offset, Position, TimestampMs

NOW_MS = FixedClock().ms
RULES = CleaningRules(min_dirty_ratio=0.5)


def segment(base: int, end: int, size: int = 100, *, at_ms: int = NOW_MS) -> Segment:
    numbers = SegmentNumbers(
        Offset(base), Offset(end), Position(size), TimestampMs(at_ms), Offset(base), at_ms
    )
    disk = SimDisk()
    return Segment(
        "/p", numbers, disk=disk, pool=FilePool(disk, open_max=1), settings=LogSettings()
    )


def dirt(
    *segments: Segment, cleaned_to: int = 0, log_start: int = 0, rules: CleaningRules = RULES
) -> Dirt:
    return measure(
        segments,
        cleaned_to=Offset(cleaned_to),
        log_start=Offset(log_start),
        rules=rules,
        now_ms=NOW_MS,
    )


def test_nothing_is_due_in_an_empty_log() -> None:
    found = dirt()
    assert (found.ratio, found.dirty_bytes) == (0.0, 0)
    assert not found.is_due(replace(RULES, min_dirty_ratio=0.0))


def test_the_ratio_is_the_dirty_share_of_what_may_be_cleaned() -> None:
    found = dirt(segment(0, 10, 300), segment(10, 20, 100), cleaned_to=10)
    assert (found.start, found.end, found.ratio) == (10, 20, 0.25)
    assert not found.is_due(RULES)
    assert found.is_due(replace(RULES, min_dirty_ratio=0.2))


def test_just_the_ratio_is_not_enough() -> None:
    found = dirt(segment(0, 10), segment(10, 20), cleaned_to=10)
    assert found.ratio == 0.5
    assert not found.is_due(RULES)


def test_a_trim_takes_the_clean_part_along() -> None:
    found = dirt(segment(10, 20), cleaned_to=5, log_start=12)
    assert (found.start, found.clean_bytes) == (12, 0)


def test_young_segments_and_all_behind_them_wait() -> None:
    rules = replace(RULES, min_lag_ms=100)
    old, young = segment(0, 10, at_ms=NOW_MS - 100), segment(10, 20, at_ms=NOW_MS - 99)
    assert dirt(old, young, segment(20, 30, at_ms=NOW_MS - 500), rules=rules).end == 10


def test_a_record_that_waited_long_enough_is_due_whatever_the_ratio() -> None:
    rules = replace(RULES, max_lag_ms=1000)
    clean = segment(0, 10, 10_000)
    assert dirt(clean, segment(10, 11, at_ms=NOW_MS - 1001), cleaned_to=10, rules=rules).is_due(
        rules
    )
    assert not dirt(clean, segment(10, 11, at_ms=NOW_MS - 1000), cleaned_to=10, rules=rules).is_due(
        rules
    )


def grouped(*segments: Segment, end: int = 2**40, segment_bytes: int = 250) -> list[int]:
    groups = groups_of(segments, end=Offset(end), segment_bytes=segment_bytes)
    return [len(group) for group in groups]


def test_segments_are_joined_while_they_fit() -> None:
    assert grouped(*(segment(base, base + 1) for base in range(5))) == [2, 2, 1]


def test_segments_behind_the_end_are_left_out() -> None:
    assert grouped(*(segment(base, base + 1) for base in range(5)), end=3) == [2, 1]


def test_a_gap_is_not_bridged() -> None:
    assert grouped(segment(0, 1), segment(2, 3)) == [1, 1]


@pytest.mark.parametrize(("end", "groups"), [(RELATIVE_OFFSET_MAX + 1, 1), (2**31 + 1, 2)])
def test_offsets_fit_the_index(end: int, groups: int) -> None:
    assert len(grouped(segment(0, 5), segment(5, end))) == groups


def test_no_more_files_than_may_be_open_at_once() -> None:
    tiny = [segment(base, base + 1, 1) for base in range(GROUP_MAX + 1)]
    assert grouped(*tiny) == [GROUP_MAX, 1]
