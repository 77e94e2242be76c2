"""One member of a classic group, as the machine holds it."""

from __future__ import annotations

from dataclasses import dataclass, field

from tierlog.groups.formats import MemberValue
from tierlog.groups.values import Join, Protocol, said_bytes


@dataclass(slots=True, kw_only=True)
class Member:
    id: str
    instance_id: str | None
    client_id: str
    host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: tuple[Protocol, ...]
    assignment: bytes = b""
    # What a restart may forget:
    deadline_ms: int = 0
    """When it is taken for gone, unless it is heard of."""
    joining: int | None = None
    """Ticket of a join that waits for the generation."""
    syncing: int | None = None
    """Ticket of a sync that waits for the leader's."""
    can_skip_assignment: bool = field(default=False)
    said_bytes: int = field(init=False)

    def __post_init__(self) -> None:
        self.said_bytes = said_bytes(self.protocols, self.client_id, self.instance_id)

    def metadata(self, protocol: str | None) -> bytes:
        return next((one.metadata for one in self.protocols if one.name == protocol), b"")

    @property
    def is_waiting(self) -> bool:
        """For an answer of ours."""
        return self.joining is not None or self.syncing is not None

    def heard(self, now_ms: int) -> None:
        self.deadline_ms = now_ms + self.session_timeout_ms

    def update(self, join: Join) -> None:
        self.client_id = join.client_id
        self.host = join.host
        self.session_timeout_ms = join.session_timeout_ms
        self.rebalance_timeout_ms = join.rebalance_timeout_ms
        self.protocols = join.protocols
        self.can_skip_assignment = join.can_skip_assignment
        self.said_bytes = join.said_bytes


def member_of(join: Join, member_id: str) -> Member:
    return Member(
        id=member_id,
        instance_id=join.instance_id,
        client_id=join.client_id,
        host=join.host,
        session_timeout_ms=join.session_timeout_ms,
        rebalance_timeout_ms=join.rebalance_timeout_ms,
        protocols=join.protocols,
        can_skip_assignment=join.can_skip_assignment,
    )


def remembered(value: MemberValue, protocol: str | None) -> Member:
    return Member(
        id=value.member_id,
        instance_id=value.group_instance_id,
        client_id=value.client_id,
        host=value.client_host,
        session_timeout_ms=value.session_timeout,
        rebalance_timeout_ms=max(value.rebalance_timeout, value.session_timeout),
        protocols=() if protocol is None else (Protocol(protocol, value.subscription),),
        assignment=value.assignment,
    )


def to_value(member: Member, protocol: str | None) -> MemberValue:
    return MemberValue(
        member_id=member.id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.host,
        rebalance_timeout=member.rebalance_timeout_ms,
        session_timeout=member.session_timeout_ms,
        subscription=member.metadata(protocol),
        assignment=member.assignment,
    )
