"""Makes the files of a table: segments from the bucket, through a worker, into the bucket again.

What it sent and nobody listed is an orphan. A source that was not there, or cost worker after
worker, is given up after a few times: its records are dead letters with the reason.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from tierlog.env import WorkerLost
from tierlog.objectstore.errors import NoSuchObject
from tierlog.table import plans
from tierlog.table.keys import file_key
from tierlog.table.manifest import MISSING, Source
from tierlog.table.plans import About, ConvertPlan, Made, Range, RawPart
from tierlog.types import Offset

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tierlog.cold.entry import Entry
    from tierlog.cold.prefix import ColdPrefix
    from tierlog.table.manifest import DeadLetters, TableFile
    from tierlog.table.publisher import TablePublisher
    from tierlog.table.settings import TableSettings, TableStats
    from tierlog.table.workshop import Workshop


class FileMaker:
    def __init__(
        self,
        workshop: Workshop,
        prefix: ColdPrefix,
        publisher: TablePublisher,
        *,
        node_id: int,
        settings: TableSettings,
        stats: TableStats,
    ) -> None:
        self.in_flight: frozenset[str] = frozenset()
        """Keys that may be on their way into TABLE: no orphans."""
        self.losses: Counter[str] = Counter()
        """By the key of a source: workers that it cost, times that it was not there."""
        self._workshop = workshop
        self._env = workshop.env
        self._prefix = prefix
        self._publisher = publisher
        self._node_id = node_id
        self._settings = settings
        self._stats = stats

    async def made(self, run: Sequence[Entry], start: Offset, end: Offset) -> TableFile:
        """Of `[start, end)`: sent, and answered for by the store."""
        out, dead_out = self.path("out"), self.path("dead")
        parts: list[RawPart] = []
        try:
            sources = []
            for number, entry in enumerate(run):
                part, source = await self._fetched(entry, number, start, end)
                parts.append(part)
                sources.append(source)
            about = self.about(start, end, tuple(sources))
            plan = ConvertPlan(parts=tuple(parts), out=out, dead_out=dead_out, about=about)
            made = await self._worked(plan, run)
            return await self.sent(made, about, out)
        finally:
            await self._workshop.clear(out, dead_out, *(one.path for one in parts))

    async def _worked(self, plan: ConvertPlan, run: Sequence[Entry]) -> Made:
        size = sum(one.data_bytes for one in run)
        try:
            return await self._workshop.done(plans.convert_local, plans.convert, plan, size=size)
        except WorkerLost:
            # Of several nobody knows which it was: from now on each goes alone.
            self._stats.lost_workers += 1
            self.losses.update(one.key for one in run)
            raise

    async def _fetched(
        self, entry: Entry, number: int, start: Offset, end: Offset
    ) -> tuple[RawPart, Source]:
        wanted = Range(
            topic=self._publisher.place.topic,
            partition=self._publisher.place.partition,
            start=max(start, entry.base),
            end=min(end, entry.next_offset),
            base=entry.base,
            next_offset=entry.next_offset,
            samples=entry.samples,
            size=entry.data_bytes,
        )
        part = RawPart(
            path=self.path(str(number)),
            size=entry.data_bytes,
            source=entry.key,
            wanted=wanted,
            records=entry.records,
        )
        losses = self.losses.get(entry.key, 0)
        if losses >= self._settings.losses_max:
            why = f"it could not be read, or cost a worker, {losses} times"
            return replace(part, missing=why), Source(entry.key, MISSING)
        try:
            fetched = await self._workshop.fetch(
                self._prefix.full_key(entry.key),
                part.path,
                size=entry.size,
                version_id=entry.version_id,
            )
        except NoSuchObject:
            self.losses[entry.key] += 1
            await self._prefix.renew()  # It may have been merged into another one.
            raise
        return part, Source(entry.key, fetched.sha256)

    def about(self, start: Offset, end: Offset, sources: tuple[Source, ...]) -> About:
        place = self._publisher.place
        return About(
            topic=place.topic,
            topic_id=place.topic_id,
            partition=place.partition,
            start=start,
            end=end,
            sources=sources,
        )

    async def sent(
        self, made: Made, about: About, path: str, dead: tuple[DeadLetters, ...] = ()
    ) -> TableFile:
        start, end = Offset(about.start), Offset(about.end)
        if made.dead is not None:
            key = self._new_key(start, end, is_dead=True)
            self.in_flight = frozenset((key,))
            path_of_dead = self.path("dead")
            buried = await self._workshop.bury(self._publisher.keys, key, made.dead, path_of_dead)
            dead = (*dead, buried)
        file = made.as_listed(self._new_key(start, end), about, dead)
        self.in_flight = frozenset(file.keys)
        version_id = await self._workshop.send(self._publisher.keys, file, path)
        self._stats.written_bytes += file.size
        return replace(file, version_id=version_id)

    def _new_key(self, start: Offset, end: Offset, *, is_dead: bool = False) -> str:
        return file_key(
            start=start,
            end=end,
            leader_epoch=self._publisher.writer.leader_epoch,
            node=self._node_id,
            attempt=int.from_bytes(self._env.rng.randbytes(8)),
            is_dead=is_dead,
        )

    def path(self, name: str) -> str:
        place = self._publisher.place
        return self._workshop.path(f"{place.topic_id}-{place.partition}-{name}")
