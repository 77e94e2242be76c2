"""Which moves between storage classes there are: what S3 takes as a rule, what tierlog can read.

tierlog writes every object as STANDARD; a lifecycle rule moves it. A class that answers at once can
be read like STANDARD. An archive must be restored first, which tierlog never asks for.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import ceil

from cost_model.scenario import Stage
from cost_model.units import DAY, KIB

READABLE = {
    "STANDARD_IA": "STANDARD_IA",
    "ONEZONE_IA": "ONEZONE_IA",
    "INTELLIGENT_TIERING": "INTELLIGENT_TIERING",
    "GLACIER_IR": "GLACIER_IR",
}
ARCHIVES = {"GLACIER_FLEXIBLE": "GLACIER", "DEEP_ARCHIVE": "DEEP_ARCHIVE"}
S3_NAMES = READABLE | ARCHIVES
"""Where rules can move objects to, and what S3 calls it."""
INFREQUENT = ("STANDARD_IA", "ONEZONE_IA")
INFREQUENT_DAYS = 30
"""S3 refuses to move to these classes earlier, and out of them within as many days."""
LEAST_BYTES = 128 * KIB
"""Smaller objects stay: S3's own rule, and where manifests lie."""


def is_moved_into(storage_class: str) -> bool:
    """Whether objects come here by a rule alone, and never by a PUT of tierlog."""
    return storage_class in S3_NAMES


def days(stage: Stage) -> int:
    return ceil(stage.after / DAY)


def moves(classes: Sequence[Stage]) -> list[Stage]:
    """Stages that a rule brings about. Where the first is not what a PUT writes, it does, too."""
    return [stage for at, stage in enumerate(classes) if at or is_moved_into(stage.storage_class)]


def refused(classes: Sequence[Stage]) -> Iterator[str]:
    """Why S3 would not take the rules of these classes."""
    made = moves(classes)
    for stage in made:
        name, after = stage.storage_class, days(stage)
        if not is_moved_into(name):
            yield f"no lifecycle rule can move objects to {name}"
        elif name in INFREQUENT and after < INFREQUENT_DAYS:
            yield (
                f"no lifecycle rule can move objects to {name} after {after} days: S3 asks for "
                f"{INFREQUENT_DAYS}, and tierlog writes STANDARD"
            )
    for before, then in pairwise(made):
        if before.storage_class in INFREQUENT and days(then) < days(before) + INFREQUENT_DAYS:
            yield (
                f"no lifecycle rule can move objects from {before.storage_class} to "
                f"{then.storage_class} within {INFREQUENT_DAYS} days"
            )
