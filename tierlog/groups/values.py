"""What goes into the group machines and what comes out: plain values, no wire types."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from tierlog.coordinator.step import Step
from tierlog.groups.formats import StateRecord
from tierlog.wire.error_codes import ErrorCode

NO_GENERATION = -1

GroupStep: TypeAlias = Step[StateRecord]


class Protocol(NamedTuple):
    """A way to assign partitions that a member knows, and what it says for it."""

    name: str
    metadata: bytes


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


class Commit(NamedTuple):
    """Of one partition."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int
    metadata: str


class Committed(NamedTuple):
    """What is remembered of one partition."""

    offset: int
    leader_epoch: int
    metadata: str
    wall_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLimits:
    """Kafka's names and defaults: `group.*`, `offset*`."""

    session_ms_min: int = 6_000
    session_ms_max: int = 1_800_000
    initial_delay_ms: int = 3_000
    size_max: int = 2**31 - 1
    metadata_bytes_max: int = 4_096
    offsets_retention_ms: int = 7 * 24 * 3600 * 1000
