"""The chunk cache: verified pieces of segment objects as files below `<data>/cache/`.

One file a chunk, `{digest}-{start:x}-{size:x}`, where the digest names the object; `{digest}-index`
for its reader sections. Written beside, renamed, never synced: after a crash a file may be torn,
and whoever opens one checks it anyway. A file that fails is dropped and fetched again. `ORDER`,
written at a clean end, remembers what was used last; without it nothing is lost but that.

Room is reserved before a download begins. Above 90 % of the budget the cache trims itself in the
background to 80 %; nobody waits for that: without room, or when the disk refuses, bytes are served
from memory (ADR 0010).

Invariant: files, reservations and files on their way out take no more than the budget.
"""

import asyncio
import logging
import re
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress

from tierlog.env import Env, File
from tierlog.fetchproxy.clients import Reader
from tierlog.fetchproxy.ledger import Ledger
from tierlog.fetchproxy.pieces import FilePiece
from tierlog.fetchproxy.settings import ProxySettings
from tierlog.fetchproxy.stats import ProxyStats
from tierlog.objectstore.port import Span
from tierlog.types import Bytes, Position

logger = logging.getLogger(__name__)

TRIM_ABOVE_PERCENT = 90
TRIM_TO_PERCENT = 80
REFUSED_PAUSE_S = 10.0
"""After the disk refused a write: do not write 8 MiB in vain for every chunk."""
WRITES_MAX = 2
"""Threads that may write at once: the syncs of the active edge need theirs."""
ORDER = "ORDER"
TEMPORARY = ".tmp"

_NAME = re.compile(r"[0-9a-f]{32}-(?:index|[0-9a-f]+)-([0-9a-f]+)")


def chunk_name(digest: str, span: Span) -> str:
    return f"{digest}-{span.start:x}-{span.size:x}"


def index_name(digest: str, size: int) -> str:
    return f"{digest}-index-{size:x}"


