"""What can be made to go wrong with a simulated disk, beside a power cut.

Each knob is a method that a test or a nemesis calls; what is set stays until it is used up.
"""

from random import Random

from tierlog.sim.nodes import BadRange, DirNode, FileNode, overlay
from tierlog.sim.power import draw_content, draw_fate
from tierlog.sim.tree import find_file, walk

ANY = "*"
"""Instead of a path: whichever file comes first."""


class DiskFaults:
    """The knobs of `SimDisk`."""

    root: DirNode

    def __init__(self) -> None:
        self._fsync_failures: dict[str, Random | None] = {}
        self._sync_dir_failures: set[str] = set()

    def fail_fsync(self, path: str = ANY, *, rng: Random | None = None) -> None:
        """The next fdatasync of the file fails with EIO. The kernel then takes the pages for
        clean: readers still see the data, the next fdatasync succeeds, and the data is not on the
        platter. With `rng` some of it may be (a legal state is drawn)."""
        self._fsync_failures[path] = rng

    def fail_sync_dir(self, path: str = ANY) -> None:
        """The next sync of the directory fails with EIO; its names stay pending."""
        self._sync_dir_failures.add(path)

    def fail_reads(self, path: str, *, start: int = 0, end: int = 1 << 62) -> None:
        """Reads that touch `[start, end)` of the file fail with EIO until `heal_reads`."""
        find_file(self.root, path).bad_ranges.append(BadRange(start, end))

    def heal_reads(self, path: str) -> None:
        find_file(self.root, path).bad_ranges.clear()

    def flip_bit(self, path: str, position: int, bit: int) -> None:
        """One bit rots, on the platter and in what readers see."""
        value = find_file(self.root, path).cache[position]
        self.corrupt(path, position, bytes([value ^ (1 << bit)]))

    def corrupt(self, path: str, position: int, data: bytes) -> None:
        """Bytes rot, on the platter and in what readers see. The size stays."""
        node = find_file(self.root, path)
        assert position + len(data) <= len(node.cache), "rot does not make a file longer"
        node.own()
        overlay(node.cache, position, data)
        inside = data[: max(0, len(node.durable) - position)]
        if inside:
            overlay(node.durable, position, inside)

    def drop_caches(self) -> None:
        """Clean pages leave memory: what a failed fsync dropped is no longer seen."""
        for _, node in walk(self.root):
            if isinstance(node, FileNode):
                node.drop_cache()

    def forget_faults(self) -> None:
        """What was set and not used up will not happen. What has rotted stays rotten."""
        self._fsync_failures.clear()
        self._sync_dir_failures.clear()
        for _, node in walk(self.root):
            if isinstance(node, FileNode):
                node.bad_ranges.clear()

    # Asked by the disk and its files

    def takes_fsync_failure(self, node: FileNode, path: str) -> bool:
        for key in (path, ANY):
            if key in self._fsync_failures:
                rng = self._fsync_failures.pop(key)
                if rng is not None:
                    fate = draw_fate(rng)
                    node.durable = draw_content(node.durable, node.changes, rng, fate)
                    node.cache = bytearray(node.cache)
                    node.shared = False
                node.changes.clear()
                return True
        return False

    def takes_sync_failure(self, path: str) -> bool:
        for key in (path, ANY):
            if key in self._sync_dir_failures:
                self._sync_dir_failures.discard(key)
                return True
        return False

    def is_bad(self, node: FileNode, start: int, end: int) -> bool:
        return any(bad.start < end and start < bad.end for bad in node.bad_ranges)
