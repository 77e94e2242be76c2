"""What goes wrong around the simulated cold tier: the store, the machine, the network."""

import asyncio
from collections.abc import Callable
from random import Random
from typing import TypeAlias

from tests.simulation.broker_clients import NODE
from tests.simulation.cold_node import ColdLives
from tierlog.sim.disk import SimDisk
from tierlog.sim.loop import CALL_SECONDS_MAX
from tierlog.sim.storefaults import Fate, StoreCall, StoreFaults, Then, When
from tierlog.sim.world import SimWorld

FAULT_COUNT = 10
ROOMY = 1 << 40
HOUR_S = 3600.0
OUTAGE_S = 10.0
WRITERS = ("writer-0", "writer-1", "writer-2")
FLIPPED = 0.25
"""Flipped bits, beside the other faults of a bad store."""

Fault: TypeAlias = Callable[[SimWorld, ColdLives, Random], None]


async def torment(world: SimWorld, lives: ColdLives, rng: Random, *, clients: list[str]) -> None:
    """Every seed has its own few kinds of faults: some bugs need the same ones again and again."""
    faults = rng.sample(FAULTS, rng.randint(3, len(FAULTS)))
    if not lives.bucket.oracle.trusts:
        faults = [*faults, lie, lie, bad_store]
    calmness = rng.random()
    night = rng.randrange(FAULT_COUNT) if rng.random() < 0.08 else -1
    for number in range(FAULT_COUNT):
        await asyncio.sleep(rng.random() * 4.0)
        if rng.random() < calmness:
            calm(world, lives)
        rng.choice(faults)(world, lives, rng)
        if rng.random() < 0.3:
            world.network.reset(rng.choice(clients), NODE)
        if number == night and not lives.disk_is_lost:
            await long_outage(lives, rng)
    await asyncio.sleep(rng.random())
    calm(world, lives)
    world.disk(NODE).on_op = None
    world.disk(NODE).forget_faults()
    if rng.random() < 0.3:
        # The last word is the store's: who concludes too much from it is not restarted after.
        unheard_answers(world, lives, rng)
        await asyncio.sleep(6.0)
        calm(world, lives)


def calm(world: SimWorld, lives: ColdLives) -> None:
    world.disk(NODE).capacity = ROOMY
    world.loop.call_seconds_max = CALL_SECONDS_MAX
    lives.bucket.faults = StoreFaults()
    lives.bucket.on_call = None
    lives.bucket.start()
    world.network.heal()


async def long_outage(lives: ColdLives, rng: Random) -> None:
    """The store is away for hours; the node is killed meanwhile and must serve all the same."""
    await asyncio.sleep(OUTAGE_S)  # One that is under way must not end this one.
    lives.bucket.stop()
    lives.ledger.pace = 200.0
    for _ in range(2):
        await asyncio.sleep(HOUR_S * (0.1 + rng.random()))
        rng.choice((lives.kill, lives.cut_power, lives.stop))()
    lives.ledger.pace = 1.0
    await asyncio.sleep(200.0)
    lives.bucket.start()


# The store


def bad_store(world: SimWorld, lives: ColdLives, rng: Random) -> None:
    """Some of everything that a store may do, for a while."""

    def share() -> float:
        return rng.choice((0.0, 0.0, 0.02, 0.1, 0.3)) * rng.random()

    lives.bucket.faults = StoreFaults(
        throttled_share=share(),
        lost_share=share(),
        unanswered_share=share(),
        hanging_share=share() / 4,
        late_share=share(),
        late_seconds_max=rng.choice((1.0, 10.0, 60.0)),
        short_share=share(),
        flipped_share=share() * FLIPPED,
        ignores_conditions=lives.bucket.faults.ignores_conditions,
    )


def lie(world: SimWorld, lives: ColdLives, rng: Random) -> None:
    """Conditional writes win, whatever stands there."""
    lives.bucket.faults.ignores_conditions = True
    lives.bucket.faults.late_share = 0.2


