"""Damage done to a log's files at rest: one flip or one truncation, in any file, in any situation.

A case is a seeded history, ended by a clean close, a kill or a power cut, then one injury to one
file. `check` opens the log again and holds it to this:

- a record that is served is the record that was written at that offset;
- a batch whose bytes are whole on the disk can still be read;
- a durable record that cannot be read is reported: an error for its reader, or a gap told at open;
- an offset that was given out durably is not given out again.

One limit: when a power cut and a truncated `.log` come together, nothing on the disk remembers the
records between the durable end on record and the cut. There the log is held to that record.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random

from tests.hot.support import append_values, open_log
from tests.powerloss.check import Violation, require
from tests.powerloss.history import History, Known
from tierlog.hot import Log
from tierlog.hot.checkpoint import load_checkpoint
from tierlog.hot.endmark import load_end
from tierlog.hot.errors import DamagedOffsets
from tierlog.records.batch import iter_batches, validate_stored
from tierlog.records.record import decode_records
from tierlog.sim.disk import SimDisk
from tierlog.types import Offset

DIRECTORY = "/data/p"
KINDS = (".log", ".index", ".timeindex", ".snapshot", "partition.checkpoint", "durable.end")
SITUATIONS = ("closed", "killed", "power cut")
STEPS = 30


@dataclass(frozen=True, slots=True)
class Case:
    seed: int
    situation: str
    kind: str
    injury: str
    attempt: int

    def __str__(self) -> str:
        return f"{self.injury} {self.kind} after {self.situation}, {self.seed}.{self.attempt}"


def cases(seeds: range) -> Iterator[Case]:
    for seed in seeds:
        for situation in SITUATIONS:
            for kind in KINDS:
                for injury in ("flip", "truncate"):
                    for attempt in range(4 if kind == ".log" else 1):
                        yield Case(seed, situation, kind, injury, attempt)


def run(case: Case) -> bool:
    """Run a case; False when there was no file to injure. Raises `Violation`."""
    history = History(case.seed)
    history.run(STEPS)
    rng = Random(f"{case}")
    disk = end(history, case.situation, rng)
    path = injure(disk, case, rng)
    if path is None:
        return False
    try:
        check(disk, promised(case, disk, history.known))
    except Violation as violation:
        raise Violation(f"{case} ({path}): {violation}") from violation
    except Exception as fault:
        raise Violation(f"{case} ({path}): {fault!r}") from fault
    return True


def end(history: History, situation: str, rng: Random) -> SimDisk:
    if situation == "closed":
        history.log.close_now()
        history.known.durable_end = int(history.log.durable_end)
    disk = history.disk
    if situation == "power cut":
        disk = disk.after_power_cut(rng)
    disk.kill()
    return disk


def injure(disk: SimDisk, case: Case, rng: Random) -> str | None:
    """One flipped bit, or one cut, somewhere in one file of the kind."""
    paths = [
        f"{DIRECTORY}/{name}"
        for name in disk.listdir(DIRECTORY)
        if name.endswith(case.kind) and disk.size(f"{DIRECTORY}/{name}") > 0
    ]
    if not paths:
        return None
    # Every other time the newest: what recovery must scan lies there.
    path = paths[-1] if case.attempt % 2 else rng.choice(paths)
    size = disk.size(path)
    if case.injury == "flip":
        disk.flip_bit(path, rng.randrange(size), rng.randrange(8))
    else:
        file = disk.open(path, write=True)
        file.truncate(rng.randrange(size))
        file.fdatasync()
        file.close()
        disk.kill()
    return path


def promised(case: Case, disk: SimDisk, known: Known) -> Known:
    """What the log can be held to: everything, but for the stated limit."""
    if (case.situation, case.kind, case.injury) != ("power cut", ".log", "truncate"):
        return known
    checkpoint, mark = load_checkpoint(disk, DIRECTORY), load_end(disk, DIRECTORY)
    assert checkpoint is not None
    recorded = max(int(checkpoint.durable_end), int(mark.durable_end) if mark else 0)
    return replace(known, durable_end=min(known.durable_end, recorded))


def check(disk: SimDisk, known: Known) -> None:
    sound = sound_offsets(disk, known)
    durable = {offset for offset in known.records() if offset < known.durable_end}
    log, _ = open_log(disk, known.settings)
    found, told = read_around(log)
    written = known.records()
    for offset, value in found.items():
        require(written.get(offset) == value, f"offset {offset} serves what was never written")
    wanted = {offset for offset in durable if offset >= log.log_start}
    for offset in sorted(wanted & sound):
        require(offset in found, f"offset {offset} is whole on disk and cannot be read")
    for offset in sorted(wanted - found.keys()):
        require(offset in told, f"offset {offset} was durable and is dropped in silence")
    require(log.log_end >= known.durable_end, f"offset {log.log_end} is given out again")
    require(log.log_start <= known.log_start_max, "the log start ran ahead")
    placed = append_values(log, b"next")
    require(placed.base_offset not in found, f"offset {placed.base_offset} is taken")


def sound_offsets(disk: SimDisk, known: Known) -> set[int]:
    """Offsets of the batches whose bytes are where they were put, unharmed."""
    sound: set[int] = set()
    for one in known.placed.values():
        if disk.exists(one.path):
            file = disk.open(one.path)
            if file.pread(len(one.data), one.position) == one.data:
                sound |= set(range(one.base_offset, one.next_offset))
            file.close()
    return sound


def read_around(log: Log) -> tuple[dict[int, bytes], set[int]]:
    """Everything that can be read, and every offset that the log said it cannot give."""
    found: dict[int, bytes] = {}
    told = {offset for gap in log.gaps for offset in range(gap.start, gap.end)}
    offset = log.log_start
    while offset < log.log_end:
        try:
            data = log.read(offset, bytes_max=700)
        except DamagedOffsets as damage:
            require(damage.end > offset, f"{damage} does not lead on from {offset}")
            told |= set(range(damage.start, damage.end))
            offset = damage.end
            continue
        if not data:
            break
        for position, header in iter_batches(data):
            validate_stored(data, position)
            for record in decode_records(memoryview(data)[position:]):
                found[record.offset] = record.value or b""
            offset = Offset(header.next_offset)
    return found, told


def search(seeds: range) -> tuple[int, list[str]]:
    """Number of cases run, and the failures."""
    logging.disable(logging.WARNING)
    ran, failures = 0, []
    for case in cases(seeds):
        try:
            ran += run(case)
        except Violation as violation:
            failures.append(str(violation))
    return ran, failures
