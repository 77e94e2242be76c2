"""Getting verified pieces of segment objects: from memory, from the cache, from the store.

Everything that leaves here passed its check: reader sections the CRC in the entry, data the CRCs of
its blocks. What fails is asked for once more, then it is an error; it is never kept and never
served. Indexes have a budget of their own: a chunk waits for its index while it holds its room.
"""

import asyncio
import hashlib
from collections import OrderedDict
from functools import partial

from tierlog.cold.entry import Entry
from tierlog.env import Env
from tierlog.fetchproxy import plan, segmentindex
from tierlog.fetchproxy.chunks import ChunkCache, chunk_name, index_name
from tierlog.fetchproxy.errors import ChunkCorrupt, ColdUnavailable, map_store_errors
from tierlog.fetchproxy.flights import ByteBudget, Flights
from tierlog.fetchproxy.held import Held
from tierlog.fetchproxy.pieces import HeldPiece, Piece
from tierlog.fetchproxy.segmentindex import SegmentIndex
from tierlog.fetchproxy.settings import ProxySettings
from tierlog.fetchproxy.stats import ProxyStats
from tierlog.objectstore.port import ObjectStore, Span
from tierlog.types import Bytes, Position

ATTEMPTS = 2
"""Of a GET whose bytes fail their check: a bad wire or a bad proxy is not a bad object."""
ON_LOOP_BYTES_MAX = 2 << 20
"""Checked without a thread: 0.2 ms."""


