"""What must be true of the node between any two callbacks.

- T3: what the local log has let go is published; what consumers see is durable.
- The node believes of the bucket what the bucket says, no more; what is published is durable here.
- The scrubber has no finding: everything that is published is there, whatever the store stutters.
- T5: the high watermark never goes back, from one process to the next.
- A partition takes no more records once its process knows that another one publishes it.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence

from tests.simulation.cold_oracle import Broken, Oracle, WatchedBucket, Where, require
from tierlog.cold.scrubber import Scrubber
from tierlog.cold.tier import ColdTier
from tierlog.cold.tieredpartition import TieredPartition
from tierlog.sim.ports import SimClock


class Watch:
    """The node between any two callbacks. Silent while there is none."""

    def __init__(self, bucket: WatchedBucket, clocks: Sequence[SimClock]) -> None:
        """`clocks` are those of everybody who deletes."""
        self.tier: ColdTier | None = None
        self.seen: dict[Where, int] = defaultdict(int)
        """High watermarks."""
        self._bucket = bucket
        self._clocks = clocks
        bucket.oracle.latest_ms = self._latest_ms
        self._deleted = 0
        self._last: dict[tuple[str, int], tuple[object, ...]] = {}
        """What a partition showed when it was judged: nothing else of it is looked at."""
        self._fenced: dict[object, int] = {}
        """Where logs ended when their fence was met."""
        self.lost: dict[Where, Callable[[int], None]] = {}
        """Logs that were lost: who wants to hear where they begin again."""
        self._chores: tuple[ColdTier | None, int] = (None, 0)
        self._scrubbers: list[Scrubber] = []
        """Among those chores."""

    def step(self) -> None:
        """Before every callback, ten thousand times a seed: what has not changed since it was
        judged is not judged again."""
        bucket, tier = self._bucket, self.tier
        if bucket.broken is not None:
            raise bucket.broken
        if len(bucket.deleted) > self._deleted:
            bucket.oracle.deleted(bucket.deleted[self._deleted :], now_ms=self._latest_ms())
            self._deleted = len(bucket.deleted)
        if tier is not None:
            self._look(tier, bucket.oracle)
            self._check_scrubber(tier, bucket.oracle)

    def _latest_ms(self) -> int:
        return max(clock.latest_ms() for clock in self._clocks)

    def _check_scrubber(self, tier: ColdTier, oracle: Oracle) -> None:
        if self._chores != (tier, len(tier.chores)):
            self._chores = tier, len(tier.chores)
            self._scrubbers = [one for one in tier.chores if isinstance(one, Scrubber)]
        for scrubber in self._scrubbers:
            if scrubber.findings and oracle.trusts:
                finding = next(iter(scrubber.findings.values()))
                raise Broken(f"a false finding: {finding.sentence}")

    def _look(self, tier: ColdTier, oracle: Oracle) -> None:
        for key, partition in tier.partitions.items():
            log, prefix = partition.log, partition.prefix
            now = (
                log.log_start,
                log.visible_end,
                log.durable_end,
                prefix.uploaded_end,
                oracle.publish_count,
                log.log_end,
                prefix.fence,
                partition,
            )
            if self.lost or self._last.get(key) != now:
                self._judge(oracle, Where(*key), partition)
                self._last[key] = now

    def _judge(self, oracle: Oracle, where: Where, partition: TieredPartition) -> None:
        log, prefix = partition.log, partition.prefix
        if where in self.lost:
            self.lost.pop(where)(log.log_start)
        if prefix.fence is not None:
            end = self._fenced.setdefault(partition, log.log_end)
            require(log.log_end == end, f"{where} was fenced at {end} and takes {log.log_end}")
        now = log.log_start, log.visible_end, log.durable_end, prefix.uploaded_end
        self._check(oracle, where, *now)

    def _check(
        self, oracle: Oracle, where: Where, start: int, visible: int, durable: int, believed: int
    ) -> None:
        published, seen = oracle.ends[where], self.seen[where]
        require(visible <= durable, f"{where}: {visible} is shown, {durable} is durable")
        require(published <= durable, f"{where}: {published} is published, {durable} is durable")
        require(believed <= published, f"{where}: {believed} is believed, {published} published")
        require(
            start <= max(published, oracle.trims[where]),
            f"{where}: {published} is published, and everything before {start} dropped",
        )
        require(visible >= seen, f"{where}: the high watermark went from {seen} to {visible}")
        self.seen[where] = visible
