"""What goes into the group machines and what comes out: plain values, no wire types."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from tierlog.coordinator.step import Step
from tierlog.wire.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tierlog.groups.assigning import Spot
    from tierlog.groups.formats import StateRecord

NO_GENERATION = -1
MEMBER_EPOCH_FROM = 9
"""Versions of OffsetCommit and OffsetFetch that carry the epoch of a consumer group's member."""

if TYPE_CHECKING:
    GroupStep: TypeAlias = Step[StateRecord]
else:
    GroupStep = Step  # A call of the alias takes longer than that of the class.


class Protocol(NamedTuple):
    """A way to assign partitions that a member knows, and what it says for it."""

    name: str
    metadata: bytes


def said_bytes(protocols: Iterable[Protocol], *names: str | None) -> int:
    """What a member of a classic group says of itself."""
    return sum(len(one.name) + len(one.metadata) for one in protocols) + sum(
        len(one) for one in names if one is not None
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    group: str
    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: tuple[Protocol, ...]
    needs_known_id: bool = False
    """The client can come back with an id (v4 and later)."""
    can_skip_assignment: bool = False
    """v9 and later."""

    @property
    def said_bytes(self) -> int:
        return said_bytes(self.protocols, self.client_id, self.instance_id)


class JoinedMember(NamedTuple):
    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    error: ErrorCode = ErrorCode.NONE
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = ""
    member_id: str = ""
    members: tuple[JoinedMember, ...] = ()
    """For the leader only."""
    skip_assignment: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Sync:
    group: str
    member_id: str
    instance_id: str | None
    generation: int
    protocol_type: str | None
    protocol: str | None
    assignments: dict[str, bytes]
    """By member; from the leader."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Synced:
    error: ErrorCode = ErrorCode.NONE
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""


class Beat(NamedTuple):
    group: str
    member_id: str
    instance_id: str | None
    generation: int


class Leaving(NamedTuple):
    member_id: str
    instance_id: str | None


class Left(NamedTuple):
    member_id: str
    instance_id: str | None
    error: ErrorCode


class ConsumerBeat(NamedTuple):
    """Of a member of a consumer group (KIP-848). None: as it was."""

    group: str
    member_id: str
    epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    host: str = ""
    rebalance_timeout_ms: int = -1
    topics: tuple[str, ...] | None = None
    regex: str | None = None
    """Empty: none any more."""
    assignor: str | None = None
    owned: frozenset[Spot] | None = None

    @property
    def is_bare(self) -> bool:
        """It says nothing of itself but who it is, as in nearly all beats."""
        return (
            self.topics is None
            and self.regex is None
            and self.rebalance_timeout_ms < 0
            and self.assignor is None
            and self.rack_id is None
        )

    @property
    def is_full(self) -> bool:
        """It says all that it has to say, so it wants to hear everything, too."""
        has_subscription = self.topics is not None or self.regex is not None
        return self.rebalance_timeout_ms >= 0 and has_subscription and self.owned is not None


class Beaten(NamedTuple):
    error: ErrorCode = ErrorCode.NONE
    sentence: str | None = None
    member_id: str | None = None
    epoch: int = 0
    interval_ms: int = 0
    assignment: frozenset[Spot] | None = None
    """None: as it was."""


class Refusal(Exception):
    """Inside a machine: what was asked for is not done, and why."""

    def __init__(self, code: ErrorCode, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code


class Commit(NamedTuple):
    """Of one partition."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int
    metadata: str
    topic_id: bytes = b""


class Committed(NamedTuple):
    """What is remembered of one partition."""

    offset: int
    leader_epoch: int
    metadata: str
    wall_ms: int
    topic_id: bytes = b"\0" * 16
    """Zeroes: whoever wrote it did not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLimits:
    """Kafka's names and defaults: `group.*`, `offset*`."""

    session_ms_min: int = 6_000
    session_ms_max: int = 1_800_000
    initial_delay_ms: int = 3_000
    size_max: int = 2**31 - 1
    metadata_bytes_max: int = 4_096
    offsets_retention_ms: int = 7 * 24 * 3600 * 1000
    member_bytes_max: int = 1 << 20
    """What a member may say of itself: the metadata of all its protocols, or topics and pattern.
    Kafka takes as much for a whole group, and fails at its first sync beyond that."""
    group_bytes_max: int = 16 << 20
    """What all members of a group may say together, and the ids that wait for their owners."""
    pending_max: int = 10_000
    """Ids of a group that were given out and not joined with yet."""
    patterns_max: int = 100
    """Different ones that the members of a consumer group subscribe by: each is matched with every
    topic when topics change, some 10 ms with 10,000 of them."""
    consumer_session_ms: int = 45_000
    consumer_heartbeat_ms: int = 5_000
    consumer_size_max: int = 2**31 - 1
    consumer_assignors: tuple[str, ...] = ("uniform", "range")
    """The first is for members that ask for none."""
