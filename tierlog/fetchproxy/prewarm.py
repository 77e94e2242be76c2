"""Prewarming: a range of offsets is loaded into the chunk cache before anybody asks for it.

What it takes is known before, from the manifest alone: no GET is made for a plan, so its ends are
as exact as the samples of a segment, an eighth of a 128 MiB one. Only free room is used: nothing
that is cached leaves for it, and what does not fit is told. One chunk after another comes in beside
a few others, so that readers who wait for theirs are not behind it. The first chunk that cannot be
had ends the run: what is under way then still comes in, and only what came in counts as loaded.

Chunks go to the ordinary pool, as if a reader had fetched them; those that leave before somebody
reads of them count as waste.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from tierlog.errors import TierlogError
from tierlog.fetchproxy import plan
from tierlog.fetchproxy.segmentindex import sections_span
from tierlog.objectstore.port import Span
from tierlog.types import Offset, Position

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tierlog.cold.entry import Entry
    from tierlog.fetchproxy.clients import Reader
    from tierlog.fetchproxy.coldsegment import ColdSegment
    from tierlog.fetchproxy.loader import Loader
    from tierlog.fetchproxy.port import ColdPrefix

CLIENT = "(prewarm)"
"""The name that its GETs are counted under."""
FLIGHTS_MAX = 3
"""At once: fewer than the chunks that may be on their way to the disk, or some were not kept."""


class Wish(NamedTuple):
    """Offsets of one partition."""

    prefix: ColdPrefix
    start: Offset
    end: Offset


@dataclass(slots=True)
class Prewarmed:
    """What a run has done so far, or a plan would do."""

    bytes: int = 0
    """Of all chunks of the range."""
    here_bytes: int = 0
    """Of those that were cached already."""
    loaded_bytes: int = 0
    left_bytes: int = 0
    """Of those that found no room, in the budget or in the cache."""
    gets: int = 0
    done: bool = False
    error: str | None = None


def span_of(entry: Entry, start: Offset, end: Offset) -> Span:
    """The bytes of a segment that surely hold [start, end), by its samples."""
    offsets = [sample.offset for sample in entry.samples]
    low, high = bisect_right(offsets, start) - 1, bisect_left(offsets, end)
    first = entry.samples[low].position if low >= 0 else 0
    last = entry.samples[high].position if high < len(offsets) else entry.data_bytes
    return Span(Position(first), Position(max(last, first)))


class Prewarm:
    """One run."""

    def __init__(
        self,
        loader: Loader,
        reader: Reader,
        wishes: list[Wish],
        *,
        bytes_max: int,
        chunk_bytes: int,
        taken_bytes: int = 0,
    ) -> None:
        """`taken_bytes`: of the free room, by what was planned before."""
        self._loader = loader
        self._reader = reader
        self._wishes = wishes
        self._bytes_max = bytes_max
        self._chunk_bytes = chunk_bytes
        self.state = Prewarmed()
        self._taken = taken_bytes
        """Bytes of the cache for what is on its way, or would be."""
        self._flying = 0
        """Of them, those of chunks that are no plan."""
        self._indexes: set[str] = set()
        """Segments whose index was counted."""

    async def price(self) -> Prewarmed:
        """What `run` would do now."""
        state = self.state
        async for segment, number in self._chunks():
            size = self._seen(segment, number)
            if size and self._has_room(segment, size):
                self._taken += size + self._count_gets(segment)
                state.loaded_bytes += size
            else:
                state.left_bytes += size
        state.done = True
        return state

    async def run(self) -> None:
        """Errors are told in `state`: whoever waits reads them there."""
        flights: set[asyncio.Task[None]] = set()
        try:
            await self._fly(flights)
        except TierlogError as error:
            self.state.error = str(error)
            await asyncio.gather(*flights, return_exceptions=True)
        finally:
            for flight in flights:
                flight.cancel()
            await asyncio.gather(*flights, return_exceptions=True)
            self.state.done = True

    async def _fly(self, flights: set[asyncio.Task[None]]) -> None:
        """Raises what the first of them to fail does."""
        async for segment, number in self._chunks():
            if len(flights) >= FLIGHTS_MAX:
                await _landed(flights)
            if size := self._seen(segment, number):
                flights.add(asyncio.ensure_future(self._load(segment, number, size)))
        while flights:
            await _landed(flights)

    def _seen(self, segment: ColdSegment, number: int) -> int:
        """Its size, if it is to be loaded; 0 if it is here."""
        size = self._loader.chunk_span(segment, number).size
        self.state.bytes += size
        if not self._loader.is_kept(segment, number):
            return size
        self.state.here_bytes += size
        return 0

    def _has_room(self, segment: ColdSegment, size: int) -> bool:
        """In the budget, and in the cache beside what is on its way there."""
        wanted = size + sections_span(segment.entry).size
        is_affordable = self.state.loaded_bytes + self._flying + size <= self._bytes_max
        return is_affordable and self._taken + wanted <= self._loader.cache.free_bytes

    def _count_gets(self, segment: ColdSegment) -> int:
        """That of a chunk, and the one for the segment's index unless that is here; the size of
        the index, if it is fetched."""
        self.state.gets += 1
        if segment.index is not None or segment.key in self._indexes:
            return 0
        self._indexes.add(segment.key)
        self.state.gets += 1
        return sections_span(segment.entry).size

    async def _load(self, segment: ColdSegment, number: int, size: int) -> None:
        state = self.state
        if not self._has_room(segment, size):
            state.left_bytes += size
            return
        taken = size + self._count_gets(segment)
        self._taken += taken
        self._flying += size
        try:
            is_kept = await self._loader.prewarm(segment, number, reader=self._reader)
        finally:
            self._taken -= taken
            self._flying -= size
        if is_kept:
            state.loaded_bytes += size
        else:
            state.left_bytes += size

    async def _chunks(self) -> AsyncIterator[tuple[ColdSegment, int]]:
        for wish in self._wishes:
            at = wish.start
            while at < wish.end and (entry := await wish.prefix.entry_for(at)) is not None:
                if entry.base >= wish.end:
                    break
                segment = self._loader.segment(wish.prefix.full_key(entry.key), entry)
                span = span_of(entry, max(at, entry.base), wish.end)
                if span.size:
                    for number in plan.chunk_numbers(span, chunk_bytes=self._chunk_bytes):
                        yield segment, number
                at = entry.next_offset


async def _landed(flights: set[asyncio.Task[None]]) -> None:
    """One at least; all that landed are looked at, and those under way remain."""
    done, _ = await asyncio.wait(flights, return_when=asyncio.FIRST_COMPLETED)
    flights -= done
    await asyncio.gather(*done)
