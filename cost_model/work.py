"""Computing on stored bytes: Parquet conversion, replays, erasure; and the keys of encryption."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from cost_model.arith import at_least, is_zero, ratio
from cost_model.bill import Line
from cost_model.derive import Derived
from cost_model.flow import Flow, put_class, stage_end, upload_requests
from cost_model.moves import is_moved_into
from cost_model.reading import gets_each, replayed, shares
from cost_model.scenario import Scenario
from cost_model.units import HOUR, Quantity, Unit, brief_size
from cost_model.usage import ClassUsage

DPU_VCPU = 4.0
"""vCPU in a Glue DPU (recalled)."""


def conversion_lines(derived: Derived) -> Iterator[Line]:
    """vCPU-hours at the price of the broker's instance: the converter runs beside it."""
    if derived.scenario.parquet.enabled and derived.scenario.tiering.enabled:
        rate = derived.scenario.parquet.rate
        raw = derived.scenario.workload.write * derived.month_s  # The codec runs on what is inside.
        yield _core_hours(derived, "Parquet conversion", raw, rate)


def replay_lines(derived: Derived) -> Iterator[Line]:
    reads = derived.scenario.reads
    size = replayed(derived)
    if reads.engine == "instance":
        yield _core_hours(derived, "replay compute", size, reads.engine_rate)
    elif reads.engine == "glue":
        yield Line(
            item="replay compute, Glue",
            quantity=Quantity(size / reads.engine_rate / HOUR / DPU_VCPU, Unit.DPU_HOUR),
            price=derived.book["glue.dpu_hour"],
            how=lambda: (
                f"{brief_size(size)} at {brief_size(reads.engine_rate)}/s a core, "
                f"{DPU_VCPU:g} cores a DPU"
            ),
        )


def _core_hours(derived: Derived, item: str, size: float, rate: float) -> Line:
    instance = derived.scenario.cluster.instance
    vcpu = derived.book.instances[instance].vcpu
    return Line(
        item=f"{item}, {instance}",
        quantity=Quantity(size / rate / HOUR / vcpu, Unit.INSTANCE_HOUR),
        price=derived.book[f"instance.{instance}"],
        how=lambda: f"{brief_size(size)} at {brief_size(rate)}/s a core, {vcpu} cores an instance",
    )


def key_lines(derived: Derived, usages: Iterable[ClassUsage]) -> Iterator[Line]:
    """KMS asks a price per request unless a bucket key stands between."""
    how = derived.scenario.tiering.encryption
    if how == "store" or not derived.scenario.tiering.enabled:
        return
    yield Line(
        item="KMS key",
        quantity=Quantity(1.0, Unit.MONTH),
        price=derived.book["kms.key"],
        how=lambda: "one key",
    )
    if how == "kms":
        count = sum((each.puts + each.gets for each in usages), 0.0)
        yield Line(
            item="KMS requests",
            quantity=Quantity(count / 10_000, Unit.REQUESTS_10K),
            price=derived.book["kms.requests"],
            how=lambda: f"{count:,.0f} PUTs and GETs; a bucket key would save them",
        )


def erasure_usages(flow: Flow, derived: Derived, parts: list[float] | None) -> list[ClassUsage]:
    """Objects that erasure rewrites: read, written anew, the old one due to its minimum age.

    Requests hit objects of every age alike. An old version that a lock keeps stays beside the new.
    """
    erasure = derived.scenario.erasure
    if is_zero(erasure.requests):
        return []
    hit = erasure.requests * erasure.segments
    parts = parts or shares(flow, replace(derived, scenario=_without_window(derived)))
    return [_rewrites(flow, at, hit * part, derived) for at, part in enumerate(parts)]


def _rewrites(flow: Flow, at: int, count: float, derived: Derived) -> ClassUsage:
    tiering = derived.scenario.tiering
    size = count * flow.object_bytes
    per_month = size / derived.month_s
    puts = upload_requests(size=flow.object_bytes, tiering=tiering, objects=flow.objects_each)
    puts = puts + tiering.publish_puts
    moved = flow.movable if is_moved_into(flow.stages[at].storage_class) else 0.0
    return ClassUsage(
        what=f"erasure in {flow.what}",
        storage_class=flow.stages[at].storage_class,
        uploaded_bytes=size,
        puts=count * puts,
        put_class=put_class(flow.stages[at].storage_class),
        # The new object is written as STANDARD, and the rule moves it once more.
        transitions=count * flow.objects_each * moved,
        gets=count * gets_each(flow, derived),
        retrieved_bytes=size,
        early_bytes=per_month * _minimum_again(flow, at, derived),
        noncurrent_bytes=per_month * derived.scenario.erasure.lock,
        words={
            "put": lambda: f"{count:,.4g} rewrites x {puts:.4g} requests, publication included",
            "get": lambda: f"{count:,.4g} objects of {brief_size(flow.object_bytes)} in chunks",
        },
    )


def _without_window(derived: Derived) -> Scenario:
    scenario = derived.scenario
    return replace(scenario, reads=replace(scenario.reads, replay_window=None))


def _minimum_again(flow: Flow, at: int, derived: Derived) -> float:
    """Seconds of storage that a rewrite adds, over all ages in the class.

    The old object is due to its minimum duration, and so is the new one, which is younger by the
    age of the old. What the flow pays anyway, where it expires early, is taken off.
    """
    least = derived.book.classes[flow.stages[at].storage_class].min_duration_s
    span = at_least(stage_end(flow, at) - flow.stages[at].after, 0.0)
    anyway = at_least(least - span, 0.0)
    # The rest of one object falls from `least` to `anyway` on the way through the class.
    mean_rest = ratio((least * least - anyway * anyway) / 2, at_least(span, 1e-9))
    return 2 * mean_rest - anyway
