"""A small log that is the same every time, and its files as they must lie on the disk.

    python -m tests.hot.goldenlog

writes them anew: only when the format is meant to change, and then its version with it.
"""

from pathlib import Path

from tests.hot.support import append, batch, open_log
from tierlog.hot import LogSettings
from tierlog.sim.disk import SimDisk
from tierlog.types import Offset

FOLDER = Path(__file__).parent / "golden"
BASE_MS = 1_700_000_000_000
SETTINGS = LogSettings(segment_bytes=1024, index_interval_bytes=200, checkpoint_bytes=1 << 20)


def build() -> dict[str, bytes]:
    """Two leader epochs, two producers, two segments, one trim, closed in order."""
    disk = SimDisk()
    log, syncs = open_log(disk, SETTINGS, start=1000)
    for number in range(12):
        data = batch(
            b"value-%02d" % number * 8,
            b"",
            timestamp=BASE_MS + number * 10 - (number % 3) * 25,
            producer_id=number % 2 + 1,
            producer_epoch=0,
            base_sequence=number // 2 * 2,
        )
        append(log, data, leader_epoch=4 + number // 8, now_ms=BASE_MS + number)
    syncs.run_all()
    log.trim(Offset(1003))
    log.close_now()
    names = [name for name in disk.listdir(log.path) if not name.startswith(".")]
    return {name: read(disk, f"{log.path}/{name}") for name in names}


def read(disk: SimDisk, path: str) -> bytes:
    file = disk.open(path)
    try:
        return file.pread(file.size(), 0)
    finally:
        file.close()


def kept() -> dict[str, bytes]:
    return {
        path.name.removesuffix(".hex"): bytes.fromhex(path.read_text())
        for path in FOLDER.glob("*.hex")
    }


def write() -> None:
    FOLDER.mkdir(exist_ok=True)
    for path in FOLDER.glob("*.hex"):
        path.unlink()
    for name, data in build().items():
        lines = [data[start : start + 32].hex() for start in range(0, len(data), 32)]
        (FOLDER / f"{name}.hex").write_text("".join(f"{line}\n" for line in lines))


if __name__ == "__main__":
    write()
