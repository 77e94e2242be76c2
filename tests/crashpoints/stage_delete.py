"""Crash points of a topic's deletion.

    round 0    a node starts and uploads a topic
    deletion   another topic is uploaded and deleted: that is noted in STATE, its objects are
               swept, a receipt is written
    round 1    the first topic goes on
    the end    somebody looks for what landed late

Every call of the deletion and the sweep is a point. Whoever dies there is started again; a zombie
wakes when its successor has swept. In the end nothing is left of the deleted topic, there is a
receipt, and the other one has lost nothing. At every moment: the note in STATE goes after the
objects, the receipt comes after the data.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING
from unittest.mock import patch

from tests.crashpoints import member as members
from tests.crashpoints.member import PLACES, PREFIX, Member, Unsettled
from tests.crashpoints.story import SEED, Story, small_pages
from tests.crashpoints.tale import Tale
from tests.hot.support import append, batch
from tierlog.cold.clusterstate import TopicRecord, decode_state
from tierlog.cold.codec import decode_head
from tierlog.cold.layout import STATE, parse_page_key, topic_receipt_key
from tierlog.errors import TierlogError
from tierlog.sim import SimWorld
from tierlog.sim.bucket import SimBucket
from tierlog.types import LeaderEpoch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.crashpoints.ledger import Ledger
    from tests.crashpoints.member import Role
    from tests.crashpoints.points import Shot
    from tierlog.env import Env
    from tierlog.hot import Log
    from tierlog.objectstore.port import Written

STAGE = "delete topic"
DOOMED = "d" * 32
DOOMED_PREFIX = f"{PREFIX}t/{DOOMED}/"
RECEIPT = PREFIX + topic_receipt_key(DOOMED)
RECORD = TopicRecord(name="doomed", partitions=1)
SWEPT_SECONDS = 400.0
"""Virtual: a node that found the store failing comes again after four seconds."""
SETTINGS = replace(members.SETTINGS, garbage_grace_ms=0, sweep_retry_ms=4_000)


class JudgedBucket(SimBucket):
    """Looks at every write when it lands."""

    def __init__(self, world: SimWorld) -> None:
        super().__init__(world.rng("bucket"), world=world)
        self.problems: list[str] = []
        self._was_noted = False

    def record(self, kind: str, key: str, *, host: str, written: Written) -> None:
        before = len(self.landed)
        super().record(kind, key, host=host, written=written)
        if len(self.landed) == before:
            return
        if key == PREFIX + STATE:
            self._state_landed()
        elif key == RECEIPT:
            for one in self._left(before):
                if not one.endswith("/HEAD"):
                    self.problems.append(f"the receipt is written, and {one} is there")

    def _state_landed(self) -> None:
        state = decode_state(self.landed[-1].item.data)
        is_noted = DOOMED in state.deleted
        if self._was_noted and not is_noted:
            receipt = [number for number, one in enumerate(self.landed) if one.key == RECEIPT]
            if not receipt:
                self.problems.append("the note in STATE is gone, and there is no receipt")
            for one in self._left(receipt[0] if receipt else len(self.landed)):
                self.problems.append(f"the note in STATE is gone, and {one} is there")
        self._was_noted = is_noted

    def _left(self, until: int) -> list[str]:
        """What is there of the topic and landed before that write: later ones are zombies'."""
        early = {one.key for one in self.landed[:until]}
        return [one for one in self.shelf.items if one.startswith(DOOMED_PREFIX) and one in early]


