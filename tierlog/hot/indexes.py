"""The two sparse indexes of a segment, together: filled, loaded, rebuilt.

An entry is added every `interval_bytes` of log. In memory while the segment is active; in `.index`
and `.timeindex` once it is sealed or checkpointed. A file that is missing or does not rise is not
used: the indexes are then built anew from the batches.
"""

from tierlog.env import Disk, File
from tierlog.hot import names, smallfile
from tierlog.hot.index import OffsetIndex
from tierlog.hot.resync import visit_sound
from tierlog.hot.timeindex import TimeIndex
from tierlog.records.header import BatchHeader
from tierlog.types import NO_TIMESTAMP, Offset, Position, TimestampMs


class SegmentIndexes:
    """`max_timestamp` is the largest so far; the batch ending at `max_timestamp_offset` has it."""

    __slots__ = (
        "_interval_bytes",
        "_since_entry",
        "max_timestamp",
        "max_timestamp_offset",
        "offsets",
        "times",
    )

    def __init__(self, base_offset: Offset, *, interval_bytes: int) -> None:
        self.offsets = OffsetIndex(base_offset)
        self.times = TimeIndex(base_offset)
        self.max_timestamp = NO_TIMESTAMP
        self.max_timestamp_offset = base_offset
        self._interval_bytes = interval_bytes
        self._since_entry = 0

    def note(
        self, position: Position, size: int, last_offset: Offset, max_timestamp: TimestampMs
    ) -> None:
        """A batch was appended or found."""
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.max_timestamp_offset = last_offset
        if self._since_entry < self._interval_bytes:
            self._since_entry += size
            return
        self._since_entry = size
        offsets = self.offsets
        offsets.pairs.append(last_offset - offsets.base_offset, position)
        if self.max_timestamp > self.times.pairs.last[0]:
            self.times.maybe_append(self.max_timestamp, self.max_timestamp_offset)

    def visit(self, header: BatchHeader, position: Position) -> None:
        self.note(position, header.size_bytes, header.last_offset, header.max_timestamp)

    def to_bytes(self) -> tuple[bytes, bytes]:
        """Content of `.index` and `.timeindex`; the latter ends with the largest timestamp."""
        if self.max_timestamp >= 0:
            self.times.maybe_append(self.max_timestamp, self.max_timestamp_offset)
        return self.offsets.to_bytes(), self.times.to_bytes()


def load_indexes(
    disk: Disk,
    directory: str,
    base_offset: Offset,
    *,
    size: Position,
    next_offset: Offset,
    interval_bytes: int,
) -> SegmentIndexes | None:
    """What the files hold of the first `size` bytes, or None when they cannot be used."""
    indexes = SegmentIndexes(base_offset, interval_bytes=interval_bytes)
    try:
        offsets, times = (
            smallfile.read_all(disk, names.segment_path(directory, base_offset, suffix))
            for suffix in (names.INDEX, names.TIME_INDEX)
        )
    except FileNotFoundError:
        return None
    loaded = OffsetIndex.from_bytes(base_offset, offsets)
    loaded_times = TimeIndex.from_bytes(base_offset, times)
    if loaded is None or loaded_times is None:
        return None
    # Entries behind the checkpointed end speak of batches that nobody vouches for.
    loaded.truncate(size, next_offset)
    loaded_times.truncate(next_offset)
    indexes.offsets = loaded
    indexes.times = loaded_times
    return indexes


def build_indexes(
    file: File,
    base_offset: Offset,
    *,
    size: Position,
    next_offset: Offset,
    contiguous: bool,
    interval_bytes: int,
) -> SegmentIndexes:
    """Indexes from the batches themselves, stepping over what is damaged."""
    indexes = SegmentIndexes(base_offset, interval_bytes=interval_bytes)
    visit_sound(
        file,
        base_offset=base_offset,
        next_offset=next_offset,
        size=size,
        contiguous=contiguous,
        visit=indexes.visit,
    )
    return indexes


def write_indexes(
    disk: Disk, directory: str, base_offset: Offset, content: tuple[bytes, bytes]
) -> None:
    """Replace both files and fdatasync them; the caller syncs the directory."""
    for suffix, data in zip((names.INDEX, names.TIME_INDEX), content, strict=True):
        smallfile.write_all(disk, names.segment_path(directory, base_offset, suffix), data)
