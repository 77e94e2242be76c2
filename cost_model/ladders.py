"""Class ladders: which storage classes, from which age on, the optimiser tries."""

from collections.abc import Iterator

from cost_model.limits import Limits
from cost_model.prices import PriceBook
from cost_model.scenario import Scenario, Stage
from cost_model.units import DAY, brief_duration

Ladder = tuple[Stage, ...]

IA_AGES = (30, 60, 90, 180)
"""Lifecycle rules move to IA no earlier than after 30 days (recalled)."""
COLD_AGES = (1, 7, 30, 60, 90, 180, 365)
SINGLE = ("STANDARD", "STANDARD_IA", "GLACIER_IR", "EXPRESS_ONE_ZONE")
COLD = ("GLACIER_IR", "GLACIER_FLEXIBLE", "DEEP_ARCHIVE")


def ladder(*steps: tuple[str, float]) -> Ladder:
    return tuple(Stage(storage_class=name, after=age) for name, age in steps)


def ladders(scenario: Scenario, limits: Limits, book: PriceBook) -> list[Ladder]:
    """The scenario's own first, then all that can meet the limit on the first byte."""
    known = [scenario.tiering.classes, *_every(scenario.workload.retention)]
    return [each for each in dict.fromkeys(known) if _possible(each, limits, book)]


def _every(retention: float) -> Iterator[Ladder]:
    for name in SINGLE:
        yield ladder((name, 0.0))
    ages = [day * DAY for day in COLD_AGES if day * DAY < retention]
    for ia in (day * DAY for day in IA_AGES if day * DAY < retention):
        yield ladder(("STANDARD", 0.0), ("STANDARD_IA", ia))
        for name in COLD:
            yield from (
                ladder(("STANDARD", 0.0), ("STANDARD_IA", ia), (name, age))
                for age in ages
                if age > ia
            )
    for name in COLD:
        yield from (ladder(("STANDARD", 0.0), (name, age)) for age in ages)


def _possible(each: Ladder, limits: Limits, book: PriceBook) -> bool:
    names = [stage.storage_class for stage in each]
    if not limits.express and "EXPRESS_ONE_ZONE" in names:
        return False
    return not any(refusals(book, limits, names))


def refusals(book: PriceBook, limits: Limits, names: list[str]) -> Iterator[str]:
    """Why classes cannot be used at all."""
    bound = limits.first_byte
    for name in names:
        wait = book.classes[name].first_byte_s
        if bound is not None and wait > bound:
            yield (
                f"{name}: its first byte takes {brief_duration(wait)}, "
                f"the limit is {brief_duration(bound)}"
            )


def moved(each: Ladder) -> Iterator[Ladder]:
    """Neighbours: one age cut a month up or down."""
    for at, stage in enumerate(each[1:], start=1):
        for step in (-30 * DAY, -7 * DAY, 7 * DAY, 30 * DAY):
            age = stage.after + step
            least = 30 * DAY if stage.storage_class == "STANDARD_IA" else DAY
            above = each[at + 1].after if at + 1 < len(each) else float("inf")
            if max(least, each[at - 1].after + DAY) <= age < above:
                yield (
                    *each[:at],
                    Stage(storage_class=stage.storage_class, after=age),
                    *each[at + 1 :],
                )
