"""Views: the bytes that a read would give, without a copy, for sockets only."""

import socket
from pathlib import Path
from random import Random

import pytest

from tests.hot.support import append, append_values, batch, open_log
from tierlog.env import local_env
from tierlog.env.disk import LocalFile
from tierlog.hot import Log, LogDirectory, LogSettings
from tierlog.hot.errors import DamagedOffsets, LogClosed, OffsetOutOfRange
from tierlog.hot.sync import ManualSyncs
from tierlog.records.batch import iter_batches
from tierlog.sim.disk import SimDisk
from tierlog.types import Bytes, Offset

SETTINGS = LogSettings(segment_bytes=400_000, index_interval_bytes=2000)
SIZES = (0, 1, 300, 5000, 65536, 70_000, 200_000, 1 << 20)


def local_log(path: Path, settings: LogSettings = SETTINGS) -> tuple[Log, ManualSyncs]:
    syncs = ManualSyncs()
    directory = LogDirectory(local_env(), str(path), syncs=syncs, reserve_bytes=0)
    return Log(directory, "p", settings), syncs


def fill(log: Log, rng: Random, count: int) -> None:
    for _ in range(count):
        values = [rng.randbytes(rng.choice((5, 200, 3000))) for _ in range(rng.randrange(1, 6))]
        append(log, batch(*values))


def compare(log: Log, rng: Random, count: int = 40) -> None:
    """Views and reads agree, wherever and however much. The file is intact: looking is safe."""
    for _ in range(count):
        offset = Offset(rng.randrange(log.log_start, log.log_end + 1))
        end = Offset(rng.randrange(offset, log.log_end + 1)) if rng.random() < 0.3 else None
        bytes_max = rng.choice(SIZES)
        view = bytes(log.view(offset, bytes_max=bytes_max, end=end))
        assert view == bytes(log.read(offset, bytes_max=bytes_max, end=end))
        again = bytes(log.view(offset, bytes_max=bytes_max, end=end))
        assert again == view


def walk(log: Log, bytes_max: int) -> list[int]:
    """Sizes of the views that a consumer gets from the log start to the visible end."""
    sizes = []
    offset = log.log_start
    while offset < log.visible_end:
        data = bytes(log.view(offset, bytes_max=bytes_max))
        *_, (_, last) = iter_batches(data)
        offset = last.next_offset
        sizes.append(len(data))
    return sizes


@pytest.mark.parametrize("seed", range(6))
def test_a_view_is_what_a_read_gives(tmp_path: Path, seed: int) -> None:
    rng = Random(seed)
    log, syncs = local_log(tmp_path)
    for _ in range(6):
        fill(log, rng, 40)
        compare(log, rng)
        syncs.run_all()
        compare(log, rng)
        if rng.random() < 0.3:
            log.trim(Offset(rng.randrange(log.log_start, log.visible_end + 1)))
        if rng.random() < 0.3:
            syncs.run_all()
            log.truncate(Offset(rng.randrange(log.log_start, log.log_end + 1)))
        if rng.random() < 0.3:
            log.close_now()
            log._directory.close()
            log, syncs = local_log(tmp_path)
        compare(log, rng)
    assert sum(walk(log, 65536)) == sum(walk(log, 1 << 20))


@pytest.mark.parametrize("seed", range(3))
def test_on_a_simulated_disk_too(seed: int) -> None:
    rng = Random(seed)
    disk = SimDisk()
    log, syncs = open_log(disk, SETTINGS)
    fill(log, rng, 120)
    syncs.run_all()
    compare(log, rng)
    disk.kill()
    log, _ = open_log(disk, SETTINGS)
    compare(log, rng)


def is_mapped(data: Bytes) -> bool:
    return isinstance(data, memoryview) and not isinstance(data.obj, bytes)


