"""Deliberate faults in the copy of group offsets and its restore, to prove that the search can find
them; as in `bugs.py`."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import patch

from tests.planted.bugs import Bug
from tests.simulation.offsets import offsets
from tierlog.cold import regrouping
from tierlog.cold.offsetskeeper import OffsetsKeeper
from tierlog.groups.offsetscopy import OffsetsCopy
from tierlog.sim.world import simulate


def hunt_offsets(seed: int) -> str | None:
    """What the judge of a simulated restore complains about, if it does."""
    try:
        simulate(offsets, seed=seed)
    except AssertionError as failure:
        return str(failure).splitlines()[0]
    return None


def offsets_not_clamped() -> AbstractContextManager[object]:
    """A group comes back at an offset that will be given out again."""
    return patch.object(regrouping, "_clamped", lambda one, partition: one)


def fenced_node_overwrites() -> AbstractContextManager[object]:
    """Whoever finds somebody else's copy takes it for an old one."""
    return patch.object(OffsetsKeeper, "_check", lambda self, seen, mine: None)


@contextmanager
def read_and_not_claimed() -> Iterator[None]:
    """The restore looks at the copy, and its old writer does not notice."""
    claim = OffsetsKeeper.claim

    async def look(self: OffsetsKeeper) -> Any:
        seen = await self._read()
        return await claim(self) if seen is None else seen.value

    with patch.object(OffsetsKeeper, "claim", look):
        yield


@contextmanager
def copied_once() -> Iterator[None]:
    """The chore believes that nothing has changed since its first copy."""
    run = OffsetsCopy.run

    async def lazy(self: OffsetsCopy) -> None:
        if not self.copies:
            await run(self)

    with patch.object(OffsetsCopy, "run", lazy):
        yield


TRIES = 20

OFFSET_BUGS = (
    Bug("offsets: restored behind the records", offsets_not_clamped, hunt_offsets, 0, tries=TRIES),
    Bug("offsets: a fenced node overwrites", fenced_node_overwrites, hunt_offsets, 0, tries=TRIES),
    Bug("offsets: read and not claimed", read_and_not_claimed, hunt_offsets, 0, tries=TRIES),
    Bug("offsets: copied once", copied_once, hunt_offsets, 0, tries=TRIES),
)
