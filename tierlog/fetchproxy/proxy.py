"""The fetch proxy: cold records by offset and by time.

`read` answers at once where the bytes are here, and otherwise with a future that the caller may
stop waiting for: cancelled or forgotten, the read goes on, and the next one finds its bytes here.
Who asks for the same while it is under way shares it, and no more than `ProxySettings.reads_max`
are under way. Reads that fail are told of in the log.
An answer is whole batches, as many as fit, the first whole even if it is larger, as views of the
one or two chunks that it lies in; only what lies in more is copied. All of it is below the
manifest's `next_offset`.

What goes wrong with the store is `ColdUnavailable` (retry); bytes that are not those that were
uploaded are never served (`ChunkCorrupt`, once several reads in a row met them, each after a second
try; retry until then). Downloads under way and bytes that
wait without a disk stay below `ProxySettings.memory_bytes`. Beside it come the segment indexes (a
budget of their own), joined answers, and what a read that needs many chunks has got so far.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple, TypeVar

from tierlog.env import Env
from tierlog.errors import TierlogError
from tierlog.fetchproxy import prewarm
from tierlog.fetchproxy.ahead import Ahead
from tierlog.fetchproxy.batches import Cut, Walk, WouldWait, cut, off_loop
from tierlog.fetchproxy.bytime import TimeSearch
from tierlog.fetchproxy.chunks import ChunkCache
from tierlog.fetchproxy.clients import Clients, Price, Reader
from tierlog.fetchproxy.coldsegment import ColdSegment
from tierlog.fetchproxy.complaints import Complaints
from tierlog.fetchproxy.damage import Damage
from tierlog.fetchproxy.errors import (
    ChunkCorrupt,
    ColdMissing,
    ColdUnavailable,
    TooManyReads,
    map_store_errors,
)
from tierlog.fetchproxy.flights import Allowance
from tierlog.fetchproxy.loader import Loader
from tierlog.fetchproxy.pieces import Piece, Run
from tierlog.fetchproxy.plan import Place, place_behind
from tierlog.fetchproxy.port import ColdPrefix
from tierlog.fetchproxy.prewarm import Prewarm, Wish
from tierlog.fetchproxy.readahead import Stream, Streams, Window
from tierlog.fetchproxy.runs import Runs, wait_for_pieces
from tierlog.fetchproxy.settings import ProxySettings
from tierlog.fetchproxy.stats import ProxyStats
from tierlog.hot.bytime import Found
from tierlog.hot.errors import OffsetOutOfRange
from tierlog.objectstore.errors import NoSuchObject
from tierlog.objectstore.port import ObjectStore
from tierlog.types import Bytes, Offset, TimestampMs

T = TypeVar("T")

PLANS_MAX = 3
"""Of one read: two changes of the manifest while it is under way are more than will be seen."""
SEARCHES = "(searches by time)"
"""What they take is counted under this name."""
SMALL_BYTES = 1 << 20
"""What a sender may send on the loop, as of the hot log."""


class ColdRead(NamedTuple):
    """Whole batches, the first of which holds the offset that was asked for, or is the first behind
    it."""

    records: Bytes
    """To be sent and not looked at."""
    more: Bytes
    """What goes on where `records` ends, in the next chunk."""
    base_offset: Offset
    next_offset: Offset
    """Where to read on; in the bucket or, at the seam, in the hot log."""
    may_block: bool = False
    """Whether sending it may wait for the disk, so not on the loop."""


class FetchProxy:
    def __init__(
        self,
        env: Env,
        store: ObjectStore,
        settings: ProxySettings,
        path: str,
        *,
        on_damage: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`on_damage` hears the key of an object that consumers cannot read, each time that one
        of them was told so."""
        self._env = env
        self._on_damage = on_damage
        self._settings = settings
        self.stats = ProxyStats()
        self.cache = ChunkCache(env, path, settings, self.stats)
        self.loader = Loader(env, store, self.cache, settings=settings, stats=self.stats)
        self._runs = Runs(self.loader, settings)
        self._streams = Streams()
        self._ahead = Ahead(env, self.loader, self._streams, settings)
        self.clients = Clients(clock=env.clock, gets_per_second=settings.client_gets_per_second)
        searcher = self.clients.reader(SEARCHES, has_budget=False)
        self._times = TimeSearch(env, self.loader, self._runs, settings, searcher)
        self._complaints = Complaints(env.clock)
        self._damage = Damage()
        self._reads: dict[tuple[str, Offset, int], asyncio.Task[ColdRead]] = {}
        """Under way, by partition, offset and size."""

    async def start(self) -> None:
        """Take over the cache that an earlier process left."""
        await self.cache.start()

    async def close(self) -> None:
        """Downloads end where they are; the cache stays."""
        reads = list(self._reads.values())
        for read in reads:
            read.cancel()
        await asyncio.gather(*reads, return_exceptions=True)
        await self._ahead.close()
        await self.loader.close()
        await self.cache.close()

    def allowance(self, bytes_max: int) -> Allowance:
        """For the fetches of one connection, whose byte limit is `bytes_max`."""
        return Allowance(bytes_max, chunk_bytes=self._settings.chunk_bytes)

    @property
    def memory_used(self) -> int:
        """Bytes of downloads under way and of what no disk holds yet."""
        return self.loader.memory_used

    @property
    def price(self) -> Price:
        return self._settings.price

    # Ahead of everybody

    def prewarm(
        self, wishes: list[Wish], *, bytes_max: int | None = None, taken_bytes: int = 0
    ) -> Prewarm:
        """To be priced or run; loads no more than `bytes_max`, and only into free room, of which
        `taken_bytes` are for what was priced before."""
        return Prewarm(
            self.loader,
            self.clients.reader(prewarm.CLIENT, has_budget=False),
            wishes,
            bytes_max=self._settings.cache_bytes if bytes_max is None else bytes_max,
            chunk_bytes=self._settings.chunk_bytes,
            taken_bytes=taken_bytes,
        )

    # By time

    async def search_time(
        self, prefix: ColdPrefix, timestamp: TimestampMs, *, start: Offset | None = None
    ) -> Found | None:
        """The first cold record from `start` (the log start) on, at `timestamp` or later."""
        head = prefix.head
        if head is None:
            return None
        at = head.log_start if start is None else start
        with self._told(prefix, f"time {timestamp}"):
            return await _renewed(prefix, partial(self._times.first, prefix, timestamp, start=at))

    async def search_latest(
        self, prefix: ColdPrefix, *, start: Offset | None = None
    ) -> Found | None:
        """The cold record with the largest timestamp, the first of several."""
        head = prefix.head
        if head is None:
            return None
        at = head.log_start if start is None else start
        with self._told(prefix, "the largest time"):
            return await _renewed(prefix, partial(self._times.latest, prefix, start=at))

    # By offset

    def read(
        self,
        prefix: ColdPrefix,
        offset: Offset,
        *,
        bytes_max: int,
        allowance: Allowance | None = None,
        client: str = "",
        group: Callable[[], str] = str,
    ) -> ColdRead | asyncio.Future[ColdRead]:
        """Records from `offset` on, at once or later. One reader that reads on shares one
        `allowance`; without one, each has its own. `client` and `group` are for
        whom it counts; the second is asked for once a stream. Raises `TooManyReads`."""
        stream = self._streams.find(prefix.full_key(""), offset)
        if stream is not None:
            found = self._read_at_once(prefix, stream, bytes_max, allowance)
            if found is not None:
                return found
        work = self._under_way(prefix, offset, bytes_max, stream, allowance, client, group)
        answer = asyncio.shield(work)
        answer.add_done_callback(_look_at)
        return answer

    def read_at_once(
        self, prefix: ColdPrefix, offset: Offset, *, bytes_max: int
    ) -> ColdRead | None:
        """The same for a reader that comes back and whose bytes are here; None otherwise."""
        stream = self._streams.find(prefix.full_key(""), offset)
        return None if stream is None else self._read_at_once(prefix, stream, bytes_max, None)

    def _read_at_once(
        self, prefix: ColdPrefix, stream: Stream, bytes_max: int, allowance: Allowance | None
    ) -> ColdRead | None:
        stream.window.came_back(self._env.clock.monotonic())
        if allowance is not None:
            stream.allowance = allowance
        found = self._read_now(prefix, stream, bytes_max)
        self.stats.reads_at_once += found is not None
        return found

    def _under_way(
        self,
        prefix: ColdPrefix,
        offset: Offset,
        bytes_max: int,
        stream: Stream | None,
        allowance: Allowance | None,
        client: str,
        group: Callable[[], str],
    ) -> asyncio.Task[ColdRead]:
        """The read that is under way for the same, or a new one."""
        key = prefix.full_key(""), offset, bytes_max
        read = self._reads.get(key)
        if read is not None and not read.done():
            self.stats.reads_shared += 1
            return read
        if len(self._reads) >= self._settings.reads_max:
            # One that has ended may not have been taken out yet, and whoever it woke asks now.
            self._reads = {at: one for at, one in self._reads.items() if not one.done()}
        if len(self._reads) >= self._settings.reads_max:
            self.stats.reads_refused += 1
            raise TooManyReads(f"{len(self._reads)} cold reads are under way")
        if stream is None:
            reader = self.clients.reader(client, group())
            stream = self._new_stream(prefix, allowance or self.allowance(bytes_max), reader)
        elif allowance is not None:
            stream.allowance = allowance
        work = self._read_told(prefix, offset, bytes_max, stream)
        read = self._reads[key] = self._env.tasks.spawn(work, name="cold read")
        read.add_done_callback(partial(self._ended, key))
        return read

    def _ended(self, key: tuple[str, Offset, int], read: asyncio.Task[ColdRead]) -> None:
        if self._reads.get(key) is read:  # Else another one began before this was heard of.
            del self._reads[key]

    @contextmanager
    def _told(self, prefix: ColdPrefix, what: str) -> Iterator[None]:
        try:
            with map_store_errors(prefix.full_key("")):
                yield
        except OffsetOutOfRange:
            raise  # The reader's mistake.
        except ChunkCorrupt as error:
            self.stats.reads_failed += 1
            self._complaints.tell(prefix, what, error)
            if self._damage.is_certain(error.key):
                self._on_damage(error.key)
                raise
            raise ColdUnavailable(error.key, str(error)) from error
        except TierlogError as error:
            self.stats.reads_failed += 1
            self._complaints.tell(prefix, what, error)
            if isinstance(error, ColdMissing):
                self._on_damage(error.key)
            raise

    async def _read_told(
        self,
        prefix: ColdPrefix,
        offset: Offset,
        bytes_max: int,
        stream: Stream,
    ) -> ColdRead:
        read = partial(self._read_planned, prefix, offset, bytes_max, stream)
        with self._told(prefix, f"offset {offset}"):
            return await _renewed(prefix, read)

    def _new_stream(self, prefix: ColdPrefix, allowance: Allowance, reader: Reader) -> Stream:
        window = Window(
            chunk_bytes=self._settings.chunk_bytes,
            bytes_max=self._settings.readahead_bytes_max,
            stall_s=self._settings.stall_s,
            now_s=self._env.clock.monotonic(),
        )
        return self._streams.begin(reader, prefix.full_key(""), window, allowance)

    def _read_now(self, prefix: ColdPrefix, stream: Stream, bytes_max: int) -> ColdRead | None:
        """The good road of a sequential reader: the chunk is open, the place is known."""
        entry = stream.entry
        if entry is None or stream.position >= entry.data_bytes:
            return None
        segment = self.loader.segment(stream.key, entry)
        found = self._known(segment, stream, bytes_max) or self._cut_now(segment, stream, bytes_max)
        if found is None:
            return None
        pieces, part = found
        records, more = _views(pieces, part)
        self.stats.chunk_hits += 1
        stream.reader.account.hits += 1
        may_block = _may_block(pieces, part)
        self._moved(prefix, stream, segment, part)
        return ColdRead(records, more, part.base_offset, part.next_offset, may_block)

    def _known(
        self, segment: ColdSegment, stream: Stream, bytes_max: int
    ) -> tuple[Sequence[Piece], Cut] | None:
        """What another reader was answered, and the chunks that it lies in, if they are here."""
        part = segment.cut_at(stream.position, bytes_max)
        piece = None if part is None else self.loader.chunk_at(segment, part.start)
        if part is None or piece is None:
            return None
        if part.stop <= piece.span.end:
            return (piece,), part
        second = self.loader.chunk_at(segment, piece.span.end)
        return None if second is None else ((piece, second), part)

    def _cut_now(
        self, segment: ColdSegment, stream: Stream, bytes_max: int
    ) -> tuple[Sequence[Piece], Cut] | None:
        """What to answer, and the one or two pieces that it lies in."""
        index = segment.index
        if index is None:
            return None
        place = place_behind(index, stream.position, data_bytes=segment.entry.data_bytes)
        run = self._runs.now(segment, place)
        if run is None:
            return None
        walk = Walk(segment.key, run)
        offset = stream.offset
        try:
            part = cut(walk, run, index, place, offset=offset, base=offset, bytes_max=bytes_max)
        except (WouldWait, OSError, ChunkCorrupt):
            return None  # The long road has threads, and tells what is wrong.
        pieces = run.pieces_of(part.start, part.stop)
        if len(pieces) > 2:
            return None  # To be joined, which may read the disk.
        is_whole = all(self.loader.is_chunk(segment, piece) for piece in pieces)
        if part.start == stream.position and is_whole:
            segment.remember(part, bytes_max)
        return pieces, part

    async def _read_planned(
        self, prefix: ColdPrefix, offset: Offset, bytes_max: int, stream: Stream
    ) -> ColdRead:
        """Objects of segments that expired or were merged go some time after the manifest let go
        of them; who planned by an older manifest plans again by the newest."""
        for _ in range(PLANS_MAX - 1):
            try:
                return await self._read_later(prefix, offset, bytes_max, stream)
            except ColdUnavailable as error:
                if not isinstance(error.__cause__, NoSuchObject):
                    raise
                if not await self._is_outdated(prefix, offset, error.key):
                    raise
                self.stats.planned_anew += 1
        return await self._read_later(prefix, offset, bytes_max, stream)

    async def _is_outdated(self, prefix: ColdPrefix, offset: Offset, key: str) -> bool:
        """Whether the manifest does not name this object for `offset` any more."""
        entry = await prefix.entry_for(offset)
        if entry is None:
            raise _out_of_range(prefix, offset)
        return prefix.full_key(entry.key) != key

    async def _read_later(
        self, prefix: ColdPrefix, offset: Offset, bytes_max: int, stream: Stream
    ) -> ColdRead:
        head = prefix.head
        if head is not None and offset < head.log_start:
            raise _out_of_range(prefix, offset)
        entry = await prefix.entry_for(offset)
        if entry is None:
            raise _out_of_range(prefix, offset)
        offset = max(offset, entry.base)
        segment = self.loader.segment(prefix.full_key(entry.key), entry)
        reader, allowance = stream.reader, stream.allowance
        if stream.entry is None:
            if segment.index is None:
                await self._client_turn(reader)
            else:
                _, place = await self._runs.locate(segment, offset, reader)
                await self._client_turn_unless_near(segment, place, reader)
            index, place, run = await self._runs.first(
                segment, offset, reader, bytes_max=bytes_max, allowance=allowance
            )
        else:
            index, place = await self._runs.locate(segment, offset, reader)
            await self._client_turn_unless_near(segment, place, reader)
            found = self._runs.fetch(segment, place, reader, allowance=allowance)
            if any(isinstance(one, asyncio.Task) for one in found):
                self._ahead.turns.reader_waited()
            self._ahead.go(prefix, stream)
            run = await wait_for_pieces(found)
        walk = Walk(segment.key, run)
        look = partial(
            cut, walk, run, index, place, offset=offset, base=entry.base, bytes_max=bytes_max
        )
        part = await off_loop(self._env.tasks, walk, look)
        records, more, may_block = await self._taken(run, part)
        self._damage.healed(segment.key)
        self._moved(prefix, stream, segment, part)
        return ColdRead(records, more, part.base_offset, part.next_offset, may_block)

    async def _client_turn_unless_near(
        self, segment: ColdSegment, place: Place, reader: Reader
    ) -> None:
        if not self._runs.is_near(segment, place):
            await self._client_turn(reader)

    async def _client_turn(self, reader: Reader) -> None:
        """Before it takes memory, or a flight that others wait for."""
        if wait_s := reader.turn():
            self.stats.gets_late += 1
            await asyncio.sleep(wait_s)

    async def _taken(self, run: Run, part: Cut) -> tuple[Bytes, Bytes, bool]:
        """The bytes to send, and whether sending them may wait for the disk."""
        pieces = run.pieces_of(part.start, part.stop)
        if len(pieces) <= 2:
            return *_views(pieces, part), _may_block(pieces, part)
        self.stats.joined += 1
        size = part.stop - part.start
        return await self._env.tasks.in_thread(run.pread, size, part.start), b"", False

    def _moved(self, prefix: ColdPrefix, stream: Stream, segment: ColdSegment, part: Cut) -> None:
        """Note what a reader got, and see to what it will want next."""
        size = part.stop - part.start
        self.stats.reads += 1
        self.stats.read_bytes += size
        stream.reader.account.reads += 1
        stream.reader.account.read_bytes += size
        self.loader.touch(segment, part.start, part.stop, reader=stream.reader)
        stream.window.answered(size, self._env.clock.monotonic())
        self._streams.move(
            stream,
            key=segment.key,
            entry=segment.entry,
            position=part.stop,
            offset=part.next_offset,
        )
        self._ahead.go(prefix, stream)


