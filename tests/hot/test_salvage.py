"""Taking bytes out of a log: copied before they are cut, whatever the size."""

from random import Random

import pytest

from tierlog.hot import salvage
from tierlog.hot.salvage import known_damage, remove_segment, rewrite, set_aside, split_off
from tierlog.hot.smallfile import make_directory, read_all
from tierlog.sim.disk import SimDisk
from tierlog.types import Offset, Position

CONTENT = bytes(range(256)) * 40


@pytest.fixture
def disk() -> SimDisk:
    disk = SimDisk()
    make_directory(disk, "/p")
    disk.open("/p/source", create=True).pwrite(CONTENT, 0)
    return disk


@pytest.mark.parametrize("piece", [1000, 1 << 20])
def test_what_is_set_aside_is_durable_under_its_name(
    disk: SimDisk, piece: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(salvage, "PIECE_BYTES", piece)
    source = disk.open("/p/source")
    set_aside(disk, "/p", source, start=Position(100), end=Position(5100), name="1-9.damaged")
    for seed in range(10):
        after = disk.after_power_cut(Random(seed))
        assert read_all(after, "/p/1-9.damaged") == CONTENT[100:5100]
        assert known_damage(after, "/p") == [(1, 9)]


def test_what_is_split_off_becomes_a_segment(disk: SimDisk) -> None:
    source = disk.open("/p/source")
    split_off(disk, "/p", source, start=Position(7), end=Position(len(CONTENT)), base=Offset(42))
    for seed in range(10):
        after = disk.after_power_cut(Random(seed))
        assert read_all(after, f"/p/{42:020d}.log") == CONTENT[7:]


def test_a_leftover_of_an_earlier_attempt_does_not_shine_through(disk: SimDisk) -> None:
    disk.open("/p/x.torn.tmp", create=True).pwrite(b"z" * 20_000, 0)
    source = disk.open("/p/source")
    set_aside(disk, "/p", source, start=Position(0), end=Position(3), name="x.torn")
    assert read_all(disk, "/p/x.torn") == CONTENT[:3]


@pytest.mark.parametrize("piece", [1000, 1 << 20])
def test_rewriting_changes_nothing_and_makes_the_next_sync_write(
    disk: SimDisk, piece: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(salvage, "PIECE_BYTES", piece)
    file = disk.open("/p/source", write=True)
    disk.sync_dir("/p")
    disk.fail_fsync("/p/source")
    with pytest.raises(OSError, match="EIO"):
        file.fdatasync()
    rewrite(file, start=Position(100), end=Position(len(CONTENT)))
    assert read_all(disk, "/p/source") == CONTENT
    file.fdatasync()
    assert read_all(disk.after_power_cut(Random(1)), "/p/source")[100:] == CONTENT[100:]


def test_a_segments_files_go_those_that_are_there_and_the_log_last() -> None:
    disk = SimDisk()
    make_directory(disk, "/p")
    names = [f"{5:020d}.{suffix}" for suffix in ("log", "index", "snapshot")]
    for name in [*names, f"{6:020d}.log"]:
        disk.open(f"/p/{name}", create=True).close()
    gone: list[str] = []
    disk.on_op = gone.append
    remove_segment(disk, "/p", Offset(5))
    assert disk.listdir("/p") == [f"{6:020d}.log"]
    assert gone[-1].endswith(".log")
