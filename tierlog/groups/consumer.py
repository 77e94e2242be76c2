"""A consumer group (KIP-848): members beat, and the coordinator says who reads what. A machine
without I/O.

Three epochs rise one after the other. The group's, when a member comes, goes or subscribes to
something else, or when a subscribed topic does; the target's, when it was decided who should have
what in that epoch; each member's, when it has given back what it should not have in it. Nobody is
given what another one holds: what somebody has to give back is held until it confirms that it has,
leaves, or is given up.

What a restart remembers are the records of `consumer_formats`. It may forget deadlines, and which
topics were looked at last: every member has a session's time to be heard of again, and whoever
beats first shows the topics.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING

from tierlog.groups import topicview
from tierlog.groups.assigning import Spot, Subscriber
from tierlog.groups.assignors import ASSIGNORS
from tierlog.groups.consumer_formats import (
    CurrentKey,
    EpochKey,
    EpochValue,
    SubscriberKey,
    TargetEpochKey,
    TargetEpochValue,
    TargetKey,
)
from tierlog.groups.consumer_member import (
    JOINING,
    LEFT,
    LEFT_FOR_A_WHILE,
    ConsumerMember,
    MemberState,
    current_value,
    reconciled,
    subscriber_value,
    target_value,
    told,
)
from tierlog.groups.consumer_memory import ConsumerMemory
from tierlog.groups.formats import StateRecord
from tierlog.groups.patterns import matched
from tierlog.groups.values import MEMBER_EPOCH_FROM, Beaten, Left, Refusal
from tierlog.wire.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence, Set

    from tierlog.coordinator.step import Now
    from tierlog.groups.assigning import Shares
    from tierlog.groups.topicview import TopicView
    from tierlog.groups.values import Commit, ConsumerBeat, GroupLimits, GroupStep, Leaving


class ConsumerGroup(ConsumerMemory):
    def __init__(self, group_id: str, limits: GroupLimits, new_id: Callable[[str], str]) -> None:
        super().__init__(group_id)
        self.wake_ms: float = inf
        """No deadline of the group is earlier."""
        self._limits = limits
        self._new_id = new_id
        self._topics = topicview.EMPTY
        self._sessions: dict[str, int] = {}
        """When each member is taken for gone, unless it is heard of."""
        self._revocations: dict[str, int] = {}
        """Until when a member has to have given back what it should not have."""

    @property
    def assignor(self) -> str:
        """What most members want who want a certain one."""
        return self._assignor_of(self.members)

    def _assignor_of(self, members: Mapping[str, ConsumerMember]) -> str:
        votes = Counter(one.assignor for one in members.values() if one.assignor is not None)
        default = self._limits.consumer_assignors[0]
        return max(sorted(votes), key=lambda one: votes[one]) if votes else default

    def topics_read(self, topics: Set[str]) -> frozenset[str]:
        """Those of `topics` that members subscribe to."""
        named = {name for one in self.members.values() for name in one.topics if name in topics}
        public = {name for name in topics - named if not self._topics.is_internal(name)}
        return frozenset(named).union(
            *(matched(one, public) for one in self._patterns(self.members))
        )

    def patterns_for(self, beat: ConsumerBeat, topics: TopicView) -> Sequence[str]:
        """That must be matched with these topics to answer it: none, if it changes nothing."""
        is_plain = beat.epoch > JOINING and beat.regex is None and beat.topics is None
        is_new = topics.generation != self._topics.generation or self.epoch > self.assignment_epoch
        if beat.epoch < JOINING or (is_plain and not is_new):
            return ()
        patterns = self._patterns(self.members)
        return list(patterns | {beat.regex} if beat.regex else patterns)

    def _patterns(self, members: Mapping[str, ConsumerMember]) -> set[str]:
        return {one.regex for one in members.values() if one.regex}

    def loaded(self, now: Now) -> None:
        """A coordinator took the group over: every member has a session's time to be heard of."""
        for member in self.members.values():
            self._hear(member, now)
            if member.state is MemberState.UNREVOKED:
                self._give_time_to_revoke(member, now)

    # Beating

    def beat(self, beat: ConsumerBeat, topics: TopicView, now: Now, step: GroupStep) -> Beaten:
        """Raises `Refusal`, and `InvalidPattern`: then `step` is to be thrown away."""
        if topics.generation < self._topics.generation:
            topics = self._topics  # Another beat has seen newer ones meanwhile.
        if beat.epoch in (LEFT, LEFT_FOR_A_WHILE):
            return self._leave(beat, step)
        member_id = beat.member_id or self._new_id("")
        known, old_id = self._find(beat, member_id)
        before = known or ConsumerMember(id=member_id)
        member = told(before if old_id is None else replace(before, id=member_id), beat)
        if self._is_quiet(known, member, topics):
            after = member
        else:
            after = self._go_on(beat, known, member, old_id, topics, now, step)
        if old_id is not None:
            self._forget_deadlines(old_id)
        self._await(member, after, now)
        is_told = beat.is_full or beat.epoch == JOINING or after.assigned != before.assigned
        return Beaten(
            member_id=member_id,
            epoch=after.epoch,
            interval_ms=self._limits.consumer_heartbeat_ms,
            assignment=frozenset(after.assigned) if is_told else None,
        )

    def _is_quiet(
        self, known: ConsumerMember | None, member: ConsumerMember, topics: TopicView
    ) -> bool:
        """Nothing is new, as in nearly all beats."""
        return (
            (known is member or known == member)
            and topics.generation == self._topics.generation
            and self.epoch == self.assignment_epoch
            and self._is_there(member)
        )

    def _go_on(
        self,
        beat: ConsumerBeat,
        known: ConsumerMember | None,
        member: ConsumerMember,
        old_id: str | None,
        topics: TopicView,
        now: Now,
        step: GroupStep,
    ) -> ConsumerMember:
        """The member comes or changes, the epochs with it, and it takes a step to its target."""
        if old_id is not None:
            step.records += self._member_tombstones(old_id)
        if member != known:
            self._check_words(member, old_id)
            key = SubscriberKey(group=self.id, member_id=member.id)
            step.records.append(StateRecord(key, subscriber_value(member)))
        members = {key: one for key, one in self.members.items() if key != old_id}
        members[member.id] = member
        targets = {one: self.targets.get(one, frozenset[Spot]()) for one in members}
        if old_id is not None:
            targets[member.id] = self.targets.get(old_id, frozenset())
            step.records.append(self._target_record(member.id, targets[member.id]))
        is_other = known is None or (member.topics, member.regex) != (known.topics, known.regex)
        epoch = self._next_epoch(members, topics, step, is_due=is_other)
        if epoch > self.assignment_epoch:
            targets = self._assign(members, targets, topics, epoch, now, step)
        after = reconciled(
            member,
            targets[member.id],
            max(epoch, self.assignment_epoch),
            owned=beat.owned,
            is_free=lambda spot: self._owners.get(spot) in (None, member.id, old_id),
        )
        if after != member or member.id not in self.members:
            current = CurrentKey(group=self.id, member_id=member.id)
            step.records.append(StateRecord(current, current_value(after)))
        return after

    def _find(self, beat: ConsumerBeat, member_id: str) -> tuple[ConsumerMember | None, str | None]:
        """The member, if there is one, and the id that it had before it came back."""
        if beat.instance_id is None:
            return self._find_dynamic(beat, member_id), None
        held_by = self._statics.get(beat.instance_id)
        if beat.epoch != JOINING:
            known = self._find_static(beat)
            _check_epoch(known, beat)
            return known, None
        if held_by is None:
            self._check_room()
            return None, None
        known = self.members[held_by]
        if held_by == member_id:
            return known, None
        if known.epoch != LEFT_FOR_A_WHILE:
            raise Refusal(
                ErrorCode.UNRELEASED_INSTANCE_ID,
                f"{beat.instance_id!r} is the instance id of a member that has not left",
            )
        return known, held_by

    def _find_dynamic(self, beat: ConsumerBeat, member_id: str) -> ConsumerMember | None:
        known = self.members.get(member_id)
        if beat.epoch == JOINING:
            if known is None:
                self._check_room()
            return known
        if known is None:
            raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"{member_id!r} is not in the group")
        _check_epoch(known, beat)
        return known

    def _find_static(self, beat: ConsumerBeat) -> ConsumerMember:
        held_by = self._statics.get(beat.instance_id or "")
        if held_by is None:
            raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"{beat.instance_id!r} is not in the group")
        if held_by != beat.member_id:
            raise Refusal(
                ErrorCode.FENCED_INSTANCE_ID,
                f"another member has the instance id {beat.instance_id!r} now",
            )
        return self.members[held_by]

    def _check_room(self) -> None:
        if len(self.members) >= self._limits.consumer_size_max:
            raise Refusal(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"the group has {len(self.members)} members, which is all it may have",
            )

    def _check_words(self, member: ConsumerMember, old_id: str | None) -> None:
        """Raises `Refusal` for one who says more than is kept."""
        limits, mine = self._limits, member.said_bytes
        if mine > limits.member_bytes_max:
            raise Refusal(
                ErrorCode.INVALID_REQUEST,
                f"a member may say {limits.member_bytes_max} bytes of itself, not {mine}; "
                "subscribe by a pattern",
            )
        others = (one for key, one in self.members.items() if key not in (member.id, old_id))
        if mine + sum(one.said_bytes for one in others) > limits.group_bytes_max:
            raise Refusal(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"the members of a group may say {limits.group_bytes_max} bytes of themselves",
            )
        self._check_pattern(member.regex, old_id)

    def _check_pattern(self, pattern: str | None, old_id: str | None) -> None:
        """All of them are matched whenever topics change."""
        others = self._patterns({key: one for key, one in self.members.items() if key != old_id})
        if pattern and pattern not in others and len(others) >= self._limits.patterns_max:
            raise Refusal(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"the members of a group may subscribe by {self._limits.patterns_max} different "
                "patterns; join some by |, or use more groups",
            )

    # Epochs and targets

    def _next_epoch(
        self,
        members: Mapping[str, ConsumerMember],
        topics: TopicView,
        step: GroupStep,
        *,
        is_due: bool,
    ) -> int:
        if not is_due and topics.generation == self._topics.generation:
            return self.epoch
        found = topics.hash_of(self._subscribed(members, topics))
        self._topics = topics.plain
        if not is_due and found == self.topics_hash:
            return self.epoch
        step.records.append(self._epoch_record(self.epoch + 1, found))
        return self.epoch + 1

    def _epoch_record(self, epoch: int, topics_hash: int) -> StateRecord:
        value = EpochValue(epoch=epoch, metadata_hash=topics_hash)
        return StateRecord(EpochKey(group=self.id), value)

    def _subscribed(
        self, members: Mapping[str, ConsumerMember], topics: TopicView
    ) -> frozenset[str]:
        return frozenset[str]().union(
            *(topics.subscribed(one.topics, one.regex) for one in members.values())
        )

    def _target_record(self, member_id: str, share: frozenset[Spot]) -> StateRecord:
        key = TargetKey(group=self.id, member_id=member_id)
        return StateRecord(key, target_value(share))

    def _assign(
        self,
        members: Mapping[str, ConsumerMember],
        before: Shares,
        topics: TopicView,
        epoch: int,
        now: Now,
        step: GroupStep,
    ) -> Shares:
        subscribers = {
            one.id: Subscriber(
                topics.ids(topics.subscribed(one.topics, one.regex)),
                before[one.id],
                one.instance_id,
            )
            for one in members.values()
        }
        names = self._subscribed(members, topics)
        known = (topics.by_name[name] for name in sorted(names))
        counts = {one.topic_id: one.partition_count for one in known}
        shares = ASSIGNORS[self._assignor_of(members)](subscribers, counts)
        for one, share in shares.items():
            if share != self.targets.get(one):
                step.records.append(self._target_record(one, share))
        value = TargetEpochValue(epoch=epoch, made_ms=now.wall_ms)
        step.records.append(StateRecord(TargetEpochKey(group=self.id), value))
        return shares

    # Leaving

    def _leave(self, beat: ConsumerBeat, step: GroupStep) -> Beaten:
        known = self.members.get(beat.member_id)
        if beat.instance_id is not None:
            known = self._find_static(beat)
        if known is None:
            raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"{beat.member_id!r} is not in the group")
        if beat.epoch == LEFT_FOR_A_WHILE:
            gone = replace(known, epoch=LEFT_FOR_A_WHILE, revoking={})
            key = CurrentKey(group=self.id, member_id=known.id)
            step.records.append(StateRecord(key, current_value(gone)))
            self._revocations.pop(known.id, None)
        else:
            self._remove([known.id], step)
        return Beaten(member_id=known.id, epoch=beat.epoch)

    def leave(self, leaving: Sequence[Leaving], now: Now, step: GroupStep) -> tuple[Left, ...]:
        """As administrators take static members out: by their instance id alone."""
        done, ids = [], []
        for one in leaving:
            held_by = self._statics.get(one.instance_id or "") if not one.member_id else None
            if held_by is not None and held_by not in ids:
                ids.append(held_by)
            error = ErrorCode.NONE if held_by is not None else ErrorCode.UNKNOWN_MEMBER_ID
            done.append(Left(one.member_id, one.instance_id, error))
        self._remove(ids, step)
        return tuple(done)

    def _remove(self, ids: Sequence[str], step: GroupStep) -> None:
        """Members go, and another epoch begins: the next beat decides who has what in it."""
        if not ids:
            return
        for one in ids:
            step.records += self._member_tombstones(one)
            self._forget_deadlines(one)
        left = {key: one for key, one in self.members.items() if key not in ids}
        step.records.append(self._epoch_record(self.epoch + 1, self._hash_of(left)))

    def _hash_of(self, left: Mapping[str, ConsumerMember]) -> int:
        """As it was, where nobody looked at topics or it would take time to match patterns: then a
        later change of topics may cost an epoch more than it had to."""
        topics = self._topics
        if topics is topicview.EMPTY or not all(map(topics.knows, self._patterns(left))):
            return self.topics_hash
        return topics.hash_of(self._subscribed(left, topics))

    # Offsets

    def check_commit(self, member_id: str, epoch: int, *, version: int) -> ErrorCode:
        """Of the whole request. An epoch that is past may do for some partitions: see `commits`."""
        if epoch < 0 and not self.members:
            return ErrorCode.NONE
        member = self.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if version < MEMBER_EPOCH_FROM:
            return ErrorCode.UNSUPPORTED_VERSION
        return ErrorCode.STALE_MEMBER_EPOCH if epoch > member.epoch else ErrorCode.NONE

    def commits(self, member_id: str, epoch: int, commit: Commit) -> bool:
        member = self.members.get(member_id)
        return member is None or member.commits((commit.topic_id, commit.partition), epoch)

    def check_fetch(self, member_id: str | None, epoch: int) -> ErrorCode:
        if member_id is None and epoch < 0:
            return ErrorCode.NONE
        member = self.members.get(member_id or "")
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if epoch == member.epoch else ErrorCode.STALE_MEMBER_EPOCH

    # Time

    def tick(self, now: Now, step: GroupStep) -> None:
        """Let go of those who were not heard of, and of those who did not give back in time."""
        gone = [
            one
            for one in self.members
            if min(self._sessions.get(one, inf), self._revocations.get(one, inf)) <= now.mono_ms
        ]
        self._remove(gone, step)
        self.wake_ms = min((*self._sessions.values(), *self._revocations.values()), default=inf)

    def _await(self, before: ConsumerMember, after: ConsumerMember, now: Now) -> None:
        self._hear(after, now)
        if after.state is not MemberState.UNREVOKED:
            self._revocations.pop(after.id, None)
        elif after != before:
            self._give_time_to_revoke(after, now)

    def _hear(self, member: ConsumerMember, now: Now) -> None:
        self._sessions[member.id] = now.mono_ms + self._limits.consumer_session_ms
        self.wake_ms = min(self.wake_ms, self._sessions[member.id])

    def _give_time_to_revoke(self, member: ConsumerMember, now: Now) -> None:
        self._revocations[member.id] = now.mono_ms + max(member.rebalance_timeout_ms, 0)
        self.wake_ms = min(self.wake_ms, self._revocations[member.id])

    def _forget_deadlines(self, member_id: str) -> None:
        self._sessions.pop(member_id, None)
        self._revocations.pop(member_id, None)


def _check_epoch(member: ConsumerMember, beat: ConsumerBeat) -> None:
    """The answer with the last epoch may have been lost: then it says the one before, and has
    nothing that it should not have."""
    is_clear = member.state is not MemberState.UNKNOWN or beat.owned == frozenset()
    if beat.epoch == member.epoch and is_clear:
        return
    is_retry = (
        beat.epoch == member.previous_epoch
        and beat.epoch < member.epoch
        and beat.owned is not None
        and all(spot in member.assigned for spot in beat.owned)
    )
    if not is_retry:
        raise Refusal(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"{member.id!r} is in epoch {member.epoch}, not {beat.epoch}; it must let go of all "
            "partitions and join again",
        )
