"""Each state of a segment, and each reason that keeps it there."""

from dataclasses import replace
from typing import Any

import pytest

from tierlog.cold.explained import Explained, Reason, State, Step, Why, runs
from tierlog.cold.explaining import explain
from tierlog.cold.head import MERGE, RETENTION_BYTES, Garbage, Hold
from tierlog.cold.layout import page_key, segment_key
from tierlog.cold.segmentfacts import Cold, Facts, Local, Rules, StoreHealth
from tierlog.types import LeaderEpoch, Offset, TimestampMs

NOW = 1_800_000_000_000
HOUR = 3_600_000
DAY = 24 * HOUR
RULES = Rules(
    segment_bytes=100_000_000,
    segment_ms=HOUR,
    upload_lag_max_ms=2 * HOUR,
    local_retention_ms=600_000,
    retention_ms=7 * DAY,
)


def facts(**others: Any) -> Facts:
    known: dict[str, Any] = dict.fromkeys(("log_start", "local_start", "uploaded_end"), 0)
    known |= {"now_ms": NOW, "rules": RULES, "visible_end": 900}
    return Facts(**(known | others))


def local(base: int, end: int, **others: Any) -> Local:
    plain = Local(Offset(base), Offset(end), 1000, TimestampMs(NOW - HOUR), NOW - HOUR)
    return plain._replace(**others)


def cold(base: int, end: int, *, age_ms: int = DAY, **others: Any) -> Cold:
    stamp = TimestampMs(NOW - age_ms)
    return Cold(Offset(base), Offset(end), 1, 1000, stamp, stamp, NOW - age_ms)._replace(**others)


def garbage(base: int, last: int, not_before_ms: int) -> Garbage:
    key = segment_key(
        base=Offset(base), last=Offset(last), leader_epoch=LeaderEpoch(1), node=1, attempt=base
    )
    return Garbage(key, None, not_before_ms)


def only(known: Facts) -> Explained:
    (row,) = explain(known)
    return row


def reason_of(known: Facts) -> Reason:
    (reason,) = only(known).reasons
    return reason


# On the disk only


