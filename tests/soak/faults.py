"""What happens to a node in a soak. Which, and how bad, is drawn from a seed.

Each fault is over when it returns: the node is up and the store answers, though nobody has caught
up yet. Traffic goes on all the time.
"""

import time
from collections.abc import Callable
from random import Random
from typing import TypeAlias

from tests.soak.ledger import NO_LIMIT
from tests.soak.world import CHURN, STEADY, World

MORE = 30
"""Records that are acked in the middle of a fault, by each partition of the steady topic."""

Fault: TypeAlias = Callable[[World, Random], str]
"""Does it, and says what it was."""


def kill(world: World, rng: Random) -> str:
    """At any moment of whatever is under way."""
    time.sleep(rng.random() * 0.3)
    world.node.kill()
    world.node.start()
    return "kill -9"


def restart(world: World, rng: Random) -> str:
    del rng
    world.node.stop()
    world.node.start()
    return "restart"


def outage(world: World, rng: Random) -> str:
    with world.shelf.away(rng) as how:
        world.flow(MORE)
        for _ in range(rng.randrange(3)):
            world.flow(MORE)
    return f"store {how}"


def killed_in_outage(world: World, rng: Random) -> str:
    """The restart has to do without the store."""
    with world.shelf.away(rng) as how:
        world.flow(MORE)
        world.node.kill()
        world.node.start()
        world.flow(MORE)
    return f"store {how}, kill -9"


def delete_records(world: World, rng: Random) -> str:
    """Somewhere in the middle, or all there is."""
    index = rng.randrange(len(world.loads[STEADY].ledgers))
    ledger = world.loads[STEADY].ledgers[index]
    before = rng.choice([ledger.acked_end, rng.randint(ledger.start, ledger.acked_end)])
    start = world.delete_records(STEADY, index, before)
    if start < before:
        ledger.problems.append(f"{ledger.name}: deleted to {before}, and begins at {start}")
    ledger.saw_start(start)
    return f"delete records to {before}"


def recreate(world: World, rng: Random) -> str:
    del rng
    world.remake(CHURN)
    return "topic deleted, made again"


def retention(world: World, rng: Random) -> str:
    """Shorter or smaller for a while, then as before."""
    tempo = world.tempo
    change = rng.choice([(tempo.retention_ms // 2, NO_LIMIT), (NO_LIMIT, tempo.retention_bytes)])
    world.alter(STEADY, retention_ms=change[0], retention_bytes=change[1])
    world.flow(MORE)
    world.alter(STEADY, retention_ms=tempo.retention_ms)
    return "retention {} ms, {} bytes".format(*change)


FAULTS: tuple[Fault, ...] = (
    kill,
    restart,
    outage,
    killed_in_outage,
    delete_records,
    recreate,
    retention,
)