class DeletingMember(Member):
    def __init__(self, env: Env, bucket: SimBucket, role: Role, ledger: Ledger) -> None:
        with patch.object(members, "SETTINGS", SETTINGS):
            super().__init__(env, bucket, role, ledger)
        self._doomed: Log | None = None

    async def open_doomed(self) -> None:
        self._doomed = await self.tier.maker.open_log(
            self._directory,
            f"{DOOMED}-0",
            members.LOG_SETTINGS,
            topic_id=DOOMED,
            topic=RECORD,
            index=0,
            leader_epoch=LeaderEpoch(self.role.leader_epoch),
            tiering=members.TIERING,
            is_first=True,
        )
        await self.tier.attach(
            DOOMED,
            RECORD,
            0,
            self._doomed,
            leader_epoch=LeaderEpoch(self.role.leader_epoch),
            tiering=members.TIERING,
        )

    async def fill_doomed(self) -> None:
        log = self._doomed
        assert log is not None, "opened"
        for _ in range(3):
            now_ms = self.env.clock.now_ms()
            data = batch(b"doomed" * 50, timestamp=now_ms)
            append(log, data, leader_epoch=self.role.leader_epoch, now_ms=now_ms)
            log.roll()
        await log.settle()
        if not await self._settled():
            raise Unsettled("; ".join(self._troubles()))

    async def delete_doomed(self) -> None:
        """As the broker does it: the log goes, then the bucket is told, as often as it takes."""
        await self.tier.detach(DOOMED, 0)
        if self._doomed is not None:
            await self._doomed.close()
        while self.tier.refusal is None:
            try:
                await self.tier.delete_topic(DOOMED)
                break
            except TierlogError:
                await asyncio.sleep(1.0)
        await self.wait_swept()

    async def wait_swept(self) -> None:
        until = self.env.clock.monotonic() + SWEPT_SECONDS
        while self.tier.sweeper.waiting and self.tier.refusal is None:
            if self.env.clock.monotonic() > until:
                raise Unsettled(f"not swept: {self.tier.sweeper.troubles}")
            await asyncio.sleep(0.5)


class DeletingStory(Story):
    def __init__(self, world: SimWorld, shot: Shot | None) -> None:
        super().__init__(world, shot)
        self.judged = JudgedBucket(world)
        self.judged.on_call = self.bucket.on_call
        self.bucket = self.judged
        self.ledger.bucket = self.judged
        self.is_filled = self.is_decided = self.is_swept = False
        self._is_cleaning = False

    async def tell(self) -> None:
        await self._live(until=2)
        await self._end_zombie()
        self._is_cleaning = True
        await self._live(until=3)
        self.problems += self._deletions()
        self.bucket.deleted.clear()
        self.problems += self.ledger.problems()
        self.problems += self.judged.problems
        self.problems += self._leftovers()

    async def _life(self, role: Role, until: int) -> None:
        member = DeletingMember(self.gate.env(role.host), self.bucket, role, self.ledger)
        self.members.append(member)
        await member.open()
        while self.round < until and self._is_owner(role):
            if self.round:
                await self._play_deletion(member, role)
            await member.play_round(lambda: self._is_owner(role))
            if self._is_owner(role):
                self.round += 1
                self._thaw()
        if self._is_owner(role):
            await member.close()

    async def _play_deletion(self, member: DeletingMember, role: Role) -> None:
        if not self.is_decided:
            await member.open_doomed()
            if not self.is_filled:
                await member.fill_doomed()
                self.is_filled = True
            self.is_decided = True
        if not self.is_swept or not self._is_owner(role):
            await member.delete_doomed()
            self.is_swept = self.is_swept or self._is_owner(role)
        if self._is_cleaning:
            await member.tier.orphans._look_for_unknown()
            await member.wait_swept()

    def _deletions(self) -> Iterator[str]:
        """Of what lives. Pages that were replaced by fuller ones go: there is no grace here."""
        replaced = {
            place.keys.full(one.key)
            for place in PLACES
            for data in self.bucket.versions(place.keys.head)
            for one in decode_head(data, key=place.keys.head).garbage
            if parse_page_key(one.key) is not None
        }
        for key in self.bucket.deleted:
            if not key.startswith(DOOMED_PREFIX) and key not in replaced:
                yield f"{key} was deleted"

    def _leftovers(self) -> list[str]:
        items = self.bucket.shelf.items
        found = [f"{key} is left" for key in items if key.startswith(DOOMED_PREFIX)]
        if RECEIPT not in items:
            found.append("there is no receipt")
        state = decode_state(items[PREFIX + STATE].data)
        if DOOMED in state.topics or DOOMED in state.deleted:
            found.append("STATE still knows the topic")
        return found


def tell(shot: Shot | None, *, seed: int = SEED) -> DeletingStory:
    world = SimWorld(seed, seconds_max=7200)
    story = DeletingStory(world, shot)
    with small_pages():
        try:
            world.run(story.tell())
        except Unsettled as fault:
            story.problems.append(f"never settled: {fault}")
        except Exception as fault:  # noqa: BLE001  whatever it is, it is a finding
            story.problems.append(f"{type(fault).__name__}: {fault}")
    return story


TALE = Tale("delete", (STAGE,), tell)
