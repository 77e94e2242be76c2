"""What a power cut may leave on the simulated disk.

A *legal state* of a file: every sector holds its content as of some moment since the last sync,
each sector its own moment. That is what a page cache does: writes to different sectors reach the
platter in any order or not at all, while a later write to a sector carries the earlier ones to the
same sector with it. A write is thereby kept, lost or torn at 512 B or 4 KiB. The size is journalled
on its own: it may have grown over bytes that never arrived (they read as zeros), but never lies
below a sector that did arrive. Truncates happen in order or not at all; bytes written over
truncated ground need the truncate to have happened.

A legal state of the names: each directory keeps a prefix of its unsynced changes, or, in the
harsher `SUBSET`, any of them whose ground is still there. A rename is one change: old or new, never
both or neither. Whether a file's bytes are durable says nothing about its name, nor the name about
the bytes.
"""

from collections.abc import Sequence
from enum import Enum
from random import Random

from tierlog.sim.nodes import (
    BLOCK_BYTES,
    Change,
    DirNode,
    FileNode,
    NameChange,
    NamesOf,
    Node,
    all_directories,
    overlay,
    resize,
)

SECTOR_BYTES = (512, 4096)


class DataFate(Enum):
    """What becomes of the unsynced writes of one file."""

    LOST = "all lost"
    ZEROS = "all lost, but the size may have grown over them"
    KEPT = "all kept"
    PREFIX = "kept up to some write, the next one possibly torn"
    SUBSET = "each write kept or lost"
    TORN = "each write kept, lost or torn"
    SECTORS = "each sector of each write kept or lost"


class NameFate(Enum):
    """What becomes of the unsynced names."""

    LOST = "all lost"
    KEPT = "all kept"
    PREFIX = "each directory keeps a prefix"
    SUBSET = "each change kept or lost where its ground is there"


# The plain fates are needed but soon exhausted: most draws go where the states are many.
DATA_WEIGHTS = {
    DataFate.LOST: 1,
    DataFate.ZEROS: 1,
    DataFate.KEPT: 1,
    DataFate.PREFIX: 4,
    DataFate.SUBSET: 4,
    DataFate.TORN: 4,
    DataFate.SECTORS: 3,
}
NAME_WEIGHTS = {NameFate.LOST: 1, NameFate.KEPT: 4, NameFate.PREFIX: 3, NameFate.SUBSET: 2}


def draw_fate(rng: Random) -> DataFate:
    return rng.choices(list(DATA_WEIGHTS), list(DATA_WEIGHTS.values()))[0]


def draw_tree(
    root: DirNode, rng: Random, *, data: DataFate | None = None, names: NameFate | None = None
) -> DirNode:
    """A fresh, clean tree in one legal state. What is not pinned down is drawn."""
    drawn = rng.choices(list(NAME_WEIGHTS), list(NAME_WEIGHTS.values()))[0]
    names_of = draw_names(root, rng, names or drawn)
    # Half of the cuts treat all files alike: independent draws hardly ever lose everything.
    if data is None and rng.random() < 0.5:
        data = draw_fate(rng)
    return _settle_directory(root, names_of, rng, data)


def _settle_directory(
    directory: DirNode, names_of: NamesOf, rng: Random, data: DataFate | None
) -> DirNode:
    names: dict[str, Node] = {}
    for name, node in sorted(names_of[id(directory)].items()):
        if isinstance(node, DirNode):
            names[name] = _settle_directory(node, names_of, rng, data)
        else:
            names[name] = _settle_file(node, rng, data or draw_fate(rng))
    return DirNode(names=names, durable=dict(names))


