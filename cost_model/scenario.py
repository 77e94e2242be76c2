"""A scenario: everything a bill depends on, as one immutable value.

Seven sections. Sizes are bytes, rates bytes a second, durations seconds; `read.py` takes them as
text with units. Every default says why. Defaults describe tierlog with its own topic defaults in
three zones of one AWS region; `presets.py` makes other systems out of a scenario.
"""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any

from cost_model.arith import every
from cost_model.errors import InvalidScenario
from cost_model.fields import Kind, check_value, setting, spec_of
from cost_model.units import DAY, GIB, HOUR, KIB, MIB, MINUTE

DISKS = ("gp3", "gp2", "io2", "st1", "sc1", "nvme", "msk")


class Section:
    """Checks every field of a section against its spec."""

    __slots__ = ()

    def __post_init__(self) -> None:
        name = type(self).__name__.lower()
        for each in fields(self):  # type: ignore[arg-type]  # every section is a dataclass
            if "spec" in each.metadata:
                value = getattr(self, each.name)
                check_value(spec_of(each), value, path=f"{name}.{each.name}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload(Section):
    """What applications do."""

    write: float = setting(
        Kind.RATE, 10e6, "mean bytes producers send before compression; state yours", above=True
    )
    compression: float = setting(
        Kind.NUMBER,
        1.0,
        "bytes before / after; 1 assumes nothing, measured data gave 2.8 to 5",
        low=1.0,
    )
    peak: float = setting(
        Kind.NUMBER, 3.0, "peak / mean, sizes the brokers; product specification", low=1.0
    )
    partitions: float = setting(Kind.COUNT, 100, "of all topics together", low=1)
    groups: float = setting(Kind.NUMBER, 1.0, "consumer groups that read everything once")
    retention: float = setting(Kind.DURATION, 7 * DAY, "Kafka's and tierlog's default", above=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster(Section):
    """The machines."""

    replicas: float = setting(Kind.COUNT, 3, "the usual replication factor", low=1)
    zones: float = setting(Kind.COUNT, 3, "one replica a zone", low=1)
    brokers: float | None = setting(
        Kind.COUNT, None, "worked out from traffic and disk; never fewer than replicas", low=1
    )
    instance: str = setting(
        Kind.CHOICE, "m7g.xlarge", "4 vCPU, 16 GiB; any instance of the price book"
    )
    broker_write: float = setting(
        Kind.RATE,
        200e6,
        "what one broker takes with replication; product specification",
        above=True,
    )
    vcpu_produce: float = setting(
        Kind.RATE,
        5 * MIB,
        "per vCPU; public sizing rule of a calculator, read 2026-11-16",
        above=True,
    )
    vcpu_consume: float = setting(
        Kind.RATE, 15 * MIB, "per vCPU, at the same time; the same rule", above=True
    )
    disk: str = setting(Kind.CHOICE, "gp3", "cheaper per GB than instance NVMe", choices=DISKS)
    disk_free: float = setting(
        Kind.NUMBER, 0.5, "share kept free; the public sizing rule", high=0.95
    )
    disk_max: float = setting(
        Kind.SIZE, 16 * 1024 * GIB, "per broker; the largest gp3 volume", above=True
    )
    disk_io: float = setting(
        Kind.SIZE, 128 * KIB, "bytes per disk operation; the public sizing rule", above=True
    )
    operations: float = setting(
        Kind.NUMBER, 0.0, "US dollars a month for people; never hidden, never guessed"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """From this age on, bytes lie in this storage class."""

    storage_class: str
    after: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiering(Section):
    """How the log reaches the object store and what becomes of it there."""

    enabled: bool = setting(Kind.FLAG, True, "the normal case of tierlog")
    local_retention: float = setting(
        Kind.DURATION, 10 * MINUTE, "tierlog's local.retention.ms", above=True
    )
    segment: float = setting(Kind.SIZE, 128 * MIB, "tierlog's segment.bytes", above=True)
    roll: float = setting(
        Kind.DURATION, HOUR, "tierlog's segment.ms: quiet partitions make small objects", above=True
    )
    objects: float = setting(
        Kind.COUNT, 1, "per segment; tierlog writes one, Kafka's S3 plugin three", low=1
    )
    single_put: float = setting(
        Kind.SIZE, 256 * MIB, "larger objects go in parts; tierlog's own bound", above=True
    )
    part: float = setting(
        Kind.SIZE, 64 * MIB, "of an object that goes in parts; tierlog's own", above=True
    )
    publish_puts: float = setting(
        Kind.NUMBER, 1.0, "small PUTs that publish a segment: tierlog's HEAD"
    )
    publish_every: float = setting(
        Kind.DURATION,
        1.0,
        "what a partition seals meanwhile is published together; tierlog's look at it",
    )
    publish_most: float = setting(
        Kind.COUNT, 8, "segments that go into one publication; tierlog's own bound", low=1
    )
    merge: float = setting(
        Kind.SIZE, 128 * MIB, "small segments become objects of it; tierlog.merge.max.bytes; 0: no"
    )
    classes: tuple[Stage, ...] = (Stage(storage_class="STANDARD", after=0.0),)
    sweeps_per_day: float = setting(
        Kind.NUMBER, 0.15, "full listings in search of orphans; tierlog's are weekly"
    )
    scrub_every: float = setting(
        Kind.DURATION,
        90 * DAY,
        "every byte is read once in it, and pays retrieval; tierlog.scrub.byte.period.ms; 0: never",
    )
    scrub_ask_every: float = setting(
        Kind.DURATION, 7 * DAY, "every object is asked for once in it; tierlog's own; 0: never"
    )
    noncurrent: float = setting(
        Kind.DURATION, 0.0, "how long versioning keeps deleted bytes; 0: no versioning"
    )
    encryption: str = setting(
        Kind.CHOICE,
        "store",
        "store: the store's own keys, free; kms: a request each; bucket-key: hardly any",
        choices=("store", "kms", "bucket-key"),
    )
    endpoint: str = setting(
        Kind.CHOICE,
        "gateway",
        "gateway endpoints are free; through NAT every byte pays",
        choices=("gateway", "nat"),
    )

    def __post_init__(self) -> None:
        Section.__post_init__(self)
        _check_stages(self.classes)


def _check_stages(stages: tuple[Stage, ...]) -> None:
    path = "tiering.classes"
    if not stages or not every(stages[0].after == 0):
        raise InvalidScenario(path, "the first class must start at age 0 (after: 0 d)")
    for before, after in itertools.pairwise(stages):
        if not every(before.after < after.after):
            raise InvalidScenario(
                path, f"{after.storage_class} must start after the class before it"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Reads(Section):
    """Reads of history. Bytes are stored bytes, after compression."""

    tail_miss: float = setting(
        Kind.NUMBER, 0.0, "share of tailing reads that the local disk no longer has", high=1.0
    )
    replay: float = setting(Kind.SIZE, 0.0, "bytes read from history in a month")
    replay_window: float | None = setting(
        Kind.DURATION,
        None,
        "replays read evenly from this youngest part; all of the history",
        above=True,
    )
    replay_from: str = setting(
        Kind.CHOICE,
        "broker",
        "through brokers, or from the bucket: segments or Parquet",
        choices=("broker", "segments", "parquet"),
    )
    chunk: float = setting(Kind.SIZE, 8 * MIB, "bytes per GET; what tierlog asks for", above=True)
    index_gets: float = setting(
        Kind.NUMBER, 1.0, "GETs beside, for each object that is read: its index"
    )
    cache: float = setting(Kind.SIZE, 10 * GIB, "chunk cache per broker; tierlog's default")
    repeat: float = setting(
        Kind.NUMBER,
        0.0,
        "share of cold reads that were read before: what a cache can save",
        high=1.0,
    )
    hot_set: float = setting(
        Kind.SIZE, 0.0, "distinct bytes that those repeats touch: what the cache must hold"
    )
    engine: str = setting(
        Kind.CHOICE, "none", "what computes on replayed bytes", choices=("none", "glue", "instance")
    )
    engine_rate: float = setting(
        Kind.RATE, 50e6, "per core; 101 to 138 MB/s were measured on two cores, 2026-11", above=True
    )
    egress: float = setting(Kind.SIZE, 0.0, "to the internet in a month")
    cross_region: float = setting(Kind.SIZE, 0.0, "to other regions in a month")


@dataclass(frozen=True, slots=True, kw_only=True)
class Network(Section):
    """What crosses zones."""

    zone_aware_produce: bool = setting(Kind.FLAG, False, "clients write to any leader")
    follower_fetch: bool = setting(
        Kind.FLAG, False, "KIP-392 needs a setting on both sides; many clusters lack it"
    )
    replication_billed: bool = setting(Kind.FLAG, True, "self-run brokers pay; MSK does not")
    directions: float = setting(
        Kind.NUMBER, 2.0, "sides that pay for a byte across zones; AWS bills each way", high=2.0
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Parquet(Section):
    """The table beside the log."""

    enabled: bool = setting(Kind.FLAG, True, "tierlog.table.enable is true by default")
    size_ratio: float = setting(
        Kind.NUMBER, 1.0, "Parquet bytes / stored log bytes; zstd log and zstd table measured alike"
    )
    file: float = setting(
        Kind.SIZE,
        128 * MIB,
        "most that a merge of small Parquet files makes; tierlog's",
        above=True,
    )
    rate: float = setting(
        Kind.RATE,
        50e6,
        "converted per core; 101 to 138 MB/s measured on two cores, 2026-11",
        above=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Erasure(Section):
    """Rewrites on request: a person's records leave sealed segments."""

    requests: float = setting(Kind.NUMBER, 0.0, "a month")
    segments: float = setting(Kind.NUMBER, 100.0, "segments that one request touches; state yours")
    lock: float = setting(
        Kind.DURATION, 0.0, "how long Object Lock or versioning keeps the old object"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware(Section):
    """Own machines below storage class OWN. No public price: all recalled, all to be replaced."""

    nodes: float = setting(Kind.COUNT, 4, "at least; more where the bytes need them", low=1)
    drives: float = setting(Kind.COUNT, 12, "per node", low=1)
    drive_tb: float = setting(Kind.NUMBER, 20.0, "TB per drive", above=True)
    data_shards: float = setting(Kind.COUNT, 12, "erasure coding, k", low=1)
    parity_shards: float = setting(Kind.COUNT, 4, "erasure coding, m")
    amortise_months: float = setting(Kind.NUMBER, 60.0, "five years", above=True)
    watts: float = setting(Kind.NUMBER, 450.0, "per node")
    pue: float = setting(Kind.NUMBER, 1.5, "power of the room / power of the machines", low=1.0)
    rack: float = setting(Kind.NUMBER, 0.0, "US dollars a month for space and hands")


@dataclass(frozen=True, slots=True, kw_only=True)
class Billing(Section):
    """Conventions that move a total more than all request prices together."""

    region: str = setting(Kind.CHOICE, "us-east-1", "the region of the price book")
    gb: str = setting(
        Kind.CHOICE,
        "binary",
        "a billed GB is 2**30 bytes, as in AWS's own worked example (S3 FAQ)",
        choices=("binary", "decimal"),
    )
    month_hours: float = setting(
        Kind.NUMBER, 730.0, "8,760 h / 12; 720 or 744 move totals 3.3 %", above=True, high=744.0
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """How unsure a number is: least, most likely, most."""

    low: float
    mode: float
    high: float
    shape: str = "triangular"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """All a bill depends on."""

    name: str = "scenario"
    workload: Workload = field(default_factory=Workload)
    cluster: Cluster = field(default_factory=Cluster)
    tiering: Tiering = field(default_factory=Tiering)
    reads: Reads = field(default_factory=Reads)
    network: Network = field(default_factory=Network)
    parquet: Parquet = field(default_factory=Parquet)
    erasure: Erasure = field(default_factory=Erasure)
    hardware: Hardware = field(default_factory=Hardware)
    billing: Billing = field(default_factory=Billing)
    prices: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    uncertainty: Mapping[str, Range] = field(default_factory=lambda: MappingProxyType({}))

    def __post_init__(self) -> None:
        if not every(self.tiering.local_retention <= self.workload.retention):
            raise InvalidScenario(
                "tiering.local_retention", "must not exceed workload.retention, as in Kafka"
            )
        _check_replay_source(self)
        brokers = self.cluster.brokers
        if brokers is not None and not every(brokers >= self.cluster.replicas):
            raise InvalidScenario("cluster.brokers", "fewer brokers than replicas")
        for key, usd in self.prices.items():
            check_price(usd, path=f"prices.{key}")


def check_price(usd: float, *, path: str) -> None:
    # NaN fails every comparison.
    if not every(usd >= 0) or not every(usd < float("inf")):
        raise InvalidScenario(path, f"{usd!r} is not a price: US dollars, at least 0 and finite")


def _check_replay_source(scenario: Scenario) -> None:
    """What is not kept cannot be read."""
    source = scenario.reads.replay_from
    if source != "broker" and not scenario.tiering.enabled:
        raise InvalidScenario("reads.replay_from", f"{source} needs tiering.enabled")
    if source == "parquet" and not scenario.parquet.enabled:
        raise InvalidScenario("reads.replay_from", "parquet needs parquet.enabled")


SECTIONS: dict[str, type[Any]] = {
    "workload": Workload,
    "cluster": Cluster,
    "tiering": Tiering,
    "reads": Reads,
    "network": Network,
    "parquet": Parquet,
    "erasure": Erasure,
    "hardware": Hardware,
    "billing": Billing,
}
