"""Holds of a node with a bucket: when they are told, what they keep, and what comes of faults."""

import asyncio
from collections.abc import Callable

import pytest

from tests.broker import asks
from tests.broker.coldworld import DATA, ColdServed, Lives, in_world, until
from tests.broker.test_cold_retention import alter, retention_soon
from tests.broker.test_late import remove
from tierlog.broker.errors import PolicyViolation, UnknownTopic
from tierlog.broker.holds import Holds, Listed, Span, Told
from tierlog.broker.node import Node
from tierlog.cold.head import Hold
from tierlog.cold.holds import HOLDS_MAX, NO_END
from tierlog.cold.refusals import HoldRefused
from tierlog.cold.restore import restore
from tierlog.config.directories import COLD, LOGS
from tierlog.hot import smallfile
from tierlog.metastore import values
from tierlog.objectstore.errors import StoreUnavailable
from tierlog.sim.storefaults import Fate, StoreCall, When
from tierlog.types import Offset
from tierlog.wire.error_codes import ErrorCode
from tierlog.wire.messages.delete_topics import DeleteTopicsRequest

CASE = "case-7"
ALL = Hold(CASE, Offset(0), NO_END, "a case")


def holds_of(served: ColdServed) -> Holds:
    assert served.node.tiering is not None
    return served.node.tiering.holds


async def place(
    served: ColdServed, *spans: Span, name: str = "t", reason: str = "a case"
) -> list[Told]:
    topic = served.node.topics.named(name)
    wanted = spans or [Span(index=one.index) for one in topic.partitions]
    return await holds_of(served).place(topic, wanted, hold_id=CASE, reason=reason)


async def release(served: ColdServed, name: str = "t") -> list[Told]:
    return await holds_of(served).release(served.node.topics.named(name), CASE)


def listed(served: ColdServed) -> list[Listed]:
    return list(holds_of(served).listed(served.node.topics))


async def delete_topic(served: ColdServed, name: str = "t") -> tuple[int, str | None]:
    request = DeleteTopicsRequest(topic_names=[name], timeout_ms=5000)
    (answer,) = (await served.call(request, 5)).responses
    return answer.error_code, answer.error_message


def span(start: int | None = None, end: int | None = None, *, index: int = 0) -> Span:
    return Span(
        index=index,
        start=None if start is None else Offset(start),
        end=None if end is None else Offset(end),
    )


def is_write_of_head(kind: str, key: str, index: int = 0) -> bool:
    return kind.startswith("put") and key.endswith(f"/{index}/HEAD")


# Told


@in_world
async def test_a_hold_stands_in_every_head_when_it_is_told(lives: Lives) -> None:
    """Also in that of a partition which had none: nothing of it was ever uploaded."""
    async with lives.node() as served:
        topic = await served.tiered("t", partitions=3)
        await served.make_cold("t", b"a", b"b")
        await served.append("t", b"c", index=1)
        told = await place(served)
        assert told == [Told(partition=index, hold=ALL) for index in range(3)]
        assert [lives.head(topic, index).holds for index in range(3)] == [(ALL,)] * 3
        assert [one.is_placed for one in listed(served)] == [True] * 3
        version = lives.head(topic).version
        assert await place(served) == told
        assert lives.head(topic).version == version, "it is there already"
        await served.seal("t", b"d", index=1)
        await until(lambda: lives.head(topic, 1).next_offset == 2)
        assert lives.head(topic, 1).holds == (ALL,)
        assert await served.values("t", index=1) == [b"c", b"d"]
    async with lives.node() as served:
        assert [one.hold for one in listed(served)] == [ALL] * 3
        assert [one.hold for one in await release(served)] == [ALL] * 3
        assert [lives.head(topic, index).holds for index in range(3)] == [()] * 3
        assert (await release(served), listed(served)) == ([], [])


