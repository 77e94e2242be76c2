"""The pieces that a read needs, from wherever they are quickest to be had.

A reader that comes for the first time gets its first blocks alone: it waits for a MiB, not for a
chunk, and a look at one record costs no more than that. While the index is still unknown, the
blocks are guessed from the manifest's samples and fetched beside it: one round trip if the guess is
right, two otherwise. A reader that comes back gets chunks, which are cached.
"""

import asyncio

from tierlog.fetchproxy import plan
from tierlog.fetchproxy.clients import Reader
from tierlog.fetchproxy.coldsegment import ColdSegment
from tierlog.fetchproxy.flights import Allowance
from tierlog.fetchproxy.loader import Loader
from tierlog.fetchproxy.pieces import Piece, Run
from tierlog.fetchproxy.plan import Place
from tierlog.fetchproxy.segmentindex import SegmentIndex
from tierlog.fetchproxy.settings import ProxySettings
from tierlog.objectstore.port import Span
from tierlog.types import Offset


class Runs:
    def __init__(self, loader: Loader, settings: ProxySettings) -> None:
        self._loader = loader
        self._settings = settings

    def now(self, segment: ColdSegment, place: Place) -> Run | None:
        """All of the place, if that takes no waiting."""
        pieces = []
        for number in self._numbers(Span(place.low, place.high)):
            piece = self._loader.chunk_now(segment, number)
            if piece is None:
                held = self._loader.held.find(segment.key, place.low, place.high)
                return None if held is None else Run([held])
            pieces.append(piece)
        return Run(pieces)

    async def first(
        self,
        segment: ColdSegment,
        offset: Offset,
        reader: Reader,
        *,
        bytes_max: int,
        allowance: Allowance,
    ) -> tuple[SegmentIndex, Place, Run]:
        """For a reader that may never come back."""
        guess = self._guess(segment, offset, reader, allowance) if segment.index is None else None
        index, place = await self.locate(segment, offset, reader)
        if guess is not None and _covers(guess[0], place):
            return index, place, Run([await asyncio.shield(guess[1])])
        if (run := self.now(segment, place)) is not None:
            return index, place, run
        span = self._lead_span(segment, place, bytes_max)
        if span is None or self._is_near(segment, Span(place.low, place.high)):
            return index, place, await self.chunks(segment, place, reader, allowance=allowance)
        flight = self._loader.lead(segment, span, reader)
        allowance.count(span.size, flight)
        return index, place, Run([await asyncio.shield(flight)])

    async def locate(
        self, segment: ColdSegment, offset: Offset, reader: Reader
    ) -> tuple[SegmentIndex, Place]:
        index = await self._loader.index_of(segment, reader)
        return index, plan.place_of(index, offset, data_bytes=segment.entry.data_bytes)

    async def chunks(
        self, segment: ColdSegment, place: Place, reader: Reader, *, allowance: Allowance
    ) -> Run:
        """The chunks of the place, all of them at once."""
        return await wait_for_pieces(self.fetch(segment, place, reader, allowance=allowance))

    def fetch(
        self, segment: ColdSegment, place: Place, reader: Reader, *, allowance: Allowance
    ) -> list[asyncio.Task[Piece] | Piece]:
        found: list[asyncio.Task[Piece] | Piece] = []
        for number in self._numbers(Span(place.low, place.high)):
            piece = self._loader.chunk_now(segment, number)
            if piece is None:
                flight = self._loader.chunk(segment, number, reader=reader)
                allowance.count(self._loader.chunk_span(segment, number).size, flight)
                found.append(flight)
            else:
                found.append(piece)
        return found

    def is_near(self, segment: ColdSegment, place: Place) -> bool:
        """Whether all of it is here or on its way."""
        is_near = self._is_near(segment, Span(place.low, place.high))
        return is_near or self.now(segment, place) is not None

    def _guess(
        self, segment: ColdSegment, offset: Offset, reader: Reader, allowance: Allowance
    ) -> tuple[Span, asyncio.Task[Piece]] | None:
        """Fetched while the index is."""
        span = plan.guess_span(segment.entry, offset, block_bytes=self._settings.block_bytes)
        if self._is_near(segment, span):
            return None
        if not self._is_worth_it(segment, span):
            numbers = self._numbers(span)
            if len(numbers) > 1:
                return None
            flight = self._loader.chunk(segment, numbers[0], reader=reader)
            span = self._loader.chunk_span(segment, numbers[0])
        else:
            flight = self._loader.lead(segment, span, reader)
        allowance.count(span.size, flight)
        return span, flight

    def _lead_span(self, segment: ColdSegment, place: Place, bytes_max: int) -> Span | None:
        settings = self._settings
        span = plan.lead_span(
            place,
            bytes_max=bytes_max,
            lead_bytes=settings.lead_bytes,
            block_bytes=settings.block_bytes,
            data_bytes=segment.entry.data_bytes,
        )
        return span if self._is_worth_it(segment, span) else None

    def _is_worth_it(self, segment: ColdSegment, span: Span) -> bool:
        """Whether blocks alone are much less than their chunks, which would be kept."""
        if not self._settings.lead_bytes:
            return False
        numbers = self._numbers(span)
        whole = sum(self._loader.chunk_span(segment, number).size for number in numbers)
        return 2 * span.size <= whole

    def _is_near(self, segment: ColdSegment, span: Span) -> bool:
        return all(self._loader.is_near(segment, number) for number in self._numbers(span))

    def _numbers(self, span: Span) -> range:
        return plan.chunk_numbers(span, chunk_bytes=self._settings.chunk_bytes)


async def wait_for_pieces(found: list[asyncio.Task[Piece] | Piece]) -> Run:
    """Who waits may go away; what is on its way comes in all the same."""
    return Run(
        [await asyncio.shield(one) if isinstance(one, asyncio.Task) else one for one in found]
    )


def _covers(span: Span, place: Place) -> bool:
    return span.start <= place.low and place.high <= span.end
