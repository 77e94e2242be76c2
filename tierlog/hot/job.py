"""One sync job of a log: what becomes durable together, in the order that recovery relies on.

Captured on the loop, run in a thread, touching only what it captured:

1. fdatasync of the `.log` files with unsynced batches, oldest first;
2. index files and producer snapshot, when a checkpoint is due;
3. the directory, when names were created;
4. the end mark, which may say so only now: a record in a file without a name is lost;
5. the checkpoint, which vouches for all of the above;
6. the swap of a cleaned segment for those that it was made of (`swapping.py`);
7. removal of what the checkpoint no longer lists.

When a small file does not fit on the disk, or cannot be opened because the process has too many
open, the job is unfinished (`JobUnfinished`), not failed: the batches are durable, if their names
are. The files are written anew by the next job of the log. An fdatasync of a `.log` file that
fails is a failure, ENOSPC included: nobody knows which pages were dropped.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from tierlog.env import Disk, File
from tierlog.hot import names, smallfile
from tierlog.hot.aside import drop_asides
from tierlog.hot.checkpoint import Checkpoint, store_checkpoint
from tierlog.hot.endmark import store_end
from tierlog.hot.errors import LogError
from tierlog.hot.files import refused_file
from tierlog.hot.indexes import write_indexes
from tierlog.hot.producers import Known
from tierlog.hot.replay import snapshot_offsets
from tierlog.hot.salvage import remove_segment
from tierlog.hot.segment import Segment
from tierlog.hot.snapshot import encode_snapshot
from tierlog.hot.store import refused
from tierlog.hot.swapping import finish_swap
from tierlog.hot.sync import JobUnfinished
from tierlog.types import Offset, Position


class Swap(NamedTuple):
    """A cleaned segment that is ready to take the place of others."""

    old: tuple[Segment, ...]
    new: Segment

    @property
    def bases(self) -> tuple[Offset, ...]:
        return tuple(segment.base_offset for segment in self.old)

    def applied_to(self, segments: Iterable[Segment]) -> list[Segment]:
        first, *others = self.old
        replaced = (self.new if segment is first else segment for segment in segments)
        return [segment for segment in replaced if segment not in others]


@dataclass(slots=True)
class Pending:
    """What the next job of a log has to take along, gathered on the loop."""

    sealed: list[tuple[Segment, File, tuple[bytes, bytes]]] = field(default_factory=list)
    snapshots: list[tuple[Offset, tuple[Known, ...]]] = field(default_factory=list)
    removals: list[Offset] = field(default_factory=list)
    swap: Swap | None = None
    settlers: list[asyncio.Future[None]] = field(default_factory=list)
    names_changed: bool = False
    checkpoint_due: bool = False

    def followed_by(self, other: "Pending") -> "Pending":
        """Both, for one job."""
        return Pending(
            sealed=self.sealed + other.sealed,
            snapshots=self.snapshots + other.snapshots,
            removals=self.removals + other.removals,
            swap=self.swap or other.swap,
            settlers=self.settlers + other.settlers,
            names_changed=self.names_changed or other.names_changed,
            checkpoint_due=self.checkpoint_due or other.checkpoint_due,
        )


def attempt(step: Callable[[], None]) -> LogError | None:
    """Run a step; what kept it from being done, if it may be done again."""
    try:
        step()
    except OSError as fault:
        known = refused(fault)
        if isinstance(known, LogError):
            return known
        raise
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncJob:
    disk: Disk
    directory: str
    end: Offset
    """Log end when the job was captured: what is durable when it is done."""
    files: tuple[File, ...]
    sizes: tuple[tuple[File, Position], ...]
    """Files that take no more appends give back the blocks reserved beyond their end."""
    indexes: tuple[tuple[Offset, tuple[bytes, bytes]], ...]
    snapshots: tuple[tuple[Offset, tuple[Known, ...]], ...]
    """Encoded here: a partition may know thousands of producers."""
    names_changed: bool
    checkpoint: Checkpoint | None
    removals: tuple[Offset, ...]

    def run(self) -> None:
        for file, size in self.sizes:
            file.truncate(size)
        for file in self.files:
            file.fdatasync()
        missing = attempt(self._write_beside)
        self._sync_names()
        missing = missing or attempt(self._mark_end) or attempt(self._vouch)
        if missing is not None:
            raise JobUnfinished(missing, is_durable=True)

    def _write_beside(self) -> None:
        for base_offset, content in self.indexes:
            write_indexes(self.disk, self.directory, base_offset, content)
        for offset, producers in self.snapshots:
            path = names.segment_path(self.directory, offset, names.SNAPSHOT)
            smallfile.write_all(self.disk, path, encode_snapshot(producers))

    def _sync_names(self) -> None:
        if not (self.names_changed or self.indexes or self.snapshots):
            return
        try:
            self.disk.sync_dir(self.directory)
        except OSError as fault:
            known = refused_file(fault)
            if not isinstance(known, LogError):
                raise
            raise JobUnfinished(known, is_durable=not self.names_changed) from fault

    def _mark_end(self) -> None:
        store_end(self.disk, self.directory, self.end)

    def _vouch(self) -> None:
        if self.checkpoint is not None:
            store_checkpoint(self.disk, self.directory, self.checkpoint)
            if self.checkpoint.replaced:
                finish_swap(self.disk, self.directory, self.checkpoint.replaced)
            self._remove_unlisted(self.checkpoint)

    def _remove_unlisted(self, checkpoint: Checkpoint) -> None:
        for base_offset in self.removals:
            remove_segment(self.disk, self.directory, base_offset)
        drop_asides(self.disk, self.directory, lambda _, end: end <= checkpoint.log_start)
        wanted = {numbers.base_offset for numbers in checkpoint.segments} | {self.end}
        for offset in snapshot_offsets(self.disk, self.directory):
            if offset not in wanted and offset < self.end:
                self.disk.unlink(names.segment_path(self.directory, offset, names.SNAPSHOT))
