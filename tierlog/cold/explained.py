"""What `explaining` says of segments: a state, and what each next step waits for. Values.

Texts for people are made from these by whoever shows them; programs read them as they are.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from tierlog.types import Offset


class State(StrEnum):
    ACTIVE = "active"
    SEALED = "sealed"
    """On the disk only."""
    UPLOADING = "uploading"
    UPLOADED = "uploaded"
    """The store has it, no HEAD lists it."""
    PUBLISHED = "published"
    """In the bucket, and on the disk as well."""
    DROPPED = "dropped"
    """In the bucket only."""
    EXPIRED = "expired"
    """Nobody may read it any more."""
    MERGED = "merged"
    """Another object has its records."""


class Step(StrEnum):
    """What happens to a segment next."""

    ROLL = "roll"
    UPLOAD = "upload"
    PUBLISH = "publish"
    DROP = "drop"
    EXPIRE = "expire"
    DELETE = "delete"


class Why(StrEnum):
    """What a step waits for. Settings stand under their own names."""

    SEGMENT_MS = "segment.ms"
    SEGMENT_BYTES = "segment.bytes"
    UPLOAD_LAG = "tierlog.upload.lag.max.ms"
    EMPTY = "empty"
    NOT_TIERED = "remote.storage.enable"
    NO_COPIES = "remote.log.copy.disable"
    SYNC = "sync"
    HIGH_WATERMARK = "high watermark"
    STORE_REFUSED = "store refused"
    STORE_AWAY = "store away"
    STATE_LOST = "state lost"
    """The store answers, and has no `cluster/STATE` that could be used."""
    FENCED = "fenced"
    FAILED = "failed"
    TURN = "turn"
    UNDER_WAY = "under way"
    LOCAL_MS = "local.retention.ms"
    LOCAL_BYTES = "local.retention.bytes"
    RETENTION_MS = "retention.ms"
    RETENTION_BYTES = "retention.bytes"
    FOR_EVER = "for ever"
    COMPACTED = "cleanup.policy"
    HOLD = "hold"
    BEHIND_HOLD = "behind a hold"
    RETAIN_UNTIL = "retain until"
    POLICY = "policy"
    """HEAD does not name the topic's policy of now."""
    BELOW_START = "below the log start"
    GRACE = "grace"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    step: Step
    why: Why
    at_ms: int | None = None
    """When it happens, as things stand. None: nobody knows."""
    until_ms: int | None = None
    """Of several segments, when it happens to the last."""
    is_due: bool = False
    """Nothing stands in the way any more: it happens as soon as somebody looks."""
    bytes_left: int | None = None
    """So many more must come before it does."""
    detail: str = ""
    """For people: an error, the name of a hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """A segment, or a run of them with one fate."""

    state: State
    base: Offset
    next_offset: Offset
    segments: int = 1
    pages: int = 0
    """Of garbage: pages whose segments nobody counted."""
    bytes: int | None = None
    """None: nobody kept it."""
    reasons: tuple[Reason, ...] = ()


def runs(rows: Iterable[Explained]) -> Iterator[Explained]:
    """Neighbours with one fate become one row."""
    run: Explained | None = None
    for row in rows:
        if run is not None and _fate(run) == _fate(row):
            run = _joined(run, row)
            continue
        if run is not None:
            yield run
        run = row
    if run is not None:
        yield run


def _fate(row: Explained) -> tuple[object, ...]:
    return row.state, tuple((one.step, one.why, one.is_due, one.detail) for one in row.reasons)


def _joined(one: Explained, two: Explained) -> Explained:
    is_known = one.bytes is not None and two.bytes is not None
    return Explained(
        state=one.state,
        base=min(one.base, two.base),
        next_offset=max(one.next_offset, two.next_offset),
        segments=one.segments + two.segments,
        pages=one.pages + two.pages,
        bytes=(one.bytes or 0) + (two.bytes or 0) if is_known else None,
        reasons=tuple(map(_spanning, one.reasons, two.reasons)),
    )


def _spanning(one: Reason, two: Reason) -> Reason:
    """The first that happens is that of the first, the last that of the last."""
    last = two.at_ms if two.until_ms is None else two.until_ms
    return replace(one, until_ms=last if last != one.at_ms else one.until_ms)
