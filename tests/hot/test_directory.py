"""Opening, creating and deleting the logs of a directory, on a loop and across power cuts."""

import asyncio
import errno
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from unittest.mock import patch

import pytest

from tests.hot.support import SMALL, append_values, env_on, open_log, read_values
from tierlog.env import local_env
from tierlog.hot import Log, LogDirectory
from tierlog.hot.errors import AlreadyOpen, DiskFull, LogBroken, LogClosed, TooManyFiles
from tierlog.hot.sync import ManualSyncs
from tierlog.sim.disk import PowerCut, SimDisk
from tierlog.sim.file import SimFile
from tierlog.types import Offset


def directory_on(disk: SimDisk) -> LogDirectory:
    return LogDirectory(env_on(disk), "/data", syncs=ManualSyncs(), reserve_bytes=0)


def ops_of(disk: SimDisk) -> Counter[str]:
    """Counts the disk's mutating calls from now on, by name."""
    counted: Counter[str] = Counter()
    disk.trace = lambda op: counted.update([op.split()[0]])
    return counted


def run_syncs(directory: LogDirectory) -> None:
    assert isinstance(directory.syncs, ManualSyncs)
    directory.syncs.run_all()


# Opening


async def test_logs_are_made_and_opened_side_by_side() -> None:
    disk = SimDisk()
    directory = directory_on(disk)
    made = await asyncio.gather(*(directory.open_log(f"p-{n}", SMALL) for n in range(10)))
    for number, log in enumerate(made):
        append_values(log, b"%d" % number)
    run_syncs(directory)
    for log in made:
        log.close_now()
    assert directory.names() == [f"p-{n}" for n in range(10)]
    again = await asyncio.gather(*(directory.open_log(f"p-{n}", SMALL) for n in range(10)))
    assert [read_values(log) for log in again] == [{0: b"%d" % n} for n in range(10)]
    directory.close()


async def test_a_new_log_begins_where_it_is_told() -> None:
    disk = SimDisk()
    log = await directory_on(disk).open_log("p-0", SMALL, start=Offset(70))
    assert (log.log_start, log.log_end, log.size_bytes) == (70, 70, 0)
    append_values(log, b"x" * 100)
    assert log.size_bytes == disk.size(log.segments.active.path) > 100


async def test_many_new_logs_share_the_sync_of_their_directory() -> None:
    disk = SimDisk()
    directory = directory_on(disk)
    counted = ops_of(disk)
    await asyncio.gather(*(directory.open_log(f"p-{n}", SMALL) for n in range(40)))
    assert counted["mkdir"] == 40
    assert counted["fdatasync"] == 40, "a checkpoint each, nothing else"
    assert 40 < counted["sync_dir"] < 60, "one each, and a few for all together"


def test_a_log_without_a_loop_is_durable_when_it_is_made() -> None:
    disk = SimDisk()
    open_log(disk, start=5)
    for seed in range(20):
        log, _ = open_log(disk.after_power_cut(Random(seed)))
        assert log.log_end == 5


async def test_a_partition_is_opened_once() -> None:
    directory = directory_on(SimDisk())
    one, other = await asyncio.gather(
        directory.open_log("p-0", SMALL),
        directory.open_log("p-0", SMALL),
        return_exceptions=True,
    )
    assert isinstance(one, Log)
    assert isinstance(other, AlreadyOpen)
    with pytest.raises(AlreadyOpen, match="open already"):
        await directory.open_log("p-0", SMALL)
    one.close_now()
    assert isinstance(await directory.open_log("p-0", SMALL), Log)


async def test_an_opening_that_is_cancelled_leaves_the_partition_free() -> None:
    directory = directory_on(SimDisk())
    opening = asyncio.ensure_future(directory.open_log("p-0", SMALL))
    await asyncio.sleep(0)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    assert (await directory.open_log("p-0", SMALL)).log_end == 0


async def test_an_opening_that_failed_may_be_repeated() -> None:
    disk = SimDisk()
    directory = directory_on(disk)
    disk.capacity = disk.used
    with pytest.raises(DiskFull):
        await directory.open_log("p-0", SMALL)
    disk.capacity = 1 << 40
    await directory.open_log("p-0", SMALL)
    for seed in range(20):
        assert "p-0" in directory_on(disk.after_power_cut(Random(seed))).names()


async def test_a_name_that_cannot_be_made_durable_breaks_the_directory() -> None:
    disk = SimDisk()
    directory = directory_on(disk)
    sync_dir = disk.sync_dir

    def failing(path: str) -> None:
        if path == "/data":
            raise OSError(errno.EIO, "gone")
        sync_dir(path)

    with (
        patch.object(SimDisk, "sync_dir", lambda self, path: failing(path)),
        pytest.raises(LogBroken),
    ):
        await directory.open_log("p-0", SMALL)
    with pytest.raises(LogBroken):
        await directory.open_log("p-1", SMALL)


