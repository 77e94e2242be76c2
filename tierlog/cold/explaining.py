"""Why a segment is where it is, and what happens to it next and when. Pure.

`explain` goes through the segments of a partition, oldest first, and gives each a state and the
reasons that keep it there. It only tells what others do: `choosing` and `uploader` (upload),
`dropper` (drop). Whoever changes a rule there changes it here. When a segment expires, and when its
object goes, `expiry` itself says.

    active -> sealed -> uploading -> uploaded -> published -> dropped -> expired
                                                                  `----> merged
"""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import replace
from math import inf, isinf

from tierlog.cold.expiry import (
    Outlook,
    Standing,
    expired_roll_ms,
    held_by,
    lot_ms,
    outlooks,
    when_collected,
)
from tierlog.cold.explained import Explained, Reason, State, Step, Why
from tierlog.cold.head import MERGE, Garbage
from tierlog.cold.layout import OFFSET_MAX, parse_segment_key
from tierlog.cold.segmentfacts import Cold, Facts, Local
from tierlog.types import Offset


def explain(facts: Facts) -> Iterator[Explained]:
    """Every row of the facts, oldest first. Garbage comes first: its offsets are the oldest."""
    yield from _of_garbage(facts)
    # What was dropped lies on the disk until the next sync; an active segment may be empty.
    local = [one for one in facts.local if one.is_active or one.next_offset > facts.local_start]
    border = local[0].base if local else OFFSET_MAX
    life = _Life(facts)
    yield from (life.of_cold(row) for row in _listed(facts) if row.base < border)
    yield from map(life.of_local, local)


def _listed(facts: Facts) -> list[Cold]:
    """What is garbage already may still stand in a page, which does not change."""
    return [row for row in facts.cold if row.next_offset > facts.garbage_end]


# What is over


def _of_garbage(facts: Facts) -> list[Explained]:
    """Segments, by themselves or by their page. Pages that were replaced have none."""
    rows = [_of_item(facts, one) for one in facts.garbage]
    found = sorted((row for row in rows if row is not None), key=lambda row: row.base)
    # A page does not say where its segments end: where the next begin, at the latest.
    end = facts.garbage_end
    for at, row in reversed(list(enumerate(found))):
        if row.pages:
            found[at] = replace(row, next_offset=max(end, row.base))
        end = row.base
    return found


def _of_item(facts: Facts, one: Garbage) -> Explained | None:
    if (name := parse_segment_key(one.key)) is not None:
        return Explained(
            state=_end_of(facts, one, name.last),
            base=name.base,
            next_offset=Offset(name.last + 1),
            bytes=one.size if one.size >= 0 else None,
            reasons=(_collection(facts, one),),
        )
    if one.segments_from < 0:
        return None
    base = Offset(one.segments_from)
    return Explained(
        state=State.EXPIRED,
        base=base,
        next_offset=base,
        segments=0,
        pages=1,
        reasons=(_collection(facts, one),),
    )


def _end_of(facts: Facts, one: Garbage, last: Offset) -> State:
    """What HEAD says; where it does not, what is still served was merged."""
    if one.why:
        return State.MERGED if one.why == MERGE else State.EXPIRED
    return State.EXPIRED if last < facts.log_start else State.MERGED


def _collection(facts: Facts, one: Garbage) -> Reason:
    if (held := held_by(one, facts)) is not None:
        return Reason(step=Step.DELETE, why=Why.HOLD, detail=held.id)
    at_ms = lot_ms(when_collected(one, facts), grace_ms=facts.rules.grace_ms)
    reason = _due(facts, Step.DELETE, Why.GRACE, round(at_ms))
    why = "" if one.why == MERGE else one.why
    return replace(reason, detail=why) if reason.why is Why.GRACE else reason


# What stands in the way


def _due(facts: Facts, step: Step, why: Why, at_ms: int) -> Reason:
    """It happens at that time, unless that is past and something stands in the way."""
    if at_ms > facts.now_ms:
        return Reason(step=step, why=why, at_ms=at_ms)
    return _obstacle(facts, step) or Reason(step=step, why=why, at_ms=at_ms, is_due=True)


