"""A store on a simulated disk without a simulated world: threads answer at once."""

import asyncio
from collections.abc import Callable
from random import Random
from typing import TypeVar

from tierlog.env import Env, LocalTasks, PlainSenders, SystemClock
from tierlog.metastore import LocalMetaStore
from tierlog.sim.disk import SimDisk
from tierlog.sim.ports import SimRng

T = TypeVar("T")
PATH = "/data/meta"


class InlineTasks(LocalTasks):
    """Calls happen where they are made: what a test sees does not depend on a thread's speed."""

    def __init__(self) -> None:
        super().__init__(thread_count=1)

    def in_thread(self, call: Callable[..., T], *args: object) -> asyncio.Future[T]:
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        try:
            future.set_result(call(*args))
        except Exception as fault:  # noqa: BLE001 - handed to whoever waits, as a pool does
            future.set_exception(fault)
        return future


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
