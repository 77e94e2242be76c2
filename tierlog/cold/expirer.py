"""Expires one partition: a chore that moves HEAD's start by retention, and makes garbage of what
lies below it (U7, step 1), also of what DeleteRecords left.

- HEAD must name the policy that the topic has before anything expires by it (U7b). Where it names
  another, it is told first, if the metastore agrees that this is the topic's policy now.
- The local log follows: once HEAD has committed a start, what lies below it is given up here, too.
- A partition with nothing to do costs the comparison of a number. It is computed anew whenever
  another HEAD is known or the topic is altered, from the references in HEAD, without a request.
"""

from __future__ import annotations

import logging
from math import inf
from typing import TYPE_CHECKING

from tierlog.cold import expiry, shedding
from tierlog.cold.changes import Expire, SetPolicy
from tierlog.cold.head import PageRef

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tierlog.cold.head import Head, Policy
    from tierlog.cold.page import Page
    from tierlog.cold.tiersettings import TierSettings, TopicTiering
    from tierlog.cold.tierstats import TierStats
    from tierlog.cold.uploader import PartitionUploader
    from tierlog.env import Env
    from tierlog.types import Offset

logger = logging.getLogger(__name__)

POLICY_RETRY_MS = 10_000
"""Until a topic that was altered a moment ago is asked about again."""


class PartitionExpirer:
    def __init__(
        self,
        env: Env,
        uploader: PartitionUploader,
        *,
        settings: TierSettings,
        tiering: TopicTiering,
        stats: TierStats,
        policy_of: Callable[[], Awaitable[Policy | None]] | None = None,
    ) -> None:
        """`policy_of` reads the topic's policy where it is decided; None from it: it is gone."""
        self.due_from_ms: float = inf
        self.policy = tiering.policy
        self._env = env
        self._uploader = uploader
        self._prefix = uploader.prefix
        self._settings = settings
        self._stats = stats
        self._policy_of = policy_of
        self._front: tuple[object, ...] = ()
        """Of the HEAD that `_time_due_ms` was computed from."""
        self._time_due_ms: float = inf
        self._settled: tuple[object, ...] = ()
        """Of the HEAD, and the log, in which the last turn left nothing to do but for time."""
        self._retry_ms: float = 0
        self._prefix.watch(self.look)
        self.look()

    def reconfigure(self, tiering: TopicTiering) -> None:
        self.policy = tiering.policy
        self._retry_ms = 0
        self.look()

    def clock_set_back(self) -> None:
        self._retry_ms = 0
        self.look()

    # When

    def look(self) -> None:
        """Another HEAD is known, or another policy."""
        head = self._prefix.head
        self.due_from_ms = inf if head is None else self._due_ms(head)

    def _due_ms(self, head: Head) -> float:
        if self._is_local_behind(head):
            return 0
        if head.policy != self.policy:
            return self._retry_ms
        if self._settled != (*_mark(head), self._active_base) and (
            shedding.has_leftovers(head) or self._is_too_large(head)
        ):
            return 0
        if self._front != _front(head):
            self._front, self._time_due_ms = _front(head), self._foreseen_ms(head)
        return self._time_due_ms

    def _is_local_behind(self, head: Head) -> bool:
        log = self._uploader.log
        return log.trimmed_to < head.log_start and log.log_start < head.log_start

    def _is_too_large(self, head: Head) -> bool:
        limit = self.policy.retention_bytes
        return limit >= 0 and head.bytes + self._unpublished_bytes(head) > limit

    def _foreseen_ms(self, head: Head) -> float:
        """From HEAD alone; where that does not tell, now: a turn opens pages."""
        found = expiry.choose(
            head,
            {},
            policy=self.policy,
            now_ms=self._env.clock.now_ms(),
            unpublished_bytes=0,
        )
        if isinstance(found, PageRef) or found.time_end > head.log_start:
            return 0
        return found.due_ms

    @property
    def _active_base(self) -> Offset:
        """Changes when the log has grown by a segment, which counts whether it is copied or not."""
        return self._uploader.log.segments.active.base_offset

    def _unpublished_bytes(self, head: Head) -> int:
        segments = self._uploader.log.segments
        return sum(one.size for one in segments if one.next_offset > head.next_offset)

    # What

    async def run(self) -> None:
        """One commit at most, and the local log."""
        head = await self._uploader.claimed()
        if await self._is_policy_told(head):
            await self._expire()
            self._trim_local()
        self.look()

    async def _is_policy_told(self, head: Head) -> bool:
        if head.policy == self.policy:
            return True
        if self._policy_of is not None and await self._policy_of() != self.policy:
            # Altered a moment ago, or gone: this node will hear of it.
            self._retry_ms = self._env.clock.now_ms() + POLICY_RETRY_MS
            return False
        await self.tell_policy()
        return True

    async def tell_policy(self) -> None:
        """HEAD names the policy when this returns (U7b). Raises what the store does."""
        await self._uploader.claimed()
        head = await self._uploader.publisher.commit(SetPolicy(self.policy))
        self._prefix.adopt(head)

    async def _expire(self) -> None:
        known, base = self._prefix.head, self._active_base
        assert known is not None, "claimed"
        change = Expire(
            self.policy,
            read=self._read,
            env=self._env,
            grace_ms=self._settings.garbage_grace_ms,
            unpublished_bytes=self._unpublished_bytes(known),
        )
        head = await self._uploader.publisher.commit(change)
        shed = change.shed
        assert shed is not None, "it was called"
        if shed.segments:
            self._stats.expired_segments += shed.segments
            self._stats.expired_bytes += shed.bytes
            logger.info(
                "%s starts at %d: %d %s garbage",
                self._uploader.name,
                head.log_start,
                shed.segments,
                "segment is" if shed.segments == 1 else "segments are",
            )
        else:
            self._settled = *_mark(head), base
        self._front, self._time_due_ms = _front(head), change.due_ms
        self._prefix.adopt(head)

    async def _read(self, ref: PageRef) -> Page:
        return await self._prefix.page(ref)

    def _trim_local(self) -> None:
        """What HEAD has given up, the log gives up: its files go with the next sync."""
        head, log = self._prefix.head, self._uploader.log
        assert head is not None, "claimed"
        start = min(head.log_start, log.visible_end)
        if start > log.trimmed_to:
            log.trim(start)


def _front(head: Head) -> tuple[object, ...]:
    """Changes whenever another segment may be the next to expire."""
    first = next((rows[0].base for rows in (head.indexes, head.leaves, head.entries) if rows), -1)
    return first, head.garbage_end, head.log_start, head.policy_version, head.policy, head.holds


def _mark(head: Head) -> tuple[object, ...]:
    return *_front(head), head.next_offset, len(head.garbage)
