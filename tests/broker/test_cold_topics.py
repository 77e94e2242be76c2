"""Topics of a node with a bucket: made, altered, trimmed, deleted, with the store and without."""

import asyncio
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from tests.broker import asks
from tests.broker.coldworld import NEVER_MS, Lives, in_world, until
from tierlog.broker.node import Node
from tierlog.client.errors import known_code
from tierlog.cold.clusterstate import TopicRecord
from tierlog.cold.codec import decode_head, encode_head
from tierlog.cold.head import Incarnation
from tierlog.config.rules import Change
from tierlog.metastore import MetaStore, values
from tierlog.wire.error_codes import ErrorCode

COLD_CONFIGS = {
    "local.retention.ms": "0",
    "segment.ms": NEVER_MS,
    "tierlog.upload.lag.max.ms": NEVER_MS,
}


@contextmanager
def lines_of(logger: str) -> Iterator[list[str]]:
    """What it logs meanwhile."""
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]  # a stand-in
    logging.getLogger(logger).addHandler(handler)
    try:
        yield lines
    finally:
        logging.getLogger(logger).removeHandler(handler)


@contextmanager
def counted_calls() -> Iterator[list[str]]:
    """The functions that are called meanwhile, Python's own among them."""
    calls: list[str] = []
    before = sys.getprofile()
    sys.setprofile(lambda _, event, __: calls.append(event) if event.endswith("call") else None)
    try:
        yield calls
    finally:
        sys.setprofile(before)


# DeleteRecords


@in_world
async def test_records_are_deleted_below_inside_and_above_what_is_uploaded(lives: Lives) -> None:
    async with lives.node() as served:
        topic = await served.tiered("t")
        await served.make_cold("t", b"a", b"b")
        await served.make_cold("t", b"c", b"d")
        await served.append("t", b"e", b"f")
        for wanted in (0, 1, 3, 4, 5):
            answer = await asks.delete_records(served, "t", wanted)
            assert (answer.error_code, answer.low_watermark) == (ErrorCode.NONE, wanted)
            assert (await asks.offset_at(served, "t", -2)).offset == wanted
            assert lives.head(topic).log_start == min(wanted, 4)
            if wanted:
                gone = asks.fetch_topic("t", offset=wanted - 1)
                answer = await asks.fetch(served, gone, wait_ms=5000)
                assert answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert await served.values("t", 5) == [b"f"]
    async with lives.node() as served:
        assert (await asks.offset_at(served, "t", -2)).offset == 5
        assert await served.values("t", 5) == [b"f"]


@in_world
async def test_what_is_deleted_before_its_upload_stays_deleted_after_it(lives: Lives) -> None:
    async with lives.node() as served:
        await served.tiered("t", local_retention_ms="-1", retention_ms="-1")
        lives.store.is_closed = True
        await served.seal("t", b"a", b"b", b"c")
        assert (await asks.delete_records(served, "t", 2)).low_watermark == 2
        lives.store.is_closed = False
        await until(lambda: served.uploads("t").prefix.uploaded_end == 3)
        assert (await asks.offset_at(served, "t", -2)).offset == 2
    async with lives.node() as served:
        assert (await asks.offset_at(served, "t", -2)).offset == 2
        assert await served.values("t", 2) == [b"c"]


@in_world
async def test_deleting_cold_records_is_not_done_while_the_store_is_away(lives: Lives) -> None:
    """The local log knows, HEAD does not yet: whoever asks is told to ask again."""
    async with lives.node() as served:
        topic = await served.tiered("t")
        await served.make_cold("t", b"a", b"b")
        lives.store.is_closed = True
        answer = await asks.delete_records(served, "t", 1)
        assert known_code(answer.error_code).retriable
        assert (await asks.offset_at(served, "t", -2)).offset == 1
        assert lives.head(topic).log_start == 0
        lives.store.is_closed = False
        assert (await asks.delete_records(served, "t", 1)).low_watermark == 1
        assert lives.head(topic).log_start == 1
        assert await served.values("t", 1) == [b"b"]