@in_world
async def test_what_cannot_be_held_is_refused_with_the_reason(lives: Lives) -> None:
    async with lives.node() as served:
        await served.create("plain", remote_storage_enable="false")
        await served.create("compacted", cleanup_policy="compact")
        with pytest.raises(PolicyViolation, match="'plain' is not tiered"):
            await place(served, name="plain")
        with pytest.raises(PolicyViolation, match="'compacted' is compacted"):
            await place(served, name="compacted")
        topic = await served.tiered("t", partitions=2)
        await served.make_cold("t", b"a", b"b")
        with pytest.raises(HoldRefused, match="one line"):
            await place(served, reason="")
        await asks.delete_records(served, "t", 1)
        gone, fine = await place(served, span(0, 2), span(index=1))
        assert gone.error == "t-0: offsets 0 to 0 are deleted already: it begins at 1"
        assert (gone.is_retriable, fine.error) == (False, None)
        assert (lives.head(topic).holds, len(lives.head(topic, 1).holds)) == ((), 1)
        other = await place(served, span(index=1), reason="another")
        assert "there is a hold case-7 already" in (other[0].error or "")
        assert [one.partition for one in listed(served)] == [1], "what was refused is not kept"


@in_world
async def test_with_the_store_away_nobody_is_told_and_asking_again_completes_it(
    lives: Lives,
) -> None:
    async with lives.node() as served:
        topic = await served.tiered("t", partitions=2)
        await served.make_cold("t", b"a")
        lives.store.is_closed = True
        began = lives.env.clock.monotonic()
        for one in await place(served):
            assert (one.hold, one.error is None, one.is_retriable) == (None, False, True)
        assert lives.env.clock.monotonic() - began < 16
        assert [one.is_placed for one in listed(served)] == [False, False]
        lives.store.is_closed = False
        await until(lambda: served.node.tiering is not None and served.node.tiering.tier.is_ready)
        assert [one.error for one in await place(served)] == [None, None]
        assert [lives.head(topic, index).holds for index in range(2)] == [(ALL,)] * 2


@in_world
async def test_holds_that_nobody_was_told_of_are_bounded_as_well(lives: Lives) -> None:
    async with lives.node() as served:
        topic = await served.tiered("t")
        await served.make_cold("t", b"a")
        cold = served.at("t").cold
        assert cold is not None
        cold.holding = {f"case-{one}": ALL._replace(id=f"case-{one}") for one in range(HOLDS_MAX)}
        (known,) = await holds_of(served).place(
            topic, [span()], hold_id=f"case-{HOLDS_MAX - 1}", reason=ALL.reason
        )
        (more,) = await holds_of(served).place(topic, [span()], hold_id="more", reason="why")
        assert known.error is None
        assert "as many as there may be" in (more.error or "")


@in_world
async def test_a_silent_store_is_not_waited_for_longer_than_clients_wait(lives: Lives) -> None:
    async with lives.node() as served:
        topic = await served.tiered("t")
        await served.make_cold("t", b"a")
        clock = lives.env.clock
        lives.store.silence_s, began = 30.0, clock.monotonic()
        (one,) = await place(served)
        assert (one.is_retriable, one.error is not None) == (True, True)
        (two,) = await place(served)
        assert two.is_retriable, "the first is still under way"
        assert clock.monotonic() - began < 32
        lives.store.silence_s = 0.0
        await asyncio.sleep(120)
        assert [one.error for one in await place(served)] == [None]
        assert lives.head(topic).holds == (ALL,)


@in_world
async def test_each_partition_is_told_for_itself(lives: Lives) -> None:
    async with lives.node() as served:
        topic = await served.tiered("t", partitions=3)

        def refuse(kind: str, key: str) -> None:
            if is_write_of_head(kind, key, 1):
                raise StoreUnavailable("not this one")

        lives.store.watch = refuse
        assert [one.error is None for one in await place(served)] == [True, False, True]
        lives.store.watch = lambda _kind, _key: None
        assert [one.error for one in await place(served)] == [None] * 3
        assert [lives.head(topic, index).holds for index in range(3)] == [(ALL,)] * 3


# What it keeps


@in_world
async def test_a_hold_wins_over_retention_until_it_is_released(lives: Lives) -> None:
    async with lives.node() as served:
        topic = await served.tiered("t", retention_ms="60000")
        await served.make_cold("t", b"a")
        await served.make_cold("t", b"b")
        await place(served, span(1, 2))
        await asyncio.sleep(600)
        assert lives.head(topic).log_start == 1
        assert await served.values("t", 1) == [b"b"]
        await release(served)
        await until(lambda: lives.head(topic).log_start == 2)


