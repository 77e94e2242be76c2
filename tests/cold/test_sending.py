"""Objects that were sent, and what the store answers for them."""

from dataclasses import replace

import pytest
from crc32c import crc32c

from tests.cold.makers import an_entry
from tests.hot.support import FixedClock
from tierlog.cold import sending
from tierlog.cold.entry import Entry
from tierlog.cold.segmentfile import PartBody, SegmentBody, SegmentFile
from tierlog.cold.staging import Staged
from tierlog.cold.troubles import ObjectWrong
from tierlog.env import LocalTasks
from tierlog.objectstore.errors import NoSuchObject, StoreUnavailable
from tierlog.objectstore.memory import MemoryStore
from tierlog.objectstore.port import Body, Part, Stat, Upload
from tierlog.sim.disk import SimDisk

DATA = b"d" * (11 << 20)
TASKS = LocalTasks(thread_count=1)


class PlainStore(MemoryStore):
    """Keeps no checksums."""

    async def head(self, key: str, *, version_id: str | None = None) -> Stat:
        return replace(await super().head(key, version_id=version_id), crc32c=None)


def an_object(*, in_parts: bool = False) -> Staged:
    disk = SimDisk()
    disk.open("/s", create=True).pwrite(DATA, 0)
    body = SegmentBody(
        SegmentFile(disk, "/s", start=0, end=len(DATA)), b"tail", crc32c=crc32c(DATA + b"tail")
    )
    cut = 6 << 20
    parts = (
        PartBody(body, start=0, end=cut, crc32c=crc32c(DATA[:cut])),
        PartBody(body, start=cut, end=body.size, crc32c=crc32c(DATA[cut:] + b"tail")),
    )
    return Staged(entry=entry_of(body), body=body, parts=parts if in_parts else ())


def entry_of(body: SegmentBody) -> Entry:
    return replace(an_entry(), size=body.size, crc32c=body.crc32c)


@pytest.mark.parametrize("in_parts", [False, True])
@pytest.mark.parametrize("kind", [MemoryStore, PlainStore])
async def test_what_was_sent_is_verified(kind: type[MemoryStore], in_parts: bool) -> None:
    store, staged = kind(FixedClock()), an_object(in_parts=in_parts)
    await sending.send(store, "k", staged)
    assert (await sending.verify(store, "k", staged.entry, TASKS)).size == len(DATA) + 4
    assert not store.shelf.list_uploads("")


@pytest.mark.parametrize("kind", [MemoryStore, PlainStore])
async def test_other_bytes_are_noticed(kind: type[MemoryStore]) -> None:
    store, staged = kind(FixedClock()), an_object()
    await sending.send(store, "k", staged)
    with pytest.raises(ObjectWrong, match="CRC-32C"):
        await sending.verify(store, "k", replace(staged.entry, crc32c=1), TASKS)
    with pytest.raises(ObjectWrong, match="5 bytes"):
        await sending.verify(store, "k", replace(staged.entry, size=5), TASKS)


async def test_an_object_that_is_not_there_was_not_taken() -> None:
    store, staged = MemoryStore(FixedClock()), an_object()
    with pytest.raises(NoSuchObject):
        await sending.verify(store, "k", staged.entry, TASKS)
    with pytest.raises(StoreUnavailable, match="is not there"):
        await sending.landed(store, "k", staged.entry, TASKS)


@pytest.mark.parametrize("in_parts", [False, True])
async def test_a_key_that_is_taken_is_not_used(in_parts: bool) -> None:
    store, staged = MemoryStore(FixedClock()), an_object(in_parts=in_parts)
    await sending.send(store, "k", staged)
    with pytest.raises(StoreUnavailable, match="is there already"):
        await sending.send(store, "k", staged)
    assert not store.shelf.list_uploads("")


async def test_parts_that_fail_leave_nothing_behind() -> None:
    class Failing(MemoryStore):
        async def put_part(self, upload: Upload, number: int, body: Body) -> Part:
            if number == 2:
                raise StoreUnavailable("no answer")
            return await super().put_part(upload, number, body)

    store, staged = Failing(FixedClock()), an_object(in_parts=True)
    with pytest.raises(StoreUnavailable):
        await sending.send(store, "k", staged)
    assert not store.shelf.list_uploads("")
    assert not store.shelf.items
