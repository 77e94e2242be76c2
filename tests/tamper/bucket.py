"""A small bucket with everything that a bucket may have, made by the code that makes real ones.

Three partitions of two topics: one with leaf and index pages, one behind a moved log start and a
skip, one with a few segments in HEAD alone. Objects are kilobytes, so that a thousand audits take a
minute.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from tests.fetchproxy.support import HandClock, PlayedTasks, make_batch
from tierlog.cold.auditor import Auditor
from tierlog.cold.changes import Append, MoveLogStart
from tierlog.cold.clusterstate import TopicRecord
from tierlog.cold.codec import decode_head
from tierlog.cold.entry import Entry
from tierlog.cold.head import Head, Incarnation, PageRef, Writer
from tierlog.cold.layout import FORMAT_JSON, STATE, PartitionKeys, cluster_prefix, segment_key
from tierlog.cold.page import IndexPage
from tierlog.cold.pagecache import PageCache
from tierlog.cold.publisher import Place, Publisher
from tierlog.cold.segment_scan import SegmentScan
from tierlog.cold.statekeeper import StateKeeper
from tierlog.cold.tree import Limits
from tierlog.env import Env, PlainSenders, SystemRng
from tierlog.hot.epochs import EpochStart
from tierlog.objectstore.body import BytesBody
from tierlog.objectstore.memory import MemoryStore
from tierlog.records.batch import iter_batches
from tierlog.sim.disk import SimDisk
from tierlog.types import LeaderEpoch, Offset

CLUSTER = "a-cluster"
PREFIX = cluster_prefix("", CLUSTER)
LIFE = Incarnation(1, "first life")
TOPICS = {
    "a" * 32: TopicRecord(name="orders", partitions=2),
    "b" * 32: TopicRecord(name="clicks", partitions=1),
}
PLACES = (("a" * 32, 0), ("a" * 32, 1), ("b" * 32, 0))
SMALL_PAGES = Limits(entries_inline=2, leaf_entries=2, leaves_inline=2, index_leaves=4)
EPOCH = LeaderEpoch(1)
MINUTE_S = 60.0
DAY_S = 86_400.0


def new_env(clock: HandClock | None = None) -> Env:
    return Env(
        clock=clock or HandClock(),
        rng=SystemRng(),
        disk=SimDisk(),
        tasks=PlayedTasks(),
        senders=PlainSenders(),
    )


@dataclass(slots=True)
class TestBucket:
    """And what stands in it: `batches` by partition and base offset, as they were uploaded."""

    __test__ = False

    env: Env
    clock: HandClock
    store: MemoryStore
    batches: dict[tuple[str, int], dict[int, bytes]] = field(default_factory=dict)
    heads: dict[tuple[str, int], list[bytes]] = field(default_factory=dict)
    """Every HEAD that ever stood there, oldest first."""

    def keys(self, place: tuple[str, int]) -> PartitionKeys:
        return PartitionKeys(PREFIX, *place)

    def head(self, place: tuple[str, int]) -> Head:
        key = self.keys(place).head
        return decode_head(self.store.shelf.items[key].data, key=key)

    def publisher(self, place: tuple[str, int], *, epoch: int = EPOCH) -> Publisher:
        topic = TOPICS[place[0]]
        return Publisher(
            self.store,
            self.keys(place),
            self.env,
            place=Place(
                topic=topic.name,
                topic_id=place[0],
                partition=place[1],
                partition_count=topic.partitions,
            ),
            writer=Writer(LeaderEpoch(epoch), "a process"),
            incarnation=LIFE,
        )

    async def found(self) -> None:
        keeper = StateKeeper(self.store, PREFIX, self.env, cluster_id=CLUSTER, incarnation=LIFE)
        await keeper.join()
        await keeper.put_topics(TOPICS)

    async def publish(self, publisher: Publisher, count: int, rng: Random) -> None:
        """So many segments, one after the other, a minute apart."""
        place = publisher.place.topic_id, publisher.place.partition
        for _ in range(count):
            head = await publisher.claim()
            await self._note(place)
            entry = await self.upload(publisher, head.next_offset, rng)
            change = Append(
                [entry],
                store=self.store,
                keys=publisher.keys,
                env=self.env,
                limits=SMALL_PAGES,
                trimmed_to=head.log_start,
            )
            await publisher.commit(change)
            await self._note(place)
            self.clock.seconds += MINUTE_S

    async def upload(self, publisher: Publisher, base: int, rng: Random) -> Entry:
        place = publisher.place
        batches = []
        end = base
        for _ in range(rng.randint(1, 4)):
            sizes = [rng.randint(1, 200) for _ in range(rng.randint(1, 3))]
            batches.append(make_batch(end, sizes, rng=rng))
            end += len(sizes)
        data = b"".join(batches)
        scan = SegmentScan(
            topic=place.topic,
            topic_id=place.topic_id,
            partition=place.partition,
            base=Offset(base),
            last=Offset(end - 1),
            size=len(data),
        )
        scan.feed(data)
        key = segment_key(
            base=Offset(base),
            last=Offset(end - 1),
            leader_epoch=publisher.writer.leader_epoch,
            node=1,
            attempt=rng.getrandbits(64),
        )
        tail = scan.finish(
            key=key,
            producers=rng.randbytes(40),
            max_append_ms=5,
            lineage=(EpochStart(EPOCH, Offset(0)),),
        )
        known = self.batches.setdefault((place.topic_id, place.partition), {})
        known.update(_split(data))
        body = BytesBody(data + tail.data)
        written = await self.store.put_if_absent(publisher.keys.full(key), body)
        return replace(tail.entry, version_id=written.version_id)

    async def _note(self, place: tuple[str, int]) -> None:
        data = bytes((await self.store.get(self.keys(place).head)).data)
        noted = self.heads.setdefault(place, [])
        if not noted or noted[-1] != data:
            noted.append(data)

    # What it has

    async def referenced(self, place: tuple[str, int]) -> list[str]:
        """Keys that somebody needs: HEAD, its pages and segments from the log start on."""
        head, keys = self.head(place), self.keys(place)
        pages = PageCache(self.store)
        found: list[str] = []

        async def leaf(ref: PageRef) -> None:
            if ref.next_offset > head.log_start:
                found.append(ref.key)
                page = await pages.get(keys, ref)
                found.extend(_living(page.entries, head))  # type: ignore[union-attr]  # a leaf

        for ref in head.indexes:
            if ref.next_offset > head.log_start:
                found.append(ref.key)
                page = await pages.get(keys, ref)
                assert isinstance(page, IndexPage)
                for inner in page.leaves:
                    await leaf(inner)
        for ref in head.leaves:
            await leaf(ref)
        found.extend(_living(head.entries, head))
        return [keys.head, *map(keys.full, found)]

    async def victims(self) -> list[str]:
        keys = [PREFIX + FORMAT_JSON, PREFIX + STATE]
        for place in PLACES:
            keys += await self.referenced(place)
        return keys

    def auditor(self, *, is_deep: bool = True, store: MemoryStore | None = None) -> Auditor:
        return Auditor(self.env, store or self.store, cluster_id=CLUSTER, is_deep=is_deep)


def _living(entries: Sequence[Entry], head: Head) -> list[str]:
    return [one.key for one in entries if one.next_offset > head.log_start]


def _split(data: bytes) -> dict[int, bytes]:
    return {
        header.base_offset: data[position : position + header.size_bytes]
        for position, header in iter_batches(data)
    }


async def make_bucket(
    seed: int = 1, make_store: Callable[[HandClock], MemoryStore] = MemoryStore
) -> TestBucket:
    clock, rng = HandClock(), Random(seed)
    env = new_env(clock)
    bucket = TestBucket(env, clock, make_store(clock))
    await bucket.found()
    deep, moved, few = (bucket.publisher(place) for place in PLACES)
    await bucket.publish(deep, 15, rng)
    await bucket.publish(moved, 5, rng)
    head = await moved.claim()
    head = await moved.commit(MoveLogStart(Offset(head.next_offset + 7)))
    entry = await bucket.upload(moved, head.log_start, rng)
    change = Append(
        [entry],
        store=bucket.store,
        keys=moved.keys,
        env=env,
        limits=SMALL_PAGES,
        trimmed_to=head.log_start,
    )
    await moved.commit(change)
    await bucket.publish(moved, 4, rng)
    head = await moved.claim()
    await moved.commit(MoveLogStart((head.entries or head.leaves)[0].base))
    await bucket.publish(moved, 2, rng)
    await bucket.publish(few, 3, rng)
    clock.seconds += DAY_S
    return bucket
