"""The groups of one shard and their offsets, as a machine without I/O.

`decide` is one method for each thing that can be asked: it answers with a `Step` and changes at
most what a restart may forget. `apply` takes the records of the shard's log, old and new, and is
the only way to change what is remembered.
"""

from __future__ import annotations

import struct
from heapq import heappop, heappush
from math import inf
from typing import TYPE_CHECKING

from tierlog.groups.classic import ClassicGroup, State
from tierlog.groups.formats import (
    GroupKey,
    OffsetKey,
    OffsetValue,
    StateRecord,
    UnknownKey,
    decode_record,
    encode_key,
    encode_value,
)
from tierlog.groups.subscription import subscribed_topics
from tierlog.groups.values import NO_GENERATION, Committed, GroupStep, Joined, Left, Synced
from tierlog.wire.error_codes import ErrorCode
from tierlog.wire.errors import WireError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from tierlog.coordinator.step import Now
    from tierlog.groups.values import Beat, Commit, GroupLimits, Join, Leaving, Sync

Place = tuple[str, int]
"""Topic and partition."""


class GroupMachine:
    def __init__(self, limits: GroupLimits, new_id: Callable[[str], str]) -> None:
        self.groups: dict[str, ClassicGroup] = {}
        self.offsets: dict[str, dict[Place, Committed]] = {}
        """By group, also of those without members."""
        self._limits = limits
        self._new_id = new_id
        self._wakes: list[tuple[float, str]] = []
        self._armed: dict[str, float] = {}
        """The earliest time at which each group is in `_wakes`."""

    # Remembering

    def apply(self, record: StateRecord) -> None:
        key, value = record
        if isinstance(key, OffsetKey):
            assert value is None or isinstance(value, OffsetValue), "a value of its key's kind"
            self._apply_offset(key, value)
        elif value is None:
            self.groups.pop(key.group, None)
        else:
            assert not isinstance(value, OffsetValue), "a value of its key's kind"
            self._group(key.group).apply(value)

    def _apply_offset(self, key: OffsetKey, value: OffsetValue | None) -> None:
        of_group = self.offsets.setdefault(key.group, {})
        place = (key.topic, key.partition)
        if value is None:
            of_group.pop(place, None)
            if not of_group:
                del self.offsets[key.group]
        else:
            of_group[place] = Committed(
                value.offset, value.leader_epoch, value.metadata, value.commit_timestamp
            )

    def encode(self, record: StateRecord) -> tuple[bytes, bytes | None]:
        key, value = record
        return encode_key(key), None if value is None else encode_value(value)

    def decode(self, key: bytes, value: bytes | None) -> StateRecord | None:
        try:
            return decode_record(key, value)
        except (UnknownKey, WireError, struct.error):
            return None  # A newer node wrote it, or somebody who is no node.

    def loaded(self, now: Now) -> None:
        """The log is applied: from now on members must be heard of."""
        for group in self.groups.values():
            group.loaded(now)
            self._arm(group)

    # Members

    def join(self, join: Join, ticket: int, now: Now) -> GroupStep:
        step = GroupStep()
        error = self._refusal_of(join)
        if error is not None:
            step.reply(ticket, Joined(error=error, member_id=join.member_id))
            return step
        group = self._group(join.group)
        group.join(join, ticket, now, step)
        self._arm(group)
        return step

    def _refusal_of(self, join: Join) -> ErrorCode | None:
        if not join.group:
            return ErrorCode.INVALID_GROUP_ID
        limits = self._limits
        if not limits.session_ms_min <= join.session_timeout_ms <= limits.session_ms_max:
            return ErrorCode.INVALID_SESSION_TIMEOUT
        if join.group not in self.groups and join.member_id:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return None

    def sync(self, sync: Sync, ticket: int, now: Now) -> GroupStep:
        step = GroupStep()
        group = self.groups.get(sync.group)
        if group is None:
            step.reply(ticket, Synced(error=_unknown(sync.group)))
        else:
            group.sync(sync, ticket, now, step)
            self._arm(group)
        return step

    def beat(self, beat: Beat, ticket: int, now: Now) -> GroupStep:
        step = GroupStep()
        group = self.groups.get(beat.group)
        error = _unknown(beat.group) if group is None else group.beat(beat, now)
        step.reply(ticket, error)
        return step

    def leave(self, group_id: str, leaving: Sequence[Leaving], ticket: int, now: Now) -> GroupStep:
        """The reply is one `Left` for each."""
        step = GroupStep()
        group = self.groups.get(group_id)
        if group is None:
            error = _unknown(group_id)
            done = tuple(Left(one.member_id, one.instance_id, error) for one in leaving)
        else:
            done = group.leave(leaving, now, step)
            self._arm(group)
        step.reply(ticket, done)
        return step

    # Offsets

    def commit(
        self,
        group_id: str,
        member_id: str,
        instance_id: str | None,
        generation: int,
        commits: Sequence[Commit],
        ticket: int,
        now: Now,
    ) -> GroupStep:
        """The reply is an error for each, in order."""
        step = GroupStep()
        error = self._check_commit(group_id, member_id, instance_id, generation)
        if error is not ErrorCode.NONE:
            step.reply(ticket, [error] * len(commits))
            return step
        if (group := self.groups.get(group_id)) is not None:
            group.heard_of(member_id, now)
        errors = []
        for one in commits:
            if len(one.metadata.encode()) > self._limits.metadata_bytes_max:
                errors.append(ErrorCode.OFFSET_METADATA_TOO_LARGE)
            else:
                errors.append(ErrorCode.NONE)
                step.records.append(_commit_record(group_id, one, now))
        step.reply(ticket, errors)
        return step

    def _check_commit(
        self, group_id: str, member_id: str, instance_id: str | None, generation: int
    ) -> ErrorCode:
        group = self.groups.get(group_id)
        if group is not None:
            return group.check_commit(member_id, instance_id, generation)
        # Nobody ever joined: whoever assigns itself may keep its offsets here.
        return ErrorCode.NONE if generation <= NO_GENERATION else ErrorCode.ILLEGAL_GENERATION

    def committed(self, group_id: str) -> Mapping[Place, Committed]:
        """Empty for a group that nobody knows: that is no error (pitfall 8)."""
        return self.offsets.get(group_id, {})

    def delete_offsets(
        self, group_id: str, places: Sequence[Place], ticket: int, now: Now
    ) -> GroupStep:
        """The reply is an error for the whole, or one for each."""
        step = GroupStep()
        group = self.groups.get(group_id)
        known = self.offsets.get(group_id, {})
        if group is None and not known:
            step.reply(ticket, ErrorCode.GROUP_ID_NOT_FOUND)
            return step
        read = _topics_read(group)
        errors = []
        for place in places:
            if place[0] in read:
                errors.append(ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)
                continue
            errors.append(ErrorCode.NONE)
            if place in known:
                step.records.append(_offset_tombstone(group_id, place))
        step.reply(ticket, errors)
        return step

    def forget_topics(self, topics: Collection[str]) -> GroupStep:
        """They are deleted: so are the offsets in them."""
        step = GroupStep()
        for group_id, known in self.offsets.items():
            step.records += [
                _offset_tombstone(group_id, place) for place in known if place[0] in topics
            ]
        return step

    # Groups

    def delete(self, group_id: str, ticket: int, now: Now) -> GroupStep:
        step = GroupStep()
        group = self.groups.get(group_id)
        if group is None and group_id not in self.offsets:
            step.reply(ticket, ErrorCode.GROUP_ID_NOT_FOUND)
        elif group is not None and group.state is not State.EMPTY:
            step.reply(ticket, ErrorCode.NON_EMPTY_GROUP)
        else:
            step.records += self._tombstones(group_id)
            step.reply(ticket, ErrorCode.NONE)
        return step

    def _tombstones(self, group_id: str) -> Iterator[StateRecord]:
        for place in self.offsets.get(group_id, {}):
            yield _offset_tombstone(group_id, place)
        if group_id in self.groups:
            yield StateRecord(GroupKey(group=group_id), None)

    def group_ids(self) -> list[str]:
        return sorted(self.groups.keys() | self.offsets.keys())

    # Time

    @property
    def wake_ms(self) -> float:
        """When `tick` is due."""
        return self._wakes[0][0] if self._wakes else inf

    def tick(self, now: Now) -> GroupStep:
        step = GroupStep()
        due = []
        while self._wakes and self._wakes[0][0] <= now.mono_ms:
            at_ms, group_id = heappop(self._wakes)
            if self._armed.get(group_id) == at_ms:  # Else it was armed for an earlier time.
                del self._armed[group_id]
                due.append(group_id)
        for group_id in due:
            group = self.groups.get(group_id)
            if group is not None:
                group.tick(now, step)
                # Whatever it wants at once, others have their turn before.
                group.wake_ms = max(group.wake_ms, now.mono_ms + 1)
                self._arm(group)
        return step

    def expire_offsets(self, now: Now) -> GroupStep:
        """Of groups that have had no members for so long. Then the group itself goes."""
        step = GroupStep()
        for group_id in self.group_ids():
            group = self.groups.get(group_id)
            if group is not None and group.state is not State.EMPTY:
                continue
            since = -1 if group is None else group.since_wall_ms
            kept = 0
            for place, one in self.offsets.get(group_id, {}).items():
                if now.wall_ms - max(one.wall_ms, since) >= self._limits.offsets_retention_ms:
                    step.records.append(_offset_tombstone(group_id, place))
                else:
                    kept += 1
            is_old = now.wall_ms - since >= self._limits.offsets_retention_ms
            if group is not None and not kept and is_old and not group.members:
                step.records.append(StateRecord(GroupKey(group=group_id), None))
        return step

    def _group(self, group_id: str) -> ClassicGroup:
        group = self.groups.get(group_id)
        if group is None:
            group = self.groups[group_id] = ClassicGroup(group_id, self._limits, self._new_id)
        return group

    def _arm(self, group: ClassicGroup) -> None:
        at_ms = group.wake_ms
        if at_ms < self._armed.get(group.id, inf):
            self._armed[group.id] = at_ms
            heappush(self._wakes, (at_ms, group.id))


def _unknown(group_id: str) -> ErrorCode:
    return ErrorCode.UNKNOWN_MEMBER_ID if group_id else ErrorCode.INVALID_GROUP_ID


def _commit_record(group_id: str, commit: Commit, now: Now) -> StateRecord:
    key = OffsetKey(group=group_id, topic=commit.topic, partition=commit.partition)
    value = OffsetValue(
        offset=commit.offset,
        leader_epoch=commit.leader_epoch,
        metadata=commit.metadata,
        commit_timestamp=now.wall_ms,
    )
    return StateRecord(key, value)


def _offset_tombstone(group_id: str, place: Place) -> StateRecord:
    return StateRecord(OffsetKey(group=group_id, topic=place[0], partition=place[1]), None)


def _topics_read(group: ClassicGroup | None) -> set[str]:
    """By members that say so in the words of Kafka's consumers."""
    if group is None or group.protocol_type != "consumer":
        return set()
    return {
        topic
        for member in group.members.values()
        for topic in subscribed_topics(member.metadata(group.protocol))
    }
