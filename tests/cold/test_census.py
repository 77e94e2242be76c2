"""Every object of a listing is told once, by what it lies there for."""

from collections import Counter
from dataclasses import replace

from tests.cold.publishing import CLUSTER, FIRST_LIFE, KEYS, TOPIC_ID, Scene, play, segments
from tierlog.cold.census import Census, Item, Standing, TableKeys
from tierlog.cold.clusterstate import ClusterState, DeletedTopic, Life, TopicRecord
from tierlog.cold.codec import encode_head
from tierlog.cold.entry import Entry
from tierlog.cold.errors import ColdCorrupt
from tierlog.cold.head import Head
from tierlog.cold.layout import PartitionKeys
from tierlog.cold.tree import Limits
from tierlog.objectstore.body import BytesBody
from tierlog.objectstore.port import ObjectStore
from tierlog.types import LeaderEpoch, Offset

LIMITS = Limits(entries_inline=1, leaf_entries=2, leaves_inline=1, index_leaves=8)
DELETED, UNKNOWN = "d" * 32, "e" * 32
PREFIX = f"{CLUSTER}/"
DATA_BYTES = 64
SEGMENT = bytes(200)
STATE = ClusterState(
    version=1,
    nonce="n",
    cluster_id=CLUSTER,
    lineage=(Life(FIRST_LIFE, 0, "serve"),),
    topics={TOPIC_ID: TopicRecord(name="orders", partitions=1)},
    deleted={DELETED: DeletedTopic(name="gone", partitions=1, deleted_ms=0)},
)
R, G, O, M = Standing.REFERENCED, Standing.GARBAGE, Standing.ORPHAN, Standing.METADATA  # noqa: E741  # read as a table


def small(entry: Entry) -> Entry:
    """As the maker has it, but for megabytes of batches."""
    return replace(
        entry,
        data_bytes=DATA_BYTES,
        size=len(SEGMENT),
        sections={"block_crcs": (64, 4), "offset_index": (68, 8), "time_index": (76, 12)},
        samples=entry.samples[:1],
    )


async def published(scene: Scene, count: int = 12) -> Head:
    leader = scene.leader(3)
    for entry in segments(count):
        made = small(entry)
        await scene.store.put(KEYS.full(made.key), BytesBody(SEGMENT))
        await leader.commit(scene.append(made, limits=LIMITS))
    return scene.published()


async def counted(scene: Scene, *, now_ms: int | None = None) -> tuple[Census, list[Item]]:
    now = scene.env.clock.now_ms() if now_ms is None else now_ms
    census = Census(scene.store, PREFIX, STATE, now)
    return census, [item async for item in census.items()]


def kinds(items: list[Item]) -> Counter[tuple[Standing, str]]:
    return Counter((item.standing, item.what) for item in items)


def an_orphan(base: int = 500, keys: PartitionKeys = KEYS) -> str:
    return keys.segment(
        base=Offset(base),
        last=Offset(base + 9),
        leader_epoch=LeaderEpoch(3),
        node=1,
        attempt=7,
    )


def test_the_sum_over_all_kinds_is_the_listing_to_the_byte() -> None:
    async def scenario(scene: Scene) -> None:
        head = await published(scene)
        assert head.indexes, "some entries are two pages away"
        extras = {
            an_orphan(): b"orphan",
            KEYS.full("TABLE"): b"table",
            KEYS.full("pq/00-file.parquet"): b"parquet",
            KEYS.full("receipt/x.json.gz"): b"receipt",
            KEYS.full("notes.txt"): b"somebody's",
            f"{PREFIX}format.json": b"{}",
            f"{PREFIX}cluster/STATE": b"state",
            f"{PREFIX}t/{DELETED}/0/HEAD": b"head",
            f"{PREFIX}t/{UNKNOWN}/0/HEAD": b"head",
            f"{PREFIX}elsewhere": b"?",
        }
        for key, data in extras.items():
            await scene.store.put(key, BytesBody(data))
        census, items = await counted(scene)
        shelf = scene.store.shelf.items
        assert sorted(item.stat.key for item in items) == sorted(shelf)
        assert census.objects == len(shelf)
        assert census.bytes == sum(len(one.data) for one in shelf.values())
        found = kinds(items)
        pages = len(head.leaves) + len(head.indexes)
        assert found.pop((M, "pages")) >= pages
        assert found.pop((G, "pages")) == len(head.garbage)
        assert found == {
            (R, "segments"): 12,
            (R, "Parquet"): 1,
            (G, "deleted topics"): 1,
            (O, "unpublished, younger than a day"): 1,
            (O, "topics that STATE does not know"): 1,
            (O, "strangers"): 2,
            (M, "HEADs"): 1,
            (M, "receipts"): 1,
            (M, "table manifests"): 1,
            (M, "cluster"): 2,
        }
        assert census.troubles == []

    play(scenario)


