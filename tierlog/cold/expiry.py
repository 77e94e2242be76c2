"""What expires, and when: retention over both tiers, as a pure choice.

Whole segments, from the front, as in Kafka:
- `retention.ms`: as long as the largest timestamp of the segment is older than that. A timestamp in
  the future keeps its segment, and all behind it, until then. Where no record of a segment has a
  timestamp, the time of its last append counts.
- `retention.bytes`: as long as what is left, in the bucket and on the disk together, each record
  counted once, is at least that much.

Only what is published expires (U10), and nothing from the first offset of a hold on. References in
HEAD tell enough that a page is opened only where the border lies, or where it may.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from math import inf
from typing import NamedTuple

from tierlog.cold.entry import Entry
from tierlog.cold.head import RETENTION_BYTES, RETENTION_MS, Garbage, Head, Hold, PageRef, Policy
from tierlog.cold.layout import parse_page_key, parse_segment_key
from tierlog.cold.page import IndexPage
from tierlog.cold.shedding import shed_from
from tierlog.cold.tree import Opened
from tierlog.types import Offset

Row = Entry | PageRef


class Choice(NamedTuple):
    """Where the log starts by each rule, at least where it does now."""

    time_end: Offset
    size_end: Offset
    due_ms: float
    """When time alone may expire the next segment, at the earliest; infinity: never."""

    @property
    def log_start(self) -> Offset:
        return max(self.time_end, self.size_end)


class Verdict(Enum):
    TAKE = "take"
    OPEN = "open"
    STOP = "stop"


def choose(
    head: Head, opened: Opened, *, policy: Policy, now_ms: int, unpublished_bytes: int
) -> Choice | PageRef:
    """What the policy lets go now; or the page that must be read to know."""
    limit = hold_limit(head)
    by_time = _ByTime(head, policy, limit=limit, now_ms=now_ms)
    time_end = _walk(head, opened, by_time)
    if isinstance(time_end, PageRef):
        return time_end
    by_size = _BySize(head, policy, limit=limit, unpublished_bytes=unpublished_bytes)
    size_end = _walk(head, opened, by_size)
    if isinstance(size_end, PageRef):
        return size_end
    return Choice(time_end, size_end, by_time.due_ms)


def hold_limit(head: Head) -> Offset:
    """What retention may not pass: where the first hold begins that lies before it."""
    starts = [hold.start for hold in head.holds if hold.end > head.log_start]
    return max(head.log_start, min([head.next_offset, *starts]))


def last_ms(entry: Entry) -> float:
    """The time from which the segment's life counts; infinity if nobody knows any."""
    if entry.max_timestamp >= 0:
        return entry.max_timestamp
    return entry.max_append_ms if entry.max_append_ms >= 0 else inf


class _Rule:
    def __init__(self, head: Head, *, limit: Offset) -> None:
        self.log_start = head.log_start
        self.shed_end = shed_from(head)
        self._limit = limit

    def judge(self, row: Row) -> Verdict:
        if row.next_offset <= self._limit:
            return self.of_page(row) if isinstance(row, PageRef) else self.of_entry(row)
        if isinstance(row, Entry) or row.base >= self._limit:
            return Verdict.STOP
        return Verdict.OPEN if self.may_expire() else Verdict.STOP

    def may_expire(self) -> bool:
        return True

    def of_page(self, ref: PageRef) -> Verdict:
        raise NotImplementedError

    def of_entry(self, entry: Entry) -> Verdict:
        raise NotImplementedError


class _ByTime(_Rule):
    def __init__(self, head: Head, policy: Policy, *, limit: Offset, now_ms: int) -> None:
        super().__init__(head, limit=limit)
        self._retention_ms = policy.retention_ms
        self._border_ms = now_ms - policy.retention_ms if self.may_expire() else -inf
        self.due_ms = inf

    def may_expire(self) -> bool:
        return self._retention_ms >= 0

    def judge(self, row: Row) -> Verdict:
        return super().judge(row) if self.may_expire() else Verdict.STOP

    def of_page(self, ref: PageRef) -> Verdict:
        if ref.next_offset <= self.log_start:
            return Verdict.TAKE
        if max(ref.max_timestamp, ref.max_append_ms) < self._border_ms and ref.max_append_ms >= 0:
            return Verdict.TAKE
        if ref.min_timestamp >= 0 and ref.min_timestamp >= self._border_ms:
            return self._not_before(ref.min_timestamp)
        return Verdict.OPEN

    def of_entry(self, entry: Entry) -> Verdict:
        if entry.next_offset <= self.log_start or last_ms(entry) < self._border_ms:
            return Verdict.TAKE
        return self._not_before(last_ms(entry))

    def _not_before(self, time_ms: float) -> Verdict:
        self.due_ms = time_ms + self._retention_ms + 1
        return Verdict.STOP