def late_writes(world: SimWorld, lives: ColdLives, rng: Random) -> None:
    lives.bucket.faults = StoreFaults(late_share=0.3, late_seconds_max=rng.choice((2.0, 30.0)))


def unheard_answers(world: SimWorld, lives: ColdLives, rng: Random) -> None:
    lives.bucket.faults = StoreFaults(unanswered_share=0.3)


def outage(world: SimWorld, lives: ColdLives, rng: Random) -> None:
    lives.bucket.stop()
    world.loop.call_later(rng.random() * OUTAGE_S, lives.bucket.start)


def die_at_a_request(world: SimWorld, lives: ColdLives, rng: Random) -> None:
    """Before it is sent, after it landed, or while it is on its way and lands late."""
    left = 1 + rng.randrange(40)
    when = rng.choice(tuple(When))
    late_seconds = rng.random() * 10.0

    def hook(call: StoreCall) -> Fate | None:
        nonlocal left
        if call.host != NODE or call.key.startswith("probe/"):
            return None
        left -= 1
        return Fate(when, Then.DIE, late_seconds=late_seconds) if left == 0 else None

    lives.bucket.on_call = hook


# The machine


def stop(world: SimWorld, lives: ColdLives, rng: Random) -> None:
    lives.stop()


def kill(world: SimWorld, lives: ColdLives, rng: Random) -> None:
    lives.kill()


def cut_power(world: SimWorld, lives: ColdLives, rng: Random) -> None:
    lives.cut_power()


def cut_power_in_a_call(world: SimWorld, lives: ColdLives, rng: Random) -> None:
    lives.cut_power_in_a_call(1 + rng.randrange(80))


def lose_disk(world: SimWorld, lives: ColdLives, rng: Random) -> None:
    lives.lose_disk()


def lose_disk_unheard(world: SimWorld, lives: ColdLives, rng: Random) -> None:
    """Clients hear nothing for a while: what they sent is published, and they send it again to the
    node that was restored from it."""
    for host in WRITERS:
        world.network.lose_one_way(NODE, host)
    world.loop.call_later(1.0 + rng.random() * 6.0, _lose_disk_and_heal, world, lives)


def _lose_disk_and_heal(world: SimWorld, lives: ColdLives) -> None:
    lives.lose_disk()
    world.network.heal()


def lose_log(world: SimWorld, lives: ColdLives, rng: Random) -> None:
    """While the store is away: the node serves all but one partition, until it is back."""
    outage(world, lives, rng)
    lives.lose_log()


def clone(world: SimWorld, lives: ColdLives, rng: Random) -> None:
    lives.clone()


def fail_fsync(world: SimWorld, lives: ColdLives, rng: Random) -> None:
    world.disk(NODE).fail_fsync(rng=rng)


def fill_disk(world: SimWorld, lives: ColdLives, rng: Random) -> None:
    """Somebody notices after a while."""
    disk = world.disk(NODE)
    disk.capacity = disk.used + rng.randrange(4) * 4096
    world.loop.call_later(rng.random() * 10.0, _make_room, disk)


def _make_room(disk: SimDisk) -> None:
    disk.capacity = ROOMY


def slow_disk(world: SimWorld, lives: ColdLives, rng: Random) -> None:
    world.loop.call_seconds_max = rng.random() * 2


def jump_clock(world: SimWorld, lives: ColdLives, rng: Random) -> None:
    world.host(NODE).clock.step((rng.random() - 0.5) * 600_000)


FAULTS: tuple[Fault, ...] = (
    bad_store,
    bad_store,
    late_writes,
    unheard_answers,
    outage,
    die_at_a_request,
    die_at_a_request,
    stop,
    kill,
    cut_power,
    cut_power_in_a_call,
    lose_disk,
    lose_disk_unheard,
    lose_log,
    clone,
    fail_fsync,
    fill_disk,
    slow_disk,
    jump_clock,
)
