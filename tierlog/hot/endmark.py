"""The end mark of a partition: how far its records are known to be durable, after every sync.

`durable.end` holds twelve bytes: the durable end (i64), CRC-32C of those eight bytes (u32), both
big-endian. Overwritten in place after each fdatasync of the log and not synced itself: after a kill
it is exact, after a power cut it may be older, never too high. So recovery can tell a torn tail
from damage, and knows which offsets were given out even if the end of the log is gone.
"""

from struct import Struct

from crc32c import crc32c

from tierlog.env import Disk
from tierlog.hot import names, smallfile
from tierlog.types import Offset

END = Struct(">q")
CRC = Struct(">I")


def encode_end(end: Offset) -> bytes:
    data = END.pack(end)
    return data + CRC.pack(crc32c(data))


def store_end(disk: Disk, directory: str, end: Offset, *, sync: bool = False) -> None:
    file = disk.open(f"{directory}/{names.END_MARK}", create=True)
    try:
        file.pwrite(encode_end(end), 0)
        if sync:
            file.fdatasync()
    finally:
        file.close()


def load_end(disk: Disk, directory: str) -> Offset | None:
    """The recorded end; None when the file is missing or damaged."""
    try:
        data = smallfile.read_all(disk, f"{directory}/{names.END_MARK}")
    except FileNotFoundError:
        return None
    if len(data) != END.size + CRC.size:
        return None
    (end,) = END.unpack_from(data)
    return Offset(end) if data == encode_end(Offset(end)) else None