def test_an_active_segment_rolls_by_time_or_by_size() -> None:
    active = local(0, 10, is_active=True, first_append_ms=NOW - HOUR // 2, size=17_000_000)
    row = only(facts(local=[active]))
    assert (row.state, row.bytes, row.next_offset) == (State.ACTIVE, 17_000_000, 10)
    assert row.reasons == (
        Reason(step=Step.ROLL, why=Why.SEGMENT_MS, at_ms=NOW + HOUR // 2),
        Reason(step=Step.ROLL, why=Why.SEGMENT_BYTES, bytes_left=83_000_000),
    )


def test_the_upload_lag_rolls_where_it_is_shorter_unless_nothing_is_uploaded() -> None:
    active = local(0, 10, is_active=True, first_append_ms=NOW)
    rules = replace(RULES, upload_lag_max_ms=60_000)
    by_time, _ = only(facts(rules=rules, local=[active])).reasons
    assert (by_time.why, by_time.at_ms) == (Why.UPLOAD_LAG, NOW + 60_000)
    by_time, _ = only(facts(rules=replace(rules, copies=False), local=[active])).reasons
    assert by_time.why is Why.SEGMENT_MS


def test_an_active_segment_past_retention_is_rolled_to_expire() -> None:
    newest = TimestampMs(NOW - 30_000)
    active = local(0, 10, is_active=True, first_append_ms=NOW - 40_000, max_timestamp=newest)
    rules = replace(RULES, retention_ms=60_000)
    by_time, by_size = only(facts(rules=rules, local=[active])).reasons
    assert by_time == Reason(step=Step.ROLL, why=Why.RETENTION_MS, at_ms=NOW + 30_001)
    assert by_size.why is Why.SEGMENT_BYTES
    rules = replace(RULES, retention_ms=5_000)
    reason = reason_of(facts(rules=rules, local=[active]))
    assert (reason.step, reason.why, reason.is_due) == (Step.ROLL, Why.RETENTION_MS, True)
    young = active._replace(first_append_ms=NOW - 6_000, max_timestamp=TimestampMs(NOW - 6_000))
    by_time, _ = only(facts(rules=rules, local=[young])).reasons
    assert (by_time.why, by_time.at_ms) == (Why.RETENTION_MS, NOW + 4_000), "not for every batch"
    for others in ({"copies": False}, {"expires": False}, {"retention_ms": -1}):
        by_time, _ = only(facts(rules=replace(rules, **others), local=[active])).reasons
        assert by_time.why is Why.SEGMENT_MS


def test_an_active_segment_of_the_disk_alone_expires_as_it_is() -> None:
    newest = TimestampMs(NOW - 30_000)
    active = local(0, 10, is_active=True, first_append_ms=NOW - 40_000, max_timestamp=newest)
    rules = replace(RULES, is_tiered=False, retention_ms=60_000)
    by_age, by_size, over = only(facts(rules=rules, local=[active])).reasons
    assert (by_age.why, by_size.why) == (Why.SEGMENT_MS, Why.SEGMENT_BYTES)
    assert over == Reason(step=Step.EXPIRE, why=Why.RETENTION_MS, at_ms=NOW + 30_001)
    due = reason_of(facts(rules=replace(rules, retention_ms=5_000), local=[active]))
    assert (due.step, due.why, due.is_due) == (Step.EXPIRE, Why.RETENTION_MS, True)


def test_an_empty_active_segment_waits_for_records() -> None:
    active = local(5, 5, is_active=True, size=0, first_append_ms=-1)
    assert reason_of(facts(local=[active], local_start=5)).why is Why.EMPTY


def test_a_sealed_segment_waits_for_its_sync_then_for_its_turn() -> None:
    unsynced = local(0, 10, is_synced=False)
    assert reason_of(facts(local=[unsynced])).why is Why.SYNC
    assert reason_of(facts(local=[unsynced], visible_end=5)).why is Why.HIGH_WATERMARK
    row = only(facts(local=[local(0, 10)]))
    assert (row.state, row.reasons[0].why) == (State.SEALED, Why.TURN)


def test_a_store_that_is_away_is_named_with_the_next_try() -> None:
    away = StoreHealth(away_since_ms=NOW - HOUR, retry_ms=40_000, error="no route")
    reason = reason_of(facts(local=[local(0, 10)], store=away))
    assert reason == Reason(
        step=Step.UPLOAD, why=Why.STORE_AWAY, at_ms=NOW + 40_000, detail="no route"
    )


@pytest.mark.parametrize(
    ("others", "why"),
    [
        ({"store": StoreHealth(refusal="it lies")}, Why.STORE_REFUSED),
        ({"store": StoreHealth(away_since_ms=NOW, is_state_lost=True)}, Why.STATE_LOST),
        ({"fence": "another node"}, Why.FENCED),
        ({"error": "damaged", "retry_ms": 5}, Why.FAILED),
        ({"rules": replace(RULES, copies=False)}, Why.NO_COPIES),
    ],
)
def test_what_keeps_a_segment_from_its_upload(others: dict[str, Any], why: Why) -> None:
    row = only(facts(local=[local(0, 10)], **others))
    assert (row.state, row.reasons[0].step, row.reasons[0].why) == (State.SEALED, Step.UPLOAD, why)


def test_what_is_fenced_is_so_whether_the_store_answers_or_not() -> None:
    away = StoreHealth(away_since_ms=NOW)
    assert reason_of(facts(local=[local(0, 10)], store=away, fence="x")).why is Why.FENCED


def test_a_topic_that_is_not_tiered_expires_from_the_disk() -> None:
    upload, expire = only(
        facts(local=[local(0, 10)], rules=replace(RULES, is_tiered=False))
    ).reasons
    assert upload.why is Why.NOT_TIERED
    assert (expire.why, expire.at_ms) == (Why.RETENTION_MS, NOW - HOUR + 7 * DAY + 1)


def test_what_is_not_copied_expires_from_the_disk() -> None:
    upload, expire = only(facts(local=[local(0, 10)], rules=replace(RULES, copies=False))).reasons
    assert upload.why is Why.NO_COPIES
    assert (expire.why, expire.at_ms) == (Why.RETENTION_MS, NOW - HOUR + 7 * DAY + 1)


def test_a_segment_is_being_uploaded_then_waits_to_be_published() -> None:
    segments = [local(0, 10), local(10, 20), local(20, 30)]
    rows = list(explain(facts(local=segments, sending=10, sent_end=10)))
    assert [row.state for row in rows] == [State.UPLOADED, State.UPLOADING, State.SEALED]
    assert [(row.reasons[0].step, row.reasons[0].why) for row in rows[:2]] == [
        (Step.PUBLISH, Why.UNDER_WAY),
        (Step.UPLOAD, Why.UNDER_WAY),
    ]
    away = StoreHealth(away_since_ms=NOW)
    first = next(explain(facts(local=segments, sent_end=10, store=away)))
    assert (first.reasons[0].step, first.reasons[0].why) == (Step.PUBLISH, Why.STORE_AWAY)


# In both places


def published(base: int, end: int, *, ago_ms: int = 0, **others: Any) -> Local:
    return local(base, end, published_ms=NOW - ago_ms, **others)


def test_a_published_segment_stays_for_the_local_retention() -> None:
    known = facts(local=[published(0, 10, ago_ms=60_000)], cold=[cold(0, 10)], uploaded_end=10)
    row = only(known)
    drop, expire = row.reasons
    assert row.state is State.PUBLISHED
    assert drop == Reason(step=Step.DROP, why=Why.LOCAL_MS, at_ms=NOW + 540_000)
    assert expire == Reason(step=Step.EXPIRE, why=Why.RETENTION_MS, at_ms=NOW + 6 * DAY + 1)


def test_a_published_segment_counts_by_the_size_of_its_object() -> None:
    known = facts(
        rules=replace(RULES, retention_ms=-1, retention_bytes=2500),
        local=[published(0, 10), published(10, 20), local(20, 30, is_active=True, size=400)],
        cold=[cold(0, 10, bytes=1300), cold(10, 20, bytes=1200)],
        uploaded_end=20,
    )
    first, second, _ = explain(known)
    assert (first.bytes, second.bytes) == (1300, 1200)
    # 2,900 bytes are there: without the first, 1,600.
    assert first.reasons[1].bytes_left == 2500 - 1600
    assert second.reasons[1].bytes_left == 2500 - 400


def test_a_published_segment_of_a_page_that_was_not_read_goes_with_the_page() -> None:
    page = cold(0, 20, segments=2, min_timestamp=TimestampMs(NOW - 2 * DAY))
    known = facts(local=[published(10, 20)], local_start=10, cold=[page], uploaded_end=20)
    row, segment = explain(known)
    assert row.reasons[0] == segment.reasons[1]
    assert (row.reasons[0].at_ms, row.reasons[0].until_ms) == (NOW + 5 * DAY + 1, NOW + 6 * DAY + 1)


def test_what_is_due_to_be_dropped_waits_for_a_store_that_is_away_but_not_for_a_fence() -> None:
    known = facts(local=[published(0, 10, ago_ms=HOUR)], uploaded_end=10)
    assert only(known).reasons[0].is_due
    away = replace(known, store=StoreHealth(away_since_ms=NOW))
    assert only(away).reasons[0].why is Why.STORE_AWAY
    fenced = replace(known, fence="another", end_at_fence=Offset(10))
    assert only(fenced).reasons[0].why is Why.LOCAL_MS
    assert only(replace(fenced, end_at_fence=Offset(5))).reasons[0].why is Why.FENCED


def test_beyond_the_local_bytes_the_oldest_go_at_once() -> None:
    segments = [published(0, 10), published(10, 20), published(20, 30)]
    rules = replace(RULES, local_retention_ms=-1, local_retention_bytes=1500)
    drops = [row.reasons[0] for row in explain(facts(local=segments, rules=rules, uploaded_end=30))]
    assert [one.is_due for one in drops] == [True, False, False]
    assert [one.bytes_left for one in drops] == [None, 500, 1500]
    assert all(one.why is Why.LOCAL_BYTES for one in drops)


def test_without_local_limits_a_segment_stays_for_ever() -> None:
    rules = replace(RULES, local_retention_ms=-1)
    row = only(facts(local=[published(0, 10)], rules=rules, uploaded_end=10))
    assert row.reasons[0] == Reason(step=Step.DROP, why=Why.FOR_EVER)


def test_a_segment_leaves_the_disk_no_sooner_than_the_one_before_it() -> None:
    segments = [published(0, 10, ago_ms=0), published(10, 20, ago_ms=HOUR)]
    drops = [row.reasons[0].at_ms for row in explain(facts(local=segments, uploaded_end=20))]
    assert drops == [NOW + 600_000, NOW + 600_000]


# In the bucket only


def test_a_dropped_segment_expires_by_its_largest_timestamp() -> None:
    row = only(facts(cold=[cold(0, 10)]))
    assert (row.state, row.segments, row.bytes) == (State.DROPPED, 1, 1000)
    assert row.reasons == (Reason(step=Step.EXPIRE, why=Why.RETENTION_MS, at_ms=NOW + 6 * DAY + 1),)


def test_records_without_a_time_are_judged_by_the_clock_of_the_broker() -> None:
    known = facts(cold=[cold(0, 10, max_timestamp=-1, min_timestamp=-1)])
    assert reason_of(known).at_ms == NOW + 6 * DAY + 1


def test_a_page_that_is_not_opened_expires_from_its_first_record_to_its_last() -> None:
    page = cold(0, 99, segments=10, min_timestamp=TimestampMs(NOW - 2 * DAY))
    reason = reason_of(facts(cold=[page]))
    assert (reason.at_ms, reason.until_ms) == (NOW + 5 * DAY + 1, NOW + 6 * DAY + 1)


def test_retention_goes_from_the_front_so_a_late_timestamp_keeps_what_is_behind_it() -> None:
    rows = explain(facts(cold=[cold(0, 10, age_ms=-DAY), cold(10, 20, age_ms=3 * DAY)]))
    assert [row.reasons[0].at_ms for row in rows] == [NOW + 8 * DAY + 1, NOW + 8 * DAY + 1]


def test_size_counts_over_both_tiers_and_the_rate_says_when() -> None:
    rules = replace(RULES, retention_ms=-1, retention_bytes=2500)
    known = facts(
        rules=rules,
        cold=[cold(0, 10), cold(10, 20), cold(20, 30)],
        local=[local(30, 40, is_active=True)],
        local_start=30,
        uploaded_end=30,
        bytes_per_s=10,
    )
    first, second, third, _ = explain(known)
    assert first.reasons[0].is_due
    assert first.reasons[0].why is Why.RETENTION_BYTES
    assert second.reasons[0].bytes_left == 500
    assert second.reasons[0].at_ms == NOW + 50_000
    assert third.reasons[0].bytes_left == 1500
    *_, unknown, _ = explain(replace(known, bytes_per_s=None))
    assert (unknown.reasons[0].at_ms, unknown.reasons[0].bytes_left) == (None, 1500)


def test_of_time_and_size_the_sooner_counts() -> None:
    rules = replace(RULES, retention_bytes=1_000_000)
    late = facts(rules=rules, cold=[cold(0, 10)], bytes_per_s=1)
    assert reason_of(late).why is Why.RETENTION_MS
    soon = replace(late, rules=replace(rules, retention_bytes=100))
    assert reason_of(soon).why is Why.RETENTION_BYTES
    # Without a rate nobody knows which of them that is.
    by_time, by_size = only(replace(soon, bytes_per_s=None)).reasons
    assert (by_time.why, by_time.at_ms) == (Why.RETENTION_MS, NOW + 6 * DAY + 1)
    assert (by_size.why, by_size.at_ms, by_size.bytes_left) == (Why.RETENTION_BYTES, None, 100)


def test_without_limits_a_segment_is_kept_for_ever_and_a_compacted_topic_does_not_expire() -> None:
    for_ever = facts(rules=replace(RULES, retention_ms=-1), cold=[cold(0, 10)])
    assert reason_of(for_ever).why is Why.FOR_EVER
    assert reason_of(replace(for_ever, rules=replace(RULES, expires=False))).why is Why.COMPACTED


def test_a_hold_keeps_its_segment_and_everything_behind_it() -> None:
    holds = (Hold("audit-7", Offset(12), Offset(14), "a lawsuit"),)
    rows = list(explain(facts(cold=[cold(0, 10), cold(10, 20), cold(20, 30)], holds=holds)))
    whys = [row.reasons[0].why for row in rows]
    assert whys == [Why.RETENTION_MS, Why.HOLD, Why.BEHIND_HOLD]
    assert {row.reasons[0].detail for row in rows[1:]} == {"audit-7"}


def test_a_locked_segment_expires_and_its_object_stays() -> None:
    known = facts(cold=[cold(0, 10, retain_until_ms=NOW + 99 * DAY), cold(10, 20)])
    first, second = explain(known)
    expire, delete = first.reasons
    assert (expire.why, expire.at_ms) == (Why.RETENTION_MS, NOW + 6 * DAY + 1)
    assert delete == Reason(step=Step.DELETE, why=Why.RETAIN_UNTIL, at_ms=NOW + 99 * DAY)
    assert [one.at_ms for one in second.reasons] == [NOW + 6 * DAY + 1]
    # The grace is longer than that lock.
    assert len(only(facts(cold=[cold(0, 10, retain_until_ms=NOW + 7 * DAY)])).reasons) == 1


def test_nothing_expires_or_is_deleted_before_head_names_the_policy() -> None:
    rows = [cold(10, 20, age_ms=8 * DAY), cold(20, 30)]
    known = facts(log_start=10, cold=rows, garbage=[garbage(0, 9, NOW - DAY)], is_policy_told=False)
    old, due, young = explain(known)
    assert old.reasons == (Reason(step=Step.DELETE, why=Why.POLICY),)
    assert due.reasons == (Reason(step=Step.EXPIRE, why=Why.POLICY),)
    assert young.reasons[0].why is Why.RETENTION_MS
    away = replace(known, store=StoreHealth(away_since_ms=NOW))
    assert [row.reasons[0].why for row in explain(away)][:2] == [Why.STORE_AWAY] * 2


def test_what_is_due_to_expire_waits_for_what_stands_in_the_way() -> None:
    old = facts(cold=[cold(0, 10, age_ms=8 * DAY)])
    assert reason_of(old).is_due
    assert reason_of(replace(old, fence="another")).why is Why.FENCED
    young = facts(cold=[cold(0, 10)], fence="another")
    assert reason_of(young).why is Why.RETENTION_MS


# Over


SLICE = RULES.grace_ms // 24


def lot(time_ms: int) -> int:
    return (time_ms // SLICE + 1) * SLICE


def test_garbage_waits_for_the_lot_of_its_grace_then_for_its_collection() -> None:
    old = garbage(10, 19, NOW - 2 * SLICE)
    known = facts(log_start=20, garbage=[old, garbage(0, 9, NOW + DAY)])
    first, second = explain(known)
    assert (first.state, first.base, first.next_offset) == (State.EXPIRED, 0, 10)
    assert first.reasons == (Reason(step=Step.DELETE, why=Why.GRACE, at_ms=lot(NOW + DAY)),)
    assert (second.reasons[0].is_due, second.bytes) == (True, None)
    away = replace(known, store=StoreHealth(away_since_ms=NOW))
    assert [row.reasons[0].why for row in explain(away)] == [Why.GRACE, Why.STORE_AWAY]


def test_garbage_says_why_it_is_and_how_large() -> None:
    one = garbage(0, 9, NOW + DAY)._replace(why=RETENTION_BYTES, size=700)
    row = only(facts(log_start=10, garbage=[one]))
    assert (row.state, row.bytes, row.reasons[0].detail) == (State.EXPIRED, 700, RETENTION_BYTES)


def test_garbage_on_hold_stays() -> None:
    known = facts(
        log_start=20,
        garbage=[garbage(0, 9, NOW - DAY), garbage(10, 19, NOW - DAY)],
        holds=(Hold("audit-7", Offset(12), Offset(14), "a lawsuit"),),
    )
    first, second = explain(known)
    assert first.reasons[0].is_due
    assert second.reasons == (Reason(step=Step.DELETE, why=Why.HOLD, detail="audit-7"),)


def test_garbage_that_was_merged_away_is_told_as_such_wherever_the_log_starts() -> None:
    merged = garbage(0, 9, NOW + DAY)._replace(why=MERGE)
    for start in (0, 10):
        row = only(facts(log_start=start, garbage=[merged]))
        assert (row.state, row.reasons[0].detail) == (State.MERGED, "")


def test_garbage_above_the_log_start_was_merged_away_and_pages_are_no_segments() -> None:
    page = Garbage(page_key(first=Offset(0), attempt=1), None, NOW)
    row = only(facts(garbage=[garbage(0, 9, NOW + DAY), page]))
    assert row.state is State.MERGED


def test_pages_that_take_their_segments_along_are_told_up_to_what_follows() -> None:
    pages = [
        Garbage(page_key(first=Offset(at), attempt=at), None, NOW + DAY, "x", segments_from=at)
        for at in (300, 0, 600)
    ]
    known = facts(log_start=900, garbage_end=900, garbage=[*pages, garbage(500, 599, NOW + DAY)])
    rows = list(explain(known))
    spans = [(row.base, row.next_offset, row.pages, row.segments) for row in rows]
    assert spans == [(0, 300, 1, 0), (300, 500, 1, 0), (500, 600, 0, 1), (600, 900, 1, 0)]
    assert {row.state for row in rows} == {State.EXPIRED}


def test_what_is_garbage_and_still_stands_in_a_page_is_told_once() -> None:
    known = facts(
        log_start=20,
        garbage_end=10,
        garbage=[garbage(0, 9, NOW + DAY)],
        cold=[cold(0, 10), cold(10, 20), cold(20, 30)],
    )
    rows = [(row.base, row.state, row.reasons[0].why) for row in explain(known)]
    assert rows == [
        (0, State.EXPIRED, Why.GRACE),
        (10, State.EXPIRED, Why.BELOW_START),
        (20, State.DROPPED, Why.RETENTION_MS),
    ]


def test_what_lies_below_the_log_start_is_expired_wherever_it_is() -> None:
    rows = explain(
        facts(
            log_start=25,
            cold=[cold(0, 10), cold(10, 20)],
            local=[local(20, 25), local(25, 30, is_active=True)],
            local_start=20,
        )
    )
    assert [row.state for row in rows] == [*[State.EXPIRED] * 3, State.ACTIVE]


# Runs


def test_what_lies_in_both_places_is_told_once() -> None:
    known = facts(
        cold=[cold(0, 10), cold(10, 20)],
        local=[published(10, 20), local(20, 25, is_active=True)],
        local_start=10,
        uploaded_end=20,
    )
    rows = list(explain(known))
    assert [(row.state, row.base) for row in rows] == [
        (State.DROPPED, 0),
        (State.PUBLISHED, 10),
        (State.ACTIVE, 20),
    ]


def test_files_of_dropped_segments_that_are_still_there_are_not_counted_as_local() -> None:
    known = facts(
        cold=[cold(0, 10)],
        local=[published(0, 10), local(10, 10, is_active=True, size=0)],
        local_start=10,
        uploaded_end=10,
    )
    assert [row.state for row in explain(known)] == [State.DROPPED, State.ACTIVE]


def test_neighbours_of_one_fate_become_one_row() -> None:
    rows = [cold(number, number + 1, age_ms=DAY - number) for number in range(100)]
    (run,) = runs(explain(facts(cold=rows)))
    assert (run.base, run.next_offset, run.segments, run.bytes) == (0, 100, 100, 100_000)
    assert (run.reasons[0].at_ms, run.reasons[0].until_ms) == (
        NOW + 6 * DAY + 1,
        NOW + 6 * DAY + 100,
    )


def test_what_is_due_is_a_run_of_its_own() -> None:
    rows = [cold(0, 10, age_ms=9 * DAY), cold(10, 20, age_ms=8 * DAY), cold(20, 30)]
    assert [row.segments for row in runs(explain(facts(cold=rows)))] == [2, 1]


def test_a_run_of_garbage_has_no_size() -> None:
    known = facts(log_start=20, garbage=[garbage(0, 9, NOW + 5), garbage(10, 19, NOW + DAY)])
    (run,) = runs(explain(known))
    assert (run.segments, run.bytes) == (2, None)
    assert (run.reasons[0].at_ms, run.reasons[0].until_ms) == (lot(NOW), lot(NOW + DAY))


def test_an_empty_partition_has_nothing_to_explain() -> None:
    assert list(runs(explain(facts()))) == []