# Deleting topics


@in_world
async def test_a_topic_that_is_deleted_is_deleted_in_the_bucket(lives: Lives) -> None:
    async with lives.node() as served:
        topic = await served.tiered("t")
        await served.make_cold("t", b"a")
        await asks.delete(served, "t")
        await until(lambda: topic.id.hex() in lives.state().deleted)
        assert not lives.state().topics
        await asyncio.sleep(5)  # Virtual: once the bucket knows, the note goes.
        assert not await notes(served.node.metastore)


@in_world
async def test_a_topic_is_deleted_while_the_store_is_away_and_told_when_it_is_back(
    lives: Lives,
) -> None:
    async with lives.node() as served:
        topic = await served.tiered("t")
        await served.make_cold("t", b"a")
        lives.store.is_closed = True
        await asks.delete(served, "t")
        assert (await asks.metadata(served, "t")).topics[0].error_code
        with lines_of("tierlog.broker.tiering") as lines:
            await asyncio.sleep(600)
        assert 3 <= len(lines) <= 8, "the first failure, and each doubling"
        assert all("the deletion of t is not in the store yet" in line for line in lines)
        assert topic.id.hex() in lives.state().topics
        assert await notes(served.node.metastore)
        lives.store.is_closed = False
        await until(lambda: topic.id.hex() in lives.state().deleted)
        await asyncio.sleep(1)
        assert not await notes(served.node.metastore)


@in_world
async def test_a_deletion_that_the_bucket_has_not_heard_of_outlives_a_restart(lives: Lives) -> None:
    async with lives.node() as served:
        topic = await served.tiered("t")
        await served.make_cold("t", b"a")
        lives.store.is_closed = True
        await asks.delete(served, "t")
        await asyncio.sleep(1)
    async with lives.node() as served:
        again = await served.tiered("t")
        await served.append("t", b"new")
        assert topic.id.hex() in lives.state().topics
        lives.store.is_closed = False
        await until(lambda: topic.id.hex() in lives.state().deleted)
        await until(lambda: again.id.hex() in lives.state().topics)
        assert await served.values("t") == [b"new"]


async def notes(metastore: MetaStore) -> object:
    found, _ = await metastore.list(values.DELETED)
    return found


# Changes


@in_world
async def test_a_living_topic_becomes_tiered(lives: Lives) -> None:
    async with lives.node() as served:
        topic = await served.create("t", remote_storage_enable="false", segment_ms=NEVER_MS)
        await served.seal("t", b"a", b"b")
        await asyncio.sleep(5)
        assert served.at("t").cold is None
        changes = {"remote.storage.enable": "true", **COLD_CONFIGS}
        await alter(served.node, "t", changes)
        await until(lambda: served.at("t").log.log_start == 2)
        assert lives.head(topic).next_offset == 2
        await served.append("t", b"c")
        assert await served.values("t") == [b"a", b"b", b"c"]
    async with lives.node() as served:
        assert await served.values("t") == [b"a", b"b", b"c"]


@in_world
async def test_partitions_that_are_added_are_tiered(lives: Lives) -> None:
    async with lives.node() as served:
        topic = await served.tiered("t")
        await served.make_cold("t", b"a")
        await served.node.controller.add_partitions(topic, 3)
        await served.make_cold("t", b"b", index=2)
        assert lives.state().topics[topic.id.hex()].partitions == 3
        assert lives.head(topic, 2).next_offset == 1
        assert await served.values("t", index=2) == [b"b"]


