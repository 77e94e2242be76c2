"""Bytes that cross zones, NAT gateways, regions and the provider's edge.

Identity behind the zone lines: bytes across = w x M x (p + (RF - 1) + c x groups), where p and c
are (A - 1) / A, or 0 where clients stay in their zone. It meets four published bills.
"""

import itertools
from collections.abc import Iterator

from cost_model.arith import at_least, between, floor, is_zero
from cost_model.bill import Line
from cost_model.derive import Derived
from cost_model.reading import cold_bytes, replayed
from cost_model.units import Quantity, Unit, brief_size


def zone_lines(derived: Derived) -> Iterator[Line]:
    scenario = derived.scenario
    away = (scenario.cluster.zones - 1) / scenario.cluster.zones
    copies = copies_across(scenario.cluster.replicas, scenario.cluster.zones)
    produce = 0.0 if scenario.network.zone_aware_produce else away
    replication = copies if scenario.network.replication_billed else 0.0
    fetch = 0.0 if scenario.network.follower_fetch else away * scenario.workload.groups
    month = derived.month_bytes
    yield _crossing(derived, "produce", month, produce)
    yield _crossing(derived, "replication", month, replication)
    yield _crossing(derived, "consume", month, fetch)
    if scenario.reads.replay_from == "broker" and not scenario.network.follower_fetch:
        yield _crossing(derived, "replay through brokers", replayed(derived), away)


def copies_across(replicas: float, zones: float) -> float:
    """Replicas outside of the leader's zone, on average, when they are spread evenly.

    RF - 1 where every replica has a zone of its own, 0 in a single zone.
    """
    each = floor(replicas / zones)
    fuller = replicas - each * zones
    beside = (fuller * (each + 1) ** 2 + (zones - fuller) * each**2) / replicas
    return replicas - beside


def _crossing(derived: Derived, what: str, size: float, share: float) -> Line:
    directions = derived.scenario.network.directions
    return Line(
        item=f"across zones: {what}",
        quantity=Quantity(size * share * directions / derived.gb, Unit.GB),
        price=derived.book["transfer.cross_zone"],
        how=lambda: f"{brief_size(size)} x {share:.4g} across, billed on {directions:g} sides",
    )


def edge_lines(derived: Derived, *, moved: float) -> Iterator[Line]:
    """NAT, other regions, the internet. `moved`: between node and store, cold reads aside."""
    scenario, book = derived.scenario, derived.book
    if scenario.tiering.endpoint == "nat":
        through = moved + cold_bytes(derived)
        zones = scenario.cluster.zones
        yield Line(
            item="NAT: bytes to and from the store",
            quantity=Quantity(through / derived.gb, Unit.GB),
            price=book["transfer.nat.data"],
            how=lambda: f"{brief_size(through)}; a gateway endpoint would be free",
        )
        yield Line(
            item="NAT: gateways",
            quantity=Quantity(zones * derived.hours, Unit.GATEWAY_HOUR),
            price=book["transfer.nat.hour"],
            how=lambda: f"{zones:g} zones x {derived.hours:g} h",
        )
    yield Line(
        item="to other regions",
        quantity=Quantity(scenario.reads.cross_region / derived.gb, Unit.GB),
        price=book["transfer.cross_region"],
        how=lambda: f"{brief_size(scenario.reads.cross_region)} a month",
    )
    yield from _egress(derived)


def _egress(derived: Derived) -> Iterator[Line]:
    book, size = derived.book, derived.scenario.reads.egress
    if is_zero(size):
        return
    billed = at_least(size / derived.gb - book.limits["egress_free_gb"], 0.0)
    ends = [0.0, *map(float, book.limits["egress_tiers_gb"]), float("inf")]
    for tier, (low, high) in enumerate(itertools.pairwise(ends), start=1):
        yield Line(
            item=f"to the internet, tier {tier}",
            quantity=Quantity(between(billed, low, high), Unit.GB),
            price=book[f"transfer.egress.tier{tier}"],
            how=lambda: f"{brief_size(size)} a month, the first 100 GB free",
        )
