"""Finding a batch by its offset: where the walk ends, and how often it asks the disk."""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import pytest

from tests.hot.support import append_values, open_log
from tierlog.hot import Log, LogSettings
from tierlog.hot.headers import PIECE_BYTES, HeaderWalk
from tierlog.hot.reader import SegmentReader
from tierlog.records.batch import HEADER_BYTES, iter_batches, parse_header
from tierlog.sim.disk import SimDisk
from tierlog.sim.file import SimFile
from tierlog.types import Offset, Position

FAR_BETWEEN = LogSettings(index_interval_bytes=1 << 20)
PATH = "/data/p/00000000000000000000.log"


@contextmanager
def counted_reads() -> Iterator[list[int]]:
    sizes: list[int] = []
    pread = SimFile.pread

    def counting(file: SimFile, size: int, position: int) -> bytes:
        sizes.append(size)
        return pread(file, size, position)

    with patch.object(SimFile, "pread", counting):
        yield sizes


def long_log(settings: LogSettings) -> tuple[Log, list[int]]:
    """A log of many small batches, two records each, and where each begins."""
    log, syncs = open_log(SimDisk(), settings)
    starts = []
    while log.segments.active.size < 3 * PIECE_BYTES:
        starts.append(int(log.segments.active.size))
        append_values(log, b"x" * (len(starts) % 90), b"y")
    syncs.run_all()
    return log, starts


def test_a_walk_over_several_pieces_finds_every_batch() -> None:
    log, starts = long_log(FAR_BETWEEN)
    reader = SegmentReader(log.segments.active)
    for number, position in enumerate(starts):
        for offset in (2 * number, 2 * number + 1):
            assert reader.locate(Offset(offset)) == (position, 2 * number)
    assert reader.locate(log.log_end) == (log.segments.active.size, log.log_end)


def test_a_place_that_was_located_already_shortens_the_walk() -> None:
    log, starts = long_log(FAR_BETWEEN)
    reader = SegmentReader(log.segments.active)
    behind = reader.locate(Offset(2 * (len(starts) - 4)))
    with counted_reads() as reads:
        assert reader.locate(Offset(2 * len(starts) - 2), behind=behind)[0] == starts[-1]
    assert len(reads) == 1


@pytest.mark.parametrize("back", [1, 2, 9])
def test_a_read_at_the_tail_asks_the_disk_a_few_times_whatever_is_behind_it(back: int) -> None:
    log, _ = long_log(LogSettings())
    end = log.visible_end
    append_values(log, b"not synced yet")
    with counted_reads() as reads:
        data = log.read(Offset(end - back), bytes_max=1 << 20)
    assert parse_header(data).next_offset >= end - back
    assert len(reads) <= 3


def test_a_sequential_reader_looks_neither_its_place_nor_the_visible_end_up_again() -> None:
    log, _ = long_log(LogSettings())
    append_values(log, b"not synced yet")
    offset = Offset(0)
    for number in range(5):
        with counted_reads() as reads:
            data = log.read(offset, bytes_max=1000)
        assert number == 0 or len(reads) == 1  # The data alone.
        offset = list(iter_batches(data))[-1][1].next_offset


@pytest.mark.parametrize(
    ("at", "value"),
    [(7, b"\xff"), (8, b"\x00\x00\x00\x30"), (8, b"\x7f"), (23, b"\x80")],
    ids=["offset", "too short", "too long", "negative delta"],
)
def test_a_header_that_does_not_continue_the_walk_ends_it(at: int, value: bytes) -> None:
    disk = SimDisk()
    log, syncs = open_log(disk)
    for _ in range(3):
        append_values(log, b"x")
    syncs.run_all()
    segment = log.segments.active
    second = Position(segment.size // 3)
    assert HeaderWalk(segment).at(second, Offset(1)) is not None
    disk.open(PATH, write=True).pwrite(value, second + at)
    walk = HeaderWalk(segment)
    assert walk.at(second, Offset(1)) is None
    assert walk.seek(Offset(2), Position(0), Offset(0)) is None
    assert walk.seek(Offset(0), Position(0), Offset(0)) == (0, 0)


def test_a_file_that_lost_its_end_ends_the_walk() -> None:
    disk = SimDisk()
    log, syncs = open_log(disk)
    append_values(log, b"x")
    append_values(log, b"y")
    syncs.run_all()
    second = log.segments.active.size // 2
    disk.open(PATH, write=True).truncate(second + HEADER_BYTES - 1)
    walk = HeaderWalk(log.segments.active)
    assert walk.peek(Position(second)) is None
    assert walk.seek(Offset(1), Position(0), Offset(0)) is None
