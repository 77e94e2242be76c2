"""Getting verified pieces of segment objects: from memory, from the cache, from the store.

Everything that leaves here passed its check: reader sections the CRC in the entry, data the CRCs of
its blocks. What fails is asked for once more, then it is an error; it is never kept and never
served. Indexes have a budget of their own: a chunk waits for its index while it holds its room.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Coroutine
from functools import partial
from typing import Any

from tierlog.cold.entry import Entry
from tierlog.env import Env
from tierlog.fetchproxy import segmentindex
from tierlog.fetchproxy.chunks import ChunkCache
from tierlog.fetchproxy.clients import Reader
from tierlog.fetchproxy.coldsegment import ColdSegment
from tierlog.fetchproxy.errors import ChunkCorrupt, ColdUnavailable, map_store_errors
from tierlog.fetchproxy.flights import ByteBudget, Flights
from tierlog.fetchproxy.held import Held
from tierlog.fetchproxy.pieces import FilePiece, HeldPiece, Piece
from tierlog.fetchproxy.segmentindex import SegmentIndex
from tierlog.fetchproxy.settings import ProxySettings
from tierlog.fetchproxy.stats import ProxyStats
from tierlog.objectstore.limited import Meter
from tierlog.objectstore.port import CRC_BYTES, Got, ObjectStore, Span
from tierlog.types import Bytes, Position

ATTEMPTS = 2
"""Of a GET whose bytes fail their check: a bad wire or a bad proxy is not a bad object."""
ON_LOOP_BYTES_MAX = 2 << 20
"""Checked without a thread: 0.2 ms."""


class Loader:
    def __init__(
        self,
        env: Env,
        store: ObjectStore,
        cache: ChunkCache,
        *,
        settings: ProxySettings,
        stats: ProxyStats,
    ) -> None:
        self._env = env
        self._store = store
        self.cache = self._cache = cache
        self._settings = settings
        self._chunk_bytes = settings.chunk_bytes
        self._stats = stats
        self.budget = ByteBudget(settings.flight_bytes_max)
        self.held = Held(settings.held_bytes_max, on_gone=self._unread_gone)
        self._gets = Meter(env.clock, settings.gets_per_second)
        self._unread: dict[tuple[str, Span], tuple[Reader, float]] = {}
        """Chunks, here or on their way, that no reader has come to the end of."""
        self.unread_bytes = 0
        self._pieces: Flights[Piece] = Flights(env.tasks, self.budget)
        self._indexes: Flights[SegmentIndex] = Flights(
            env.tasks, ByteBudget(settings.index_bytes_max)
        )
        self._segments: OrderedDict[str, ColdSegment] = OrderedDict()
        self.index_bytes = 0
        self.keeping = ByteBudget(settings.keeping_bytes_max)
        """Of chunks that are here and on their way to the disk."""
        self._chunks_kept: dict[str, HeldPiece] = {}
        """Those chunks, by their names in the cache."""
        self._keeping: set[asyncio.Task[None]] = set()
        self._keeps: dict[str, asyncio.Task[None]] = {}
        """Those of them that write chunks, by name."""

    @property
    def memory_used(self) -> int:
        """Bytes of downloads under way and of what is in memory."""
        return self.budget.used + self.keeping.used + self.held.used

    async def close(self) -> None:
        await self._pieces.close()
        await self._indexes.close()
        await asyncio.gather(*self._keeping, return_exceptions=True)

    # Segments and their indexes

    def segment(self, key: str, entry: Entry) -> ColdSegment:
        segment = self._segments.get(key)
        if segment is None:
            segment = self._segments[key] = ColdSegment(key, entry)
        self._segments.move_to_end(key)
        return segment

    def index(self, segment: ColdSegment, reader: Reader) -> asyncio.Task[SegmentIndex]:
        """Under way; await it through `shield`."""
        size = segmentindex.sections_span(segment.entry).size
        return self._indexes.fly(segment.key, size, partial(self._load_index, segment, reader))

    async def index_of(self, segment: ColdSegment, reader: Reader) -> SegmentIndex:
        if segment.index is not None:
            return segment.index
        return await asyncio.shield(self.index(segment, reader))

    async def _load_index(self, segment: ColdSegment, reader: Reader) -> SegmentIndex:
        if segment.index is not None:
            return segment.index
        span = segmentindex.sections_span(segment.entry)
        name = segment.index_file
        data = await self._cache.read_whole(name)
        if data is not None and not segmentindex.is_sound(segment.entry, data):
            await self._cache.drop(name)
            data = None
        if data is None:
            data = await self._get_index(segment, span, reader)
            self._spawn(self._keep(name, span, data), name="keep an index")
        return self._remember(segment, data)

    def _spawn(self, work: Coroutine[Any, Any, None], *, name: str) -> asyncio.Task[None]:
        """What nobody need wait for, but the end of the proxy."""
        keeping = self._env.tasks.spawn(work, name=name)
        self._keeping.add(keeping)
        keeping.add_done_callback(self._keeping.discard)
        return keeping

    async def _get_index(self, segment: ColdSegment, span: Span, reader: Reader) -> Bytes:
        for _ in range(ATTEMPTS):
            self._stats.index_gets += 1
            data = (await self._get(segment, span, reader)).data
            if segmentindex.is_sound(segment.entry, data):
                return data
            self._stats.corrupt += 1
        reason = "the reader sections are not those that were uploaded"
        raise ChunkCorrupt(segment.key, position=span.start, reason=reason)

    async def _keep(self, name: str, span: Span, data: Bytes) -> None:
        if self._cache.reserve(span.size):
            await self._cache.put(name, data)

    def _remember(self, segment: ColdSegment, data: Bytes) -> SegmentIndex:
        block_bytes = self._settings.block_bytes
        segment.index = SegmentIndex(segment.entry, data, block_bytes=block_bytes)
        if self._segments.get(segment.key) is segment:
            self.index_bytes += segment.index.size
        while self.index_bytes > self._settings.index_bytes_max and len(self._segments) > 1:
            _, oldest = self._segments.popitem(last=False)
            self.index_bytes -= 0 if oldest.index is None else oldest.index.size
        return segment.index

    # Pieces

    def chunk_span(self, segment: ColdSegment, number: int) -> Span:
        return segment.chunk(number, self._chunk_bytes)[0]

    def chunk_now(self, segment: ColdSegment, number: int) -> Piece | None:
        """If it takes no waiting."""
        span, name = segment.chunk(number, self._chunk_bytes)
        return (
            self._chunks_kept.get(name)
            or self.held.find(segment.key, span.start, span.end)
            or self._cache.opened(name)
        )

    def chunk_at(self, segment: ColdSegment, position: Position) -> Piece | None:
        """The one that holds `position`, if it takes no waiting."""
        return self.chunk_now(segment, position // self._chunk_bytes)

    def is_chunk(self, segment: ColdSegment, piece: Piece) -> bool:
        """Whether it is a whole one, and not some blocks."""
        number = piece.span.start // self._chunk_bytes
        return piece.span == segment.chunk(number, self._chunk_bytes)[0]

    def is_near(self, segment: ColdSegment, number: int) -> bool:
        """Whether it is here or on its way."""
        span, name = segment.chunk(number, self._chunk_bytes)
        return (
            self._cache.has(name)
            or name in self._chunks_kept
            or self._pieces.get((segment.key, span)) is not None
            or self.held.find(segment.key, span.start, span.end) is not None
        )

    def chunk(self, segment: ColdSegment, number: int, *, reader: Reader) -> asyncio.Task[Piece]:
        """Under way; await it through `shield`."""
        span, name = segment.chunk(number, self._chunk_bytes)
        is_here = self._cache.has(name)
        self._stats.chunk_hits += is_here
        reader.account.hits += is_here
        self._stats.chunk_misses += not is_here
        work = partial(self._load_chunk, segment, span, reader)
        flight = self._pieces.fly((segment.key, span), span.size, work)
        return self._counted(segment.key, span, flight, reader)

    def chunk_ahead(
        self, segment: ColdSegment, number: int, *, reader: Reader
    ) -> asyncio.Task[Piece] | None:
        """The same, if there is room for it now, and a GET to be had without waiting."""
        span = self.chunk_span(segment, number)
        under_way = self._pieces.get((segment.key, span))
        if under_way is not None:
            return under_way
        if self._gets.wait() > 0 or reader.is_in_debt:
            return None  # Those who wait for theirs come first.
        if self.unread_bytes + span.size > self.held.limit:
            self._forget_stalled()
        if self.unread_bytes + span.size > self.held.limit:
            return None  # It would push out of memory what a reader has not come to yet.
        work = partial(self._load_chunk, segment, span, reader, is_ahead=True)
        flight = self._pieces.try_fly((segment.key, span), span.size, work)
        return None if flight is None else self._counted(segment.key, span, flight, reader)

    def _counted(
        self, key: str, span: Span, flight: asyncio.Task[Piece], reader: Reader
    ) -> asyncio.Task[Piece]:
        """The same flight; its bytes count as unread until they are read, or cannot be."""
        if (key, span) not in self._unread:
            self._unread[key, span] = reader, self._env.clock.monotonic()
            self.unread_bytes += span.size
            reader.account.unread_bytes += span.size
        flight.add_done_callback(lambda done: self._landed(key, span, done))
        return flight

    def _landed(self, key: str, span: Span, flight: asyncio.Task[Piece]) -> None:
        if flight.cancelled() or flight.exception() or isinstance(flight.result(), FilePiece):
            self._unread_gone(key, span)

    def _unread_gone(self, key: str, span: Span) -> None:
        """It was read, or is not in memory any more."""
        found = self._unread.pop((key, span), None)
        if found is not None:
            self.unread_bytes -= span.size
            found[0].account.unread_bytes -= span.size

    def _forget_stalled(self) -> None:
        """What readers that stalled left unread makes room for those who read."""
        since_s = self._env.clock.monotonic() - self._settings.stall_s
        old = [name for name, (_, began_s) in self._unread.items() if began_s < since_s]
        for key, span in old:
            if self._pieces.get((key, span)) is None:
                self._unread_gone(key, span)
                self.held.retire(key, span, is_kept=False)

    def is_kept(self, segment: ColdSegment, number: int) -> bool:
        """Whether the disk has it, or is about to."""
        _, name = segment.chunk(number, self._chunk_bytes)
        return self._cache.has(name) or name in self._chunks_kept

    async def prewarm(self, segment: ColdSegment, number: int, *, reader: Reader) -> bool:
        """Load it for nobody in particular; whether the disk has it now."""
        span, name = segment.chunk(number, self._chunk_bytes)
        work = partial(self._load_chunk, segment, span, reader, must_keep=True)
        await asyncio.shield(self._pieces.fly((segment.key, span), span.size, work))
        if (keeps := self._keeps.get(name)) is not None:
            await asyncio.shield(keeps)
        return self._cache.has(name)

    def lead(self, segment: ColdSegment, span: Span, reader: Reader) -> asyncio.Task[Piece]:
        """Some blocks alone, which are held in memory; await it through `shield`."""
        work = partial(self._load_lead, segment, span, reader)
        return self._pieces.fly((segment.key, span), span.size, work)

    def touch(
        self, segment: ColdSegment, start: Position, stop: Position, *, reader: Reader
    ) -> None:
        """A reader used the chunk at `start`, if it is cached, and goes on at `stop`."""
        span, name = segment.chunk(start // self._chunk_bytes, self._chunk_bytes)
        if reader.touched == name and stop < span.end:
            return  # The same as before: once for each chunk is enough, and once at its end.
        reader.touched = name
        self._cache.ledger.touch(name, reader=reader)
        if (kept := self._chunks_kept.get(name)) is not None:
            kept.reader = reader  # To be told when the disk has it.
        if stop >= span.end:
            self._unread_gone(segment.key, span)
            self.held.retire(segment.key, span, is_kept=self._cache.has(name))
        self._cache.ledger.touch(segment.index_file, reader=reader)

    async def _load_chunk(
        self,
        segment: ColdSegment,
        span: Span,
        reader: Reader,
        *,
        is_ahead: bool = False,
        must_keep: bool = False,
    ) -> Piece:
        _, name = segment.chunk(span.start // self._chunk_bytes, self._chunk_bytes)
        if (here := self._chunks_kept.get(name)) is not None:
            return here
        if self._cache.has(name):
            index = await self.index_of(segment, reader)
            piece = await self._cache.open(name, span, index.bad_block)
            if piece is not None:
                return piece
        has_room = self._cache.reserve(span.size)
        self._stats.ahead_gets += is_ahead
        try:
            data = await self._verified(segment, span, reader, is_chunk=True)
        except BaseException:
            if has_room:
                self._cache.give_back(span.size)
            raise
        if has_room:
            if must_keep:
                await self._wait_for_disk(span.size)
            if must_keep or self.keeping.try_take(span.size):
                return self._keep_soon(segment, HeldPiece(span, data), name, data, reader)
            self._cache.give_back(span.size)
        self._stats.not_cached += 1
        return self._hold(segment, span, data)

    async def _wait_for_disk(self, size: int) -> None:
        try:
            await self.keeping.take(size)
        except BaseException:
            self._cache.give_back(size)
            raise

    def _keep_soon(
        self, segment: ColdSegment, piece: HeldPiece, name: str, data: Bytes, reader: Reader
    ) -> HeldPiece:
        """Whoever waits for the chunk has it from memory, and never waits for the disk: what comes
        faster than the disk takes it is not kept."""
        self._chunks_kept[name] = piece
        work = self._keep_chunk(segment, piece, name, data, reader)
        keeps = self._keeps[name] = self._spawn(work, name="keep a chunk")
        keeps.add_done_callback(lambda _: self._keeps.pop(name))
        return piece

    async def _keep_chunk(
        self, segment: ColdSegment, piece: HeldPiece, name: str, data: Bytes, reader: Reader
    ) -> None:
        try:
            is_kept = await self._cache.put(name, data, reader=reader, is_read=False)
        finally:
            del self._chunks_kept[name]
            self.keeping.give(piece.span.size)
        self._stats.not_cached += not is_kept
        if piece.reader is not None:
            self._cache.ledger.touch(name, reader=piece.reader)
        # Until its reader has come it stays in memory as well: the disk is slower.
        if not is_kept or (segment.key, piece.span) in self._unread:
            self.held.put(segment.key, piece)

    async def _load_lead(self, segment: ColdSegment, span: Span, reader: Reader) -> Piece:
        data = await self._verified(segment, span, reader, is_chunk=False)
        return self._hold(segment, span, data)

    def _hold(self, segment: ColdSegment, span: Span, data: Bytes) -> HeldPiece:
        piece = HeldPiece(span, data)
        self.held.put(segment.key, piece)
        return piece

    async def _verified(
        self, segment: ColdSegment, span: Span, reader: Reader, *, is_chunk: bool
    ) -> Bytes:
        """The index, which has the CRCs, is fetched at the same time if it is not here yet."""
        index = self.index(segment, reader)
        bad = 0
        for _ in range(ATTEMPTS):
            self._stats.chunk_gets += is_chunk
            self._stats.lead_gets += not is_chunk
            got = await self._get(segment, span, reader)
            found = await self._bad_block(await asyncio.shield(index), span, got)
            if found is None:
                return got.data
            bad = found
            self._stats.corrupt += 1
        raise ChunkCorrupt(segment.key, position=bad, reason="not the bytes that were uploaded")

    async def _bad_block(self, index: SegmentIndex, span: Span, got: Got) -> int | None:
        if got.crcs and self._settings.block_bytes == CRC_BYTES:
            return index.bad_block(span, got.data, got.crcs)
        if span.size <= ON_LOOP_BYTES_MAX:
            return index.bad_block(span, got.data)
        return await self._env.tasks.in_thread(index.bad_block, span, got.data)

    async def _get(self, segment: ColdSegment, span: Span, reader: Reader) -> Got:
        if wait_s := self._gets.owe(1):
            self._stats.gets_late += 1
            await asyncio.sleep(wait_s)
        self._stats.gets += 1
        reader.asked()
        version_id = segment.entry.version_id
        try:
            with map_store_errors(segment.key):
                got = await self._store.get(segment.key, span=span, version_id=version_id)
        except ColdUnavailable:
            self._stats.get_errors += 1
            raise
        self._stats.get_bytes += len(got.data)
        reader.account.get_bytes += len(got.data)
        return got