@in_world
async def test_altered_settings_reach_the_bucket_and_the_uploads(lives: Lives) -> None:
    async with lives.node() as served:
        topic = await served.tiered("t", local_retention_ms="-1", retention_ms="-1")
        await served.seal("t", b"a")
        await until(lambda: served.uploads("t").prefix.uploaded_end == 1)
        await asyncio.sleep(60)
        assert served.at("t").log.log_start == 0
        await alter(served.node, "t", {"local.retention.ms": "0"})
        await until(lambda: served.at("t").log.log_start == 1)
        known = lives.state().topics[topic.id.hex()]
        assert isinstance(known, TopicRecord)
        assert known.configs["local.retention.ms"] == "0"
        await served.append("t", b"b")
        await alter(served.node, "t", {"tierlog.upload.lag.max.ms": "2000"})
        await until(lambda: served.uploads("t").prefix.uploaded_end == 2)


@in_world
async def test_uploads_stop_where_they_are_disabled_and_go_on_afterwards(lives: Lives) -> None:
    async with lives.node() as served:
        await served.tiered("t")
        await served.make_cold("t", b"a")
        await alter(served.node, "t", {"remote.log.copy.disable": "true"})
        await alter(served.node, "t", {"tierlog.upload.lag.max.ms": "1000"})
        await served.seal("t", b"b")
        await served.append("t", b"c")
        await asyncio.sleep(60)
        one = served.uploads("t")
        assert (one.prefix.uploaded_end, served.at("t").log.log_start) == (1, 1)
        assert (one.status.backlog_segments, one.status.lag_ms) == (0, 0)
        assert len(served.at("t").log.segments) == 2, "nothing is sealed for nobody"
        assert await served.values("t") == [b"a", b"b", b"c"]
    async with lives.node() as served:
        await asyncio.sleep(60)
        assert served.uploads("t").prefix.uploaded_end == 1
        await alter(served.node, "t", {"remote.log.copy.disable": "false"})
        await until(lambda: served.at("t").log.log_start == 3)
        assert await served.values("t") == [b"a", b"b", b"c"]


@in_world
async def test_what_is_cold_still_leaves_the_disk_where_uploads_are_disabled(lives: Lives) -> None:
    async with lives.node() as served:
        await served.tiered("t", local_retention_ms="30000")
        await served.seal("t", b"a")
        await until(lambda: served.uploads("t").prefix.uploaded_end == 1)
        await alter(served.node, "t", {"remote.log.copy.disable": "true"})
        await served.seal("t", b"b")
        await until(lambda: served.at("t").log.log_start == 1)
        await asyncio.sleep(60)
        assert served.at("t").log.log_start == 1


async def alter(node: Node, name: str, settings: dict[str, str]) -> None:
    changes = [Change(key, "set", value) for key, value in settings.items()]
    await node.controller.alter(node.topics.named(name), changes)


# What is not known


@in_world
async def test_without_its_local_copy_a_partition_denies_nothing_until_the_store_answers(
    lives: Lives,
) -> None:
    async with lives.node() as served:
        await served.tiered("t")
        await served.make_cold("t", b"a", b"b")
        await served.append("t", b"c")
    for path in [one for one in lives.env.disk.listdir("/data/cold") if one]:
        forget(lives, f"/data/cold/{path}")
    lives.store.is_closed = True
    async with lives.node() as served:
        assert served.at("t").cold is not None
        early = await asks.fetch(served, asks.fetch_topic("t"), wait_ms=1000)
        assert early.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        for kind in (-2, -3, -5, -6, 0):
            told = await asks.offset_at(served, "t", kind)
            assert told.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert (await asks.offset_at(served, "t", -1)).offset == 3
        assert await served.values("t", 2) == [b"c"]
        refused = await asks.delete_records(served, "t", 3)
        assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        with lines_of("tierlog.broker.tiering") as lines:
            await asyncio.sleep(600)
        assert 1 <= len(lines) <= 8, "the first failure, and each doubling"
        assert all("what t-0 has in the store is unknown" in line for line in lines)
        lives.store.is_closed = False
        await until(lambda: not served.at("t").cold.is_unknown)  # type: ignore[union-attr]  # it is there, or the test fails
        assert (await asks.offset_at(served, "t", -2)).offset == 0
        assert await served.values("t") == [b"a", b"b", b"c"]


