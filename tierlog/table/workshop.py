"""Where a converter works: local files that nobody misses, a worker, and the way to the bucket.

Everything on disk here is made anew by the next try; `clear_leftovers` removes what a crash left.
"""

from __future__ import annotations

from contextlib import suppress
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from tierlog.cold import sending
from tierlog.cold.cell import pause
from tierlog.cold.segmentfile import SegmentBody, SegmentFile
from tierlog.env import Disk, Env, LocalDisk, Tasks
from tierlog.objectstore.errors import StoreUnavailable
from tierlog.objectstore.port import ObjectStore, Outcome, Span
from tierlog.table.manifest import DeadLetters
from tierlog.types import Position

if TYPE_CHECKING:
    from collections.abc import Callable

    from tierlog.cold.layout import PartitionKeys
    from tierlog.table.plans import DeadFile, Made

SUFFIX = ".table"
READ_BYTES = 8 << 20
SENDS_MAX = 3
HANGS_S = 900.0
HANGS_BYTES_PER_SECOND = 256 << 10
"""A worker that is slower than this hangs. It takes what nobody else wants of the processors, and
the first one may have to compile: on a busy machine that is minutes."""
FREE_SHARE = 4
"""A conversion takes a quarter of the free disk at most."""

P = TypeVar("P")


class Fetched(NamedTuple):
    """What was read of an object."""

    size: int
    sha256: str


class Parcel(Protocol):
    """A file to be sent, and its key."""

    @property
    def key(self) -> str: ...

    @property
    def version_id(self) -> str | None: ...

    @property
    def size(self) -> int: ...

    @property
    def sha256(self) -> str: ...

    @property
    def crc32c(self) -> int: ...


class DeadParcel(NamedTuple):
    """Implements `Parcel`."""

    key: str
    size: int
    sha256: str
    crc32c: int
    version_id: str | None = None


class Workshop:
    def __init__(self, env: Env, store: ObjectStore, tasks: Tasks, directory: str) -> None:
        """`tasks` has the worker process; `directory` is the node's own."""
        self.env = env
        self.store = store
        self._tasks = tasks
        self._directory = directory

    def path(self, name: str) -> str:
        return f"{self._directory}/{name}{SUFFIX}"

    async def has_room(self, size: int) -> bool:
        free = await self.env.tasks.in_thread(self.env.disk.free_bytes, self._directory)
        return size * FREE_SHARE <= free

    async def fetch(
        self, key: str, path: str, *, size: int, version_id: str | None = None
    ) -> Fetched:
        """An object into a file. Raises `NoSuchObject`, and what the store does; an object that is
        shorter than it should be is what it is."""
        hashed, done = sha256(), 0
        await self.env.tasks.in_thread(_begin, self.env.disk, path)
        stat = await self.store.head(key, version_id=version_id)
        end = min(size, stat.size)
        while done < end:
            span = Span(Position(done), Position(min(done + READ_BYTES, end)))
            got = await self.store.get(key, span=span, version_id=version_id)
            data = memoryview(got.data)
            await self.env.tasks.in_thread(hashed.update, data)
            await self.env.tasks.in_thread(_write, self.env.disk, path, data, done)
            done += len(data)
        return Fetched(done, hashed.hexdigest())

    async def done(
        self,
        local: Callable[[P], Made],
        inline: Callable[[Disk, P], Made],
        plan: P,
        *,
        size: int,
    ) -> Made:
        """The work, in a worker process. Raises `WorkerLost`. Another process sees no disk but this
        machine's: on any other the work is done here."""
        if isinstance(self.env.disk, LocalDisk):
            limit_s = HANGS_S + size / HANGS_BYTES_PER_SECOND
            return await self._tasks.in_process(local, plan, limit_s=limit_s)
        return await self.env.tasks.in_thread(inline, self.env.disk, plan)

    async def send(self, keys: PartitionKeys, file: Parcel, path: str) -> str | None:
        """A file into the bucket, under a key that nobody has used, and asked for afterwards. Its
        version, where the store keeps them."""
        key = keys.full(file.key)
        body = SegmentBody(
            SegmentFile(self.env.disk, path, start=0, end=file.size), b"", crc32c=file.crc32c
        )
        for attempt in range(SENDS_MAX):
            written = await self.store.put_if_absent(key, body)
            with suppress(StoreUnavailable):
                stat = await sending.landed(self.store, key, file, self.env.tasks)
                return stat.version_id
            if written.outcome is Outcome.LOST:
                break
            await pause(self.env.rng, attempt)
        raise StoreUnavailable(f"{key} was sent and is not there")

    async def bury(self, keys: PartitionKeys, key: str, dead: DeadFile, path: str) -> DeadLetters:
        """Dead letters into the bucket."""
        await self.send(keys, DeadParcel(key, dead.size, dead.sha256, dead.crc32c), path)
        return DeadLetters(key, dead.size, dead.sha256, dead.batches, dead.records)

    async def clear(self, *paths: str) -> None:
        for path in paths:
            await self.env.tasks.in_thread(_remove, self.env.disk, path)

    async def clear_leftovers(self) -> None:
        await self.env.tasks.in_thread(_leftovers, self.env.disk, self._directory)


def _begin(disk: Disk, path: str) -> None:
    file = disk.open(path, create=True)
    try:
        file.truncate(0)
    finally:
        file.close()


def _write(disk: Disk, path: str, data: memoryview, position: int) -> None:
    file = disk.open(path, write=True)
    try:
        while data:
            written = file.pwrite(data, position)
            data, position = data[written:], position + written
    finally:
        file.close()


def _remove(disk: Disk, path: str) -> None:
    with suppress(FileNotFoundError):
        disk.unlink(path)


def _leftovers(disk: Disk, directory: str) -> None:
    for name in disk.listdir(directory):
        if name.endswith(SUFFIX):
            _remove(disk, f"{directory}/{name}")
