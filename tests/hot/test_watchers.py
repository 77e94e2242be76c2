"""Who hears of a log's changes, and when."""

import asyncio
from typing import Any

from tests.hot.support import SMALL, append_values, open_log
from tierlog.hot import LogSettings
from tierlog.hot.watchers import Watchers
from tierlog.sim.disk import SimDisk
from tierlog.types import Offset

LAZY = LogSettings(flush_messages=1000)


class Ear:
    """Counts how often it was called."""

    def __init__(self) -> None:
        self.heard = 0

    def __call__(self) -> None:
        self.heard += 1


async def test_a_watcher_is_told_once_for_what_one_turn_brought() -> None:
    watchers, ear = Watchers(), Ear()
    watchers.add(ear)
    watchers.add(ear)
    watchers.notify()
    watchers.notify()
    assert ear.heard == 0
    await asyncio.sleep(0)
    assert ear.heard == 1
    watchers.notify()
    await asyncio.sleep(0)
    assert ear.heard == 2


async def test_whoever_stopped_watching_is_not_told_what_happened_before() -> None:
    watchers, ear, other = Watchers(), Ear(), Ear()
    watchers.add(lambda: watchers.remove(ear))
    watchers.add(ear)
    watchers.add(other)
    watchers.notify()
    await asyncio.sleep(0)
    assert (ear.heard, other.heard) == (0, 1)
    watchers.remove(ear)


async def test_a_watcher_that_raises_keeps_no_other_from_being_told() -> None:
    reported: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))

    def fail() -> None:
        raise ValueError("deaf")

    watchers, ear = Watchers(), Ear()
    watchers.add(fail)
    watchers.add(ear)
    watchers.notify()
    await asyncio.sleep(0)
    assert ear.heard == 1
    assert [str(one["exception"]) for one in reported] == ["deaf"]


def test_without_watchers_no_loop_is_needed() -> None:
    Watchers().notify()


async def test_a_watcher_hears_of_a_sync_and_not_of_an_append_before_it() -> None:
    log, syncs = open_log(SimDisk())
    ear = Ear()
    log.watch(ear)
    append_values(log, b"a")
    await asyncio.sleep(0)
    assert ear.heard == 0
    syncs.run_all()
    await asyncio.sleep(0)
    assert ear.heard == 1
    log.unwatch(ear)
    append_values(log, b"b")
    syncs.run_all()
    await asyncio.sleep(0)
    assert ear.heard == 1


async def test_a_watcher_of_a_log_that_shows_at_once_hears_of_the_append() -> None:
    log, _ = open_log(SimDisk(), LAZY)
    ear = Ear()
    log.watch(ear)
    append_values(log, b"a")
    await asyncio.sleep(0)
    assert ear.heard == 1


async def test_a_watcher_hears_of_trims_truncations_and_the_end() -> None:
    log, syncs = open_log(SimDisk())
    append_values(log, b"a")
    append_values(log, b"b")
    syncs.run_all()
    ear = Ear()
    log.watch(ear)
    log.trim(Offset(1))
    await asyncio.sleep(0)
    assert ear.heard == 1
    syncs.run_all()
    log.truncate(Offset(1))
    await asyncio.sleep(0)
    assert ear.heard == 2
    log.close_now()
    await asyncio.sleep(0)
    assert ear.heard == 3


async def test_a_watcher_hears_that_the_directory_broke() -> None:
    log, syncs = open_log(SimDisk())
    ear = Ear()
    log.watch(ear)
    syncs.latch(OSError("gone"))
    await asyncio.sleep(0)
    assert ear.heard == 1


async def test_a_watcher_hears_that_other_settings_show_more() -> None:
    log, _ = open_log(SimDisk())
    append_values(log, b"a")
    ear = Ear()
    log.watch(ear)
    waiting = log.wait_visible(log.log_end)
    log.apply(SMALL)
    await asyncio.sleep(0)
    assert (ear.heard, waiting.done()) == (0, False)
    log.apply(LAZY)
    await asyncio.sleep(0)
    assert (ear.heard, waiting.done()) == (1, True)