def test_an_orphan_is_old_after_a_day() -> None:
    async def scenario(scene: Scene) -> None:
        await published(scene, 1)
        await scene.store.put(an_orphan(), BytesBody(b"orphan"))
        later = scene.env.clock.now_ms() + 25 * 3_600_000
        _, items = await counted(scene, now_ms=later)
        assert (O, "unpublished") in kinds(items)

    play(scenario)


def test_a_published_segment_that_is_missing_or_has_another_size_is_told() -> None:
    async def scenario(scene: Scene) -> None:
        await published(scene)
        key = KEYS.full(segments(1)[0].key)
        await scene.store.put(key, BytesBody(b"short"))
        census, items = await counted(scene)
        assert kinds(items)[R, "segments"] == 12
        (trouble,) = census.troubles
        assert trouble.startswith(
            "orders-0: HEAD tells of 2,400 bytes in segments, the listing has"
        )

    play(scenario)


def test_a_manifest_that_cannot_be_read_leaves_its_segments_unjudged() -> None:
    async def scenario(scene: Scene) -> None:
        await published(scene)
        await scene.store.put(KEYS.head, BytesBody(b"no head"))
        census, items = await counted(scene)
        assert kinds(items)[Standing.UNJUDGED, "segments"] == 12
        assert census.bytes == sum(item.stat.size for item in items)
        assert census.troubles[0].startswith("orders-0: nothing can be said")

    play(scenario)


def test_what_is_published_after_it_was_listed_is_no_orphan_and_what_went_is_not_counted() -> None:
    """HEAD is replaced between the listing and the judgement, and an object goes."""

    async def scenario(scene: Scene) -> None:
        await published(scene, 2)
        late = small(segments(3)[2])
        await scene.store.put(KEYS.full(late.key), BytesBody(SEGMENT))
        await scene.store.put(an_orphan(), BytesBody(b"orphan"))
        census = Census(scene.store, PREFIX, STATE, scene.env.clock.now_ms())
        items: list[Item] = []
        async for item in census.items():
            if not items:  # The page of the listing is read by now, and HEAD is, too.
                await scene.leader(4).commit(scene.append(late, limits=LIMITS))
                del scene.store.shelf.items[an_orphan()]
            items.append(item)
        assert kinds(items)[R, "segments"] == 3
        assert not [item for item in items if item.standing is O]
        assert census.bytes == sum(item.stat.size for item in items)
        assert census.troubles == []

    play(scenario)


def test_a_table_tells_its_files_from_garbage_and_orphans() -> None:
    names = {"pq/file": R, "pq/page": M, "pq/gone": G, "pq/unknown": O}

    async def tables(_: ObjectStore, keys: PartitionKeys) -> TableKeys:
        assert keys == KEYS
        return TableKeys(frozenset({"pq/file"}), frozenset({"pq/page"}), frozenset({"pq/gone"}))

    async def broken(_: ObjectStore, keys: PartitionKeys) -> TableKeys:
        raise ColdCorrupt(keys.table, "is damaged")

    async def scenario(scene: Scene) -> None:
        await published(scene, 1)
        for key in names:
            await scene.store.put(KEYS.full(key), BytesBody(b"file"))
        census = Census(scene.store, PREFIX, STATE, 0, tables=tables)
        found = {KEYS.relative(item.stat.key): item async for item in census.items()}
        assert {key: found[key].standing for key in names} == names
        assert census.bytes == sum(item.stat.size for item in found.values())
        damaged = Census(scene.store, PREFIX, STATE, 0, tables=broken)
        items = [item async for item in damaged.items()]
        assert kinds(items)[Standing.UNJUDGED, "Parquet"] == len(names)
        assert kinds(items)[R, "segments"] == 1
        assert "nothing can be said of its table" in damaged.troubles[0]

    play(scenario)


def test_one_topic_alone() -> None:
    async def scenario(scene: Scene) -> None:
        await published(scene, 3)
        head = encode_head(replace(scene.published(), garbage=()))
        await scene.store.put(f"{PREFIX}t/{UNKNOWN}/0/HEAD", BytesBody(head))
        census = Census(scene.store, PREFIX, STATE, 0, TOPIC_ID)
        items = [item async for item in census.items()]
        assert {item.topic_id for item in items} == {TOPIC_ID}
        assert census.objects == len(items) < len(scene.store.shelf.items)

    play(scenario)
