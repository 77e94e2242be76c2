"""What holds for every scenario."""

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cost_model import Scenario, plan
from cost_model.derive import derive
from cost_model.montecarlo import simulate
from cost_model.plan import flows_of
from cost_model.prices import default_book
from cost_model.read import get_input, with_input
from tests.cost_model.strategies import scenarios

EXAMPLES = settings(max_examples=30, deadline=None)

MORE_COSTS_MORE = [
    "workload.write",
    "workload.groups",
    "workload.retention",
    "cluster.replicas",
    "reads.replay",
    "reads.egress",
    "reads.cross_region",
    "tiering.noncurrent",
    "erasure.requests",
    "cluster.operations",
]


@EXAMPLES
@given(scenarios())
def test_totals_are_exactly_the_sums_of_their_parts(scenario: Scenario) -> None:
    bill = plan(scenario)
    parts = [Fraction(line.amount) for line in bill.lines]
    assert Fraction(bill.total) == sum(parts)
    assert bill.total == sum((group.amount for group in bill.groups), Decimal(0))
    for group in bill.groups:
        assert Fraction(group.amount) == sum(Fraction(line.amount) for line in group.lines)


@EXAMPLES
@given(scenarios())
def test_every_amount_is_its_quantity_times_its_price(scenario: Scenario) -> None:
    for line in plan(scenario).lines:
        exact = Fraction(float(line.quantity.value)) * Fraction(line.price.usd)
        assert abs(exact - Fraction(line.amount)) <= Fraction(1, 2_000_000_000)
        assert line.amount >= 0


def object_sizes(scenario: Scenario) -> list[float]:
    return [each.object_bytes for each in flows_of(derive(scenario, default_book()))]


def check_that_more_costs_more(scenario: Scenario, path: str, factor: float) -> None:
    """Other things equal, and that takes some care.

    Brokers bring cache with them; objects that grow past 128 KiB begin to move to cheaper classes;
    a fixed number of rewrites hits older objects in a longer history; objects that grow take fewer
    requests to read a gigabyte of them, so that reads are left out where they do.
    """
    if path == "workload.retention":
        scenario = with_input(scenario, "erasure.requests", 0.0)
    value = get_input(scenario, path)
    more = round(value * factor) if path == "cluster.replicas" else value * factor
    if object_sizes(scenario) != object_sizes(with_input(scenario, path, more)):
        scenario = with_input(with_input(scenario, "reads.replay", 0.0), "reads.tail_miss", 0.0)
    before, after = scenario, with_input(scenario, path, more)
    old, new = (derive(each, default_book()) for each in (before, after))
    assume([each.movable for each in flows_of(old)] == [each.movable for each in flows_of(new)])
    assert new.brokers >= old.brokers
    cheap, dear = (
        plan(with_input(each, "cluster.brokers", new.brokers), check=False).total
        for each in (before, after)
    )
    # A nano-dollar a line is what rounding may take back.
    assert dear >= cheap - Decimal("1e-6")


@settings(max_examples=80, deadline=None)
@given(scenarios(), st.sampled_from(MORE_COSTS_MORE), st.floats(1.0, 10.0))
def test_more_bytes_retention_or_replicas_never_cost_less(
    scenario: Scenario, path: str, factor: float
) -> None:
    check_that_more_costs_more(scenario, path, factor)


@pytest.mark.slow
@settings(max_examples=2000, deadline=None)
@given(scenarios(), st.sampled_from(MORE_COSTS_MORE), st.floats(1.0, 10.0))
def test_more_never_costs_less_in_a_long_search(
    scenario: Scenario, path: str, factor: float
) -> None:
    check_that_more_costs_more(scenario, path, factor)


@EXAMPLES
@given(scenarios(), st.integers(2, 50))
def test_what_is_metered_scales_with_the_traffic(scenario: Scenario, times: int) -> None:
    """Twice the writes on twice the partitions: twice the transfer and twice the log on disk."""
    work = scenario.workload
    wide = replace(
        scenario,
        workload=replace(work, write=work.write * times, partitions=work.partitions * times),
    )
    small, large = (plan(each, check=False) for each in (scenario, wide))
    for words in ("across zones: produce", "across zones: replication", "across zones: consume"):
        before = sum(line.usd for line in small.lines if line.item == words)
        after = sum(line.usd for line in large.lines if line.item == words)
        assert after == pytest.approx(before * times)
    book = default_book()
    assert derive(wide, book).local_bytes == pytest.approx(
        derive(scenario, book).local_bytes * times
    )


@EXAMPLES
@given(scenarios())
def test_prices_scale_the_bill(scenario: Scenario) -> None:
    doubled = {line.price.key: float(line.price.usd) * 2 for line in plan(scenario).lines}
    doubled.pop("operations", None)
    twice = plan(replace(scenario, prices=doubled), check=False).usd
    people = 2 * scenario.cluster.operations - scenario.cluster.operations
    rack = scenario.hardware.rack
    assert twice + people + rack == pytest.approx(2 * plan(scenario).usd, rel=1e-6)


@EXAMPLES
@given(scenarios())
def test_a_decimal_gb_is_never_cheaper_than_a_binary_one(scenario: Scenario) -> None:
    binary, decimal = (
        plan(replace(scenario, billing=replace(scenario.billing, gb=gb)), check=False).total
        for gb in ("binary", "decimal")
    )
    assert decimal >= binary - Decimal("1e-6")


@settings(max_examples=25, deadline=None)
@given(scenarios(), st.lists(st.floats(1e3, 1e10), min_size=2, max_size=5))
def test_an_array_of_draws_gives_the_bills_of_its_members(
    scenario: Scenario, writes: list[float]
) -> None:
    import numpy as np

    many = simulate(scenario, draws={"workload.write": np.array(writes)})
    for at, write in enumerate(writes):
        alone = plan(with_input(scenario, "workload.write", write), check=False)
        assert many.usd[at] == pytest.approx(float(alone.total), rel=1e-9, abs=1e-6)
