"""The store in a folder, against the promises of the port, on a real and on a simulated disk."""

import asyncio
import contextlib
import errno
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.objectstore.contract import ObjectStoreContract, keys, put, read
from tests.objectstore.support import env_on
from tierlog.env import local_env
from tierlog.objectstore.body import BytesBody
from tierlog.objectstore.errors import (
    NoSuchObject,
    StoreBadRequest,
    StoreDenied,
    StoreUnavailable,
)
from tierlog.objectstore.folder import FolderStore
from tierlog.objectstore.port import Doomed, Outcome
from tierlog.sim import SimDisk
from tierlog.types import Bytes

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[FolderStore]:
    store = FolderStore(local_env(), f"{tmp_path}/store")
    yield store
    await store.close()


class TestFolderStore(ObjectStoreContract):
    """On a real disk, where each object costs syncs."""

    many = 40


class TestFolderStoreOnASimulatedDisk(ObjectStoreContract):
    @pytest.fixture
    async def store(self) -> AsyncIterator[FolderStore]:
        store = FolderStore(env_on(SimDisk()), "/store")
        yield store
        await store.close()


# Other processes


def start_racer(path: Path, name: str, rounds: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.objectstore.racer", str(path), name, str(rounds)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


async def test_racing_processes_lose_no_step_and_create_nothing_twice(
    store: FolderStore, tmp_path: Path
) -> None:
    await put(store, "counter/HEAD", b"0 start")
    racers = [start_racer(tmp_path / "store", f"racer-{number}", 15) for number in range(3)]
    lines = [line for racer in racers for line in racer.communicate()[0].splitlines()]
    assert [racer.returncode for racer in racers] == [0] * 3
    assert (await read(store, "counter/HEAD")).split()[0] == b"45"
    assert lines.count("added") == 45
    created = sorted(line for line in lines if line.startswith("created"))
    assert created == sorted(f"created {number}" for number in range(15))


async def test_a_killed_racer_costs_no_step_of_the_others_and_leaves_no_draft(
    store: FolderStore, tmp_path: Path
) -> None:
    await put(store, "counter/HEAD", b"0 start")
    doomed = start_racer(tmp_path / "store", "doomed", 100_000)
    assert doomed.stdout is not None
    racer = start_racer(tmp_path / "store", "racer", 20)
    acked = [doomed.stdout.readline() for _ in range(10)]
    doomed.kill()
    acked += doomed.communicate()[0].splitlines()
    lines = racer.communicate()[0].splitlines()
    added = lines.count("added") + sum(line.startswith("added") for line in acked)
    count = int((await read(store, "counter/HEAD")).split()[0])
    assert added <= count <= added + 1
    again = start_racer(tmp_path / "store", "again", 1)
    again.communicate()
    own = [path.name for path in (tmp_path / "store/.tierlog/tmp").iterdir()]
    assert len(own) == 1  # That of `store`, which lives.


# What lies in the folder


async def test_objects_are_plain_files_under_their_keys(store: FolderStore, tmp_path: Path) -> None:
    await put(store, "a/b/c.parquet", b"data")
    assert (tmp_path / "store/a/b/c.parquet").read_bytes() == b"data"


async def test_a_copied_folder_is_the_same_store(store: FolderStore, tmp_path: Path) -> None:
    written = await put(store, "a/HEAD", b"1")
    await put(store, "a/seg", b"x" * 3_000_000)
    before = [await store.head(key) for key in ("a/HEAD", "a/seg")]
    shutil.copytree(tmp_path / "store", tmp_path / "twin")
    twin = FolderStore(local_env(), f"{tmp_path}/twin")
    after = [await twin.head(key) for key in ("a/HEAD", "a/seg")]
    assert [(s.etag, s.size, s.crc32c) for s in before] == [
        (s.etag, s.size, s.crc32c) for s in after
    ]
    swapped = await twin.put_if_match("a/HEAD", BytesBody(b"2"), etag=written.etag)
    assert swapped.outcome is Outcome.WON
    assert await read(store, "a/HEAD") == b"1"
    await twin.close()


@pytest.mark.parametrize("note", [b"", b"garbage!", b"00000000[]", None])
async def test_a_lost_note_is_made_again_and_dates_the_object_once(
    store: FolderStore, tmp_path: Path, note: bytes | None
) -> None:
    written = await put(store, "a", b"data")
    path = tmp_path / "store/.tierlog/sums/a"
    if note is None:
        path.unlink()
    else:
        path.write_bytes(note)
    first = await store.head("a")
    assert first.etag == written.etag
    assert await store.head("a") == first
    assert path.read_bytes() not in (b"", note)


async def test_the_folders_own_files_are_no_objects(store: FolderStore, tmp_path: Path) -> None:
    await put(store, "a", b"")
    assert await keys(store) == ["a"]
    for key in (".tierlog", ".tierlog/tmp/x"):
        with pytest.raises(StoreBadRequest):
            await store.get(key)
        with pytest.raises(StoreBadRequest):
            await store.put_if_absent(key, BytesBody(b""))
    await put(store, "b/.tierlog", b"an object like any other")
    assert await keys(store) == ["a", "b/.tierlog"]


async def test_a_key_cannot_be_an_object_and_a_folder(store: FolderStore) -> None:
    await put(store, "a/b", b"")
    for key in ("a", "a/b/c"):
        for call in (
            store.put_if_absent(key, BytesBody(b"")),
            store.put(key, BytesBody(b"")),
            store.put_if_match(key, BytesBody(b""), etag='"x"'),
        ):
            with pytest.raises(StoreBadRequest):
                await call
    with pytest.raises(StoreBadRequest):
        await store.put_if_absent("n" * 256, BytesBody(b""))
    assert not await store.delete([Doomed("a")])
    assert await keys(store) == ["a/b"]


async def test_a_folder_that_went_away_is_not_an_empty_store(
    store: FolderStore, tmp_path: Path
) -> None:
    with pytest.raises(NoSuchObject):
        await store.get("HEAD")
    await put(store, "HEAD", b"1")
    (tmp_path / "store").rename(tmp_path / "elsewhere")
    with pytest.raises(StoreUnavailable):
        await store.get("HEAD")
    with pytest.raises(StoreUnavailable):
        await store.put_if_absent("HEAD", BytesBody(b"2"))
    assert not (tmp_path / "store").exists()
    (tmp_path / "elsewhere").rename(tmp_path / "store")
    assert await read(store, "HEAD") == b"1"


async def test_a_directory_that_somebody_removed_is_made_again(
    store: FolderStore, tmp_path: Path
) -> None:
    await put(store, "a/b", b"")
    await store.delete([Doomed("a/b")])
    (tmp_path / "store/a").rmdir()
    written = await store.put_if_absent("a/b", BytesBody(b"1"))
    assert written.outcome is Outcome.AMBIGUOUS
    await put(store, "a/b", b"1")


async def test_a_reader_without_the_right_to_write_can_read(
    store: FolderStore, tmp_path: Path
) -> None:
    await put(store, "a/b", b"data")
    (tmp_path / "store/.tierlog/sums/a/b").unlink()
    reader = FolderStore(local_env(), f"{tmp_path}/store")
    assert await read(reader, "a/b") == b"data"
    assert await keys(reader) == ["a/b"]
    assert len(list((tmp_path / "store/.tierlog/tmp").iterdir())) == 1
    await reader.close()


# What goes wrong


class BrokenBody(BytesBody):
    """Its file vanishes while it is read."""

    def pieces(self) -> Iterator[Bytes]:
        yield b"half"
        raise FileNotFoundError(errno.ENOENT, "the source has gone")


async def test_trouble_with_the_source_of_a_body_is_passed_on_as_it_is(
    store: FolderStore, tmp_path: Path
) -> None:
    with pytest.raises(FileNotFoundError):
        await store.put_if_absent("a", BrokenBody(b"half and half"))
    upload = await store.begin_upload("a")
    with pytest.raises(FileNotFoundError):
        await store.put_part(upload, 1, BrokenBody(b"half and half"))
    assert drafts(tmp_path) == []
    assert await keys(store) == []


def drafts(tmp_path: Path) -> list[str]:
    found = (tmp_path / "store/.tierlog/tmp").rglob("*")
    return [path.name for path in found if path.is_file() and path.name != "lock"]


async def test_a_cancelled_put_leaves_no_draft(store: FolderStore, tmp_path: Path) -> None:
    await put(store, "a", b"")
    for turns in range(12):
        task = asyncio.ensure_future(store.put(f"b/{turns}", BytesBody(bytes(3_000_000))))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
    await store.close()  # Behind everything that still runs in threads.
    assert drafts(tmp_path) == []


async def test_a_full_disk_refuses_and_shows_nothing() -> None:
    disk = SimDisk(capacity=1 << 20)
    store = FolderStore(env_on(disk), "/store")
    await put(store, "a", b"small")
    with pytest.raises(StoreDenied):
        await store.put_if_absent("b", BytesBody(bytes(2 << 20)))
    assert await keys(store) == ["a"]
    await put(store, "b", b"small")


async def test_a_failed_sync_shows_nothing_and_is_no_loss() -> None:
    disk = SimDisk()
    store = FolderStore(env_on(disk), "/store")
    old = await put(store, "HEAD", b"old")
    disk.fail_fsync()
    with pytest.raises(StoreUnavailable):
        await store.put_if_match("HEAD", BytesBody(b"new"), etag=old.etag)
    assert await read(store, "HEAD") == b"old"
    disk.fail_sync_dir("/store")
    written = await store.put_if_match("HEAD", BytesBody(b"new"), etag=old.etag)
    assert written.outcome is Outcome.AMBIGUOUS


async def test_a_lock_that_is_never_released_ends_in_doubt_not_in_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tierlog.objectstore.folder.store.LOCK_WAIT_SECONDS_MAX", 0.01)
    disk = SimDisk()
    store = FolderStore(env_on(disk), "/store")
    await put(store, "a", b"")
    locks = [disk.lock(f"/store/.tierlog/locks/{number:02x}") for number in range(64)]
    written = await store.put_if_absent("b", BytesBody(b""))
    assert written.outcome is Outcome.AMBIGUOUS
    assert [failed.key for failed in await store.delete([Doomed("a")])] == ["a"]
    for lock in locks:
        lock.release()
    await put(store, "b", b"")
    assert not await store.delete([Doomed("a")])


async def test_a_store_is_closed_while_a_write_is_under_way(
    store: FolderStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node stops in the middle of an upload, and that is no failure of its store."""
    await put(store, "a", b"")
    drafts = store._files.drafts
    drop, late = drafts.drop, drafts.new_path()

    def drop_beside_a_write(path: str) -> None:
        drop(path)
        store._env.disk.open(late, create=True).close()

    monkeypatch.setattr(drafts, "drop", drop_beside_a_write)
    store._env.disk.open(drafts.new_path(), create=True).close()
    await store.close()
