"""Crash points: every call of the cold tier that changes the disk, and every call to the store.

A `Gate` stands in the ports of the processes. It numbers the calls as they come; a `Shot`
names one of them and what happens there. One seed makes one history, so the calls up to the shot
are the same in every run.

Reads of the local disk are no points: they change nothing, so a death there leaves what a death
behind the change before it does.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import Enum
from typing import Any, NamedTuple, cast

from tests.crashpoints.stages import StagedTasks, current_stage, lost
from tierlog.env import Disk, Env
from tierlog.sim import SimWorld
from tierlog.sim.bucket import SimBucket
from tierlog.sim.disk import PowerCut
from tierlog.sim.storefaults import Fate, StoreCall, Then, When

CHANGES_NAMES = {"mkdir", "rmdir", "rename", "rename_new", "unlink", "sync_dir"}
CHANGES_BYTES = {"pwrite", "fdatasync", "fallocate", "truncate"}
CHANGING = CHANGES_NAMES | CHANGES_BYTES
READS = frozenset(["get", "get_tail", "head", "list", "list_uploads"])
LATE_SECONDS = (0.0, 0.2, 3.0)
"""How late a request in flight lands: at once, between two tries of its sender, or once others have
gone on."""


class End(Enum):
    """What becomes of the process."""

    DIES = "dies"
    LIVES = "lives on"
    """Only the answer is lost. Store calls alone: what a disk does not answer ends the process."""
    CLONED = "zombie, clone"
    """It stands still; a node on a copy of its disk takes over; then it wakes."""
    RESTORED = "zombie, restore"
    """Likewise, and the successor is restored from the bucket on another machine."""


class Point(NamedTuple):
    """A call that was seen."""

    number: int
    stage: str
    is_store: bool
    what: str
    turn: int
    """Of the loop: what one callback does, nobody comes between."""
    is_lost: bool = False
    """The store has lost something by now that only the disk has."""

    @property
    def is_read(self) -> bool:
        return self.what.partition(" ")[0] in READS


class Shot(NamedTuple):
    number: int
    when: When
    end: End

    def __str__(self) -> str:
        return f"{self.number}:{self.when.name.lower()}:{self.end.name.lower()}"

    @property
    def is_zombie(self) -> bool:
        return self.end in (End.CLONED, End.RESTORED)

    @property
    def late_seconds(self) -> float:
        return LATE_SECONDS[self.number % len(LATE_SECONDS)]


def parse_shot(text: str) -> Shot:
    number, when, end = text.split(":")
    return Shot(int(number), When[when.upper()], End[end.upper()])


def all_shots(points: Sequence[Point]) -> list[Shot]:
    """Everything that may happen at these points, all of one history."""
    found: list[Shot] = []
    seen: set[int] = set()
    for point in points:
        ends = {end: list(When) for end in End}
        if not point.is_store:
            # A zombie's disk is nobody else's: it stands still at the end of its turn, once.
            ends = {end: [] if point.turn in seen else [When.BEFORE] for end in End}
            ends |= {End.DIES: list(When), End.LIVES: []}
            seen.add(point.turn)
        elif point.is_read:
            ends[End.LIVES] = [When.BEFORE]  # There is no effect to be in doubt about.
        if point.stage == "restore":
            ends[End.CLONED] = []  # Whoever restores is succeeded by another restore.
        if point.stage == "repair" or point.is_lost:
            ends[End.RESTORED] = []  # What the store lost, only the frozen one's disk has.
        found += [Shot(point.number, when, end) for end, whens in ends.items() for when in whens]
    return found


class Gate:
    def __init__(
        self,
        world: SimWorld,
        bucket: SimBucket,
        shot: Shot | None,
        *,
        on_call: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_call` hears of every call before it happens, points or not."""
        self.points: list[Point] = []
        self.fired: Point | None = None
        self._world = world
        self._shot = shot
        self._on_call = on_call
        bucket.on_call = self._on_store

    def env(self, host: str) -> Env:
        """The ports of the host's present process."""
        env = self._world.env(host)
        disk = _Gated(env.disk, _Process(self, host))
        tasks = StagedTasks(env.tasks, is_needed=lambda: self.fired is None)
        return replace(env, disk=cast("Disk", disk), tasks=tasks)

    def _is_shot(self, *, is_store: bool, what: str) -> bool:
        """Number the call. Whether it is the one. Nothing more is counted behind it."""
        self._on_call()
        stage = current_stage() if self.fired is None else None
        if stage is None:
            return False
        turn, is_lost = self._world.loop.steps, bool(lost)
        point = Point(len(self.points), stage, is_store, what, turn, is_lost)
        self.points.append(point)
        if self._shot is None or self._shot.number != point.number:
            return False
        self.fired = point
        return True

    def _on_store(self, call: StoreCall) -> Fate | None:
        if not self._is_shot(is_store=True, what=f"{call.kind} {call.key}"):
            return None
        assert self._shot is not None, "shot"
        then = {End.DIES: Then.DIE, End.LIVES: Then.ERROR}.get(self._shot.end, Then.FREEZE)
        is_late = self._shot.when is When.AMBIGUOUS
        return Fate(self._shot.when, then, late_seconds=self._shot.late_seconds if is_late else 0.0)

    def takes_disk_call(self, what: str) -> Shot | None:
        """The shot, if it is this call."""
        return self._shot if self._is_shot(is_store=False, what=what) else None

    def freeze(self, host: str) -> None:
        self._world.freeze(host)

    def die(self) -> None:
        self._world.die()


class _Process:
    """The disk calls of one process pass here."""

    def __init__(self, gate: Gate, host: str) -> None:
        self._gate = gate
        self._host = host
        self._is_dead = False

    def call(self, name: str, inner: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        if self._is_dead:
            raise PowerCut  # What its `finally` blocks would like to do.
        shot = None
        if _changes(name, inner, args, options):
            path = args[0] if args and isinstance(args[0], str) else getattr(inner, "_path", "")
            shot = self._gate.takes_disk_call(f"{name} {path}")
        if shot is None:
            return getattr(inner, name)(*args, **options)
        if shot.is_zombie:
            self._gate.freeze(self._host)  # At the end of this callback.
            return getattr(inner, name)(*args, **options)
        # In doubt: the call may have happened, and the cut that follows may take it back.
        if shot.when is not When.BEFORE and (shot.when is When.AFTER or shot.number % 2):
            getattr(inner, name)(*args, **options)
        self._is_dead = True
        self._gate.die()
        raise PowerCut


def _changes(name: str, inner: Any, args: tuple[Any, ...], options: dict[str, Any]) -> bool:
    if name == "open":
        return bool(options.get("create")) and not inner.exists(args[0])
    return name in CHANGING and not (name == "mkdir" and inner.exists(args[0]))


class _Gated:
    """A disk, or a file of it, as a process sees it."""

    def __init__(self, inner: Any, process: _Process) -> None:
        self._inner = inner
        self._process = process

    def __getattr__(self, name: str) -> Any:
        if not callable(getattr(self._inner, name)):
            return getattr(self._inner, name)

        def call(*args: Any, **options: Any) -> Any:
            result = self._process.call(name, self._inner, args, options)
            return _Gated(result, self._process) if name == "open" else result

        return call
