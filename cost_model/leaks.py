"""Leak checks: money that goes where nobody looks. Each is a sentence with its figure."""

from collections.abc import Iterator

from cost_model.derive import Derived
from cost_model.flow import MIN_TRANSITION
from cost_model.moves import refused
from cost_model.reading import cold_bytes
from cost_model.scrubbing import SCRUB
from cost_model.units import GIB, KIB, brief_duration, brief_size
from cost_model.usage import ClassUsage

WORTH_MOVING = 1e6
"""A transition into IA pays back within a month only for objects above about 1 MB."""
SCRUB_SHARE = 0.2
"""Of what the bytes cost to keep: a scrub that retrieves for more is worth a word."""
EARLY_SHARE = 0.05
SMALL_LOG = 1e12
"""Active segments below a terabyte are not worth a word."""
DEFAULT_CACHE = 10 * GIB
"""A cache of this size costs cents; it is not worth a word."""


def leaks(derived: Derived, usages: list[ClassUsage]) -> list[str]:
    return [*_disk(derived), *_store(derived, usages), *_reads(derived)]


def _disk(derived: Derived) -> Iterator[str]:
    work, cluster = derived.scenario.workload, derived.scenario.cluster
    floor = cluster.replicas * work.partitions * derived.segment
    if floor > max(derived.local_bytes / 2, SMALL_LOG):
        yield (
            f"active segments are {floor / derived.local_bytes:.0%} of the local log "
            f"({brief_size(floor)}): a shorter local retention saves little, smaller segments do"
        )
    disk = derived.book.instances[cluster.instance].nvme_gb
    if cluster.disk == "nvme" and not disk:
        yield f"{cluster.instance} has no local NVMe, so its disks seem free: choose another"


def _store(derived: Derived, usages: list[ClassUsage]) -> Iterator[str]:
    tiering = derived.scenario.tiering
    if not tiering.enabled:
        return
    if tiering.endpoint == "nat":
        yield (
            "bytes to the store pass a NAT gateway at $0.045/GB, twice a month's storage: "
            "add a gateway endpoint, it is free"
        )
    yield from _objects(derived, len(tiering.classes) > 1)
    for usage in usages:
        if usage.early_bytes > usage.stored_bytes * EARLY_SHARE > 0:
            yield (
                f"{usage.what} leave {usage.storage_class} before its minimum duration: "
                f"{brief_size(usage.early_bytes)} are paid for after deletion"
            )
    for stage in tiering.classes:
        known = derived.book.classes[stage.storage_class]
        if known.is_archive:
            yield (
                f"the first byte from {stage.storage_class} takes "
                f"{brief_duration(known.first_byte_s)} and a restore, which tierlog never asks "
                "for: consumers, replays and scrubs of that age fail"
            )
    yield from (
        f"{each}; the bill is that of a class it cannot have" for each in refused(tiering.classes)
    )
    yield from _scrubs(derived, usages)


def _scrubs(derived: Derived, usages: list[ClassUsage]) -> Iterator[str]:
    """Retrieval that nobody asked for, beside what the bytes cost to keep."""
    for usage in usages:
        known = derived.book.classes[usage.storage_class]
        key = f"{known.prices}.retrieval"
        if not usage.what.startswith(SCRUB) or key not in derived.book:
            continue
        paid = usage.retrieved_bytes / derived.gb * derived.book[key].value
        held = sum(
            each.stored_bytes
            for each in usages
            if each.storage_class == known.name and f"{SCRUB} {each.what}" == usage.what
        )
        if paid > SCRUB_SHARE * held / derived.gb * derived.book[known.storage_price].value > 0:
            every = derived.scenario.tiering.scrub_every
            yield (
                f"the scrubber reads every byte in {brief_duration(every)}, which is "
                f"${paid:,.0f} a month of retrieval from {known.name}: a longer "
                "tierlog.scrub.byte.period.ms costs less and finds damage later"
            )


def _objects(derived: Derived, moves: bool) -> Iterator[str]:
    first, size = derived.segment, derived.merged
    if first < derived.scenario.tiering.segment / 4:
        later = f", before it is merged into about {brief_size(size)}" if size > first else ""
        yield (
            f"segments roll by time at {brief_size(first)}, long before "
            f"{brief_size(derived.scenario.tiering.segment)}: each pays its own PUTs{later}; fewer "
            "partitions or a longer roll save them"
        )
    if moves and size < MIN_TRANSITION:
        yield f"objects below {MIN_TRANSITION / KIB:.0f} KiB are never moved to colder classes"
    elif moves and size < WORTH_MOVING:
        yield f"moving objects of {brief_size(size)} costs more than a month of it saves"


def _reads(derived: Derived) -> Iterator[str]:
    reads = derived.scenario.reads
    per_second = cold_bytes(derived) / derived.month_s / reads.chunk
    limit = derived.book.limits["get_per_prefix_s"] * derived.scenario.workload.partitions
    if per_second > limit:
        yield f"{per_second:,.0f} GET/s on average exceed {limit:,.0f} over all prefixes"
    if derived.hit == 0 and reads.cache > DEFAULT_CACHE and derived.scenario.tiering.enabled:
        yield (
            f"the chunk cache of {brief_size(reads.cache)} a broker saves nothing: no cold read "
            "repeats (reads.repeat is 0)"
        )
