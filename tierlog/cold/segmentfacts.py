"""What is known of a partition's segments when somebody asks why they are where they are. Values.

Gathered by `factfinding` from a running node, or from the bucket alone, and judged by `explaining`.
Times are wall clock in milliseconds; lengths of time and sizes of -1 are no limit, as in settings.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tierlog.cold.head import NOT_YET, Garbage, Hold, Policy
from tierlog.cold.tiersettings import NO_LIMIT
from tierlog.types import Offset, TimestampMs


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What the topic and the node say."""

    is_tiered: bool = True
    """`remote.storage.enable`."""
    copies: bool = True
    """False by `remote.log.copy.disable`."""
    expires: bool = True
    """Whether `cleanup.policy` has delete in it."""
    segment_bytes: int = 128 << 20
    segment_ms: int = 3_600_000
    upload_lag_max_ms: int = 3_600_000
    local_retention_ms: int = 600_000
    local_retention_bytes: int = NO_LIMIT
    retention_ms: int = NO_LIMIT
    retention_bytes: int = NO_LIMIT
    grace_ms: int = 86_400_000
    """Between the end of a segment's life and that of its object."""

    @property
    def policy(self) -> Policy:
        """By which records expire, as HEAD has to name it before they do."""
        return Policy(self.retention_ms, self.retention_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreHealth:
    """Whether the node gets anything to the store at all."""

    refusal: str | None = None
    """Why nothing is uploaded or dropped until a restart."""
    error: str | None = None
    away_since_ms: int | None = None
    """None while it answers."""
    is_state_lost: bool = False
    """It answers, and has no `cluster/STATE` that could be used."""
    retry_ms: int = 0
    """Until it is asked again."""


class Local(NamedTuple):
    """A segment on the disk of the node."""

    base: Offset
    next_offset: Offset
    size: int
    max_timestamp: TimestampMs
    first_append_ms: int
    is_active: bool = False
    is_synced: bool = True
    """Sealed, and its bytes and name are durable."""
    published_ms: int | None = None
    """None: no HEAD lists it yet."""


class Cold(NamedTuple):
    """A segment in the bucket, or a page of them that was not opened."""

    base: Offset
    next_offset: Offset
    segments: int
    bytes: int
    min_timestamp: TimestampMs
    max_timestamp: TimestampMs
    max_append_ms: int
    retain_until_ms: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    now_ms: int
    rules: Rules
    store: StoreHealth = StoreHealth()
    log_start: Offset
    """Of both tiers."""
    local_start: Offset
    uploaded_end: Offset
    visible_end: Offset
    local: Sequence[Local] = ()
    """Oldest first, the active one last."""
    cold: Sequence[Cold] = ()
    """Oldest first: what HEAD lists, in pages or one by one."""
    cold_bytes: int | None = None
    """Of them, from `garbage_end` on, as HEAD has it. None: the sum of the rows."""
    garbage: Sequence[Garbage] = ()
    garbage_end: Offset = NOT_YET
    """What ends at or before it is garbage already, also where a page still lists it."""
    holds: Sequence[Hold] = ()
    is_policy_told: bool = True
    """Whether HEAD names the topic's policy of now: nothing expires or is deleted before."""
    fence: str | None = None
    """Why this node may not publish the partition any more."""
    end_at_fence: Offset | None = None
    """Nothing from here on is dropped: others published it."""
    error: str | None = None
    """The partition's own, not the store's."""
    retry_ms: int = 0
    sending: Offset | None = None
    """Where the segment begins that is on its way to the store."""
    sent_end: Offset | None = None
    """Where the objects end that the store has and HEAD does not list."""
    bytes_per_s: float | None = None
    """What comes in, of late; None: not known."""

    @property
    def listed_bytes(self) -> int:
        """What the bucket has, as retention counts it."""
        if self.cold_bytes is not None:
            return self.cold_bytes
        return sum(row.bytes for row in self.cold if row.base >= self.garbage_end)

    @property
    def unpublished_bytes(self) -> int:
        """What only the disk has, as retention counts it."""
        return sum(one.size for one in self.local if one.next_offset > self.uploaded_end)
