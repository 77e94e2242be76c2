"""Questions about time, answered from the manifest, a segment's time index and the batches there.

The first record at or after a time costs one round trip for the index and one for the blocks where
it points; only headers that promise what their records do not hold make it longer. Records are
looked through by threads where that takes time, one batch at once, so that no search keeps the
syncs of the active edge waiting.
"""

import asyncio
from collections.abc import AsyncIterator
from functools import partial

from tierlog.env import Env
from tierlog.fetchproxy.batches import Walk, find_batch, off_loop
from tierlog.fetchproxy.clients import Reader
from tierlog.fetchproxy.coldsegment import ColdSegment
from tierlog.fetchproxy.flights import Allowance
from tierlog.fetchproxy.loader import Loader
from tierlog.fetchproxy.pieces import Run
from tierlog.fetchproxy.port import ColdPrefix
from tierlog.fetchproxy.runs import Runs
from tierlog.fetchproxy.settings import ProxySettings
from tierlog.hot.bytime import Found, Question, first_at_time
from tierlog.records.header import BatchHeader
from tierlog.records.timestamps import max_timestamp_record
from tierlog.types import Bytes, Offset, Position, TimestampMs

HEADERS_A_STEP = 1000
"""Some milliseconds; then others have their turn."""


class TimeSearch:
    def __init__(
        self, env: Env, loader: Loader, runs: Runs, settings: ProxySettings, reader: Reader
    ) -> None:
        """`reader` is who all searches are counted for."""
        self._env = env
        self._loader = loader
        self._runs = runs
        self._settings = settings
        self._turn = asyncio.Semaphore(1)
        self._reader = reader

    async def first(
        self, prefix: ColdPrefix, timestamp: TimestampMs, *, start: Offset
    ) -> Found | None:
        while (entry := await prefix.entry_by_time(timestamp, start=start)) is not None:
            segment = self._loader.segment(prefix.full_key(entry.key), entry)
            found = await self._first_in(segment, timestamp, max(start, entry.base))
            if found is not None:
                return found
            start = entry.next_offset
        return None

    async def _first_in(
        self, segment: ColdSegment, timestamp: TimestampMs, start: Offset
    ) -> Found | None:
        index = await self._loader.index_of(segment, self._reader)
        near = index.before_time(timestamp)
        offset = start if near is None else max(start, Offset(near.last_offset + 1))
        async for _, batch in self._batches(segment, offset, timestamp):
            found = await self._answer(first_at_time(batch, timestamp, start))
            if found is not None:
                return found
        return None

    async def latest(self, prefix: ColdPrefix, *, start: Offset) -> Found | None:
        best: Found | None = None
        while (entry := await prefix.entry_latest(start=start)) is not None:
            if entry.max_timestamp < (0 if best is None else best[1] + 1):
                break  # Of several the first counts, and that one comes before this segment.
            segment = self._loader.segment(prefix.full_key(entry.key), entry)
            found = await self._latest_in(segment, max(start, entry.base))
            if found is not None and (best is None or found[1] > best[1]):
                best = found
            if found is not None and found[1] == entry.max_timestamp:
                break  # Nothing behind it is larger.
            start = entry.next_offset  # The log start took the largest of this segment away.
        return best

    async def _latest_in(self, segment: ColdSegment, start: Offset) -> Found | None:
        entry = segment.entry
        if start <= entry.max_timestamp_offset:
            found = await self._latest_of(segment, entry.max_timestamp_offset, start)
            if found is not None and found[1] == entry.max_timestamp:
                return found
        best: Found | None = None
        async for header, batch in self._batches(segment, start, TimestampMs(0)):
            if best is None or header.max_timestamp > best[1]:
                found = await self._answer(_latest_question(batch, start))
                if found is not None and (best is None or found[1] > best[1]):
                    best = found
        return best

    async def _latest_of(self, segment: ColdSegment, offset: Offset, start: Offset) -> Found | None:
        async for _, batch in self._batches(segment, offset, TimestampMs(0)):
            return await self._answer(_latest_question(batch, start))
        return None

    async def _batches(
        self, segment: ColdSegment, offset: Offset, timestamp: TimestampMs
    ) -> AsyncIterator[tuple[BatchHeader, Bytes]]:
        """Batches from the one that holds `offset` on whose headers promise a record at `timestamp`
        or later."""
        entry = segment.entry
        lead_bytes = self._settings.lead_bytes or self._settings.chunk_bytes
        while offset <= entry.last:
            _, place, run = await self._runs.first(
                segment,
                offset,
                self._reader,
                bytes_max=lead_bytes,
                allowance=Allowance(lead_bytes),
            )
            walk = Walk(segment.key, run)
            find = partial(find_batch, walk, place, offset, base=entry.base)
            position, first = await off_loop(self._env.tasks, walk, find)
            header: BatchHeader | None = first
            count = 0
            while header is not None and position + header.size_bytes <= run.end:
                if header.max_timestamp >= timestamp:
                    yield header, await self._pread(run, header.size_bytes, position)
                offset = header.next_offset
                position = Position(position + header.size_bytes)
                header = None
                if position < run.end:
                    following = partial(walk.following, position, offset)
                    header = await off_loop(self._env.tasks, walk, following)
                count += 1
                if count % HEADERS_A_STEP == 0:
                    await asyncio.sleep(0)

    async def _pread(self, run: Run, size: int, position: Position) -> Bytes:
        if run.is_cached(size, position):
            return run.pread(size, position)
        return await self._env.tasks.in_thread(run.pread, size, position)

    async def _answer(self, question: Question) -> Found | None:
        if question.is_small:
            return question.answer()
        async with self._turn:
            return await asyncio.shield(self._env.tasks.in_thread(question.answer))


def _latest_question(batch: Bytes, start: Offset) -> Question:
    return Question(batch, partial(max_timestamp_record, from_offset=start), start)