class ColdSegment:
    """A segment object and what is known of it."""

    __slots__ = ("digest", "entry", "index", "key")

    def __init__(self, key: str, entry: Entry) -> None:
        self.key = key
        self.entry = entry
        self.index: SegmentIndex | None = None
        # The content is in the name: a file of another object cannot be taken for this one.
        name = f"{key}\n{entry.sha256}".encode()
        self.digest = hashlib.sha256(name).hexdigest()[:32]


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
        self._cache = cache
        self._settings = settings
        self._stats = stats
        self.budget = ByteBudget(settings.flight_bytes_max)
        self.held = Held(settings.held_bytes_max)
        self._pieces: Flights[Piece] = Flights(env.tasks, self.budget)
        self._indexes: Flights[SegmentIndex] = Flights(
            env.tasks, ByteBudget(settings.index_bytes_max)
        )
        self._segments: OrderedDict[str, ColdSegment] = OrderedDict()
        self.index_bytes = 0
        self._keeping: set[asyncio.Task[None]] = set()

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

    def index(self, segment: ColdSegment) -> asyncio.Task[SegmentIndex]:
        """Under way; await it through `shield`."""
        size = segmentindex.sections_span(segment.entry).size
        return self._indexes.fly(segment.key, size, partial(self._load_index, segment))

    async def index_of(self, segment: ColdSegment) -> SegmentIndex:
        if segment.index is not None:
            return segment.index
        return await asyncio.shield(self.index(segment))

    async def _load_index(self, segment: ColdSegment) -> SegmentIndex:
        if segment.index is not None:
            return segment.index
        span = segmentindex.sections_span(segment.entry)
        name = index_name(segment.digest, span.size)
        data = await self._cache.read_whole(name)
        if data is not None and not segmentindex.is_sound(segment.entry, data):
            await self._cache.drop(name)
            data = None
        if data is None:
            data = await self._get_index(segment, span)
            keeping = self._env.tasks.spawn(self._keep(name, span, data), name="keep an index")
            self._keeping.add(keeping)
            keeping.add_done_callback(self._keeping.discard)
        return self._remember(segment, data)

    async def _get_index(self, segment: ColdSegment, span: Span) -> Bytes:
        for _ in range(ATTEMPTS):
            self._stats.index_gets += 1
            data = await self._get(segment, span)
            if segmentindex.is_sound(segment.entry, data):
                return data
            self._stats.corrupt += 1
        reason = "the reader sections are not those that were uploaded"
        raise ChunkCorrupt(segment.key, position=span.start, reason=reason)

    async def _keep(self, name: str, span: Span, data: Bytes) -> None:
        if self._cache.reserve(span.size):
            await self._cache.put(name, span, data, keep_open=False)

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
        return plan.chunk_span(
            number,
            chunk_bytes=self._settings.chunk_bytes,
            data_bytes=segment.entry.data_bytes,
        )

    def chunk_now(self, segment: ColdSegment, number: int) -> Piece | None:
        """If it takes no waiting."""
        span = self.chunk_span(segment, number)
        opened = self._cache.opened(chunk_name(segment.digest, span))
        return opened or self.held.find(segment.key, span.start, span.end)

    def is_near(self, segment: ColdSegment, number: int) -> bool:
        """Whether it is here or on its way."""
        span = self.chunk_span(segment, number)
        return (
            self._cache.has(chunk_name(segment.digest, span))
            or self._pieces.get((segment.key, span)) is not None
            or self.held.find(segment.key, span.start, span.end) is not None
        )

    def chunk(self, segment: ColdSegment, number: int, *, reader: object) -> asyncio.Task[Piece]:
        """Under way; await it through `shield`."""
        span = self.chunk_span(segment, number)
        is_here = self._cache.has(chunk_name(segment.digest, span))
        self._stats.chunk_hits += is_here
        self._stats.chunk_misses += not is_here
        work = partial(self._load_chunk, segment, span, reader)
        return self._pieces.fly((segment.key, span), span.size, work)

    def chunk_ahead(
        self, segment: ColdSegment, number: int, *, reader: object
    ) -> asyncio.Task[Piece] | None:
        """The same, if there is room for it now."""
        span = self.chunk_span(segment, number)
        under_way = self._pieces.get((segment.key, span))
        if under_way is not None:
            return under_way
        work = partial(self._load_chunk, segment, span, reader, is_ahead=True)
        return self._pieces.try_fly((segment.key, span), span.size, work)

    def lead(self, segment: ColdSegment, span: Span) -> asyncio.Task[Piece]:
        """Some blocks alone, which are held in memory; await it through `shield`."""
        work = partial(self._load_lead, segment, span)
        return self._pieces.fly((segment.key, span), span.size, work)

    def touch(self, segment: ColdSegment, position: Position, *, reader: object) -> None:
        """A reader used the chunk at `position`, if it is cached."""
        span = self.chunk_span(segment, position // self._settings.chunk_bytes)
        self._cache.ledger.touch(chunk_name(segment.digest, span), reader=reader)
        entry = segment.entry
        name = index_name(segment.digest, segmentindex.sections_span(entry).size)
        self._cache.ledger.touch(name, reader=reader)

    async def _load_chunk(
        self, segment: ColdSegment, span: Span, reader: object, *, is_ahead: bool = False
    ) -> Piece:
        name = chunk_name(segment.digest, span)
        if self._cache.has(name):
            index = await self.index_of(segment)
            piece = await self._cache.open(name, span, index.bad_block)
            if piece is not None:
                return piece
        has_room = self._cache.reserve(span.size)
        self._stats.ahead_gets += is_ahead
        try:
            data = await self._verified(segment, span, is_chunk=True)
        except BaseException:
            if has_room:
                self._cache.give_back(span.size)
            raise
        if has_room:
            kept = await self._cache.put(name, span, data, reader=reader)
            if kept is not None:
                return kept
        self._stats.not_cached += 1
        return self._hold(segment, span, data)

    async def _load_lead(self, segment: ColdSegment, span: Span) -> Piece:
        return self._hold(segment, span, await self._verified(segment, span, is_chunk=False))

    def _hold(self, segment: ColdSegment, span: Span, data: Bytes) -> HeldPiece:
        piece = HeldPiece(span, data)
        self.held.put(segment.key, piece)
        return piece

    async def _verified(self, segment: ColdSegment, span: Span, *, is_chunk: bool) -> Bytes:
        """The index, which has the CRCs, is fetched at the same time if it is not here yet."""
        index = self.index(segment)
        bad = 0
        for _ in range(ATTEMPTS):
            self._stats.chunk_gets += is_chunk
            self._stats.lead_gets += not is_chunk
            data = await self._get(segment, span)
            found = await self._bad_block(await asyncio.shield(index), span, data)
            if found is None:
                return data
            bad = found
            self._stats.corrupt += 1
        raise ChunkCorrupt(segment.key, position=bad, reason="not the bytes that were uploaded")

    async def _bad_block(self, index: SegmentIndex, span: Span, data: Bytes) -> int | None:
        if span.size <= ON_LOOP_BYTES_MAX:
            return index.bad_block(span, data)
        return await self._env.tasks.in_thread(index.bad_block, span, data)

    async def _get(self, segment: ColdSegment, span: Span) -> Bytes:
        self._stats.gets += 1
        version_id = segment.entry.version_id
        try:
            with map_store_errors(segment.key):
                got = await self._store.get(segment.key, span=span, version_id=version_id)
        except ColdUnavailable:
            self._stats.get_errors += 1
            raise
        self._stats.get_bytes += len(got.data)
        return got.data
