"""Retention over both tiers, by the chore of a node: what leaves when, and what a change of policy
waits for."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from math import inf

import pytest

from tests.cold.tiering import (
    KEYS,
    TIERING,
    TOPIC,
    TOPIC_ID,
    TierNode,
    bucket_of,
    eager,
    head_in,
    play_node,
)
from tests.hot.support import append, batch
from tierlog.cold.head import DELETE_RECORDS, RETENTION_BYTES, RETENTION_MS, Head, Hold, Policy
from tierlog.cold.publisher import Draft
from tierlog.cold.tiersettings import TierSettings
from tierlog.types import Offset

HOUR = 3600


async def seconds(count: float) -> None:
    await asyncio.sleep(count)


def requests(node: TierNode) -> list[tuple[str, str]]:
    """What is asked of the store from now on."""
    asked: list[tuple[str, str]] = []
    node.store.watch = lambda kind, key: asked.append((kind, key))
    return asked


async def commit(node: TierNode, change: Callable[[Head], Head]) -> None:
    """What no command does yet: a hold."""

    async def draft(head: Head) -> Draft:
        return Draft(head=change(head))

    head = await node.partition.uploader.publisher.commit(draft)
    node.prefix.adopt(head)


def on_hold(start: int, end: int) -> Callable[[Head], Head]:
    holds = (Hold("case", Offset(start), Offset(end), ""),)
    return lambda head: replace(head, holds=holds, policy_version=head.policy_version + 1)


def test_an_active_segment_that_is_past_retention_is_rolled_and_leaves() -> None:
    async def scenario(node: TierNode) -> None:
        node.tiering = replace(TIERING, retention_ms=5_000, upload_lag_max_ms=HOUR * 1000)
        await node.open()
        node.produce(b"a")
        await node.log.settle()
        await seconds(8)
        node.produce(b"b")
        await node.log.settle()
        await seconds(4)
        assert len(node.log.segments) == 1, "its newest record is young"
        await seconds(4)
        head = head_in(bucket_of(node))
        assert (head.log_start, head.next_offset) == (2, 2)
        assert node.log.log_start == node.log.log_end == 2
        sealed = node.tier.stats.uploaded_segments
        await seconds(60)
        assert (len(node.log.segments), node.tier.stats.uploaded_segments) == (1, sealed)

    play_node(scenario)


@pytest.mark.parametrize("retention_ms", [0, 1_000, 7 * 24 * HOUR * 1000])
def test_somebody_who_writes_old_records_makes_no_segment_of_each(retention_ms: int) -> None:
    async def scenario(node: TierNode) -> None:
        node.tiering = replace(TIERING, retention_ms=retention_ms, upload_lag_max_ms=HOUR * 1000)
        await node.open()
        for number in range(120):
            now_ms = node.env.clock.now_ms()
            old = batch(b"%d" % number, timestamp=now_ms - retention_ms - 5_000)
            append(node.log, old, now_ms=now_ms)
            await seconds(1)
        assert node.tier.stats.uploaded_segments <= 12

    play_node(scenario)


def test_what_is_kept_for_ever_is_not_rolled_for_its_age() -> None:
    async def scenario(node: TierNode) -> None:
        node.tiering = replace(TIERING, retention_ms=-1, upload_lag_max_ms=HOUR * 1000)
        await node.open()
        node.produce(b"a")
        await seconds(HOUR - 10)
        assert node.tier.stats.uploaded_segments == 0

    play_node(scenario)


def test_segments_leave_by_time_from_the_front() -> None:
    async def scenario(node: TierNode) -> None:
        node.tiering = replace(TIERING, retention_ms=HOUR * 1000, local_retention_ms=-1)
        await node.open()
        await node.produce_sealed(b"a")
        await seconds(600)
        await node.produce_sealed(b"b")
        await seconds(HOUR - 700)
        assert head_in(bucket_of(node)).log_start == 0
        await seconds(102)
        head = head_in(bucket_of(node))
        assert (head.log_start, [entry.base for entry in head.entries]) == (1, [1])
        assert [one.why for one in head.garbage] == [RETENTION_MS]
        assert (node.log.log_start, node.log.trimmed_to) == (1, 1), "the disk follows"
        await seconds(600)
        head = head_in(bucket_of(node))
        assert (head.log_start, head.next_offset, head.entries) == (2, 2, ())
        assert (head.records, head.bytes) == (0, 0)
        await node.produce_sealed(b"c")
        await seconds(2)
        assert [entry.base for entry in head_in(bucket_of(node)).entries] == [2]

    play_node(scenario)


def test_a_partition_with_nothing_to_expire_asks_the_store_for_nothing() -> None:
    async def scenario(node: TierNode) -> None:
        node.tiering = eager(replace(TIERING, retention_ms=HOUR * 1000, retention_bytes=10**9))
        await node.open()
        await node.produce_sealed(b"a")
        await seconds(10)
        asked = requests(node)
        await seconds(HOUR - 60)
        assert {key for _, key in asked} <= {"a-cluster/cluster/STATE"}

    play_node(scenario)


def test_segments_leave_by_size_and_what_is_not_published_counts_but_stays() -> None:
    async def scenario(node: TierNode) -> None:
        await node.open()
        for value in (b"a", b"b", b"c"):
            await node.produce_sealed(value)
        await seconds(3)
        size = head_in(bucket_of(node)).entries[0].size
        node.store.is_closed = True
        await node.produce_sealed(b"d" * 3 * size)
        tiering = replace(TIERING, retention_bytes=size)
        node.tier.reconfigure(TOPIC_ID, TOPIC, tiering)
        node.store.is_closed = False
        await seconds(100)
        head = head_in(bucket_of(node))
        # The large one is more than the limit alone; it is the last, and Kafka keeps what is left.
        assert [entry.base for entry in head.entries] == [3]
        assert {one.why for one in head.garbage} == {RETENTION_BYTES}

    play_node(scenario)


def test_nothing_expires_that_is_not_published() -> None:
    async def scenario(node: TierNode) -> None:
        node.tiering = replace(TIERING, retention_ms=1000, retention_bytes=0)
        await node.open()
        node.store.is_closed = True
        await node.produce_sealed(b"a")
        await seconds(HOUR)
        assert (node.log.log_start, node.log.log_end) == (0, 1)
        node.store.is_closed = False
        await seconds(120)
        assert head_in(bucket_of(node)).log_start == 1

    play_node(scenario)


def test_a_change_of_retention_takes_effect_without_a_restart_and_stands_in_head() -> None:
    async def scenario(node: TierNode) -> None:
        await node.open()
        await node.produce_sealed(b"a")
        await seconds(60)
        assert head_in(bucket_of(node)).policy == Policy()
        node.tier.reconfigure(TOPIC_ID, TOPIC, replace(TIERING, retention_ms=30_000))
        assert not node.tier.is_policy_told(TOPIC_ID)
        await seconds(3)
        head = head_in(bucket_of(node))
        assert node.tier.is_policy_told(TOPIC_ID)
        assert (head.policy, head.policy_version) == (Policy(retention_ms=30_000), 1)
        assert (head.log_start, head.garbage[0].policy_version) == (1, 1)

    play_node(scenario)


def test_a_policy_that_the_metastore_does_not_confirm_expires_nothing() -> None:
    """This node heard late that the records shall live longer: it must not act on what it knows."""

    async def scenario(node: TierNode) -> None:
        await node.open()
        await node.produce_sealed(b"a")
        await seconds(60)

        async def longer() -> Policy:
            return Policy(retention_ms=10**9)

        node.partition.expirer._policy_of = longer
        node.tier.reconfigure(TOPIC_ID, TOPIC, replace(TIERING, retention_ms=30_000))
        await seconds(60)
        assert (head_in(bucket_of(node)).log_start, head_in(bucket_of(node)).policy) == (
            0,
            Policy(),
        )
        node.tier.reconfigure(TOPIC_ID, TOPIC, replace(TIERING, retention_ms=10**9))
        await seconds(15)
        head = head_in(bucket_of(node))
        assert (head.log_start, head.policy) == (0, Policy(retention_ms=10**9))

    play_node(scenario)


def test_a_policy_that_head_does_not_name_expires_nothing_while_the_store_is_away() -> None:
    async def scenario(node: TierNode) -> None:
        node.tiering = replace(TIERING, retention_ms=100_000)
        await node.open()
        await node.produce_sealed(b"a")
        await seconds(10)
        node.store.is_closed = True
        node.tier.reconfigure(TOPIC_ID, TOPIC, replace(TIERING, retention_ms=-1))
        await seconds(600)
        node.store.is_closed = False
        await seconds(120)
        head = head_in(bucket_of(node))
        assert (head.log_start, head.policy) == (0, Policy())

    play_node(scenario)


def test_retention_stops_before_a_hold() -> None:
    async def scenario(node: TierNode) -> None:
        await node.open()
        for value in (b"a", b"b", b"c"):
            await node.produce_sealed(value)
        await seconds(5)
        await commit(node, on_hold(1, 2))
        node.tier.reconfigure(TOPIC_ID, TOPIC, replace(TIERING, retention_ms=1, retention_bytes=0))
        await seconds(60)
        assert head_in(bucket_of(node)).log_start == 1
        await commit(
            node, lambda head: replace(head, holds=(), policy_version=head.policy_version + 1)
        )
        await seconds(5)
        assert head_in(bucket_of(node)).log_start == 3

    play_node(scenario)


def test_a_hold_that_is_lifted_lets_go_what_it_kept() -> None:
    async def scenario(node: TierNode) -> None:
        node.tiering = replace(TIERING, retention_ms=HOUR * 1000, local_retention_ms=-1)
        await node.open()
        await node.produce_sealed(b"a")
        await seconds(3)
        await commit(node, on_hold(0, 1))
        await seconds(HOUR + 10)
        head, expirer = head_in(bucket_of(node)), node.partition.expirer
        assert head.log_start == 0
        assert expirer.due_from_ms == inf
        node.prefix.adopt(replace(head, holds=(), version=head.version + 1))
        expirer.look()
        assert expirer.due_from_ms <= node.env.clock.now_ms()

    play_node(scenario)


def test_what_delete_records_left_becomes_garbage() -> None:
    async def scenario(node: TierNode) -> None:
        await node.open()
        await node.produce_sealed(b"a", b"b")
        await node.produce_sealed(b"c")
        await seconds(3)
        node.log.trim(Offset(1))
        await seconds(3)
        head = head_in(bucket_of(node))
        assert (head.log_start, head.garbage) == (1, ()), "the segment holds a record that is left"
        node.log.trim(Offset(2))
        await seconds(3)
        head = head_in(bucket_of(node))
        assert [(one.why, one.not_before_ms > head.published_ms) for one in head.garbage] == [
            (DELETE_RECORDS, True)
        ]
        assert [entry.base for entry in head.entries] == [2]

    play_node(scenario)


def test_the_disk_follows_a_start_that_an_earlier_life_committed() -> None:
    async def scenario(node: TierNode) -> None:
        node.tiering = replace(TIERING, local_retention_ms=-1)
        await node.open()
        await node.produce_sealed(b"a")
        await node.produce_sealed(b"b")
        await seconds(3)
        await node.tier.move_log_start(TOPIC_ID, 0, Offset(1))
        assert node.log.log_start == 0
        await seconds(3)
        assert (node.log.log_start, node.log.trimmed_to) == (1, 1)

    play_node(scenario)


def test_the_grace_is_a_setting() -> None:
    async def scenario(node: TierNode) -> None:
        node.settings = TierSettings(check_interval_ms=100, garbage_grace_ms=5_000)
        node.tiering = replace(TIERING, retention_ms=1)
        await node.open()
        await node.produce_sealed(b"a")
        await seconds(2)
        head = head_in(bucket_of(node))
        assert head.garbage[0].not_before_ms == head.published_ms + 5_000
        assert KEYS.full(head.garbage[0].key) in bucket_of(node).shelf.items

    play_node(scenario)
