"""How long there is room on the disk: known early, and for ever where it does not fill up."""

import asyncio
import math

import pytest

from tests.broker.coldworld import Lives, in_world, until
from tierlog.broker.filling import Filling

GIB = 1 << 30
MIB = 1 << 20


def noted(filling: Filling, *, seconds: int, lost: int, produced: int, start_s: float = 0) -> float:
    """So many bytes a second, for a while; tells when it ended."""
    free, total = 500 * GIB, 0
    for second in range(0, seconds + 1, 5):
        filling.note(
            start_s + second,
            free_bytes=free - lost * second,
            produced_bytes=total + produced * second,
        )
    return start_s + seconds


def test_a_disk_that_does_not_shrink_lasts_for_ever() -> None:
    filling = Filling()
    assert filling.hours_left(GIB, is_draining=False) == math.inf, "nothing is known yet"
    noted(filling, seconds=600, lost=0, produced=100 * MIB)
    assert filling.hours_left(GIB, is_draining=True) == math.inf
    noted(filling, seconds=600, lost=-MIB, produced=100 * MIB)
    assert filling.hours_left(GIB, is_draining=True) == math.inf, "it drains"


def test_with_the_store_away_the_producers_rate_counts_at_once() -> None:
    filling = Filling()
    noted(filling, seconds=60, lost=0, produced=10 * MIB)
    assert filling.hours_left(360 * GIB, is_draining=False) == pytest.approx(10.24)


def test_a_disk_that_shrinks_faster_than_producers_write_is_believed() -> None:
    """A store in a folder of the same disk, or somebody else's files."""
    filling = Filling()
    noted(filling, seconds=60, lost=20 * MIB, produced=10 * MIB)
    for is_draining in (False, True):
        assert filling.hours_left(360 * GIB, is_draining=is_draining) == pytest.approx(5.12)


def test_older_rates_are_forgotten_by_half_in_five_minutes() -> None:
    filling = Filling()
    end = noted(filling, seconds=3600, lost=0, produced=8 * MIB)
    filling.note(end + 300, free_bytes=0, produced_bytes=0 + 8 * MIB * 3600)
    assert filling.produced_rate == pytest.approx(4 * MIB, rel=0.35)


def test_without_room_no_time_is_left() -> None:
    assert Filling().hours_left(0, is_draining=True) == 0.0
    assert Filling().hours_left(-GIB, is_draining=True) == 0.0


@in_world
async def test_a_node_knows_its_hours_in_an_outage_and_forgets_them_afterwards(
    lives: Lives,
) -> None:
    async with lives.node(tierlog_disk_free_min_ratio=0.0) as served:
        node = served.node
        await served.tiered("t")
        await served.make_cold("t", b"a" * 1000)
        lives.store.is_closed = True
        for _ in range(30):
            await served.seal("t", b"b" * 10_000)
            node.topics.named("t").stats.bytes_in += 10_000
            await asyncio.sleep(5)
        await until(lambda: not node.is_draining)
        assert 0 < node.hours_left < math.inf
        room = node.space.free_bytes - node.space.marks.refuse_bytes
        rate = node.filling.rate(is_draining=False)
        assert node.hours_left == pytest.approx(room / rate / 3600)
        lives.store.is_closed = False
        await until(lambda: served.uploads("t").status.backlog_segments == 0)
        await until(lambda: node.hours_left == math.inf)
