"""From a scenario to the bill of its steady month."""

from collections.abc import Iterable

from cost_model.bill import Bill, Line, bill_of
from cost_model.derive import Derived, derive
from cost_model.flow import Flow, parquet_flow, segment_flow, steady_usages
from cost_model.leaks import leaks
from cost_model.machines import broker_lines, disk_lines, hardware_lines, operation_lines
from cost_model.network import edge_lines, zone_lines
from cost_model.prices import PriceBook, default_book
from cost_model.reading import shares, with_reads
from cost_model.scenario import Scenario
from cost_model.scrubbing import SCRUB, scrub_usages
from cost_model.usage import ClassUsage, store_lines
from cost_model.work import conversion_lines, erasure_usages, key_lines, replay_lines


def plan(scenario: Scenario, *, book: PriceBook | None = None, check: bool = True) -> Bill:
    """The bill of a month in which as many bytes expire as arrive. `check` looks for leaks too."""
    derived = derive(scenario, book or default_book())
    usages = usages_of(derived)
    return assemble(derived, usages, warnings=leaks(derived, usages) if check else ())


def flows_of(derived: Derived) -> list[Flow]:
    """What lies in the bucket: nothing, segments, or segments and Parquet."""
    if not derived.scenario.tiering.enabled:
        return []
    flows = [segment_flow(derived)]
    return flows + ([parquet_flow(derived)] if derived.scenario.parquet.enabled else [])


def usages_of(derived: Derived) -> list[ClassUsage]:
    """What every class is asked for, by writes, reads, erasure and scrubs."""
    usages: list[ClassUsage] = []
    for flow in flows_of(derived):
        usages += usages_with_demand(flow, steady_usages(flow, derived), derived)
    return usages


def usages_with_demand(
    flow: Flow, usages: list[ClassUsage], derived: Derived, *, parts: list[float] | None = None
) -> list[ClassUsage]:
    """`parts` says which share of reads each class serves, where that is not the steady one."""
    read = with_reads(flow, usages, derived, parts or shares(flow, derived))
    return [
        *read,
        *erasure_usages(flow, derived, parts),
        *scrub_usages(flow, usages, derived),
    ]


def assemble(derived: Derived, usages: list[ClassUsage], *, warnings: Iterable[str] = ()) -> Bill:
    """Quantities in, bill out."""
    uploaded = sum((each.uploaded_bytes for each in usages), 0.0)
    scrubbed = sum((each.retrieved_bytes for each in usages if each.what.startswith(SCRUB)), 0.0)
    groups: dict[str, list[Line]] = {
        "brokers": list(broker_lines(derived)),
        "disks": list(disk_lines(derived)),
        "store": store_lines(usages, derived.book, gb=derived.gb),
        "network": [*zone_lines(derived), *edge_lines(derived, moved=uploaded + scrubbed)],
        "compute": [*conversion_lines(derived), *replay_lines(derived)],
        "keys": list(key_lines(derived, usages)),
        "hardware": list(hardware_lines(derived, usages)),
        "operations": list(operation_lines(derived)),
    }
    return bill_of(derived.scenario.name, groups, warnings=warnings)
