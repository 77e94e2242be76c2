"""Scenario: writers and a reader on the local logs of one node while its machine misbehaves.

Every writer appends to one of a few logs and waits until its record is visible: then it is
acknowledged. A reader notes what it was shown. Meanwhile the process is killed, the machine loses
power between callbacks and in the middle of disk operations, syncs fail and drop what they were to
write, and the disk fills up. A node whose directory broke stops and is started again. Beside them
short-lived logs are made, written to and deleted.

Checked whenever a node starts, and at the end after one more power cut: every acknowledged record
and every record that was ever shown is at its offset, and nothing is there that nobody wrote; a log
that was made is there until somebody asks for its deletion, and not after that was done.
"""

import asyncio
import logging
from dataclasses import dataclass, field
from random import Random

from tests.hot.support import append_values
from tierlog.env import Env
from tierlog.hot import Log, LogDirectory, LogSettings
from tierlog.hot.errors import DamagedOffsets, DiskFull, LogBroken
from tierlog.records.batch import iter_batches, validate_stored
from tierlog.records.record import decode_records
from tierlog.sim.world import HostDied, SimWorld
from tierlog.types import Offset

NODE = "node"
LOGS = ("p0", "p1", "p2")
WRITERS_EACH = 2
WRITES = 25
FAULT_COUNT = 12
SETTINGS = LogSettings(segment_bytes=4096, index_interval_bytes=256, checkpoint_bytes=2048)
ROOMY = 1 << 40


@dataclass(slots=True)
class Ledger:
    """What the outside world knows, by log and offset."""

    written: dict[str, dict[int, set[bytes]]] = field(default_factory=lambda: {p: {} for p in LOGS})
    shown: dict[str, dict[int, bytes]] = field(default_factory=lambda: {p: {} for p in LOGS})
    """Acknowledged to a writer or read by a consumer: there for ever."""
    passing: dict[str, set[bytes]] = field(default_factory=dict)
    """Short-lived logs that must be there, with a value that was acknowledged if there is one."""
    deleted: set[str] = field(default_factory=set)
    trimmed_to: dict[str, int] = field(default_factory=lambda: dict.fromkeys(LOGS, 0))
    serial: int = 0


async def hot_log(world: SimWorld) -> int:
    """Tells how many records were shown."""
    # Torn tails are the daily bread here; a row for each would bury the table.
    logging.getLogger("tierlog.hot.recovery").setLevel(logging.ERROR)
    ledger = Ledger()
    nemesis = asyncio.create_task(torment(world, world.rng("nemesis")), name="nemesis")
    while True:
        try:
            await world.start(NODE, serve(world.env(NODE), ledger), what="serve")
        except HostDied:
            pass
        except (LogBroken, DiskFull, OSError):
            world.kill(NODE)  # It stopped on a disk error, or could not open on a full disk.
        if nemesis.done():
            break
        await asyncio.sleep(0.05)
    await nemesis
    world.power_cut(NODE)
    await world.start(NODE, check_all(world.env(NODE), ledger), what="check")
    return sum(len(shown) for shown in ledger.shown.values())


# The node


async def serve(env: Env, ledger: Ledger) -> None:
    """One life: open, be checked, serve the writers, close in order if it gets that far."""
    directory = LogDirectory(env, "/data", reserve_bytes=0)
    check_names(directory, ledger)
    opened = await asyncio.gather(*(directory.open_log(name, SETTINGS) for name in LOGS))
    logs = dict(zip(LOGS, opened, strict=True))
    for name, log in logs.items():
        check(name, log, ledger)
    await asyncio.gather(
        consume(env, logs, ledger),
        come_and_go(env, directory, ledger),
        *(write(env, name, logs[name], ledger) for name in LOGS for _ in range(WRITERS_EACH)),
    )
    for log in logs.values():
        await log.close()
    directory.close()


async def write(env: Env, name: str, log: Log, ledger: Ledger) -> None:
    for _ in range(WRITES):
        await asyncio.sleep(env.rng.random() * 0.02)
        ledger.serial += 1
        value = b"%s/%d/" % (name.encode(), ledger.serial) + env.rng.randbytes(
            env.rng.randrange(500)
        )
        ledger.written[name].setdefault(log.log_end, set()).add(value)
        try:
            placed = append_values(log, value)
            await log.wait_visible(Offset(placed.last_offset + 1))
        except DiskFull:
            await asyncio.sleep(0.1)
            continue
        show(name, placed.base_offset, value, ledger)


async def consume(env: Env, logs: dict[str, Log], ledger: Ledger) -> None:
    for _ in range(WRITES):
        await asyncio.sleep(env.rng.random() * 0.02)
        name = LOGS[env.rng.randrange(len(LOGS))]
        log = logs[name]
        start = max(log.log_start, Offset(log.visible_end - env.rng.randrange(40)))
        for offset, value in read_around(name, log, start, ledger).items():
            show(name, offset, value, ledger)
        chance = env.rng.random()
        if chance < 0.1:
            trimmed = log.log_start + env.rng.randrange(log.visible_end - log.log_start + 1)
            ledger.trimmed_to[name] = trimmed
            log.trim(Offset(trimmed))
        elif chance < 0.2:
            log.roll()


