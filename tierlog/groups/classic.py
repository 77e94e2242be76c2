"""A classic group: members join, one of them assigns, all sync; then they beat until something
changes. A machine without I/O.

    EMPTY -> PREPARING (waits for joins) -> COMPLETING (waits for the leader's sync) -> STABLE
               ^------------- a member comes, goes, changes or is gone -----------------'

What a restart remembers is written when a generation is complete or empty, and when a static member
comes back under a new id. A rebalance that a restart cuts off begins again: members are told so by
their next request. Kafka's answers, pitfalls 15-17 of the protocol included.
"""

from __future__ import annotations

from enum import Enum
from math import inf
from typing import TYPE_CHECKING

from tierlog.groups.formats import GroupKey, GroupValue, StateRecord
from tierlog.groups.member import Member, member_of, remembered, to_value
from tierlog.groups.pending import Pending
from tierlog.groups.roster import Roster
from tierlog.groups.subscription import CONSUMER, subscribed_topics
from tierlog.groups.values import Joined, JoinedMember, Left, Synced
from tierlog.wire.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tierlog.coordinator.step import Now
    from tierlog.groups.values import Beat, GroupLimits, GroupStep, Join, Leaving, Sync


PHASE_MS_MIN = 1_000
"""To join or to sync, whatever members ask for: less would only keep the coordinator busy."""


