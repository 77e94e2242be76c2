"""Segments are read in pieces and leave the page cache as they found it."""

import os
from pathlib import Path
from random import Random

import pytest
from crc32c import crc32c

from tierlog.cold.segmentfile import PartBody, PartCrcs, SegmentBody, SegmentFile
from tierlog.env import LocalDisk
from tierlog.sim.disk import SimDisk

MIB = 1 << 20


def segment(size: int) -> tuple[SimDisk, bytes]:
    disk = SimDisk()
    data = Random(size).randbytes(size)
    disk.open("/s", create=True).pwrite(data, 0)
    return disk, data


@pytest.mark.parametrize(("start", "end"), [(0, 10), (0, MIB), (7, 2 * MIB + 5), (MIB, MIB + 1)])
def test_pieces_are_the_bytes_and_small(start: int, end: int) -> None:
    disk, data = segment(3 * MIB)
    file = SegmentFile(disk, "/s", start=start, end=end)
    pieces = list(file.check())
    assert b"".join(pieces) == data[start:end]
    assert max(map(len, pieces)) <= MIB
    assert b"".join(file.pieces(3, end - start)) == data[start + 3 : end]
    assert file.size == end - start


def test_a_body_is_the_batches_and_the_tail() -> None:
    disk, data = segment(2 * MIB + 100)
    file = SegmentFile(disk, "/s", start=0, end=2 * MIB + 100)
    tail = b"tail" * (MIB // 2)
    body = SegmentBody(file, tail, crc32c=crc32c(data + tail))
    pieces = [bytes(piece) for piece in body.pieces()]
    assert b"".join(pieces) == data + tail
    assert (body.size, max(map(len, pieces))) == (len(data + tail), MIB)
    assert b"".join(body.pieces()) == data + tail, "again"


def test_parts_tile_a_body_and_have_their_own_checksums() -> None:
    disk, data = segment(2 * MIB + 100)
    file = SegmentFile(disk, "/s", start=0, end=len(data))
    tail = b"tail" * 1000
    whole = data + tail
    crcs = PartCrcs(700_000)
    for piece in (*file.check(), tail):
        crcs.feed(piece)
    body = SegmentBody(file, tail, crc32c=crc32c(whole))
    starts = range(0, len(whole), 700_000)
    for start, crc in zip(starts, crcs.finish(), strict=True):
        end = min(start + 700_000, len(whole))
        part = PartBody(body, start=start, end=end, crc32c=crc)
        assert b"".join(part.pieces()) == whole[start:end]
        assert (part.size, part.crc32c) == (end - start, crc32c(whole[start:end]))


def test_a_part_that_ends_with_a_piece_is_the_last() -> None:
    crcs = PartCrcs(10)
    crcs.feed(b"x" * 20)
    assert crcs.finish() == (crc32c(b"x" * 10),) * 2


def test_a_file_that_is_too_short_gives_what_there_is() -> None:
    disk, data = segment(100)
    assert b"".join(SegmentFile(disk, "/s", start=0, end=200).check()) == data


def test_reading_for_the_bucket_leaves_the_page_cache_as_it_was(tmp_path: Path) -> None:
    path = str(tmp_path / "segment")
    disk = LocalDisk()
    size = 6 * MIB
    file = disk.open(path, create=True)
    file.pwrite(os.urandom(size), 0)
    file.fdatasync()
    file.forget(size, 0)
    file.view(size, 0)
    if file.is_cached(MIB, 0):
        pytest.skip("this file system keeps what it is told to forget")
    file.pread(MIB, 0)  # Somebody reads the first piece now and then.
    body = SegmentBody(SegmentFile(disk, path, start=0, end=size), b"tail", crc32c=0)
    assert sum(map(len, body._file.check())) == size
    assert file.is_cached(MIB, 4 * MIB), "between the two readings it is"
    assert sum(map(len, body.pieces())) == size + 4
    fresh = disk.open(path)  # The other one remembers for a second what was cached.
    fresh.view(size, 0)
    assert fresh.is_cached(MIB, 0)
    assert not fresh.is_cached(MIB, 4 * MIB)
    assert not file.is_cached(MIB, 5 * MIB)
    file.close()
