"""Why a segment is where it is, and what happens to it next and when. Pure.

`explain` goes through the segments of a partition, oldest first, and gives each a state and the
reasons that keep it there. It only tells what others do: `choosing` and `uploader` (upload),
`dropper` (drop), expiry and collection (expire, delete). Whoever changes a rule there changes it
here.

    active -> sealed -> uploading -> uploaded -> published -> dropped -> expired
                                                                  `----> merged

Retention goes from the front: a segment never goes before those in front of it. So the times of a
segment are never before those of the one before it.
"""

from collections.abc import Iterator
from dataclasses import replace

from tierlog.cold.explained import Explained, Reason, State, Step, Why
from tierlog.cold.head import Garbage, Hold
from tierlog.cold.layout import OFFSET_MAX, SegmentName, parse_segment_key
from tierlog.cold.segmentfacts import Cold, Facts, Local
from tierlog.types import Offset


def explain(facts: Facts) -> Iterator[Explained]:
    """Every row of the facts, oldest first. Garbage comes first: its offsets are the oldest."""
    yield from (_of_garbage(facts, one, name) for one, name in _garbage(facts))
    # What was dropped lies on the disk until the next sync; an active segment may be empty.
    local = [one for one in facts.local if one.is_active or one.next_offset > facts.local_start]
    border = local[0].base if local else OFFSET_MAX
    cold = [row for row in facts.cold if row.base < border]
    life = _Life(facts, sum(row.bytes for row in cold) + sum(one.size for one in local))
    yield from map(life.of_cold, cold)
    yield from map(life.of_local, local)


# What is over


def _garbage(facts: Facts) -> list[tuple[Garbage, SegmentName]]:
    """Segments only: pages of the manifest that were replaced hold no records of their own."""
    named = ((one, parse_segment_key(one.key)) for one in facts.garbage)
    found = [(one, name) for one, name in named if name is not None]
    return sorted(found, key=lambda pair: (pair[1].base, pair[0].key))


def _of_garbage(facts: Facts, one: Garbage, name: SegmentName) -> Explained:
    is_below = name.last < facts.log_start
    return Explained(
        state=State.EXPIRED if is_below else State.MERGED,
        base=name.base,
        next_offset=Offset(name.last + 1),
        reasons=(_due(facts, Step.DELETE, Why.GRACE, one.not_before_ms),),
    )


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
        return Reason(step=step, why=Why.STORE_AWAY, at_ms=at_ms, detail=store.error or "")
    if facts.error is not None and step is not Step.ROLL:
        at_ms = facts.now_ms + facts.retry_ms
        return Reason(step=step, why=Why.FAILED, at_ms=at_ms, detail=facts.error)
    return None


# One by one, oldest first


