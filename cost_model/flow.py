"""A steady flow of objects through storage classes: what each class is asked for.

Bytes of age `a` lie in the last class whose age cut is at most `a`; all leave at the retention.
Leaving a class before its minimum duration, by deletion or by the next transition, pays the rest.
Objects below 128 KiB are not moved by lifecycle rules and stay where they were put.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from cost_model.arith import at_least, at_most, ceil, every, ratio, where
from cost_model.derive import Derived
from cost_model.merges import RUN, merged_file, merges_each
from cost_model.moves import LEAST_BYTES, is_moved_into
from cost_model.scenario import Stage, Tiering
from cost_model.units import DAY, brief_duration, brief_size
from cost_model.usage import ClassUsage

MIN_TRANSITION = LEAST_BYTES
LIST_PAGE = 1000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """Objects of one kind, written at a steady rate."""

    what: str
    rate: float
    """Bytes a second."""
    object_bytes: float
    """Of the large object of a set, in the end: after merges."""
    first_bytes: float
    """As it is written first."""
    objects_each: float
    """Objects that are written together: a segment and what stands beside it."""
    puts_each: float
    """Requests that write one set, its publications and merges included."""
    merges_each: float
    """Merges behind one set, of eight objects each."""
    retention: float
    stages: tuple[Stage, ...]

    @property
    def movable(self) -> float:
        """1 where lifecycle rules move these objects, 0 where they are too small."""
        return where(self.object_bytes >= MIN_TRANSITION, 1.0, 0.0)

    def moves_into(self, at: int) -> float:
        """Objects of a set that a rule moves into a class. The first class is where tierlog writes,
        unless it is one that only rules lead to."""
        first = is_moved_into(self.stages[0].storage_class)
        return self.objects_each * (1.0 if at else self.movable if first else 0.0)


def put_class(storage_class: str) -> str:
    """What a PUT of tierlog writes where objects come by a rule; empty: the class itself."""
    return "STANDARD" if is_moved_into(storage_class) else ""


def upload_requests(*, size: float, tiering: Tiering, objects: float) -> float:
    """One PUT an object, or the parts of the large one with their start and completion."""
    in_parts = ceil(size / tiering.part) + 2 + objects - 1
    return where(size <= tiering.single_put, objects, in_parts)


def publication_requests(derived: Derived) -> float:
    """Per segment. One that is sealed alone pays for its own publication; a partition that seals
    several between two looks at it publishes them together."""
    tiering = derived.scenario.tiering
    each = derived.stored_rate / derived.scenario.workload.partitions
    waiting = each * tiering.publish_every / derived.segment
    return tiering.publish_puts / at_most(at_least(waiting, 1.0), tiering.publish_most)


def segment_flow(derived: Derived) -> Flow:
    tiering = derived.scenario.tiering
    each = publication_requests(derived)
    return _merging_flow(
        derived,
        what="segments",
        rate=derived.stored_rate,
        first=derived.segment,
        last=derived.merged,
        objects=tiering.objects,
        publish=each,
    )


def parquet_flow(derived: Derived) -> Flow:
    """Every segment becomes a file; small ones are merged until they are large enough."""
    table = derived.scenario.parquet
    first = derived.segment * table.size_ratio
    return _merging_flow(
        derived,
        what="Parquet",
        rate=derived.stored_rate * table.size_ratio,
        first=first,
        last=merged_file(first, full=table.file),
        objects=1.0,
        publish=derived.scenario.tiering.publish_puts,
    )


def _merging_flow(
    derived: Derived,
    *,
    what: str,
    rate: float,
    first: float,
    last: float,
    objects: float,
    publish: float,
) -> Flow:
    tiering = derived.scenario.tiering
    merges = merges_each(first, last)
    made = upload_requests(size=first, tiering=tiering, objects=objects) + publish
    again = upload_requests(size=last, tiering=tiering, objects=1.0) + tiering.publish_puts
    return Flow(
        what=what,
        rate=rate,
        object_bytes=last,
        first_bytes=first,
        objects_each=objects,
        puts_each=last / first * made + merges * again,
        merges_each=merges,
        retention=derived.scenario.workload.retention,
        stages=tiering.classes,
    )


def steady_usages(flow: Flow, derived: Derived) -> list[ClassUsage]:
    """Once the retention has passed: as much leaves as comes."""
    usages = []
    for at, stage in enumerate(flow.stages):
        start = at_most(stage.after, flow.retention)
        end = stage_end(flow, at)
        stored = flow.rate * (end - start)
        usages.append(_usage(flow, derived, at, stored=stored, spent=end - start))
    return keep_small_objects(flow, usages, derived)


def stage_end(flow: Flow, at: int) -> float:
    if at + 1 == len(flow.stages):
        return flow.retention
    return at_most(flow.stages[at + 1].after, flow.retention)


def _usage(flow: Flow, derived: Derived, at: int, *, stored: float, spent: float) -> ClassUsage:
    known = derived.book.classes[flow.stages[at].storage_class]
    entered = flow.rate * where(flow.stages[at].after < flow.retention, 1.0, 0.0)
    sets = ratio(entered * derived.month_s, flow.object_bytes)
    last = where(stage_end(flow, at) >= flow.retention, entered, 0.0)
    tiering = derived.scenario.tiering
    objects = ratio(stored, flow.object_bytes) * flow.objects_each
    return ClassUsage(
        what=flow.what,
        storage_class=known.name,
        stored_bytes=stored,
        objects=objects,
        early_bytes=entered * at_least(known.min_duration_s - spent, 0.0),
        noncurrent_bytes=last * tiering.noncurrent,
        uploaded_bytes=entered * derived.month_s if at == 0 else 0.0,
        puts=sets * flow.puts_each if at == 0 else 0.0,
        put_class=put_class(known.name) if at == 0 else "",
        gets=sets * flow.merges_each * RUN if at == 0 else 0.0,
        heads=sets * flow.merges_each if at == 0 else 0.0,
        lists=sweep_pages(objects, derived),
        transitions=sets * flow.moves_into(at),
        words=_words(flow, derived, at, objects=objects, entered=entered * derived.month_s),
    )


def _words(
    flow: Flow, derived: Derived, at: int, *, objects: float, entered: float
) -> dict[str, Callable[[], str]]:
    """How the figures of a class came about."""
    start, end = flow.stages[at].after, stage_end(flow, at)
    sweeps = derived.scenario.tiering.sweeps_per_day * derived.month_s / DAY

    def sets() -> str:
        return f"{brief_size(entered)} in objects of {brief_size(flow.object_bytes)}"

    return {
        "storage": lambda: (
            f"{brief_size(flow.rate)}/s, of age {brief_duration(start)} to {brief_duration(end)}"
        ),
        "put": lambda: (
            f"{sets()} x {flow.puts_each:.4g} requests, publication included"
            + (f", {flow.merges_each:.3g} merges each" if every(flow.merges_each > 0) else "")
        ),
        "head": lambda: f"{sets()} x {flow.merges_each:.3g} merges that are verified",
        "transition": lambda: f"{sets()} x {flow.objects_each:g}",
        "list": lambda: f"{objects:,.0f} objects, 1,000 a page, x {sweeps:.4g} sweeps",
    }


def sweep_pages(objects: float, derived: Derived) -> float:
    """LIST requests of the sweeps in a month; a page names a thousand objects."""
    sweeps = derived.scenario.tiering.sweeps_per_day * derived.month_s / DAY
    return ceil(objects / LIST_PAGE) * sweeps


def keep_small_objects(flow: Flow, usages: list[ClassUsage], derived: Derived) -> list[ClassUsage]:
    """Where objects are too small to move, the first class keeps what later ones would hold."""
    first, *later = usages
    if not later:
        return usages
    least = derived.book.classes[first.storage_class].min_duration_s
    early = flow.rate * at_least(least - flow.retention, 0.0)
    stuck = 1.0 - flow.movable
    kept = replace(
        first,
        stored_bytes=first.stored_bytes + stuck * sum(each.stored_bytes for each in later),
        objects=first.objects + stuck * sum(each.objects for each in later),
        early_bytes=flow.movable * first.early_bytes + stuck * early,
        noncurrent_bytes=first.noncurrent_bytes
        + stuck * sum(each.noncurrent_bytes for each in later),
        lists=first.lists + stuck * sum(each.lists for each in later),
    )
    return [kept, *(_scaled(each, flow.movable) for each in later)]


def _scaled(usage: ClassUsage, share: float) -> ClassUsage:
    return replace(
        usage,
        stored_bytes=usage.stored_bytes * share,
        objects=usage.objects * share,
        early_bytes=usage.early_bytes * share,
        noncurrent_bytes=usage.noncurrent_bytes * share,
        lists=usage.lists * share,
        transitions=usage.transitions * share,
    )
