"""The bucket as a job sees it: where it is, how it is opened, how async work is run from Spark's
plain Python.

Spark calls plain functions, on the driver perhaps inside a notebook whose thread has a loop of its
own. So work is run by a loop in a thread (`apart`), or pulled piece by piece from one that belongs
to the caller (`pulled`).
"""

from __future__ import annotations

import asyncio
import os
import threading
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from tierlog.config import load_node_settings, store_folder
from tierlog.env import Env, LocalTasks, local_env
from tierlog.objectstore.counted import Counted
from tierlog.objectstore.retrying import Retrying
from tierlog.objectstore.url import open_store
from tierlog.spark.errors import NotReadable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterator

    from tierlog.objectstore.counted import StoreStats
    from tierlog.objectstore.port import ObjectStore
    from tierlog.spark.options import ReadOptions

T = TypeVar("T")

S3 = "s3://"


@dataclass(frozen=True, slots=True, kw_only=True)
class StorePlace:
    """Travels to executors. Keys do not: each machine finds its own by the usual AWS chain."""

    url: str
    endpoint: str = ""
    region: str = ""

    @property
    def folder(self) -> str | None:
        return store_folder(self.url)

    def path_of(self, key: str) -> str:
        """For Spark's own readers."""
        if self.folder is not None:
            return f"file://{self.folder.rstrip('/')}/{key}"
        return f"s3a://{self.url.removeprefix(S3).rstrip('/')}/{key}"


def place_of(options: ReadOptions) -> StorePlace:
    return StorePlace(url=options.store, endpoint=options.s3_endpoint, region=options.s3_region)


@dataclass(frozen=True, slots=True)
class Opened:
    env: Env
    store: ObjectStore
    stats: StoreStats
    """What was asked of it."""


@asynccontextmanager
async def opened(place: StorePlace) -> AsyncIterator[Opened]:
    _check_folder(place)
    sets = [f"s3.endpoint={place.endpoint}"] if place.endpoint else []
    sets += [f"s3.region={place.region}"] if place.region else []
    settings = load_node_settings(options={"store": place.url}, sets=sets, environ={}, file=None)
    env = local_env()
    counted = Counted(open_store(env, place.url, settings), env.clock)
    store = Retrying(counted, env)
    try:
        yield Opened(env, store, counted.stats)
    finally:
        await store.close()
        if isinstance(env.tasks, LocalTasks):
            env.tasks.close()


def _check_folder(place: StorePlace) -> None:
    if place.folder is not None and not os.path.isdir(place.folder):
        raise NotReadable(f"there is no folder {place.folder}; name the store with its URL")


def with_store(place: StorePlace, work: Callable[[Opened], Coroutine[object, object, T]]) -> T:
    """Run the work beside the caller and wait for it."""

    async def run() -> T:
        async with opened(place) as bucket:
            return await work(bucket)

    return apart(run)


def apart(work: Callable[[], Coroutine[object, object, T]]) -> T:
    """Run it to its end by a loop in a thread: the caller's thread may have a loop that runs."""
    found: list[T] = []
    troubles: list[BaseException] = []

    def run() -> None:
        try:
            found.append(asyncio.run(work()))
        except BaseException as error:  # noqa: BLE001  (handed to the caller, whatever it is)
            troubles.append(error)

    thread = threading.Thread(target=run, name="tierlog-spark", daemon=True)
    thread.start()
    thread.join()
    if troubles:
        raise troubles[0]
    return found[0]


def pulled(work: Callable[[], AsyncIterator[T]]) -> Iterator[T]:
    """What async work yields, one at a time, by a loop that runs only while the caller waits."""
    with asyncio.Runner() as runner:
        source = work()
        try:
            while True:
                try:
                    one = runner.run(_next(source))
                except StopAsyncIteration:
                    return
                yield one
        finally:
            runner.run(_closed(source))


async def _next(source: AsyncIterator[T]) -> T:
    return await anext(source)


async def _closed(source: AsyncIterator[T]) -> None:
    close = getattr(source, "aclose", None)
    if close is not None:
        await close()
