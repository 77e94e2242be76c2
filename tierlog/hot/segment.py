"""One segment: a run of batches with its two sparse indexes.

Active until sealed. While active, the indexes live in memory, and the `.log` file stays open from
an append until the sync that covers it; a sealed segment keeps only its numbers and loads the
indexes when somebody asks. The numbers of a sealed segment come from the checkpoint, so that
opening a log reads no `.log` file.
"""

import logging
from contextlib import suppress
from typing import NamedTuple

from tierlog.env import Disk, File
from tierlog.hot import names
from tierlog.hot.errors import TooManyFiles
from tierlog.hot.files import NO_MORE_FILES, FilePool
from tierlog.hot.indexes import SegmentIndexes, build_indexes, load_indexes
from tierlog.hot.settings import RELATIVE_OFFSET_MAX, LogSettings
from tierlog.hot.store import Space, Store
from tierlog.types import NO_TIMESTAMP, Bytes, Offset, Position, TimestampMs

logger = logging.getLogger(__name__)


class SegmentNumbers(NamedTuple):
    """What a checkpoint remembers of a segment."""

    base_offset: Offset
    next_offset: Offset
    size: Position
    max_timestamp: TimestampMs
    max_timestamp_offset: Offset
    """Last offset of the batch that has the largest timestamp."""
    first_append_ms: int
    """Wall clock of the first append, -1 while empty: `segment.ms` counts from it."""


def empty_numbers(base_offset: Offset) -> SegmentNumbers:
    return SegmentNumbers(base_offset, base_offset, Position(0), NO_TIMESTAMP, base_offset, -1)


