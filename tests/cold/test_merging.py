"""Which small segments are merged: how often bytes are rewritten, and what is left alone."""

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cold.makers import START_MS, an_entry
from tierlog.cold import merging
from tierlog.cold.entry import Entry, Replaced
from tierlog.cold.entry_codec import REPLACED_MAX
from tierlog.cold.head import Hold
from tierlog.cold.merging import GROWTH, RUN_MIN, SMALL_SHARE, Wanted, choose
from tierlog.types import Offset, TimestampMs

TARGET = 128 << 20
KIB = 1 << 10
HOUR_MS = 3_600_000


def small(number: int, data_bytes: int = 10 * KIB) -> Entry:
    """An hour of a slow topic."""
    time = START_MS + number * HOUR_MS
    return replace(
        an_entry(number),
        data_bytes=data_bytes,
        size=data_bytes + 2000,
        min_timestamp=TimestampMs(time),
        max_timestamp=TimestampMs(time + HOUR_MS - 1),
    )


def hours(count: int, data_bytes: int = 10 * KIB) -> list[Entry]:
    return [small(number, data_bytes) for number in range(count)]


def wanted(**changes: object) -> Wanted:
    usual: dict[str, object] = {
        "target_bytes": TARGET,
        "start": Offset(0),
        "end": Offset(10**9),
        "segments_max": 224,
    }
    return Wanted(**(usual | changes))  # type: ignore[arg-type]  # as the test gives them


def joined(run: tuple[Entry, ...]) -> Entry:
    """The merged segment, as far as the next choice looks at it."""
    data_bytes = sum(one.data_bytes for one in run)
    return replace(
        run[0],
        key=f"merged of {run[0].key}",
        last=run[-1].last,
        data_bytes=data_bytes,
        size=data_bytes + 2000,
        records=sum(one.records for one in run),
        max_timestamp=run[-1].max_timestamp,
        replaces=Replaced("", sum(map(merging.sources_of, run)), ""),
    )


class Topic:
    """Segments that come one after the other, merged as soon as they may be."""

    def __init__(self, want: Wanted) -> None:
        self.wanted = want
        self.entries: list[Entry] = []
        self.rewritten: dict[int, int] = {}
        """By the base of each upload: how often it was written again."""
        self.rewritten_bytes = 0

    def upload(self, data_bytes: int) -> None:
        entry = small(len(self.rewritten), data_bytes)
        self.entries.append(entry)
        self.rewritten[entry.base] = 0
        while run := choose(self.entries, self.wanted):
            self._merge(run)

    def _merge(self, run: tuple[Entry, ...]) -> None:
        place = self.entries.index(run[0])
        assert tuple(self.entries[place : place + len(run)]) == run, "neighbours"
        merged = joined(run)
        self.entries[place : place + len(run)] = [merged]
        self.rewritten_bytes += merged.data_bytes
        for base in range(merged.base, merged.next_offset, 1000):
            self.rewritten[base] += 1


def test_eight_hours_are_one_run() -> None:
    entries = hours(RUN_MIN)
    assert choose(entries[1:], wanted()) == ()
    assert choose(entries, wanted()) == tuple(entries)


