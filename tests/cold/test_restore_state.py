"""Restore where STATE is gone, unreadable or rolled back: what has data comes back all the same."""

from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest

from tests.cold.test_restore import (
    COMPACTED,
    DATA,
    FIRST_LIFE,
    ORDERS,
    PREFIX,
    QUIET,
    TOPICS,
    OldCluster,
    by_place,
    orders_0,
    play,
)
from tierlog.cold.changes import MoveLogStart, SetPolicy
from tierlog.cold.clusterstate import encode_state
from tierlog.cold.head import Policy
from tierlog.cold.layout import topic_receipt_key
from tierlog.cold.refusals import ClusterUnknown, ForeignIncarnation
from tierlog.cold.report import Outcome, TakenIn
from tierlog.cold.restore import _Restore
from tierlog.cold.restoreplan import is_unfinished
from tierlog.metastore import LocalMetaStore, values
from tierlog.objectstore.body import BytesBody
from tierlog.objectstore.port import Doomed
from tierlog.types import Offset

STATE = PREFIX + "cluster/STATE"
POLICY = Policy(retention_ms=90_000_000, retention_bytes=-1)
KNOWN = {"retention.ms": "90000000", "retention.bytes": "-1"}


async def published(old: OldCluster) -> None:
    """In the second partition alone."""
    await old.publish(1, 3)
    await old.leaders[1].commit(SetPolicy(POLICY))


async def write_state(old: OldCluster, data: bytes) -> None:
    await old.store.put(STATE, BytesBody(data))


async def roll_back(old: OldCluster, *, partitions: int = 0) -> None:
    """To before the topic was made, or had so many partitions."""
    state = old.state()
    topics = dict(state.topics)
    topic = topics.pop(ORDERS)
    if partitions:
        topics[ORDERS] = replace(topic, partitions=partitions)
    older = replace(state, version=state.version - 1, topics=topics)
    await write_state(old, encode_state(older))


def test_a_topic_that_state_does_not_know_is_taken_in() -> None:
    async def scenario(old: OldCluster) -> None:
        await published(old)
        await roll_back(old)
        report = await old.restore()
        assert report.taken_in == (
            TakenIn(topic="orders", topic_id=ORDERS, partitions=2, configs=KNOWN),
        )
        assert report.is_complete
        assert not report.is_sound, "its other settings are gone"
        assert "retention.ms=90000000" in report.problems[0]
        assert by_place(report)["orders", 1] is Outcome.RESTORED
        assert by_place(report)["orders", 0] is Outcome.EMPTY
        assert old.state().topics[ORDERS].partitions == 2
        metastore = await LocalMetaStore.open(old.world.env("new"), f"{DATA}/meta")
        content = {entry.key: entry.value for entry in (await metastore.list("/"))[0]}
        await metastore.close()
        found = values.TopicState.from_bytes(content[values.topic_key(bytes.fromhex(ORDERS))])
        assert (found.name, found.configs) == ("orders", KNOWN)

    play(scenario)


def test_partitions_that_state_does_not_know_come_back() -> None:
    async def scenario(old: OldCluster) -> None:
        await published(old)
        await roll_back(old, partitions=1)
        report = await old.restore()
        assert by_place(report)["orders", 1] is Outcome.RESTORED
        assert report.problems == ("cluster/STATE knew 1 of the 2 partitions that orders has",)
        assert old.state().topics[ORDERS].configs == TOPICS[ORDERS].configs

    play(scenario)


def test_what_a_receipt_tells_of_does_not_come_back() -> None:
    async def scenario(old: OldCluster) -> None:
        await published(old)
        await roll_back(old)
        await old.store.put(PREFIX + topic_receipt_key(ORDERS), BytesBody(b"swept"))
        report = await old.restore()
        assert report.is_sound
        assert {one.topic for one in report.partitions} == {"quiet", "latest"}

    play(scenario)


def test_two_topics_of_one_name_come_back_under_two() -> None:
    async def scenario(old: OldCluster) -> None:
        await published(old)
        state = old.state()
        topics = {"9" * 32: state.topics[ORDERS], QUIET: state.topics[QUIET]}
        await write_state(old, encode_state(replace(state, topics=topics)))
        report = await old.restore()
        assert [one.topic for one in report.taken_in] == [f"orders.{ORDERS}"]
        assert by_place(report)[f"orders.{ORDERS}", 1] is Outcome.RESTORED

    play(scenario)


