"""The end mark of a partition: how far its records are known to be durable, after every sync.

`durable.end` holds twenty bytes: the durable end (i64), a digest of the machine's boot id (eight
bytes), CRC-32C of those sixteen (u32), big-endian. Overwritten in place after each fdatasync of the
log, and when a log is opened in a new boot; not synced itself: after a kill it is exact, after a
power cut it may be older, never too high. So recovery can tell a torn tail from damage, knows which
offsets were given out even if the end of the log is gone, and whether the page cache that it reads
is the one that the writer left.
"""

from hashlib import blake2b
from struct import Struct
from typing import NamedTuple

from crc32c import crc32c

from tierlog.env import Disk
from tierlog.hot import names, smallfile
from tierlog.types import Offset

BODY = Struct(">q8s")
CRC = Struct(">I")


class EndMark(NamedTuple):
    durable_end: Offset
    boot: bytes


def boot_digest(boot: str) -> bytes:
    return blake2b(boot.encode(), digest_size=8).digest()


def encode_end(mark: EndMark) -> bytes:
    data = BODY.pack(*mark)
    return data + CRC.pack(crc32c(data))


def store_end(disk: Disk, directory: str, end: Offset, *, sync: bool = False) -> None:
    file = disk.open(f"{directory}/{names.END_MARK}", create=True)
    try:
        file.pwrite(encode_end(EndMark(end, boot_digest(disk.boot_id()))), 0)
        if sync:
            file.fdatasync()
    finally:
        file.close()


def load_end(disk: Disk, directory: str) -> EndMark | None:
    """The mark; None when the file is missing or damaged."""
    try:
        data = smallfile.read_all(disk, f"{directory}/{names.END_MARK}")
    except FileNotFoundError:
        return None
    if len(data) != BODY.size + CRC.size:
        return None
    end, boot = BODY.unpack_from(data)
    mark = EndMark(Offset(end), boot)
    return mark if data == encode_end(mark) else None
