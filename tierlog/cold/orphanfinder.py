"""Looks for what nobody refers to in the bucket, and collects it in the end. A chore of the node.

Every partition that this node leads has its hour of the week, by its name: then its objects are
listed and compared with its manifest (`orphans`). What is old and unknown is an orphan: told,
counted, and written down (`sightings`). One that is seen again a week later is collected, if nobody
can publish it any more; of a topic with `tierlog.compliance` never.

Once a week as well: prefixes of topics that STATE does not know. They are told, and left alone. But
if a receipt says that the topic was swept, what lies there landed late: its deletion is noted in
STATE once more, and the sweeper comes again. And every hour: multipart uploads that were begun a
day ago and neither completed nor aborted are aborted.

Requests keep to a rate. Nothing that the store does here is held against it, or makes uploads wait.
"""

from __future__ import annotations

import asyncio
import logging
from hashlib import sha256
from typing import TYPE_CHECKING

from tierlog.cold.clusterstate import is_topic_id
from tierlog.cold.layout import TOPICS
from tierlog.cold.listing import folders
from tierlog.cold.orphans import Manifest, is_old, look_at, may_be_collected
from tierlog.cold.refusals import ForeignIncarnation
from tierlog.cold.sightings import Sightings
from tierlog.errors import TierlogError
from tierlog.objectstore.limited import Meter
from tierlog.objectstore.port import Doomed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping, Sequence

    from tierlog.cold.orphans import Look, Orphan
    from tierlog.cold.statekeeper import StateKeeper
    from tierlog.cold.tieredpartition import TieredPartition
    from tierlog.cold.tiersettings import TierSettings
    from tierlog.cold.tierstats import TierStats
    from tierlog.env import Env
    from tierlog.objectstore.port import ObjectStore

logger = logging.getLogger(__name__)

REQUESTS_PER_SECOND = 2.0
"""A million objects are a thousand listings: eight minutes, half a cent."""
ROUNDS_A_WEEK = 168
"""So often it is looked whose hour has come."""
BATCH_OBJECTS = 250
UNKNOWN_SHOWN = 5
COMPLIANCE = "tierlog.compliance"