def _settle_file(node: FileNode, rng: Random, fate: DataFate) -> FileNode:
    if node.changes:
        content = draw_content(node.durable, node.changes, rng, fate)
    else:
        content = node.durable
        node.shared = True
    blocks = -(-max(len(content), node.reserved) // BLOCK_BYTES)
    return FileNode(
        durable=content,
        cache=content,
        shared=True,
        reserved=node.reserved,
        charged=blocks * BLOCK_BYTES,
        bad_ranges=node.bad_ranges.copy(),
        inode=node.inode,
    )


# Names


def draw_names(root: DirNode, rng: Random, fate: NameFate) -> NamesOf:
    directories = all_directories(root)
    names_of = {id(each): dict(each.durable) for each in directories}
    pending = {change.serial: change for each in directories for change in each.changes}
    changes = [pending[serial] for serial in sorted(pending)]
    for change in _kept_changes(changes, rng, fate):
        change.apply(names_of)
    return names_of


def _kept_changes(
    changes: Sequence[NameChange], rng: Random, fate: NameFate
) -> Sequence[NameChange]:
    if fate is NameFate.LOST:
        return ()
    if fate is NameFate.KEPT:
        return changes
    if fate is NameFate.SUBSET:
        return [change for change in changes if rng.random() < 0.5]
    return _prefixes(changes, rng)


def _prefixes(changes: Sequence[NameChange], rng: Random) -> Sequence[NameChange]:
    """A prefix for each directory; a rename across two of them lies in both prefixes or none."""
    serials: dict[int, list[int]] = {}
    for change in changes:
        for directory in change.directories():
            serials.setdefault(id(directory), []).append(change.serial)
    never = changes[-1].serial + 1 if changes else 0
    limits = {key: rng.choice([*of_one, never]) for key, of_one in serials.items()}
    kept: list[NameChange] = []
    # In order of time: once a change is refused, its directories accept nothing later.
    for change in changes:
        keys = [id(directory) for directory in change.directories()]
        if all(change.serial < limits[key] for key in keys):
            kept.append(change)
        else:
            limits.update(dict.fromkeys(keys, -1))
    return kept


# Bytes


class _Plan:
    """Which sectors keep which changes, and which truncates happened."""

    __slots__ = ("grain", "moments", "truncates_done")

    def __init__(self, grain: int) -> None:
        self.grain = grain
        self.moments: dict[int, int] = {}
        """Sector -> index of the last change that reached it."""
        self.truncates_done = 0

    def keep(self, index: int, start: int, end: int) -> None:
        self.moments.update(dict.fromkeys(self._sectors(start, end), index))

    def tear(self, index: int, start: int, end: int, rng: Random) -> None:
        for sector in self._sectors(start, end):
            if rng.random() < 0.5:
                self.moments[sector] = index

    def runs(self, index: int, start: int, end: int) -> list[tuple[int, int]]:
        """The parts of `[start, end)` that show change `index` or a later one."""
        found: list[tuple[int, int]] = []
        for sector in self._sectors(start, end):
            if self.moments.get(sector, -1) < index:
                continue
            left = max(start, sector * self.grain)
            right = min(end, (sector + 1) * self.grain)
            if found and found[-1][1] == left:
                found[-1] = (found[-1][0], right)
            else:
                found.append((left, right))
        return found

    def _sectors(self, start: int, end: int) -> range:
        return range(start // self.grain, -(-end // self.grain)) if end > start else range(0)


def draw_content(
    durable: bytes | bytearray, changes: Sequence[Change], rng: Random, fate: DataFate
) -> bytearray:
    """One legal content of a file with these durable bytes and unsynced changes."""
    content = bytearray(durable)
    if not changes:
        return content
    steps = _steps(len(content), changes)
    plan = _draw_plan(steps, rng, fate)
    last_done, first_undone = _apply(content, steps, plan)
    _cover_kept_sectors(content, steps[:first_undone], plan, last_done)
    if fate is DataFate.LOST:
        moment = -1
    elif fate is DataFate.KEPT:
        moment = len(steps) - 1
    else:
        moment = rng.randint(last_done, first_undone - 1)
    size = steps[moment].size if moment >= 0 else len(durable)
    if size > len(content):
        resize(content, size)
    return content


class _Step:
    """A change together with the size before and after it. A truncate is also a write of zeros
    to the end of its page: the kernel clears that part in memory, and it may go out alone."""

    __slots__ = ("data", "end", "shrinks", "size", "start", "truncates")

    def __init__(self, change: Change, size_before: int) -> None:
        self.start = change.position
        self.truncates = change.data is None
        if change.data is None:
            self.shrinks = change.position < size_before
            self.end = min(-(-self.start // BLOCK_BYTES) * BLOCK_BYTES, size_before)
            self.end = max(self.end, self.start)
            self.data = bytes(self.end - self.start)
            self.size = change.position
        else:
            self.shrinks = False
            self.data = change.data
            self.end = self.start + len(change.data)
            self.size = max(size_before, self.end)


def _steps(size: int, changes: Sequence[Change]) -> list[_Step]:
    steps: list[_Step] = []
    for change in changes:
        steps.append(_Step(change, size))
        size = steps[-1].size
    return steps


def _draw_plan(steps: Sequence[_Step], rng: Random, fate: DataFate) -> _Plan:
    plan = _Plan(rng.choice(SECTOR_BYTES))
    truncate_count = sum(step.truncates for step in steps)
    plan.truncates_done = rng.randint(0, truncate_count) if truncate_count else 0
    if fate in (DataFate.LOST, DataFate.ZEROS):
        plan.truncates_done = 0
    elif fate is DataFate.KEPT:
        plan.truncates_done = truncate_count
        for index, step in enumerate(steps):
            plan.keep(index, step.start, step.end)
    elif fate is DataFate.PREFIX:
        _keep_prefix(plan, steps, rng)
    else:
        _keep_some(plan, steps, rng, fate)
    return plan


def _keep_prefix(plan: _Plan, steps: Sequence[_Step], rng: Random) -> None:
    count = rng.randrange(len(steps) + 1)
    plan.truncates_done = sum(step.truncates for step in steps[:count])
    for index, step in enumerate(steps[:count]):
        plan.keep(index, step.start, step.end)
    if count < len(steps) and not steps[count].truncates and rng.random() < 0.5:
        plan.tear(count, steps[count].start, steps[count].end, rng)


def _keep_some(plan: _Plan, steps: Sequence[_Step], rng: Random, fate: DataFate) -> None:
    kept = rng.choice((0.1, 0.5, 0.9))
    for index, step in enumerate(steps):
        if fate is DataFate.SECTORS or (fate is DataFate.TORN and rng.random() < 0.4):
            plan.tear(index, step.start, step.end, rng)
        elif rng.random() < kept:
            plan.keep(index, step.start, step.end)


def _apply(content: bytearray, steps: Sequence[_Step], plan: _Plan) -> tuple[int, int]:
    """Carry the plan out. Tells the last truncate that happened and the first that did not."""
    last_done, first_undone = -1, len(steps)
    truncates_left = plan.truncates_done
    ground: int | None = None  # Beyond it, bytes need a truncate that did not happen.
    for index, step in enumerate(steps):
        if step.truncates and truncates_left:
            truncates_left -= 1
            last_done = index
            resize(content, step.size)
            continue
        if step.truncates and first_undone == len(steps):
            first_undone = index
        end = step.end if ground is None else min(step.end, ground)
        view = memoryview(step.data)
        for left, right in plan.runs(index, step.start, end):
            overlay(content, left, view[left - step.start : right - step.start])
        if step.shrinks:
            ground = step.start if ground is None else min(ground, step.start)
    return last_done, first_undone


def _cover_kept_sectors(
    content: bytearray, steps: Sequence[_Step], plan: _Plan, last_done: int
) -> None:
    """A sector that arrived arrived whole: as far as the file reached at its moment."""
    size = len(content)
    for sector, index in plan.moments.items():
        if last_done < index < len(steps) and (sector + 1) * plan.grain > size:
            size = max(size, min((sector + 1) * plan.grain, steps[index].size))
    resize(content, size)
