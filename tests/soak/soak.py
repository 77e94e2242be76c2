"""The two ways to soak, and the verdict that both end with.

- `for_minutes`: load all the time, a fault now and then, samples all the time; disk, store and
  memory must stay flat.
- `in_rounds`: each fault once, in an order that the seed draws; after each everything settles, and
  what is left must be manifests and receipts alone. No verdict of it rests on time.

The end is the same. Retention is lifted and records are written, so that there is something to
look at: it is uploaded and converted, the node stopped, `tierlog verify --deep` reads every byte,
and the rows of the tables are compared with what was sent. The node is started, clients read all of
it, retention is put back, and everything must go: expired, collected, swept, no orphan left.
"""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from random import Random
from typing import Any

from tests.soak import sampling, tables
from tests.soak.faults import FAULTS, Fault
from tests.soak.ledger import NO_LIMIT
from tests.soak.sampler import Sampler
from tests.soak.shelves import Measure
from tests.soak.world import PARTITIONS, World

FLOW = 60
"""Records of each partition of the steady topic, before and after a fault of a round."""
HELD = 120
"""The same, while retention is lifted."""


@dataclass(slots=True)
class Report:
    store: str
    seed: int
    faults: list[str] = field(default_factory=list)
    samples: int = 0
    flatness: list[sampling.Flatness] = field(default_factory=list)
    settled: list[Measure] = field(default_factory=list)
    """After each round, and at the end."""
    verified_segments: int = 0
    verified_files: int = 0
    table_rows: int = 0
    """Of tables, compared with what was sent."""
    tables: dict[str, int] = field(default_factory=dict)
    """Counters of the keepers of the tables, of all lives."""
    acked: int = 0
    checked: int = 0
    counters: dict[str, int] = field(default_factory=dict)
    """Of the node's last life."""
    problems: list[str] = field(default_factory=list)

    @property
    def is_sound(self) -> bool:
        return not self.problems

    def as_value(self) -> dict[str, Any]:
        return {
            "is_sound": self.is_sound,
            "store": self.store,
            "seed": self.seed,
            "faults": self.faults,
            "records_acked": self.acked,
            "records_checked": self.checked,
            "samples": self.samples,
            "flatness": {one.name: one.as_value() for one in self.flatness},
            "settled": [asdict(one) for one in self.settled],
            "verified_segments": self.verified_segments,
            "verified_files": self.verified_files,
            "table_rows": self.table_rows,
            "tables": self.tables,
            "counters": self.counters,
            "problems": self.problems,
        }


def in_rounds(world: World, *, seed: int, say: Callable[[str], None]) -> Report:
    rng, report = Random(seed), Report(store=world.shelf.name, seed=seed)
    for fault in rng.sample(FAULTS, k=len(FAULTS)):
        world.flow(FLOW)
        happen(world, fault, rng, report, say)
        world.flow(FLOW)
        with world.paused():
            report.settled.append(world.settle())
    finish(world, report, say)
    return report


def for_minutes(
    world: World, *, minutes: float, fault_s: float, seed: int, say: Callable[[str], None]
) -> Report:
    """A fault every `fault_s` seconds, half as long or half as long again."""
    rng, report = Random(seed), Report(store=world.shelf.name, seed=seed)
    until = time.monotonic() + minutes * 60
    with Sampler(world, say=say) as sampler:
        while time.monotonic() < until:
            next_at = min(time.monotonic() + fault_s * (0.5 + rng.random()), until)
            while time.monotonic() < next_at:
                world.raise_problems()
                time.sleep(0.2)
            happen(world, rng.choice(FAULTS), rng, report, say)
    report.samples = len(sampler.samples)
    report.flatness = sampling.judge(sampler.samples, warm_up_s=2 * world.tempo.life_ms / 1000)
    for one in report.flatness:
        if not one.medians:
            report.problems.append(f"{one.name}: too few samples; soak for longer")
        elif not one.is_flat:
            report.problems.append(f"{one.name} grows: {one.medians}, more than {one.bound:.0f}")
    finish(world, report, say)
    return report


def happen(
    world: World, fault: Fault, rng: Random, report: Report, say: Callable[[str], None]
) -> None:
    began = time.monotonic()
    what = fault(world, rng)
    report.faults.append(what)
    say(f"-- {what}: {time.monotonic() - began:.1f} s")


# The end


def finish(world: World, report: Report, say: Callable[[str], None]) -> None:
    """Raises `AssertionError` where something does not come true at all."""
    for topic in PARTITIONS:
        world.alter(topic, retention_ms=NO_LIMIT)
    world.flow(HELD)
    with world.paused():
        world.uploaded()
        world.converted()
        world.node.stop()
        verify(world, report, say)
        compare_tables(world, report, say)
        world.node.start()
        world.replayed()
    say("-- all of it was read by clients")
    for topic in PARTITIONS:
        world.alter(topic, retention_ms=world.tempo.retention_ms)
    world.flow(1)  # A partition that published nothing since the start keeps older orphans.
    with world.paused():
        report.settled.append(world.settle())
        world.eventually(lambda: count_orphans(world) == 0, "orphans are collected")
        check_counters(world, report)
        say("-- everything is expired, collected and swept")
    for topic in list(world.loads):
        world.end_load(topic)
    world.node.stop()
    check_tables(world, report)
    report.acked, report.checked = world.acked, world.checked
    report.problems += world.all_problems()


def verify(world: World, report: Report, say: Callable[[str], None]) -> None:
    _, found = world.command("verify", "--deep")
    report.problems += [f"verify: {one}" for one in found["findings"]]
    report.verified_segments = sum(one["segments"] for one in found["partitions"])
    report.verified_files = sum(one["table_files"] for one in found["partitions"])
    if not report.verified_segments or not report.verified_files:
        report.problems.append("verify saw no segment, or no table: nothing was shown")
    say(
        f"-- verify --deep: {report.verified_segments} segments, {report.verified_files} files of "
        f"tables, {len(found['findings'])} findings"
    )


def compare_tables(world: World, report: Report, say: Callable[[str], None]) -> None:
    ledgers = {topic: load.ledgers for topic, load in world.loads.items()}
    seen = tables.look(world.shelf, ledgers)
    report.table_rows = seen.rows
    say(f"-- {seen.rows:,} rows of {seen.tables} tables compared, {seen.merged} files are merged")


def count_orphans(world: World) -> int:
    _, found = world.command("store", "orphans")
    return sum(one["orphan_objects"] + one["young_objects"] for one in found["partitions"])


def check_counters(world: World, report: Report) -> None:
    """What the node's last life says of itself; and that all of its chores had their turns."""
    tier = world.node.state()["tier"]
    report.counters = {name: count for name, count in tier["uploads"].items() if count}
    report.problems += [f"scrub: {one}" for one in tier["scrub"]["named"]]
    for name in ("expired_segments", "collected_objects", "scrubbed_manifests"):
        if not report.counters.get(name):
            report.problems.append(f"{name} is 0: a chore had no turn")


def check_tables(world: World, report: Report) -> None:
    """Of all lives: every chore had its turn, and nothing was lost on the way into a table."""
    report.tables = {name: count for name, count in world.node.tables.items() if count}
    for name in ("converted_files", "merged_files", "expired_files", "collected_objects"):
        if not report.tables.get(name):
            report.problems.append(f"{name} of tables is 0: a chore had no turn")
    for name in ("dead_records", "remade_files"):
        if report.tables.get(name):
            report.problems.append(f"{report.tables[name]} {name} of tables: something was lost")
