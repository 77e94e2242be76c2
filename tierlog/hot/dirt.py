"""What of a compacted log is dirty, whether it is time to clean it, and in which groups. Pure.

A log is clean up to the first dirty offset: no two records below it have the same key. Behind that
lie sealed segments that may be cleaned, as soon as their records are older than
`min.compaction.lag.ms`. A cleaning is due once the dirty share of both has passed
`min.cleanable.dirty.ratio`, or a dirty record waits for longer than `max.compaction.lag.ms`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

from tierlog.hot.segment import Segment
from tierlog.hot.settings import RELATIVE_OFFSET_MAX
from tierlog.types import Offset

GROUP_MAX = 32
"""Segments that become one: while they are swapped all their files are open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningRules:
    """Of one topic; defaults and meaning are Kafka's."""

    min_dirty_ratio: float = 0.5
    min_lag_ms: int = 0
    max_lag_ms: int = 2**63 - 1
    delete_retention_ms: int = 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Dirt:
    """Of one log."""

    start: Offset
    """The first dirty offset."""
    end: Offset
    """The first offset that may not be cleaned now."""
    clean_bytes: int
    dirty_bytes: int
    is_overdue: bool
    """Whether a record has waited for longer than it may."""

    @property
    def ratio(self) -> float:
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0

    def is_due(self, rules: CleaningRules) -> bool:
        return self.dirty_bytes > 0 and (self.is_overdue or self.ratio > rules.min_dirty_ratio)


def measure(
    segments: Sequence[Segment],
    *,
    cleaned_to: Offset,
    log_start: Offset,
    rules: CleaningRules,
    now_ms: int,
) -> Dirt:
    """Of sealed `segments`, which are all that there are or a beginning of them."""
    start = max(cleaned_to, log_start)
    settled = list(takewhile(lambda one: _settled(one, rules, now_ms), segments))
    dirty = [one for one in settled if one.next_offset > start]
    waits_since = dirty[0].first_append_ms if dirty else -1
    return Dirt(
        start=start,
        end=dirty[-1].next_offset if dirty else start,
        clean_bytes=sum(one.size for one in settled if one.next_offset <= start),
        dirty_bytes=sum(one.size for one in dirty),
        is_overdue=0 <= waits_since < now_ms - rules.max_lag_ms,
    )


def _settled(segment: Segment, rules: CleaningRules, now_ms: int) -> bool:
    """Whether its newest record has waited for as long as it must; by its time, as in Kafka."""
    newest_ms = segment.max_timestamp if segment.max_timestamp >= 0 else segment.first_append_ms
    return rules.min_lag_ms == 0 or newest_ms <= now_ms - rules.min_lag_ms


def groups_of(
    segments: Sequence[Segment], *, end: Offset, segment_bytes: int
) -> list[tuple[Segment, ...]]:
    """Segments that begin below `end`, in runs each of which may become one segment.

    By the sizes that they have now: what comes out may be small, and is grouped the next time. No
    run crosses a gap between segments: if records are missing there, readers must be told so.
    """
    groups: list[list[Segment]] = []
    for segment in segments:
        if segment.base_offset >= end:
            break
        if groups and _joins(groups[-1], segment, segment_bytes):
            groups[-1].append(segment)
        else:
            groups.append([segment])
    return [tuple(group) for group in groups]


def _joins(group: list[Segment], segment: Segment, segment_bytes: int) -> bool:
    return (
        len(group) < GROUP_MAX
        and group[-1].next_offset == segment.base_offset
        and sum(one.size for one in group) + segment.size <= segment_bytes
        and segment.next_offset - 1 - group[0].base_offset <= RELATIVE_OFFSET_MAX
    )
