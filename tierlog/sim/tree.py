"""Finding one's way in a simulated directory tree: look up, walk, copy, describe."""

import errno
from collections.abc import Iterator
from functools import lru_cache

from tierlog.sim.nodes import DirNode, FileNode, NameChange, Node, Place, all_directories


def disk_error(code: int, path: str) -> OSError:
    """The error the kernel would raise; Python picks the subclass by its number."""
    return OSError(code, errno.errorcode[code], path)


@lru_cache(maxsize=4096)
def split(path: str) -> tuple[str, ...]:
    parts = tuple(part for part in path.split("/") if part not in ("", "."))
    assert ".." not in parts, "the simulated disk has no use for .."
    return parts


def find(root: DirNode, path: str) -> Node:
    return _descend(root, split(path), path)


def _descend(root: DirNode, parts: tuple[str, ...], path: str) -> Node:
    node: Node = root
    for part in parts:
        if isinstance(node, FileNode):
            raise disk_error(errno.ENOTDIR, path)
        found = node.names.get(part)
        if found is None:
            raise disk_error(errno.ENOENT, path)
        node = found
    return node


def find_directory(root: DirNode, path: str) -> DirNode:
    node = find(root, path)
    if isinstance(node, FileNode):
        raise disk_error(errno.ENOTDIR, path)
    return node


def find_file(root: DirNode, path: str) -> FileNode:
    node = find(root, path)
    if isinstance(node, DirNode):
        raise disk_error(errno.EISDIR, path)
    return node


def find_place(root: DirNode, path: str) -> Place:
    """Where `path` is or would be; its directory must exist."""
    parts = split(path)
    if not parts:
        raise disk_error(errno.EISDIR, path)
    node = _descend(root, parts[:-1], path)
    if isinstance(node, FileNode):
        raise disk_error(errno.ENOTDIR, path)
    return Place(node, parts[-1])


def walk(directory: DirNode, prefix: str = "") -> Iterator[tuple[str, Node]]:
    """Everything that can be seen, sorted by path, directories before what they hold."""
    for name, node in sorted(directory.names.items()):
        path = f"{prefix}/{name}"
        yield path, node
        if isinstance(node, DirNode):
            yield from walk(node, path)


def copy_tree(root: DirNode, twins: dict[int, Node]) -> DirNode:
    """A twin of the whole tree, pending changes included; `twins` maps old identity to new node."""
    directories = all_directories(root)
    for directory in directories:
        twins[id(directory)] = DirNode()
    for directory in directories:
        for node in directory.nodes():
            if isinstance(node, FileNode) and id(node) not in twins:
                twins[id(node)] = node.copy()
    changes: dict[int, NameChange] = {}
    for directory in directories:
        _fill(directory, twins, changes)
    twin = twins[id(root)]
    assert isinstance(twin, DirNode)
    return twin


def _fill(directory: DirNode, twins: dict[int, Node], changes: dict[int, NameChange]) -> None:
    twin = twins[id(directory)]
    assert isinstance(twin, DirNode)
    twin.names = {name: twins[id(node)] for name, node in directory.names.items()}
    twin.durable = {name: twins[id(node)] for name, node in directory.durable.items()}
    for change in directory.changes:
        if change.serial not in changes:
            changes[change.serial] = NameChange(
                serial=change.serial,
                node=twins[id(change.node)],
                source=_twin_place(change.source, twins),
                target=_twin_place(change.target, twins),
            )
        twin.changes.append(changes[change.serial])


def _twin_place(place: Place | None, twins: dict[int, Node]) -> Place | None:
    if place is None:
        return None
    directory = twins[id(place.directory)]
    assert isinstance(directory, DirNode)
    return Place(directory, place.name)


def describe(root: DirNode) -> list[str]:
    """Pending changes: names first, in order of time, then the bytes of each visible file."""
    names = {
        change.serial: str(change)
        for directory in all_directories(root)
        for change in directory.changes
    }
    lines = [names[serial] for serial in sorted(names)]
    for path, node in walk(root):
        if isinstance(node, FileNode):
            lines += [
                f"truncate {path} to {position}"
                if data is None
                else f"write {path} {position}+{len(data)}"
                for position, data in node.changes
            ]
    return lines
