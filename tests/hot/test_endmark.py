"""The end mark: twelve bytes that are right or not believed."""

from tierlog.hot.endmark import encode_end, load_end, store_end
from tierlog.sim.disk import SimDisk
from tierlog.types import Offset


def disk_with_mark() -> SimDisk:
    disk = SimDisk()
    disk.mkdir("/p")
    store_end(disk, "/p", Offset(0x0102030405))
    return disk


def test_it_is_the_end_and_its_crc_big_endian() -> None:
    assert encode_end(Offset(0)).hex() == "0000000000000000" + "8c28b28a"
    assert encode_end(Offset(0x0102030405))[:8].hex() == "0000000102030405"


def test_the_last_one_stored_is_loaded() -> None:
    disk = disk_with_mark()
    store_end(disk, "/p", Offset(7))
    assert load_end(disk, "/p") == 7


def test_a_missing_mark_is_none() -> None:
    disk = SimDisk()
    disk.mkdir("/p")
    assert load_end(disk, "/p") is None


def test_every_flipped_bit_and_every_other_size_is_noticed() -> None:
    for bit in range(12 * 8):
        disk = disk_with_mark()
        disk.flip_bit("/p/durable.end", bit // 8, bit % 8)
        assert load_end(disk, "/p") is None
    for size in [*range(12), 13]:
        disk = disk_with_mark()
        disk.open("/p/durable.end", write=True).truncate(size)
        assert load_end(disk, "/p") is None
