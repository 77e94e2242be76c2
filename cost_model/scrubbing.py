"""What the scrubber of a node asks for: it looks at every object and reads every byte, for ever.

Two rounds over all segments. One asks for every object (a HEAD request); the other asks once more
and reads each to its end, in pieces, first what stands behind the batches. Where a class bills
retrieval, every byte pays it again in every round. Archives are only asked for: they do not answer
a read. The table is not scrubbed.
"""

from collections.abc import Iterator

from cost_model.arith import ceil, is_zero, ratio
from cost_model.derive import Derived
from cost_model.flow import Flow
from cost_model.units import MIB, brief_duration, brief_size
from cost_model.usage import ClassUsage

SCRUB = "scrub of"
PIECE = 4 * MIB
"""Bytes per GET of tierlog's scrubber."""


def scrub_usages(flow: Flow, usages: list[ClassUsage], derived: Derived) -> Iterator[ClassUsage]:
    tiering = derived.scenario.tiering
    if flow.what != "segments":
        return
    if is_zero(tiering.scrub_every) and is_zero(tiering.scrub_ask_every):
        return
    for usage in usages:
        yield _scrub(flow, usage, derived)


def _rounds(derived: Derived, every: float) -> float:
    """In a month; none where there is no such round."""
    return ratio(derived.month_s, every)


def _scrub(flow: Flow, usage: ClassUsage, derived: Derived) -> ClassUsage:
    tiering = derived.scenario.tiering
    reads, asks = (
        _rounds(derived, each) for each in (tiering.scrub_every, tiering.scrub_ask_every)
    )
    if derived.book.classes[usage.storage_class].is_archive:
        reads = 0.0
    pieces = ceil(flow.object_bytes / PIECE) + 1
    size, heads = usage.stored_bytes * reads, usage.objects * (asks + reads)
    return ClassUsage(
        what=f"{SCRUB} {flow.what}",
        storage_class=usage.storage_class,
        heads=heads,
        gets=usage.objects * reads * pieces,
        retrieved_bytes=size,
        words={
            "get": lambda: (
                f"{brief_size(size)}: every byte in {brief_duration(tiering.scrub_every)}, "
                f"{pieces:g} GETs an object of {brief_size(flow.object_bytes)}"
            ),
            "head": lambda: f"{usage.objects:,.0f} objects x {asks + reads:.4g} times",
            "retrieval": lambda: (
                f"{brief_size(size)}: every byte in {brief_duration(tiering.scrub_every)}"
            ),
        },
    )
