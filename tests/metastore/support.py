"""A store on a simulated disk without a simulated world: threads answer at once."""

from random import Random

from tests.inline import InlineTasks
from tierlog.env import Env, PlainSenders, SystemClock
from tierlog.metastore import LocalMetaStore
from tierlog.sim.disk import SimDisk
from tierlog.sim.ports import SimRng

PATH = "/data/meta"


def env_on(disk: SimDisk) -> Env:
    return Env(
        clock=SystemClock(),
        rng=SimRng(Random(1)),
        disk=disk,
        tasks=InlineTasks(),
        senders=PlainSenders(),
    )


async def open_on(disk: SimDisk, **options: int) -> LocalMetaStore:
    return await LocalMetaStore.open(env_on(disk), PATH, **options)


async def reopen_killed(disk: SimDisk) -> LocalMetaStore:
    """The next process after a kill -9."""
    disk.kill()
    return await open_on(disk)


def content(disk: SimDisk, name: str) -> bytes:
    file = disk.open(f"{PATH}/{name}")
    try:
        return file.pread(file.size(), 0)
    finally:
        file.close()


def store_file(disk: SimDisk, name: str, data: bytes) -> None:
    disk.mkdir(PATH)
    file = disk.open(f"{PATH}/{name}", create=True)
    file.truncate(0)
    file.pwrite(data, 0)
    file.fdatasync()
    file.close()
