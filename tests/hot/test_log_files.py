"""Logs and the number of files they keep open."""

import errno

import pytest

from tests.hot.support import SMALL, append_values, env_on, read_values
from tierlog.env import File
from tierlog.hot import Log, LogDirectory, LogSettings
from tierlog.hot.errors import TooManyFiles
from tierlog.hot.sync import ManualSyncs
from tierlog.sim.disk import SimDisk
from tierlog.sim.file import SimFile

LAZY = LogSettings(segment_bytes=4096, flush_messages=1000)


class FewFiles(SimDisk):
    """A machine that lets a process have so many files open."""

    def __init__(self, files_max: int) -> None:
        super().__init__()
        self.files_max = files_max
        self.opened: list[SimFile] = []

    def open(self, path: str, *, write: bool = False, create: bool = False) -> File:
        self._take_place(path)
        file = super().open(path, write=write, create=create)
        assert isinstance(file, SimFile)
        self.opened.append(file)
        return file

    def sync_dir(self, path: str) -> None:
        self._take_place(path)
        super().sync_dir(path)

    def _take_place(self, path: str) -> None:
        self.opened = [file for file in self.opened if file._open]
        if len(self.opened) >= self.files_max:
            raise OSError(errno.EMFILE, "Too many open files", path)


def directory_on(disk: SimDisk, *, files_max: int) -> tuple[LogDirectory, ManualSyncs]:
    syncs = ManualSyncs()
    return LogDirectory(
        env_on(disk), "/data", syncs=syncs, reserve_bytes=0, files_max=files_max
    ), syncs


def test_idle_logs_hold_no_file_open() -> None:
    directory, syncs = directory_on(FewFiles(12), files_max=5)
    logs = [Log(directory, f"p-{number}", SMALL) for number in range(50)]
    assert len(directory.pool) <= 5
    for log in logs:
        append_values(log, log.path.encode())
        syncs.run_all()
    for log in logs:
        assert read_values(log) == {0: log.path.encode()}
        append_values(log, b"again")
        syncs.run_all()
        assert log.durable_end == 2
    assert len(directory.pool) <= 5


def test_a_file_with_unsynced_appends_stays_open_until_the_sync_that_covers_them() -> None:
    directory, syncs = directory_on(SimDisk(), files_max=1)
    log, other = Log(directory, "p", LAZY), Log(directory, "q", LAZY)
    append_values(log, b"x")
    file = log.segments.active.unsynced
    assert file is not None
    append_values(other, b"y")
    syncs.request(other)
    syncs.run_all()
    read_values(other)
    assert file.size() > 0
    job = log.begin_sync()
    append_values(log, b"came later")
    job.run()
    log.end_sync(job)
    assert log.segments.active.unsynced is file
    syncs.request(log)
    syncs.run_all()
    assert len(directory.pool) == 1
    read_values(other)
    with pytest.raises(OSError, match="EBADF"):
        file.size()


def test_a_roll_of_a_synced_segment_needs_no_open_file_of_it() -> None:
    directory, syncs = directory_on(SimDisk(), files_max=1)
    log = Log(directory, "p", SMALL)
    append_values(log, b"x")
    syncs.run_all()
    directory.pool.forget(log.segments.active.path)
    log.roll()
    append_values(log, b"y")
    syncs.run_all()
    assert read_values(log) == {0: b"x", 1: b"y"}
    assert len(directory.pool) <= 1


def test_running_out_of_files_refuses_an_append_and_breaks_nothing() -> None:
    disk = FewFiles(100)
    directory, syncs = directory_on(disk, files_max=5)
    log = Log(directory, "p", SMALL)
    append_values(log, b"x")
    syncs.run_all()
    disk.files_max = 0
    directory.pool.forget(log.segments.active.path)
    with pytest.raises(TooManyFiles, match="ulimit"):
        append_values(log, b"y")
    with pytest.raises(TooManyFiles):
        log.roll()
    with pytest.raises(TooManyFiles):
        Log(directory, "q", SMALL)
    disk.files_max = 100
    assert directory.broken is None
    assert append_values(log, b"y").base_offset == 1
    syncs.run_all()
    assert read_values(log) == {0: b"x", 1: b"y"}


def test_unpinned_files_make_room_when_the_process_runs_out() -> None:
    disk = FewFiles(100)
    directory, syncs = directory_on(disk, files_max=50)
    logs = [Log(directory, f"p-{number}", SMALL) for number in range(10)]
    for log in logs:
        append_values(log, b"x")
        syncs.run_all()
    disk.files_max = len(directory.pool)
    directory.pool.forget(logs[0].segments.active.path)
    disk.files_max -= 1
    append_values(logs[0], b"y")
    syncs.run_all()
    assert read_values(logs[0]) == {0: b"x", 1: b"y"}


def test_an_append_that_a_full_disk_refused_leaves_no_file_pinned() -> None:
    disk = SimDisk()
    directory, _ = directory_on(disk, files_max=1)
    log = Log(directory, "p", SMALL)
    disk.capacity = disk.used
    with pytest.raises(Exception, match="free"):
        append_values(log, b"x" * 5000)
    assert log.segments.active.unsynced is None
