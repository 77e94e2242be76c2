"""Sweeps the bucket behind deleted topics: STATE lists those whose objects are still to go.

A topic that STATE lists as deleted, and not among its topics, is swept once its grace is over, in
this order:
1. Its manifests are read: one with holds, or one that cannot be read, keeps everything where it is.
2. Uploads that were left half way are aborted; segments and pages go, in batches.
3. A listing shows that manifests alone are left. Then the receipt is written, which quotes them.
4. The manifests go, and when a listing shows nothing any more, so does the note in STATE.

Manifests go last: until then they say what the objects beside them are, and whether somebody holds
them. A crash anywhere leaves the note, and whoever reads it goes on, be it another node or a later
life of the cluster; what is gone already counts as deleted. STATE is read again before every batch.

What a store with versions keeps is not deleted here: a listing names no versions, so the deletion
hides the object, and the bucket's rule for noncurrent versions removes it (`infra/minio`).

Uploads come first: requests keep to a rate, and a store that fails here is left alone for a while
without anybody else waiting for it.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from hashlib import sha256
from math import inf
from typing import TYPE_CHECKING

from tierlog.cold import topicreceipt
from tierlog.cold.cell import write_once
from tierlog.cold.codec import decode_head
from tierlog.cold.errors import ColdError
from tierlog.cold.layout import HEAD, TOPICS, PartitionKeys, topic_receipt_key
from tierlog.cold.listing import folders
from tierlog.cold.refusals import ForeignIncarnation, SwapLost
from tierlog.cold.tieredpartition import STORE_AWAY
from tierlog.cold.topicreceipt import LastHead, TopicReceipt
from tierlog.errors import Kind, TierlogError
from tierlog.objectstore.errors import NoSuchObject
from tierlog.objectstore.limited import Meter
from tierlog.objectstore.port import Doomed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from typing import ClassVar

    from tierlog.cold.clusterstate import DeletedTopic
    from tierlog.cold.head import Head
    from tierlog.cold.statekeeper import StateKeeper
    from tierlog.cold.tiersettings import TierSettings
    from tierlog.cold.tierstats import TierStats
    from tierlog.env import Env
    from tierlog.objectstore.port import ObjectStore, Stat

logger = logging.getLogger(__name__)

BATCH_OBJECTS = 250
"""In one request. S3 counts every key of it against the 3,500 writes a second of a prefix."""
REQUESTS_PER_SECOND = 4.0
"""A thousand objects a second at most: a million segments are gone in a quarter of an hour."""
PASSES_MAX = 3
"""Something may land while a topic is swept; what still does after so many waits for later."""


class Unswept(ColdError):
    """A deleted topic stays in the bucket for now; the sentence says why."""

    kind: ClassVar[Kind] = Kind.RETRY


class Swept(Exception):
    """The note in STATE is gone: somebody else was faster."""


@dataclass(frozen=True, slots=True)
class LastSeen:
    """A manifest of a topic that goes."""

    key: str
    head: Head
    sha256: str


class Sweeper:
    name = "sweep deleted topics"

    def __init__(
        self,
        env: Env,
        store: ObjectStore,
        keeper: StateKeeper,
        settings: TierSettings,
        stats: TierStats,
        *,
        prefix: str,
        node_id: int,
    ) -> None:
        """`prefix`: the cluster's own."""
        self.troubles: dict[str, str] = {}
        """By the id of the topic: why it is not swept although its time has come."""
        self._env = env
        self._store = store
        self._keeper = keeper
        self._settings = settings
        self._stats = stats
        self._prefix = prefix
        self._node_id = node_id
        self._meter = Meter(env.clock, REQUESTS_PER_SECOND)
        self._not_before_ms: dict[str, int] = {}
        """By the id of the topic, after it could not be swept."""

    @property
    def waiting(self) -> dict[str, DeletedTopic]:
        """By id: deleted, as STATE was last seen, and not swept yet."""
        return {} if self._keeper.state is None else dict(self._keeper.state.deleted)

    @property
    def due_from_ms(self) -> float:
        return min((self._due_ms(key, one) for key, one in self.waiting.items()), default=inf)

    def _due_ms(self, topic_id: str, note: DeletedTopic) -> int:
        due_ms = note.deleted_ms + self._settings.garbage_grace_ms
        return max(due_ms, self._not_before_ms.get(topic_id, 0))

    async def run(self) -> None:
        """All whose time has come. What is wrong with one does not keep the next from its turn."""
        now_ms = self._env.clock.now_ms()
        latest_ms = now_ms + max(self._settings.backoff_ms_max, self._settings.sweep_retry_ms)
        for topic_id, not_before_ms in self._not_before_ms.items():  # The clock was set back.
            self._not_before_ms[topic_id] = min(not_before_ms, latest_ms)
        for topic_id, note in self.waiting.items():
            if self._due_ms(topic_id, note) > now_ms:
                continue
            try:
                await self._sweep(topic_id)
            except Swept:
                self._forget(topic_id)
            except ForeignIncarnation:
                raise  # Everything ends: a later life goes on with the sweep.
            except TierlogError as fault:
                self._put_off(topic_id, note.name, fault)
                if isinstance(fault, STORE_AWAY):
                    return

    def _put_off(self, topic_id: str, name: str, fault: TierlogError) -> None:
        """Not raised: a store that takes uploads and refuses deletions still takes uploads."""
        if self.troubles.get(topic_id) != str(fault):
            logger.warning("the deleted topic %s is not swept yet: %s", name, fault)
        self.troubles[topic_id] = str(fault)
        is_away = isinstance(fault, STORE_AWAY)
        pause_ms = self._settings.backoff_ms_max if is_away else self._settings.sweep_retry_ms
        self._not_before_ms[topic_id] = self._env.clock.now_ms() + pause_ms

    def _forget(self, topic_id: str) -> None:
        self.troubles.pop(topic_id, None)
        self._not_before_ms.pop(topic_id, None)

    # One topic

    async def _sweep(self, topic_id: str) -> None:
        note = await self._note(topic_id)
        prefix = f"{self._prefix}{TOPICS}{topic_id}/"
        heads = await self._heads(topic_id)
        self._require_free(heads)
        await self._abort_uploads(prefix)
        await self._delete_until_gone(topic_id, prefix, spare_heads=True)
        await self._write_receipt(topic_id, note, heads)
        await self._delete_until_gone(topic_id, prefix, spare_heads=False)
        await self._keeper.swept(topic_id)
        self._stats.swept_topics += 1
        self._forget(topic_id)
        logger.info("nothing is left in the store of the deleted topic %s", note.name)

    async def _note(self, topic_id: str) -> DeletedTopic:
        """As STATE has it now. Raises `Swept` if the topic is not to be swept, or was."""
        await self._paid()
        state = await self._keeper.refresh()
        if topic_id in state.topics or topic_id not in state.deleted:
            raise Swept
        return state.deleted[topic_id]

    async def _heads(self, topic_id: str) -> list[LastSeen]:
        """Of every partition that has something in the bucket. Raises `Unswept`."""
        found = []
        async for name in folders(self._store, f"{self._prefix}{TOPICS}{topic_id}/"):
            await self._paid()
            key = f"{self._prefix}{TOPICS}{topic_id}/{name}/{HEAD}"
            try:
                data = bytes((await self._store.get(key)).data)
            except NoSuchObject:
                continue  # Never published, or half swept.
            try:
                head = await self._env.tasks.in_thread(lambda: decode_head(data, key=key))  # noqa: B023  awaited at once
            except ColdError as fault:
                raise Unswept(f"whether somebody holds it cannot be read: {fault}") from fault
            found.append(LastSeen(key, head, sha256(data).hexdigest()))
        return found

    def _require_free(self, heads: Sequence[LastSeen]) -> None:
        for one in heads:
            if one.head.holds:
                held = ", ".join(hold.id for hold in one.head.holds)
                raise Unswept(f"partition {one.head.partition} is held ({held})")

    async def _abort_uploads(self, prefix: str) -> None:
        async for page in self._store.list_uploads(prefix):
            for upload in page:
                await self._paid()
                await self._store.abort_upload(upload)
                self._stats.aborted_uploads += 1

    async def _write_receipt(
        self, topic_id: str, note: DeletedTopic, heads: Sequence[LastSeen]
    ) -> None:
        """Once: a node that was cut off behind this, or another that sweeps, too, wrote the same
        but for the time. One that stands there is not left to the store's condition: a store that
        ignores it would put a receipt that quotes nothing in the place of one that quotes
        manifests which are gone by now."""
        await self._paid()
        if await self._keeper.is_swept(topic_id):
            return
        receipt = TopicReceipt(
            cluster_id=self._keeper.cluster_id,
            incarnation=self._keeper.incarnation,
            node=self._node_id,
            topic=note.name,
            topic_id=topic_id,
            deleted_ms=note.deleted_ms,
            swept_ms=self._env.clock.now_ms(),
            partitions=tuple(_quoted(one) for one in heads),
        )
        key = self._prefix + topic_receipt_key(topic_id)
        try:
            await write_once(self._store, key, topicreceipt.encode(receipt), self._env.rng)
        except SwapLost:
            logger.debug("%s was written before", key)

    # Deleting

    async def _delete_until_gone(self, topic_id: str, prefix: str, *, spare_heads: bool) -> None:
        """Raises `Unswept` where something stays: then nothing that comes after may be done."""
        for _ in range(PASSES_MAX):
            found = False
            async for batch in self._batches(topic_id, prefix, spare_heads=spare_heads):
                found = True
                await self._note(topic_id)
                await self._delete(batch)
            if not found:
                return
        raise Unswept("something lands in the bucket while it is swept")

    async def _batches(
        self, topic_id: str, prefix: str, *, spare_heads: bool
    ) -> AsyncIterator[Sequence[Stat]]:
        async for page in self._store.list(prefix):
            await self._paid()
            doomed = [one for one in page if not (spare_heads and self._is_head(topic_id, one.key))]
            for first in range(0, len(doomed), BATCH_OBJECTS):
                yield doomed[first : first + BATCH_OBJECTS]

    def _is_head(self, topic_id: str, key: str) -> bool:
        name = key.removeprefix(f"{self._prefix}{TOPICS}{topic_id}/").partition("/")[0]
        return name.isdecimal() and key == PartitionKeys(self._prefix, topic_id, int(name)).head

    async def _delete(self, batch: Sequence[Stat]) -> None:
        await self._paid()
        failed = await self._store.delete([Doomed(one.key, one.version_id) for one in batch])
        if failed:
            raise Unswept(f"the store keeps {len(failed)} objects: {failed[0].reason}")
        self._stats.swept_objects += len(batch)
        self._stats.swept_bytes += sum(one.size for one in batch)

    async def _paid(self) -> None:
        """Before a request: keep to the rate."""
        await asyncio.sleep(self._meter.owe(1))


def _quoted(one: LastSeen) -> LastHead:
    head = one.head
    return LastHead(
        partition=head.partition,
        version=head.version,
        sha256=one.sha256,
        log_start=head.log_start,
        next_offset=head.next_offset,
        records=head.records,
        bytes=head.bytes,
    )
