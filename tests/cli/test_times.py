"""Times as people write them."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from tierlog.cli.times import NotATime, parse_age, parse_time, show_time

NOW = 1_700_000_000_000
NOON = int(datetime(2024, 3, 1, 12, tzinfo=UTC).timestamp()) * 1000
HOUR = 3_600_000


def parsed(text: str) -> int:
    return parse_time(text, now_ms=NOW, zone=timezone(timedelta(hours=2)))


@pytest.mark.parametrize(
    ("text", "ago_ms"),
    [
        ("now", 0),
        ("NOW", 0),
        (" 2h ", 2 * HOUR),
        ("15m", 15 * 60_000),
        ("7d", 7 * 24 * HOUR),
        ("2w", 14 * 24 * HOUR),
        ("30s", 30_000),
        ("250ms", 250),
        ("1h30m", 90 * 60_000),
        ("1.5h", 90 * 60_000),
        ("0s", 0),
    ],
)
def test_an_age_counts_back_from_now(text: str, ago_ms: int) -> None:
    assert parsed(text) == NOW - ago_ms


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [
        ("2024-03-01T12:00Z", NOON),
        ("2024-03-01T12:00:00+00:00", NOON),
        ("2024-03-01T13:30+01:30", NOON),
        ("2024-03-01 12:00:00.250Z", NOON + 250),
        ("20240301T120000Z", NOON),
    ],
)
def test_a_time_with_a_zone_is_that_moment(text: str, expected_ms: int) -> None:
    assert parsed(text) == expected_ms


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [
        ("2024-03-01T12:00", NOON - 2 * HOUR),
        ("2024-03-01 12:00:01", NOON - 2 * HOUR + 1000),
        ("2024-03-01", NOON - 14 * HOUR),
    ],
)
def test_a_time_without_a_zone_is_local(text: str, expected_ms: int) -> None:
    assert parsed(text) == expected_ms


def test_milliseconds_since_1970_carry_a_mark() -> None:
    assert parsed("@1700000000000") == NOW


@pytest.mark.parametrize(
    "text",
    [
        "99999w",
        f"{'9' * 400}w",
        "0001-01-01",
        "0001-01-01T00:00Z",
        "1900-01-01",
        "1969-12-31T23:59:59.999Z",
    ],
)
def test_a_time_before_1970_is_1970(text: str) -> None:
    """Below zero the protocol has other meanings: -1 is the end of the log."""
    assert parsed(text) == 0
    assert parse_time(text, now_ms=NOW) == 0  # In the zone of this machine, too.


@pytest.mark.parametrize("text", ["@9999999999999999999", "@9223372036854775807"])
def test_a_time_fits_the_protocol_at_the_other_end_too(text: str) -> None:
    assert parsed(text) == 2**63 - 1


def test_the_last_day_of_the_calendar_is_a_time_in_every_zone() -> None:
    for zone in (timezone(timedelta(hours=-12)), timezone(timedelta(hours=12)), None):
        assert parse_time("9999-12-31T23:59", now_ms=NOW, zone=zone) > 253_402_000_000_000


@pytest.mark.parametrize("text", ["", "yesterday", "2", "-2h", "2 h", "2hours", "2024-13-01", "@x"])
def test_what_is_no_time_is_refused_with_examples(text: str) -> None:
    with pytest.raises(NotATime, match="write it as one of: now, 2h, 7d, 2024-03-01"):
        parsed(text)


def test_a_length_of_time_alone() -> None:
    assert parse_age("90s") == 90_000
    with pytest.raises(NotATime, match="90s, 15m, 2h or 7d"):
        parse_age("soon")


def test_a_shown_time_reads_back() -> None:
    assert parse_time(show_time(NOW + 7), now_ms=0) == NOW + 7


@pytest.mark.parametrize("time_ms", [253_402_300_800_000, 10**17, 2**63 - 1])
def test_a_time_beyond_the_calendar_is_shown_as_its_number_and_reads_back(time_ms: int) -> None:
    assert show_time(time_ms) == f"@{time_ms}"
    assert parse_time(show_time(time_ms), now_ms=0) == time_ms
