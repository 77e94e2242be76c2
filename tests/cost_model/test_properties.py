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
from cost_model.scenario import Parquet, Reads, Tiering, Workload
from cost_model.units import YEAR
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


def with_objects_of_one_size(scenario: Scenario) -> Scenario:
    """Its objects keep their size, however busy partitions become.

    A quiet partition rolls by time and merges what it rolled, so that more bytes make larger
    objects: another policy, with fewer requests to write and to read a gigabyte, and one that may
    move to cheaper classes where objects of less than 128 KiB do not. Here segments are full at the
    size that they have now, and stay as they are.
    """
    alone = with_input(scenario, "tiering.merge", 0.0)
    size = derive(alone, default_book()).segment
    tiering = replace(alone.tiering, segment=size, roll=1000 * YEAR)
    return replace(alone, tiering=tiering)


def raised(scenario: Scenario, path: str, factor: float) -> Scenario:
    value = get_input(scenario, path)
    more = round(value * factor) if path == "cluster.replicas" else value * factor
    return with_input(scenario, path, more)


def check_that_it_costs_no_less(before: Scenario, after: Scenario, *, pinned: bool = True) -> None:
    """`pinned`: on as many brokers, for they bring cache with them, which saves reads."""
    old, new = (derive(each, default_book()) for each in (before, after))
    assert new.brokers >= old.brokers
    if pinned:
        before, after = (
            with_input(each, "cluster.brokers", new.brokers) for each in (before, after)
        )
    cheap, dear = (plan(each, check=False).total for each in (before, after))
    # A nano-dollar a line is what rounding may take back.
    assert dear >= cheap - Decimal("1e-6")


def in_fair_comparison(scenario: Scenario, *, pinned: bool) -> Scenario:
    """Without what is another thing where objects grow: a fixed number of rewrites hits objects of
    another size and age. And, where brokers are free, without repeats: another broker has another
    cache."""
    fair = with_input(scenario, "erasure.requests", 0.0)
    return fair if pinned else with_input(fair, "reads.repeat", 0.0)


def check_that_growing_costs_more(before: Scenario, after: Scenario, *, pinned: bool) -> None:
    """Objects that grow past 128 KiB move to cheaper classes from there on: left out."""
    moves = [
        [flow.movable for flow in flows_of(derive(each, default_book()))]
        for each in (before, after)
    ]
    assume(moves[0] == moves[1])
    check_that_it_costs_no_less(before, after, pinned=pinned)


def with_more_traffic(scenario: Scenario, factor: float) -> Scenario:
    return raised(raised(scenario, "workload.write", factor), "reads.replay", factor)


def check_that_more_costs_more(scenario: Scenario, path: str, factor: float) -> None:
    """Other things equal, reads included: objects keep their size, brokers their number.

    A fixed number of rewrites hits older objects in a longer history, which owe less to minimum
    durations: that is another thing, so that longer retention is looked at without erasure.
    """
    if path == "workload.retention":
        scenario = with_input(scenario, "erasure.requests", 0.0)
    before = with_objects_of_one_size(scenario)
    after = raised(before, path, factor)
    alone = with_input(scenario, "tiering.merge", 0.0)
    sizes = [
        [flow.object_bytes for flow in flows_of(derive(each, default_book()))]
        for each in (alone, before, after)
    ]
    assert sizes[0] == pytest.approx(sizes[1], rel=1e-9)
    assert sizes[1] == sizes[2]
    check_that_it_costs_no_less(before, after)


PINNED = pytest.mark.parametrize("pinned", [True, False], ids=["pinned", "free"])
GROWING = settings(max_examples=60, deadline=None)


@PINNED
@GROWING
@given(scenarios(), st.floats(1.0, 10.0), st.booleans())
def test_more_traffic_never_costs_less(
    pinned: bool, scenario: Scenario, factor: float, growing: bool
) -> None:
    """Writes and replays alike: whether objects grow with them or not, on given brokers or as many
    as it takes."""
    fair = in_fair_comparison(scenario, pinned=pinned)
    before = fair if growing else with_objects_of_one_size(fair)
    check_that_growing_costs_more(before, with_more_traffic(before, factor), pinned=pinned)


@PINNED
@GROWING
@given(scenarios(), st.floats(1.0, 10.0))
def test_more_bytes_never_cost_less_to_write_to_keep_and_to_follow(
    pinned: bool, scenario: Scenario, factor: float
) -> None:
    """Without replays; who falls behind still reads from the store."""
    before = with_input(in_fair_comparison(scenario, pinned=pinned), "reads.replay", 0.0)
    check_that_growing_costs_more(before, raised(before, "workload.write", factor), pinned=pinned)


@PINNED
@GROWING
@given(scenarios(), st.floats(1.0, 10.0))
def test_a_longer_history_that_is_read_as_often_never_costs_less(
    pinned: bool, scenario: Scenario, factor: float
) -> None:
    before = in_fair_comparison(scenario, pinned=pinned)
    after = raised(raised(before, "workload.retention", factor), "reads.replay", factor)
    check_that_growing_costs_more(before, after, pinned=pinned)


@PINNED
@GROWING
@given(scenarios(), st.integers(1, 4))
def test_more_replicas_never_cost_less(pinned: bool, scenario: Scenario, factor: int) -> None:
    before = in_fair_comparison(scenario, pinned=pinned)
    after = raised(before, "cluster.replicas", factor)
    check_that_it_costs_no_less(before, after, pinned=pinned)


@pytest.mark.slow
@PINNED
@settings(max_examples=2000, deadline=None)
@given(scenarios(), st.floats(1.0, 10.0), st.floats(1.0, 10.0))
def test_more_traffic_for_longer_never_costs_less_in_a_long_search(
    pinned: bool, scenario: Scenario, factor: float, longer: float
) -> None:
    before = in_fair_comparison(scenario, pinned=pinned)
    after = with_more_traffic(before, factor)
    check_that_growing_costs_more(before, after, pinned=pinned)
    kept = raised(raised(before, "workload.retention", longer), "reads.replay", longer)
    check_that_growing_costs_more(before, kept, pinned=pinned)


def test_why_a_fixed_replay_is_left_out_there() -> None:
    """Ten times the bytes in objects of ten times the size: the same terabyte, a tenth of the
    indexes and of the last, short chunks. That is what the store bills, and no slip of ours."""
    quiet = Scenario(
        workload=Workload(write=1e5, partitions=1000),
        tiering=Tiering(scrub_every=0.0, merge=0.0),
        reads=Reads(replay=1e12, cache=0.0),
        parquet=Parquet(enabled=False),
    )
    busy = with_input(quiet, "workload.write", 1e6)
    few, many = (
        sum(line.usd for line in plan(each).lines if line.item.endswith("GET requests"))
        for each in (busy, quiet)
    )
    assert few == pytest.approx(many / 10)
    # With objects of one size the same terabyte takes the same requests.
    pinned = with_objects_of_one_size(quiet)
    gets = [
        sum(line.usd for line in plan(each).lines if line.item.endswith("GET requests"))
        for each in (pinned, with_input(pinned, "workload.write", 1e6))
    ]
    assert gets[0] == pytest.approx(many)
    assert gets[1] == pytest.approx(many)


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
