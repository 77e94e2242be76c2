"""What a policy must keep: constraints of the optimiser, each with its figure for a scenario."""

from dataclasses import dataclass
from typing import Any

from cost_model.arith import at_least, at_most, where
from cost_model.derive import Derived
from cost_model.reading import cold_bytes
from cost_model.units import MIB, MINUTE, brief_duration

STREAM_RATE = 85e6
"""Bytes a second of one GET, once it flows (recalled; measure your store)."""
LEAD = 1 * MIB
"""What the first read of a reader waits for; the rest of its chunk comes behind."""
FIRST_BYTE = 1.0
"""Seconds. Consumers that wait longer for a fetch give up sooner or later."""
REWRITE_RATE = 50e6
"""Bytes a second at which erasure rewrites, per core; as the measured conversion."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """None: not asked for."""

    first_byte: float | None = FIRST_BYTE
    """Seconds until a cold read has its first record, p99."""
    archives: bool = False
    """Classes that tierlog cannot read may be used: somebody restores objects by hand."""
    gets_per_prefix: float = 5_500.0
    """GET/s that a prefix takes; a partition is a prefix."""
    replay_rate: float = 0.0
    """Bytes a second at which one partition must be replayable."""
    restore: float | None = None
    """Seconds to refill the disk of a lost broker."""
    erasure: float | None = None
    """Seconds to answer one request for erasure."""
    lag: float = 10 * MINUTE
    """Consumers that are less behind than this read from local disk."""
    express: bool = True
    """Single-zone Express may be used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What a policy does, for comparison with the limits. May be arrays."""

    first_byte: Any
    gets_per_prefix: Any
    restore: Any
    erasure: Any
    lag: Any


def figures(derived: Derived, limits: Limits) -> Figures:
    scenario = derived.scenario
    slowest: Any = 0.0
    for stage in scenario.tiering.classes:
        wait = derived.book.classes[stage.storage_class].first_byte_s
        used = where(stage.after < scenario.workload.retention, wait, 0.0)
        slowest = at_least(slowest, used)
    mean = cold_bytes(derived) / derived.month_s / scenario.workload.partitions
    busiest = at_least(mean * scenario.workload.peak, limits.replay_rate)
    rewritten = scenario.erasure.segments * derived.merged
    return Figures(
        first_byte=slowest + at_most(scenario.reads.chunk, LEAD) / STREAM_RATE,
        gets_per_prefix=busiest / scenario.reads.chunk,
        restore=derived.local_bytes / derived.brokers / scenario.cluster.broker_write,
        erasure=slowest + rewritten / REWRITE_RATE,
        lag=scenario.tiering.local_retention,
    )


def kept(got: Figures, limits: Limits) -> Any:
    """Whether every limit holds; an array of answers where figures are arrays."""
    ok = (got.gets_per_prefix <= limits.gets_per_prefix) & (got.lag >= limits.lag)
    for value, bound in (
        (got.first_byte, limits.first_byte),
        (got.restore, limits.restore),
        (got.erasure, limits.erasure),
    ):
        if bound is not None:
            ok = ok & (value <= bound)
    return ok


def broken(got: Figures, limits: Limits) -> list[str]:
    """Sentences about the limits that a single policy does not keep."""
    rows = [
        ("first byte of a cold read", got.first_byte, limits.first_byte),
        ("restore of a lost broker", got.restore, limits.restore),
        ("erasure", got.erasure, limits.erasure),
    ]
    said = [
        f"{what} takes {brief_duration(value)}, more than {brief_duration(bound)}"
        for what, value, bound in rows
        if bound is not None and value > bound
    ]
    if got.gets_per_prefix > limits.gets_per_prefix:
        said.append(f"{got.gets_per_prefix:,.0f} GET/s on a prefix, more than it takes")
    if got.lag < limits.lag:
        said.append(
            f"local retention {brief_duration(got.lag)} is below {brief_duration(limits.lag)}"
        )
    return said