async def test_an_opening_without_a_free_file_closes_those_that_nobody_uses() -> None:
    disk = SimDisk()
    directory = directory_on(disk)
    log = await directory.open_log("p-0", SMALL)
    append_values(log, b"a")
    run_syncs(directory)
    read_values(log)
    assert len(directory.pool) == 1
    real = SimDisk.open

    def scarce(self: SimDisk, path: str, *, write: bool = False, create: bool = False) -> object:
        if len(directory.pool) >= 1:
            raise OSError(errno.EMFILE, "too many")
        return real(self, path, write=write, create=create)

    with patch.object(SimDisk, "open", scarce):
        await directory.open_log("p-1", SMALL)
        assert len(directory.pool) == 0
        append_values(log, b"b")  # Pinned now: nothing can be closed.
        with pytest.raises(TooManyFiles):
            await directory.open_log("p-2", SMALL)


async def test_a_clean_log_is_opened_without_reading_its_batches() -> None:
    disk = SimDisk()
    directory = directory_on(disk)
    log = await directory.open_log("p-0", SMALL)
    for _ in range(50):
        append_values(log, b"x" * 300)
    empty = await directory.open_log("p-1", SMALL)
    run_syncs(directory)
    log.close_now()
    empty.close_now()
    opened: list[str] = []
    real = SimDisk.open

    def noting(self: SimDisk, path: str, *, write: bool = False, create: bool = False) -> object:
        opened.append(path)
        return real(self, path, write=write, create=create)

    with patch.object(SimDisk, "open", noting):
        await directory.open_log("p-0", SMALL)
        await directory.open_log("p-1", SMALL)
    assert opened
    assert not [path for path in opened if path.endswith(".log")]


async def test_a_log_that_was_never_written_to_costs_a_restart_no_sync() -> None:
    disk = SimDisk()
    await directory_on(disk).open_log("p-0", SMALL)
    disk.kill()
    directory = directory_on(disk)
    counted = ops_of(disk)
    await directory.open_log("p-0", SMALL)
    assert not counted


def cut_at_every_op(run: Callable[[SimDisk], None], check: Callable[[SimDisk], None]) -> int:
    """Run with a power cut at every operation and check what is left; counts the cuts."""
    number = 0
    while True:
        disk = SimDisk()
        disk.on_op = _cutter(disk, number)
        try:
            run(disk)
        except PowerCut:
            disk.on_op = None
            for seed in range(6):
                check(disk.after_power_cut(Random(seed)))
            number += 1
            continue
        return number


def _cutter(disk: SimDisk, number: int) -> Callable[[str], None]:
    def on_op(_: str) -> None:
        if disk.op_count >= number:
            raise PowerCut

    return on_op


def test_a_creation_that_the_power_cut_is_done_anew() -> None:
    def create(disk: SimDisk) -> None:
        log, syncs = open_log(disk, start=3)
        append_values(log, b"first")
        syncs.run_all()

    def check(disk: SimDisk) -> None:
        log, syncs = open_log(disk, start=3)
        assert (log.log_start, log.segments.damage) == (3, [])
        assert set(read_values(log).values()) <= {b"first"}
        append_values(log, b"second")
        syncs.run_all()
        assert b"second" in read_values(log).values()

    assert cut_at_every_op(create, check) > 12


# Deleting


async def filled(directory: LogDirectory, name: str = "p-0") -> Log:
    log = await directory.open_log(name, SMALL)
    for number in range(20):
        append_values(log, b"%03d" % number * 100)
    run_syncs(directory)
    return log


async def test_a_deleted_log_is_gone_and_refuses_everything() -> None:
    disk = SimDisk()
    directory = directory_on(disk)
    log, kept = await filled(directory), await filled(directory, "p-1")
    waiting, settling = log.wait_visible(Offset(1000)), log.settle()
    await directory.delete_log(log)
    assert directory.names() == ["p-1"]
    for call in (lambda: append_values(log, b"x"), lambda: log.read(Offset(0), bytes_max=1)):
        with pytest.raises(LogClosed, match="deleted"):
            call()
    for future in (waiting, settling):
        with pytest.raises(LogClosed):
            await future
    await directory.swept()
    assert disk.listdir("/data") == [".lock", "p-1"]
    assert len(read_values(kept)) == 20
    await directory.delete_log(log)
    assert directory.names() == ["p-1"]


