"""Class ladders: which storage classes, from which age on, the optimiser tries.

All begin with STANDARD, which is what tierlog writes, and go on by rules that S3 takes. Express is
a bucket of its own kind: it has one class.
"""

from collections.abc import Iterator

from cost_model.limits import Limits
from cost_model.moves import INFREQUENT_DAYS, refused
from cost_model.prices import PriceBook
from cost_model.scenario import Scenario, Stage
from cost_model.units import DAY, brief_duration

Ladder = tuple[Stage, ...]

IA_AGES = (30, 60, 90, 180)
COLD_AGES = (1, 7, 30, 60, 90, 180, 365)
SINGLE = ("STANDARD", "EXPRESS_ONE_ZONE")
COLD = ("STANDARD_IA", "GLACIER_IR", "GLACIER_FLEXIBLE", "DEEP_ARCHIVE")


def ladder(*steps: tuple[str, float]) -> Ladder:
    return tuple(Stage(storage_class=name, after=age) for name, age in steps)


def ladders(scenario: Scenario, limits: Limits, book: PriceBook) -> list[Ladder]:
    """The scenario's own first, then all that rules can bring about and that keep the limits."""
    known = [scenario.tiering.classes, *_every(scenario.workload.retention)]
    return [each for each in dict.fromkeys(known) if not any(unfit(each, limits, book))]


def _every(retention: float) -> Iterator[Ladder]:
    for name in SINGLE:
        yield ladder((name, 0.0))
    ages = [day * DAY for day in COLD_AGES if day * DAY < retention]
    for ia in (day * DAY for day in IA_AGES if day * DAY < retention):
        yield ladder(("STANDARD", 0.0), ("STANDARD_IA", ia))
        for name in COLD[1:]:
            yield from (
                ladder(("STANDARD", 0.0), ("STANDARD_IA", ia), (name, age))
                for age in ages
                if age >= ia + INFREQUENT_DAYS * DAY
            )
    for name in COLD[1:]:
        yield from (ladder(("STANDARD", 0.0), (name, age)) for age in ages)


def unfit(each: Ladder, limits: Limits, book: PriceBook) -> Iterator[str]:
    """Why a ladder is out of the question."""
    names = [stage.storage_class for stage in each]
    if not limits.express and "EXPRESS_ONE_ZONE" in names:
        yield "EXPRESS_ONE_ZONE: not wanted"
    yield from refusals(book, limits, names)
    yield from refused(each)


def refusals(book: PriceBook, limits: Limits, names: list[str]) -> Iterator[str]:
    """Why classes cannot be used at all."""
    bound = limits.first_byte
    for name in names:
        known = book.classes[name]
        if known.is_archive and not limits.archives:
            yield f"{name}: tierlog cannot read it, since nothing asks for a restore"
        elif bound is not None and known.first_byte_s > bound:
            yield (
                f"{name}: its first byte takes {brief_duration(known.first_byte_s)}, "
                f"the limit is {brief_duration(bound)}"
            )


def moved(each: Ladder) -> Iterator[Ladder]:
    """Neighbours: one age cut a week or a month up or down, where rules can follow."""
    for at, stage in enumerate(each[1:], start=1):
        for step in (-30 * DAY, -7 * DAY, 7 * DAY, 30 * DAY):
            age = stage.after + step
            above = each[at + 1].after if at + 1 < len(each) else float("inf")
            if not max(DAY, each[at - 1].after + DAY) <= age < above:
                continue
            made = (
                *each[:at],
                Stage(storage_class=stage.storage_class, after=age),
                *each[at + 1 :],
            )
            if not any(refused(made)):
                yield made
