"""What the table of lag says, of answers as a node gives them."""

from typing import Any

import pytest

from tierlog.cli.group_lag import common

BEHIND: dict[str, Any] = {
    "records": 60,
    "bytes": 6_000,
    "seconds": 90.5,
    "trend": "falling",
    "consumed_per_s": 10.0,
    "produced_per_s": 4.0,
    "catch_up_s": 10.0,
    "is_catch_up_known": True,
    "local_left_s": None,
    "is_local_left_known": True,
    "retention_left_s": None,
    "is_retention_left_known": True,
}
UNKNOWN = {
    "trend": "unknown",
    "consumed_per_s": 0.0,
    "catch_up_s": None,
    "is_catch_up_known": False,
    "is_local_left_known": False,
    "is_retention_left_known": False,
}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, ("10/s", "10 s", "stays", "stays")),
        (UNKNOWN, ("?", "?", "?", "?")),
        ({"trend": "stuck", "consumed_per_s": 0.0, "catch_up_s": None}, ("0/s", "never")),
        ({"local_left_s": 0.0}, ("10/s", "10 s", "is off")),
        ({"local_left_s": 30.0, "is_local_left_known": False}, ("10/s", "10 s", "30 s")),
        ({"records": 0}, ("10/s", "-", "-", "-")),
    ],
)
def test_what_is_not_known_is_not_stated_as_a_fact(
    changes: dict[str, Any], words: tuple[str, ...]
) -> None:
    row = common(BEHIND | changes)
    shown = tuple(row[name] for name in ("reads", "caught_up_in", "off_disk_in", "expires_in"))
    assert shown[: len(words)] == words