async def come_and_go(env: Env, directory: LogDirectory, ledger: Ledger) -> None:
    """Logs of a short life, left over from an earlier one of the node or new."""
    for name, values in sorted(ledger.passing.items()):
        log = await directory.open_log(name, SETTINGS)
        found = read_around(name, log, log.log_start, ledger)
        assert values <= set(found.values()), f"{name}: {values} was acknowledged and is gone"
        await delete(directory, log, name, ledger)
    for _ in range(WRITES // 5):
        await asyncio.sleep(env.rng.random() * 0.1)
        ledger.serial += 1
        name = f"passing-{ledger.serial}"
        try:
            log = await directory.open_log(name, SETTINGS)
            ledger.passing[name] = set()
            placed = append_values(log, name.encode())
            if env.rng.random() < 0.7:
                await log.wait_visible(Offset(placed.last_offset + 1))
                ledger.passing[name].add(name.encode())
        except DiskFull:
            await asyncio.sleep(0.1)
            continue
        if env.rng.random() < 0.7:
            await delete(directory, log, name, ledger)
        else:
            await log.close()


async def delete(directory: LogDirectory, log: Log, name: str, ledger: Ledger) -> None:
    ledger.passing.pop(name, None)  # From now on it may be there or not.
    await directory.delete_log(log)
    ledger.deleted.add(name)


def show(name: str, offset: int, value: bytes, ledger: Ledger) -> None:
    before = ledger.shown[name].setdefault(offset, value)
    assert before == value, f"{name}: offset {offset} names two records"


# The faults


async def torment(world: SimWorld, rng: Random) -> None:
    disk = world.disk(NODE)
    for _ in range(FAULT_COUNT):
        await asyncio.sleep(rng.random() * 0.6)
        disk.capacity = ROOMY
        rng.choice(FAULTS)(world, rng)
    disk.capacity = ROOMY
    disk.on_op = None
    disk.forget_faults()


def kill(world: SimWorld, rng: Random) -> None:
    world.kill(NODE)


def cut_power(world: SimWorld, rng: Random) -> None:
    world.power_cut(NODE)


def cut_power_in_a_call(world: SimWorld, rng: Random) -> None:
    if world.disk(NODE).on_op is None:
        world.power_cut_after(NODE, 1 + rng.randrange(60))


def fail_fsync(world: SimWorld, rng: Random) -> None:
    world.disk(NODE).fail_fsync(rng=rng)


def fail_sync_dir(world: SimWorld, rng: Random) -> None:
    world.disk(NODE).fail_sync_dir()


def drop_caches(world: SimWorld, rng: Random) -> None:
    world.disk(NODE).drop_caches()


def fill_disk(world: SimWorld, rng: Random) -> None:
    disk = world.disk(NODE)
    disk.capacity = disk.used + rng.randrange(4) * 4096


FAULTS = (
    kill,
    cut_power,
    cut_power_in_a_call,
    cut_power_in_a_call,
    fail_fsync,
    fail_sync_dir,
    drop_caches,
    fill_disk,
)


# The checker


def read_around(name: str, log: Log, start: Offset, ledger: Ledger) -> dict[int, bytes]:
    """Every record from `start` on. A sync that failed may leave damage, but not where something
    was shown."""
    found: dict[int, bytes] = {}
    offset = start
    while offset < log.visible_end:
        try:
            data = log.read(offset, bytes_max=1000)
        except DamagedOffsets as damage:
            shown = ledger.shown.get(name, {})
            lost = [at for at in range(damage.start, damage.end) if at in shown]
            assert not lost, f"{name}: {damage}"  # noqa: PT017  # the damage is the context
            offset = damage.end
            continue
        for position, header in iter_batches(data):
            validate_stored(data, position)
            for record in decode_records(memoryview(data)[position:]):
                found[record.offset] = record.value or b""
            offset = header.next_offset
        if not data:
            break
    return found


def check_names(directory: LogDirectory, ledger: Ledger) -> None:
    there = set(directory.names())
    assert there.issuperset(ledger.passing), f"{set(ledger.passing) - there} were made and are gone"
    assert there.isdisjoint(ledger.deleted), f"{there & ledger.deleted} were deleted and are back"


async def check_all(env: Env, ledger: Ledger) -> None:
    directory = LogDirectory(env, "/data", reserve_bytes=0)
    check_names(directory, ledger)
    await directory.swept()
    left = [name for name in env.disk.listdir("/data") if name.endswith(".deleted")]
    assert not left, f"{left} were not swept"
    for name in LOGS:
        check(name, Log(directory, name, SETTINGS), ledger)


def check(name: str, log: Log, ledger: Ledger) -> None:
    """Hold a log that was just opened to what was shown of it."""
    assert log.durable_end == log.log_end
    assert log.log_start <= ledger.trimmed_to[name], f"{name}: trimmed on its own"
    ledger.trimmed_to[name] = log.log_start
    shown, written = ledger.shown[name], ledger.written[name]
    assert log.log_end > max(shown, default=-1), f"{name}: offsets are given out again"
    found = read_around(name, log, log.log_start, ledger)
    for offset, value in shown.items():
        lost = offset >= log.log_start and found.get(offset) != value
        assert not lost, f"{name}: offset {offset} was shown and is gone"
    for offset, value in found.items():
        assert value in written[offset], f"{name}: offset {offset} serves what nobody wrote"
        show(name, offset, value, ledger)
