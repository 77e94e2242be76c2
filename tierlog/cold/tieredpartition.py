"""One tiered partition: what uploads it, what drops it, and when it is tried again.

A node has ten thousand of them, most of which have nothing to do: a look at one of those compares a
few numbers. It is quiet while the same segments are there, all of them cold as far as they will be,
and until time alone makes something due.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from tierlog.cold.chores import Chore
from tierlog.cold.clusterstate import TopicRecord
from tierlog.cold.collector import PartitionCollector
from tierlog.cold.dropper import PartitionDropper
from tierlog.cold.expirer import PartitionExpirer
from tierlog.cold.expiry import expired_roll_ms
from tierlog.cold.head import Head, Policy
from tierlog.cold.pace import Pace
from tierlog.cold.prefix import ColdPrefix
from tierlog.cold.publisher import Change, Place, Publisher
from tierlog.cold.refusals import Fenced, SwapUncertain
from tierlog.cold.tiersettings import TierSettings, TopicTiering
from tierlog.cold.tierstats import PartitionStatus, TierStats
from tierlog.cold.troubles import LogDiverged
from tierlog.cold.uploader import PartitionUploader
from tierlog.env import Env
from tierlog.errors import TierlogError
from tierlog.hot import Log
from tierlog.hot.errors import DiskFull, LogError, TooManyFiles
from tierlog.objectstore.errors import StoreDenied, StoreUnavailable
from tierlog.objectstore.port import ObjectStore

if TYPE_CHECKING:
    import asyncio

STORE_AWAY = (StoreUnavailable, StoreDenied, SwapUncertain)
"""Nothing is wrong with the partition: the store does not answer, or nobody knows what it did."""


class TieredPartition:
    def __init__(
        self,
        env: Env,
        store: ObjectStore,
        log: Log,
        publisher: Publisher,
        prefix: ColdPrefix,
        *,
        node_id: int,
        settings: TierSettings,
        tiering: TopicTiering,
        stats: TierStats,
    ) -> None:
        self.log = log
        self.prefix = prefix
        self._env = env
        self._store = store
        self._stats = stats
        self._now_ms = env.clock.now_ms
        self.uploader = PartitionUploader(
            env, store, log, publisher, prefix, node_id=node_id, settings=settings, stats=stats
        )
        self.status: PartitionStatus = self.uploader.status
        self.dropper = PartitionDropper(env, store, self.uploader, tiering=tiering, stats=stats)
        self.chores: list[Chore] = []
        self._look_at_size: Callable[[], None] = lambda: None
        """Where nothing is copied no HEAD comes that would tell that the log has grown."""
        self.task: asyncio.Task[None] | None = None
        """What is under way."""
        self.is_fenced = False
        self.uploader.is_stopped = not tiering.copies
        self._quiet: tuple[int, ...] | None = None
        """What was there when a look last found nothing to do."""
        self._quiet_until_ms: float = 0
        self._pace = Pace(
            env.clock, env.rng, ms_min=settings.backoff_ms_min, ms_max=settings.backoff_ms_max
        )

    def keep_to_retention(
        self, settings: TierSettings, policy_of: Callable[[], Awaitable[Policy | None]] | None
    ) -> None:
        """From now on what the topic's retention lets go leaves the bucket."""
        self.expirer = PartitionExpirer(
            self._env,
            self.uploader,
            settings=settings,
            tiering=self.dropper.tiering,
            stats=self._stats,
            policy_of=policy_of,
        )
        collector = PartitionCollector(
            self._env,
            self._store,
            self.uploader,
            settings=settings,
            stats=self._stats,
            policy_of=policy_of,
        )
        self.chores += (self.expirer, collector)
        self._look_at_size = self.expirer.look

    @property
    def is_policy_told(self) -> bool:
        """Whether HEAD names the topic's policy, or there is none yet, which then will."""
        head = self.prefix.head
        if head is None:
            return not self.prefix.is_unknown
        return head.policy == self.expirer.policy

    async def tell_policy(self) -> None:
        if not self.is_policy_told:
            await self.expirer.tell_policy()

    async def change_holds(self, change: Change) -> Head:
        """The HEAD that has the change (U7b); one is made where there is none. Raises what keeps it
        from there."""
        await self.uploader.claimed()
        publisher = self.uploader.publisher
        head = await self.uploader.mended(lambda: publisher.commit(change))
        self.prefix.adopt(head)
        return head

    @property
    def place(self) -> Place:
        return self.uploader.publisher.place

    @property
    def pace(self) -> Pace:
        """How long it waits after a failure of its own."""
        return self._pace

    def reconfigure(self, topic: TopicRecord, tiering: TopicTiering) -> None:
        """What HEAD says of the topic changes with the next publish."""
        publisher = self.uploader.publisher
        publisher.place = replace(
            publisher.place,
            topic=topic.name,
            partition_count=topic.partitions,
            policy=tiering.policy,
        )
        self.dropper.tiering = tiering
        self.uploader.is_stopped = not tiering.copies
        for chore in self.chores:
            chore.reconfigure(tiering)
        self._quiet = None

    def clock_set_back(self) -> None:
        for chore in self.chores:
            chore.clock_set_back()
        self._quiet = None

    def look(self, now_ms: int) -> bool:
        """Seal what has waited for too long. Whether there is something to do."""
        has_chore = False
        for chore in self.chores:  # Asked of every partition, every second: no call for it.
            if now_ms >= chore.due_from_ms:
                has_chore = not self.is_fenced
                break
        if self._is_quiet(now_ms):
            return has_chore and not self._pace.is_paused
        try:
            self._roll_if_due(now_ms)
            self.uploader.look(now_ms)
            if self.uploader.is_stopped:
                self._look_at_size()
            is_wanted = self._has_uploads() or bool(self.dropper.due(now_ms))
            if not is_wanted:
                self._note_quiet()
            is_wanted = is_wanted or has_chore
        except LogError as fault:  # Closed, broken or full: its owner knows.
            self.status.last_error = str(fault)
            return False
        return is_wanted and not self._pace.is_paused

    def _is_quiet(self, now_ms: int) -> bool:
        """Whether a look would find nothing to do; brings the status up to date if so."""
        log, status = self.log, self.status
        # Asked of every partition, every second; most were never trimmed.
        if log.trimmed_to and self.uploader.is_start_untold and not self.is_fenced:
            return False
        count, since_ms = len(log.segments), log.active_since_ms
        if count > 1 and (now_ms >= self._quiet_until_ms or self._quiet != self._mark(count)):
            return False
        if since_ms >= 0 and not self.uploader.is_stopped:
            if self._is_roll_due(since_ms, now_ms):
                return False
            status.lag_ms = max(now_ms - since_ms, 0)
        elif status.lag_ms:
            status.lag_ms = 0
        if status.backlog_segments:
            status.backlog_bytes = status.backlog_segments = 0
        return True

    def _note_quiet(self) -> None:
        """A sealed segment may still wait for its sync: only what is cold, or never will be, is out
        of the way."""
        is_settled = self.log.segments.active.base_offset <= self.prefix.uploaded_end
        if is_settled or self.uploader.is_stopped:
            self._quiet = self._mark(len(self.log.segments))
            self._quiet_until_ms = self.dropper.due_from_ms()

    def _mark(self, count: int) -> tuple[int, ...]:
        """Changes whenever a segment is sealed, published or dropped."""
        log = self.log
        size = log.size_bytes if self.dropper.tiering.local_retention_bytes >= 0 else 0
        base = log.segments.active.base_offset
        return count, base, self.prefix.uploaded_end, log.log_start, size

    def _roll_if_due(self, now_ms: int) -> None:
        if self._is_roll_due(self.log.active_since_ms, now_ms):
            with suppress(DiskFull, TooManyFiles):  # Uploads and drops are what helps then.
                self.log.roll()

    def _is_roll_due(self, since_ms: int, now_ms: int) -> bool:
        """Whether the active segment must be sealed: to be uploaded in time, or to expire."""
        if since_ms < 0 or self.uploader.is_stopped:
            return False
        tiering = self.dropper.tiering
        # Either way: where the clock was set back, nobody knows how long the segment has waited.
        if abs(now_ms - since_ms) >= tiering.upload_lag_max_ms:
            return True
        retention_ms = tiering.retention_ms
        if retention_ms < 0 or now_ms - since_ms < expired_roll_ms(retention_ms):
            return False
        is_expired = self.log.is_active_expired(now_ms=now_ms, retention_ms=retention_ms)
        return is_expired and not self.is_fenced

    def _has_uploads(self) -> bool:
        """A fenced partition is another leader's to upload; dropping goes on (U6)."""
        return not self.is_fenced and self.uploader.has_work()

    async def work(self) -> None:
        """Upload, then drop, then the chores. What is wrong with the one does not keep the other
        from its work, unless it is the store."""
        trouble: Exception | None = None
        for step in (self._upload, self.dropper.drop, *map(self._done, self.chores)):
            try:
                await step()
            except STORE_AWAY:
                raise
            except (TierlogError, OSError) as fault:
                trouble = trouble or fault
                if isinstance(fault, LogDiverged):
                    self.prefix.close_to_writers(fault, of=self.uploader.name)
        if trouble is not None:
            raise trouble

    async def _upload(self) -> None:
        if self._has_uploads():
            await self.uploader.upload()

    def _done(self, chore: Chore) -> Callable[[], Awaitable[None]]:
        """Its turn, if it is due when that comes."""

        async def turn() -> None:
            if not self.is_fenced and self._now_ms() >= chore.due_from_ms:
                await chore.run()

        return turn

    def succeeded(self) -> None:
        self._pace.succeeded()
        self.status.failure_count = 0
        if not self.is_fenced:
            self.status.last_error = None

    def failed(self, fault: Exception, *, is_own: bool) -> None:
        """`is_own`: not the store's. The partition then waits on its own account."""
        self.status.last_error = str(fault)
        self.status.failure_count += 1
        self.is_fenced = self.is_fenced or isinstance(fault, Fenced)
        if is_own:
            self._pace.failed()