class Segment:
    __slots__ = (
        "_disk",
        "_indexes",
        "_pool",
        "_settings",
        "_size_max",
        "_store",
        "base_offset",
        "directory",
        "first_append_ms",
        "max_timestamp",
        "max_timestamp_offset",
        "next_offset",
        "path",
        "size",
    )

    def __init__(
        self,
        directory: str,
        numbers: SegmentNumbers,
        *,
        disk: Disk,
        pool: FilePool,
        settings: LogSettings,
    ) -> None:
        self.directory = directory
        self.path = names.segment_path(directory, numbers.base_offset, names.LOG)
        self.base_offset = numbers.base_offset
        self.next_offset = numbers.next_offset
        self.size = numbers.size
        self.max_timestamp = numbers.max_timestamp
        self.max_timestamp_offset = numbers.max_timestamp_offset
        self.first_append_ms = numbers.first_append_ms
        self._disk = disk
        self._pool = pool
        self._settings = settings
        self._size_max = settings.segment_bytes
        self._store: Store | None = None
        self._indexes: SegmentIndexes | None = None

    @property
    def numbers(self) -> SegmentNumbers:
        return SegmentNumbers(
            self.base_offset,
            self.next_offset,
            self.size,
            self.max_timestamp,
            self.max_timestamp_offset,
            self.first_append_ms,
        )

    @property
    def is_active(self) -> bool:
        return self._store is not None

    @property
    def contiguous(self) -> bool:
        return self._settings.contiguous

    @property
    def interval_bytes(self) -> int:
        return self._settings.index_interval_bytes

    def move_to(self, pool: FilePool) -> None:
        """Recovery used files of its own: from now on they are opened where the log's are."""
        self._pool = pool

    def file(self) -> File:
        """The `.log` file, for use before the next call to the pool."""
        return self._pool.get(self.path)

    def view(self, position: Position, size: int) -> Bytes | None:
        """Bytes to be sent, not looked at; None if the file is shorter than it should be."""
        file = self.file()
        return file.view(size, position) if file.size() >= position + size else None

    def activate(self, *, space: Space, create: bool = False) -> None:
        """Make this the segment that takes appends."""
        size_max = self._settings.segment_bytes
        store = Store(self._pool, self.path, size=self.size, size_max=size_max, space=space)
        if create:
            store.pin(create=True)
            self._indexes = SegmentIndexes(
                self.base_offset, interval_bytes=self._settings.index_interval_bytes
            )
        self.indexes()
        self._store = store

    def apply(self, settings: LogSettings) -> None:
        """Other settings; the interval of the index counts from the next segment on."""
        self._settings = settings
        self._size_max = settings.segment_bytes
        if self._store is not None:
            self._store.size_max = settings.segment_bytes

    @property
    def unsynced(self) -> File | None:
        """The file, if the segment is active and has appends that no sync has covered yet."""
        return None if self._store is None else self._store.unsynced

    def pin_reserved(self) -> None:
        """Have the file at hand, if it has more blocks than bytes: a log that closes cuts them.

        Not worth a failure: if it cannot be opened, the blocks stay until the segment is sealed.
        """
        if self._store is not None and self._store.has_reserve:
            with suppress(OSError, TooManyFiles):
                self._store.pin()

    def release(self) -> None:
        """Everything appended is synced: the pool may close the file."""
        if self._store is not None and self._store.unsynced is not None:
            self._store.release()

    def has_room(self, size: int, last_offset: int) -> bool:
        """Whether a batch fits: by bytes, unless the segment is empty, and by the index column.

        Positions fit theirs: a segment has at most 1 GiB, or one batch.
        """
        return (
            self.size + size <= self._size_max or self.size == 0
        ) and last_offset - self.base_offset <= RELATIVE_OFFSET_MAX

    def append(
        self,
        batch: Bytes,
        size: int,
        last_offset: Offset,
        max_timestamp: TimestampMs,
        now_ms: int,
    ) -> None:
        """Write the batch behind the others. Positional: the hot path pays for every keyword."""
        store, indexes = self._store, self._indexes
        assert store is not None, "append to a sealed segment"
        assert indexes is not None
        position = store.append(batch, size)
        if position == 0:
            self.first_append_ms = now_ms
        self.size = store.size
        self.next_offset = Offset(last_offset + 1)
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.max_timestamp_offset = last_offset
        indexes.note(position, size, last_offset, max_timestamp)

    def grow(self, size: Position, next_offset: Offset) -> None:
        """Recovery found batches up to here, and noted them in the indexes."""
        indexes = self.indexes()
        self.size = size
        self.next_offset = next_offset
        self.max_timestamp = indexes.max_timestamp
        self.max_timestamp_offset = indexes.max_timestamp_offset

    def seal(self) -> tuple[bytes, bytes]:
        """No more appends. Returns the final content of the index files.

        The file stays pinned, if it was: whoever syncs the last appends unpins it.
        """
        content = self.indexes().to_bytes()
        self._store = None
        return content

    def indexes(self) -> SegmentIndexes:
        """Loaded from their files if need be, and rebuilt if those cannot be read or trusted."""
        if self._indexes is None:
            self._adopt(self._loaded() or self._built())
        assert self._indexes is not None
        return self._indexes

    def _loaded(self) -> SegmentIndexes | None:
        if self.size == 0:  # A new one has no files yet.
            return SegmentIndexes(
                self.base_offset, interval_bytes=self._settings.index_interval_bytes
            )
        try:
            return load_indexes(
                self._disk,
                self.directory,
                self.base_offset,
                size=self.size,
                next_offset=self.next_offset,
                interval_bytes=self._settings.index_interval_bytes,
            )
        except OSError as fault:
            if fault.errno in NO_MORE_FILES:
                raise
            logger.warning("an index of %s cannot be read (%s): rebuilt", self.path, fault)
            return None

    def rebuild_indexes(self) -> None:
        """Their entries disagree with the batches: read the batches."""
        self._adopt(self._built())

    def release_indexes(self) -> None:
        """Forget what can be loaded again."""
        if not self.is_active:
            self._indexes = None

    def _adopt(self, indexes: SegmentIndexes) -> None:
        indexes.max_timestamp = self.max_timestamp
        indexes.max_timestamp_offset = self.max_timestamp_offset
        self._indexes = indexes

    def _built(self) -> SegmentIndexes:
        return build_indexes(
            self.file(),
            self.base_offset,
            size=self.size,
            next_offset=self.next_offset,
            contiguous=self._settings.contiguous,
            interval_bytes=self._settings.index_interval_bytes,
        )
