"""Read-ahead at work: from where a reader is to the end of its window, over segment borders.

One walk for each reader at a time. It takes only room that is free, within the reader's allowance,
its client's share and the node's budget, and waits for nothing but its turn (`turns.py`) and its
own downloads. An error ends the walk; the reader meets it, or not, when it gets there.
"""

import asyncio
import logging
from typing import TYPE_CHECKING

from tierlog.env import Env
from tierlog.errors import TierlogError
from tierlog.fetchproxy import plan
from tierlog.fetchproxy.coldsegment import ColdSegment
from tierlog.fetchproxy.loader import Loader
from tierlog.fetchproxy.pieces import Piece
from tierlog.fetchproxy.port import ColdPrefix
from tierlog.fetchproxy.readahead import Stream, Streams
from tierlog.fetchproxy.settings import ProxySettings
from tierlog.fetchproxy.turns import Turns
from tierlog.objectstore.port import Span
from tierlog.types import Position

if TYPE_CHECKING:
    from tierlog.cold.entry import Entry

logger = logging.getLogger(__name__)


COUNT_S = 0.1
"""How long the number of readers counts: they are many fetches in that time."""


class Ahead:
    def __init__(self, env: Env, loader: Loader, streams: Streams, settings: ProxySettings) -> None:
        self._env = env
        self._loader = loader
        self._streams = streams
        self._chunk_bytes = settings.chunk_bytes
        self._stall_s = settings.stall_s
        self._walks: set[asyncio.Task[None]] = set()
        self._share = self._client_bytes_max = 0
        self._share_until_s = float("-inf")
        self.turns = Turns(env.clock, settings.flight_bytes_max // settings.chunk_bytes)

    def go(self, prefix: ColdPrefix, stream: Stream) -> None:
        """The reader has moved: see that its window is filled."""
        if not stream.window.size or stream.is_ahead_running:
            return
        done = (stream.key, stream.position // self._chunk_bytes, self._chunk_count(stream))
        if stream.ahead_done == done:
            return
        stream.is_ahead_running = True
        walk = self._env.tasks.spawn(self._run(prefix, stream, done), name="read ahead")
        self._walks.add(walk)
        walk.add_done_callback(self._walks.discard)

    def _chunk_count(self, stream: Stream) -> int:
        """Behind the one that is read. No reader takes more than its share of what the node may
        hold, so that all of them have their next chunk on its way, and none waits for the memory
        that another one reads ahead with."""
        now_s = self._env.clock.monotonic()
        if now_s >= self._share_until_s:
            readers, clients = self._streams.count_since(now_s - self._stall_s)
            limit = self._loader.held.limit
            self._share = limit // self._chunk_bytes // max(readers, 1)
            self._client_bytes_max = max(limit // max(clients, 1), 2 * self._chunk_bytes)
            self._share_until_s = now_s + COUNT_S
        return min(-(-stream.window.size // self._chunk_bytes), max(self._share - 1, 1))

    async def close(self) -> None:
        walks = list(self._walks)
        for walk in walks:
            walk.cancel()
        await asyncio.gather(*walks, return_exceptions=True)

    async def _run(self, prefix: ColdPrefix, stream: Stream, aim: tuple[str, int, int]) -> None:
        stream.ahead_done = None
        try:
            if await self._fill(prefix, stream, aim[2]):
                stream.ahead_done = aim
        except TierlogError as error:
            logger.debug("read-ahead of %s ends: %s", stream.path, error)
        finally:
            stream.is_ahead_running = False
            self.turns.wake()  # It may have been woken for nothing.

    async def _fill(self, prefix: ColdPrefix, stream: Stream, count: int) -> bool:
        """Whether the chunk that is read and as many bytes as `count` more have are here or on
        their way: where segments end, chunks are short."""
        entry: Entry | None = stream.entry
        key, position = stream.key, stream.position
        left = (count + 1) * self._chunk_bytes - position % self._chunk_bytes
        flights: set[asyncio.Task[Piece]] = set()
        while entry is not None:
            segment = self._loader.segment(key, entry)
            span = Span(position, Position(min(position + left, entry.data_bytes)))
            if span.size > 0:
                for number in plan.chunk_numbers(span, chunk_bytes=self._chunk_bytes):
                    if not await self._start(segment, number, stream, flights):
                        return False
            left -= entry.data_bytes - position
            if left <= 0:
                return True
            entry = await prefix.entry_for(entry.next_offset)
            position = Position(0)
            key = "" if entry is None else prefix.full_key(entry.key)
        return True

    async def _start(
        self,
        segment: ColdSegment,
        number: int,
        stream: Stream,
        flights: set[asyncio.Task[Piece]],
    ) -> bool:
        """See that a chunk is here or on its way; False if there is no room for it."""
        size = self._loader.chunk_span(segment, number).size
        while not self._loader.is_near(segment, number):
            if not self.turns.is_free:
                await self.turns.wait()
                continue
            unread = stream.reader.account.unread_bytes
            if stream.allowance.has_room(size) and unread + size <= self._client_bytes_max:
                flight = self._loader.chunk_ahead(segment, number, reader=stream.reader)
                if flight is not None:
                    stream.allowance.count(size, flight)
                    self.turns.use(flight)
                    flights.add(flight)
                    return True
            self.turns.wake()
            if not flights:
                return False
            landed, rest = await asyncio.wait(flights, return_when=asyncio.FIRST_COMPLETED)
            flights.clear()
            flights.update(rest)
            for flight in landed:
                flight.result()
        self.turns.wake()
        return True
