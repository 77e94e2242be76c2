"""Bills by keyword, and parts of them by name."""

from decimal import Decimal
from typing import Any

from cost_model import Bill, from_dict, plan

DECIMAL = {"gb": "decimal"}
QUIET = {"scrub_every": "0 d", "scrub_ask_every": "0 d"}
"""Of `tiering`: no scrubber, where reads by others are looked at."""
LONG = {"write": "100 MB/s", "retention": "1 year"}


def bill(**given: Any) -> Bill:
    return plan(from_dict(given))


def part(of: Bill, words: str) -> float:
    """Dollars of the lines whose name contains the words."""
    return float(sum((line.amount for line in of.lines if words in line.item), Decimal(0)))
