"""The files of the local metastore: cut, refused, full, broken, compacted."""

import asyncio
import errno
import logging
from random import Random
from struct import pack

import pytest

from tests.metastore.contract import next_of, put, values
from tests.metastore.support import PATH, content, open_on, reopen_killed, store_file
from tierlog.metastore import (
    LocalMetaStore,
    MetaStoreBroken,
    MetaStoreClosed,
    MetaStoreDamaged,
    MetaStoreFull,
    MetaStoreNewer,
    MetaStoreUnavailable,
    Put,
)
from tierlog.metastore.codec import FRAME_HEAD_BYTES, JOURNAL_HEAD_BYTES, crc_of
from tierlog.sim.disk import SimDisk

THREE = {"/a": b"1", "/b": b"2", "/c": b"3"}


@pytest.fixture
def disk() -> SimDisk:
    return SimDisk()


async def three_txns(disk: SimDisk) -> LocalMetaStore:
    store = await open_on(disk)
    for key, value in THREE.items():
        await put(store, key, value)
    return store


def sealed(data: bytes) -> bytes:
    """The file with a checksum that fits."""
    return data[:12] + pack(">I", crc_of(data[8:12], data[16:])) + data[16:]


async def test_a_kill_loses_nothing(disk: SimDisk) -> None:
    store = await three_txns(disk)
    before = await store.list("")
    store = await reopen_killed(disk)
    assert await store.list("") == before


async def test_a_torn_tail_is_cut_and_kept_aside(
    disk: SimDisk, caplog: pytest.LogCaptureFixture
) -> None:
    await three_txns(disk)
    whole = content(disk, "journal")
    end = len(whole) - FRAME_HEAD_BYTES  # The mark.
    last = whole.rindex(b"TLtx", 0, end)
    for cut in (last + 1, last + FRAME_HEAD_BYTES, end - 1):
        disk.kill()
        copy = disk.snapshot()
        store_file(copy, "journal", whole[:cut])
        with caplog.at_level(logging.WARNING):
            store = await open_on(copy)
        assert await values(store) == {"/a": b"1", "/b": b"2"}
        assert "a write that never finished" in caplog.text
        assert content(copy, "journal.torn") == whole[last:cut]
        caplog.clear()
        assert await put(store, "/c", b"again") == 3


async def test_a_bad_frame_below_the_end_is_refused_and_nothing_is_touched(disk: SimDisk) -> None:
    await three_txns(disk)
    disk.kill()
    size = disk.size(f"{PATH}/journal") - FRAME_HEAD_BYTES
    for position in range(JOURNAL_HEAD_BYTES, size):
        copy = disk.snapshot()
        copy.flip_bit(f"{PATH}/journal", position, position % 8)
        before = copy.state_hash()
        with pytest.raises(MetaStoreDamaged, match=r"journal: has a bad frame .* from a backup"):
            await open_on(copy)
        assert copy.state_hash() == before
        assert not copy.locked, "the lock is given back"


async def test_a_damaged_mark_costs_nothing(disk: SimDisk) -> None:
    await three_txns(disk)
    disk.kill()
    disk.flip_bit(f"{PATH}/journal", disk.size(f"{PATH}/journal") - 1, 0)
    assert await values(await open_on(disk)) == THREE


async def test_damage_to_what_was_closed_in_order_is_refused(disk: SimDisk) -> None:
    await (await three_txns(disk)).close()
    for name in ("journal", "snapshot"):
        for position in range(disk.size(f"{PATH}/{name}")):
            copy = disk.snapshot()
            copy.flip_bit(f"{PATH}/{name}", position, position % 8)
            with pytest.raises((MetaStoreDamaged, MetaStoreNewer)):
                await open_on(copy)


async def test_a_missing_or_foreign_file_is_refused(disk: SimDisk) -> None:
    await (await three_txns(disk)).close()
    for name in ("journal", "snapshot"):
        copy = disk.snapshot()
        copy.unlink(f"{PATH}/{name}")
        with pytest.raises(MetaStoreDamaged, match=f"{name}: is missing"):
            await open_on(copy)
        copy = disk.snapshot()
        store_file(copy, name, content(disk, name)[:-1])
        with pytest.raises(MetaStoreDamaged, match=f"{name}: cannot be read"):
            await open_on(copy)


async def test_files_of_two_stores_are_not_mixed(disk: SimDisk) -> None:
    await (await three_txns(disk)).close()
    earlier = content(disk, "snapshot")
    store = await open_on(disk)
    await put(store, "/d", b"4")
    await store.close()
    copy = disk.snapshot()
    store_file(copy, "snapshot", earlier)
    with pytest.raises(MetaStoreDamaged, match="ends at revision 3, but the journal begins behind"):
        await open_on(copy)
    store_file(copy, "snapshot", sealed(earlier[:16] + bytes(16) + earlier[32:]))
    with pytest.raises(MetaStoreDamaged, match="two different stores"):
        await open_on(copy)


@pytest.mark.parametrize("name", ["journal", "snapshot"])
async def test_a_newer_major_is_refused_and_a_newer_minor_is_not(disk: SimDisk, name: str) -> None:
    await (await three_txns(disk)).close()
    data = content(disk, name)
    store_file(disk, name, data[:8] + pack(">HH", 2, 0) + data[12:])
    with pytest.raises(MetaStoreNewer, match=f"{name} has format version 2, .* reads up to 1"):
        await open_on(disk)
    store_file(disk, name, sealed(data[:8] + pack(">HH", 1, 7) + data[12:]))
    assert await values(await open_on(disk)) == THREE