class State(Enum):
    """By the names that clients are told."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class ClassicGroup:
    def __init__(self, group_id: str, limits: GroupLimits, new_id: Callable[[str], str]) -> None:
        """`new_id` makes a member id that begins with the client's."""
        self.id = group_id
        self.state = State.EMPTY
        self.protocol_type: str | None = None
        self.generation = 0
        self.protocol: str | None = None
        self.leader: str | None = None
        self._roster = Roster()
        self.members = self._roster.members
        self.since_wall_ms = -1
        """When the remembered state was written."""
        self.wake_ms: float = inf
        """No deadline of the group is earlier."""
        self._limits = limits
        self._new_id = new_id
        self._statics = self._roster.statics
        self._pending = Pending()
        self._phase_ends_ms: float = inf
        """Of joining or syncing: who has not come by then is left behind."""
        self._is_delayed = False
        """Whether a first rebalance waits for others to come, be all here that are known."""
        self._delay_left_ms = 0
        """By how much the first rebalance may still wait for others to come."""

    @property
    def is_empty(self) -> bool:
        return self.state is State.EMPTY

    # Remembering

    def apply(self, value: GroupValue) -> None:
        """What the log says of the group; from now on this is it."""
        self.protocol_type = value.protocol_type or None
        self.generation = value.generation
        self.protocol = value.protocol
        self.leader = value.leader
        self.since_wall_ms = value.current_state_timestamp
        members = []
        for one in value.members:
            member = self.members.get(one.member_id) or remembered(one, value.protocol)
            member.assignment = one.assignment
            members.append(member)
        self._roster.set(members)
        self.state = State.STABLE if members else State.EMPTY
        self._phase_ends_ms = inf

    def loaded(self, now: Now) -> None:
        """A coordinator took the group over: every member has a session's time to be heard of."""
        for member in self.members.values():
            self._hear(member, now)

    def _record(self, now: Now) -> StateRecord:
        value = GroupValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol=self.protocol,
            leader=self.leader,
            current_state_timestamp=now.wall_ms,
            members=[to_value(one, self.protocol) for one in self.members.values()],
        )
        return StateRecord(GroupKey(group=self.id), value)

    # Joining

    def join(self, join: Join, ticket: int, now: Now, step: GroupStep) -> None:
        refusal = self._refusal_of(join)
        if refusal is not None:
            step.reply(ticket, Joined(error=refusal, member_id=join.member_id))
        elif not join.member_id:
            self._join_new(join, ticket, now, step)
        elif self._pending.take(join.member_id):
            self._admit(member_of(join, join.member_id), join.protocol_type, ticket, now, step)
        else:
            self._join_again(join, ticket, now, step)

    def _refusal_of(self, join: Join) -> ErrorCode | None:
        if not self._agrees(join):
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        known = self._statics.get(join.instance_id) if join.instance_id is not None else None
        if known is not None and join.member_id and join.member_id != known:
            return ErrorCode.FENCED_INSTANCE_ID
        is_inside = join.member_id in self.members or join.member_id in self._pending
        if join.member_id and not is_inside:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if join.instance_id is not None and known is None and join.member_id in self.members:
            return ErrorCode.UNKNOWN_MEMBER_ID  # It is there, but not under that name.
        old_id = known or join.member_id
        if (old_id not in self.members and self._is_full(join)) or self._is_too_much(join, old_id):
            return ErrorCode.GROUP_MAX_SIZE_REACHED
        return None

    def _is_full(self, join: Join) -> bool:
        if len(self.members) >= self._limits.size_max:
            return True
        wants_id = join.needs_known_id and not join.member_id
        return wants_id and len(self._pending) >= self._limits.pending_max

    def _is_too_much(self, join: Join, old_id: str) -> bool:
        """Whether members would say more than is kept for one group."""
        others = self._roster.says_without(old_id) + self._pending.bytes
        return others + join.said_bytes > self._limits.group_bytes_max

    def _agrees(self, join: Join) -> bool:
        """Whether all members would still have a protocol in common."""
        if not join.protocol_type or not join.protocols:
            return False
        if self._roster.is_alone(join.member_id):
            return True
        return join.protocol_type == self.protocol_type and self._roster.agrees(join)

    def _join_new(self, join: Join, ticket: int, now: Now, step: GroupStep) -> None:
        member_id = self._new_id(join.instance_id or join.client_id)
        old_id = None if join.instance_id is None else self._statics.get(join.instance_id)
        if old_id is not None:
            self._replace_static(join, old_id, member_id, ticket, now, step)
        elif join.instance_id is None and join.needs_known_id:
            # It comes back with the id: a join whose answer is lost leaves no ghost behind.
            until_ms = now.mono_ms + join.session_timeout_ms
            self._pending.add(member_id, until_ms=until_ms)
            self._wake(until_ms)
            step.reply(ticket, Joined(error=ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id))
        else:
            self._admit(member_of(join, member_id), join.protocol_type, ticket, now, step)

    def _admit(
        self, member: Member, protocol_type: str, ticket: int, now: Now, step: GroupStep
    ) -> None:
        if not self.members:
            self.protocol_type = protocol_type
        self._roster.add(member)
        self._park_join(member, ticket, now, step)
        if self.state is State.PREPARING:
            self._prolong(now)
        self._rebalance(now, step)

    def _join_again(self, join: Join, ticket: int, now: Now, step: GroupStep) -> None:
        member = self.members[join.member_id]
        self._hear(member, now)
        is_same = join.protocols == member.protocols
        self._roster.update(member, join)
        if self.state is State.PREPARING or not is_same or self._must_rebalance(member):
            self._park_join(member, ticket, now, step)
            self._rebalance(now, step)
        else:
            step.reply(ticket, self._joined(member))

    def _must_rebalance(self, member: Member) -> bool:
        """A leader that joins again wants another assignment. Others, with nothing new to say, only
        missed the answer."""
        return self.state is State.STABLE and member.id == self.leader

    def _park_join(self, member: Member, ticket: int, now: Now, step: GroupStep) -> None:
        """One that asks again has given up the answer to its first question; it is given one all
        the same, since a ticket that nobody answers is kept for ever."""
        if member.joining is not None:
            error = ErrorCode.REBALANCE_IN_PROGRESS
            step.reply(member.joining, Joined(error=error, member_id=member.id))
        member.joining = ticket
        self._roster.joining.add(member.id)
        self._hear(member, now)

    def _replace_static(
        self, join: Join, old_id: str, new_id: str, ticket: int, now: Now, step: GroupStep
    ) -> None:
        """A static member came back: the id that it had is fenced. If it subscribes to what it did
        before, and the protocol stays the same, nobody else is bothered."""
        old = self.members[old_id]
        self._refuse_waiting(old, ErrorCode.FENCED_INSTANCE_ID, step)
        self._roster.remove(old)
        member = member_of(join, new_id)
        member.assignment = old.assignment
        self._roster.add(member)
        was_leader = self.leader == old_id
        if was_leader:
            self.leader = new_id
        self._hear(member, now)
        if self.state is State.STABLE and self._is_alike(member, old):
            step.records.append(self._record(now))
            step.reply(ticket, self._rejoined(member, old_id if was_leader else None))
        else:
            self._park_join(member, ticket, now, step)
            self._rebalance(now, step)

    def _is_alike(self, member: Member, old: Member) -> bool:
        """What a consumer says may differ: it tells the generation and the partitions that it had,
        which one that comes back does not have any more. Kafka looks at the protocol alone."""
        if self._roster.selected_protocol() != self.protocol:
            return False
        if self.protocol_type != CONSUMER:
            return True
        said, before = (
            set(subscribed_topics(one.metadata(self.protocol)) or ()) for one in (member, old)
        )
        return said == before

    def _rejoined(self, member: Member, old_id: str | None) -> Joined:
        """For a leader: it must not assign anew. One that cannot be told to skip it is told of a
        leader that is not there any more."""
        if old_id is None:
            return self._joined(member)
        if member.can_skip_assignment:
            return self._joined(member, skip_assignment=True)
        return Joined(
            generation=self.generation,
            protocol_type=self.protocol_type,
            protocol=self.protocol,
            leader=old_id,
            member_id=member.id,
        )

    def _joined(self, member: Member, *, skip_assignment: bool = False) -> Joined:
        is_leader = member.id == self.leader
        return Joined(
            generation=self.generation,
            protocol_type=self.protocol_type,
            protocol=self.protocol,
            leader=self.leader or "",
            member_id=member.id,
            members=tuple(
                JoinedMember(one.id, one.instance_id, one.metadata(self.protocol))
                for one in self.members.values()
            )
            if is_leader
            else (),
            skip_assignment=skip_assignment,
        )

    # Rebalancing

    def _rebalance(self, now: Now, step: GroupStep) -> None:
        """Everybody joins again; complete if everybody has."""
        if self.state is not State.PREPARING:
            was_empty = self.state is State.EMPTY
            for member in self.members.values():
                if member.syncing is not None:
                    step.reply(member.syncing, Synced(error=ErrorCode.REBALANCE_IN_PROGRESS))
                    member.syncing = None
                    # It may have waited for longer than a session: now it is its turn to speak.
                    self._hear(member, now)
            self.state = State.PREPARING
            self._begin_joining(now, is_first=was_empty)
        self._complete_if_all_joined(now, step)

    def _begin_joining(self, now: Now, *, is_first: bool) -> None:
        longest = self._longest_ms()
        delay = min(self._limits.initial_delay_ms, longest) if is_first else 0
        self._delay_left_ms = max(longest - delay, 0) if is_first else 0
        self._is_delayed = is_first and delay > 0
        self._phase_ends_ms = now.mono_ms + (delay if is_first else longest)
        self._wake(self._phase_ends_ms)

    def _longest_ms(self) -> int:
        """Time that the slowest member asks for to join or to sync."""
        asked = (one.rebalance_timeout_ms for one in self.members.values())
        return max(PHASE_MS_MIN, *asked) if self.members else PHASE_MS_MIN

    def _prolong(self, now: Now) -> None:
        """Another one came during the first delay: who starts together is assigned together."""
        if self._is_delayed and self._delay_left_ms > 0:
            more = min(self._limits.initial_delay_ms, self._delay_left_ms)
            self._delay_left_ms -= more
            self._phase_ends_ms = max(self._phase_ends_ms, now.mono_ms + more)

    def _complete_if_all_joined(self, now: Now, step: GroupStep) -> None:
        if self._is_delayed and now.mono_ms < self._phase_ends_ms:
            return
        if self._roster.is_complete and not self._pending:
            self._complete_join(now, step)

    def _complete_join(self, now: Now, step: GroupStep) -> None:
        """A new generation of those who came. Static members may come later, within their session;
        others are left behind."""
        self._is_delayed = False
        for member in [one for one in self.members.values() if one.joining is None]:
            if member.instance_id is None:
                self._roster.remove(member)
        self.generation += 1
        if not self.members:
            self._become_empty(now, step)
            return
        if not any(one.joining is not None for one in self.members.values()):
            # Only static members, none of which has come yet: wait for them.
            self.generation -= 1
            self._begin_joining(now, is_first=False)
            return
        self.protocol = self._roster.selected_protocol()
        self._choose_leader()
        self.state = State.COMPLETING
        self._phase_ends_ms = now.mono_ms + self._longest_ms()
        self._wake(self._phase_ends_ms)
        for member in self.members.values():
            if member.joining is not None:
                step.reply(member.joining, self._joined(member))
                member.joining = None
                self._hear(member, now)
        self._roster.joining.clear()

    def _choose_leader(self) -> None:
        """The same as before, if it came again."""
        leader = self.members.get(self.leader or "")
        if leader is None or leader.joining is None:
            self.leader = next(one.id for one in self.members.values() if one.joining is not None)

    def _become_empty(self, now: Now, step: GroupStep) -> None:
        self.state = State.EMPTY
        self.protocol = None
        self.leader = None
        self._phase_ends_ms = inf
        step.records.append(self._record(now))

    # Syncing and beating

    def sync(self, sync: Sync, ticket: int, now: Now, step: GroupStep) -> None:
        error = self._check(sync.member_id, sync.instance_id, sync.generation)
        if error is ErrorCode.NONE and not self._speaks(sync.protocol_type, sync.protocol):
            error = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if error is not ErrorCode.NONE:
            step.reply(ticket, Synced(error=error))
            return
        member = self.members[sync.member_id]
        self._hear(member, now)
        if self.state is State.PREPARING:
            step.reply(ticket, Synced(error=ErrorCode.REBALANCE_IN_PROGRESS))
            return
        if self.state is State.STABLE:
            step.reply(ticket, self._synced(member))
            return
        if member.syncing is not None:
            step.reply(member.syncing, Synced(error=ErrorCode.REBALANCE_IN_PROGRESS))
        member.syncing = ticket
        if member.id == self.leader:
            self._assign(sync.assignments, now, step)

    def _speaks(self, protocol_type: str | None, protocol: str | None) -> bool:
        """From v5 on members say what they think was agreed upon."""
        return protocol_type in (None, self.protocol_type) and protocol in (None, self.protocol)

    def _assign(self, assignments: dict[str, bytes], now: Now, step: GroupStep) -> None:
        for member in self.members.values():
            member.assignment = assignments.get(member.id, b"")
        self._phase_ends_ms = inf
        self.state = State.STABLE
        step.records.append(self._record(now))
        for member in self.members.values():
            if member.syncing is not None:
                step.reply(member.syncing, self._synced(member))
                member.syncing = None
                self._hear(member, now)

    def _synced(self, member: Member) -> Synced:
        return Synced(
            protocol_type=self.protocol_type, protocol=self.protocol, assignment=member.assignment
        )

    def beat(self, beat: Beat, now: Now) -> ErrorCode:
        error = self._check(beat.member_id, beat.instance_id, beat.generation)
        if error is not ErrorCode.NONE:
            return error
        self._hear(self.members[beat.member_id], now)
        is_preparing = self.state is State.PREPARING
        return ErrorCode.REBALANCE_IN_PROGRESS if is_preparing else ErrorCode.NONE

    def _check(self, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        error = self.check_member(member_id, instance_id)
        if error is ErrorCode.NONE and generation != self.generation:
            return ErrorCode.ILLEGAL_GENERATION
        return error

    def check_member(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """Whoever names an instance must be the one that has the name."""
        known = member_id if instance_id is None else self._statics.get(instance_id)
        if known is None or known not in self.members:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if known == member_id else ErrorCode.FENCED_INSTANCE_ID

    def check_commit(self, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        """Whether its members' offsets may be written by whoever says that. An empty group takes
        them from anybody who claims no generation: tools, and consumers that assign themselves."""
        if generation < 0 and self.state is State.EMPTY:
            return ErrorCode.NONE
        error = self._check(member_id, instance_id, generation)
        if error is ErrorCode.NONE and self.state is State.COMPLETING:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return error

    def heard_of(self, member_id: str, now: Now) -> None:
        """A commit is a sign of life, too."""
        if (member := self.members.get(member_id)) is not None:
            self._hear(member, now)

    # Leaving

    def leave(self, leaving: Sequence[Leaving], now: Now, step: GroupStep) -> tuple[Left, ...]:
        done = tuple(self._leave_one(one, step) for one in leaving)
        if any(one.error is ErrorCode.NONE for one in done):
            self._go_on_without(now, step)
        return done

    def _leave_one(self, leaving: Leaving, step: GroupStep) -> Left:
        member_id, instance_id = leaving
        if instance_id is not None and not member_id:
            member_id = self._statics.get(instance_id, "")
        if self._pending.take(member_id):
            return Left(member_id, instance_id, ErrorCode.NONE)
        error = self.check_member(member_id, instance_id)
        if error is ErrorCode.NONE:
            member = self.members[member_id]
            self._refuse_waiting(member, ErrorCode.UNKNOWN_MEMBER_ID, step)
            self._roster.remove(member)
        return Left(leaving.member_id, instance_id, error)

    def _go_on_without(self, now: Now, step: GroupStep) -> None:
        """Somebody is gone."""
        if self.state in (State.STABLE, State.COMPLETING):
            self._rebalance(now, step)
        elif self.state is State.PREPARING:
            self._complete_if_all_joined(now, step)

    def _refuse_waiting(self, member: Member, error: ErrorCode, step: GroupStep) -> None:
        if member.joining is not None:
            step.reply(member.joining, Joined(error=error, member_id=member.id))
        if member.syncing is not None:
            step.reply(member.syncing, Synced(error=error))
        member.joining = member.syncing = None
        self._roster.joining.discard(member.id)

    # Time

    def tick(self, now: Now, step: GroupStep) -> None:
        """Let go of those who were not heard of, and of those who did not come in time."""
        self._pending.expire(now.mono_ms)
        gone = [one for one in self.members.values() if self._is_gone(one, now)]
        if self.state is State.COMPLETING and now.mono_ms >= self._phase_ends_ms:
            gone += [
                one for one in self.members.values() if one.syncing is None and one not in gone
            ]
        for member in gone:
            self._refuse_waiting(member, ErrorCode.UNKNOWN_MEMBER_ID, step)
            self._roster.remove(member)
        if gone:
            self._go_on_without(now, step)
        if self.state is State.PREPARING:
            if now.mono_ms >= self._phase_ends_ms:
                self._complete_join(now, step)
            else:
                self._complete_if_all_joined(now, step)
        self._set_wake()

    def _is_gone(self, member: Member, now: Now) -> bool:
        """Who waits for an answer of ours is there."""
        return not member.is_waiting and now.mono_ms >= member.deadline_ms

    def _set_wake(self) -> None:
        ends: Iterable[float] = (
            self._phase_ends_ms,
            *self._pending.ends_ms.values(),
            *(one.deadline_ms for one in self.members.values() if not one.is_waiting),
        )
        self.wake_ms = min(ends, default=inf)

    def _wake(self, at_ms: float) -> None:
        self.wake_ms = min(self.wake_ms, at_ms)

    def _hear(self, member: Member, now: Now) -> None:
        member.heard(now.mono_ms)
        self._wake(member.deadline_ms)
