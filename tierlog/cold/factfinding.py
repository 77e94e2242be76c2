"""Facts for `explaining`: from a partition of a running node, or from what the bucket says of it.

A partition may have a million cold segments. References to pages say enough of what is below them,
so a page is opened only where a border runs through it (the log start, the end of the garbage),
where the disk has segments of it, too, or where somebody wants them one by one. One that cannot be
read stays closed, and is told.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypedDict

from tierlog.cold.changes import GARBAGE_GRACE_MS
from tierlog.cold.codec import rows_of
from tierlog.cold.entry import Entry
from tierlog.cold.segmentfacts import Cold, Facts, Local, Rules, StoreHealth
from tierlog.errors import TierlogError
from tierlog.hot.log import FIRST_OFFSET
from tierlog.objectstore.errors import StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from tierlog.cold.head import Garbage, Head, Hold, PageRef
    from tierlog.cold.page import Page
    from tierlog.cold.tier import ColdTier
    from tierlog.cold.tieredpartition import TieredPartition
    from tierlog.config import TopicConfig
    from tierlog.hot import Log
    from tierlog.types import Offset


class HeadFacts(TypedDict, total=False):
    """What HEAD alone knows, as `Facts` has it."""

    cold_bytes: int
    garbage: Sequence[Garbage]
    garbage_end: Offset
    holds: Sequence[Hold]
    is_policy_told: bool


RATE_MS_MIN = 60_000
"""A shorter time says nothing of what comes in."""


def rules_of(config: TopicConfig, *, grace_ms: int = GARBAGE_GRACE_MS) -> Rules:
    return Rules(
        is_tiered=config.remote_storage_enable,
        copies=not config.remote_log_copy_disable,
        expires="delete" in config.cleanup_policy,
        segment_bytes=config.segment_bytes,
        segment_ms=config.segment_ms,
        upload_lag_max_ms=config.tierlog_upload_lag_max_ms,
        local_retention_ms=config.local_retention_ms,
        local_retention_bytes=config.local_retention_bytes,
        retention_ms=config.retention_ms,
        retention_bytes=config.retention_bytes,
        grace_ms=grace_ms,
    )


# The cold side


class ColdRows:
    """The rows of one manifest, as closed as possible. Used once."""

    def __init__(
        self,
        head: Head,
        read: Callable[[PageRef], Awaitable[Page]],
        *,
        log_start: Offset = FIRST_OFFSET,
        local_start: Offset | None = None,
        singles_from: Offset | None = None,
        singles_max: int = 0,
    ) -> None:
        """From `singles_from` on, so many segments are told one by one; from `local_start` on, all
        of them: each stands beside its copy on the disk, and has a size of its own."""
        self.rows: list[Cold] = []
        self.problems: list[str] = []
        self._head = head
        self._read = read
        self._borders = (log_start, head.garbage_end)
        self._local_start = head.next_offset if local_start is None else local_start
        self._from = singles_from
        self._left = singles_max
        self._is_away = False
        """Whether the store did not answer: it is not asked for another page."""

    async def find(self) -> ColdRows:
        head = self._head
        listed: list[Entry | PageRef] = [*head.indexes, *head.leaves, *head.entries]
        for row in listed:
            await self._add(row)
        return self

    async def _add(self, row: Entry | PageRef) -> None:
        if isinstance(row, Entry):
            self._left -= self._is_wanted(row)
            self.rows.append(of_entry(row))
            return
        if not self._must_open(row):
            self.rows.append(of_ref(row))
            return
        try:
            page = await self._read(row)
            below = list(rows_of(page))
        except TierlogError as fault:
            self._is_away = isinstance(fault, StoreUnavailable)
            self.problems.append(f"{row.key} was not read: {fault}")
            self.rows.append(of_ref(row))
            return
        await asyncio.sleep(0)  # A page takes some milliseconds, and others wait.
        for one in below:
            await self._add(one)

    def _is_wanted(self, row: Entry | PageRef) -> bool:
        return self._from is not None and row.next_offset > self._from

    def _must_open(self, ref: PageRef) -> bool:
        if self._is_away:
            return False
        if self._left > 0 and self._is_wanted(ref):
            return True
        if ref.next_offset > self._local_start:
            return True
        return any(ref.base < border < ref.next_offset for border in self._borders)


def of_entry(entry: Entry) -> Cold:
    return Cold(
        entry.base,
        entry.next_offset,
        1,
        entry.size,
        entry.min_timestamp,
        entry.max_timestamp,
        entry.max_append_ms,
        entry.retain_until_ms,
    )


def of_ref(ref: PageRef) -> Cold:
    return Cold(
        ref.base,
        ref.next_offset,
        ref.segments,
        ref.bytes,
        ref.min_timestamp,
        ref.max_timestamp,
        ref.max_append_ms,
    )


def of_bucket(head: Head, cold: Sequence[Cold], *, rules: Rules, now_ms: int) -> Facts:
    """Without a node: what is on its disk, and what it is about to do, is not known."""
    return Facts(
        now_ms=now_ms,
        rules=rules,
        log_start=head.log_start,
        local_start=head.next_offset,
        uploaded_end=head.next_offset,
        visible_end=head.next_offset,
        cold=cold,
        **_of_head(head, rules),
        bytes_per_s=rate_of(head, (), now_ms),
    )


def _of_head(head: Head, rules: Rules) -> HeadFacts:
    return {
        "cold_bytes": head.bytes,
        "garbage": head.garbage,
        "garbage_end": head.garbage_end,
        "holds": head.holds,
        "is_policy_told": head.policy == rules.policy,
    }


# A running node


def health_of(tier: ColdTier) -> StoreHealth:
    pace = tier.pace
    since_ms = pace.since_ms
    if since_ms is None and not tier.is_ready and tier.refusal is None:
        since_ms = -1  # It has not answered yet.
    return StoreHealth(
        refusal=None if tier.refusal is None else str(tier.refusal),
        error=tier.last_error,
        away_since_ms=since_ms,
        is_state_lost=tier.is_state_lost,
        retry_ms=pace.left_ms,
    )


def of_log(log: Log, *, log_start: Offset, rules: Rules, now_ms: int) -> Facts:
    """Of a topic that is not tiered."""
    local = local_of(log)
    return Facts(
        now_ms=now_ms,
        rules=rules,
        log_start=log_start,
        local_start=log.log_start,
        uploaded_end=FIRST_OFFSET,
        visible_end=log.visible_end,
        local=local,
        bytes_per_s=rate_of(None, local, now_ms),
    )


def of_tiered(
    partition: TieredPartition,
    cold: Sequence[Cold],
    *,
    store: StoreHealth,
    log_start: Offset,
    rules: Rules,
    now_ms: int,
) -> Facts:
    log, head, uploader = partition.log, partition.prefix.head, partition.uploader
    local = local_of(log, partition)
    error = partition.status.last_error
    return Facts(
        now_ms=now_ms,
        rules=rules,
        store=store,
        log_start=log_start,
        local_start=log.log_start,
        uploaded_end=partition.prefix.uploaded_end,
        visible_end=log.visible_end,
        local=local,
        cold=cold,
        **({} if head is None else _of_head(head, rules)),
        fence=(error or "another node publishes it") if partition.is_fenced else None,
        end_at_fence=uploader.publisher.end_at_fence,
        error=None if partition.is_fenced else error,
        retry_ms=partition.pace.left_ms,
        sending=uploader.sending,
        sent_end=uploader.sent_end,
        bytes_per_s=rate_of(head, local, now_ms),
    )


def local_of(log: Log, partition: TieredPartition | None = None) -> list[Local]:
    sealed = {one.base_offset: one for one in log.sealed()}
    end = FIRST_OFFSET if partition is None else partition.prefix.uploaded_end
    found = []
    for segment in log.segments:
        ready = sealed.get(segment.base_offset)
        is_cold = partition is not None and ready is not None and ready.next_offset <= end
        found.append(
            Local(
                segment.base_offset,
                segment.next_offset,
                segment.size,
                segment.max_timestamp,
                segment.first_append_ms,
                segment is log.segments.active,
                ready is not None,
                partition.dropper.published_ms(ready) if is_cold and partition and ready else None,
            )
        )
    return [one for one in found if one.is_active or one.size]


def rate_of(head: Head | None, local: Sequence[Local], now_ms: int) -> float | None:
    """Bytes a second since the oldest of the newest segments was full."""
    entries = () if head is None else head.entries
    waiting = [one for one in local if one.published_ms is None and one.first_append_ms >= 0]
    if entries:
        since_ms, count = entries[0].max_append_ms, sum(one.size for one in entries[1:])
    elif waiting:
        since_ms, count = waiting[0].first_append_ms, 0
    else:
        return None
    count += sum(one.size for one in waiting)
    if since_ms < 0 or now_ms - since_ms < RATE_MS_MIN:
        return None
    return count * 1000 / (now_ms - since_ms)
