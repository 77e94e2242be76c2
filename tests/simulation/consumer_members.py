"""Members of a simulated consumer group in KIP-848's protocol: see `group_members` for the rest.

A member beats with what it has. What it is not assigned any more it lets go at once, and says so by
its next beat; what is new it reads from the committed offset on. After a beat without an answer it
says everything, to hear everything. Static members leave for a while, and come back as others of
the same name.

Noted here, and complained about at once: a partition that two members were told to have within a
session's time, none of them having let go of it.
"""

import asyncio
from typing import Any

from tests.simulation.group_members import (
    BEAT_S,
    FORGOTTEN,
    GROUP,
    PASSING,
    REBALANCE_MS,
    TOPIC,
    GroupMember,
    Session,
    Setback,
    code_of,
)
from tierlog.client import Client
from tierlog.env import Env
from tierlog.wire.error_codes import ErrorCode
from tierlog.wire.messages import consumer_group_heartbeat as beating
from tierlog.wire.messages import find_coordinator as finding

LOST = FORGOTTEN | {ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNRELEASED_INSTANCE_ID}
"""It has nothing any more, and joins again."""
STALE = frozenset({ErrorCode.STALE_MEMBER_EPOCH})
"""The next beat brings the epoch."""
LEAVING, PAUSING = -1, -2


class ConsumerSession(Session):
    def __init__(self, of: GroupMember, env: Env, client: Client) -> None:
        super().__init__(of, env, client)
        self._begin()

    def _begin(self) -> None:
        """As somebody new."""
        self.member_id = str(self._env.rng.uuid())
        self.generation = 0
        self._says_all = True

    def forget(self, code: ErrorCode) -> None:
        if code in LOST:
            self._lose()

    def _lose(self) -> None:
        super()._lose()
        self._notes.keeps(self.member_id, ())
        self._positions, self._committed_at = {}, {}
        self.generation = 0

    # Joining and beating are one

    async def _join(self) -> None:
        self._check(await self._ask(finding.FindCoordinatorRequest(key=GROUP), version=3))
        await self._beat()
        self._is_joined = True

    async def _beat_if_due(self) -> None:
        if self._says_all or self._env.clock.monotonic() - self._beaten >= BEAT_S:
            await self._beat()

    async def _beat(self) -> None:
        says_all = self._says_all or self.generation == 0
        self._says_all = True
        asked_s = asyncio.get_running_loop().time()
        answer = await self._ask(self._request(says_all=says_all))
        self._check(answer)
        self.generation = answer.member_epoch
        wanted = set(self._positions)
        if answer.assignment is not None:
            wanted = {
                one for topic in answer.assignment.topic_partitions for one in topic.partitions
            }
        self._hold(wanted, asked_s)
        await self._take(sorted(wanted - self._positions.keys()))
        self._beaten = self._env.clock.monotonic()
        self._says_all = False

    def _hold(self, wanted: set[int], asked_s: float) -> None:
        notes, now_s = self._notes, asyncio.get_running_loop().time()
        notes.keeps(self.member_id, wanted)
        for partition in self._positions.keys() - wanted:
            del self._positions[partition]
            self._committed_at.pop(partition, None)
        for partition in sorted(wanted):
            notes.holds(partition, self.member_id, asked_s, now_s)
        notes.holding[self._of.name] = self.generation, frozenset(wanted)

    async def _take(self, partitions: list[int]) -> None:
        """From where the one before committed."""
        if not partitions:
            return
        notes = self._notes
        notes.rebalances += 1
        acked = {partition: notes.acked[partition] for partition in partitions}
        for partition, offset in (await self._committed(partitions)).items():
            notes.sees_committed(partition, offset, acked[partition])
            self._positions[partition] = max(offset, 0)

    def _request(self, *, says_all: bool) -> beating.ConsumerGroupHeartbeatRequest:
        (topic_id,) = {one.topic_id for one in self._notes.ledger.places}
        owned = beating.TopicPartitions(
            topic_id=bytes.fromhex(topic_id), partitions=sorted(self._positions)
        )
        return beating.ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=self.member_id,
            member_epoch=self.generation,
            instance_id=self._of.instance_id,
            rebalance_timeout_ms=REBALANCE_MS if says_all else -1,
            subscribed_topic_names=[TOPIC] if says_all else None,
            topic_partitions=[owned] if self._positions else [],
        )

    async def _leave(self) -> None:
        is_static = self._of.instance_id is not None
        epoch = PAUSING if is_static and self._env.rng.random() < 0.7 else LEAVING
        self._lose()
        request = self._request(says_all=False)
        request.member_epoch = epoch
        request.topic_partitions = None
        try:
            await self._ask(request)
        finally:
            self._begin()
        await asyncio.sleep(self._env.rng.random())

    def _check(self, answer: Any) -> None:
        code = code_of(answer.error_code)
        if code is ErrorCode.NONE:
            return
        if code not in PASSING | LOST | STALE:
            self._notes.complain(f"nobody gave a reason for {code.name}")
        raise Setback(code)


class ConsumerGroupMember(GroupMember):
    new_session = ConsumerSession
