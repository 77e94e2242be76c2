"""Crashes of the local metastore at every disk operation, and what must be there afterwards.

One seed makes one history: writers and readers on a store in the simulated world, closed and opened
again on the way, sometimes on a full disk, sometimes until an fsync fails. Before every single disk
operation the disk and what the users know are copied. Each copy is killed, or loses its power into
drawn legal states, some of them once more in the middle of recovery. What opens then must be the
state behind some transaction, exactly; not before the last one that was acknowledged or shown; and
it must be durable itself.
"""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any
from unittest.mock import patch

from tierlog.env import Env
from tierlog.metastore import (
    Compare,
    Delete,
    LocalMetaStore,
    MetaStoreBroken,
    MetaStoreDamaged,
    MetaStoreError,
    MetaStoreFull,
    MetaStoreNewer,
    Put,
)
from tierlog.metastore.journal import JOURNAL, SNAPSHOT, Journal
from tierlog.metastore.local import _fail
from tierlog.sim import DataFate, NameFate, PowerCut, SimDisk, SimWorld, simulate
from tierlog.sim.file import SimFile
from tierlog.sim.nodes import BLOCK_BYTES
from tierlog.sim.ports import SimRng

NODE, PATH = "node", "/data/meta"
ROOMY = 1 << 40
KEYS = tuple(f"/k{number}" for number in range(8))
JOURNAL_BYTES_MIN = 2500
"""Small: a history compacts a few times."""

Value = tuple[bytes, int, int, bool]
"""Of one key: its bytes, revision, revision of its creation, whether a session holds it."""
Model = dict[str, Value]


class Violation(Exception):
    """A promise was broken."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A transaction that was handed in. Both empty: sessions end because the store closes."""

    compares: tuple[Compare, ...] = ()
    changes: tuple[Put | Delete, ...] = ()


@dataclass(slots=True)
class Known:
    """What the users of the store know."""

    base: tuple[int, Model] = (0, {})
    """Revision and content before the first attempt."""
    attempts: list[Attempt] = field(default_factory=list)
    """In the order in which they were handed in, which is the order that the store keeps."""
    refused: set[int] = field(default_factory=set)
    """Which of them will never happen."""
    shown: int = 0
    """The highest revision that anybody was told of."""

    def copy(self) -> "Known":
        return replace(self, attempts=list(self.attempts), refused=set(self.refused))

    def states(self) -> Iterator[tuple[int, Model]]:
        """Revision and content at the beginning and behind each attempt."""
        revision, model = self.base
        yield revision, model
        for number, attempt in enumerate(self.attempts):
            if number in self.refused:
                continue
            changed = apply(model, attempt, revision + 1)
            if changed != model:
                revision, model = revision + 1, changed
                yield revision, model


def apply(model: Model, attempt: Attempt, revision: int) -> Model:
    """The store in ten lines: the oracle."""
    if not attempt.changes:
        return {key: value for key, value in model.items() if not value[3]}
    changed = dict(model)
    for compare in attempt.compares:
        if (model[compare.key][1] if compare.key in model else 0) != compare.revision:
            return model
    for change in attempt.changes:
        if isinstance(change, Delete):
            changed.pop(change.key, None)
            continue
        created = model[change.key][2] if change.key in model else revision
        changed[change.key] = (change.value, revision, created, change.session is not None)
    return changed


# The history


class History:
    """One run; `moments` are the copies, in order."""

    def __init__(self, seed: int, *, can_reserve: bool = True) -> None:
        """`can_reserve`: the file system offers fallocate. Some do not."""
        self.rng = Random(f"metastore {seed}")
        self.known = Known()
        self.moments: list[tuple[str, SimDisk, Known]] = []
        self.is_broken = False
        self._fails = self.rng.random() < 0.3
        fallocate = SimFile.fallocate if can_reserve else lambda file, size: None
        with (
            patch("tierlog.metastore.local._fail", self._note_refusal),
            patch.object(SimFile, "fallocate", fallocate),
        ):
            simulate(self._run, seed=seed, world=SimWorld(seed))

    async def _run(self, world: SimWorld) -> None:
        self._disk = world.disk(NODE)
        self._disk.on_op = self._copy
        for _ in range(2):
            if not self.is_broken:
                self._disk.capacity = ROOMY
                await world.start(NODE, self._live(world.env(NODE)), what="live")
        self._copy("the end")

    def _copy(self, op: str) -> None:
        disk = self._disk.snapshot()
        disk.capacity = ROOMY  # Whoever starts a machine with a full disk makes room first.
        self.moments.append((op, disk, self.known.copy()))

    def _note_refusal(self, waiting: Any, error: MetaStoreError) -> None:
        """Told before the store goes on: its caller hears of it later, between other writes."""
        if isinstance(error, MetaStoreFull):
            numbers = enumerate(self.known.attempts)
            self.known.refused |= {n for n, each in numbers if each.changes is waiting.changes}
        _fail(waiting, error)

    async def _live(self, env: Env) -> None:
        store = await LocalMetaStore.open(env, PATH, journal_bytes_min=JOURNAL_BYTES_MIN)
        session = store.session(ttl_ms=1000)
        await session.start()
        writers = (self._write(store, session) for _ in range(3))
        for fault in await asyncio.gather(*writers, return_exceptions=True):
            if fault is not None and not isinstance(fault, MetaStoreBroken):
                raise fault
            self.is_broken |= fault is not None
        if self.is_broken:
            return  # A broken process dies, a sound one closes.
        self.known.attempts.append(Attempt())
        await store.close()
        self.known.shown = max(self.known.shown, list(self.known.states())[-1][0])

    async def _write(self, store: LocalMetaStore, session: object) -> None:
        for _ in range(self.rng.randrange(4, 9)):
            if self.rng.random() < 0.3:
                await asyncio.sleep(self.rng.random() * 0.05)
            compares = await self._compares(store)
            self._trouble()
            attempt = Attempt(compares, self._changes(session))
            self.known.attempts.append(attempt)
            try:
                result = await store.txn(attempt.compares, attempt.changes)
                self.known.shown = max(self.known.shown, result.revision)
            except MetaStoreFull:
                self._disk.capacity = ROOMY

    async def _compares(self, store: LocalMetaStore) -> tuple[Compare, ...]:
        key = self.rng.choice(KEYS)
        entry = await store.get(key)
        revision = 0 if entry is None else entry.revision
        self.known.shown = max(self.known.shown, revision)
        return (Compare(key, revision),) if self.rng.random() < 0.4 else ()

    def _changes(self, session: object) -> tuple[Put | Delete, ...]:
        keys = self.rng.sample(KEYS, self.rng.randrange(1, 5))
        return tuple(self._change(key, session) for key in keys)

    def _change(self, key: str, session: object) -> Put | Delete:
        if self.rng.random() < 0.2:
            return Delete(key)
        value = self.rng.randbytes(self.rng.choice((0, 10, 100, 600, 1500)))
        under = session if self.rng.random() < 0.1 else None
        return Put(key, value, under)  # type: ignore[arg-type]  # a session of the store

    def _trouble(self) -> None:
        chance = self.rng.random()
        if chance < 0.05:
            self._disk.capacity = self._disk.used + self.rng.choice((0, 1, 2, 18)) * BLOCK_BYTES
        elif chance < 0.1 and self._fails:
            self._disk.fail_fsync(rng=self.rng if self.rng.random() < 0.5 else None)


