"""Rot in a segment that is not in the bucket: told by name, never uploaded, and passed over once
its records are given up."""

import asyncio

import pytest

from tests.cold.tiering import TierNode, bucket_of, data_of, head_in, play_node
from tests.hot.support import append, batch
from tierlog.records.batch import HEADER_BYTES, parse_header
from tierlog.types import Offset, Position


async def seconds(count: float) -> None:
    await asyncio.sleep(count)


async def three_segments(node: TierNode) -> None:
    """Of four batches each, none of them uploaded."""
    await node.open()
    node.store.is_closed = True
    for first in (0, 4, 8):
        await node.produce_sealed(*(b"value %d" % (first + one) for one in range(4)))


def rot(node: TierNode, offset: int, *, at: int = HEADER_BYTES + 3) -> str:
    """One bit of the batch with this offset turns; the file's path is answered."""
    segment, _, position = node.log.segments.place_of(Offset(offset))
    path = f"{node.log.path}/{segment.base_offset:020d}.log"
    file = node.env.disk.open(path, write=True)
    (byte,) = file.pread(1, position + at)
    file.pwrite(bytes([byte ^ 1]), Position(position + at))
    file.fdatasync()
    file.close()
    return path


async def error_of(node: TierNode) -> str:
    node.store.is_closed = False
    await seconds(300)
    return node.partition.status.last_error or ""


@pytest.mark.parametrize("at", [HEADER_BYTES + 3, 3, 9], ids=["record", "offset", "length"])
def test_the_error_names_the_file_the_offsets_and_the_way_out(at: int) -> None:
    async def scenario(node: TierNode) -> None:
        await three_segments(node)
        path = rot(node, 5, at=at)
        error = await error_of(node)
        assert path in error
        assert "offsets [5, 6) are damaged and not in the bucket" in error
        assert "delete the records up to 6" in error
        assert head_in(bucket_of(node)).next_offset == 4, "what lies before it is published"

    play_node(scenario)


def test_uploads_go_on_once_the_damaged_records_are_deleted() -> None:
    async def scenario(node: TierNode) -> None:
        await three_segments(node)
        rot(node, 5)
        assert await error_of(node)
        node.log.trim(Offset(5))
        await seconds(300)
        assert "delete the records up to 6" in (node.partition.status.last_error or "")
        node.log.trim(Offset(6))
        await seconds(300)
        assert node.partition.status.last_error is None
        bucket = bucket_of(node)
        head = head_in(bucket)
        assert (head.log_start, head.next_offset) == (6, 12)
        last = [one for one in head.entries if one.base >= 4]
        assert [(one.base, one.next_offset) for one in last] == [(6, 8), (8, 12)]
        assert parse_header(data_of(bucket, last[0])).base_offset == 6

    play_node(scenario)


def test_damage_behind_the_new_start_is_told_next() -> None:
    async def scenario(node: TierNode) -> None:
        await three_segments(node)
        rot(node, 1)
        rot(node, 3)
        assert "offsets [1, 2)" in await error_of(node)
        node.log.trim(Offset(2))
        await seconds(300)
        assert "offsets [3, 4)" in (node.partition.status.last_error or "")
        node.log.trim(Offset(4))
        await seconds(300)
        assert node.partition.status.last_error is None
        head = head_in(bucket_of(node))
        assert (head.log_start, head.next_offset) == (4, 12)

    play_node(scenario)


def test_a_batch_that_holds_the_new_start_goes_along_whole() -> None:
    async def scenario(node: TierNode) -> None:
        await node.open()
        node.store.is_closed = True
        append(node.log, batch(b"0", b"1"))
        append(node.log, batch(b"2", b"3", b"4"))
        node.log.roll()
        await node.log.settle()
        rot(node, 0)
        assert "offsets [0, 2)" in await error_of(node)
        node.log.trim(Offset(3))
        await seconds(300)
        head = head_in(bucket_of(node))
        assert (head.log_start, head.next_offset) == (3, 5)
        assert [one.base for one in head.entries] == [2]

    play_node(scenario)
