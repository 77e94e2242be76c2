"""One segment: a run of batches with its two sparse indexes.

Active until sealed. While active, the indexes live in memory and the `.log` file stays open; a
sealed segment keeps only its numbers and loads the indexes when somebody asks. The numbers of a
sealed segment come from the checkpoint, so that opening a log reads no `.log` file.
"""

from typing import NamedTuple

from tierlog.env import Disk, File
from tierlog.hot import names
from tierlog.hot.files import FilePool
from tierlog.hot.indexes import SegmentIndexes, build_indexes, load_indexes
from tierlog.hot.settings import RELATIVE_OFFSET_MAX, LogSettings
from tierlog.hot.store import Space, Store
from tierlog.types import NO_TIMESTAMP, Bytes, Offset, Position, TimestampMs


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

    def file(self) -> File:
        """The `.log` file, for use before the next call to the pool."""
        return self._pool.get(self.path)

    def activate(self, *, space: Space, create: bool = False) -> File:
        """Make this the segment that takes appends; its file stays open."""
        file = self._pool.pin(self.path, create=create)
        if create:
            self._indexes = SegmentIndexes(
                self.base_offset, interval_bytes=self._settings.index_interval_bytes
            )
        self.indexes()
        size_max = self._settings.segment_bytes
        self._store = Store(file, size=self.size, size_max=size_max, space=space)
        return file

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
        assert self._store is not None, "append to a sealed segment"
        assert self._indexes is not None
        position = self._store.append(batch, size)
        if position == 0:
            self.first_append_ms = now_ms
        self.size = Position(position + size)
        self.next_offset = Offset(last_offset + 1)
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.max_timestamp_offset = last_offset
        self._indexes.note(position, size, last_offset, max_timestamp)

    def grow(self, size: Position, next_offset: Offset) -> None:
        """Recovery found batches up to here, and noted them in the indexes."""
        indexes = self.indexes()
        self.size = size
        self.next_offset = next_offset
        self.max_timestamp = indexes.max_timestamp
        self.max_timestamp_offset = indexes.max_timestamp_offset

    def seal(self) -> tuple[bytes, bytes]:
        """No more appends. Returns the final content of the index files."""
        content = self.indexes().to_bytes()
        self._store = None
        return content

    def indexes(self) -> SegmentIndexes:
        """Loaded from their files if need be, and rebuilt if those cannot be trusted."""
        if self._indexes is None:
            loaded = load_indexes(
                self._disk,
                self.directory,
                self.base_offset,
                size=self.size,
                next_offset=self.next_offset,
                interval_bytes=self._settings.index_interval_bytes,
            )
            self._adopt(loaded or self._built())
        assert self._indexes is not None
        return self._indexes

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