async def test_a_deleted_partition_may_come_again_and_begins_anew() -> None:
    disk = SimDisk()
    directory = directory_on(disk)
    log = await filled(directory)
    await directory.delete_log(log)
    again = await directory.open_log("p-0", SMALL)
    assert again.log_end == 0
    append_values(again, b"new")
    await directory.swept()
    await directory.delete_log(log)  # Of the first one, once more: not its heir's business.
    run_syncs(directory)
    assert read_values(again) == {0: b"new"}


async def test_deleting_waits_for_the_job_under_way(tmp_path: Path) -> None:
    env = local_env()
    directory = LogDirectory(env, str(tmp_path))
    log = await directory.open_log("p-0", SMALL)
    for number in range(60):
        append_values(log, b"%03d" % number * 50)
        if number == 30:
            await asyncio.sleep(0)
    await directory.delete_log(log)
    assert directory.syncs.is_idle(log)
    assert directory.broken is None
    await directory.swept()
    assert env.disk.listdir(str(tmp_path)) == [".lock"]
    directory.close()


async def test_a_log_that_is_not_open_is_deleted_without_a_look_at_its_files() -> None:
    disk = SimDisk()
    directory = directory_on(disk)
    log = await filled(directory)
    with pytest.raises(AlreadyOpen):
        await directory.delete_closed("p-0")
    log.close_now()
    disk.unlink("/data/p-0/partition.checkpoint")
    with patch.object(SimDisk, "open", side_effect=AssertionError):
        await directory.delete_closed("p-0")
        assert directory.names() == []
        await directory.delete_closed("p-0")
    assert directory.broken is None
    await directory.swept()
    assert disk.listdir("/data") == [".lock"]


async def test_what_was_deleted_and_not_unlinked_goes_with_the_next_start() -> None:
    disk = SimDisk()
    directory = directory_on(disk)
    log = await filled(directory)
    with patch("tierlog.hot.directory.remove_directory", side_effect=OSError(errno.EIO, "no")):
        await directory.delete_log(log)
        await directory.swept()
    assert len(disk.listdir("/data")) == 2
    disk.kill()
    directory = directory_on(disk)
    assert directory.names() == []
    await directory.open_log("p-1", SMALL)
    await directory.swept()
    assert disk.listdir("/data") == [".lock", "p-1"]


async def test_a_deletion_that_was_told_survives_a_power_cut() -> None:
    disk = SimDisk()
    directory = directory_on(disk)
    await directory.delete_log(await filled(directory))
    for seed in range(20):
        assert directory_on(disk.after_power_cut(Random(seed))).names() == []


async def test_a_deletion_that_the_power_cut_is_whole_or_not_at_all() -> None:
    disk = SimDisk()
    directory = directory_on(disk)
    log = await filled(directory)
    before = disk.op_count
    cuts: list[SimDisk] = []
    disk.on_op = lambda _: cuts.append(disk.snapshot())
    await directory.delete_log(log)
    await directory.swept()
    disk.on_op = None
    assert len(cuts) == disk.op_count - before > 10
    found = Counter[int]()
    for number, cut in enumerate(cuts):
        for seed in range(4):
            state = cut.after_power_cut(Random(seed))
            if "p-0" in directory_on(state).names():
                assert number <= 1, "deleted durably, and back again"
                state.kill()
                log, _ = open_log(state, name="p-0")
                assert len(read_values(log)) == 20
                found[1] += 1
            else:
                found[0] += 1
    assert min(found.values()) > 0
    assert len(found) == 2


async def test_a_broken_directory_deletes_nothing() -> None:
    disk = SimDisk()
    directory = directory_on(disk)
    log = await filled(directory)
    directory.syncs.latch(OSError("gone"))
    with pytest.raises(LogBroken):
        await directory.delete_log(log)
    assert directory.names() == ["p-0"]


async def test_a_rename_that_fails_breaks_the_directory_but_a_full_disk_may_be_asked_again() -> (
    None
):
    directory = directory_on(SimDisk())
    log = await filled(directory)
    with (
        patch.object(SimDisk, "rename", side_effect=OSError(errno.ENOSPC, "full")),
        pytest.raises(DiskFull),
    ):
        await directory.delete_log(log)
    await directory.delete_log(log)
    assert directory.names() == []
    log = await filled(directory)
    with (
        patch.object(SimDisk, "rename", side_effect=OSError(errno.EIO, "gone")),
        pytest.raises(LogBroken),
    ):
        await directory.delete_log(log)


def test_no_file_is_left_open_by_an_opening() -> None:
    disk = SimDisk()
    log, syncs = open_log(disk)
    append_values(log, b"a")
    syncs.run_all()
    disk.kill()
    closed: list[str] = []
    close = SimFile.close

    def noting(self: SimFile) -> None:
        closed.append(self._path)
        close(self)

    with patch.object(SimFile, "close", noting):
        log, _ = open_log(disk)
    assert log.segments.active.path in closed
