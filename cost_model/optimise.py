"""The cheapest policy that keeps the limits: segment size, local retention, classes by age, cache.

Only what can be set is tried. A node reads in chunks of one size; its cache is left as it is unless
reads are said to repeat, since nothing else tells what a cache saves.

A grid over sizes is evaluated at once for every class ladder (arrays in the place of numbers); from
its best point single steps go on while they save. The scenario's own policy is one of the points:
the answer never costs more, unless the scenario's own policy breaks a limit.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cost_model.arith import is_array
from cost_model.bill import Bill
from cost_model.derive import derive
from cost_model.ladders import COLD, SINGLE, Ladder, ladders, moved, refusals, unfit
from cost_model.limits import Limits, broken, figures, kept
from cost_model.plan import plan
from cost_model.policy import UNREADABLE
from cost_model.prices import PriceBook, default_book
from cost_model.scenario import Scenario
from cost_model.units import GIB, MIB

SEGMENTS = tuple(size * MIB for size in (8, 16, 32, 64, 128, 256, 512, 1024))
CACHES = tuple(size * GIB for size in (0, 1, 10, 50, 100, 500))
STEPS_MAX = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimum:
    """What to do, what it costs, and what was out of the question."""

    scenario: Scenario | None
    """None: nothing keeps the limits."""
    bill: Bill | None
    before: Bill
    broken_before: list[str]
    """Limits that the scenario's own policy does not keep."""
    refused: list[str]
    warnings: list[str]
    """What must be known before the answer is applied."""


def optimise(
    scenario: Scenario, *, limits: Limits | None = None, book: PriceBook | None = None
) -> Optimum:
    limits, book = limits or Limits(), book or default_book()
    best = _best_of_grid(scenario, limits, book)
    if best is not None:
        best = _descend(best, limits, book)
        if _is_fit(scenario, limits, book) and not _saves(best, scenario, book):
            best = scenario
    names = list(dict.fromkeys((*SINGLE, *COLD)))
    before = figures(derive(scenario, book), limits)
    return Optimum(
        scenario=best,
        bill=None if best is None else plan(best, book=book),
        before=plan(scenario, book=book),
        broken_before=[
            *broken(before, limits),
            *unfit(scenario.tiering.classes, replace(limits, first_byte=None), book),
        ],
        refused=list(refusals(book, limits, names)),
        warnings=[] if best is None else list(_warnings(best, book)),
    )


def _is_fit(scenario: Scenario, limits: Limits, book: PriceBook) -> bool:
    if not scenario.tiering.enabled or any(unfit(scenario.tiering.classes, limits, book)):
        return False
    return bool(kept(figures(derive(scenario, book), limits), limits))


def _saves(best: Scenario, own: Scenario, book: PriceBook) -> bool:
    """A change that saves nothing is none."""
    one, other = (plan(each, book=book, check=False).total for each in (best, own))
    return one < other


def _warnings(best: Scenario, book: PriceBook) -> Iterator[str]:
    names = [stage.storage_class for stage in best.tiering.classes]
    for name in names:
        if book.classes[name].is_archive:
            yield UNREADABLE.format(name=name)
    if "EXPRESS_ONE_ZONE" in names:
        yield "EXPRESS_ONE_ZONE is a directory bucket in one zone; tierlog was not tried on one"


def _best_of_grid(scenario: Scenario, limits: Limits, book: PriceBook) -> Scenario | None:
    best: tuple[float, Scenario] | None = None
    for each in ladders(scenario, limits, book):
        found = _cheapest(scenario, each, limits, book)
        if found is not None and (best is None or found[0] < best[0]):
            best = found
    return None if best is None else best[1]


def _cheapest(
    scenario: Scenario, classes: Ladder, limits: Limits, book: PriceBook
) -> tuple[float, Scenario] | None:
    axes = _axes(scenario, limits)
    mesh = [each.ravel() for each in np.meshgrid(*axes, indexing="ij")]
    many = _with(scenario, classes, *mesh)
    ok = _as_array(kept(figures(derive(many, book), limits), limits), len(mesh[0]))
    if not ok.any():
        return None
    usd = np.where(ok, _as_array(plan(many, book=book, check=False).usd, len(mesh[0])), np.inf)
    at = int(np.argmin(usd))
    return float(usd[at]), _with(scenario, classes, *(float(each[at]) for each in mesh))


def _axes(scenario: Scenario, limits: Limits) -> list[list[float]]:
    """Sizes to try; what the scenario has is always among them."""
    longest = scenario.workload.retention
    own = scenario.tiering.local_retention
    locals_ = {own, min(max(limits.lag, 1.0), longest)}
    return [
        sorted({*SEGMENTS, scenario.tiering.segment}),
        sorted(locals_),
        sorted({*(CACHES if scenario.reads.repeat else ()), scenario.reads.cache}),
    ]


def _with(scenario: Scenario, classes: Ladder, segment: Any, local: Any, cache: Any) -> Scenario:
    return replace(
        scenario,
        tiering=replace(
            scenario.tiering, classes=classes, segment=segment, local_retention=local, enabled=True
        ),
        reads=replace(scenario.reads, cache=cache),
    )


def _as_array(value: Any, count: int) -> Any:
    return value if is_array(value) else np.full(count, value)


def _descend(start: Scenario, limits: Limits, book: PriceBook) -> Scenario:
    """Steps to cheaper neighbours that keep the limits, until there is none."""
    best, cost = start, plan(start, book=book, check=False).total
    for _ in range(STEPS_MAX):
        found = None
        for each in _neighbours(best):
            if not kept(figures(derive(each, book), limits), limits):
                continue
            total = plan(each, book=book, check=False).total
            if total < cost:
                found, cost = each, total
        if found is None:
            return best
        best = found
    return best


def _neighbours(of: Scenario) -> Iterator[Scenario]:
    tiering, reads = of.tiering, of.reads
    for factor in (0.5, 2.0):
        # A segment's index has 32-bit positions: 1 GiB is Kafka's own default and far below them.
        if MIB <= tiering.segment * factor <= GIB:
            yield replace(of, tiering=replace(tiering, segment=tiering.segment * factor))
        if reads.repeat:
            yield replace(of, reads=replace(reads, cache=reads.cache * factor))
    for each in moved(tiering.classes):
        yield replace(of, tiering=replace(tiering, classes=each))