def test_fewer_are_enough_where_they_reach_the_target() -> None:
    entries = hours(5, TARGET // 5)
    assert choose(entries, wanted()) == tuple(entries)
    assert choose(entries[1:], wanted()) == tuple(entries[1:])
    assert choose(entries[2:], wanted()) == ()


def test_what_is_large_enough_is_left_alone() -> None:
    assert choose(hours(20, TARGET // SMALL_SHARE), wanted()) == ()
    assert choose(hours(20, TARGET // SMALL_SHARE - 1), wanted())


def test_a_run_ends_at_the_target() -> None:
    run = choose(hours(100, TARGET // 10), wanted())
    assert len(run) == 10


def test_a_large_one_is_not_written_again_for_the_sake_of_a_few_small_ones() -> None:
    entries = [small(0, KIB << 10), *(small(number, KIB) for number in range(1, 20))]
    assert choose(entries, wanted()) == tuple(entries[1:])


sizes = st.lists(
    st.one_of(
        st.integers(61, 4 * KIB), st.integers(61, TARGET), st.sampled_from([KIB, 8 * KIB, 1 << 20])
    ),
    min_size=1,
    max_size=120,
)


@given(sizes)
def test_a_record_is_rewritten_a_logarithm_of_times(found: list[int]) -> None:
    topic = Topic(wanted())
    for size in found:
        topic.upload(size)
    for (base, times), size in zip(topic.rewritten.items(), found, strict=True):
        is_small = size < TARGET // SMALL_SHARE
        most = math.ceil(math.log(TARGET / SMALL_SHARE / size, GROWTH)) if is_small else 0
        assert times <= most, f"{size} bytes at {base} were rewritten {times} times"
    assert sum(one.data_bytes for one in topic.entries) == sum(found), "nothing is lost"
    assert sum(one.records for one in topic.entries) == 1000 * len(found)


@settings(max_examples=15)
@given(st.integers(61, 64 * KIB), st.integers(1, 300))
def test_a_steady_topic_is_left_with_a_few_segments_of_each_size(size: int, count: int) -> None:
    topic = Topic(wanted())
    for _ in range(count):
        topic.upload(size)
    levels = 1 + math.ceil(math.log(max(count, 2), RUN_MIN))
    assert len(topic.entries) <= (RUN_MIN - 1) * levels
    assert topic.rewritten_bytes <= levels * size * count


def requests_to_read(data_bytes: Sequence[int], *, chunk_bytes: int) -> int:
    """GETs of a reader who reads all of these segments, with nothing cached."""
    return sum(1 + -(-one // chunk_bytes) for one in data_bytes)


def test_two_months_of_hours_take_a_hundredth_of_the_requests() -> None:
    """The formula at the top of `merging`, with chunks of 8 MiB."""
    topic, count = Topic(wanted()), 24 * 60
    for _ in range(count):
        topic.upload(20 * KIB)
    before = requests_to_read([20 * KIB] * count, chunk_bytes=8 << 20)
    after = requests_to_read([one.data_bytes for one in topic.entries], chunk_bytes=8 << 20)
    assert before == 2 * count
    assert after * 100 <= before, f"{after} of {before}"
    assert topic.rewritten_bytes <= 5 * 20 * KIB * count


@pytest.mark.parametrize(
    "changes",
    [
        {"storage_class": "GLACIER_IR"},
        {"retain_until_ms": START_MS},
        {"has_aborted": True},
        {"dek_id": "another key"},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_one_that_is_not_like_the_others_divides_a_run(changes: dict[str, object]) -> None:
    entries = hours(15)
    entries[7] = replace(entries[7], **changes)  # type: ignore[arg-type]  # as the test gives them
    assert choose(entries, wanted()) == ()
    assert choose([*entries, small(15)], wanted()) == (*entries[8:], small(15))


def test_what_could_not_be_read_is_left_alone() -> None:
    entries = hours(15)
    assert choose(entries, wanted(refused={entries[7].key})) == ()


def test_a_run_does_not_cross_the_border_of_a_hold() -> None:
    entries = hours(15)
    hold = Hold("a case", entries[7].base, entries[9].base, "")
    assert choose(entries, wanted(holds=(hold,))) == ()
    whole = Hold("a case", Offset(0), entries[-1].next_offset, "")
    assert choose(entries, wanted(holds=(whole,))) == tuple(entries)


def test_only_what_left_the_local_disk_and_was_not_deleted_is_merged() -> None:
    entries = hours(16)
    assert choose(entries, wanted(end=entries[8].base)) == tuple(entries[:8])
    assert choose(entries, wanted(end=entries[8].base - 1)) == ()
    assert choose(entries, wanted(start=entries[1].base, end=entries[9].base)) == tuple(
        entries[1:9]
    )


def test_offsets_that_were_skipped_divide_a_run() -> None:
    entries = hours(15)
    moved = [an_entry(one, base=one * 1000 + 500) for one in range(8, 16)]
    behind = [replace(one, data_bytes=KIB) for one in moved]
    assert choose([*entries[:7], *behind], wanted()) == tuple(behind)


def test_a_run_spans_a_part_of_what_is_retained() -> None:
    day, week = merging.span_of(8 * 24 * HOUR_MS), merging.span_of(7 * 24 * HOUR_MS)
    assert len(choose(hours(100), wanted(span_ms_max=day))) == 24
    assert len(choose(hours(100), wanted(span_ms_max=week))) == 21
    assert merging.span_of(-1) == merging.NO_LIMIT


def test_the_target_is_no_more_than_the_topics_own_segments() -> None:
    assert merging.target_of(TARGET, segment_bytes=1 << 30, retention_bytes=-1) == TARGET
    assert merging.target_of(TARGET, segment_bytes=1 << 20, retention_bytes=-1) == 1 << 20
    assert merging.target_of(TARGET, segment_bytes=1 << 30, retention_bytes=8 << 20) == 1 << 20


def test_no_more_are_merged_than_the_format_takes() -> None:
    entries = [
        replace(one, replaces=Replaced("", REPLACED_MAX // 10, "")) for one in hours(30, KIB)
    ]
    run = choose(entries, wanted())
    assert len(run) == 10
    assert sum(map(merging.sources_of, run)) <= REPLACED_MAX


def test_no_more_are_merged_than_head_can_name_as_garbage() -> None:
    assert len(choose(hours(100), wanted(segments_max=20))) == 20
    assert choose(hours(100), wanted(segments_max=RUN_MIN - 1)) == ()
