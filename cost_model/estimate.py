"""Capacity from messages: the estimator of the product specification, with exact figures.

The specification prints rounded figures in mixed units; `like_the_page` repeats its arithmetic so
that the page can be checked against ours. A cluster never has fewer brokers than replicas.
"""

import math
from dataclasses import dataclass

from cost_model.errors import InvalidScenario
from cost_model.units import DAY, MIB

PEAK = 3.0
BROKER_BYTES_S = 200e6
"""What one broker takes with replication, by the specification."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """Rates in bytes a second, sizes in bytes."""

    messages_s: float
    peak_messages_s: float
    write: float
    consume: float
    retained: float
    replicated: float
    brokers: int
    write_per_broker: float
    consume_per_broker: float


def estimate(
    *,
    messages_s: float,
    message_bytes: float,
    groups: float = 1,
    retention_s: float = 7 * DAY,
    replicas: int = 3,
    peak: float = PEAK,
    brokers: int | None = None,
) -> Capacity:
    """Exact figures. `brokers` may be given; the rule is ceil(peak x RF / 200 MB/s)."""
    _check(
        messages_s=messages_s,
        message_bytes=message_bytes,
        groups=groups,
        retention_s=retention_s,
        replicas=replicas,
        peak=peak,
    )
    write = messages_s * message_bytes
    by_rule = math.ceil(write * peak * replicas / BROKER_BYTES_S * (1 - 1e-12))
    count = max(brokers if brokers is not None else by_rule, replicas)
    return Capacity(
        messages_s=messages_s,
        peak_messages_s=messages_s * peak,
        write=write,
        consume=write * groups,
        retained=write * retention_s,
        replicated=write * retention_s * replicas,
        brokers=count,
        write_per_broker=write / count,
        consume_per_broker=write * groups / count,
    )


def _check(**given: float) -> None:
    for name, value in given.items():
        if not math.isfinite(value) or value < (1 if name == "replicas" else 0):
            raise InvalidScenario(name, f"{value!r} is out of bounds")


@dataclass(frozen=True, slots=True, kw_only=True)
class Printed:
    """The specification's own figures: MB of 2**20 bytes, rounded, and then reckoned with."""

    write_qps: int
    peak_qps: int
    write_mbps: float
    storage_tb: float
    consumer_mbps: float
    brokers_by_formula: int


def like_the_page(
    *, messages_day: float, message_bytes: float, groups: int, retention_days: float, replicas: int
) -> Printed:
    rate = messages_day / DAY
    mbps = round(rate * message_bytes / MIB, 1)
    peak_mbps = rate * PEAK * message_bytes / MIB
    return Printed(
        write_qps=round(rate),
        peak_qps=round(rate * PEAK),
        write_mbps=mbps,
        storage_tb=round(mbps * retention_days * DAY / 1e6, 1),
        consumer_mbps=round(mbps * groups, 1),
        brokers_by_formula=math.ceil(peak_mbps * replicas / 200),
    )
