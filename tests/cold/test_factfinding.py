"""Facts of a partition: few pages are opened for them, and a running one is judged rightly."""

import asyncio
from dataclasses import replace

from tests.cold.makers import Bucket, a_head, entries
from tests.cold.tiering import TIERING, TierNode, play_node
from tierlog.cold import tree
from tierlog.cold.explained import Explained, State, Why, runs
from tierlog.cold.explaining import explain
from tierlog.cold.explanation import partition_value
from tierlog.cold.factfinding import (
    ColdRows,
    health_of,
    of_bucket,
    of_entry,
    of_log,
    of_tiered,
    rate_of,
    rules_of,
)
from tierlog.cold.head import Head, PageRef
from tierlog.cold.page import Page
from tierlog.cold.segmentfacts import Facts, Local, Rules
from tierlog.config import NodeSettings, topic_config
from tierlog.objectstore.errors import StoreUnavailable
from tierlog.types import Offset, TimestampMs

SMALL = tree.Limits(entries_inline=3, leaf_entries=6, leaves_inline=1, index_leaves=3)
COUNT = 100
"""Of segments, with 1,000 offsets each."""


class Shelf:
    """A manifest of many pages, and which of them are read."""

    def __init__(self) -> None:
        bucket = Bucket(limits=SMALL)
        head = a_head()
        for number in range(COUNT):
            head = bucket.append(head, entries([number]))
        self.head: Head = head
        self.read_keys: list[str] = []
        self.is_away = False
        self._bucket = bucket

    async def read(self, ref: PageRef) -> Page:
        self.read_keys.append(ref.key)
        if self.is_away:
            raise StoreUnavailable("the store is away")
        return self._bucket.read(ref)


async def test_no_page_is_opened_where_no_border_runs() -> None:
    shelf = Shelf()
    found = await ColdRows(shelf.head, shelf.read).find()
    assert shelf.read_keys == []
    assert sum(row.segments for row in found.rows) == COUNT
    assert len(found.rows) < 20
    assert sum(row.bytes for row in found.rows) == shelf.head.bytes


async def test_a_border_opens_the_pages_that_it_runs_through() -> None:
    shelf = Shelf()
    found = await ColdRows(shelf.head, shelf.read, log_start=Offset(1000)).find()
    assert len(shelf.read_keys) == 2
    assert [(row.base, row.segments) for row in found.rows[:2]] == [(0, 1), (1000, 1)]
    assert sum(row.segments for row in found.rows) == COUNT


async def test_segments_that_the_disk_has_as_well_are_told_one_by_one() -> None:
    shelf = Shelf()
    found = await ColdRows(shelf.head, shelf.read, local_start=Offset(95_000)).find()
    assert all(row.segments == 1 for row in found.rows if row.base >= 95_000)
    assert len(shelf.read_keys) <= 3
    assert sum(row.segments for row in found.rows) == COUNT


async def test_segments_one_by_one_open_only_what_is_asked_for() -> None:
    shelf = Shelf()
    rows = ColdRows(shelf.head, shelf.read, singles_from=Offset(50_000), singles_max=5)
    found = (await rows.find()).rows
    singles = [row.base for row in found if row.segments == 1 and row.next_offset > 50_000]
    assert singles[:5] == [50_000, 51_000, 52_000, 53_000, 54_000]
    assert len(shelf.read_keys) <= 4
    assert sum(row.segments for row in found) == COUNT


async def test_a_page_that_cannot_be_read_stays_closed_and_is_told() -> None:
    shelf = Shelf()
    shelf.is_away = True
    found = await ColdRows(
        shelf.head, shelf.read, log_start=Offset(1000), local_start=Offset(60_500)
    ).find()
    assert sum(row.segments for row in found.rows) == COUNT
    assert len(shelf.read_keys) == 1  # A store that is away is not asked again and again.
    (problem,) = found.problems
    assert problem.endswith("was not read: the store is away")


async def all_singles(shelf: Shelf) -> list[int]:
    """Page by page, as a client goes on."""
    bases: list[int] = []
    after: int | None = 0
    while after is not None:
        rows = ColdRows(shelf.head, shelf.read, singles_from=Offset(after), singles_max=8)
        cold = (await rows.find()).rows
        facts = of_bucket(shelf.head, cold, rules=Rules(), now_ms=0)
        value = partition_value(0, facts, shelf.head, after=after, rows_max=7)
        rows_of: list[dict[str, int]] = value["rows"]  # type: ignore[assignment]  # JSON
        assert all(row["segments"] == 1 for row in rows_of)
        bases += [row["base"] for row in rows_of]
        after = value["next_after"]  # type: ignore[assignment]  # JSON
    return bases


async def test_answers_that_go_on_miss_nothing_and_repeat_nothing() -> None:
    assert await all_singles(Shelf()) == [number * 1000 for number in range(COUNT)]


