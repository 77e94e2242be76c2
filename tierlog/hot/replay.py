"""Producer state at some offset: the newest sound snapshot, and the batches behind it."""

from collections.abc import Callable, Sequence

from tierlog.env import Disk
from tierlog.hot import names, smallfile
from tierlog.hot.producers import Producers
from tierlog.hot.resync import visit_sound
from tierlog.hot.segment import Segment
from tierlog.hot.snapshot import decode_snapshot
from tierlog.records.header import BatchHeader
from tierlog.types import Offset, Position


def snapshot_offsets(disk: Disk, directory: str) -> list[Offset]:
    """Offsets of the snapshots in a partition's directory, rising."""
    offsets = (names.parse_offset(name, names.SNAPSHOT) for name in disk.listdir(directory))
    return [offset for offset in offsets if offset is not None]


def drop_snapshots(disk: Disk, directory: str, unwanted: Callable[[Offset], bool]) -> None:
    for offset in snapshot_offsets(disk, directory):
        if unwanted(offset):
            disk.unlink(names.segment_path(directory, offset, names.SNAPSHOT))


def load_producers(
    disk: Disk,
    directory: str,
    segments: Sequence[Segment],
    *,
    end: Offset,
    contiguous: bool,
    now_ms: int,
) -> Producers:
    """The state at `end`. Reads no `.log` file when there is a sound snapshot at `end`."""
    start = segments[0].base_offset if segments else end
    producers = Producers()
    for offset in reversed(snapshot_offsets(disk, directory)):
        if offset > end:
            continue
        snapshot = _load_snapshot(disk, names.segment_path(directory, offset, names.SNAPSHOT))
        if snapshot is not None:
            producers, start = snapshot, offset
            break
    _replay(producers, segments, start=start, end=end, contiguous=contiguous, now_ms=now_ms)
    return producers


def _load_snapshot(disk: Disk, path: str) -> Producers | None:
    """None if it is damaged, or was removed just now: a log that is open goes on."""
    try:
        return decode_snapshot(smallfile.read_all(disk, path))
    except FileNotFoundError:
        return None


def _replay(
    producers: Producers,
    segments: Sequence[Segment],
    *,
    start: Offset,
    end: Offset,
    contiguous: bool,
    now_ms: int,
) -> None:
    def visit(header: BatchHeader, _: Position) -> None:
        if start <= header.base_offset < end:
            producers.visit(header, now_ms=now_ms)

    for segment in segments:
        if segment.next_offset > start and segment.base_offset < end:
            visit_sound(
                segment.file(),
                base_offset=segment.base_offset,
                next_offset=segment.next_offset,
                size=segment.size,
                contiguous=contiguous,
                visit=visit,
            )
