"""A small metastore that is the same every time, and its files as they must lie on the disk.

    python -m tests.metastore.golden

writes them anew: only when the format is meant to change, and then its version with it.
"""

import asyncio
from pathlib import Path

from tests.metastore.support import content, open_on
from tierlog.metastore import Delete, Put
from tierlog.sim.disk import SimDisk

FOLDER = Path(__file__).parent / "golden"
NAMES = ("snapshot", "journal")


async def build() -> dict[str, bytes]:
    """A snapshot with three keys; behind it two frames, one of two transactions, and the mark."""
    disk = SimDisk()
    store = await open_on(disk)
    await store.txn([], [Put("/cluster", b'{"id":"x"}'), Put("/topics/a", b"1"), Put("/é", b"")])
    await store.txn([], [Put("/topics/a", b"2")])
    await store.close()
    store = await open_on(disk)
    session = store.session(ttl_ms=1000)
    await session.start()
    await asyncio.gather(
        store.txn([], [Put("/brokers/0", b"here", session), Delete("/é")]),
        store.txn([], [Put("/topics/b", b"\0\xff")]),
    )
    await store.txn([], [Delete("/topics/a")])
    return {name: content(disk, name) for name in NAMES}


def kept() -> dict[str, bytes]:
    return {name: bytes.fromhex((FOLDER / f"{name}.hex").read_text()) for name in NAMES}


def write() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, data in asyncio.run(build()).items():
        lines = [data[start : start + 32].hex() for start in range(0, len(data), 32)]
        (FOLDER / f"{name}.hex").write_text("".join(f"{line}\n" for line in lines))


if __name__ == "__main__":
    write()