@in_world
async def test_where_nothing_is_copied_a_hold_keeps_the_local_log(lives: Lives) -> None:
    retention_soon(lives)
    async with lives.node() as served:
        await served.tiered("t", retention_ms="60000")
        assert await alter(served, "true", name="remote.log.copy.disable") == ErrorCode.NONE
        await served.seal("t", b"a")
        assert [one.error for one in await place(served)] == [None]
        await asyncio.sleep(600)
        assert await served.values("t") == [b"a"]
        await release(served)
        await until(lambda: served.at("t").log_start == 1)


@in_world
async def test_a_hold_wins_over_deleterecords_in_both_tiers(lives: Lives) -> None:
    async with lives.node() as served:
        topic = await served.tiered("t")
        await served.make_cold("t", b"a", b"b")
        await served.append("t", b"c", b"d")
        await place(served, span(1))
        for offset in (2, 3, 4):
            answer = await asks.delete_records(served, "t", offset)
            assert answer.error_code == ErrorCode.POLICY_VIOLATION
        assert (await asks.delete_records(served, "t", 1)).low_watermark == 1
        assert await served.values("t", 1) == [b"b", b"c", b"d"]
        await release(served)
        assert (await asks.delete_records(served, "t", 3)).low_watermark == 3
        assert lives.head(topic).log_start == 2


@in_world
async def test_a_hold_wins_over_the_deletion_of_its_topic(lives: Lives) -> None:
    async with lives.node() as served:
        topic = await served.tiered("t", partitions=2)
        await served.make_cold("t", b"a")
        await place(served, span(index=1))
        code, sentence = await delete_topic(served)
        assert (code, "hold case-7 keeps partition 1 (a case)" in (sentence or "")) == (44, True)
        assert await served.values("t") == [b"a"]
        await release(served)
        assert (await delete_topic(served))[0] == ErrorCode.NONE
        await until(lambda: topic.id.hex() in lives.state().deleted)


@in_world
async def test_a_held_topic_with_a_late_partition_is_not_deleted(lives: Lives) -> None:
    """Its log is gone and the store away; the copy of HEAD knows of the hold."""
    async with lives.node() as served:
        topic = await served.tiered("t")
        await served.make_cold("t", b"a")
        assert [one.error for one in await place(served)] == [None]
    remove(lives, f"{DATA}/{LOGS}/{values.log_name(topic.id, 0)}")
    lives.store.is_closed = True
    async with lives.node() as served:
        assert served.node.topics.named("t").partitions[0].late is not None
        assert (await delete_topic(served))[0] == ErrorCode.POLICY_VIOLATION
        assert [one.is_retriable for one in await place(served)] == [True]
        assert [one.is_retriable for one in await release(served)] == [True]


# At once


class Pause:
    """Stops the next write of HEAD until it is let go."""

    def __init__(self, lives: Lives) -> None:
        self._ask = lives.store._ask
        self.reached, self.go = asyncio.Event(), asyncio.Event()
        lives.store._ask = self.ask  # type: ignore[method-assign, assignment]  # a stand-in

    async def ask(self, kind: str, key: str, land: Callable[[], object]) -> object:
        if is_write_of_head(kind, key):
            self.reached.set()
            await self.go.wait()
        return await self._ask(kind, key, land)


@in_world
async def test_what_a_hold_on_its_way_covers_is_not_deleted_meanwhile(lives: Lives) -> None:
    async with lives.node() as served:
        topic = await served.tiered("t")
        await served.make_cold("t", b"a")
        await served.append("t", b"b", b"c")
        pause = Pause(lives)
        placing = asyncio.ensure_future(place(served))
        await pause.reached.wait()
        assert lives.head(topic).holds == ()
        answer = await asks.delete_records(served, "t", 2)
        assert answer.error_code == ErrorCode.POLICY_VIOLATION
        assert (await delete_topic(served))[0] == ErrorCode.POLICY_VIOLATION
        pause.go.set()
        assert [one.error for one in await placing] == [None]
        assert await served.values("t") == [b"a", b"b", b"c"]


@in_world
async def test_a_topic_that_is_being_deleted_takes_no_hold(lives: Lives) -> None:
    async with lives.node() as served:
        topic = await served.tiered("t")
        async with holds_of(served).none_on(topic), holds_of(served).none_on(topic):
            with pytest.raises(UnknownTopic):
                await place(served)
        assert [one.error for one in await place(served)] == [None]


