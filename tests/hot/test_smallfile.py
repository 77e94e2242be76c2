"""Small files: old or new after a power cut, and folders that stay."""

from random import Random

from tierlog.hot.smallfile import make_directory, read_all, replace, write_all
from tierlog.sim.disk import PowerCut, SimDisk


def cut_before(disk: SimDisk, op: int) -> None:
    def on_op(_: str) -> None:
        if disk.op_count == op:
            raise PowerCut

    disk.on_op = on_op


def prepared() -> SimDisk:
    disk = SimDisk()
    make_directory(disk, "/p")
    replace(disk, "/p", "name", b"old" * 700)
    return disk


def test_whenever_the_power_goes_the_old_or_the_new_content_is_there() -> None:
    whole = prepared()
    first = whole.op_count
    replace(whole, "/p", "name", b"new" * 3000)
    seen = set()
    for op in range(first, whole.op_count):
        disk = prepared()
        cut_before(disk, op)
        try:
            replace(disk, "/p", "name", b"new" * 3000)
        except PowerCut:
            pass
        else:
            raise AssertionError("the cut did not happen")
        disk.on_op = None
        for draw in range(20):
            after = disk.after_power_cut(Random(draw))
            content = read_all(after, "/p/name")
            assert content in (b"old" * 700, b"new" * 3000)
            seen.add(content[:3])
    assert seen == {b"old", b"new"}


def test_what_was_replaced_is_durable() -> None:
    disk = prepared()
    replace(disk, "/p", "name", b"new")
    for draw in range(20):
        assert read_all(disk.after_power_cut(Random(draw)), "/p/name") == b"new"


def test_a_shorter_content_leaves_nothing_of_the_longer_one() -> None:
    disk = prepared()
    write_all(disk, "/p/name", b"x")
    assert read_all(disk, "/p/name") == b"x"


def test_a_made_directory_and_its_parents_stay() -> None:
    disk = SimDisk()
    make_directory(disk, "/a/b/c")
    for draw in range(20):
        assert disk.after_power_cut(Random(draw)).exists("/a/b/c")


def test_a_directory_whose_maker_was_killed_half_way_stays_once_it_is_used() -> None:
    whole = SimDisk()
    make_directory(whole, "/a/b/c")
    for op in range(whole.op_count):
        disk = SimDisk()
        cut_before(disk, op)
        try:
            make_directory(disk, "/a/b/c")
        except PowerCut:
            disk.on_op = None
            disk.kill()
        make_directory(disk, "/a/b/c")
        for draw in range(10):
            assert disk.after_power_cut(Random(draw)).exists("/a/b/c")
