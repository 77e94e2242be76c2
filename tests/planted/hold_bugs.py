"""Deliberate faults of holds, to prove that their simulation can find them; as in `bugs.py`. That a
hold on its way counts, `tests/broker/test_holds.py` shows directly."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

from tests.planted.bugs import Bug
from tests.simulation.holds import holds
from tierlog.broker.holds import Holds, Told
from tierlog.broker.partition import Partition
from tierlog.cold.head import Hold
from tierlog.sim.world import simulate


def hunt_holds(seed: int) -> str | None:
    """What the admin, the bucket or the judge of a seed complains about, if they do."""
    try:
        simulate(holds, seed=seed)
    except AssertionError as failure:
        return str(failure).splitlines()[0]
    return None


def told_before_head() -> AbstractContextManager[object]:
    """Whoever asks is told at once; the bucket hears of it in its own time."""
    placed = Holds._placed

    async def proud(self: Holds, partition: Partition, wanted: dict[int, Hold]) -> Told:
        self._env.tasks.spawn(placed(self, partition, wanted), name="place")
        return Told(partition=partition.index, hold=wanted[partition.index])

    return patch.object(Holds, "_placed", proud)


def released_before_head() -> AbstractContextManager[object]:
    """Likewise, of a release."""
    released = Holds._released

    async def hasty(self: Holds, partition: Partition, hold_id: str) -> Told:
        self._env.tasks.spawn(released(self, partition, hold_id), name="release")
        return Told(partition=partition.index)

    return patch.object(Holds, "_released", hasty)


TRIES = 30


def bug(name: str, plant: Callable[[], Any], seed: int) -> Bug:
    return Bug(name, plant, hunt_holds, seed, tries=TRIES)


HOLD_BUGS = (
    bug("holds: told before HEAD has it", told_before_head, 0),
    bug("holds: released before HEAD has it", released_before_head, 0),
)