@in_world
async def test_a_hold_in_doubt_keeps_what_it_covers_until_somebody_asks_again(
    lives: Lives,
) -> None:
    async with lives.node() as served:
        topic = await served.tiered("t")
        await served.make_cold("t", b"a")
        told = await in_doubt(lives, place(served))
        assert (told[0].hold, told[0].is_retriable) == (None, True)
        assert not listed(served)[0].is_placed
        answer = await asks.delete_records(served, "t", 1)
        assert answer.error_code == ErrorCode.POLICY_VIOLATION
        assert [one.error for one in await place(served)] == [None]
        assert (lives.head(topic).holds, lives.head(topic).policy_version) == ((ALL,), 1)
        told = await in_doubt(lives, release(served))
        assert (told[0].error is not None, told[0].is_retriable) == (True, True)
        assert [(one.hold, one.error) for one in await release(served)] == [(ALL, None)]
        assert (lives.head(topic).holds, listed(served)) == ((), [])


async def in_doubt(lives: Lives, work: object) -> list[Told]:
    """Writes of HEAD take effect and nobody hears of it, nor can it be read."""

    def unheard(call: StoreCall) -> Fate | None:
        if call.key.endswith("/HEAD"):
            return Fate(When.AFTER if call.kind.startswith("put") else When.BEFORE)
        return None

    lives.bucket.on_call = unheard
    told: list[Told] = await work  # type: ignore[misc]  # one of two coroutines
    lives.bucket.on_call = None
    return told


# Other lives


@in_world
async def test_a_restore_from_the_bucket_keeps_holds(lives: Lives) -> None:
    async with lives.node() as served:
        topic = await served.tiered("t", partitions=2, retention_ms="60000")
        await served.make_cold("t", b"a", b"b")
        assert [one.error for one in await place(served)] == [None, None]
    report = await restore(lives.env, lives.store, "/new")
    assert report.is_sound
    node = await Node.open(lives.env, lives.settings, "/new", store=lives.store)
    await node.start()
    served = ColdServed(node, None, lives.env.disk)  # type: ignore[arg-type]  # nobody wedges it
    assert [(one.partition, one.hold, one.is_placed) for one in listed(served)] == [
        (index, ALL, True) for index in range(2)
    ]
    answer = await asks.delete_records(served, "t", 1)
    assert answer.error_code == ErrorCode.POLICY_VIOLATION
    assert (await delete_topic(served))[0] == ErrorCode.POLICY_VIOLATION
    await asyncio.sleep(600)
    assert await served.values("t") == [b"a", b"b"]
    assert [one.error for one in await release(served)] == [None, None]
    await until(lambda: lives.head(topic).log_start == 2)
    await node.stop()


@in_world
async def test_a_hold_that_a_life_did_not_know_of_keeps_what_the_bucket_has(lives: Lives) -> None:
    """It died between the write of HEAD and that of its copy; records are deleted before the next
    life has read HEAD. Uploads go on, and what was held is there when it is looked for."""
    async with lives.node() as served:
        topic = await served.tiered("t")
        await served.make_cold("t", b"a", b"b")
        path = f"{DATA}/{COLD}"
        before = smallfile.read_all(lives.env.disk, f"{path}/{topic.id.hex()}-0.head")
        await place(served, span(1))
    smallfile.replace(lives.env.disk, path, f"{topic.id.hex()}-0.head", before)
    lives.store.is_closed = True
    async with lives.node() as served:
        assert listed(served) == []
        assert (await asks.delete_records(served, "t", 2)).error_code != ErrorCode.NONE
        await served.seal("t", b"c")
        lives.store.is_closed = False
        await until(lambda: lives.head(topic).next_offset == 3)
        head = lives.head(topic)
        assert (head.log_start, [one.id for one in head.holds]) == (1, [CASE])
        answer = await asks.delete_records(served, "t", 3)
        assert answer.error_code == ErrorCode.POLICY_VIOLATION
        assert (await place(served))[0].hold == ALL._replace(start=Offset(2)), "1 is not served"
        await release(served)
        await until(lambda: lives.head(topic).log_start == 2)