def test_trusted_bytes_are_not_copied_and_others_are_checked_first(tmp_path: Path) -> None:
    log, syncs = local_log(tmp_path)
    fill(log, Random(1), 60)
    syncs.run_all()
    assert is_mapped(log.view(Offset(0), bytes_max=1 << 20)), "written by this process"
    log.close_now()
    log._directory.close()
    log, _ = local_log(tmp_path)
    first = log.view(Offset(0), bytes_max=100_000)
    assert not is_mapped(first)
    again = log.view(Offset(0), bytes_max=100_000)
    assert is_mapped(again)
    assert bytes(again) == bytes(first)


def test_a_view_of_damaged_bytes_is_refused(tmp_path: Path) -> None:
    log, _ = local_log(tmp_path)
    for _ in range(5):
        append_values(log, b"x" * 1000)
    log.close_now()
    log._directory.close()
    path = Path(log.segments.active.path)
    data = bytearray(path.read_bytes())
    data[500] ^= 1
    path.write_bytes(data)
    log, _ = local_log(tmp_path)
    with pytest.raises(DamagedOffsets):
        log.view(Offset(0), bytes_max=1 << 20)
    assert bytes(log.view(Offset(1), bytes_max=1 << 20)) == bytes(data[len(data) // 5 :])


def test_a_file_that_lost_its_end_is_met_before_anybody_touches_the_view(tmp_path: Path) -> None:
    log, syncs = local_log(tmp_path)
    for _ in range(5):
        append_values(log, b"x" * 50_000)
    syncs.run_all()
    assert is_mapped(log.view(Offset(0), bytes_max=1 << 20))
    with open(log.segments.active.path, "r+b") as file:
        file.truncate(120_000)
    whole = log.view(Offset(0), bytes_max=1 << 20)
    assert [header.base_offset for _, header in iter_batches(bytes(whole))] == [0, 1]
    with pytest.raises(DamagedOffsets):
        log.view(Offset(2), bytes_max=1 << 20)


def counted_headers(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Where headers are read from now on."""
    pread, positions = LocalFile.pread, []

    def counting(self: LocalFile, size: int, position: int) -> bytes:
        positions.append(position)
        return pread(self, size, position)

    monkeypatch.setattr(LocalFile, "pread", counting)
    return positions


def test_who_reads_behind_another_has_it_looked_up_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, syncs = local_log(tmp_path)
    fill(log, Random(6), 150)
    syncs.run_all()
    walk(log, 65536)  # The first place is found by another road.
    positions = counted_headers(monkeypatch)
    offsets = [Offset(0)]
    while (data := bytes(log.view(offsets[-1], bytes_max=65536))) and len(data) > 50_000:
        offsets.append(list(iter_batches(data))[-1][1].next_offset)
    assert len(offsets) > 3
    positions.clear()
    for offset in offsets[1:-1]:
        view = log.view(offset, bytes_max=65536)
        assert log.is_recent(offset, len(view))
        assert positions == []
        assert bytes(view) == bytes(log.read(offset, bytes_max=65536))
        positions.clear()


def test_a_remembered_view_holds_for_its_limit_and_later_ends_only(tmp_path: Path) -> None:
    log, syncs = local_log(tmp_path)
    fill(log, Random(7), 60)
    syncs.run_all()
    walk(log, 70_000)
    second = list(iter_batches(bytes(log.view(Offset(0), bytes_max=70_000))))[-1][1].next_offset
    whole = bytes(log.view(second, bytes_max=70_000))
    middle = list(iter_batches(whole))[3][1].base_offset
    for end in (middle, log.visible_end):
        for bytes_max in (65536, 70_000, 1 << 20):
            view = bytes(log.view(second, bytes_max=bytes_max, end=end))
            assert view == bytes(log.read(second, bytes_max=bytes_max, end=end))
    fill(log, Random(8), 20)
    syncs.run_all()
    assert bytes(log.view(second, bytes_max=70_000)) == whole


def test_a_remembered_view_of_a_file_that_lost_its_end_is_forgotten(tmp_path: Path) -> None:
    log, syncs = local_log(tmp_path)
    for _ in range(6):
        append_values(log, b"x" * 50_000)
    syncs.run_all()
    offset = Offset(3)
    for start in (0, 1, 2, 3, 3):
        view = log.view(Offset(start), bytes_max=70_000)
    with open(log.segments.active.path, "r+b") as file:
        file.truncate(120_000)
    log.segments.active.file()._mapping._cached.clear()  # type: ignore[attr-defined]  # a second
    assert not log.is_recent(offset, len(view))
    with pytest.raises(DamagedOffsets):
        log.view(offset, bytes_max=70_000)


def test_sending_what_was_cut_away_fails_and_hurts_nobody(tmp_path: Path) -> None:
    log, syncs = local_log(tmp_path)
    append_values(log, b"x" * 50_000)
    syncs.run_all()
    view = log.view(Offset(0), bytes_max=1 << 20)
    with open(log.segments.active.path, "r+b") as file:
        file.truncate(0)
    left, right = socket.socketpair()
    with left, right, pytest.raises(OSError, match="Bad address"):
        left.sendmsg([view])


async def test_views_outlive_trims_deletions_and_the_log(tmp_path: Path) -> None:
    env = local_env()
    directory = LogDirectory(env, str(tmp_path), syncs=ManualSyncs(), reserve_bytes=0)
    log = await directory.open_log("p-0", SETTINGS)
    fill(log, Random(2), 150)
    assert isinstance(directory.syncs, ManualSyncs)
    directory.syncs.run_all()
    expected = bytes(log.read(Offset(0), bytes_max=100_000))
    view = log.view(Offset(0), bytes_max=100_000)
    tail_at = log.segments.active.base_offset
    tail = log.view(tail_at, bytes_max=100_000)
    expected_tail = bytes(log.read(tail_at, bytes_max=100_000))
    log.trim(log.segments.active.base_offset)
    directory.syncs.run_all()
    assert bytes(view) == expected
    await directory.delete_log(log)
    await directory.swept()
    directory.close()
    assert (bytes(view), bytes(tail)) == (expected, expected_tail)
    assert env.disk.listdir(str(tmp_path)) == [".lock"]


def mapping_count(path: Path) -> int:
    return Path("/proc/self/maps").read_text().count(str(path))


def test_a_mapping_goes_with_its_last_view_and_a_segment_has_one(tmp_path: Path) -> None:
    log, syncs = local_log(tmp_path)
    fill(log, Random(3), 50)
    syncs.run_all()
    views = [log.view(Offset(0), bytes_max=70_000 + n) for n in range(5)]
    fill(log, Random(4), 20)
    views.append(log.view(Offset(0), bytes_max=1 << 20, end=log.log_end))
    assert mapping_count(tmp_path) == 1
    log.close_now()
    assert mapping_count(tmp_path) == 1
    views.clear()
    assert mapping_count(tmp_path) == 0


def test_mappings_are_bounded_by_the_open_files(tmp_path: Path) -> None:
    syncs = ManualSyncs()
    directory = LogDirectory(local_env(), str(tmp_path), syncs=syncs, reserve_bytes=0, files_max=4)
    log = Log(directory, "p", LogSettings(segment_bytes=2000))
    for _ in range(12):
        append_values(log, b"x" * 1500)
    syncs.run_all()
    for offset in range(12):
        assert is_mapped(log.view(Offset(offset), bytes_max=1 << 20))
    assert 0 < mapping_count(tmp_path) <= 4


def test_what_was_just_written_is_recent(tmp_path: Path) -> None:
    log, _ = local_log(tmp_path)
    fill(log, Random(5), 20)
    view = log.view(Offset(0), bytes_max=65536, end=log.log_end)
    assert log.is_recent(Offset(0), len(view))
    last = Offset(log.log_end - 1)
    assert log.is_recent(last, 1 << 20), "up to the end"
    assert not log.is_recent(log.log_end, 1)
    log.close_now()
    assert not log.is_recent(Offset(0), 1)
    with pytest.raises(LogClosed):
        log.view(Offset(0), bytes_max=1)


def test_a_view_outside_the_log_is_refused(tmp_path: Path) -> None:
    log, _ = local_log(tmp_path)
    with pytest.raises(OffsetOutOfRange):
        log.view(Offset(1), bytes_max=1)
    assert log.view(Offset(0), bytes_max=1) == b""
