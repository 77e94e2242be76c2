"""Times as people write them. Pure.

`now`; an age such as `2h`, `15m`, `7d`, `1h30m`, meaning that long ago; an ISO date or time, in the
local zone unless it names one; `@` and milliseconds since 1970, for scripts.

A time before 1970 means 1970: no record is older, and below zero the protocol has other meanings.
"""

import re
from datetime import UTC, datetime, tzinfo

UNITS_MS = {
    "ms": 1,
    "s": 1_000,
    "m": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
    "w": 7 * 86_400_000,
}

_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d|w)")
_AGE = re.compile(rf"(?:{_PART.pattern})+")
_STAMP = re.compile(r"@[0-9]{1,19}")

LATEST_MS = 2**63 - 1

EXAMPLES = "now, 2h, 7d, 2024-03-01, 2024-03-01T12:00, 2024-03-01T12:00Z"


class NotATime(ValueError):
    """The sentence shows what would be one."""


def parse_time(text: str, *, now_ms: int, zone: tzinfo | None = None) -> int:
    """Milliseconds since 1970-01-01 UTC. Without a zone, that of this machine."""
    return min(max(_moment(text.strip(), now_ms, zone), 0), LATEST_MS)


def _moment(text: str, now_ms: int, zone: tzinfo | None) -> int:
    """As written, which may be before 1970."""
    if text.lower() == "now":
        return now_ms
    if _AGE.fullmatch(text):
        return now_ms - parse_age(text)
    if _STAMP.fullmatch(text):
        return int(text[1:])
    return _iso_ms(text, zone)


def parse_age(text: str) -> int:
    """Milliseconds of `90s`, `1.5h` or `1h30m`."""
    if not _AGE.fullmatch(text):
        raise NotATime(f"'{text}' is not a length of time; write it as 90s, 15m, 2h or 7d")
    parts = _PART.findall(text)
    return round(min(sum(float(number) * UNITS_MS[unit] for number, unit in parts), LATEST_MS))


def show_time(time_ms: int) -> str:
    """ISO in the local zone, to the millisecond; @ and the number beyond the calendar's years."""
    try:
        moment = datetime.fromtimestamp(time_ms / 1000).astimezone()
    except (ValueError, OverflowError, OSError):
        return f"@{time_ms}"
    return moment.isoformat(timespec="milliseconds")


def show_second(time_ms: int) -> str:
    """For tables: in the local zone, to the second, without the zone."""
    moment = show_time(time_ms)
    return (
        moment if moment.startswith("@") else moment[: len("2024-03-01T12:00:00")].replace("T", " ")
    )


def _iso_ms(text: str, zone: tzinfo | None) -> int:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise NotATime(f"'{text}' is not a time; write it as one of: {EXAMPLES}") from None
    if moment.tzinfo is None and zone is not None:
        moment = moment.replace(tzinfo=zone)
    try:
        return round(moment.timestamp() * 1000)
    except (ValueError, OverflowError):  # So near the calendar's end that zones do not matter.
        return round(moment.replace(tzinfo=UTC).timestamp() * 1000)
