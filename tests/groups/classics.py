"""Drives one classic group without a clock, a loop or a log: each call is decided, its records are
applied, its replies kept by ticket."""

from dataclasses import replace
from typing import Any

from tierlog.coordinator.step import Now
from tierlog.groups.classic import ClassicGroup
from tierlog.groups.machine import GroupMachine
from tierlog.groups.values import Beat, GroupLimits, GroupStep, Join, Leaving, Protocol, Sync
from tierlog.wire.error_codes import ErrorCode

GROUP = "g"
WALL_MS = 1_700_000_000_000
LIMITS = GroupLimits(initial_delay_ms=0)


class Bench:
    def __init__(self, limits: GroupLimits = LIMITS) -> None:
        self.limits = limits
        self.now_ms = 1_000
        self.replies: dict[int, Any] = {}
        self.replied_ms: dict[int, int] = {}
        """When each of them was given."""
        self.log: list[tuple[bytes, bytes | None]] = []
        self._tickets = 0
        self._ids = 0
        self.machine = self._machine()

    def _machine(self) -> GroupMachine:
        return GroupMachine(self.limits, self._new_id)

    def _new_id(self, prefix: str) -> str:
        self._ids += 1
        return f"{prefix}-{self._ids}"

    @property
    def now(self) -> Now:
        return Now(self.now_ms, WALL_MS + self.now_ms)

    @property
    def group(self) -> ClassicGroup:
        found = self.machine.groups[GROUP]
        assert isinstance(found, ClassicGroup)
        return found

    def carry_out(self, step: GroupStep) -> None:
        for record in step.records:
            self.log.append(self.machine.encode(record))
            self.machine.apply(record)
        for ticket, value in step.replies:
            assert ticket not in self.replies, "nobody is answered twice"
            self.replies[ticket] = value
            self.replied_ms[ticket] = self.now_ms

    def ticket(self) -> int:
        self._tickets += 1
        return self._tickets

    def restart(self) -> None:
        """Another coordinator: what the log says, and no more."""
        self.machine = self._machine()
        for key, value in self.log:
            record = self.machine.decode(key, value)
            assert record is not None
            self.machine.apply(record)
        self.machine.loaded(self.now)

    def expire(self) -> None:
        for step in self.machine.expiring(self.now):
            self.carry_out(step)

    def forget(self, topic: str, topic_id: bytes) -> None:
        self.machine.topic_gone(topic, topic_id)
        for step in self.machine.forgetting():
            self.carry_out(step)

    # What members do

    def ask_join(self, member_id: str = "", **changes: Any) -> int:
        ticket = self.ticket()
        self.carry_out(self.machine.join(join(member_id, **changes), ticket, self.now))
        return ticket

    def join(self, member_id: str = "", **changes: Any) -> Any:
        """The reply, or None while it waits."""
        return self.replies.get(self.ask_join(member_id, **changes))

    def ask_sync(self, member_id: str, generation: int, **assignments: bytes) -> int:
        ticket = self.ticket()
        sync = Sync(
            group=GROUP,
            member_id=member_id,
            instance_id=None,
            generation=generation,
            protocol_type="consumer",
            protocol=None,
            assignments={key.replace("_", "-"): one for key, one in assignments.items()},
        )
        self.carry_out(self.machine.sync(sync, ticket, self.now))
        return ticket

    def beat(self, member_id: str, generation: int, instance_id: str | None = None) -> ErrorCode:
        ticket = self.ticket()
        beat = Beat(GROUP, member_id, instance_id, generation)
        self.carry_out(self.machine.beat(beat, ticket, self.now))
        code: ErrorCode = self.replies[ticket]
        return code

    def leave(self, member_id: str = "", instance_id: str | None = None) -> ErrorCode:
        ticket = self.ticket()
        leaving = [Leaving(member_id, instance_id)]
        self.carry_out(self.machine.leave(GROUP, leaving, ticket, self.now))
        (left,) = self.replies[ticket]
        code: ErrorCode = left.error
        return code

    def wait(self, ms: int) -> None:
        """Time passes, and the machine is woken when it asked to be."""
        end = self.now_ms + ms
        while self.machine.wake_ms <= end:
            self.now_ms = max(self.now_ms, int(self.machine.wake_ms))
            self.carry_out(self.machine.tick(self.now))
        self.now_ms = end

    # Whole rounds

    def member(self, **changes: Any) -> str:
        """An id to join with."""
        reply = self.join(**changes)
        assert reply.error is ErrorCode.MEMBER_ID_REQUIRED
        found: str = reply.member_id
        return found

    def stable(self, count: int) -> list[str]:
        """A group of so many, in one generation, each assigned its own id."""
        ids = [self.member() for _ in range(count)]
        tickets = [self.ask_join(one) for one in ids]
        self.sync_all(tickets)
        return ids

    def sync_all(self, tickets: list[int]) -> None:
        joined = [self.replies[one] for one in tickets]
        leader = next(one for one in joined if one.members)
        ids = [one.member_id for one in joined]
        shares = {one.replace("-", "_"): one.encode() for one in ids}
        for one in joined:
            mine = shares if one is leader else {}
            self.ask_sync(one.member_id, one.generation, **mine)


def join(member_id: str = "", **changes: Any) -> Join:
    usual = Join(
        group=GROUP,
        member_id=member_id,
        instance_id=None,
        client_id="c",
        host="/10.0.0.9",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        protocol_type="consumer",
        protocols=(Protocol("range", b"topics"),),
        needs_known_id=True,
        can_skip_assignment=True,
    )
    return replace(usual, **changes)