async def test_a_full_disk_refuses_and_changes_nothing(disk: SimDisk) -> None:
    store = await three_txns(disk)
    disk.capacity = disk.used
    before = await store.list("")
    large = Put("/large", bytes(200_000))
    with pytest.raises(MetaStoreFull, match="no space left for /data/meta: free some"):
        await store.txn([], [Put("/a", b"x"), large])
    assert await store.list("") == before
    disk.capacity = 1 << 40
    result = await store.txn([], [large])
    assert result.revision == before[1] + 1
    assert await values(await reopen_killed(disk)) == {**THREE, "/large": bytes(200_000)}


async def test_a_full_disk_puts_compaction_off(disk: SimDisk) -> None:
    store = await open_on(disk, journal_bytes_min=100)
    await put(store, "/a", bytes(3000))
    assert disk.exists(f"{PATH}/snapshot")
    await put(store, "/a", bytes(500))
    disk.capacity = disk.used
    for number in range(8):
        await put(store, "/a", b"%d" % number * 500)
    assert disk.size(f"{PATH}/journal") > 4000
    disk.capacity = 1 << 40
    for _ in range(8):
        await put(store, "/a", bytes(500))
    assert disk.size(f"{PATH}/journal") < 4000
    await store.close()


async def test_the_journal_does_not_grow_for_ever(disk: SimDisk) -> None:
    store = await open_on(disk, journal_bytes_min=10_000)
    largest = 0
    for number in range(300):
        await put(store, f"/{number % 10}", bytes(300))
        largest = max(largest, disk.size(f"{PATH}/journal"))
    assert 5_000 < largest < 11_000
    assert disk.size(f"{PATH}/snapshot") < 5_000


async def test_a_failed_fsync_breaks_the_store_until_it_is_opened_again(disk: SimDisk) -> None:
    store = await open_on(disk)
    revision = await put(store, "/a", b"1")
    waiting = asyncio.ensure_future(next_of(store.watch("/", after=revision)))
    session = store.session(ttl_ms=1000)
    await session.start()
    disk.fail_fsync()
    for call in (
        store.txn([], [Put("/b", b"2")]),
        store.txn([], [Put("/b", b"2")]),
        store.get("/a"),
        store.list(""),
        waiting,
    ):
        with pytest.raises(MetaStoreBroken, match="check the disk"):
            await call
    await session.lost()
    await store.close()
    store = await open_on(disk)
    before = await values(store)
    assert before["/a"] == b"1"
    disk.drop_caches()
    assert await values(await reopen_killed(disk)) == before


async def test_a_failed_fsync_of_a_compaction_breaks_the_store_too(disk: SimDisk) -> None:
    store = await open_on(disk, journal_bytes_min=100)
    disk.fail_fsync(f"{PATH}/snapshot.tmp")
    await put(store, "/a", bytes(500))  # Durable in the journal: the compaction comes behind it.
    with pytest.raises(MetaStoreBroken):
        await put(store, "/b", b"2")
    assert await values(await reopen_killed(disk)) == {"/a": bytes(500)}


@pytest.mark.parametrize("free", [0, 1])
async def test_a_compaction_without_a_free_file_for_its_directory_breaks_nothing(
    disk: SimDisk, free: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the snapshot with none free, of the journal with one."""
    store = await open_on(disk, journal_bytes_min=100)
    sync_dir = SimDisk.sync_dir

    def crowded(self: SimDisk, path: str) -> None:
        nonlocal free
        free -= 1
        if free < 0:
            raise OSError(errno.EMFILE, "too many open files")
        sync_dir(self, path)

    monkeypatch.setattr(SimDisk, "sync_dir", crowded)
    await put(store, "/a", bytes(500))  # Durable in the journal: the compaction comes behind it.
    for _ in range(2):
        with pytest.raises(MetaStoreUnavailable, match="too many open files"):
            await put(store, "/b", b"2")
    assert await values(store) == {"/a": bytes(500)}
    free = 1000
    await put(store, "/b", b"2")
    for seed in range(20):
        copy = disk.snapshot()
        copy.power_cut(Random(seed))
        assert await values(await open_on(copy)) == {"/a": bytes(500), "/b": b"2"}


async def test_what_waits_behind_a_failed_fsync_is_told(disk: SimDisk) -> None:
    store = await open_on(disk)
    disk.fail_fsync()
    outcomes = await asyncio.gather(
        *(store.txn([], [Put(f"/{number}", b"")]) for number in range(5)), return_exceptions=True
    )
    assert all(isinstance(each, MetaStoreBroken) for each in outcomes)


async def test_an_unreadable_disk_is_said_and_the_lock_given_back(disk: SimDisk) -> None:
    await (await three_txns(disk)).close()
    disk.fail_reads(f"{PATH}/snapshot")
    with pytest.raises(MetaStoreUnavailable, match="EIO"):
        await open_on(disk)
    disk.heal_reads(f"{PATH}/snapshot")
    assert await values(await open_on(disk)) == THREE


async def test_closing_on_a_full_disk_keeps_the_journal(
    disk: SimDisk, caplog: pytest.LogCaptureFixture
) -> None:
    store = await three_txns(disk)
    disk.capacity = disk.used
    await store.close()
    assert "closes with its journal as it is" in caplog.text
    with pytest.raises(MetaStoreClosed):
        await store.get("/a")
    disk.capacity = 1 << 40
    assert await values(await open_on(disk)) == THREE


async def test_waiting_transactions_share_one_fsync(disk: SimDisk) -> None:
    store = await open_on(disk)
    syncs: list[str] = []
    disk.on_op = lambda op: syncs.append(op) if op.startswith("fdatasync") else None
    await asyncio.gather(*(put(store, f"/{number}", b"") for number in range(50)))
    assert len(syncs) == 1
    assert (await store.list(""))[1] == 50
