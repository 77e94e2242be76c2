"""How far behind a group is, as pure functions."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierlog.groups.lag import (
    UNKNOWN,
    WINDOW_S,
    Facts,
    Fate,
    Left,
    PartitionLag,
    Rates,
    Sample,
    Trend,
    catch_up_of,
    group_lag,
    kept,
    partition_lag,
    rates_of,
    trend_of,
    worst_first,
)

NOW_MS = 1_700_000_000_000
FACTS = Facts(
    topic="t",
    partition=0,
    committed=40,
    log_start=0,
    local_start=0,
    end=100,
    bytes=6_000,
    first_unread_ms=NOW_MS - 90_500,
)


def lag(**changes: object) -> PartitionLag:
    return partition_lag(replace(FACTS, **changes), now_ms=NOW_MS)  # type: ignore[arg-type]


def test_records_bytes_and_seconds_are_those_of_what_is_unread() -> None:
    found = lag()
    assert (found.records, found.bytes, found.seconds) == (60, 6_000, 90.5)
    assert not found.lost
    assert not found.is_cold


def test_a_group_at_the_end_is_not_behind() -> None:
    found = lag(committed=100, first_unread_ms=None, fate=Fate(0, 100, 5, 5))
    assert (found.records, found.bytes, found.seconds) == (0, 0, 0.0)
    assert (found.trend, found.catch_up_s) == (Trend.CAUGHT_UP, 0.0)
    assert found.local_left_s is None
    assert found.retention_left_s is None


def test_a_record_of_the_future_has_not_waited() -> None:
    assert lag(first_unread_ms=NOW_MS + 5).seconds == 0.0


def test_seconds_that_nobody_knows_are_not_zero() -> None:
    assert lag(first_unread_ms=None).seconds is None


def test_what_expired_unread_is_lost_and_not_counted_as_lag() -> None:
    found = lag(log_start=70)
    assert (found.lost, found.records) == (30, 30)


def test_the_next_record_may_be_in_the_bucket_only() -> None:
    found = lag(local_start=41)
    assert found.is_cold
    assert found.local_left_s == 0.0
    assert not lag(local_start=40).is_cold


def test_the_disk_and_retention_are_told_by_the_segment() -> None:
    found = lag(fate=Fate(0, 60, NOW_MS + 5_000, NOW_MS + 60_000))
    assert (found.local_left_s, found.retention_left_s) == (5.0, 60.0)
    assert lag(fate=Fate(0, 60, None, NOW_MS - 1)).retention_left_s == 0.0


def test_what_is_kept_for_ever_never_falls_off() -> None:
    found = lag(fate=Fate(0, 60, None, None), retention_ms=1_000)
    assert (found.local_left_s, found.retention_left_s) == (None, None), "a hold, say"


def test_a_segment_that_is_open_keeps_its_records_at_least_as_long_as_retention_says() -> None:
    fate = Fate(0, 60, None, None, is_open=True)
    assert lag(fate=fate, retention_ms=100_000).retention_left_s == 9.5
    assert lag(fate=fate).retention_left_s is None


# Rates


def test_rates_are_those_of_the_last_minute() -> None:
    samples = [Sample(0, 0, 0), Sample(40, 1_000, 100), Sample(100, 1_600, 400)]
    assert rates_of(samples) == Rates(10, 5)
    assert rates_of(samples[:1]) is None
    assert rates_of([Sample(0, 0, 0), Sample(1, 5, 5)]) is None, "too short a time"


@pytest.mark.parametrize(
    ("consumed", "produced", "trend", "seconds"),
    [
        (10, 4, Trend.FALLING, 10.0),
        (10, 10, Trend.STEADY, None),
        (4, 10, Trend.GROWING, None),
        (0, 0, Trend.STUCK, None),
        (0, 7, Trend.STUCK, None),
    ],
)
def test_the_trend_and_when_it_ends(
    consumed: float, produced: float, trend: Trend, seconds: float | None
) -> None:
    rates = Rates(consumed, produced)
    assert trend_of(60, rates) is trend
    assert catch_up_of(60, rates) == Left(seconds)


def test_a_group_is_stuck_when_it_committed_nothing_for_a_minute() -> None:
    """Not before: it may commit every half a minute. Rounds come every 15 s, or when asked for."""
    for pace_s in (2.0, 15.2):
        samples: list[Sample] = []
        at_s = 0.0
        while at_s < 3 * WINDOW_S:
            samples = kept(samples, Sample(at_s, 100, 1_000 + int(at_s)))
            found = trend_of(900, rates_of(samples))
            assert found is (Trend.STUCK if at_s >= WINDOW_S else Trend.UNKNOWN), at_s
            at_s += pace_s


def test_a_rate_is_known_before_a_minute_is_over() -> None:
    samples = [Sample(0, 0, 100), Sample(5, 50, 105)]
    assert trend_of(55, rates_of(samples)) is Trend.FALLING


def test_a_group_is_stuck_when_all_that_it_does_was_watched_for_a_minute() -> None:
    long = lag(samples=[Sample(0, 40, 100), Sample(60, 40, 100)])
    short = lag(partition=1, samples=[Sample(50, 40, 100), Sample(60, 40, 100)])
    assert (long.trend, short.trend) == (Trend.STUCK, Trend.UNKNOWN)
    assert group_lag("g", [long]).trend is Trend.STUCK
    assert group_lag("g", [long, short]).trend is Trend.UNKNOWN


def test_a_group_says_how_many_partitions_do_not_know_their_seconds() -> None:
    known, unknown = lag(), lag(partition=1, first_unread_ms=None)
    done = lag(partition=2, committed=100, first_unread_ms=None)
    found = group_lag("g", [known, unknown, done])
    assert (found.seconds, found.unknown_partitions) == (90.5, 1)
    assert group_lag("g", [known, done]).unknown_partitions == 0


def test_nobody_knows_a_trend_at_the_first_look() -> None:
    assert trend_of(60, None) is Trend.UNKNOWN
    assert catch_up_of(60, None) == UNKNOWN
    assert catch_up_of(60, Rates(0, 0, over_s=30)) == UNKNOWN, "that takes a minute to know"


@given(st.lists(st.floats(0.1, 20), max_size=200))
def test_few_samples_are_kept_and_they_span_the_window(gaps: list[float]) -> None:
    samples: list[Sample] = []
    at = 0.0
    for number, gap in enumerate(gaps):
        at += gap
        samples = kept(samples, Sample(at, number, number))
        assert samples[-1].at_s == at
        assert len(samples) <= WINDOW_S / 5 + 3
        assert all(at - one.at_s <= WINDOW_S for one in samples[1:])
    if at > 2 * WINDOW_S:
        assert at - samples[0].at_s >= WINDOW_S, "a whole minute, whatever the gaps"


def test_a_group_that_was_reset_begins_anew() -> None:
    samples = kept([Sample(0, 50, 60), Sample(10, 55, 60)], Sample(20, 0, 60))
    assert samples == [Sample(20, 0, 60)]


# Groups


def test_a_group_is_as_late_as_its_latest_partition() -> None:
    moving = [Sample(0, 20, 95), Sample(10, 40, 100)]
    one = lag(samples=moving, fate=Fate(0, 60, NOW_MS + 9_000, NOW_MS + 70_000))
    other = lag(partition=1, committed=90, first_unread_ms=NOW_MS - 1_000, samples=moving, bytes=9)
    done = lag(partition=2, committed=100)
    found = group_lag("g", [done, other, one])
    assert [each.partition for each in found.partitions] == [0, 1, 2]
    assert (found.records, found.bytes, found.seconds) == (70, 6_009, 90.5)
    assert found.trend is Trend.FALLING
    assert found.catch_up_s == one.catch_up_s == 40.0
    assert (found.local_left_s, found.retention_left_s) == (9.0, 70.0)


def test_a_group_with_a_stuck_partition_never_catches_up() -> None:
    falling = lag(samples=[Sample(0, 20, 95), Sample(10, 40, 100)])
    stuck = lag(partition=1, samples=[Sample(0, 40, 100), Sample(60, 40, 100)])
    assert stuck.trend is Trend.STUCK
    assert group_lag("g", [falling, stuck]).catch_up_s is None


def test_those_that_lose_records_next_come_first() -> None:
    soon = group_lag("soon", [lag(fate=Fate(0, 60, None, NOW_MS + 5_000))])
    late = group_lag("late", [lag(fate=Fate(0, 60, None, NOW_MS + 50_000))])
    far = group_lag("far", [lag()])
    done = group_lag("done", [lag(committed=100)])
    assert worst_first([done, far, late, soon]) == [soon, late, far, done]


def test_what_never_happens_and_what_nobody_knows_are_told_apart() -> None:
    new = lag()
    assert (new.catch_up_s, new.is_catch_up_known) == (None, False)
    assert (new.local_left_s, new.is_local_left_known) == (None, False)
    stuck = lag(samples=[Sample(0, 40, 100), Sample(WINDOW_S, 40, 100)])
    assert (stuck.catch_up_s, stuck.is_catch_up_known) == (None, True)
    unsealed = lag(fate=Fate(0, 60, None, None, is_open=True, is_drop_known=False))
    assert (unsealed.local_left_s, unsealed.is_local_left_known) == (None, False)
    stays = lag(fate=Fate(0, 60, None, None))
    assert (stays.local_left_s, stays.is_local_left_known) == (None, True)
    assert (stays.retention_left_s, stays.is_retention_left_known) == (None, True)


def test_how_long_a_record_is_kept_is_known_from_settings_where_its_segment_is_open() -> None:
    fate = Fate(0, 60, None, None, is_open=True)
    for changes, is_known in (
        ({}, True),
        ({"retention_bytes": 5}, False),
        ({"retention_ms": 5}, True),
        ({"retention_ms": 5, "first_unread_ms": None}, False),
    ):
        assert lag(fate=fate, **changes).is_retention_left_known is is_known, changes


def test_a_group_knows_when_all_its_partitions_do() -> None:
    new, behind = lag(), [Sample(0, 40, 100), Sample(WINDOW_S, 40, 100)]
    stuck = lag(samples=behind, fate=Fate(0, 60, NOW_MS + 1_000, None))
    found = group_lag("g", [new, stuck])
    assert (found.catch_up_s, found.is_catch_up_known) == (None, True), "one never comes to its end"
    assert (found.local_left_s, found.is_local_left_known) == (1.0, False)
    assert not group_lag("g", [new]).is_catch_up_known
