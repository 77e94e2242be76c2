"""Years, month by month: cohorts of bytes that are written, move through classes, and expire.

A cohort is what one month writes, evenly over the month. The bucket starts empty unless it is
given a past. With a growth rate g the writes of a month are the mean of an exponential over that
month, so that the stock after T months is w x (e^(gT) - e^(g(T-R))) / g exactly, for whole R.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from cost_model.arith import ratio
from cost_model.bill import Bill
from cost_model.derive import Derived, derive
from cost_model.errors import InvalidScenario
from cost_model.flow import Flow, keep_small_objects, put_class, stage_end, sweep_pages
from cost_model.merges import RUN
from cost_model.plan import assemble, flows_of, usages_with_demand
from cost_model.prices import PriceBook, default_book
from cost_model.reading import spread_small
from cost_model.scenario import Scenario
from cost_model.usage import ClassUsage

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Years:
    """A bill for every month. Quantities of the bill are arrays with a place a month."""

    bill: Bill
    usd: Array
    drift: Array
    """What a dollar of today is in each month."""
    stored_bytes: Array
    """In the bucket at the end of each month."""

    @property
    def total(self) -> float:
        return float(self.usd.sum())

    def group(self, name: str) -> Array:
        return np.asarray(self.bill.group(name).usd * self.drift, dtype=float)


def grow(
    scenario: Scenario,
    *,
    months: int,
    yearly_growth: float = 0.0,
    yearly_price_drift: float = 0.0,
    past_months: int = 0,
    book: PriceBook | None = None,
) -> Years:
    """Bills of `months` months; writes grow by a share a year, prices drift by a share a year."""
    if months < 1 or past_months < 0 or yearly_growth <= -1 or yearly_price_drift <= -1:
        raise InvalidScenario("", "months must be positive, growth and drift more than -100 %")
    rates = monthly_factors(months + past_months, yearly_growth, start=-past_months)
    now = rates[past_months:]
    derived = derive(_at_rates(scenario, now), book or default_book())
    usages: list[ClassUsage] = []
    stock = np.zeros(months)
    for flow in flows_of(derived):
        cohorts = _Cohorts(_unit(flow, derived), rates, past_months, derived)
        usages += usages_with_demand(
            flow, cohorts.usages(flow), derived, parts=cohorts.replay_parts(flow)
        )
        stock = stock + cohorts.stock_at_ends()
    bill = assemble(derived, usages)
    drift = (1 + yearly_price_drift) ** (np.arange(months) / 12)
    usd = np.asarray(bill.usd * drift, dtype=float)
    return Years(bill=bill, usd=usd, drift=drift, stored_bytes=stock)


def monthly_factors(months: int, yearly_growth: float, *, start: int = 0) -> Array:
    """Mean of e^(gt) over each month."""
    g = math.log1p(yearly_growth) / 12
    t = np.arange(start, start + months, dtype=float)
    return np.ones(months) if g == 0 else np.exp(g * t) * math.expm1(g) / g


def _at_rates(scenario: Scenario, factors: Array) -> Scenario:
    write: Any = scenario.workload.write * factors
    return replace(scenario, workload=replace(scenario.workload, write=write))


def _unit(flow: Flow, derived: Derived) -> float:
    """Bytes a second of the flow per byte a second written, times today's writes."""
    first: Any = flow.rate
    factor: Any = derived.scenario.workload.write
    return float(first[0] / factor[0]) if len(first) else 0.0


class _Cohorts:
    """Bytes written in months c0, c0 + 1, ... seen from each month of the report.

    Times are in months of the bill; ages are turned into months by the bill's hours.
    """

    def __init__(self, per_write: float, rates: Array, past: int, derived: Derived) -> None:
        write: Any = derived.scenario.workload.write
        self._derived = derived
        scale = per_write * write[0] / rates[past]
        self._bytes = rates * scale * derived.month_s
        self._starts = np.arange(len(rates), dtype=float) - past
        self._months = np.arange(len(rates) - past, dtype=float)
        self._retention = derived.scenario.workload.retention

    def _age(self, seconds: Any) -> Any:
        return seconds / self._derived.month_s

    def written_by(self, time: Array) -> Array:
        """Bytes written up to a time, of all cohorts."""
        part = np.clip(time[:, None] - self._starts[None, :], 0.0, 1.0)
        return np.asarray(part @ self._bytes)

    def _written_sum(self, time: Array) -> Array:
        """Its integral: byte-months."""
        since = time[:, None] - self._starts[None, :]
        inside = np.clip(since, 0.0, 1.0)
        return np.asarray((inside * inside / 2 + np.maximum(since - 1.0, 0.0)) @ self._bytes)

    def mean_in(self, young: float, old: float) -> Array:
        """Mean bytes of an age in [young, old) over each month."""
        a, b = self._age(young), self._age(old)
        start, end = self._months, self._months + 1
        return (self._written_sum(end - a) - self._written_sum(start - a)) - (
            self._written_sum(end - b) - self._written_sum(start - b)
        )

    def reached(self, age: float) -> Array:
        """Bytes that come to an age in each month."""
        a = self._age(age)
        return self.written_by(self._months + 1 - a) - self.written_by(self._months - a)

    def stock_at_ends(self) -> Array:
        end = self._months + 1
        return self.written_by(end) - self.written_by(end - self._age(self._retention))

    def usages(self, flow: Flow) -> list[ClassUsage]:
        made = [self._usage(flow, at) for at in range(len(flow.stages))]
        return keep_small_objects(flow, made, self._derived)

    def replay_parts(self, flow: Flow) -> list[float]:
        """Which part of a replay each class serves: by the bytes that it has by then."""
        window = self._derived.scenario.reads.replay_window
        reach = flow.retention if window is None else min(window, flow.retention)
        held: list[Any] = [
            np.maximum(self.mean_in(min(stage.after, reach), min(stage_end(flow, at), reach)), 0.0)
            for at, stage in enumerate(flow.stages)
        ]
        return spread_small(flow, [ratio(each, sum(held)) for each in held])

    def _usage(self, flow: Flow, at: int) -> ClassUsage:
        derived, tiering = self._derived, self._derived.scenario.tiering
        known = derived.book.classes[flow.stages[at].storage_class]
        start, end = min(flow.stages[at].after, flow.retention), stage_end(flow, at)
        stored: Any = np.maximum(self.mean_in(start, end), 0.0)
        entered: Any = self.reached(start) if start < flow.retention else np.zeros_like(stored)
        rest = max(known.min_duration_s - (end - start), 0.0) / derived.month_s
        gone: Any = self.reached(end) if start < flow.retention else np.zeros_like(stored)
        deleted = gone if end >= flow.retention else 0.0
        objects = stored / flow.object_bytes * flow.objects_each
        sets = entered / flow.object_bytes
        return ClassUsage(
            what=flow.what,
            storage_class=known.name,
            stored_bytes=stored,
            objects=objects,
            # Paid in the month in which the bytes leave, as the provider bills it.
            early_bytes=gone * rest,
            noncurrent_bytes=deleted * (tiering.noncurrent / derived.month_s),
            uploaded_bytes=entered if at == 0 else 0.0,
            puts=sets * flow.puts_each if at == 0 else 0.0,
            put_class=put_class(known.name) if at == 0 else "",
            gets=sets * flow.merges_each * RUN if at == 0 else 0.0,
            heads=sets * flow.merges_each if at == 0 else 0.0,
            lists=sweep_pages(objects, derived),
            transitions=sets * flow.moves_into(at),
        )
