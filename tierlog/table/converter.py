"""Keeps the table of one partition: converts what was published, merges, expires and collects.

`chosen -> fetched -> converted -> sent -> listed`: the segments behind `converted_end` are read
from the bucket into local files, a worker makes a Parquet file of them, it is sent under a new key
and asked for, and only then does TABLE list it. Whatever ends it on the way, nothing is lost: what
was sent and is not listed is an orphan, and the next try begins at the `converted_end` of then.

Only what HEAD lists is converted. A source that is gone, or costs worker after worker, becomes dead
letters with the reason, so that the table goes on; it is looked at again once a day.
"""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING

from tierlog.cold import lookup
from tierlog.cold.head import PageRef
from tierlog.cold.refusals import name_of
from tierlog.env import WorkerLost
from tierlog.objectstore.errors import NoSuchObject
from tierlog.objectstore.port import Doomed
from tierlog.table import choosing, plans
from tierlog.table.changes import Append, Collected, Expire, FilesChanged, NotNextFile, Replace
from tierlog.table.codec import GARBAGE_MAX
from tierlog.table.keys import file_key
from tierlog.table.manifest import (
    MISSING,
    SCHEMA_VERSION,
    DeadLetters,
    Source,
    Table,
    TableFile,
)
from tierlog.table.plans import About, ConvertPlan, Made, MergePlan, Range, RawPart
from tierlog.types import Offset, TimestampMs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tierlog.cold.entry import Entry
    from tierlog.cold.head import Head
    from tierlog.cold.page import Page
    from tierlog.cold.prefix import ColdPrefix
    from tierlog.table.publisher import TablePublisher
    from tierlog.table.settings import TableSettings, TableStats
    from tierlog.table.workshop import Workshop

logger = logging.getLogger(__name__)

DELETES_MAX = 500
GARBAGE_FILES_MAX = GARBAGE_MAX // 2
"""Merging waits for collection beyond this, so that conversion never finds TABLE full."""