def forget(lives: Lives, path: str) -> None:
    """Remove what is below, files and directories."""
    disk = lives.env.disk
    try:
        names = disk.listdir(path)
    except OSError:
        disk.unlink(path)
        return
    for name in names:
        forget(lives, f"{path}/{name}")


@in_world
async def test_a_bucket_that_another_life_took_over_makes_the_node_read_only(lives: Lives) -> None:
    async with lives.node() as served:
        await served.tiered("t")
        await served.make_cold("t", b"a")
        await served.append("t", b"b")
        take_over(lives)
        await served.seal("t", b"c")
        assert served.node.tiering is not None
        await until(lambda: served.node.tiering.tier.refusal is not None)  # type: ignore[union-attr]  # it is there, or the test fails
        refused = await asks.produce(served, "t", asks.batch_of(served, b"d"))
        assert refused.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert await served.values("t") == [b"a", b"b", b"c"]


def take_over(lives: Lives) -> None:
    """Another node restored the cluster: every HEAD carries the next incarnation."""
    items = lives.bucket.shelf.items
    for key in [key for key in items if key.endswith("/HEAD")]:
        head = decode_head(items[key].data, key=key)
        taken = replace(head, incarnation=Incarnation(2, "another"), version=head.version + 1)
        items[key] = replace(items[key], data=encode_head(taken), etag="taken")


# Starting and stopping


@in_world
async def test_a_node_stops_in_the_middle_of_an_upload_and_goes_on_afterwards(lives: Lives) -> None:
    async with lives.node() as served:
        await served.tiered("t", partitions=3)
        for index in range(3):
            await served.seal("t", b"x" * 10_000, index=index)
        assert served.node.tiering is not None
        uploads = served.node.tiering.tier.partitions.values()
        await until(lambda: any(one.task is not None for one in uploads))
    async with lives.node() as served:
        assert served.node.tiering is not None
        uploads = served.node.tiering.tier.partitions.values()
        await until(lambda: all(one.log.log_start == 1 for one in uploads))
        for index in range(3):
            assert await served.values("t", index=index) == [b"x" * 10_000]


@in_world
async def test_a_node_starts_and_serves_without_its_store(lives: Lives) -> None:
    async with lives.node() as served:
        await served.tiered("t")
        await served.make_cold("t", b"a")
        await served.append("t", b"b")
    lives.store.is_closed = True
    async with lives.node() as served:
        await served.append("t", b"c")
        assert await served.values("t", 1) == [b"b", b"c"]
        assert (await asks.offset_at(served, "t", -2)).offset == 0
        await served.seal("t", b"d")
        await asyncio.sleep(300)
        status = served.uploads("t").status
        assert (status.backlog_segments, status.lag_ms > 290_000) == (1, True)
        lives.store.is_closed = False
        await until(lambda: served.at("t").log.log_start == 4)
        assert await served.values("t") == [b"a", b"b", b"c", b"d"]


@in_world
async def test_a_thousand_tiered_partitions_idle_cheaply(lives: Lives) -> None:
    """Counted in calls, which no neighbour changes; `benchmarks --only tier` has the seconds."""
    async with lives.node() as served:
        await served.tiered("t", partitions=1000)
        await served.append("t", b"a", index=7)
    async with lives.node() as served:
        await asyncio.sleep(5)
        assert served.node.tiering is not None
        tier = served.node.tiering.tier
        counts = []
        for _ in range(20):
            with counted_calls() as calls:
                await tier._look()
            counts.append(len(calls))
        assert min(counts) < 8 * 1000, "a look at ten thousand partitions is felt by everybody"
        assert served.uploads("t", 7).status.lag_ms > 0
