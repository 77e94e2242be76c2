"""Scenarios of every shape, for property tests."""

from hypothesis import strategies as st

from cost_model.scenario import (
    Billing,
    Cluster,
    Erasure,
    Network,
    Parquet,
    Reads,
    Scenario,
    Stage,
    Tiering,
    Workload,
)
from cost_model.units import DAY, GIB, KIB, MIB

LADDERS = [
    (Stage(storage_class="STANDARD", after=0.0),),
    (
        Stage(storage_class="STANDARD", after=0.0),
        Stage(storage_class="STANDARD_IA", after=30 * DAY),
    ),
    (
        Stage(storage_class="STANDARD", after=0.0),
        Stage(storage_class="STANDARD_IA", after=30 * DAY),
        Stage(storage_class="GLACIER_IR", after=90 * DAY),
    ),
    (
        Stage(storage_class="STANDARD", after=0.0),
        Stage(storage_class="DEEP_ARCHIVE", after=7 * DAY),
    ),
    (Stage(storage_class="GLACIER_IR", after=0.0),),
    (Stage(storage_class="EXPRESS_ONE_ZONE", after=0.0),),
    (Stage(storage_class="OWN", after=0.0),),
    (Stage(storage_class="R2_STANDARD", after=0.0),),
]


def sizes(low: float, high: float) -> st.SearchStrategy[float]:
    return st.floats(min_value=low, max_value=high, allow_nan=False)


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    retention = draw(sizes(DAY, 3650 * DAY))
    replicas = draw(st.integers(1, 5))
    tiered, table = draw(st.booleans()), draw(st.booleans())
    sources = [
        "broker",
        *(["segments"] if tiered else []),
        *(["parquet"] if tiered and table else []),
    ]
    return Scenario(
        workload=Workload(
            write=draw(sizes(1e3, 1e10)),
            compression=draw(sizes(1, 10)),
            partitions=draw(st.integers(1, 10_000)),
            groups=draw(sizes(0, 20)),
            retention=retention,
        ),
        cluster=Cluster(
            replicas=replicas,
            zones=draw(st.integers(1, 4)),
            disk=draw(st.sampled_from(["gp3", "io2", "st1"])),
            disk_free=draw(sizes(0, 0.9)),
            operations=draw(sizes(0, 1e5)),
        ),
        tiering=Tiering(
            enabled=tiered,
            local_retention=draw(sizes(60, DAY)),
            segment=draw(sizes(64 * KIB, GIB)),
            objects=draw(st.integers(1, 3)),
            classes=draw(st.sampled_from(LADDERS)),
            noncurrent=draw(sizes(0, 30 * DAY)),
            encryption=draw(st.sampled_from(["store", "kms", "bucket-key"])),
            endpoint=draw(st.sampled_from(["gateway", "nat"])),
        ),
        reads=Reads(
            tail_miss=draw(sizes(0, 1)),
            replay=draw(sizes(0, 1e15)),
            replay_from=draw(st.sampled_from(sources)),
            chunk=draw(sizes(64 * KIB, 64 * MIB)),
            repeat=draw(sizes(0, 1)),
            hot_set=draw(sizes(0, 1e13)),
            engine=draw(st.sampled_from(["none", "glue", "instance"])),
            egress=draw(sizes(0, 1e15)),
        ),
        network=Network(
            zone_aware_produce=draw(st.booleans()),
            follower_fetch=draw(st.booleans()),
            directions=draw(st.sampled_from([1.0, 2.0])),
        ),
        parquet=Parquet(enabled=table, size_ratio=draw(sizes(0.05, 2))),
        erasure=Erasure(requests=draw(sizes(0, 1000)), lock=draw(sizes(0, 365 * DAY))),
        billing=Billing(
            gb=draw(st.sampled_from(["binary", "decimal"])),
            month_hours=draw(st.sampled_from([720.0, 730.0, 744.0])),
        ),
    )
