"""What follows from a scenario before any price: rates, object sizes, disks, brokers.

Symbols of the formulas: w, stored bytes a second; M, seconds of the billed month; s, bytes of a
segment as it really gets; P, partitions; RF, replicas; L, local retention; R, retention.
"""

from dataclasses import dataclass

from cost_model.arith import at_least, at_most, ceil, is_zero, ratio, where
from cost_model.merges import merged_segment
from cost_model.prices import PriceBook
from cost_model.scenario import Scenario
from cost_model.units import GB, GIB, HOUR

BILLED_GB = {"binary": GIB, "decimal": GB}


@dataclass(frozen=True, slots=True, kw_only=True)
class Derived:
    """Figures that several lines share."""

    scenario: Scenario
    book: PriceBook
    gb: float
    """Bytes of a billed GB."""
    hours: float
    month_s: float
    stored_rate: float
    """w: bytes a second after compression."""
    segment: float
    """s: a quiet partition rolls by time before its segment is full."""
    merged: float
    """What a segment ends up in: itself, or an object that many small ones were merged into."""
    local_retention: float
    local_bytes: float
    """All replicas, without free space."""
    disk_bytes: float
    """Provisioned, with free space."""
    brokers: float
    hit: float
    """Share of cold reads that the chunk cache serves."""

    @property
    def month_bytes(self) -> float:
        """Stored bytes written in a month."""
        return self.stored_rate * self.month_s


def derive(scenario: Scenario, book: PriceBook) -> Derived:
    work, tiering, cluster = scenario.workload, scenario.tiering, scenario.cluster
    rate = work.write / work.compression
    segment = at_most(tiering.segment, rate / work.partitions * tiering.roll)
    local = tiering.local_retention if tiering.enabled else work.retention
    # The active segment of a partition cannot tier: it is a floor that L does not lower.
    held = cluster.replicas * (rate * local + work.partitions * segment)
    disk = held / (1 - cluster.disk_free)
    brokers = _brokers(scenario, book, rate=rate, disk=disk)
    hours = scenario.billing.month_hours
    return Derived(
        scenario=scenario,
        book=book.with_prices(scenario.prices),
        gb=BILLED_GB[scenario.billing.gb],
        hours=hours,
        month_s=hours * HOUR,
        stored_rate=rate,
        segment=segment,
        merged=_merged(scenario, rate, segment),
        local_retention=local,
        local_bytes=held,
        disk_bytes=disk,
        brokers=brokers,
        hit=_hit(scenario, brokers),
    )


def _merged(scenario: Scenario, rate: float, segment: float) -> float:
    work, tiering = scenario.workload, scenario.tiering
    if is_zero(tiering.merge):
        return segment
    return merged_segment(
        segment,
        target=at_most(tiering.merge, tiering.segment),
        reach=rate / work.partitions * work.retention,
    )


def _brokers(scenario: Scenario, book: PriceBook, *, rate: float, disk: float) -> float:
    """The largest of the rules, whole, and never fewer than replicas."""
    cluster = scenario.cluster
    if cluster.brokers is not None:
        return cluster.brokers
    needed = at_least(
        at_least(_by_cpu(scenario, book, rate), _by_write(scenario, rate)),
        disk / _disk_each(scenario, book),
    )
    return at_least(ceil(needed), cluster.replicas)


def _by_cpu(scenario: Scenario, book: PriceBook, rate: float) -> float:
    work, cluster = scenario.workload, scenario.cluster
    produce = rate * work.peak / cluster.vcpu_produce
    consume = rate * work.peak * work.groups / cluster.vcpu_consume
    return at_least(produce, consume) / book.instances[cluster.instance].vcpu


def _by_write(scenario: Scenario, rate: float) -> float:
    cluster = scenario.cluster
    return rate * scenario.workload.peak * cluster.replicas / cluster.broker_write


def _disk_each(scenario: Scenario, book: PriceBook) -> float:
    """What one broker can hold; on NVMe the cache takes its share first."""
    cluster = scenario.cluster
    if cluster.disk != "nvme":
        return cluster.disk_max
    return at_least(book.instances[cluster.instance].nvme_gb * GB - scenario.reads.cache, GB)


def _hit(scenario: Scenario, brokers: float) -> float:
    """Repeats hit as far as the cache holds what they touch."""
    reads = scenario.reads
    useful = at_most(reads.cache * brokers, reads.hot_set)
    held = where(reads.hot_set > 0, ratio(useful, reads.hot_set), 1.0)
    return reads.repeat * where(reads.cache > 0, held, 0.0)