def _obstacle(facts: Facts, step: Step) -> Reason | None:
    """Why nothing of this kind is done now, whatever the segment."""
    store = facts.store
    if store.refusal is not None:
        return Reason(step=step, why=Why.STORE_REFUSED, detail=store.refusal)
    if facts.fence is not None and step is not Step.DROP:
        return Reason(step=step, why=Why.FENCED, detail=facts.fence)
    if store.away_since_ms is not None:
        at_ms = facts.now_ms + store.retry_ms
        why = Why.STATE_LOST if store.is_state_lost else Why.STORE_AWAY
        return Reason(step=step, why=why, at_ms=at_ms, detail=store.error or "")
    if facts.error is not None and step is not Step.ROLL:
        at_ms = facts.now_ms + facts.retry_ms
        return Reason(step=step, why=Why.FAILED, at_ms=at_ms, detail=facts.error)
    if not facts.is_policy_told and step in (Step.EXPIRE, Step.DELETE):
        return Reason(step=step, why=Why.POLICY)
    return None


# One by one, oldest first


class _Life:
    """What is remembered on the way from the oldest segment to the newest."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._rules = facts.rules
        self._outlooks = _outlooks(facts)
        limit = self._rules.local_retention_bytes
        disk = sum(one.size for one in facts.local)
        self._excess = disk - limit if limit >= 0 else -1
        self._drops_ms: int | None = -1
        """Of the segment before; None: it stays."""

    # In the bucket

    def of_cold(self, row: Cold) -> Explained:
        facts = self._facts
        if row.next_offset <= facts.log_start:
            reason = _obstacle(facts, Step.DELETE) or Reason(
                step=Step.DELETE, why=Why.BELOW_START, at_ms=facts.now_ms + self._rules.grace_ms
            )
            return self._cold(State.EXPIRED, row, (reason,))
        return self._cold(State.DROPPED, row, self._end(row.base))

    def _cold(self, state: State, row: Cold, reasons: tuple[Reason, ...]) -> Explained:
        return Explained(
            state=state,
            base=row.base,
            next_offset=row.next_offset,
            segments=row.segments,
            bytes=row.bytes,
            reasons=reasons,
        )

    # On the disk

    def of_local(self, segment: Local) -> Explained:
        state, reasons = self._judged(segment)
        return Explained(
            state=state,
            base=segment.base,
            next_offset=segment.next_offset,
            segments=1,
            bytes=self._size(segment) if state is State.PUBLISHED else segment.size,
            reasons=reasons,
        )

    def _size(self, segment: Local) -> int:
        """As retention counts it: that of the object, once there is one."""
        row, _ = self._outlook(segment.base)
        return row.bytes if row is not None and row.base == segment.base else segment.size

    def _judged(self, segment: Local) -> tuple[State, tuple[Reason, ...]]:
        facts = self._facts
        if segment.next_offset <= facts.log_start and not segment.is_active:
            return State.EXPIRED, (Reason(step=Step.DELETE, why=Why.BELOW_START),)
        if segment.is_active:
            return State.ACTIVE, self._roll(segment)
        if segment.published_ms is not None:
            return State.PUBLISHED, (self._drop(segment), *self._end(segment.base))
        if facts.sent_end is not None and segment.next_offset <= facts.sent_end:
            obstacle = _obstacle(facts, Step.PUBLISH)
            return State.UPLOADED, (obstacle or _now(Step.PUBLISH, Why.UNDER_WAY),)
        if facts.sending is not None and segment.base <= facts.sending < segment.next_offset:
            return State.UPLOADING, (_now(Step.UPLOAD, Why.UNDER_WAY),)
        return State.SEALED, self._upload(segment)

    def _roll(self, segment: Local) -> tuple[Reason, ...]:
        rules = self._rules
        if segment.next_offset == segment.base:
            return (Reason(step=Step.ROLL, why=Why.EMPTY),)
        age_ms, why = rules.segment_ms, Why.SEGMENT_MS
        if rules.is_tiered and rules.copies and rules.upload_lag_max_ms < age_ms:
            age_ms, why = rules.upload_lag_max_ms, Why.UPLOAD_LAG
        left = max(rules.segment_bytes - segment.size, 0)
        by_size = Reason(step=Step.ROLL, why=Why.SEGMENT_BYTES, bytes_left=left)
        if segment.first_append_ms < 0:
            return (by_size,)
        by_age = Reason(step=Step.ROLL, why=why, at_ms=segment.first_append_ms + age_ms)
        over = self._over(segment)
        if over is None or _when(over) >= _when(by_age):
            return by_age, by_size
        if _when(over) <= self._facts.now_ms:
            return (replace(over, is_due=True),)
        return (over, by_size) if over.step is Step.ROLL else (by_age, by_size, over)

    def _over(self, segment: Local) -> Reason | None:
        """When all of an active segment is past `retention.ms`: it then expires as it is, or is
        rolled to be uploaded before."""
        rules = self._rules
        newest_ms = max(segment.max_timestamp, -1)
        since_ms = newest_ms if newest_ms >= 0 else segment.first_append_ms
        if not rules.expires or rules.retention_ms < 0:
            return None
        at_ms = since_ms + rules.retention_ms + 1
        if not rules.is_tiered:
            return Reason(step=Step.EXPIRE, why=Why.RETENTION_MS, at_ms=at_ms)
        if not rules.copies:
            return None  # After all that the bucket has.
        at_ms = max(at_ms, segment.first_append_ms + expired_roll_ms(rules.retention_ms))
        return Reason(step=Step.ROLL, why=Why.RETENTION_MS, at_ms=at_ms)

    def _upload(self, segment: Local) -> tuple[Reason, ...]:
        facts, rules = self._facts, self._rules
        if not rules.is_tiered:
            reason = Reason(step=Step.UPLOAD, why=Why.NOT_TIERED)
            return reason, *self._end(segment.base)
        if not rules.copies:
            # KIP-950: retention goes over what is not copied as well, once its turn comes.
            return Reason(step=Step.UPLOAD, why=Why.NO_COPIES), *self._end(segment.base)
        if not segment.is_synced:
            is_hidden = segment.next_offset > facts.visible_end
            why = Why.HIGH_WATERMARK if is_hidden else Why.SYNC
            return (Reason(step=Step.UPLOAD, why=why),)
        return (_obstacle(facts, Step.UPLOAD) or Reason(step=Step.UPLOAD, why=Why.TURN),)

    # Dropping, as `PartitionDropper.due` does it

    def _drop(self, segment: Local) -> Reason:
        facts, window_ms = self._facts, self._rules.local_retention_ms
        if facts.end_at_fence is not None and segment.next_offset > facts.end_at_fence:
            self._drops_ms = None
            return Reason(step=Step.DROP, why=Why.FENCED, detail=facts.fence or "")
        if self._drops_ms is not None and self._excess >= segment.size:
            self._excess -= segment.size
            return _due(facts, Step.DROP, Why.LOCAL_BYTES, max(facts.now_ms, self._drops_ms))
        if window_ms >= 0 and self._drops_ms is not None and segment.published_ms is not None:
            at_ms = self._drops_ms = max(segment.published_ms + window_ms, self._drops_ms)
            self._excess -= segment.size
            return _due(facts, Step.DROP, Why.LOCAL_MS, at_ms)
        self._drops_ms = None
        return self._stays(segment)

    def _stays(self, segment: Local) -> Reason:
        if self._rules.local_retention_bytes < 0:
            return Reason(step=Step.DROP, why=Why.FOR_EVER)
        left = segment.size - self._excess
        self._excess -= segment.size
        return Reason(step=Step.DROP, why=Why.LOCAL_BYTES, bytes_left=left)

    # Expiring, as `expiry` has it

    def _outlook(self, base: Offset) -> tuple[Cold | None, Outlook]:
        """Of the segment that begins there, or of the page that it stands in."""
        at = bisect_right(self._outlooks, base, key=lambda pair: pair[0].base) - 1
        if at >= 0 and base < self._outlooks[at][0].next_offset:
            return self._outlooks[at]
        return None, Outlook(is_expired=False)

    def _end(self, base: Offset) -> tuple[Reason, ...]:
        """When it expires; and how long its object stays then, if somebody locked it."""
        row, outlook = self._outlook(base)
        reasons = self._expiry(row, outlook)
        times = [one.at_ms for one in reasons if one.at_ms is not None]
        free_ms = min(times) + self._rules.grace_ms if times else inf
        locked_ms = outlook.locked_until_ms
        if locked_ms < 0 or locked_ms <= free_ms < inf:
            return reasons
        return *reasons, Reason(step=Step.DELETE, why=Why.RETAIN_UNTIL, at_ms=locked_ms)

    def _expiry(self, row: Cold | None, outlook: Outlook) -> tuple[Reason, ...]:
        if not self._rules.expires:
            return (Reason(step=Step.EXPIRE, why=Why.COMPACTED),)
        if (held := outlook.hold) is not None:
            is_in = row is not None and held.start < row.next_offset and held.end > row.base
            why = Why.HOLD if is_in else Why.BEHIND_HOLD
            return (Reason(step=Step.EXPIRE, why=why, detail=held.id),)
        found = [one for one in (_by_time(outlook), self._by_size(outlook)) if one is not None]
        if not found:
            return (Reason(step=Step.EXPIRE, why=Why.FOR_EVER),)
        first = min(found, key=_when)
        if first.at_ms is not None and first.at_ms <= self._facts.now_ms:
            return (_obstacle(self._facts, Step.EXPIRE) or replace(first, is_due=True),)
        # How soon the bytes come, nobody may know: then either may be the first.
        is_known = all(one.at_ms is not None for one in found)
        return (first,) if is_known else tuple(found)

    def _by_size(self, outlook: Outlook) -> Reason | None:
        first, last = outlook.missing_bytes, outlook.last_missing_bytes
        if first is None or last is None:
            return None
        at_ms, until_ms = self._after(first), self._after(last)
        reason = Reason(step=Step.EXPIRE, why=Why.RETENTION_BYTES, at_ms=at_ms, bytes_left=first)
        return replace(reason, until_ms=until_ms) if until_ms != at_ms else reason

    def _after(self, missing: int) -> int | None:
        """When so many more bytes are here, at the present rate."""
        if not missing:
            return self._facts.now_ms
        rate = self._facts.bytes_per_s
        return self._facts.now_ms + round(missing / rate * 1000) if rate else None


def _outlooks(facts: Facts) -> list[tuple[Cold, Outlook]]:
    rules = facts.rules
    rows, size, extra = _listed(facts), facts.listed_bytes, facts.unpublished_bytes
    end = facts.uploaded_end if rules.is_tiered and rules.copies else Offset(OFFSET_MAX)
    if not rules.is_tiered:
        rows, size, extra = [], 0, sum(one.size for one in facts.local)
    if not rules.is_tiered or not rules.copies:
        # What is not cold goes by the same rules, without the active segment.
        start = facts.uploaded_end if rules.is_tiered else Offset(0)
        waiting = [one for one in facts.local if not one.is_active and one.base >= start]
        rows = [*rows, *map(_as_cold, waiting)]
        waits = sum(one.size for one in waiting)
        size, extra = size + waits, extra - waits
    place = Standing(facts.log_start, end, facts.garbage_end, size, facts.holds)
    return list(outlooks(rows, place, policy=facts.rules.policy, unpublished_bytes=extra))


def _as_cold(segment: Local) -> Cold:
    return Cold(
        segment.base,
        segment.next_offset,
        1,
        segment.size,
        segment.max_timestamp,
        segment.max_timestamp,
        segment.first_append_ms,
    )


def _by_time(outlook: Outlook) -> Reason | None:
    if isinf(outlook.expires_ms):
        return None
    at_ms, last_ms = round(outlook.expires_ms), outlook.last_expires_ms
    until_ms = None if isinf(last_ms) or last_ms == at_ms else round(last_ms)
    return Reason(step=Step.EXPIRE, why=Why.RETENTION_MS, at_ms=at_ms, until_ms=until_ms)


def _now(step: Step, why: Why) -> Reason:
    return Reason(step=step, why=why)


def _when(reason: Reason) -> float:
    """The last of several counts; what nobody knows comes after what is known."""
    at_ms = reason.at_ms if reason.until_ms is None else reason.until_ms
    return float("inf") if at_ms is None else at_ms
