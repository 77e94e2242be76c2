"""Scenario: writers and slow readers on compacted logs while the cleaner cleans and things break.

Writers give a few keys new values, or delete them, and wait until that is visible. The cleaner of
the node looks again and again. Readers begin at the start of a log and take their time, less than
`delete.retention.ms`: what they know in the end is what is there, deletions included. Meanwhile the
process is killed, the power is cut between and within disk operations, syncs fail and the disk
fills up.

Checked after every cleaning, whenever a node starts, and at the end after one more power cut: for
every key the last record that somebody was told of is at its offset, or a later one is; a tombstone
is there for as long as it must be; nothing is there that nobody wrote; no offset has changed.
"""

import asyncio
import logging
from contextlib import suppress
from dataclasses import replace
from random import Random

from tests.hot.cleaned import SMALL, keyed
from tests.hot.keyedmodel import Ledger
from tests.hot.support import append
from tests.simulation.hot_log import FAULT_COUNT, FAULTS, NODE, ROOMY
from tierlog.env import Env
from tierlog.hot import Log, LogDirectory
from tierlog.hot.cleaner import Candidate, Cleaner, CleanerSettings
from tierlog.hot.dirt import CleaningRules
from tierlog.hot.errors import DamagedOffsets, DiskFull, LogBroken
from tierlog.records.attributes import Codec
from tierlog.records.batch import iter_batches, validate_stored
from tierlog.records.record import Record, decode_records
from tierlog.sim.world import HostDied, SimWorld
from tierlog.types import Offset

LOGS = ("c0", "c1")
KEYS = tuple(b"key %d" % number for number in range(12))
WRITES = 50
RETENTION_MS = 600
RULES = CleaningRules(min_dirty_ratio=0.1, delete_retention_ms=RETENTION_MS)
SETTINGS = replace(SMALL, segment_bytes=1200)

Content = dict[int, tuple[bytes, bytes | None]]


class Watched(Cleaner):
    """A cleaner whose rounds are written down."""

    def __init__(self, env: Env, directory: LogDirectory, town: "Town") -> None:
        candidates = [Candidate(name, log, RULES) for name, log in town.logs.items()]
        settings = CleanerSettings(backoff_ms=20, dedupe_bytes=town.rng.choice((1000, 1 << 20)))
        super().__init__(env, directory, lambda: candidates, settings)
        self._town = town

    async def _clean_round(self, one: Candidate, start: Offset, end: Offset) -> Offset:
        ledger, clock = self._town.ledgers[one.name], self._env.clock
        ledger.note_cleaning(end, clock.now_ms())
        reached = await super()._clean_round(one, start, end)
        ledger.cleaned_ms.append(clock.now_ms())
        self._town.rounds += 1
        ledger.check_records(read_around(one.name, one.log, ledger), start=one.log.log_start)
        return reached