@pytest.mark.parametrize("data", [None, b"garbage"])
def test_a_state_that_is_gone_or_garbage_is_made_again_from_heads(data: bytes | None) -> None:
    async def scenario(old: OldCluster) -> None:
        await published(old)
        if data is None:
            await old.store.delete([Doomed(STATE)])
        else:
            await write_state(old, data)
        report = await old.restore()
        assert report.is_complete
        assert (report.after, report.incarnation.number) == (FIRST_LIFE, 2)
        assert [one.topic for one in report.taken_in] == ["orders"]
        assert "made again from what the manifests say" in report.problems[0]
        assert by_place(report) == {
            ("orders", 0): Outcome.EMPTY,
            ("orders", 1): Outcome.RESTORED,
        }
        lives = [life.incarnation for life in old.state().lineage]
        assert lives == [FIRST_LIFE, report.incarnation]
        with pytest.raises(ForeignIncarnation):
            await old.keeper.refresh()

    play(scenario)


@pytest.mark.parametrize("is_head_garbled", [False, True])
def test_a_topic_without_any_head_is_known_by_its_segments(is_head_garbled: bool) -> None:
    async def scenario(old: OldCluster) -> None:
        await published(old)
        await roll_back(old)
        key = old.leaders[1].keys.head
        if is_head_garbled:
            await old.store.put(key, BytesBody(b"garbage"))
        else:
            await old.store.delete([Doomed(key)])
        report = await old.restore()
        assert by_place(report)["orders", 1] is Outcome.REBUILT

    play(scenario)


def test_without_state_and_heads_the_refusal_says_what_to_do() -> None:
    async def scenario(old: OldCluster) -> None:
        await old.store.delete([Doomed(STATE)])
        with pytest.raises(ClusterUnknown, match="put a version of it back"):
            await old.restore()
        assert not old.world.env("new").disk.exists(DATA)

    play(scenario)


def test_a_life_that_state_has_forgotten_is_not_begun_again() -> None:
    async def scenario(old: OldCluster) -> None:
        await published(old)
        older = old.store.shelf.items[STATE].data
        second = (await old.restore()).incarnation
        await write_state(old, older)
        report = await old.restore(host="third")
        assert (report.after, report.incarnation.number) == (second, 3)
        lives = [life.incarnation for life in old.state().lineage]
        assert lives == [FIRST_LIFE, second, report.incarnation]
        assert by_place(report)["orders", 1] is Outcome.RESTORED

    play(scenario)


def test_a_restore_that_was_overtaken_does_not_say_ready() -> None:
    async def scenario(old: OldCluster) -> None:
        await published(old)
        fill = _Restore._fill
        others: list[_Restore] = []

        async def overtaken(self: _Restore, *args: Any) -> None:
            await fill(self, *args)
            if not others:
                others.append(self)
                await old.restore(host="third")

        with patch.object(_Restore, "_fill", overtaken), pytest.raises(ForeignIncarnation):
            await old.restore()
        assert is_unfinished(old.world.env("new").disk, DATA)
        assert old.state().incarnation.number == 3

    play(scenario)


def test_partitions_are_told_by_the_names_of_their_topics() -> None:
    async def scenario(old: OldCluster) -> None:
        await published(old)
        report = await old.restore()
        told = [(one.topic, one.partition) for one in report.partitions]
        assert told == [("latest", 0), ("orders", 0), ("orders", 1), ("quiet", 0)]
        assert COMPACTED > ORDERS, "their ids have another order"

    play(scenario)


def test_records_are_those_from_the_log_start_on() -> None:
    async def scenario(old: OldCluster) -> None:
        head = await old.publish(0, 5)
        await old.leaders[0].commit(MoveLogStart(Offset(50)))
        report = await old.restore()
        told = orders_0(report)
        assert (told.log_start, told.next_offset) == (50, head.next_offset)
        assert told.records == head.next_offset - 50

    play(scenario)
