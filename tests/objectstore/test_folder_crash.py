"""Power cuts and kills at every disk operation of the folder store.

After each of them a new process finds the old object or the new one, whole, with the right ETag and
checksum; what was answered is there; and what it read once stays.
"""

from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, TypeAlias

import pytest
from crc32c import crc32c

from tests.objectstore.contract import keys, put, put_parts
from tests.objectstore.support import env_on
from tierlog.objectstore.body import BytesBody
from tierlog.objectstore.errors import NoSuchObject
from tierlog.objectstore.folder import FolderStore
from tierlog.objectstore.folder.sums import Summer
from tierlog.objectstore.port import Doomed, Outcome
from tierlog.sim import PowerCut, SimDisk

Work: TypeAlias = Callable[[FolderStore], Coroutine[Any, Any, bool]]

OLD, NEW = b"old" * 300, b"new" * 400


async def create(store: FolderStore) -> bool:
    return (await store.put_if_absent("p/0/NEW", BytesBody(NEW))).outcome is Outcome.WON


async def swap(store: FolderStore) -> bool:
    etag = (await store.head("p/0/OLD")).etag
    return (await store.put_if_match("p/0/OLD", BytesBody(NEW), etag=etag)).outcome is Outcome.WON


async def remove(store: FolderStore) -> bool:
    return not await store.delete([Doomed("p/0/OLD")])


async def upload(store: FolderStore) -> bool:
    begun = await store.begin_upload("p/0/NEW")
    parts = await put_parts(store, begun, [NEW])
    written = await store.complete_upload(begun, parts, crc32c=crc32c(NEW))
    return written.outcome is Outcome.WON


CASES: dict[str, tuple[Work, str, list[bytes | None]]] = {
    "create": (create, "p/0/NEW", [None, NEW]),
    "swap": (swap, "p/0/OLD", [OLD, NEW]),
    "delete": (remove, "p/0/OLD", [OLD, None]),
    "upload": (upload, "p/0/NEW", [None, NEW]),
}
"""The work, the key it is about, and what stands there before and after."""


async def fresh_disk() -> SimDisk:
    disk = SimDisk()
    store = FolderStore(env_on(disk), "/srv/store")
    await put(store, "p/0/OLD", OLD)
    await store.close()
    disk.kill()
    return disk


async def crash(disk: SimDisk, work: Work, op_number: int) -> bool | None:
    """Do the work until its so manieth disk operation: None if it did not come to an end."""
    last = disk.op_count + op_number

    def cut(op: str) -> None:
        if disk.op_count >= last:
            raise PowerCut(op)

    disk.on_op = cut
    try:
        return await work(FolderStore(env_on(disk), "/srv/store"))
    except PowerCut:
        return None
    finally:
        disk.on_op = None


async def look(disk: SimDisk, key: str) -> bytes | None:
    """What a new process finds. Its size, ETag and checksum must be those of its bytes."""
    store = FolderStore(env_on(disk), "/srv/store")
    try:
        got = await store.get(key)
    except NoSuchObject:
        return None
    data = bytes(got.data)
    summer = Summer()
    summer.add(data)
    assert (got.stat.size, got.stat.crc32c) == (len(data), crc32c(data))
    assert got.stat.etag == summer.etag()
    assert key in await keys(store)
    return data


@pytest.mark.parametrize("case", CASES)
async def test_a_power_cut_at_any_moment_leaves_the_old_or_the_new(case: str) -> None:
    work, key, legal = CASES[case]
    seen, op_number, answer = set(), 0, None
    while answer is None:
        disk = await fresh_disk()
        answer = await crash(disk, work, op_number)
        op_number += 1
        for seed in range(op_number * 100, op_number * 100 + 10):
            found = await look(disk.after_power_cut(Random(seed)), key)
            assert found in (legal if answer is None else legal[1:]), op_number
            seen.add(found)
    assert answer
    assert seen == set(legal)
    assert op_number > 3


@pytest.mark.parametrize("case", CASES)
async def test_what_was_read_after_a_kill_survives_a_power_cut(case: str) -> None:
    work, key, legal = CASES[case]
    op_number, answer = 0, None
    while answer is None:
        disk = await fresh_disk()
        answer = await crash(disk, work, op_number)
        op_number += 1
        disk.kill()
        found = await look(disk, key)
        assert found in legal
        for seed in range(3) if found is not None else ():
            assert await look(disk.after_power_cut(Random(seed)), key) == found, op_number


async def test_whoever_writes_next_sweeps_the_drafts_of_the_dead() -> None:
    for op_number in range(40):
        disk = await fresh_disk()
        await crash(disk, swap, op_number)
        disk.kill()
        store = FolderStore(env_on(disk), "/srv/store")
        await put(store, "p/1/x", b"")
        await store.close()
        assert disk.listdir("/srv/store/.tierlog/tmp") == []