class Town:
    """What outlives the lives of the node, and the logs of the present one."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.ledgers = {name: Ledger(retention_ms=RETENTION_MS) for name in LOGS}
        self.logs: dict[str, Log] = {}
        self.content: dict[str, Content] = {}
        """What is in the logs of this life, visible or not, and what was replaced in them."""
        self.serial = 0
        self.rounds = 0
        self.readings = 0


async def cleaner(world: SimWorld) -> int:
    """Tells how many rounds were cleaned."""
    for room in ("recovery", "cleaner"):
        logging.getLogger(f"tierlog.hot.{room}").setLevel(logging.ERROR)
    town = Town(world.rng("town"))
    nemesis = asyncio.create_task(torment(world, world.rng("nemesis")), name="nemesis")
    while True:
        try:
            await world.start(NODE, serve(world.env(NODE), town), what="serve")
        except HostDied:
            pass
        except (LogBroken, DiskFull, OSError):
            world.kill(NODE)
        if nemesis.done():
            break
        await asyncio.sleep(0.05)
    await nemesis
    world.power_cut(NODE)
    await world.start(NODE, check_all(world.env(NODE), town), what="check")
    return town.rounds


async def serve(env: Env, town: Town) -> None:
    """One life: open, be checked, serve and clean, close in order if it gets that far."""
    directory = LogDirectory(env, "/data", reserve_bytes=0)
    for name in LOGS:
        town.logs[name] = await directory.open_log(name, SETTINGS)
        check(env, name, town)
    cleaning = env.tasks.spawn(Watched(env, directory, town).run(), name="cleaner")
    await asyncio.gather(*(write(env, name, town) for name in LOGS), read_slowly(env, town))
    cleaning.cancel()
    with suppress(asyncio.CancelledError):
        await cleaning
    for log in town.logs.values():
        await log.close()
    directory.close()


async def write(env: Env, name: str, town: Town) -> None:
    log, ledger, content = town.logs[name], town.ledgers[name], town.content[name]
    for _ in range(WRITES):
        await asyncio.sleep(env.rng.random() * 0.02)
        pairs = [draw_pair(env, town) for _ in range(1 + env.rng.randrange(3))]
        codec = Codec.LZ4 if env.rng.random() < 0.3 else Codec.NONE
        now_ms = env.clock.now_ms()
        for offset, (key, value) in enumerate(pairs, log.log_end):
            ledger.note_written(offset, key, value)
        try:
            placed = append(log, keyed(*pairs, timestamp=now_ms, codec=codec), now_ms=now_ms)
            content.update(enumerate(pairs, placed.base_offset))
            await log.wait_visible(Offset(placed.last_offset + 1))
        except DiskFull:
            await asyncio.sleep(0.1)
            continue
        for offset, (key, value) in enumerate(pairs, placed.base_offset):
            ledger.note_durable(offset, key, value)
        if env.rng.random() < 0.05:
            with suppress(DiskFull):
                log.roll()


def draw_pair(env: Env, town: Town) -> tuple[bytes, bytes | None]:
    town.serial += 1
    key = KEYS[int(len(KEYS) * env.rng.random() ** 3)]  # Some come seldom.
    if env.rng.random() < 0.3:
        return key, None
    return key, b"%d/" % town.serial + env.rng.randbytes(env.rng.randrange(200))


async def read_slowly(env: Env, town: Town) -> None:
    for _ in range(6):
        name = LOGS[env.rng.randrange(len(LOGS))]
        log, began_ms = town.logs[name], env.clock.now_ms()
        state: dict[bytes, bytes | None] = {}
        offset = log.log_start
        while offset < log.visible_end:
            try:
                data = log.read(offset, bytes_max=400)
            except DamagedOffsets as damage:
                offset = damage.end
                continue
            for position, header in iter_batches(data):
                validate_stored(data, position)
                for record in decode_records(memoryview(data)[position:]):
                    assert record.key is not None
                    state[record.key] = record.value
                assert header.next_offset > offset, "a reader would not get on"
                offset = header.next_offset
            await asyncio.sleep(env.rng.random() * 0.04)
        if env.clock.now_ms() - began_ms < RETENTION_MS:
            town.readings += 1
            compare(name, state, town.content[name], offset)


def compare(name: str, state: dict[bytes, bytes | None], content: Content, end: int) -> None:
    truth: dict[bytes, bytes | None] = {}
    for offset in sorted(content):
        if offset < end:
            key, value = content[offset]
            truth[key] = value
    for key in {*truth, *state}:
        assert state.get(key) == truth.get(key), f"{name}: a reader has {key!r} wrong"


# The faults


async def torment(world: SimWorld, rng: Random) -> None:
    disk = world.disk(NODE)
    for _ in range(FAULT_COUNT):
        await asyncio.sleep(rng.random() * 0.8)
        disk.capacity = ROOMY
        rng.choice(FAULTS)(world, rng)
    disk.capacity = ROOMY
    disk.on_op = None
    disk.forget_faults()


# The checker


async def check_all(env: Env, town: Town) -> None:
    directory = LogDirectory(env, "/data", reserve_bytes=0)
    for name in LOGS:
        town.logs[name] = Log(directory, name, SETTINGS)
        check(env, name, town)


def check(env: Env, name: str, town: Town) -> None:
    """Hold a log that was just opened to what is known of it."""
    log, ledger = town.logs[name], town.ledgers[name]
    if ledger.cleaned_ms:
        ledger.cleaned_ms.append(env.clock.now_ms())  # A round that was cut off may have got here.
    assert log.log_end > max(ledger.durable, default=-1), f"{name}: offsets are given out again"
    records = read_around(name, log, ledger)
    try:
        ledger.check_records(records, start=log.log_start)
    except AssertionError as failure:
        raise AssertionError(f"{name}: {failure}") from failure
    for record in records:
        assert record.key is not None
        ledger.note_durable(record.offset, record.key, record.value)
    town.content[name] = dict(ledger.durable)


def read_around(name: str, log: Log, ledger: Ledger) -> list[Record]:
    """Every record. A sync that failed may leave damage, but not where somebody was told."""
    found: list[Record] = []
    offset = log.log_start
    while offset < log.visible_end:
        try:
            data = log.read(offset, bytes_max=1000)
        except DamagedOffsets as damage:
            lost = [at for at in range(damage.start, damage.end) if at in ledger.durable]
            assert not lost, f"{name}: {damage}"  # noqa: PT017  # the damage is the context
            offset = damage.end
            continue
        if not data:
            break
        for position, header in iter_batches(data):
            validate_stored(data, position)
            found += decode_records(memoryview(data)[position:])
            offset = header.next_offset
    return found
