"""Other systems with the same workload: what a scenario is compared with.

A preset keeps workload, zones, network habits, reads and prices, and changes what the other system
does differently. Each change is one that its own documentation or public calculators state.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

from cost_model.arith import at_most
from cost_model.errors import CostError, nearest
from cost_model.scenario import Scenario, Stage
from cost_model.units import DAY, GIB, HOUR, MIB


def kafka_on_disk(scenario: Scenario) -> Scenario:
    """Self-run Kafka that keeps all of the retention on the brokers' disks."""
    return replace(
        _kafka(scenario),
        name="kafka on disk",
        tiering=replace(scenario.tiering, enabled=False, segment=GIB, roll=7 * DAY),
    )


def kafka_tiered(scenario: Scenario) -> Scenario:
    """Self-run Kafka with KIP-405 and an S3 plugin: three objects a segment, one class."""
    tiering = replace(
        scenario.tiering,
        enabled=True,
        local_retention=at_most(HOUR, scenario.workload.retention),
        segment=GIB,
        roll=7 * DAY,
        objects=3,
        single_put=25 * MIB,
        part=25 * MIB,
        publish_puts=0.0,
        merge=0.0,
        scrub_every=0.0,
        scrub_ask_every=0.0,
        classes=(Stage(storage_class="STANDARD", after=0.0),),
    )
    return replace(_kafka(scenario), name="kafka tiered", tiering=tiering)


def msk_tiered(scenario: Scenario) -> Scenario:
    """Amazon MSK with tiered storage: three days local at least, replication not billed."""
    tiering = replace(
        kafka_tiered(scenario).tiering,
        local_retention=at_most(3 * DAY, scenario.workload.retention),
        classes=(Stage(storage_class="MSK_TIERED", after=0.0),),
        sweeps_per_day=0.0,
    )
    return replace(
        _kafka(scenario),
        name="msk tiered",
        tiering=tiering,
        cluster=replace(scenario.cluster, instance="kafka.m7g.large", disk="msk", brokers=None),
        network=replace(scenario.network, replication_billed=False),
    )


def _kafka(scenario: Scenario) -> Scenario:
    """No Parquet copy, no chunk cache of ours; replays pass the brokers."""
    return replace(
        scenario,
        parquet=replace(scenario.parquet, enabled=False),
        reads=replace(scenario.reads, cache=0.0, replay_from="broker", chunk=4 * MIB),
        uncertainty=scenario.uncertainty,
    )


PRESETS: Mapping[str, Callable[[Scenario], Scenario]] = {
    "kafka": kafka_on_disk,
    "kafka-tiered": kafka_tiered,
    "msk-tiered": msk_tiered,
}


def preset(name: str, scenario: Scenario) -> Scenario:
    if name not in PRESETS:
        raise CostError(f"no preset {name!r}; {nearest(name, PRESETS)}")
    return PRESETS[name](scenario)
