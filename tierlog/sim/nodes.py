"""Files and directories of the simulated disk, each twice: what is seen and what is durable.

A `FileNode` holds its durable bytes, the page cache that readers see, and the changes between the
two in order. A `DirNode` holds durable and visible names and the renames, creates and unlinks
between them. Names point to nodes, so a rename carries the pending bytes along.

Invariant: visible == durable with every pending change applied in order, except after a failed
fsync, which drops the changes and leaves the cache showing them (as Linux does).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

BLOCK_BYTES = 4096
"""Unit of space accounting and of the page cache."""


class Change(NamedTuple):
    """An unsynced write of `data` at `position`, or, without data, a truncate to `position`."""

    position: int
    data: bytes | None


class BadRange(NamedTuple):
    """Reads that touch `[start, end)` fail."""

    start: int
    end: int


def overlay(content: bytearray, position: int, data: bytes | memoryview) -> None:
    """Write into `content`, filling a gap before `position` with zeros."""
    gap = position - len(content)
    if gap > 0:
        content.extend(bytes(gap))
    content[position : position + len(data)] = data


def resize(content: bytearray, size: int) -> None:
    if size <= len(content):
        del content[size:]
    else:
        content.extend(bytes(size - len(content)))


def apply_change(content: bytearray, change: Change) -> None:
    if change.data is None:
        resize(content, change.position)
    else:
        overlay(content, change.position, change.data)


@dataclass(slots=True, eq=False)
class FileNode:
    """The content of one file, whatever names lead to it."""

    durable: bytearray = field(default_factory=bytearray)
    cache: bytearray = field(default_factory=bytearray)
    changes: list[Change] = field(default_factory=list)
    reserved: int = 0
    charged: int = 0
    """Bytes of the disk's capacity that this file holds, in whole blocks."""
    linked: bool = True
    open_count: int = 0
    bad_ranges: list[BadRange] = field(default_factory=list)
    inode: int = 0
    """Never given to another file of this disk."""
    shared: bool = False
    """The byte arrays belong to a copy as well: take own ones before writing."""

    def change(self, change: Change) -> None:
        self.own()
        apply_change(self.cache, change)
        self.changes.append(change)

    def sync(self) -> None:
        """Everything changed so far becomes durable; what a failed fsync dropped does not."""
        self.own()
        for change in self.changes:
            apply_change(self.durable, change)
        self.changes.clear()
        # The size is metadata and is journalled even when data pages were dropped: the dropped
        # range then reads as zeros or as old bytes.
        if len(self.durable) != len(self.cache):
            resize(self.durable, len(self.cache))

    def drop_cache(self) -> None:
        """What readers see after the clean pages left memory."""
        self.cache = bytearray(self.durable)
        for change in self.changes:
            apply_change(self.cache, change)

    def own(self) -> None:
        if self.shared:
            self.durable = bytearray(self.durable)
            self.cache = bytearray(self.cache)
            self.shared = False

    def copy(self) -> FileNode:
        """A twin; bytes are shared until one of the two writes."""
        self.shared = True
        return FileNode(
            durable=self.durable,
            cache=self.cache,
            changes=self.changes.copy(),
            reserved=self.reserved,
            charged=self.charged,
            linked=self.linked,
            bad_ranges=self.bad_ranges.copy(),
            inode=self.inode,
            shared=True,
        )


@dataclass(slots=True, eq=False)
class DirNode:
    """The names in one directory."""

    names: dict[str, Node] = field(default_factory=dict)
    durable: dict[str, Node] = field(default_factory=dict)
    changes: list[NameChange] = field(default_factory=list)

    def nodes(self) -> list[Node]:
        """Every node that some legal state of this directory may name, each once."""
        found = {id(node): node for node in self.names.values()}
        found |= {id(node): node for node in self.durable.values()}
        found |= {id(change.node): change.node for change in self.changes}
        return list(found.values())


Node: TypeAlias = FileNode | DirNode


class Place(NamedTuple):
    """A name in a directory."""

    directory: DirNode
    name: str


@dataclass(slots=True, eq=False, kw_only=True)
class NameChange:
    """A create (no source), an unlink (no target) or a rename (both) of `node`: all or nothing."""

    serial: int
    node: Node
    source: Place | None
    target: Place | None

    def directories(self) -> list[DirNode]:
        """The directories concerned, each once."""
        found = [place.directory for place in (self.source, self.target) if place]
        return found[:1] if found[0] is found[-1] else found

    def apply(self, names_of: NamesOf) -> bool:
        """Carry the change out on these names, unless what it builds on is not there."""
        if self.source is not None:
            if names_of[id(self.source.directory)].get(self.source.name) is not self.node:
                return False
            del names_of[id(self.source.directory)][self.source.name]
        elif self.target is not None and self.target.name in names_of[id(self.target.directory)]:
            return False
        if self.target is not None:
            names_of[id(self.target.directory)][self.target.name] = self.node
        return True

    def __str__(self) -> str:
        if self.source is None:
            return f"create {self.target.name if self.target else '?'}"
        if self.target is None:
            return f"unlink {self.source.name}"
        return f"rename {self.source.name} -> {self.target.name}"


NamesOf: TypeAlias = dict[int, dict[str, Node]]
"""Names by identity of their directory; used for look-up only, never iterated."""


def all_directories(root: DirNode) -> list[DirNode]:
    """Every directory that some legal state may contain, parents first."""
    found: list[DirNode] = []
    seen: set[int] = set()
    waiting: list[Node] = [root]
    while waiting:
        node = waiting.pop()
        if isinstance(node, DirNode) and id(node) not in seen:
            seen.add(id(node))
            found.append(node)
            waiting.extend(node.nodes())
    return found


def make_names_durable(directory: DirNode) -> None:
    """Sync a directory. A rename across directories takes the other's earlier changes along,
    for a journal never commits half a rename."""
    limits: dict[int, int] = {}
    directories: dict[int, DirNode] = {}
    waiting = [(directory, directory.changes[-1].serial if directory.changes else -1)]
    while waiting:
        current, limit = waiting.pop()
        if limits.get(id(current), -1) >= limit:
            continue
        limits[id(current)] = limit
        directories[id(current)] = current
        for change in current.changes:
            if change.serial <= limit:
                waiting.extend((other, change.serial) for other in change.directories())
    changes = {
        change.serial: change
        for key, each in directories.items()
        for change in each.changes
        if change.serial <= limits[key]
    }
    durable_of = {key: each.durable for key, each in directories.items()}
    for serial in sorted(changes):
        applied = changes[serial].apply(durable_of)
        assert applied, "durable names must accept their own history"
    for each in directories.values():
        each.changes = [change for change in each.changes if change.serial not in changes]
