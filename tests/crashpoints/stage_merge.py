"""Crash points of merging.

    rounds 0, 1    a node uploads small segments of two partitions, and merges what it may
    rounds 2, 3    its second start; objects go in parts
    restore        from the bucket alone
    round 4        the restored node goes on, and merges what the first one left

Every call of a merge is a point: reading the sources, the local file, sending, replacing pages and
HEAD. Whoever dies there is started again; a zombie wakes when its successor has merged. In the end
every record is there, byte for byte, the chain leads through every link to the first uploads, and
nothing was deleted: what was replaced waits for its time.
"""

from __future__ import annotations

import asyncio
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING
from unittest.mock import patch

from tests.crashpoints import member as members
from tests.crashpoints.member import PLACES, Member, Place, Unsettled
from tests.crashpoints.story import SEED, Story
from tests.crashpoints.tale import Tale
from tierlog.cold import chain, merging, sources
from tierlog.cold.changes import Append, Replace
from tierlog.cold.tree import Limits
from tierlog.sim import SimWorld

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.crashpoints.points import Shot
    from tierlog.cold.entry import Entry

STAGE = "merge"
SETTINGS = replace(members.SETTINGS, merge_interval_ms=300)
LOG_SETTINGS = replace(members.LOG_SETTINGS, segment_bytes=1 << 20)
PAGES = Limits(entries_inline=3, leaf_entries=2, leaves_inline=1, index_leaves=3)
"""Runs stand in HEAD, in its leaves and below its index pages."""
RUN_MIN, GROWTH = 2, 2
QUIET_SECONDS = 6.0
"""Nothing was merged for so long, more than the longest pause after a failure: nothing will be."""


class MergingMember(Member):
    def __init__(self, *args: object) -> None:
        with patch.object(members, "SETTINGS", SETTINGS):
            super().__init__(*args)  # type: ignore[arg-type]  # as of the base

    async def open(self) -> None:
        with patch.object(members, "LOG_SETTINGS", LOG_SETTINGS):
            await super().open()

    async def play_round(self, is_owner: Callable[[], bool]) -> None:
        """And then it merges whatever there is."""
        await super().play_round(is_owner)
        quiet, count = 0.0, -1
        while quiet < QUIET_SECONDS:
            await asyncio.sleep(0.5)
            quiet = quiet + 0.5 if count == self.tier.stats.merged_objects else 0.0
            count = self.tier.stats.merged_objects


class MergingStory(Story):
    async def tell(self) -> None:
        await self._live(until=2)
        await self._live(until=4, sends_parts=True)
        await self._restore("spare")
        if lost := self.ledger.cut():
            self.problems.append(f"the restore misses {lost} records that were cold")
        await self._live(until=5)
        await self._end_zombie()
        self.problems += self.ledger.problems()
        for member in self.members:
            self.problems += self.ledger.drop_problems(member)
        for place in PLACES:
            self.problems += self._merge_problems(place)

    def _merge_problems(self, place: Place) -> Iterator[str]:
        """Links lead to uploads that really were; what is not listed is garbage, or an orphan."""
        head = self.ledger.head(place)
        assert head is not None
        entries = list(self.ledger._entries(place, head))
        merged = [one for one in entries if one.replaces is not None]
        if not merged:
            yield f"{place.keys.prefix}: nothing is merged"
        for entry in merged:
            yield from self._link_problems(place, entry)
        if head.bytes != sum(one.size for one in entries):
            yield f"{place.keys.head} says {head.bytes} bytes"
        keys = {one.key for one in entries} | {one.key for one in head.garbage}
        if missing := {place.keys.full(key) for key in keys} - set(self.bucket.shelf.items):
            yield f"{min(missing)} is listed or waits for its time, and is gone"

    def _link_problems(self, place: Place, entry: Entry) -> Iterator[str]:
        data = self.bucket.shelf.items[place.keys.full(entry.key)].data
        span = sources.span_of(entry)
        assert span is not None, "a merged object names its sources"
        uploads = sources.opened(entry, data[span.start : span.end])
        before = chain.check(entry.replaces.before, uploads, key=entry.key)  # type: ignore[union-attr]
        if before != entry.chain:
            yield f"{entry.key}: its sources do not lead to its place in the chain"
        landed = {one.key: one.item.data for one in self.bucket.landed}
        there = b"".join(landed[place.keys.full(one.key)][: one.data_bytes] for one in uploads)
        if there != data[: entry.data_bytes]:
            yield f"{entry.key} has other bytes than its sources had"


@contextmanager
def small() -> Iterator[None]:
    with ExitStack() as stack:
        stack.enter_context(patch("tierlog.cold.uploader.Append", partial(Append, limits=PAGES)))
        stack.enter_context(patch("tierlog.cold.merger.Replace", partial(Replace, limits=PAGES)))
        stack.enter_context(patch.object(merging, "RUN_MIN", RUN_MIN))
        stack.enter_context(patch.object(merging, "GROWTH", GROWTH))
        stack.enter_context(patch("tests.crashpoints.story.Member", MergingMember))
        yield


def tell(shot: Shot | None, *, seed: int = SEED) -> MergingStory:
    world = SimWorld(seed, seconds_max=3600)
    story = MergingStory(world, shot)
    with small():
        try:
            world.run(story.tell())
        except Unsettled as fault:
            story.problems.append(f"never settled: {fault}")
        except Exception as fault:  # noqa: BLE001  whatever it is, it is a finding
            story.problems.append(f"{type(fault).__name__}: {fault}")
    return story


TALE = Tale("merge", (STAGE,), tell)