class _BySize(_Rule):
    def __init__(
        self, head: Head, policy: Policy, *, limit: Offset, unpublished_bytes: int
    ) -> None:
        super().__init__(head, limit=limit)
        self._is_limited = policy.retention_bytes >= 0
        self._excess = head.bytes + unpublished_bytes - policy.retention_bytes

    def may_expire(self) -> bool:
        return self._is_limited and self._excess > 0

    def judge(self, row: Row) -> Verdict:
        return super().judge(row) if self.may_expire() else Verdict.STOP

    def of_page(self, ref: PageRef) -> Verdict:
        if ref.base < self.shed_end:
            return Verdict.OPEN  # Nobody knows how much of it counts.
        if ref.next_offset <= self.log_start or self._excess >= ref.bytes:
            self._excess -= ref.bytes
            return Verdict.TAKE
        return Verdict.OPEN

    def of_entry(self, entry: Entry) -> Verdict:
        if entry.next_offset > self.log_start and self._excess < entry.size:
            return Verdict.STOP
        self._excess -= entry.size
        return Verdict.TAKE


def _walk(head: Head, opened: Opened, rule: _Rule) -> Offset | PageRef:
    """The end of what the rule takes from the front."""
    end = head.log_start
    stack: list[Row] = [*head.indexes, *head.leaves, *head.entries]
    stack.reverse()
    while stack:
        row = stack.pop()
        if row.next_offset <= rule.shed_end:
            continue
        verdict = rule.judge(row)
        if verdict is Verdict.STOP:
            break
        if verdict is Verdict.TAKE:
            end = max(end, row.next_offset)
            continue
        assert isinstance(row, PageRef), "an entry hides nothing"
        if row.key not in opened:
            return row
        page = opened[row.key]
        rows = page.leaves if isinstance(page, IndexPage) else page.entries
        stack.extend(reversed(rows))
    return end


# For people


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """Why a segment is still there, and until when."""

    is_expired: bool
    """It is not served any more; its object goes when its garbage does."""
    expires_ms: float
    """By time, at the earliest, if nothing changes; infinity: never. Not before the next look."""
    why: str
    """`retention.ms` or `retention.bytes`, whichever lets it go first; empty if neither does."""
    blocked_by: str = ""
    """The hold that keeps it, or a segment before it."""
    locked_until_ms: int = -1
    """Its object stays at least until then, expired or not."""


def outlooks(
    entries: Iterable[Entry], head: Head, *, policy: Policy, unpublished_bytes: int
) -> Iterator[tuple[Entry, Outlook]]:
    """Of the segments from the first that is listed on, all of them or as many as are wanted."""
    excess = head.bytes + unpublished_bytes - policy.retention_bytes
    latest_ms, shed_end, limit = -inf, shed_from(head), hold_limit(head)
    for entry in entries:
        latest_ms = max(latest_ms, last_ms(entry))
        is_expired = entry.next_offset <= head.log_start
        counts = policy.retention_bytes >= 0 and entry.base >= shed_end
        by_size = counts and excess >= entry.size
        if counts:
            excess -= entry.size
        expires_ms = latest_ms + policy.retention_ms + 1 if policy.retention_ms >= 0 else inf
        why = RETENTION_BYTES if by_size else RETENTION_MS if policy.retention_ms >= 0 else ""
        if not is_expired and entry.next_offset > limit:
            yield entry, _held(entry, head)
            continue
        yield (
            entry,
            Outlook(
                is_expired=is_expired,
                expires_ms=-1 if is_expired or by_size else expires_ms,
                why="" if is_expired else why,
                blocked_by="" if latest_ms == last_ms(entry) or is_expired else "a segment before",
                locked_until_ms=entry.retain_until_ms,
            ),
        )


def _held(entry: Entry, head: Head) -> Outlook:
    """Nothing from the first hold on expires, be it behind the hold's own end."""
    holds = [hold for hold in head.holds if hold.end > head.log_start]
    first = min(holds, key=lambda hold: hold.start)
    return Outlook(
        is_expired=False,
        expires_ms=inf,
        why="",
        blocked_by=f"hold {first.id}",
        locked_until_ms=entry.retain_until_ms,
    )


def held_by(garbage: Garbage, head: Head) -> Hold | None:
    """The hold that keeps an object which is garbage already."""
    if (segment := parse_segment_key(garbage.key)) is not None:
        return covering(head.holds, segment.base, Offset(segment.last + 1))
    if garbage.segments_from >= 0 and (page := parse_page_key(garbage.key)) is not None:
        return covering(head.holds, page.first, max(head.garbage_end, Offset(page.first + 1)))
    return None


def covering(holds: Iterable[Hold], start: Offset, end: Offset) -> Hold | None:
    return next((one for one in holds if one.start < end and start < one.end), None)


def when_collected(garbage: Garbage, head: Head) -> float:
    """The earliest time at which the object is deleted; infinity while a hold keeps it."""
    return inf if held_by(garbage, head) is not None else garbage.not_before_ms
