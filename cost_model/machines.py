"""Brokers, their disks, people, and own hardware."""

from collections.abc import Iterable, Iterator

from cost_model.arith import at_least, ceil
from cost_model.bill import Line
from cost_model.derive import Derived
from cost_model.prices import user_amount
from cost_model.units import TB, Quantity, Unit, brief_duration, brief_size
from cost_model.usage import ClassUsage

WATTS_PER_KW = 1000.0


def broker_lines(derived: Derived) -> Iterator[Line]:
    cluster = derived.scenario.cluster
    given = "as given" if cluster.brokers is not None else "by traffic, disk and replicas"
    yield Line(
        item=f"brokers, {cluster.instance}",
        quantity=Quantity(derived.brokers * derived.hours, Unit.INSTANCE_HOUR),
        price=derived.book[f"instance.{cluster.instance}"],
        how=lambda: f"{derived.brokers:,.0f} brokers ({given}) x {derived.hours:g} h",
    )


def operation_lines(derived: Derived) -> Iterator[Line]:
    """People's time is what the user says it is; it is a line of its own."""
    yield _as_given("operations", derived.scenario.cluster.operations)


def _as_given(item: str, usd: float) -> Line:
    return Line(
        item=item,
        quantity=Quantity(usd, Unit.MONTH),
        price=user_amount(item),
        how=lambda: "US dollars a month, as given",
    )


def disk_lines(derived: Derived) -> Iterator[Line]:
    scenario, book = derived.scenario, derived.book
    disk = scenario.cluster.disk
    yield Line(
        item=f"local log, {disk}",
        quantity=Quantity(derived.disk_bytes / derived.gb, Unit.GB_MONTH),
        price=book[f"disk.{disk}.storage"],
        how=lambda: _log_words(derived),
    )
    if scenario.tiering.enabled:
        yield Line(
            item=f"chunk cache, {disk}",
            quantity=Quantity(scenario.reads.cache * derived.brokers / derived.gb, Unit.GB_MONTH),
            price=book[f"disk.{disk}.storage"],
            how=lambda: f"{brief_size(scenario.reads.cache)} x {derived.brokers:,.0f} brokers",
        )
    yield from _performance(derived)


def _log_words(derived: Derived) -> str:
    work, cluster = derived.scenario.workload, derived.scenario.cluster
    return (
        f"{cluster.replicas:g} replicas x ({brief_size(derived.stored_rate)}/s x "
        f"{brief_duration(derived.local_retention)} + {work.partitions:,g} active segments x "
        f"{brief_size(derived.segment)}) / (1 - {cluster.disk_free:g} free)"
    )


def _performance(derived: Derived) -> Iterator[Line]:
    """gp3 sells speed above a free amount per volume; io2 sells every operation."""
    cluster, book = derived.scenario.cluster, derived.book
    if cluster.disk not in {"gp3", "io2"}:
        return
    peak = derived.stored_rate * derived.scenario.workload.peak * cluster.replicas
    each = peak / derived.brokers
    iops = each / cluster.disk_io
    free_iops = book.limits["gp3_free_iops"] if cluster.disk == "gp3" else 0.0
    yield Line(
        item=f"disk operations, {cluster.disk}",
        quantity=Quantity(at_least(iops - free_iops, 0.0) * derived.brokers, Unit.IOPS_MONTH),
        price=book[f"disk.{cluster.disk}.iops"],
        how=lambda: f"{iops:,.0f} IOPS at peak a broker, {free_iops:,.0f} free",
    )
    if cluster.disk == "gp3":
        free = book.limits["gp3_free_mbps"]
        above = at_least(each / 1e6 - free, 0.0) * derived.brokers
        yield Line(
            item="disk throughput, gp3",
            quantity=Quantity(above, Unit.MBPS_MONTH),
            price=book["disk.gp3.throughput"],
            how=lambda: f"{each / 1e6:,.1f} MB/s at peak a broker, {free:,.0f} free",
        )


def hardware_lines(derived: Derived, usages: Iterable[ClassUsage]) -> Iterator[Line]:
    """Own machines for what lies in class OWN: bought, written off, powered, housed."""
    held = sum((each.stored_bytes for each in usages if each.storage_class == "OWN"), 0.0)
    own, tiering = derived.scenario.hardware, derived.scenario.tiering
    if not tiering.enabled or all(each.storage_class != "OWN" for each in tiering.classes):
        return
    raw = own.drives * own.drive_tb * TB
    usable = raw * own.data_shards / (own.data_shards + own.parity_shards)
    nodes = at_least(ceil(held / usable), own.nodes)
    kwh = nodes * own.watts / WATTS_PER_KW * derived.hours * own.pue
    rows = [
        ("own nodes", nodes / own.amortise_months, Unit.NODE, "hardware.node"),
        ("own drives", nodes * raw / TB / own.amortise_months, Unit.TB, "hardware.drive_tb"),
        ("power", kwh, Unit.KWH, "hardware.kwh"),
    ]
    for item, value, unit, key in rows:
        yield Line(
            item=item,
            quantity=Quantity(value, unit),
            price=derived.book[key],
            how=lambda: (
                f"{nodes:,.0f} nodes for {brief_size(held)}, {brief_size(usable)} usable each, "
                f"over {own.amortise_months:g} months"
            ),
        )
    yield _as_given("rack and hands", own.rack)
