"""The simulated disk: one machine's file system, with its page cache, in memory.

Answers the `Disk` and `File` ports as Linux would, remembers what is durable and what is not, and
on demand misbehaves as disks do: it loses, tears and reorders unsynced writes at a power cut (see
`power.py` for what is legal), forgets names whose directory was not synced, fails an fsync and
drops the data while readers still see it, fills up, fails reads and flips bits.

A disk outlives processes. `kill` ends the process that uses it: open files go stale, locks fall,
the page cache stays. `power_cut` also draws what the platter kept. `after_power_cut` leaves the
disk alone and gives a new one in a drawn legal state: one history yields thousands of states.

Every mutating call counts in `op_count` and is told to `on_op` before it happens. If `on_op`
raises, the machine is dead: nothing changes any more and every call raises `PowerCut`, so that
`finally` blocks of the code under test cannot touch what a real machine would have lost.
"""

import errno
import hashlib
from collections.abc import Callable
from random import Random
from typing import TypeAlias

from tierlog.env.disk import DiskLock, File, Found
from tierlog.sim.faults import DiskFaults
from tierlog.sim.file import SimFile
from tierlog.sim.nodes import (
    BLOCK_BYTES,
    DirNode,
    FileNode,
    NameChange,
    Node,
    Place,
    make_names_durable,
)
from tierlog.sim.power import DataFate, NameFate, draw_tree
from tierlog.sim.tree import (
    copy_tree,
    describe,
    disk_error,
    find,
    find_directory,
    find_place,
    split,
    walk,
)

OpHook: TypeAlias = Callable[[str], None]


class PowerCut(BaseException):
    """The machine lost power in the middle of a call. Raise it from `on_op`. Not an `Exception`:
    no handler of the code under test may stop it."""


class SimLock:
    """A lock that falls when its process dies."""

    __slots__ = ("_disk", "_life", "_node")

    def __init__(self, disk: "SimDisk", node: Node) -> None:
        self._disk = disk
        self._node = node
        self._life = disk.life

    def release(self) -> None:
        if self._life == self._disk.life:
            self._disk.locked.pop(id(self._node), None)
            self._life = -1


