"""A node's cold tier with many partitions and nothing to do, in virtual time.

The tier and its chores are the real ones, at their default periods. Time, disk and threads are the
simulated ones, so an hour takes seconds, and their cost counts with that of the tier. Manifests are
real, with pages; segments are not there: the store answers for them from the manifests.
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from benchmarks.gauge import Figures
from tests.cold.makers import Bucket, a_head, an_entry
from tests.cold.tiering import no_probe
from tierlog.cold import chain
from tierlog.cold.clusterstate import TopicRecord
from tierlog.cold.codec import encode_head
from tierlog.cold.entry import Entry
from tierlog.cold.head import Head, Incarnation, Writer
from tierlog.cold.layout import PartitionKeys, cluster_prefix
from tierlog.cold.localcopy import LocalCopies
from tierlog.cold.scrubber import Scrubber
from tierlog.cold.scrubsettings import ScrubSettings
from tierlog.cold.tier import ColdTier
from tierlog.cold.tiersettings import TierSettings, TopicTiering
from tierlog.env import Env
from tierlog.hot import LogDirectory, LogSettings, Seed
from tierlog.objectstore.around import Around, Request
from tierlog.objectstore.body import BytesBody
from tierlog.objectstore.memory import MemoryStore
from tierlog.objectstore.port import ObjectStore, Stat
from tierlog.sim import SimWorld
from tierlog.types import LeaderEpoch

T = TypeVar("T")

NODE, CLUSTER, PROCESS = "node", "a-cluster", "a-process"
TOPIC_ID = "0123456789abcdef0123456789abcdef"
LIFE = Incarnation(1, "a life")
WRITER = Writer(LeaderEpoch(3), PROCESS)
TIERING = TopicTiering(retention_ms=100 * 365 * 86_400_000)
"""A hundred years: every partition waits for a time to come, and none does."""
HOUR_S = 3600.0
NEVER_MS = 10**15
CPU, SHARE, MEMORY, LOOK = "CPU s/hour", "% of a core", "KB/partition", "us/look"
REQUESTS = "requests/hour"


class Manifested(MemoryStore):
    """Has the segments that its manifests list, as far as anybody asks without reading."""

    def __init__(self, env: Env) -> None:
        super().__init__(env.clock)
        self.segments: dict[str, Entry] = {}
        self.by_partition: dict[str, list[Stat]] = {}
        """By prefix."""

    async def head(self, key: str, *, version_id: str | None = None) -> Stat:
        if (entry := self.segments.get(key)) is not None:
            return _stat(key, entry)
        return await super().head(key, version_id=version_id)

    async def list(self, prefix: str, *, after: str = "") -> AsyncIterator[Sequence[Stat]]:
        async for page in super().list(prefix, after=after):
            yield page
        if prefix in self.by_partition:
            yield self.by_partition[prefix]


def _stat(key: str, entry: Entry) -> Stat:
    return Stat(key=key, size=entry.size, etag="e", crc32c=entry.crc32c, modified_ms=0)


class Counted(Around):
    """How often the store is asked."""

    def __init__(self, store: ObjectStore) -> None:
        super().__init__(store)
        self.counts: Counter[str] = Counter()

    async def _around(self, request: Request, call: Callable[[], Awaitable[T]]) -> T:
        self.counts[request.name] += 1
        return await call()


class IdleTier:
    """In a world of its own; `run` makes it and lets an hour pass."""

    def __init__(self, *, partitions: int, segments: int, without: frozenset[str]) -> None:
        """`without`: chores of the node that are left out, by name."""
        self._count = partitions
        self._segments = segments
        self._without = without

    def run(self, *, seconds: float = HOUR_S) -> Figures:
        world = SimWorld(1)

        async def start() -> Figures:
            return await world.start(NODE, self._live(world.env(NODE), seconds), what="live")

        return world.run(start())

    async def _live(self, env: Env, seconds: float) -> Figures:
        kept = Manifested(env)
        store = Counted(kept)
        heads = await self._fill(env, kept)
        tier = self._tier(env, store)
        directory = LogDirectory(env, "/data/logs", reserve_bytes=0)
        await tier.start()
        before = anonymous_bytes()
        for index, head in enumerate(heads):
            await self._attach(tier, directory, index, head)
        memory = anonymous_bytes() - before
        await asyncio.sleep(seconds / 4)  # What a start brings with it.
        store.counts.clear()
        began = time.thread_time()
        await asyncio.sleep(seconds)
        cpu = (time.thread_time() - began) * HOUR_S / seconds
        requests = sum(store.counts.values()) * HOUR_S / seconds
        looks = await self._looks(tier)
        await tier.stop()
        assert tier.stats.failure_count == 0, "nothing must fail here"
        assert tier.stats.scrub_findings == 0, "nothing is damaged"
        return {
            CPU: cpu,
            SHARE: cpu / HOUR_S * 100,
            LOOK: looks,
            REQUESTS: requests,
            MEMORY: memory / 1e3 / self._count,
        }

    async def _looks(self, tier: ColdTier) -> float:
        spent = []
        for _ in range(20):
            began = time.thread_time()
            await tier._look()
            spent.append(time.thread_time() - began)
        return min(spent) * 1e6 / self._count

    async def _fill(self, env: Env, store: Manifested) -> list[Head]:
        """Manifests in the store, and their copies on the disk."""
        copies = LocalCopies(env, "/data/cold")
        await copies.open()
        entries = [an_entry(number) for number in range(self._segments)]
        heads = []
        for index in range(self._count):
            bucket = Bucket()
            head = bucket.append(self._empty(index), entries)
            head = replace(head, garbage=())
            keys = PartitionKeys(cluster_prefix("", CLUSTER), TOPIC_ID, index)
            for key, data in bucket.objects.items():
                await store.put(keys.full(key), BytesBody(data))
            await store.put(keys.head, BytesBody(encode_head(head)))
            await copies.save(head)
            store.segments.update({keys.full(one.key): one for one in entries})
            store.by_partition[keys.prefix] = [_stat(keys.full(one.key), one) for one in entries]
            heads.append(head)
        return heads

    def _empty(self, index: int) -> Head:
        return replace(
            a_head(),
            incarnation=LIFE,
            writer=WRITER,
            topic="idle",
            topic_id=TOPIC_ID,
            partition=index,
            partition_count=self._count,
            chain_anchor=chain.genesis(TOPIC_ID, index),
            policy=TIERING.policy,
        )

    def _tier(self, env: Env, store: ObjectStore) -> ColdTier:
        tier = ColdTier(
            env,
            store,
            TierSettings(),
            data="/data",
            cluster_id=CLUSTER,
            node_id=1,
            process=PROCESS,
            incarnation=LIFE,
            probe=no_probe,
        )
        scrubber = Scrubber(
            env,
            store,
            tier.partitions,
            tier.maker.pages,
            path="/data/cold",
            stats=tier.stats,
            probe=no_probe,
            # Bytes are not there to be read: what that costs goes with their number alone.
            settings=ScrubSettings(byte_period_ms=NEVER_MS),
        )
        tier.chores.append(scrubber)
        tier.chores[:] = [one for one in tier.chores if one.name not in self._without]
        return tier

    async def _attach(
        self, tier: ColdTier, directory: LogDirectory, index: int, head: Head
    ) -> None:
        log = await directory.open_log(
            f"{TOPIC_ID}-{index}",
            LogSettings(),
            start=head.next_offset,
            seed=Seed(epochs=head.leader_epochs),
        )
        topic = TopicRecord(name="idle", partitions=self._count)
        await tier.attach(
            TOPIC_ID, topic, index, log, leader_epoch=WRITER.leader_epoch, tiering=TIERING
        )


def anonymous_bytes() -> int:
    """Of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    (found,) = (line.split()[1] for line in lines if line.startswith("RssAnon:"))
    return int(found) * 1024