# What must hold


def env_of(disk: SimDisk) -> Env:
    """Opening needs a disk and an id: no loop, no clock."""
    rng = SimRng(Random(1))
    return Env(clock=None, rng=rng, disk=disk, tasks=None, senders=None)  # type: ignore[arg-type]


def opened(disk: SimDisk) -> tuple[int, Model]:
    """What a process that starts now finds. It ends without closing in order."""
    journal = Journal(env_of(disk), PATH)
    journal.open()
    found = {
        entry.key: (entry.value, entry.revision, entry.created, bool(entry.session))
        for entry in journal.entries.values()
    }
    revision = journal.revision
    journal.close()
    return revision, found


def check(disk: SimDisk, known: Known, rng: Random) -> None:
    """Open the store and compare; then cut the power at once: nothing may change any more."""
    found = opened(disk)
    if found not in allowed(known):
        raise Violation(
            f"revision {found[0]} is not the state behind any transaction from {known.shown} on"
        )
    after = disk.after_power_cut(rng, data=DataFate.LOST, names=NameFate.LOST)
    if opened(after) != found:
        raise Violation(f"revision {found[0]} was shown after a restart, and was not durable")


def allowed(known: Known) -> list[tuple[int, Model]]:
    """States that may be found: a start ends the sessions of the process before it."""
    found = []
    for revision, model in known.states():
        if revision >= known.shown:
            kept = apply(model, Attempt(), 0)
            found.append((revision + (kept != model), kept))
    return found


def check_cut_recovery(disk: SimDisk, known: Known, rng: Random) -> None:
    """The power goes once more while the store is being opened."""
    last = disk.op_count + rng.randrange(12)

    def cut(op: str) -> None:
        if disk.op_count >= last:
            raise PowerCut(op)

    disk.on_op = cut
    with suppress(PowerCut):
        opened(disk)
    check(disk.after_power_cut(rng), known, rng)


# The hunts: the first broken promise of a seed, or None


def hunt_crashes(seed: int, *, draws: int = 3) -> str | None:
    rng = Random(f"draws {seed}")
    for op, disk, known in History(seed, can_reserve=seed % 3 > 0).moments:
        killed = disk.snapshot()
        killed.kill()
        cuts = [disk.after_power_cut(rng) for _ in range(draws)]
        for number, state in enumerate((killed, *cuts)):
            try:
                (check_cut_recovery if number == draws else check)(state, known, rng)
            except Exception as fault:  # noqa: BLE001 - whatever it raises, it is a finding
                return f"seed {seed}, state {number} before '{op}': {fault!r}"
    return None


def hunt_damage(seed: int) -> str | None:
    """Bits rot in the files of a killed process: the store is refused, or whole."""
    rng = Random(f"rot {seed}")
    for op, disk, known in History(seed).moments:
        disk.kill()
        for name in (JOURNAL, SNAPSHOT):
            path = f"{PATH}/{name}"
            # While a frame is on its way, the mark behind the last one is overwritten.
            if not disk.exists(path) or op.startswith("pwrite"):
                continue
            state = disk.snapshot()
            state.flip_bit(path, rng.randrange(state.size(path)), rng.randrange(8))
            try:
                check(state, known, rng)
            except (MetaStoreDamaged, MetaStoreNewer):
                continue
            except Exception as fault:  # noqa: BLE001 - whatever it raises, it is a finding
                return f"seed {seed}, rot in {name} before '{op}': {fault!r}"
    return None
