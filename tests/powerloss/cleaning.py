"""Power cuts at every disk operation of a cleaning, and during the recovery that follows.

One seed makes one compacted log of several segments: keys that come again, tombstones, idempotent
producers, codecs. It is cleaned three times, with time passing in between: so that segments are
joined, cleaned ones cleaned again, and tombstones go. At each operation on the way the power is
cut, legal disk states are drawn, and a log that is recovered from one is held to what its users
knew at that moment (`tests/hot/keyedmodel.py`); then it is cleaned once more.

`python -m tests.powerloss.cleaning --seeds 100` searches on and exits 1 at a broken promise.
"""

import argparse
import logging
import sys
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, field, replace
from random import Random

from tests.hot.cleaned import ALWAYS, NOW_MS, SMALL, clean, keyed
from tests.hot.keyedmodel import Ledger, check_clean
from tests.hot.support import append, open_log
from tierlog.hot import Log
from tierlog.hot.errors import LogError
from tierlog.hot.sync import ManualSyncs
from tierlog.records.attributes import Codec
from tierlog.records.errors import BatchError
from tierlog.sim.disk import PowerCut, SimDisk

SETTINGS = replace(SMALL, segment_bytes=1500)
RETENTION_MS = 1000
KEYS = tuple(b"key %d" % number for number in range(6))
BATCHES = 14
DRAWS = 2


@dataclass(slots=True)
class Found:
    hashes: set[str] = field(default_factory=set)
    checked: int = 0
    failures: list[str] = field(default_factory=list)


class CleanedHistory:
    def __init__(self, seed: int) -> None:
        self.rng = Random(f"cleaned {seed}")
        self.disk = SimDisk()
        self.ledger = Ledger(retention_ms=RETENTION_MS)
        self.now_ms = NOW_MS
        self.serial = 0
        self.sequences = [0, 0]
        self.log: Log
        self.syncs: ManualSyncs
        self.log, self.syncs = open_log(self.disk, SETTINGS)

    def run(self) -> None:
        for _ in range(3):
            for _ in range(BATCHES):
                self.append()
            self.log.roll()
            self.syncs.run_all()
            self.clean()
            self.now_ms += self.rng.choice((1, 600, 1100))

    def append(self) -> None:
        rng = self.rng
        pairs = [(rng.choice(KEYS), self.value()) for _ in range(rng.choice((1, 1, 2, 5)))]
        producer = rng.randrange(-1, 2)
        numbers = (-1, -1, -1) if producer < 0 else (producer, 0, self.sequences[producer])
        if producer >= 0:
            self.sequences[producer] += len(pairs)
        codec = rng.choice((Codec.NONE, Codec.NONE, Codec.LZ4))
        base = self.log.log_end
        for offset, (key, value) in enumerate(pairs, base):
            self.ledger.note_written(offset, key, value)
        data = keyed(*pairs, timestamp=self.now_ms, codec=codec, producer=numbers)
        append(self.log, data, now_ms=self.now_ms)
        if rng.random() < 0.2:
            self.log.roll()
        self.syncs.run_all()
        for offset, (key, value) in enumerate(pairs, base):
            self.ledger.note_durable(offset, key, value)

    def value(self) -> bytes | None:
        self.serial += 1
        if self.rng.random() < 0.25:
            return None
        return b"%d" % self.serial + b"x" * self.rng.choice((0, 30, 300))

    def clean(self) -> None:
        cleaned(self.log, self.syncs, self.ledger, self.now_ms)


def cleaned(log: Log, syncs: ManualSyncs, ledger: Ledger, now_ms: int) -> None:
    sealed = log.cleanable()
    ledger.note_cleaning(sealed[-1].next_offset if sealed else 0, now_ms)
    rules = replace(ALWAYS, delete_retention_ms=RETENTION_MS)
    clean(log, syncs, now_ms=now_ms, rules=rules)


def moments(seed: int) -> Iterator[tuple[SimDisk, Ledger, int]]:
    """The disk, what was known and the time, before each operation of the cleanings of a seed."""
    history = CleanedHistory(seed)
    found: list[tuple[SimDisk, Ledger, int]] = []

    def on_op(_: str) -> None:
        found.append((history.disk.snapshot(), deepcopy(history.ledger), history.now_ms))

    clean_once = history.clean

    def watched() -> None:
        history.disk.on_op = on_op
        clean_once()
        history.disk.on_op = None

    history.clean = watched  # type: ignore[method-assign]  # watched while it cleans
    history.run()
    yield from found


def search_seed(seed: int, *, every: int = 1, draws: int = DRAWS) -> Found:
    """Every `every`th operation of one seed; stops at the first failure."""
    found = Found()
    rng = Random(seed)
    for number, (disk, ledger, now_ms) in enumerate(moments(seed)):
        if number % every:
            continue
        for draw in range(draws):
            state = disk.after_power_cut(rng)
            found.hashes.add(state.state_hash())
            found.checked += 1
            try:
                if draw % 2:
                    state = after_cut_recovery(state, rng)
                check(state, deepcopy(ledger), now_ms)
            except (AssertionError, LogError, BatchError, OSError) as fault:
                found.failures.append(f"seed {seed}, operation {number}, draw {draw}: {fault}")
                return found
    return found


def after_cut_recovery(disk: SimDisk, rng: Random) -> SimDisk:
    """The disk after another power cut, in the middle of recovery."""
    probe = disk.snapshot()
    before = probe.op_count
    open_log(probe, SETTINGS)
    if probe.op_count == before:
        return disk
    stop = before + rng.randrange(probe.op_count - before)

    def on_op(_: str) -> None:
        if disk.op_count == stop:
            raise PowerCut

    disk.on_op = on_op
    try:
        open_log(disk, SETTINGS)
    except PowerCut:
        disk.on_op = None
        return disk.after_power_cut(rng)
    raise AssertionError("the cut did not happen")


def check(disk: SimDisk, ledger: Ledger, now_ms: int) -> None:
    """Recover, compare, go on writing and cleaning, compare again."""
    log, syncs = open_log(disk, SETTINGS)
    before = {record.offset for record in ledger.check(log)}
    left = [name for name in disk.listdir(log.path) if name.endswith((".cleaned", ".swap"))]
    assert not left, f"{left} were left behind"
    strays = [name for name in disk.listdir(log.path) if name.endswith(".stray")]
    assert not strays, f"{strays}: segments that were replaced came back"
    for producer, known in log.producers:
        assert known.last.last_offset < log.log_end, f"producer {producer} is ahead of the log"
    cleaned(log, syncs, ledger, now_ms + 1)
    records = ledger.check(log)
    assert {record.offset for record in records} <= before, "a record came back"
    check_clean(log, records)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    states = 0
    for seed in range(options.first, options.first + options.seeds):
        found = search_seed(seed)
        states += len(found.hashes)
        print(f"seed {seed}: {found.checked} states checked, {states} distinct in all", flush=True)
        if found.failures:
            print(found.failures[0])
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