async def _renewed(prefix: ColdPrefix, read: Callable[[], Awaitable[T]]) -> T:
    """What `read` answers; asked once more by a newer HEAD where an object is missing. The one that
    is known may be old: this node may not be the one who writes it."""
    head = prefix.head
    try:
        with map_store_errors(prefix.full_key("")):
            return await read()
    except ColdMissing:
        await prefix.renew()
        if prefix.head == head:
            raise
    return await read()


def _views(pieces: Sequence[Piece], part: Cut) -> tuple[Bytes, Bytes]:
    """Of one piece or two."""
    first = pieces[0]
    if len(pieces) == 1:
        return first.view(part.stop - part.start, part.start), b""
    border = first.span.end
    return first.view(border - part.start, part.start), pieces[1].view(part.stop - border, border)


def _may_block(pieces: Sequence[Piece], part: Cut) -> bool:
    """Asked of small answers alone, as in the hot log: large ones never leave on the loop."""
    if part.stop - part.start > SMALL_BYTES:
        return False
    start = part.start
    for piece in pieces:
        stop = min(part.stop, piece.span.end)
        if not piece.is_cached(stop - start, start):
            return True
        start = stop
    return False


def _look_at(answer: asyncio.Future[ColdRead]) -> None:
    """Nobody may be waiting any more: then an error is no news either."""
    if not answer.cancelled():
        answer.exception()


def _out_of_range(prefix: ColdPrefix, offset: Offset) -> OffsetOutOfRange:
    head = prefix.head
    log_start = Offset(0) if head is None else head.log_start
    log_end = Offset(0) if head is None else head.next_offset
    return OffsetOutOfRange(offset, log_start=log_start, log_end=log_end)
