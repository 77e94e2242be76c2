"""Scenario: couriers carry messages to depots while everything around them breaks.

Couriers on their own hosts send numbered messages to depots (`depot.py`) and try again until each
is acknowledged. Meanwhile links part, lose one way and reset, processes are killed, machines lose
power between callbacks and in the middle of disk operations, fsyncs fail, disks fill up, clocks
jump.

Checked at the end, after one more power cut: every acknowledged message is in its depot, byte for
byte. And everything ends: once the world heals, the couriers finish.
"""

import asyncio
from dataclasses import dataclass, field
from random import Random

from tierlog.env import Env
from tierlog.sim.depot import ACK, FRAME, PORT, Bug, Depot
from tierlog.sim.world import HostDied, SimWorld

DEPOTS = ("depot-0", "depot-1", "depot-2")
COURIERS = ("courier-0", "courier-1")
MESSAGE_COUNT = 40
FAULT_COUNT = 25
ACK_SECONDS_MAX = 5.0
RESTART_SECONDS = 1.0


@dataclass(slots=True)
class Ledger:
    """What the couriers were told: depot -> id -> payload."""

    acked: dict[str, dict[int, bytes]] = field(
        default_factory=lambda: {depot: {} for depot in DEPOTS}
    )


async def couriers(world: SimWorld, bug: Bug | None = None) -> int:
    """Tells how many messages were acknowledged."""
    ledger = Ledger()
    keepers = [
        asyncio.create_task(keep_running(world, name, bug), name=f"keeper of {name}")
        for name in DEPOTS
    ]
    nemesis = asyncio.create_task(torment(world, world.rng("nemesis")), name="nemesis")
    walks = [
        world.start(name, carry(world.env(name), number, ledger), what="carry")
        for number, name in enumerate(COURIERS)
    ]
    await asyncio.gather(*walks)
    await nemesis
    for keeper in keepers:
        keeper.cancel()
    check(world, ledger)
    return sum(len(acked) for acked in ledger.acked.values())


# The depots


async def keep_running(world: SimWorld, name: str, bug: Bug | None) -> None:
    """A supervisor: starts the depot again whenever it died or gave up."""
    while True:
        try:
            await world.start(name, run_depot(world.env(name), bug), what="depot")
        except HostDied:
            pass
        except OSError:
            world.kill(name)  # It stopped on a disk error; what it held in memory is gone.
        await asyncio.sleep(RESTART_SECONDS)


async def run_depot(env: Env, bug: Bug | None) -> None:
    depot = Depot(env, bug=bug)
    depot.open()
    await depot.serve()


# The couriers


async def carry(env: Env, courier: int, ledger: Ledger) -> None:
    """Bring every message to some depot, several at a time over one connection."""
    waiting = {
        courier << 32 | serial: env.rng.randbytes(env.rng.randrange(3000) + 1)
        for serial in range(1, MESSAGE_COUNT + 1)
    }
    while waiting:
        depot = DEPOTS[env.rng.randrange(len(DEPOTS))]
        numbers = list(waiting)[: 1 + env.rng.randrange(6)]
        try:
            async with asyncio.timeout(ACK_SECONDS_MAX):
                await deliver(depot, {number: waiting[number] for number in numbers}, ledger)
        except OSError:  # TimeoutError and broken connections: maybe it arrived, maybe not.
            await asyncio.sleep(env.rng.random())
        for number in numbers:
            if number in ledger.acked[depot]:
                del waiting[number]
        await asyncio.sleep(env.rng.random() * 2)


async def deliver(depot: str, messages: dict[int, bytes], ledger: Ledger) -> None:
    reader, writer = await asyncio.open_connection(depot, PORT)
    try:
        for number, payload in messages.items():
            writer.write(FRAME.pack(len(payload), number) + payload)
        await writer.drain()
        for _ in messages:
            (number,) = ACK.unpack(await reader.readexactly(ACK.size))
            ledger.acked[depot][number] = messages[number]
    except asyncio.IncompleteReadError as error:
        raise ConnectionResetError("the depot hung up") from error
    finally:
        writer.transport.abort()


# The faults


async def torment(world: SimWorld, rng: Random) -> None:
    for _ in range(FAULT_COUNT):
        await asyncio.sleep(rng.random() * 4)
        rng.choice(FAULTS)(world, rng)
    world.network.heal()
    for name in DEPOTS:
        world.disk(name).capacity = 1 << 40
        world.disk(name).on_op = None
        world.disk(name).forget_faults()


def part(world: SimWorld, rng: Random) -> None:
    world.network.partition(rng.choice(COURIERS), rng.choice(DEPOTS))


def lose_one_way(world: SimWorld, rng: Random) -> None:
    ends = [rng.choice(COURIERS), rng.choice(DEPOTS)]
    rng.shuffle(ends)
    world.network.lose_one_way(ends[0], ends[1])


def heal(world: SimWorld, rng: Random) -> None:
    world.network.heal()


def reset(world: SimWorld, rng: Random) -> None:
    world.network.reset(rng.choice(COURIERS), rng.choice(DEPOTS))


def kill(world: SimWorld, rng: Random) -> None:
    world.kill(rng.choice(DEPOTS))


def cut_power(world: SimWorld, rng: Random) -> None:
    world.power_cut(rng.choice(DEPOTS))


def cut_power_in_a_call(world: SimWorld, rng: Random) -> None:
    world.power_cut_after(rng.choice(DEPOTS), 1 + rng.randrange(20))


def fail_fsync(world: SimWorld, rng: Random) -> None:
    world.disk(rng.choice(DEPOTS)).fail_fsync(rng=rng)


def fill_disk(world: SimWorld, rng: Random) -> None:
    disk = world.disk(rng.choice(DEPOTS))
    disk.capacity = disk.used + rng.randrange(3) * 4096


def free_disk(world: SimWorld, rng: Random) -> None:
    world.disk(rng.choice(DEPOTS)).capacity = 1 << 40


def step_clock(world: SimWorld, rng: Random) -> None:
    world.host(rng.choice(DEPOTS)).clock.step(rng.uniform(-60_000, 60_000))


FAULTS = (
    part,
    lose_one_way,
    heal,
    heal,
    reset,
    kill,
    cut_power,
    cut_power_in_a_call,
    fail_fsync,
    fill_disk,
    free_disk,
    free_disk,
    step_clock,
)


# The checker


def check(world: SimWorld, ledger: Ledger) -> None:
    for name in DEPOTS:
        world.power_cut(name)
        depot = Depot(world.env(name))
        depot.open()
        for number, payload in ledger.acked[name].items():
            assert depot.messages.get(number) == payload, f"{name} lost message {number:#x}"
