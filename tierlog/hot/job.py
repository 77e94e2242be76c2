"""One sync job of a log: what becomes durable together, in the order that recovery relies on.

Captured on the loop, run in a thread, touching only what it captured:

1. fdatasync of the `.log` files with unsynced batches, oldest first; then the end mark may say so;
2. index files and producer snapshot, when a checkpoint is due;
3. the directory, when names were created;
4. the checkpoint, which vouches for all of the above;
5. removal of what the checkpoint no longer lists.
"""

import asyncio
from dataclasses import dataclass, field

from tierlog.env import Disk, File
from tierlog.hot import names, smallfile
from tierlog.hot.checkpoint import Checkpoint, store_checkpoint
from tierlog.hot.endmark import store_end
from tierlog.hot.indexes import write_indexes
from tierlog.hot.replay import snapshot_offsets
from tierlog.hot.salvage import remove_segment
from tierlog.hot.segment import Segment
from tierlog.types import Offset, Position


@dataclass(slots=True)
class Pending:
    """What the next job of a log has to take along, gathered on the loop."""

    sealed: list[tuple[Segment, File, tuple[bytes, bytes]]] = field(default_factory=list)
    snapshots: list[tuple[Offset, bytes]] = field(default_factory=list)
    removals: list[Offset] = field(default_factory=list)
    settlers: list[asyncio.Future[None]] = field(default_factory=list)
    names_changed: bool = False
    checkpoint_due: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncJob:
    disk: Disk
    directory: str
    end: Offset
    """Log end when the job was captured: what is durable when it is done."""
    files: tuple[File, ...]
    sealed_sizes: tuple[tuple[File, Position], ...]
    """Sealed files give back the blocks that were reserved beyond their end."""
    indexes: tuple[tuple[Offset, tuple[bytes, bytes]], ...]
    snapshots: tuple[tuple[Offset, bytes], ...]
    names_changed: bool
    checkpoint: Checkpoint | None
    removals: tuple[Offset, ...]

    def run(self) -> None:
        for file, size in self.sealed_sizes:
            file.truncate(size)
        for file in self.files:
            file.fdatasync()
        for base_offset, content in self.indexes:
            write_indexes(self.disk, self.directory, base_offset, content)
        for offset, data in self.snapshots:
            path = names.segment_path(self.directory, offset, names.SNAPSHOT)
            smallfile.write_all(self.disk, path, data)
        if self.names_changed or self.indexes or self.snapshots:
            self.disk.sync_dir(self.directory)
        store_end(self.disk, self.directory, self.end)
        if self.checkpoint is not None:
            store_checkpoint(self.disk, self.directory, self.checkpoint)
            self._remove_unlisted(self.checkpoint)

    def _remove_unlisted(self, checkpoint: Checkpoint) -> None:
        for base_offset in self.removals:
            remove_segment(self.disk, self.directory, base_offset)
        wanted = {numbers.base_offset for numbers in checkpoint.segments} | {self.end}
        for offset in snapshot_offsets(self.disk, self.directory):
            if offset not in wanted and offset < self.end:
                self.disk.unlink(names.segment_path(self.directory, offset, names.SNAPSHOT))