class PartitionConverter:
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
        self.publisher = publisher
        self.prefix = prefix
        self.in_flight: frozenset[str] = frozenset()
        """Keys that may be on their way into TABLE: no orphans."""
        self._workshop = workshop
        self._env = workshop.env
        self._node_id = node_id
        self._settings = settings
        self._stats = stats
        self._is_known = False
        self._losses: Counter[str] = Counter()
        """By the key of a source: workers that it cost, times that it was not there."""
        self._checked_ms = -settings.retry_ms
        self.last_error: str | None = None
        self.due_ms: float = 0
        """When it wants a turn, if nothing is published before."""

    @property
    def name(self) -> str:
        return name_of(self.publisher.place)

    @property
    def table(self) -> Table | None:
        return self.publisher.table

    @property
    def converted_end(self) -> Offset:
        """Where the table ends, as far as it is known; at the log's start while there is none."""
        start = self.prefix.log_start
        return start if self.table is None else max(self.table.converted_end, start)

    @property
    def has_work(self) -> bool:
        """Whether something was published that is not converted, as far as is known."""
        return self.prefix.uploaded_end > self.converted_end or not self._is_known

    def time_due_ms(self) -> float:
        """When time alone brings something to do: garbage, or sources to look at again."""
        garbage = () if self.table is None else self.table.garbage
        mend_ms = self._checked_ms + self._settings.retry_ms
        return min([mend_ms, *(one.not_before_ms for one in garbage)])

    # Converting

    async def convert(self) -> int:
        """One file. How many bytes of segments it took; 0: there was nothing to convert."""
        await self._know()
        head = self.prefix.head
        if head is None or head.next_offset <= self.converted_end:
            return 0
        run = choosing.next_run(await self._entries(head), self._settings)
        if any(one.key in self._losses for one in run):
            run = run[:1]
        size = sum(one.data_bytes for one in run)
        if not await self._workshop.has_room(size):
            raise OSError(f"the table of {self.name} waits for room on the local disk")
        start = Offset(max(self.converted_end, run[0].base))
        file = await self._made(run, start)
        await self._list(file, run, head)
        return size

    async def _know(self) -> None:
        if not self._is_known:
            await self.publisher.refresh()
            self._is_known = True

    async def _entries(self, head: Head) -> list[Entry]:
        """From `converted_end` on, as many as one file takes at most."""
        return await self._listed(head, self.converted_end, head.next_offset)

    async def _listed(self, head: Head, start: Offset, end: Offset) -> list[Entry]:
        opened: dict[str, Page] = {}
        while True:
            found: list[Entry] = []
            for row in lookup.entries_from(head, start, opened):
                if isinstance(row, PageRef):
                    opened[row.key] = await self.prefix.page(row)
                    break
                if row.base >= end or len(found) > self._settings.convert_segments_max:
                    return found
                found.append(row)
            else:
                return found

    async def _made(self, run: Sequence[Entry], start: Offset) -> TableFile:
        """Sent, and answered for by the store."""
        out = self._path("out")
        parts: list[RawPart] = []
        try:
            sources = []
            for number, entry in enumerate(run):
                part, source = await self._fetched(entry, number, start)
                parts.append(part)
                sources.append(source)
            about = self._about(start, run[-1].next_offset, tuple(sources))
            plan = ConvertPlan(parts=tuple(parts), out=out, about=about)
            made = await self._worked(plan, run)
            return await self._sent(made, about, out)
        finally:
            await self._workshop.clear(out, *(one.path for one in parts))

    async def _worked(self, plan: ConvertPlan, run: Sequence[Entry]) -> Made:
        size = sum(one.data_bytes for one in run)
        try:
            return await self._workshop.done(plans.convert_local, plans.convert, plan, size=size)
        except WorkerLost:
            # Of several nobody knows which it was: from now on each goes alone.
            self._stats.lost_workers += 1
            self._losses.update(one.key for one in run)
            raise

    async def _fetched(self, entry: Entry, number: int, start: Offset) -> tuple[RawPart, Source]:
        wanted = Range(
            topic=self.publisher.place.topic,
            partition=self.publisher.place.partition,
            start=max(start, entry.base),
            end=entry.next_offset,
            base=entry.base,
            next_offset=entry.next_offset,
            samples=entry.samples,
        )
        part = RawPart(
            path=self._path(str(number)),
            size=entry.data_bytes,
            source=entry.key,
            wanted=wanted,
            records=entry.records,
        )
        losses = self._losses.get(entry.key, 0)
        if losses >= self._settings.losses_max:
            why = f"it could not be read, or cost a worker, {losses} times"
            return replace(part, missing=why), Source(entry.key, MISSING)
        try:
            fetched = await self._workshop.fetch(
                self.prefix.full_key(entry.key),
                part.path,
                size=entry.size,
                version_id=entry.version_id,
            )
        except NoSuchObject:
            self._losses[entry.key] += 1
            await self.prefix.renew()  # It may have been merged into another one.
            raise
        return part, Source(entry.key, fetched.sha256)

    def _about(self, start: Offset, end: Offset, sources: tuple[Source, ...]) -> About:
        place = self.publisher.place
        return About(
            topic=place.topic,
            topic_id=place.topic_id,
            partition=place.partition,
            start=start,
            end=end,
            sources=sources,
        )

    async def _sent(
        self, made: Made, about: About, path: str, dead: tuple[DeadLetters, ...] = ()
    ) -> TableFile:
        start, end = Offset(about.start), Offset(about.end)
        if made.dead:
            dead = (*dead, await self._bury(made, start, end))
        file = TableFile(
            key=self._new_key(start, end),
            size=made.size,
            sha256=made.sha256,
            crc32c=made.crc32c,
            start=start,
            end=end,
            rows=made.rows,
            row_groups=made.row_groups,
            plain_bytes=made.plain_bytes,
            min_timestamp=TimestampMs(made.min_timestamp),
            max_timestamp=TimestampMs(made.max_timestamp),
            control_records=made.control_records,
            dead=dead,
            sources=about.sources,
        )
        self.in_flight = frozenset(file.keys)
        version_id = await self._workshop.send(self.publisher.keys, file, path)
        self._stats.written_bytes += file.size
        return replace(file, version_id=version_id)

    async def _bury(self, made: Made, start: Offset, end: Offset) -> DeadLetters:
        key = self._new_key(start, end, is_dead=True)
        self.in_flight = frozenset((key,))
        await self._workshop.send_small(self.publisher.keys.full(key), made.dead)
        return DeadLetters(
            key, len(made.dead), sha256(made.dead).hexdigest(), made.dead_batches, made.dead_records
        )

    async def _list(self, file: TableFile, run: Sequence[Entry], head: Head) -> None:
        change = Append(
            file,
            publisher=self.publisher,
            store=self._workshop.store,
            env=self._env,
            head_version=head.version,
            grace_ms=self._settings.garbage_grace_ms,
            schema=SCHEMA_VERSION,
        )
        try:
            await self.publisher.commit(change)
        except NotNextFile as fault:
            self._stats.wasted_conversions += 1
            logger.info("%s: a converted file is not needed: %s", self.name, fault)
            return
        finally:
            self.in_flight = frozenset()
        stats = self._stats
        stats.converted_files += 1
        stats.converted_segments += len(run)
        stats.converted_rows += file.rows
        stats.converted_bytes += sum(one.data_bytes for one in run)
        self._note_dead(file)
        for one in run:
            self._losses.pop(one.key, None)

    def _note_dead(self, file: TableFile) -> None:
        if file.dead:
            self._stats.dead_records += file.dead_records
            self._stats.dead_batches += sum(one.batches for one in file.dead)
            logger.warning(
                "%s: %d records of [%d, %d) could not be converted, the reasons are in %s",
                self.name,
                file.dead_records,
                file.start,
                file.end,
                file.dead[-1].key,
            )

    def _new_key(self, start: Offset, end: Offset, *, is_dead: bool = False) -> str:
        return file_key(
            start=start,
            end=end,
            leader_epoch=self.publisher.writer.leader_epoch,
            node=self._node_id,
            attempt=int.from_bytes(self._env.rng.randbytes(8)),
            is_dead=is_dead,
        )

    def _path(self, name: str) -> str:
        place = self.publisher.place
        return self._workshop.path(f"{place.topic_id}-{place.partition}-{name}")

    # Merging

    async def merge(self) -> bool:
        """One merge of small files. Whether there was one."""
        table = self.table
        if table is None or not self._settings.merge_bytes_max:
            return False
        run = choosing.merge_run(table.files, self._settings)
        if not run or len(table.garbage) + len(run) > GARBAGE_FILES_MAX:
            return False
        out = self._path("out")
        paths = [self._path(f"merge-{number}") for number in range(len(run))]
        try:
            for file, path in zip(run, paths, strict=True):
                key = self.publisher.keys.full(file.key)
                fetched = await self._workshop.fetch(
                    key, path, size=file.size, version_id=file.version_id
                )
                if fetched.sha256 != file.sha256:
                    logger.error("%s: %s is not as published, and not merged", self.name, file.key)
                    return False
            sources = tuple(source for file in run for source in file.sources)
            about = self._about(run[0].start, run[-1].end, sources)
            plan = MergePlan(
                paths=tuple(paths),
                out=out,
                about=about,
                control_records=sum(one.control_records for one in run),
                dead_records=sum(one.dead_records for one in run),
            )
            made = await self._workshop.done(
                plans.merge_local, plans.merge, plan, size=sum(one.size for one in run)
            )
            dead = tuple(letters for one in run for letters in one.dead)
            await self._replace(await self._sent(made, about, out, dead), run)
        finally:
            await self._workshop.clear(out, *paths)
        self._stats.merged_files += len(run)
        return True

    async def _replace(self, file: TableFile, run: Sequence[TableFile]) -> None:
        grace_ms = self._settings.garbage_grace_ms
        try:
            await self.publisher.commit(Replace(file, run, env=self._env, grace_ms=grace_ms))
        except FilesChanged as fault:
            self._stats.wasted_conversions += 1
            logger.info("%s: a file is not needed: %s", self.name, fault)
        finally:
            self.in_flight = frozenset()

    # Converting again

    async def mend(self) -> bool:
        """Once a day: a file whose sources were not as published is made again, if they are now.
        Whether one was."""
        now_ms, table, head = self._env.clock.now_ms(), self.table, self.prefix.head
        if table is None or head is None or now_ms - self._checked_ms < self._settings.retry_ms:
            return False
        for file in table.files:
            if file.start < head.log_start:
                continue
            entries = await self._listed(head, file.start, file.end)
            if choosing.is_stale(file, entries) and await self._is_mended(file, entries):
                return True
        self._checked_ms = now_ms
        return False

    async def _is_mended(self, file: TableFile, entries: Sequence[Entry]) -> bool:
        is_same = entries and (entries[0].base, entries[-1].next_offset) == (file.start, file.end)
        if not is_same or len(entries) > self._settings.convert_segments_max:
            return False
        for one in entries:
            self._losses.pop(one.key, None)
        try:
            made = await self._made(entries, file.start)
        except (NoSuchObject, WorkerLost) as fault:
            logger.info("%s: [%d, %d) is still lost: %s", self.name, file.start, file.end, fault)
            return False
        if choosing.is_stale(made, entries):
            return False  # An orphan from now on: the source is as wrong as before.
        await self._replace(made, [file])
        self._note_dead(made)
        return True

    # Leaving

    async def expire(self) -> bool:
        """What lies below the log's start leaves the table. Whether something did."""
        table, start = self.table, self.prefix.log_start
        if table is None or table.table_start >= start:
            return False
        version, files = table.version, len(table.files)
        change = Expire(
            start,
            keys=self.publisher.keys,
            store=self._workshop.store,
            env=self._env,
            grace_ms=self._settings.garbage_grace_ms,
        )
        left = await self.publisher.commit(change)
        assert left is not None, "there was one"
        self._stats.expired_files += max(files - len(left.files), 0)
        return left.version > version

    async def collect(self) -> bool:
        """Delete what has been garbage for its grace. Whether something went."""
        now_ms, table = self._env.clock.now_ms(), self.table
        if table is None or all(one.not_before_ms > now_ms for one in table.garbage):
            return False
        # Again from the store: what a newer leader or a restore wrote ends this one here.
        table = await self.publisher.refresh()
        if table is None:
            return False
        due = [one for one in table.garbage if one.not_before_ms <= now_ms][:DELETES_MAX]
        doomed = [Doomed(self.publisher.keys.full(one.key), one.version_id) for one in due]
        failed = {key for key, _ in await self._workshop.store.delete(doomed)} if doomed else set()
        gone = [one for one in due if self.publisher.keys.full(one.key) not in failed]
        await self.publisher.commit(Collected([one.key for one in gone]))
        self._stats.collected_objects += len(gone)
        self._stats.collected_bytes += sum(one.size for one in gone)
        return bool(gone)
