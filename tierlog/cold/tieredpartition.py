"""One tiered partition: what uploads it, what drops it, and when it is tried again."""

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from tierlog.cold.clusterstate import TopicRecord
from tierlog.cold.dropper import PartitionDropper
from tierlog.cold.pace import Pace
from tierlog.cold.prefix import ColdPrefix
from tierlog.cold.publisher import Place, Publisher
from tierlog.cold.refusals import Fenced, SwapUncertain
from tierlog.cold.tiersettings import TierSettings, TopicTiering
from tierlog.cold.tierstats import PartitionStatus, TierStats
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
        self.uploader = PartitionUploader(
            env, store, log, publisher, prefix, node_id=node_id, settings=settings, stats=stats
        )
        self.dropper = PartitionDropper(env, store, self.uploader, tiering=tiering, stats=stats)
        self.task: asyncio.Task[None] | None = None
        """What is under way."""
        self.is_fenced = False
        self._pace = Pace(
            env.clock, env.rng, ms_min=settings.backoff_ms_min, ms_max=settings.backoff_ms_max
        )

    @property
    def status(self) -> PartitionStatus:
        return self.uploader.status

    @property
    def place(self) -> Place:
        return self.uploader.publisher.place

    def reconfigure(self, topic: TopicRecord, tiering: TopicTiering) -> None:
        """What HEAD says of the topic changes with the next publish."""
        publisher = self.uploader.publisher
        publisher.place = replace(
            publisher.place, topic=topic.name, partition_count=topic.partitions
        )
        self.dropper.tiering = tiering

    def look(self, now_ms: int) -> bool:
        """Seal what has waited for too long. Whether there is something to upload or to drop."""
        try:
            self._roll_if_due(now_ms)
            self.uploader.look(now_ms)
            is_wanted = self._has_uploads() or bool(self.dropper.due(now_ms))
        except LogError as fault:  # Closed, broken or full: its owner knows.
            self.status.last_error = str(fault)
            return False
        return is_wanted and not self._pace.is_paused

    def _roll_if_due(self, now_ms: int) -> None:
        since_ms, lag_max_ms = self.log.active_since_ms, self.dropper.tiering.upload_lag_max_ms
        # Either way: where the clock was set back, nobody knows how long the segment has waited.
        if since_ms >= 0 and abs(now_ms - since_ms) >= lag_max_ms:
            with suppress(DiskFull, TooManyFiles):  # Uploads and drops are what helps then.
                self.log.roll()

    def _has_uploads(self) -> bool:
        """A fenced partition is another leader's to upload; dropping goes on (U6)."""
        return not self.is_fenced and self.uploader.has_work()

    async def work(self) -> None:
        """Upload, then drop. What is wrong with the one does not keep the other from its work,
        unless it is the store."""
        trouble: Exception | None = None
        for step in (self._upload, self.dropper.drop):
            try:
                await step()
            except STORE_AWAY:
                raise
            except (TierlogError, OSError) as fault:
                trouble = trouble or fault
        if trouble is not None:
            raise trouble

    async def _upload(self) -> None:
        if self._has_uploads():
            await self.uploader.upload()

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
