"""Reasons in words."""

from typing import Any

import pytest

from tierlog.cli.reasons import OBSTACLES, SENTENCES, WHERE, moment, sentence, show_length, shown
from tierlog.cli.times import parse_time
from tierlog.cold.explained import State, Step, Why

NOW = parse_time("2026-11-16T14:00", now_ms=0)
MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000


def reason(step: str, why: str, **others: Any) -> dict[str, Any]:
    plain = {"at_ms": None, "until_ms": None, "is_due": False, "bytes_left": None, "detail": ""}
    return {"step": step, "why": why, **plain, **others}


def said(*reasons: dict[str, Any], store: dict[str, Any] | None = None) -> str:
    return shown(list(reasons), store=store, now_ms=NOW)


def test_an_active_segment_says_when_it_rolls() -> None:
    by_time = reason("roll", "segment.ms", at_ms=NOW + 12 * MINUTE)
    by_size = reason("roll", "segment.bytes", bytes_left=83_000_000)
    assert said(by_time, by_size) == (
        "rolls in 12 min (segment.ms) or after 83.0 MB more (segment.bytes)"
    )


def test_an_active_segment_that_is_full_rolls_with_the_next_batch() -> None:
    by_time = reason("roll", "segment.ms", at_ms=NOW + 12 * MINUTE)
    by_size = reason("roll", "segment.bytes", bytes_left=0)
    assert said(by_time, by_size) == (
        "rolls in 12 min (segment.ms) or with the next batch (segment.bytes)"
    )
    assert said(by_size) == "rolls with the next batch (segment.bytes)"


def test_an_active_segment_past_retention_says_how_it_goes() -> None:
    soon = reason("roll", "retention.ms", at_ms=NOW + 30_000)
    by_size = reason("roll", "segment.bytes", bytes_left=83_000_000)
    assert said(soon, by_size) == (
        "rolls in 30 s (retention.ms) or after 83.0 MB more (segment.bytes)"
    )
    assert said(reason("roll", "retention.ms", at_ms=NOW - 1, is_due=True)) == (
        "past retention.ms, expires after its roll and upload"
    )
    over = reason("expire", "retention.ms", at_ms=NOW + 3 * MINUTE)
    assert said(reason("roll", "segment.ms", at_ms=NOW + 12 * MINUTE), by_size, over) == (
        "rolls in 12 min (segment.ms) or after 83.0 MB more (segment.bytes); "
        "expires 14:03 (retention.ms)"
    )


def test_a_store_that_is_away_has_its_times() -> None:
    away = reason("upload", "store away", at_ms=NOW + 40_000)
    assert said(away, store={"away_since_ms": NOW - 3 * HOUR}) == (
        "store away since 11:00, tried again in 40 s"
    )
    assert said(away) == "store away, tried again in 40 s"


def test_what_stays_in_both_places_has_two_times() -> None:
    drop = reason("drop", "local.retention.ms", at_ms=NOW + 3 * MINUTE)
    expire = reason("expire", "retention.ms", at_ms=NOW + 7 * DAY)
    assert said(drop, expire) == (
        "on the disk until 14:03 (local.retention.ms); expires 2026-11-23 14:00 (retention.ms)"
    )


def test_a_run_has_a_first_and_a_last_time() -> None:
    run = reason("expire", "retention.ms", at_ms=NOW + 7 * DAY, until_ms=NOW + 7 * DAY + HOUR)
    assert said(run) == "expires 2026-11-23 14:00 to 15:00 (retention.ms)"
    longer = run | {"until_ms": NOW + 9 * DAY}
    assert said(longer) == "expires 2026-11-23 14:00 to 2026-11-25 14:00 (retention.ms)"


def test_size_tells_the_bytes_and_the_time_at_the_present_rate() -> None:
    by_size = reason("expire", "retention.bytes", bytes_left=1_800_000_000, at_ms=NOW + 6 * HOUR)
    assert said(by_size) == "expires after 1.8 GB more, at the present rate 20:00 (retention.bytes)"
    unknown = by_size | {"at_ms": None}
    assert said(unknown) == "expires after 1.8 GB more (retention.bytes)"


def test_what_is_due_is_told_so_with_the_time_of_the_last() -> None:
    due = reason("expire", "retention.ms", at_ms=NOW - 1, is_due=True)
    assert said(due) == "expires with the next check (retention.ms)"
    page = due | {"until_ms": NOW + DAY}
    assert said(page) == "expires with the next check, the last 2026-11-17 14:00 (retention.ms)"


def test_a_hold_and_garbage_have_their_words() -> None:
    assert said(reason("expire", "hold", detail="audit-7")) == "hold audit-7 until released"
    waits = reason("delete", "grace", at_ms=NOW + DAY)
    assert said(waits) == "garbage, deleted at the earliest 2026-11-17 14:00"


def test_a_detail_may_have_braces() -> None:
    assert said(reason("expire", "hold", detail="{at}")) == "hold {at} until released"


def test_reasons_of_a_newer_node_are_shown_as_they_come() -> None:
    assert said(reason("freeze", "winter", at_ms=NOW + DAY)) == "freeze: winter 2026-11-17 14:00"
    assert said(reason("freeze", "{winter}")) == "freeze: {winter}"


def test_every_state_and_reason_has_words() -> None:
    assert set(WHERE) == {each.value for each in State}
    known = {why for _, why in SENTENCES} | set(OBSTACLES)
    assert known == {each.value for each in Why}
    assert {step for step, _ in SENTENCES} == {each.value for each in Step}
    for step, why in SENTENCES:
        text = sentence(reason(step, why, at_ms=NOW, bytes_left=5), store=None, now_ms=NOW)
        assert "{" not in text


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (-5, "0 s"),
        (119_000, "119 s"),
        (12 * MINUTE, "12 min"),
        (200 * MINUTE, "3 h 20 min"),
        (24 * HOUR, "24 h"),
        (7 * DAY, "7 days"),
        (7 * DAY - 60_000, "6 days 23 h"),
    ],
)
def test_lengths_of_time_are_short(ms: int, text: str) -> None:
    assert show_length(ms) == text


def test_moments_are_as_short_as_can_be() -> None:
    assert moment(NOW + 90_000, NOW) == "14:01:30"
    assert moment(NOW + HOUR, NOW) == "15:00"
    assert moment(NOW + DAY, NOW) == "2026-11-17 14:00"
    assert moment(NOW + 400 * DAY, NOW) == "2027-12-21"
    assert moment(2**62, NOW) == f"@{2**62}"
