"""A folder store stops before its disk is full, and says so."""

import pytest

from tests.objectstore.contract import read
from tests.objectstore.support import env_on
from tierlog.objectstore.body import BytesBody
from tierlog.objectstore.errors import StoreDenied, StoreFull
from tierlog.objectstore.folder import FolderStore
from tierlog.objectstore.folder.room import Room
from tierlog.objectstore.port import Outcome
from tierlog.sim import SimDisk

MIB = 1 << 20
FLOOR = 16 * MIB
LARGE = b"x" * (4 * MIB)


def store_with(disk: SimDisk, free_bytes: int) -> FolderStore:
    disk.capacity = disk.used + free_bytes
    return FolderStore(env_on(disk), "/store", floor_of=lambda _: FLOOR)


async def test_an_object_that_would_leave_too_little_room_is_refused_and_leaves_nothing() -> None:
    disk = SimDisk()
    store = store_with(disk, FLOOR + 10 * MIB)
    assert (await store.put_if_absent("a", BytesBody(LARGE))).outcome is Outcome.WON
    assert (await store.put_if_absent("b", BytesBody(LARGE))).outcome is Outcome.WON
    used = disk.used
    with pytest.raises(StoreFull, match=f"free and keeps {FLOOR}"):
        await store.put_if_absent("c", BytesBody(LARGE))
    assert disk.used == used
    assert disk.free_bytes("/store") >= FLOOR
    assert await read(store, "b") == LARGE
    disk.capacity += 10 * MIB
    assert (await store.put_if_absent("c", BytesBody(LARGE))).outcome is Outcome.WON
    await store.close()


async def test_a_manifest_still_finds_room_where_a_segment_does_not() -> None:
    disk = SimDisk()
    store = store_with(disk, FLOOR)
    with pytest.raises(StoreFull):
        await store.put_if_absent("seg", BytesBody(LARGE))
    assert (await store.put_if_absent("HEAD", BytesBody(b"head"))).outcome is Outcome.WON
    disk.capacity = disk.used + FLOOR // 2 - 1
    with pytest.raises(StoreFull):
        await store.put_if_absent("page", BytesBody(b"page"))
    await store.close()


async def test_parts_of_an_upload_count_as_well() -> None:
    disk = SimDisk()
    store = store_with(disk, FLOOR + 5 * MIB)
    upload = await store.begin_upload("large")
    await store.put_part(upload, 1, BytesBody(LARGE))
    with pytest.raises(StoreFull):
        await store.put_part(upload, 2, BytesBody(LARGE))
    await store.abort_upload(upload)
    await store.close()


def test_what_is_being_written_is_counted_in_full() -> None:
    disk = SimDisk(capacity=FLOOR + 10 * MIB)
    disk.mkdir("/store")
    room = Room(disk, "/store", floor_of=lambda _: FLOOR)
    with room.taken("a", 4 * MIB), room.taken("b", 4 * MIB), pytest.raises(StoreFull):
        room.taken("c", 4 * MIB).__enter__()
    with room.taken("c", 4 * MIB):
        pass


def test_a_full_store_is_for_somebody_to_act_upon_and_not_for_repeating() -> None:
    assert issubclass(StoreFull, StoreDenied)