def test_the_rate_is_that_of_what_came_since_the_oldest_new_segment() -> None:
    head = replace(a_head(), entries=tuple(entries(range(3))))
    now_ms = head.entries[0].max_append_ms + 100_000
    count = head.entries[1].size + head.entries[2].size
    assert rate_of(head, (), now_ms) == count / 100
    waiting = Local(Offset(0), Offset(1), 5000, TimestampMs(0), now_ms)
    assert rate_of(head, [waiting], now_ms) == (count + 5000) / 100
    assert rate_of(head, (), now_ms - 99_000) is None  # One second says nothing.
    assert rate_of(None, (), now_ms) is None


def test_rules_are_those_of_the_topic() -> None:
    config = topic_config(
        {"retention.ms": "1000", "local.retention.ms": "500", "cleanup.policy": "delete"},
        NodeSettings(data="/data", store="file:///store"),
    )
    rules = rules_of(config)
    assert (rules.retention_ms, rules.local_retention_ms, rules.expires) == (1000, 500, True)


# A partition that lives


def known(node: TierNode) -> Facts:
    partition = node.partition
    cold = []
    if (head := partition.prefix.head) is not None:
        assert not head.leaves
        cold = [*map(of_entry, head.entries)]
    return of_tiered(
        partition,
        cold,
        store=health_of(node.tier),
        log_start=partition.prefix.log_start,
        rules=Rules(local_retention_ms=node.tiering.local_retention_ms),
        now_ms=node.env.clock.now_ms(),
    )


def told(node: TierNode) -> list[Explained]:
    return list(runs(explain(known(node))))


def test_a_segment_is_followed_from_the_disk_to_the_bucket() -> None:
    async def scenario(node: TierNode) -> None:
        await node.open()
        node.produce(b"a", b"b")
        assert [row.state for row in told(node)] == [State.ACTIVE]
        node.log.roll()
        sealed, _ = told(node)
        assert (sealed.state, sealed.reasons[0].why) == (State.SEALED, Why.HIGH_WATERMARK)
        await node.log.settle()
        assert told(node)[0].reasons[0].why is Why.TURN
        await asyncio.sleep(2)
        published, active = told(node)
        assert (published.state, active.reasons[0].why) == (State.PUBLISHED, Why.EMPTY)
        drop_ms = published.reasons[0].at_ms
        assert drop_ms is not None
        assert 0 < drop_ms - node.env.clock.now_ms() <= TIERING.local_retention_ms
        await asyncio.sleep((drop_ms - node.env.clock.now_ms()) / 1000 + 2)
        assert [row.state for row in told(node)] == [State.DROPPED, State.ACTIVE]

    play_node(scenario)


def test_a_segment_on_its_way_is_seen_to_be() -> None:
    async def scenario(node: TierNode) -> None:
        seen: list[State] = []
        await node.open()
        node.store.watch = lambda *_: seen.extend(row.state for row in told(node)[:1])
        await node.produce_sealed(b"a")
        await asyncio.sleep(5)
        assert State.UPLOADING in seen
        assert State.UPLOADED in seen
        assert seen.index(State.UPLOADING) < seen.index(State.UPLOADED)
        assert told(node)[0].state is State.PUBLISHED

    play_node(scenario)


def test_a_store_that_goes_away_and_comes_back_is_told_with_its_times() -> None:
    async def scenario(node: TierNode) -> None:
        await node.open()
        node.store.is_closed = True
        away_ms = node.env.clock.now_ms()
        await node.produce_sealed(b"a")
        await asyncio.sleep(60)
        health = health_of(node.tier)
        assert health.away_since_ms is not None
        assert 0 <= health.away_since_ms - away_ms < 10_000
        assert health.error == "the store is away"
        assert 0 <= health.retry_ms <= 60_000
        reason = told(node)[0].reasons[0]
        assert (reason.why, reason.detail) == (Why.STORE_AWAY, "the store is away")
        node.store.is_closed = False
        await asyncio.sleep(120)
        assert health_of(node.tier).away_since_ms is None
        assert told(node)[0].state in (State.PUBLISHED, State.DROPPED)

    play_node(scenario)


def test_a_log_that_is_not_tiered_has_local_segments_only() -> None:
    async def scenario(node: TierNode) -> None:
        await node.open()
        await node.tier.stop()
        await node.produce_sealed(b"a")
        facts = of_log(
            node.log,
            log_start=node.log.log_start,
            rules=Rules(is_tiered=False),
            now_ms=node.env.clock.now_ms(),
        )
        sealed, active = explain(facts)
        assert (sealed.reasons[0].why, active.reasons[0].why) == (Why.NOT_TIERED, Why.EMPTY)

    play_node(scenario)