class OrphanFinder:
    name = "look for orphans"

    def __init__(
        self,
        env: Env,
        store: ObjectStore,
        keeper: StateKeeper,
        settings: TierSettings,
        stats: TierStats,
        partitions: Mapping[tuple[str, int], TieredPartition],
        *,
        prefix: str,
        data: str,
    ) -> None:
        """`prefix`: the cluster's own in the store. `data`: the node's directory."""
        self.unknown: tuple[str, ...] = ()
        """Topic ids that have objects and that STATE does not know, as of the last look."""
        self._env = env
        self._store = store
        self._keeper = keeper
        self._settings = settings
        self._stats = stats
        self._partitions = partitions
        self._prefix = prefix
        self._sightings = Sightings(env, f"{data}/cold/orphans")
        self._meter = Meter(env.clock, REQUESTS_PER_SECOND)
        self._round_ms = max(1, settings.orphan_interval_ms // ROUNDS_A_WEEK)
        self._looked_ms = env.clock.now_ms()
        self._seen: dict[tuple[str, int], tuple[int, int]] = {}
        """By partition: orphans and their bytes, as of its last look."""
        self._uploads: dict[tuple[str, str], int] = {}
        """Open multipart uploads by key and id, and when this process first saw them."""

    @property
    def due_from_ms(self) -> int:
        return self._looked_ms + self._round_ms

    async def run(self) -> None:
        before_ms, self._looked_ms = self._looked_ms, self._env.clock.now_ms()
        for key, partition in list(self._partitions.items()):
            if self._has_come(f"{key[0]}-{key[1]}", before_ms) and not partition.is_fenced:
                await self._told(self._look(key, partition), what=partition.uploader.name)
        self._forget_detached()
        await self._told(self._abort_uploads(), what="uploads that were left behind")
        if self._has_come("unknown topics", before_ms):
            await self._told(self._look_for_unknown(), what="topics that STATE does not know")

    def _has_come(self, name: str, before_ms: int) -> bool:
        """Whether its time of the week lies between the last round and this one. By name, so that
        a node that is started often looks as often as any other."""
        interval_ms = self._settings.orphan_interval_ms
        slot_ms = int.from_bytes(sha256(name.encode()).digest()[:8]) % interval_ms
        return (self._looked_ms - slot_ms) // interval_ms > (before_ms - slot_ms) // interval_ms

    async def _told(self, work: Awaitable[None], *, what: str) -> None:
        """What is wrong with one look does not keep the next from its turn."""
        try:
            await work
        except ForeignIncarnation:
            raise
        except (TierlogError, OSError) as fault:
            logger.warning("no look for orphans of %s: %s", what, fault)

    # A partition

    async def _look(self, key: tuple[str, int], partition: TieredPartition) -> None:
        publisher = partition.uploader.publisher
        head = await publisher.refresh()
        if publisher.fence is not None:
            return
        look = await look_at(self._store, publisher.keys, head, paid=self._paid)
        now_ms, age_ms = self._env.clock.now_ms(), self._settings.orphan_age_ms
        old = [one for one in look.orphans if is_old(one, now_ms=now_ms, age_ms=age_ms)]
        self._note(key, partition.uploader.name, look, old)
        again = await self._seen_again(key, old)
        is_here = self._partitions.get(key) is partition
        if again and is_here and not self._is_compliance(key[0]):
            await self._collect(partition, again)

    def _note(self, key: tuple[str, int], name: str, look: Look, orphans: Sequence[Orphan]) -> None:
        count, size = len(orphans) + look.more, sum(one.size for one in orphans)
        if count and self._seen.get(key, (0, 0))[0] != count:
            logger.info("%s: %d objects in the store that no manifest knows", name, count)
        self._seen[key] = count, size
        self._sum_up()

    async def _seen_again(self, key: tuple[str, int], orphans: Sequence[Orphan]) -> list[Orphan]:
        """Those whose first sighting is long enough ago. All are written down before."""
        now_ms = self._env.clock.now_ms()
        before = await self._sightings.load(*key)
        seen = {one.key: before.get(one.key, now_ms) for one in orphans}
        if seen != before:
            await self._sightings.save(*key, seen)
        wait_ms = self._settings.orphan_sighting_ms
        return [one for one in orphans if one.key in before and now_ms - seen[one.key] >= wait_ms]

    def _is_compliance(self, topic_id: str) -> bool:
        """Unknown counts as yes."""
        state = self._keeper.state
        topic = None if state is None else state.topics.get(topic_id)
        return topic is None or topic.configs.get(COMPLIANCE) == "true"

    async def _collect(self, partition: TieredPartition, orphans: Sequence[Orphan]) -> None:
        """Those that nobody can publish any more. First what is in flight, then HEAD: an upload
        that is published in between was in flight."""
        uploader = partition.uploader
        if partition.task is not None:
            return  # At work: something may be on its way that nobody can name. Another week.
        in_flight = uploader.in_flight
        head = await uploader.publisher.refresh()
        if uploader.publisher.fence is not None:
            return
        keys, writer = uploader.publisher.keys, uploader.publisher.writer
        manifest = Manifest(self._store, keys, head)
        doomed = [
            one
            for one in orphans
            if may_be_collected(one, head, writer=writer, in_flight=in_flight)
            and not await manifest.knows(one.key)
        ]
        await self._delete([Doomed(keys.full(one.key), one.version_id) for one in doomed])
        self._stats.collected_orphan_bytes += sum(one.size for one in doomed)
        if doomed:
            logger.info("%s: %d orphans were collected", uploader.name, len(doomed))

    async def _delete(self, doomed: Sequence[Doomed]) -> None:
        for first in range(0, len(doomed), BATCH_OBJECTS):
            await self._paid()
            batch = doomed[first : first + BATCH_OBJECTS]
            failed = await self._store.delete(batch)
            self._stats.collected_orphans += len(batch) - len(failed)
            if failed:
                logger.warning("the store keeps %d orphans: %s", len(failed), failed[0].reason)

    # What has no partition

    async def _look_for_unknown(self) -> None:
        unknown = []
        async for name in folders(self._store, self._prefix + TOPICS):
            await self._paid()
            if not await self._is_known(name):
                if await self._was_swept(name):
                    await self._keeper.delete_topic(name)
                else:
                    unknown.append(name)
        self.unknown = tuple(unknown)
        if unknown:
            some = ", ".join(unknown[:UNKNOWN_SHOWN])
            logger.warning("%d topics in the store are not in STATE: %s", len(unknown), some)

    async def _is_known(self, topic_id: str) -> bool:
        """A topic that was made a moment ago is found when STATE is read again."""
        state = self._keeper.state
        if state is None or (topic_id not in state.topics and topic_id not in state.deleted):
            state = await self._keeper.refresh()
        return topic_id in state.topics or topic_id in state.deleted

    async def _was_swept(self, topic_id: str) -> bool:
        """Ids are never used again: what lies below one that was swept landed late."""
        if not is_topic_id(topic_id):
            return False
        await self._paid()
        return await self._keeper.is_swept(topic_id)

    # Uploads

    async def _abort_uploads(self) -> None:
        now_ms, age_ms = self._env.clock.now_ms(), self._settings.upload_age_ms
        seen: dict[tuple[str, str], int] = {}
        await self._paid()
        async for page in self._store.list_uploads(self._prefix):
            for upload in page:
                first_ms = self._uploads.get((upload.key, upload.id), now_ms)
                if now_ms - max(first_ms, upload.begun_ms) < age_ms:
                    seen[upload.key, upload.id] = first_ms
                    continue
                await self._paid()
                await self._store.abort_upload(upload)
                self._stats.aborted_uploads += 1
        self._uploads = seen

    # Counting

    def _forget_detached(self) -> None:
        self._seen = {key: one for key, one in self._seen.items() if key in self._partitions}
        self._sum_up()

    def _sum_up(self) -> None:
        self._stats.orphan_objects = sum(count for count, _ in self._seen.values())
        self._stats.orphan_bytes = sum(size for _, size in self._seen.values())

    async def _paid(self) -> None:
        """Before a request: keep to the rate."""
        await asyncio.sleep(self._meter.owe(1))
