"""Restore of what is left after expiry and collection: from the right start, nothing missed."""

import pytest

from tests.cold.test_restore import DATA, ORDERS, OldCluster, by_place, orders_0, play, sent
from tests.hot.support import FixedClock, append
from tierlog.cold import codec
from tierlog.cold.changes import Expire, MoveLogStart, SetPolicy
from tierlog.cold.head import Head, PageRef, Policy
from tierlog.cold.page import LeafPage, Page
from tierlog.cold.report import Outcome
from tierlog.hot import LogDirectory, LogSettings
from tierlog.objectstore.port import Doomed
from tierlog.types import Offset

RECORDS = 39
"""Of a segment."""


async def expire(old: OldCluster, log_start: int) -> Head:
    """What lies below is garbage, and all of that is deleted."""
    head = await make_garbage(old, log_start)
    await old.store.delete([Doomed(key) for key in await garbage_keys(old, head)])
    return head


async def make_garbage(old: OldCluster, log_start: int) -> Head:
    leader = old.leaders[0]

    async def read(ref: PageRef) -> Page:
        return codec.open_page(ref, (await old.store.get(leader.keys.full(ref.key))).data)

    await leader.commit(SetPolicy(Policy()))
    await leader.commit(MoveLogStart(Offset(log_start), now_ms=1))
    return await leader.commit(
        Expire(Policy(), read=read, env=old.env, grace_ms=0, unpublished_bytes=0)
    )


async def garbage_keys(old: OldCluster, head: Head) -> list[str]:
    """With the segments that a page takes along."""
    leader = old.leaders[0]
    keys = [one.key for one in head.garbage]
    for one in head.garbage:
        if one.segments_from >= 0:
            page = codec.decode_page(
                (await old.store.get(leader.keys.full(one.key))).data, key=one.key
            )
            assert isinstance(page, LeafPage)
            keys += [entry.key for entry in page.entries if entry.base >= one.segments_from]
    return [leader.keys.full(key) for key in keys]


@pytest.mark.parametrize("segments", range(1, 12))
def test_a_restore_begins_where_the_log_did_and_misses_nothing(segments: int) -> None:
    async def scenario(old: OldCluster) -> None:
        await old.publish(0, 11)
        before = await expire(old, segments * RECORDS)
        assert before.garbage_end == segments * RECORDS
        report = await old.restore()
        assert report.is_sound, [one.problems for one in report.partitions]
        assert by_place(report)["orders", 0] is Outcome.RESTORED
        head = old.head(ORDERS, 0)
        assert (head.log_start, head.next_offset) == (segments * RECORDS, 11 * RECORDS)
        directory = LogDirectory(old.world.env("new"), f"{DATA}/log")
        log = await directory.open_log(f"{ORDERS}-0", LogSettings())
        assert (log.log_start, log.log_end) == (11 * RECORDS, 11 * RECORDS)
        await log.close()
        directory.close()

    play(scenario)


def test_an_object_that_is_missing_above_the_start_is_told() -> None:
    async def scenario(old: OldCluster) -> None:
        await old.publish(0, 11)
        await expire(old, 3 * RECORDS)
        keys = sorted(key for key in old.store.shelf.items if f"{ORDERS}/0/seg/" in key)
        await old.store.delete([Doomed(keys[0])])
        report = await old.restore()
        assert not report.is_sound
        assert "object-missing" in " ".join(orders_0(report).problems)

    play(scenario)


@pytest.mark.parametrize("segments", [1, 2, 3, 4, 11])
def test_producers_are_known_from_the_last_segment_though_it_is_garbage(segments: int) -> None:
    """By its own item of the garbage, or by that of its page."""

    async def scenario(old: OldCluster) -> None:
        await old.publish(0, segments)
        await make_garbage(old, segments * RECORDS)
        report = await old.restore()
        assert report.is_sound, [one.problems for one in report.partitions]
        assert await is_duplicate(old)

    play(scenario)


def test_once_the_garbage_is_gone_nobody_is_left_to_send_again() -> None:
    async def scenario(old: OldCluster) -> None:
        await old.publish(0, 11)
        await expire(old, 11 * RECORDS)
        assert (await old.restore()).is_sound
        assert not await is_duplicate(old)

    play(scenario)


async def is_duplicate(old: OldCluster) -> bool:
    """Whether the restored log knows a batch of the last segment again."""
    directory = LogDirectory(old.world.env("new"), f"{DATA}/log")
    log = await directory.open_log(f"{ORDERS}-0", LogSettings())
    again = append(log, sent(0), leader_epoch=6, now_ms=FixedClock().ms)
    await log.close()
    directory.close()
    return again.is_duplicate
