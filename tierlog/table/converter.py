"""Keeps the table of one partition: converts what was published, merges, expires and collects.

`chosen -> fetched -> converted -> sent -> listed`: the segments behind `converted_end` are read
from the bucket into local files, a worker makes a Parquet file of them, it is sent under a new key
and asked for, and only then does TABLE list it. Whatever ends it on the way, nothing is lost: what
was sent and is not listed is an orphan, and the next try begins at the `converted_end` of then.

Only what HEAD lists is converted. A source that is gone, or costs worker after worker, becomes dead
letters with the reason, so that the table goes on; it is looked at again once a day. A file that is
lost or not as published, as a merge or the look for orphans finds out, is made anew.
"""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING

from tierlog.cold import lookup
from tierlog.cold.head import PageRef
from tierlog.cold.refusals import name_of
from tierlog.env import WorkerLost
from tierlog.objectstore.errors import NoSuchObject
from tierlog.objectstore.port import Doomed
from tierlog.table import choosing, plans
from tierlog.table.changes import (
    Append,
    Collected,
    Expire,
    FilesChanged,
    NotNextFile,
    Replace,
    ReplaceInPage,
)
from tierlog.table.codec import GARBAGE_MAX
from tierlog.table.making import FileMaker
from tierlog.table.manifest import (
    SCHEMA_VERSION,
    SOURCES_MAX,
    Table,
    TableFile,
)
from tierlog.table.plans import MergePlan
from tierlog.types import Offset

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tierlog.cold.entry import Entry
    from tierlog.cold.head import Head
    from tierlog.cold.page import Page
    from tierlog.cold.prefix import ColdPrefix
    from tierlog.table.publisher import Change, TablePublisher
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
        self._workshop = workshop
        self._env = workshop.env
        self._maker = FileMaker(
            workshop, prefix, publisher, node_id=node_id, settings=settings, stats=stats
        )
        self._settings = settings
        self._stats = stats
        self._is_known = False
        self._suspects: dict[str, tuple[TableFile, float]] = {}
        """Files that may be lost or damaged, by key, and when they are to be looked at."""
        self._checked_ms = -settings.retry_ms
        self.last_error: str | None = None
        self.due_ms: float = 0
        """When it wants a turn, if nothing is published before."""

    @property
    def name(self) -> str:
        return name_of(self.publisher.place)

    @property
    def in_flight(self) -> frozenset[str]:
        return self._maker.in_flight

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
        suspects_ms = min((at for _, at in self._suspects.values()), default=math.inf)
        mend_ms = self._checked_ms + self._settings.retry_ms
        return min(mend_ms, suspects_ms, self.garbage_due_ms())

    def garbage_due_ms(self) -> float:
        garbage = () if self.table is None else self.table.garbage
        return min((one.not_before_ms for one in garbage), default=math.inf)

    # Converting

    async def convert(self) -> int:
        """One file. How many bytes of segments it took; 0: there was nothing to convert."""
        await self._know()
        head = self.prefix.head
        if head is None or head.next_offset <= self.converted_end:
            return 0
        run = choosing.next_run(await self._entries(head), self._settings)
        if any(one.key in self._maker.losses for one in run):
            run = run[:1]
        size = sum(one.data_bytes for one in run)
        if not await self._workshop.has_room(size):
            raise OSError(f"the table of {self.name} waits for room on the local disk")
        start = Offset(max(self.converted_end, run[0].base))
        file = await self._maker.made(run, start, run[-1].next_offset)
        await self._list(file, run, head)
        return size

    async def _know(self) -> None:
        if not self._is_known:
            await self.publisher.refresh()
            self._is_known = True

    async def _entries(self, head: Head) -> list[Entry]:
        """From `converted_end` on, as many as one file takes at most."""
        return await self._listed(head, self.converted_end, head.next_offset)

    async def _listed(
        self, head: Head, start: Offset, end: Offset, *, most: int | None = None
    ) -> list[Entry]:
        most = self._settings.convert_segments_max if most is None else most
        opened: dict[str, Page] = {}
        while True:
            found: list[Entry] = []
            for row in lookup.entries_from(head, start, opened):
                if isinstance(row, PageRef):
                    opened[row.key] = await self.prefix.page(row)
                    break
                if row.base >= end or len(found) > most:
                    return found
                found.append(row)
            else:
                return found

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
            self._maker.in_flight = frozenset()
        stats = self._stats
        stats.converted_files += 1
        stats.converted_segments += len(run)
        stats.converted_rows += file.rows
        stats.converted_bytes += sum(one.data_bytes for one in run)
        self._note_dead(file)
        for one in run:
            self._maker.losses.pop(one.key, None)

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

    # Merging

    async def merge(self) -> bool:
        """One merge of small files. Whether there was one."""
        table = self.table
        if table is None or not self._settings.merge_bytes_max:
            return False
        run = choosing.merge_run(table.files, self._settings, spared=self._suspects)
        if not run or len(table.garbage) + len(run) > GARBAGE_FILES_MAX:
            return False
        out = self._maker.path("out")
        paths = [self._maker.path(f"merge-{number}") for number in range(len(run))]
        try:
            for file, path in zip(run, paths, strict=True):
                if not await self._is_sound(file, path):
                    self.suspect(file)
                    return False
            sources = tuple(source for file in run for source in file.sources)
            about = self._maker.about(run[0].start, run[-1].end, sources)
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
            await self._replace(await self._maker.sent(made, about, out, dead), run)
        finally:
            await self._workshop.clear(out, *paths)
        self._stats.merged_files += len(run)
        return True

    async def _replace(self, file: TableFile, run: Sequence[TableFile]) -> None:
        grace_ms = self._settings.garbage_grace_ms
        change: Change = Replace(file, run, env=self._env, grace_ms=grace_ms)
        if self.table is not None and any(one.end >= file.end for one in self.table.pages):
            change = ReplaceInPage(
                file,
                run[0],
                keys=self.publisher.keys,
                store=self._workshop.store,
                env=self._env,
                grace_ms=grace_ms,
            )
        try:
            await self.publisher.commit(change)
        except FilesChanged as fault:
            self._stats.wasted_conversions += 1
            logger.info("%s: a file is not needed: %s", self.name, fault)
        finally:
            self._maker.in_flight = frozenset()

    # Converting again

    def suspect(self, file: TableFile) -> None:
        """It seems to be lost, or not as published."""
        self._suspects.setdefault(file.key, (file, 0))

    async def mend(self) -> bool:
        """A file that is lost or damaged is made anew; and once a day one whose sources were not as
        published, if they are now. Whether one was."""
        now_ms, table, head = self._env.clock.now_ms(), self.table, self.prefix.head
        if table is None or head is None:
            return False
        for file, at_ms in list(self._suspects.values()):
            if at_ms <= now_ms and await self._is_remade(file, head):
                return True
        if now_ms - self._checked_ms < self._settings.retry_ms:
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
            self._maker.losses.pop(one.key, None)
        try:
            made = await self._maker.made(entries, file.start, file.end)
        except (NoSuchObject, WorkerLost) as fault:
            logger.info("%s: [%d, %d) is still lost: %s", self.name, file.start, file.end, fault)
            return False
        if choosing.is_stale(made, entries):
            return False  # An orphan from now on: the source is as wrong as before.
        await self._replace(made, [file])
        self._note_dead(made)
        return True

    async def _is_remade(self, file: TableFile, head: Head) -> bool:
        """From the segments of its offsets, whatever borders those have by now."""
        path, now_ms = self._maker.path("out"), self._env.clock.now_ms()
        try:
            is_sound = await self._is_sound(file, path)
        finally:
            await self._workshop.clear(path)
        if is_sound or file.end <= head.log_start:
            del self._suspects[file.key]
            return False
        self._suspects[file.key] = (file, now_ms + self._settings.retry_ms)
        entries = await self._listed(head, file.start, file.end, most=SOURCES_MAX)
        if not choosing.covers(entries, Offset(max(file.start, head.log_start)), file.end):
            return False
        if not await self._workshop.has_room(sum(one.data_bytes for one in entries)):
            return False
        for one in entries:
            self._maker.losses.pop(one.key, None)
        try:
            made = await self._maker.made(entries, file.start, file.end)
        except (NoSuchObject, WorkerLost) as fault:
            logger.warning("%s: %s is not made anew: %s", self.name, file.key, fault)
            return False
        if made.dead_records > file.dead_records:
            logger.warning("%s: the sources of %s are damaged as well", self.name, file.key)
            return False
        await self._replace(made, [file])
        del self._suspects[file.key]
        self._stats.remade_files += 1
        return True

    async def _is_sound(self, file: TableFile, path: str) -> bool:
        """Whether it is as published. Leaves it at `path`."""
        key = self.publisher.keys.full(file.key)
        try:
            fetched = await self._workshop.fetch(
                key, path, size=file.size, version_id=file.version_id
            )
        except NoSuchObject:
            fetched = None
        if fetched is not None and fetched.sha256 == file.sha256:
            return True
        what = "lost" if fetched is None else "not as published"
        logger.error("%s: %s is %s", self.name, file.key, what)
        return False

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
