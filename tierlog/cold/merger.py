"""Merges a partition's small cold segments into larger objects, when there is nothing else to do.

`found -> gathered -> sent -> listed`: a run of neighbours is chosen (`merging`), read and made into
one object (`gathering`), sent and asked for as an upload is, and listed in HEAD in their place, by
an explicit link of the chain (`changes.Replace`). The old objects are garbage from that commit on,
and go once their grace is over: until then readers of an older HEAD find them.

Only what has left the local disk is merged. Before that the object can be put back byte for byte
from the local segment, should the store lose it; and the local copy serves the readers anyway.

Whatever ends it, nothing is lost: an object that was sent and not listed is kept in mind and listed
the next time, or it is an orphan. Where the run changed meanwhile, by retention or DeleteRecords,
the merge is given up.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf

from tierlog.cold import merging, sending, shedding
from tierlog.cold.cell import pause
from tierlog.cold.changes import Replace
from tierlog.cold.entry import Entry
from tierlog.cold.errors import ColdCorrupt, InvariantBroken
from tierlog.cold.gathering import Gathered, Gatherer, SourceUnsound
from tierlog.cold.head import Head
from tierlog.cold.layout import segment_key
from tierlog.cold.mergesearch import Search
from tierlog.cold.merging import Wanted
from tierlog.cold.pagecache import PageCache
from tierlog.cold.refusals import RunChanged
from tierlog.cold.staging import Label, Staged
from tierlog.cold.tiersettings import TierSettings, TopicTiering
from tierlog.cold.tierstats import TierStats
from tierlog.cold.uploader import SENDS_MAX, PartitionUploader
from tierlog.env import Disk, Env
from tierlog.objectstore.errors import NoSuchObject, StoreUnavailable
from tierlog.objectstore.port import ObjectStore
from tierlog.types import Offset

logger = logging.getLogger(__name__)

GARBAGE_SEGMENTS_MAX = 224
"""Merged segments in HEAD's garbage, some 70 bytes each; expired ones are counted apart. More wait
until the first are deleted: 224 a day, of a partition that has a backlog of small ones."""
FREE_SHARE = 4
"""A merge takes a quarter of the free disk at most."""
SUFFIX = ".merge"


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """An object that the store answers for and no HEAD lists yet."""

    entry: Entry
    run: tuple[Entry, ...]
    """What it stands in place of."""
    sources: tuple[Entry, ...]
    """The same as it was uploaded: of a merged one, those that it replaced itself."""


class Merger:
    """Implements `Chore`, for one partition."""

    def __init__(
        self,
        env: Env,
        store: ObjectStore,
        uploader: PartitionUploader,
        pages: PageCache,
        *,
        directory: str,
        node_id: int,
        settings: TierSettings,
        tiering: TopicTiering,
        stats: TierStats,
        is_idle: Callable[[], bool],
    ) -> None:
        """`directory` is for the file that a merge takes meanwhile; `is_idle` says whether nobody
        on the node waits for an upload."""
        self._env = env
        self._store = store
        self._uploader = uploader
        self._publisher = uploader.publisher
        self._prefix = uploader.prefix
        self._node_id = node_id
        self._settings = settings
        self._tiering = tiering
        self._stats = stats
        self._is_idle = is_idle
        self._directory = directory
        self._keys = uploader.publisher.keys
        place = uploader.publisher.place
        path = f"{directory}/{place.topic_id}-{place.partition}{SUFFIX}"
        self._sent: Merged | None = None
        self._gatherer = Gatherer(env, store, self._keys, path)
        self._search = Search(pages, self._keys)
        self._refused: set[str] = set()
        """Objects that turned out not to be what was published: they are the scrubber's to tell."""
        self.due_from_ms: float = inf
        self._prefix.watch(self._head_changed)
        self._head_changed()

    # When

    def reconfigure(self, tiering: TopicTiering) -> None:
        self._tiering = tiering
        self._head_changed()

    def clock_set_back(self) -> None:
        if self.due_from_ms < inf:
            self._look_again(soon=False)

    def _head_changed(self) -> None:
        """Another HEAD is known: there may be something to merge in a while."""
        if self.due_from_ms == inf:
            self._look_again(soon=False)

    def _look_again(self, *, soon: bool) -> None:
        """If that is worth while."""
        head, now_ms = self._prefix.head, self._env.clock.now_ms()
        is_worth = head is not None and self._search.is_worth(head, self._wanted(head))
        pause_ms = 0 if soon else self._settings.merge_interval_ms
        self.due_from_ms = now_ms + pause_ms if is_worth or self._sent is not None else inf

    def _wanted(self, head: Head) -> Wanted:
        tiering, log = self._tiering, self._uploader.log
        garbage = shedding.garbage_segments(head, merged=True)
        target = merging.target_of(
            self._settings.merge_bytes_max,
            segment_bytes=log.settings.segment_bytes,
            retention_bytes=tiering.retention_bytes,
        )
        return Wanted(
            target_bytes=target if tiering.copies else 0,
            start=head.log_start,
            end=min(log.log_start, head.next_offset),
            segments_max=max(GARBAGE_SEGMENTS_MAX - garbage, 0),
            span_ms_max=merging.span_of(tiering.retention_ms),
            holds=head.holds,
            refused=self._refused,
        )

    # A turn

    async def run(self) -> None:
        """One merge, or one look for one."""
        self.due_from_ms = self._env.clock.now_ms() + self._settings.merge_interval_ms
        if self._uploader.has_work() or not self._is_idle():
            return
        head = await self._publisher.claim()
        self._prefix.adopt(head)
        refusals = self._stats.merge_refusals
        is_found = await self._merge(head)
        is_more = is_found or self._search.has_more(head, self._wanted(head))
        self._look_again(soon=is_more and refusals == self._stats.merge_refusals)

    async def _merge(self, head: Head) -> bool:
        """Whether there was something to merge."""
        if self._sent is None:
            run = await self._found(head)
            if not run or not await self._env.tasks.in_thread(self._has_room, run):
                return False
            self._remember(await self._made(run))
        if self._sent is not None:
            await self._list(self._sent)
        return True

    async def _found(self, head: Head) -> tuple[Entry, ...]:
        try:
            return await self._search.find(head, self._wanted(head))
        except (ColdCorrupt, NoSuchObject) as fault:
            self._give_up(fault)  # A page that cannot be read. It is looked for again in a while.
            return ()

    def _has_room(self, run: tuple[Entry, ...]) -> bool:
        disk: Disk = self._env.disk
        needed = sum(one.data_bytes for one in run)
        return needed * FREE_SHARE <= disk.free_bytes(self._directory)

    async def _made(self, run: tuple[Entry, ...]) -> Merged | None:
        """Sent and verified. None: it cannot be made of these."""
        try:
            gathered = await self._gatherer.gather(run)
            staged = await self._stage(run, gathered)
            entry = await self._send(staged)
        except SourceUnsound as fault:
            self._give_up(fault, fault.key)
            return None
        finally:
            await self._gatherer.clear()
        return Merged(entry=entry, run=run, sources=gathered.entries)

    def _remember(self, merged: Merged | None) -> None:
        """What was sent is not taken for an orphan while it may still be listed."""
        self._sent = merged
        keys = () if merged is None else (merged.entry.key,)
        self._uploader.merged_in_flight = frozenset(keys)

    def _give_up(self, fault: Exception, *keys: str) -> None:
        """Of what is wrong with segments others tell, too: the scrubber, and their readers."""
        self._stats.merge_refusals += 1
        self._refused.update(keys)
        logger.error("%s: small segments are not merged: %s", self._uploader.name, fault)

    async def _stage(self, run: tuple[Entry, ...], gathered: Gathered) -> Staged:
        place = self._publisher.place
        is_parted = gathered.size > self._settings.single_put_bytes_max
        return await self._gatherer.stage(
            run,
            gathered,
            Label(topic=place.topic, topic_id=place.topic_id, partition=place.partition),
            key=self._new_key(run[0].base, run[-1].last),
            part_bytes=self._settings.part_bytes if is_parted else 0,
        )

    async def _send(self, staged: Staged) -> Entry:
        for attempt in range(SENDS_MAX):
            try:
                return await self._send_once(staged)
            except StoreUnavailable:
                if attempt == SENDS_MAX - 1:
                    raise
                await pause(self._env.rng, attempt)
        raise AssertionError("every attempt returns or raises")

    async def _send_once(self, staged: Staged) -> Entry:
        entry = replace(staged.entry, key=self._new_key(staged.entry.base, staged.entry.last))
        key = self._keys.full(entry.key)
        await sending.send(self._store, key, staged)
        name = self._uploader.name
        stat = await sending.landed(self._store, key, entry, self._env.tasks, of=name)
        return replace(entry, version_id=stat.version_id)

    def _new_key(self, base: Offset, last: Offset) -> str:
        return segment_key(
            base=base,
            last=last,
            leader_epoch=self._publisher.writer.leader_epoch,
            node=self._node_id,
            attempt=int.from_bytes(self._env.rng.randbytes(8)),
        )

    async def _list(self, merged: Merged) -> None:
        change = Replace(
            merged.entry,
            merged.run,
            merged.sources,
            store=self._store,
            keys=self._keys,
            env=self._env,
            grace_ms=self._settings.garbage_grace_ms,
        )
        try:
            head = await self._publisher.commit(change)
        except RunChanged as fault:
            self._remember(None)
            self._stats.merge_refusals += 1
            logger.info("a merged object is not needed: %s", fault)
            return
        except (InvariantBroken, ColdCorrupt) as fault:
            # Uploads must not wait for it: these are not merged, that is all.
            self._remember(None)
            self._give_up(fault, *(one.key for one in merged.run))
            return
        self._remember(None)
        self._prefix.adopt(head)
        self._stats.merged_objects += 1
        self._stats.merged_segments += len(merged.run)
        self._stats.merged_bytes += merged.entry.size


def leftovers(disk: Disk, directory: str) -> None:
    """Remove what merges left that did not come to their end. Blocks."""
    for name in disk.listdir(directory):
        if name.endswith(SUFFIX):
            disk.unlink(f"{directory}/{name}")
