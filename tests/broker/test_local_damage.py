"""What a disk loses or damages, and the bucket has, is served from there and let go here."""

import asyncio

import pytest

from tests.broker import asks
from tests.broker.coldworld import Lives, in_world, until
from tierlog.hot.errors import DamagedOffsets
from tierlog.types import Offset
from tierlog.wire.error_codes import ErrorCode

VALUES = [b"a" * 100, b"b" * 100]


async def published(lives: Lives) -> str:
    """A segment in the bucket that is on the disk as well; where its file is."""
    async with lives.node() as served:
        await served.tiered("t", local_retention_ms="60000")
        await served.seal("t", *VALUES)
        await served.append("t", b"c")
        one = served.at("t")
        assert one.cold is not None
        cold = one.cold
        await until(lambda: cold.uploaded_end == 2)
        assert one.log.log_start == 0
        return f"{one.log.path}/{0:020d}.log"


def flip_a_bit(lives: Lives, path: str) -> None:
    file = lives.env.disk.open(path, write=True)
    (byte,) = file.pread(1, 100)
    file.pwrite(bytes([byte ^ 1]), 100)
    file.fdatasync()
    file.close()


@in_world
async def test_a_flipped_bit_on_the_disk_is_read_from_the_bucket(lives: Lives) -> None:
    flip_a_bit(lives, await published(lives))
    async with lives.node() as served:
        one = served.at("t")
        with pytest.raises(DamagedOffsets):
            one.log.view(Offset(0), bytes_max=1, end=Offset(2))
        assert await served.values("t") == [*VALUES, b"c"]


@in_world
async def test_a_damaged_segment_leaves_the_disk_once_the_object_was_read_through(
    lives: Lives,
) -> None:
    flip_a_bit(lives, await published(lives))
    async with lives.node() as served:
        one = served.at("t")
        await until(lambda: one.log.log_start == 2)
        assert served.uploads("t").status.last_error is None
        assert await served.values("t") == [*VALUES, b"c"]


@in_world
async def test_a_damaged_segment_stays_while_the_object_is_damaged_as_well(lives: Lives) -> None:
    flip_a_bit(lives, await published(lives))
    lives.spoil_segments()
    async with lives.node() as served:
        one = served.at("t")
        await asyncio.sleep(600)
        assert one.log.log_start == 0
        assert "section batch_hashes" in f"{served.uploads('t').status.last_error}"


@in_world
async def test_a_segment_file_that_is_gone_is_read_from_the_bucket(lives: Lives) -> None:
    lives.env.disk.unlink(await published(lives))
    async with lives.node() as served:
        assert await served.values("t") == [*VALUES, b"c"]


@in_world
async def test_without_a_copy_in_the_bucket_damage_is_told(lives: Lives) -> None:
    async with lives.node() as served:
        await served.tiered("t", tierlog_upload_lag_max_ms="3600000")
        await served.append("t", *VALUES)
        path = f"{served.at('t').log.path}/{0:020d}.log"
    flip_a_bit(lives, path)
    async with lives.node() as served:
        answer = await asks.fetch(served, asks.fetch_topic("t", 0, offset=0), wait_ms=1000)
        assert answer.error_code == ErrorCode.CORRUPT_MESSAGE


@in_world
async def test_a_head_that_is_missing_is_not_an_empty_history(lives: Lives) -> None:
    """Its local copy is gone, too: nobody knows where the partition begins."""
    async with lives.node() as served:
        await served.tiered("t")
        await served.make_cold("t", b"a", b"b")
        await served.append("t", b"c")
    disk, items = lives.env.disk, lives.bucket.shelf.items
    for name in disk.listdir("/data/cold"):
        if name.endswith(".head"):
            disk.unlink(f"/data/cold/{name}")
    key = next(key for key in items if key.endswith("/HEAD"))
    head = items.pop(key)
    async with lives.node() as served:
        status = served.uploads("t").status
        await until(lambda: "is not there, though records below offset 2" in f"{status.last_error}")
        earliest = await asks.offset_at(served, "t", -2)
        assert earliest.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        answer = await asks.fetch(served, asks.fetch_topic("t", 0, offset=0), wait_ms=1000)
        assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR, "to be asked again, not skipped"
        items[key] = head
        cold = served.at("t").cold
        assert cold is not None
        await until(lambda: not cold.is_unknown)
        assert await served.values("t") == [b"a", b"b", b"c"]


@in_world
async def test_a_log_that_the_bucket_does_not_go_on_from_takes_no_more_records(
    lives: Lives,
) -> None:
    """Log and local copy are lost, and the store does not find HEAD for a while."""
    async with lives.node() as served:
        await served.tiered("t")
        await served.make_cold("t", b"a", b"b", b"c")
        path = served.at("t").log.path
    disk, items = lives.env.disk, lives.bucket.shelf.items
    for name in disk.listdir(path):
        disk.unlink(f"{path}/{name}")
    disk.rmdir(path)
    for name in disk.listdir("/data/cold"):
        if name.endswith(".head"):
            disk.unlink(f"/data/cold/{name}")
    key = next(key for key in items if key.endswith("/HEAD"))
    head = items.pop(key)
    async with lives.node() as served:
        await served.append("t", b"other")
        items[key] = head
        one = served.at("t")
        assert one.cold is not None
        cold = one.cold
        one.log.roll()
        await until(lambda: cold.fence is not None)
        answer = await asks.produce(served, "t", asks.batch_of(served, b"later"))
        assert answer.error_code != ErrorCode.NONE
        assert "disagrees with the bucket" in f"{answer.error_message}"
