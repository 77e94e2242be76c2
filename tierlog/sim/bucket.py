"""The bucket of the simulated world.

Linearizable (a request takes effect at one moment between call and answer), with a perfect memory
for what was ever written, so that a test can ask it, and with knobs for what goes wrong. It belongs
to no process and outlives them all; `SimStore` is the way to it.
"""

import asyncio
from dataclasses import dataclass, replace
from random import Random

from tierlog.objectstore.errors import StoreUnavailable
from tierlog.objectstore.port import Got, Outcome, Written
from tierlog.objectstore.shelf import Item, Shelf
from tierlog.sim.life import Life, current_host
from tierlog.sim.loop import SimLoop
from tierlog.sim.storefaults import (
    TIME_LIMIT_SECONDS,
    CallHook,
    Fate,
    StoreCall,
    StoreFaults,
    When,
)
from tierlog.sim.world import SimWorld

DELAY_SECONDS_MAX = 0.05
"""The longest way there or back; most are far shorter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Landed:
    """A write that took effect."""

    kind: str
    """The name of the port's method."""
    key: str
    item: Item
    host: str
    """Who sent it."""
    seconds: float
    """Virtual time."""


class SimBucket:
    """The bucket, what it remembers and what it does wrong."""

    def __init__(
        self,
        rng: Random,
        *,
        world: SimWorld | None = None,
        delay_seconds_max: float = DELAY_SECONDS_MAX,
    ) -> None:
        """`world` is needed for fates that end or freeze processes."""
        self.shelf = Shelf()
        self.landed: list[Landed] = []
        self.deleted: list[str] = []
        """Keys, in order, of objects that were there."""
        self.call_count = 0
        self.on_call: CallHook | None = None
        """Asked before the faults."""
        self.faults = StoreFaults()
        self.rng = rng
        self._world = world
        self._delay_seconds_max = delay_seconds_max
        self._is_up = True

    # Told by tests

    def stop(self) -> None:
        """From now on nothing arrives."""
        self._is_up = False

    def start(self) -> None:
        self._is_up = True

    # Asked by tests

    def versions(self, key: str) -> list[bytes]:
        """Everything that ever stood under the key, oldest first."""
        return [each.item.data for each in self.landed if each.key == key]

    def written_twice(self) -> list[str]:
        """Keys that were created more than once, deletion in between or not. Those that are
        replaced by `put_if_match` alone are not among them."""
        seen: set[str] = set()
        again: dict[str, None] = {}
        for each in self.landed:
            if each.kind != "put_if_match":
                if each.key in seen:
                    again[each.key] = None
                seen.add(each.key)
        return list(again)

    # Asked by clients

    @property
    def is_up(self) -> bool:
        return self._is_up

    def fate_of(self, kind: str, key: str) -> Fate | None:
        call = StoreCall(self.call_count, kind, key, current_host())
        self.call_count += 1
        loop = asyncio.get_running_loop()
        if isinstance(loop, SimLoop):
            loop.trace.fold(f"{call.host} store {kind} {key}")
        named = self.on_call(call) if self.on_call is not None else None
        if named is not None:
            return named
        if not self._is_up:
            return Fate(When.BEFORE, silent_seconds=self.rng.choice((0.0, TIME_LIMIT_SECONDS)))
        return self.faults.draw(self.rng)

    def draw_delay(self) -> float:
        return self._delay_seconds_max * self.rng.random() ** 2

    def record(self, kind: str, key: str, *, host: str, written: Written) -> None:
        if written.outcome is Outcome.WON:
            self.landed.append(
                Landed(
                    kind=kind,
                    key=key,
                    item=self.shelf.items[key],
                    host=host,
                    seconds=asyncio.get_running_loop().time(),
                )
            )

    def spoil(self, got: Got) -> Got:
        """What arrives of an answer."""
        faults, rng = self.faults, self.rng
        if faults.short_share and rng.random() < faults.short_share:
            raise StoreUnavailable(f"the answer for {got.stat.key} broke off")
        if faults.flipped_share and got.data and rng.random() < faults.flipped_share:
            data = bytearray(got.data)
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
            return replace(got, data=bytes(data), crcs=())
        return got

    def shown(self, key: str) -> Shelf:
        """What a read is answered from: the shelf, or, by a store that lies, an older state."""
        faults = self.faults
        if not faults.stale_share or self.rng.random() >= faults.stale_share:
            return self.shelf
        older = [each.item for each in self.landed if each.key == key][:-1]
        if not older or key not in self.shelf.items:
            return self.shelf
        shelf = Shelf()
        shelf.items[key] = self.rng.choice(older)
        return shelf

    # What a fate does to the process that asks

    def die(self) -> asyncio.Future[None]:
        return self._the_world().die()

    def kill(self, life: Life) -> None:
        if life.alive:
            self._the_world().kill(life.host)

    def freeze(self, life: Life) -> None:
        if life.alive:
            self._the_world().freeze(life.host)

    def _the_world(self) -> SimWorld:
        assert self._world is not None, "a bucket without a world cannot touch processes"
        return self._world