class _Life:
    """What is remembered on the way from the oldest segment to the newest."""

    def __init__(self, facts: Facts, bytes_left: int) -> None:
        self._facts = facts
        self._rules = facts.rules
        self._expires_ms = -1
        """Of the segment before; nothing behind it goes sooner."""
        self._held: Hold | None = None
        """The hold before which retention stops."""
        self._bytes_left = bytes_left
        """From the segment at hand to the end, over both tiers."""
        limit = self._rules.local_retention_bytes
        disk = sum(one.size for one in facts.local)
        self._excess = disk - limit if limit >= 0 else -1
        self._drops_ms: int | None = -1
        """Of the segment before; None: it stays."""

    # In the bucket

    def of_cold(self, row: Cold) -> Explained:
        facts = self._facts
        self._bytes_left -= row.bytes
        if row.next_offset <= facts.log_start:
            reason = _obstacle(facts, Step.DELETE) or Reason(
                step=Step.DELETE, why=Why.BELOW_START, at_ms=facts.now_ms + self._rules.grace_ms
            )
            return self._cold(State.EXPIRED, row, reason)
        return self._cold(State.DROPPED, row, self._expiry(row))

    def _cold(self, state: State, row: Cold, reason: Reason) -> Explained:
        return Explained(
            state=state,
            base=row.base,
            next_offset=row.next_offset,
            segments=row.segments,
            bytes=row.bytes,
            reasons=(reason,),
        )

    # On the disk

    def of_local(self, segment: Local) -> Explained:
        self._bytes_left -= segment.size
        state, reasons = self._judged(segment)
        return Explained(
            state=state,
            base=segment.base,
            next_offset=segment.next_offset,
            segments=1,
            bytes=segment.size,
            reasons=reasons,
        )

    def _judged(self, segment: Local) -> tuple[State, tuple[Reason, ...]]:
        facts = self._facts
        if segment.next_offset <= facts.log_start and not segment.is_active:
            return State.EXPIRED, (Reason(step=Step.DELETE, why=Why.BELOW_START),)
        if segment.is_active:
            return State.ACTIVE, self._roll(segment)
        if segment.published_ms is not None:
            return State.PUBLISHED, (self._drop(segment), self._expiry(_as_cold(segment)))
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
        return Reason(step=Step.ROLL, why=why, at_ms=segment.first_append_ms + age_ms), by_size

    def _upload(self, segment: Local) -> tuple[Reason, ...]:
        facts, rules = self._facts, self._rules
        if not rules.is_tiered:
            reason = Reason(step=Step.UPLOAD, why=Why.NOT_TIERED)
            return reason, self._expiry(_as_cold(segment))
        if not rules.copies:
            return (Reason(step=Step.UPLOAD, why=Why.NO_COPIES),)
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

    # Expiring, from the front

    def _expiry(self, row: Cold) -> Reason:
        facts = self._facts
        if not self._rules.expires:
            return Reason(step=Step.EXPIRE, why=Why.COMPACTED)
        if self._held is not None:
            return Reason(step=Step.EXPIRE, why=Why.BEHIND_HOLD, detail=self._held.id)
        holding = (o for o in facts.holds if o.start < row.next_offset and o.end > row.base)
        if (held := next(holding, None)) is not None:
            self._held = held
            return Reason(step=Step.EXPIRE, why=Why.HOLD, detail=held.id)
        found = [one for one in (self._by_time(row), self._by_size(row)) if one is not None]
        if not found:
            return Reason(step=Step.EXPIRE, why=Why.FOR_EVER)
        return self._not_sooner(row, min(found, key=_when))

    def _by_time(self, row: Cold) -> Reason | None:
        keep_ms = self._rules.retention_ms
        if keep_ms < 0:
            return None
        # A producer that gave no time is judged by the broker's clock.
        last_ms = row.max_timestamp if row.max_timestamp >= 0 else row.max_append_ms
        first_ms = row.min_timestamp if row.segments > 1 and row.min_timestamp >= 0 else last_ms
        return _span(Why.RETENTION_MS, first_ms + keep_ms, last_ms + keep_ms)

    def _by_size(self, row: Cold) -> Reason | None:
        limit = self._rules.retention_bytes
        if limit < 0:
            return None
        missing = max(limit - self._bytes_left, 0)
        # The first segment of a page goes while all the others are behind it.
        first = max(missing - row.bytes * (row.segments - 1) // row.segments, 0)
        at_ms, until_ms = self._after(first), self._after(missing)
        reason = Reason(step=Step.EXPIRE, why=Why.RETENTION_BYTES, at_ms=at_ms, bytes_left=first)
        return replace(reason, until_ms=until_ms) if until_ms != at_ms else reason

    def _after(self, missing: int) -> int | None:
        """When so many more bytes are here, at the present rate."""
        if not missing:
            return self._facts.now_ms
        rate = self._facts.bytes_per_s
        return self._facts.now_ms + round(missing / rate * 1000) if rate else None

    def _not_sooner(self, row: Cold, reason: Reason) -> Reason:
        """Than what is before it, nor than it was promised to be kept."""
        if reason.at_ms is None:
            return reason
        if row.retain_until_ms > max(reason.at_ms, self._expires_ms):
            self._expires_ms = row.retain_until_ms
            return Reason(step=Step.EXPIRE, why=Why.RETAIN_UNTIL, at_ms=row.retain_until_ms)
        at_ms = max(reason.at_ms, self._expires_ms)
        last_ms = max(reason.until_ms or at_ms, at_ms)
        self._expires_ms = last_ms
        is_due = at_ms <= self._facts.now_ms
        if is_due and (obstacle := _obstacle(self._facts, Step.EXPIRE)) is not None:
            return obstacle
        until_ms = last_ms if last_ms != at_ms else None
        return replace(reason, at_ms=at_ms, until_ms=until_ms, is_due=is_due)


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


def _now(step: Step, why: Why) -> Reason:
    return Reason(step=step, why=why)


def _span(why: Why, first_ms: int, last_ms: int) -> Reason:
    until_ms = last_ms if last_ms != first_ms else None
    return Reason(step=Step.EXPIRE, why=why, at_ms=first_ms, until_ms=until_ms)


def _when(reason: Reason) -> float:
    """The last of several counts; what nobody knows comes after what is known."""
    at_ms = reason.at_ms if reason.until_ms is None else reason.until_ms
    return float("inf") if at_ms is None else at_ms
