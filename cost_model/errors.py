"""What can be wrong with an input. The sentence names the field and what would be right."""

from collections.abc import Iterable
from difflib import get_close_matches

FEW = 40
"""Names that fit into a sentence: classes, instances, keys of a section; not all prices."""


class CostError(ValueError):
    """An input that cannot be priced."""


class InvalidScenario(CostError):
    """A field of a scenario. Carries the dotted path of the field."""

    def __init__(self, field: str, sentence: str) -> None:
        super().__init__(f"{field}: {sentence}" if field else sentence)
        self.field = field


class UnitMismatch(CostError):
    """A quantity met a price of another unit: GB is not GiB, and a GB is not a GB-month."""


class UnknownPrice(CostError):
    """No price has this key."""


class NoBreakEven(CostError):
    """Two plans do not meet between the two ends that were given."""


def nearest(name: str, known: Iterable[str]) -> str:
    """A sentence that helps with a misspelt name: the nearest, and all there are where few."""
    names = sorted(known)
    lowered = {each.lower(): each for each in names}
    close = get_close_matches(name.lower(), lowered, n=1, cutoff=0.6)
    known_are = f"known are {', '.join(names)}"
    if close:
        meant = f"did you mean {lowered[close[0]]}?"
        return f"{meant} {known_are}" if len(names) <= FEW else meant
    return known_are
