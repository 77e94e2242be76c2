"""What expires, and when: retention over both tiers, as a pure choice.

Whole segments, from the front, as in Kafka:
- `retention.ms`: as long as the largest timestamp of the segment is older than that. A timestamp in
  the future keeps its segment, and all behind it, until then. Where no record of a segment has a
  timestamp, the time of its last append counts.
- `retention.bytes`: as long as what is left, in the bucket and on the disk together, each record
  counted once, is at least that much.

Only what is published expires (U10), and nothing from the first offset of a hold on. So an active
segment whose newest record is past `retention.ms` is rolled and uploaded to expire, as Kafka rolls
it, though not for every batch of somebody who writes old records: `expired_roll_ms`. References in
HEAD tell enough that a page is opened only where the border lies, or where it may.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from math import inf
from typing import NamedTuple, Protocol

from tierlog.cold.entry import Entry
from tierlog.cold.head import Garbage, Head, Hold, PageRef, Policy
from tierlog.cold.layout import parse_page_key, parse_segment_key
from tierlog.cold.page import IndexPage
from tierlog.cold.segmentfacts import Cold
from tierlog.cold.shedding import shed_from
from tierlog.cold.tree import Opened
from tierlog.types import Offset

Row = Entry | PageRef
LOT_SLICES = 24
"""Of the grace period. An hour of the default one: 24 lots a day."""


EXPIRED_ROLL_MS_MIN, EXPIRED_ROLL_MS_MAX = 10_000, 300_000
"""Since its first append, before an active segment is rolled because it has expired: an object each
time. The most is Kafka's `log.retention.check.interval.ms`."""


def expired_roll_ms(retention_ms: int) -> int:
    return min(max(retention_ms, EXPIRED_ROLL_MS_MIN), EXPIRED_ROLL_MS_MAX)


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


class Standing(NamedTuple):
    """What of a partition its segments' lives depend on."""

    log_start: Offset
    next_offset: Offset
    shed_end: Offset
    """Segments that end at or before it are garbage already, and count no more."""
    bytes: int
    """From there on."""
    holds: Sequence[Hold] = ()


def standing(head: Head) -> Standing:
    return Standing(head.log_start, head.next_offset, shed_from(head), head.bytes, head.holds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """Why a segment, or the segments of a page, are still there, and until when."""

    is_expired: bool
    """It is not served any more; its object goes when its garbage does."""
    hold: Hold | None = None
    """Keeps it, be it behind the hold's own end: nothing from the first hold on expires."""
    expires_ms: float = inf
    """By time, at the earliest; infinity: never. Not before those in front of it."""
    last_expires_ms: float = inf
    """Likewise, of the last segment of a page."""
    missing_bytes: int | None = None
    """By size, once so many more have come; 0: now. None: there is no limit."""
    last_missing_bytes: int | None = None
    locked_until_ms: int = -1
    """Its object stays at least until then, expired or not."""


def outlooks(
    rows: Iterable[Cold], standing: Standing, *, policy: Policy, unpublished_bytes: int
) -> Iterator[tuple[Cold, Outlook]]:
    """Of the segments from the first that is listed on; pages need not be opened."""
    by_size = _SizeOutlook(standing, policy, unpublished_bytes)
    first = first_hold(standing)
    latest_ms = -inf
    for row in rows:
        first_ms, latest_ms = max(latest_ms, _first_ms(row)), max(latest_ms, _last_ms(row))
        missing = by_size.missing(row)
        if row.next_offset <= standing.log_start:
            yield row, Outlook(is_expired=True, locked_until_ms=row.retain_until_ms)
        elif first is not None and row.next_offset > max(first.start, standing.log_start):
            yield row, Outlook(is_expired=False, hold=first, locked_until_ms=row.retain_until_ms)
        else:
            yield (
                row,
                Outlook(
                    is_expired=False,
                    expires_ms=_expires_ms(first_ms, policy),
                    last_expires_ms=_expires_ms(latest_ms, policy),
                    missing_bytes=missing[0],
                    last_missing_bytes=missing[1],
                    locked_until_ms=row.retain_until_ms,
                ),
            )


def first_hold(standing: Standing) -> Hold | None:
    """Where retention stops."""
    holds = [hold for hold in standing.holds if hold.end > standing.log_start]
    return min(holds, key=lambda hold: hold.start, default=None)


def _expires_ms(time_ms: float, policy: Policy) -> float:
    return time_ms + policy.retention_ms + 1 if policy.retention_ms >= 0 else inf


def _first_ms(row: Cold) -> float:
    """Of a page that is not opened, no segment goes before its oldest record may."""
    return row.min_timestamp if row.segments > 1 and row.min_timestamp >= 0 else _last_ms(row)


def _last_ms(row: Cold) -> float:
    if row.max_timestamp >= 0:
        return row.max_timestamp
    return row.max_append_ms if row.max_append_ms >= 0 else inf


class _SizeOutlook:
    def __init__(self, standing: Standing, policy: Policy, unpublished_bytes: int) -> None:
        self._limit = policy.retention_bytes
        self._shed_end = standing.shed_end
        self._left = standing.bytes + unpublished_bytes
        """From the row at hand to the end, over both tiers."""

    def missing(self, row: Cold) -> tuple[int | None, int | None]:
        """What must come before the first of its segments goes, and before the last does."""
        if row.base >= self._shed_end:
            self._left -= row.bytes
        if self._limit < 0:
            return None, None
        last = max(self._limit - self._left, 0)
        # The first segment of a page goes while all the others are behind it.
        return max(last - row.bytes * (row.segments - 1) // row.segments, 0), last


class Kept(Protocol):
    """A HEAD, or what is known of it."""

    @property
    def holds(self) -> Sequence[Hold]: ...

    @property
    def garbage_end(self) -> Offset: ...


def held_by(garbage: Garbage, head: Kept) -> Hold | None:
    """The hold that keeps an object which is garbage already."""
    if (segment := parse_segment_key(garbage.key)) is not None:
        return covering(head.holds, segment.base, Offset(segment.last + 1))
    if garbage.segments_from >= 0 and (page := parse_page_key(garbage.key)) is not None:
        return covering(head.holds, page.first, max(head.garbage_end, Offset(page.first + 1)))
    return None


def covering(holds: Iterable[Hold], start: Offset, end: Offset) -> Hold | None:
    return next((one for one in holds if one.start < end and start < one.end), None)


def when_collected(garbage: Garbage, head: Kept) -> float:
    """The earliest time at which the object is deleted; infinity while a hold keeps it."""
    return inf if held_by(garbage, head) is not None else garbage.not_before_ms


def lot_ms(time_ms: float, *, grace_ms: int) -> float:
    """When the lot goes that has garbage of that time: a slice of the grace period is collected
    when it is over, since nothing that comes later belongs to it."""
    slice_ms = max(1, grace_ms // LOT_SLICES)
    if time_ms == inf or slice_ms == 1:
        return time_ms
    return (time_ms // slice_ms + 1) * slice_ms