class SimDisk(DiskFaults):
    """Implements `tierlog.env.Disk`. `DiskFaults` adds the knobs."""

    def __init__(self, *, capacity: int = 1 << 40) -> None:
        super().__init__()
        self.root = DirNode()
        self.capacity = capacity
        self.used = 0
        self.life = 0
        self.boots = 0
        self.op_count = 0
        self.on_op: OpHook | None = None
        self.trace: OpHook | None = None
        """Hears of every mutating call as well; the simulated world folds it into its hash."""
        self.locked: dict[int, Node] = {}
        self._dead: BaseException | None = None
        self._serial = 0

    # The port

    def open(self, path: str, *, write: bool = False, create: bool = False) -> File:
        self.alive()
        directory, name = find_place(self.root, path)
        node = directory.names.get(name)
        if node is None and create:
            self.begin("create", path)
            node = FileNode(inode=self.op_count)
            self._link(node, Place(directory, name))
        if node is None:
            raise disk_error(errno.ENOENT, path)
        if isinstance(node, DirNode):
            raise disk_error(errno.EISDIR, path)
        return SimFile(self, node, path, writable=write or create)

    def mkdir(self, path: str) -> None:
        self.alive()
        directory = self.root
        parts = split(path)
        for depth, part in enumerate(parts, start=1):
            node = directory.names.get(part)
            if node is None:
                self.begin("mkdir", "/".join(parts[:depth]))
                node = DirNode()
                self._link(node, Place(directory, part))
            if isinstance(node, FileNode):
                raise disk_error(errno.EEXIST if depth == len(parts) else errno.ENOTDIR, path)
            directory = node

    def rmdir(self, path: str) -> None:
        self.alive()
        directory, name = find_place(self.root, path)
        node = find_directory(self.root, path)
        if node.names:
            raise disk_error(errno.ENOTEMPTY, path)
        self.begin("rmdir", path)
        self._record(node, source=Place(directory, name), target=None)

    def listdir(self, path: str) -> list[str]:
        self.alive()
        return sorted(find_directory(self.root, path).names)

    def scan(self, path: str) -> list[Found]:
        self.alive()
        names = find_directory(self.root, path).names
        return sorted(Found(name, isinstance(node, DirNode)) for name, node in names.items())

    def exists(self, path: str) -> bool:
        self.alive()
        try:
            find(self.root, path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def size(self, path: str) -> int:
        self.alive()
        node = find(self.root, path)
        return len(node.cache) if isinstance(node, FileNode) else BLOCK_BYTES

    def rename(self, source: str, target: str) -> None:
        self.alive()
        node = find(self.root, source)
        place = find_place(self.root, target)
        if split(target)[: len(split(source))] == split(source) != split(target):
            raise disk_error(errno.EINVAL, target)  # A directory cannot move into itself.
        replaced = place.directory.names.get(place.name)
        if replaced is node:
            return
        if replaced is not None:
            _check_replace(node, replaced, target)
        self.begin("rename", f"{source} -> {target}")
        if isinstance(replaced, FileNode):
            self.unlinked(replaced)
        self._record(node, source=find_place(self.root, source), target=place)

    def rename_new(self, source: str, target: str) -> None:
        self.alive()
        if isinstance(find(self.root, source), DirNode):
            raise disk_error(errno.EPERM, source)
        place = find_place(self.root, target)
        if place.name in place.directory.names:
            raise disk_error(errno.EEXIST, target)
        self.rename(source, target)

    def unlink(self, path: str) -> None:
        self.alive()
        place = find_place(self.root, path)
        node = find(self.root, path)
        if isinstance(node, DirNode):
            raise disk_error(errno.EISDIR, path)
        self.begin("unlink", path)
        self.unlinked(node)
        self._record(node, source=place, target=None)

    def sync_dir(self, path: str) -> None:
        self.alive()
        directory = find_directory(self.root, path)
        self.begin("sync_dir", path)
        if self.takes_sync_failure(path):
            raise disk_error(errno.EIO, path)
        make_names_durable(directory)

    def lock(self, path: str) -> DiskLock:
        self.open(path, create=True).close()
        node = find(self.root, path)
        if id(node) in self.locked:
            raise disk_error(errno.EAGAIN, path)
        self.locked[id(node)] = node
        return SimLock(self, node)

    def free_bytes(self, path: str) -> int:
        self.alive()
        find(self.root, path)
        return max(0, self.capacity - self.used)

    def total_bytes(self, path: str) -> int:
        return self.capacity

    def boot_id(self) -> str:
        self.alive()
        return f"00000000-0000-4000-8000-{self.boots:012d}"

    # The life of processes and of the machine

    def kill(self) -> None:
        """The process died: its files and locks are gone, the page cache is not."""
        self.life += 1
        self.locked.clear()
        self._dead = None
        for _, node in walk(self.root):
            if isinstance(node, FileNode):
                node.open_count = 0
        self._count_space()

    def power_cut(
        self, rng: Random, *, data: DataFate | None = None, names: NameFate | None = None
    ) -> None:
        """The machine lost power and starts again in a legal state; what is not pinned is drawn."""
        self.root = draw_tree(self.root, rng, data=data, names=names)
        self.boots += 1
        self.kill()

    def after_power_cut(
        self, rng: Random, *, data: DataFate | None = None, names: NameFate | None = None
    ) -> "SimDisk":
        """A new disk in a legal state that a power cut at this moment may leave."""
        disk = SimDisk(capacity=self.capacity)
        disk.root = draw_tree(self.root, rng, data=data, names=names)
        disk.boots = self.boots + 1
        disk.op_count = self.op_count
        disk.kill()
        return disk

    def snapshot(self) -> "SimDisk":
        """An independent twin, pending changes and locks included; open files stay with this one.
        Bytes are shared until one side writes, so it is cheap."""
        disk = SimDisk(capacity=self.capacity)
        twins: dict[int, Node] = {}
        disk.root = copy_tree(self.root, twins)
        disk.locked = {id(twins[key]): twins[key] for key in self.locked if key in twins}
        disk.used, disk.boots, disk.life = self.used, self.boots, self.life
        disk.op_count, disk._serial = self.op_count, self._serial
        return disk

    def state_hash(self) -> str:
        """Names and bytes that readers see, in one word: to count distinct states."""
        digest = hashlib.blake2b(digest_size=16)
        for path, node in walk(self.root):
            content = node.cache if isinstance(node, FileNode) else b"/"
            digest.update(f"{path}\0{len(content)}\0".encode())
            digest.update(content)
        return digest.hexdigest()

    def pending(self) -> list[str]:
        """What a power cut may still take away, one line a change."""
        return describe(self.root)

    # For files and faults

    def alive(self) -> None:
        if self._dead is not None:
            raise PowerCut from self._dead

    def begin(self, call: str, what: str) -> None:
        """Announce a mutating call; the hook may end the machine instead."""
        if self.on_op is not None:
            try:
                self.on_op(f"{call} {what}")
            except BaseException as dead:
                self._dead = dead
                raise
        if self.trace is not None:
            self.trace(f"{call} {what}")
        self.op_count += 1

    def charge(self, node: FileNode, size: int) -> int:
        """Reserve space for the first `size` bytes; the answer is how many of them fit."""
        wanted = -(-size // BLOCK_BYTES) * BLOCK_BYTES - node.charged
        if wanted <= 0:
            return size
        granted = min(wanted, max(0, self.capacity - self.used) // BLOCK_BYTES * BLOCK_BYTES)
        node.charged += granted
        self.used += granted
        return min(size, node.charged)

    def refund(self, node: FileNode, size: int) -> None:
        """Give back what the file holds beyond `size` bytes."""
        surplus = node.charged - -(-size // BLOCK_BYTES) * BLOCK_BYTES
        if surplus > 0:
            node.charged -= surplus
            self.used -= surplus

    def unlinked(self, node: FileNode) -> None:
        node.linked = False
        self.closed(node)

    def closed(self, node: FileNode) -> None:
        """The kernel frees a file once it has neither name nor reader."""
        if not node.linked and not node.open_count:
            self.refund(node, 0)

    def _link(self, node: Node, place: Place) -> None:
        self._record(node, source=None, target=place)

    def _record(self, node: Node, *, source: Place | None, target: Place | None) -> None:
        self._serial += 1
        change = NameChange(serial=self._serial, node=node, source=source, target=target)
        change.apply({id(each): each.names for each in change.directories()})
        for directory in change.directories():
            directory.changes.append(change)

    def _count_space(self) -> None:
        self.used = sum(node.charged for _, node in walk(self.root) if isinstance(node, FileNode))


def _check_replace(node: Node, replaced: Node, path: str) -> None:
    if isinstance(replaced, DirNode):
        if isinstance(node, FileNode):
            raise disk_error(errno.EISDIR, path)
        if replaced.names:
            raise disk_error(errno.ENOTEMPTY, path)
    elif isinstance(node, DirNode):
        raise disk_error(errno.ENOTDIR, path)