class ChunkCache:
    def __init__(self, env: Env, path: str, settings: ProxySettings, stats: ProxyStats) -> None:
        self._env = env
        self._disk = env.disk
        self._path = path
        self._settings = settings
        self._stats = stats
        self.ledger = Ledger(settings.cache_bytes)
        self.reserved = 0
        self.leaving = 0
        """Bytes of files that are being unlinked."""
        self._open: OrderedDict[str, FilePiece] = OrderedDict()
        self._writers = asyncio.Semaphore(WRITES_MAX)
        self._refused_until_s = float("-inf")
        self._trimming: asyncio.Task[None] | None = None
        self._serial = 0

    # Beginning and end

    async def start(self) -> None:
        """Take over what an earlier process left."""
        for name, size in await self._env.tasks.in_thread(self._find_files):
            self.ledger.add(name, size)
        self._trim_if_full()

    def _find_files(self) -> list[tuple[str, int]]:
        """Names say everything; sizes are believed until a file is opened and checked."""
        self._disk.mkdir(self._path)
        found = {}
        for name in self._disk.listdir(self._path):
            if match := _NAME.fullmatch(name):
                found[name] = int(match[1], 16)
            elif name.endswith(TEMPORARY):
                self._unlink(name)
        used_last = [name for name in self._read_order() if name in found]
        known = set(used_last)
        order = [*(name for name in found if name not in known), *used_last]
        return [(name, found[name]) for name in dict.fromkeys(order)]

    def _read_order(self) -> list[str]:
        try:
            file = self._disk.open(f"{self._path}/{ORDER}")
        except OSError:
            return []
        try:
            return bytes(file.pread(file.size(), 0)).decode("ascii", "replace").split("\n")
        finally:
            file.close()

    async def close(self) -> None:
        if self._trimming is not None:
            await self._trimming
        self._open.clear()
        order = "\n".join(self.ledger).encode("ascii")
        with suppress(OSError):
            await self._env.tasks.in_thread(self._write, ORDER, order)

    # Reading

    def opened(self, name: str) -> FilePiece | None:
        """A file that is open and was checked when it was opened."""
        piece = self._open.get(name)
        if piece is not None:
            self._open.move_to_end(name)
        return piece

    def has(self, name: str) -> bool:
        """Whether it is there, though perhaps not sound."""
        return name in self.ledger

    async def open(
        self, name: str, span: Span, bad_at: Callable[[Span, Bytes], int | None]
    ) -> FilePiece | None:
        """Open and check. None if it is not there, or not what was uploaded: then it is dropped."""
        if name not in self.ledger:
            return None
        try:
            file = await self._env.tasks.in_thread(self._open_checked, name, span, bad_at)
        except OSError as fault:
            logger.warning("cached chunk %s cannot be read: %s", name, fault)
            file = None
        if file is None:
            await self.drop(name)
            return None
        return self._keep_open(name, FilePiece(span, file))

    def _open_checked(
        self, name: str, span: Span, bad_at: Callable[[Span, Bytes], int | None]
    ) -> File | None:
        file = self._disk.open(f"{self._path}/{name}")
        is_sound = False
        try:
            is_sound = file.size() == span.size and _is_sound(file, span, bad_at, self._settings)
            return file if is_sound else None
        finally:
            if not is_sound:
                file.close()

    def _keep_open(self, name: str, piece: FilePiece) -> FilePiece:
        if name in self.ledger:  # Else it was evicted meanwhile: good for this one reader.
            self._open[name] = piece
            while len(self._open) > self._settings.open_chunks_max:
                self._open.popitem(last=False)
        return piece

    async def read_whole(self, name: str) -> Bytes | None:
        """A small file, unchecked."""
        if name not in self.ledger:
            return None
        try:
            return await self._env.tasks.in_thread(self._read, name)
        except OSError:
            await self.drop(name)
            return None

    def _read(self, name: str) -> bytes:
        file = self._disk.open(f"{self._path}/{name}")
        try:
            return file.pread(file.size(), 0)
        finally:
            file.close()

    async def drop(self, name: str) -> None:
        """It is not what it should be."""
        self._open.pop(name, None)
        size = self.ledger.remove(name)
        if size:
            self._stats.dropped += 1
            await self._unlink_all([(name, size)])

    # Writing

    def reserve(self, size: int) -> bool:
        """Room for a file that is not here yet; to be used by `put` or given back."""
        if self._env.clock.monotonic() < self._refused_until_s:
            return False
        taken = self.ledger.used + self.reserved + self.leaving
        if taken + size > self._settings.cache_bytes:
            self._trim_if_full(size)
            return False
        self.reserved += size
        return True

    @property
    def free_bytes(self) -> int:
        """What may still come in before anything has to leave."""
        limit = self._settings.cache_bytes * TRIM_ABOVE_PERCENT // 100
        return max(limit - self.ledger.used - self.reserved - self.leaving, 0)

    def give_back(self, size: int) -> None:
        self.reserved -= size

    async def put(
        self, name: str, data: Bytes, *, reader: Reader | None = None, is_read: bool = True
    ) -> bool:
        """Keep verified bytes, for which room was reserved; False if the disk refuses.

        They are not open afterwards: whoever comes for them reads and checks them, in a thread.
        """
        is_written = False
        try:
            async with self._writers:
                is_written = await self._env.tasks.in_thread(self._write, name, data)
        except OSError as fault:
            logger.warning("the chunk cache cannot write, serving from memory: %s", fault)
        finally:
            self.give_back(len(data))
        if not is_written:
            self._refused_until_s = self._env.clock.monotonic() + REFUSED_PAUSE_S
            return False
        self.ledger.remove(name)
        self.ledger.add(name, len(data), reader=reader, is_read=is_read)
        self._trim_if_full()
        return True

    def _write(self, name: str, data: Bytes) -> bool:
        """False where the disk is too full to be filled further."""
        disk = self._disk
        if disk.free_bytes(self._path) - len(data) < self._settings.disk_free_min:
            return False
        self._serial += 1
        temporary = f"{name}.{self._serial}{TEMPORARY}"
        file = disk.open(f"{self._path}/{temporary}", create=True)
        try:
            _write_whole(file, data)
            disk.rename(f"{self._path}/{temporary}", f"{self._path}/{name}")
        except BaseException:
            self._unlink(temporary)
            raise
        finally:
            file.close()
        return True

    # Trimming

    def _trim_if_full(self, wanted: int = 0) -> None:
        taken = self.ledger.used + self.reserved + wanted
        if taken * 100 > self._settings.cache_bytes * TRIM_ABOVE_PERCENT and self._trimming is None:
            self._trimming = self._env.tasks.spawn(self._trim(wanted), name="trim the chunk cache")

    async def _trim(self, wanted: int) -> None:
        aim = self._settings.cache_bytes * TRIM_TO_PERCENT // 100 - self.reserved - wanted
        gone = self.ledger.take_down_to(max(aim, 0))
        for each in gone:
            self._open.pop(each.name, None)
            self._stats.evicted += 1
            self._stats.evicted_bytes += each.size
            if not each.is_read:
                self._stats.note_waste(each.size, each.reader)
        try:
            await self._unlink_all([(each.name, each.size) for each in gone])
        finally:
            self._trimming = None

    async def _unlink_all(self, gone: list[tuple[str, int]]) -> None:
        size = sum(size for _, size in gone)
        self.leaving += size
        try:
            await self._env.tasks.in_thread(self._unlink_names, [name for name, _ in gone])
        finally:
            self.leaving -= size

    def _unlink_names(self, names: list[str]) -> None:
        for name in names:
            self._unlink(name)

    def _unlink(self, name: str) -> None:
        with suppress(OSError):
            self._disk.unlink(f"{self._path}/{name}")


def _write_whole(file: File, data: Bytes) -> None:
    view = memoryview(data)
    position = 0
    while position < len(view):
        # Past the page cache: whoever waits is served from memory, and a replay of years shall
        # neither push out what the tail lives on nor make its writes wait for the disk.
        position += file.pwrite_past_cache(view[position:], position)


def _is_sound(
    file: File,
    span: Span,
    bad_at: Callable[[Span, Bytes], int | None],
    settings: ProxySettings,
) -> bool:
    """Check block by block: opening a chunk holds no chunk in memory."""
    for start in range(span.start, span.end, settings.block_bytes):
        end = min(start + settings.block_bytes, span.end)
        data = file.pread(end - start, start - span.start)
        if bad_at(Span(Position(start), Position(end)), data) is not None:
            return False
    return True
