"""The groups of one shard and their offsets, as a machine without I/O.

`decide` is one method for each thing that can be asked: it answers with a `Step` and changes at
most what a restart may forget. `apply` takes the records of the shard's log, old and new, and is
the only way to change what is remembered.
"""

from __future__ import annotations

import struct
from heapq import heappop, heappush
from math import inf
from typing import TYPE_CHECKING, TypeAlias

from tierlog.groups.classic import ClassicGroup
from tierlog.groups.consumer import ConsumerGroup
from tierlog.groups.consumer_formats import EpochKey
from tierlog.groups.consumer_member import JOINING
from tierlog.groups.formats import (
    NO_ID,
    GroupKey,
    GroupValue,
    OffsetKey,
    OffsetValue,
    StateRecord,
    UnknownKey,
    decode_record,
    encode_key,
    encode_value,
)
from tierlog.groups.patterns import InvalidPattern
from tierlog.groups.piece import Piece
from tierlog.groups.subscription import CONSUMER, subscribed_topics
from tierlog.groups.values import (
    MEMBER_EPOCH_FROM,
    NO_GENERATION,
    Beaten,
    Committed,
    GroupStep,
    Joined,
    Left,
    Refusal,
    Synced,
)
from tierlog.wire.error_codes import ErrorCode
from tierlog.wire.errors import WireError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set

    from tierlog.coordinator.step import Now
    from tierlog.groups.consumer_formats import ConsumerKey, ConsumerValue
    from tierlog.groups.topicview import TopicView
    from tierlog.groups.values import Beat, Commit, ConsumerBeat, GroupLimits, Join, Leaving, Sync

Place = tuple[str, int]
"""Topic and partition."""

Group: TypeAlias = ClassicGroup | ConsumerGroup


class GroupMachine:
    def __init__(self, limits: GroupLimits, new_id: Callable[[str], str]) -> None:
        self.groups: dict[str, Group] = {}
        self.offsets: dict[str, dict[Place, Committed]] = {}
        """By group, also of those without members."""
        self._limits = limits
        self._new_id = new_id
        self._wakes: list[tuple[float, str]] = []
        self._armed: dict[str, float] = {}
        """The earliest time at which each group is in `_wakes`."""
        self._empty_since: dict[str, int] = {}
        """Of consumer groups: when they were first seen without members, by the wall clock."""
        self._gone: dict[str, set[bytes]] = {}
        """Topics that were deleted, by name and ids, whose offsets are not all forgotten yet."""

    # Remembering

    def apply(self, record: StateRecord) -> None:
        key, value = record
        if isinstance(key, OffsetKey):
            assert value is None or isinstance(value, OffsetValue), "a value of its key's kind"
            self._apply_offset(key, value)
        elif isinstance(key, GroupKey):
            assert value is None or isinstance(value, GroupValue), "a value of its key's kind"
            self._apply_classic(key.group, value)
        else:
            assert not isinstance(value, OffsetValue | GroupValue), "a value of its key's kind"
            self._apply_consumer(key, value)

    def _apply_classic(self, group_id: str, value: GroupValue | None) -> None:
        if value is not None:
            self._classic_anew(group_id).apply(value)
        elif isinstance(self.groups.get(group_id), ClassicGroup):
            del self.groups[group_id]

    def _apply_consumer(self, key: ConsumerKey, value: ConsumerValue | None) -> None:
        """What takes something away makes no group."""
        group = self.groups.get(key.group)
        if not isinstance(group, ConsumerGroup):
            if value is None:
                return
            group = self.groups[key.group] = self._new_consumer(key.group)
        group.apply(key, value)
        if isinstance(key, EpochKey) and value is None:
            del self.groups[key.group]
            self._empty_since.pop(key.group, None)

    def _apply_offset(self, key: OffsetKey, value: OffsetValue | None) -> None:
        of_group = self.offsets.setdefault(key.group, {})
        place = (key.topic, key.partition)
        if value is None:
            of_group.pop(place, None)
            if not of_group:
                del self.offsets[key.group]
        else:
            of_group[place] = Committed(
                value.offset,
                value.leader_epoch,
                value.metadata,
                value.commit_timestamp,
                value.topic_id,
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
        if isinstance(known := self.groups.get(join.group), ConsumerGroup):
            step.records += known.tombstones()  # It is empty.
        group = self._classic_anew(join.group)
        group.join(join, ticket, now, step)
        self._arm(group)
        return step

    def _refusal_of(self, join: Join) -> ErrorCode | None:
        if not join.group:
            return ErrorCode.INVALID_GROUP_ID
        limits = self._limits
        if not limits.session_ms_min <= join.session_timeout_ms <= limits.session_ms_max:
            return ErrorCode.INVALID_SESSION_TIMEOUT
        if join.said_bytes > limits.member_bytes_max:
            return ErrorCode.MESSAGE_TOO_LARGE
        group = self.groups.get(join.group)
        if isinstance(group, ConsumerGroup) and not group.is_empty:
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if not isinstance(group, ClassicGroup) and join.member_id:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return None

    def sync(self, sync: Sync, ticket: int, now: Now) -> GroupStep:
        step = GroupStep()
        group = self._classic(sync.group)
        if group is None:
            step.reply(ticket, Synced(error=_unknown(sync.group)))
        else:
            group.sync(sync, ticket, now, step)
            self._arm(group)
        return step

    def beat(self, beat: Beat, ticket: int, now: Now) -> GroupStep:
        step = GroupStep()
        step.reply(ticket, self.hear(beat, now))
        return step

    def hear(self, beat: Beat, now: Now) -> ErrorCode:
        """The answer to a heartbeat, which writes nothing down."""
        group = self.groups.get(beat.group)
        if isinstance(group, ClassicGroup):
            return group.beat(beat, now)
        return _unknown(beat.group)

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

    def consumer_beat(
        self, beat: ConsumerBeat, topics: TopicView, ticket: int, now: Now
    ) -> GroupStep:
        """Of a member of a consumer group, which may come with it, or leave."""
        step = GroupStep()
        try:
            group = self._consumer_for(beat, step)
            step.reply(ticket, group.beat(beat, topics, now, step))
        except Refusal as refusal:
            return _refused(ticket, refusal.code, str(refusal))
        except InvalidPattern as error:
            return _refused(ticket, ErrorCode.INVALID_REGULAR_EXPRESSION, str(error))
        self.groups[beat.group] = group
        self._empty_since.pop(beat.group, None)  # Or it is from now on: the next look counts anew.
        self._arm(group)
        return step

    def patterns_for(self, beat: ConsumerBeat, topics: TopicView) -> Sequence[str]:
        """Those that must be matched before the beat can be answered; matching takes time."""
        group = self.groups.get(beat.group)
        if isinstance(group, ConsumerGroup):
            return group.patterns_for(beat, topics)
        return [beat.regex] if beat.regex else ()

    def _consumer_for(self, beat: ConsumerBeat, step: GroupStep) -> ConsumerGroup:
        """An empty classic group makes room for who comes; its offsets stay."""
        group = self.groups.get(beat.group)
        if isinstance(group, ConsumerGroup):
            return group
        if beat.epoch != JOINING or (group is not None and not group.is_empty):
            what = "is not a consumer group" if group is not None else "is not known"
            raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"the group {beat.group!r} {what}")
        if group is not None:
            step.records.append(StateRecord(GroupKey(group=beat.group), None))
        return self._new_consumer(beat.group)

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
        *,
        version: int = MEMBER_EPOCH_FROM,
    ) -> GroupStep:
        """The reply is an error for each, in order. `version` of the request: older ones know no
        members of consumer groups."""
        step = GroupStep()
        error = self._check_commit(group_id, member_id, instance_id, generation, version)
        if error is not ErrorCode.NONE:
            step.reply(ticket, [error] * len(commits))
            return step
        group = self.groups.get(group_id)
        if isinstance(group, ClassicGroup):
            group.heard_of(member_id, now)
        errors = []
        for one in commits:
            if isinstance(group, ConsumerGroup) and not group.commits(member_id, generation, one):
                errors.append(ErrorCode.STALE_MEMBER_EPOCH)
            elif len(one.metadata.encode()) > self._limits.metadata_bytes_max:
                errors.append(ErrorCode.OFFSET_METADATA_TOO_LARGE)
            else:
                errors.append(ErrorCode.NONE)
                step.records.append(_commit_record(group_id, one, now))
        step.reply(ticket, errors)
        return step

    def _check_commit(
        self, group_id: str, member_id: str, instance_id: str | None, generation: int, version: int
    ) -> ErrorCode:
        group = self.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return group.check_commit(member_id, generation, version=version)
        if group is not None:
            return group.check_commit(member_id, instance_id, generation)
        # Nobody ever joined: whoever assigns itself may keep its offsets here.
        if generation <= NO_GENERATION:
            return ErrorCode.NONE
        is_newer = version >= MEMBER_EPOCH_FROM
        return ErrorCode.GROUP_ID_NOT_FOUND if is_newer else ErrorCode.ILLEGAL_GENERATION

    def check_fetch(self, group_id: str, member_id: str | None, epoch: int) -> ErrorCode:
        """Whether who says that may read the group's offsets: in consumer groups members read in
        their epoch."""
        group = self.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return group.check_fetch(member_id, epoch)
        return ErrorCode.NONE

    def committed(self, group_id: str) -> Mapping[Place, Committed]:
        """Empty for a group that nobody knows: that is no error (pitfall 8)."""
        known = self.offsets.get(group_id, {})
        if not self._gone:
            return known
        return {place: one for place, one in known.items() if not self._is_gone(place, one)}

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
        if isinstance(group, ClassicGroup) and _reads_unknown(group):
            step.reply(ticket, ErrorCode.NON_EMPTY_GROUP)
            return step
        read = _topics_read(group, {topic for topic, _ in places})
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

    # Offsets that go

    def topic_gone(self, name: str, topic_id: bytes) -> None:
        """It is deleted: nobody is told of the offsets in it any more, and `forgetting` takes them
        away. Those without an id are of the topic that had the name until now."""
        self._gone.setdefault(name, set()).update((topic_id, NO_ID))

    def forgetting(self) -> Iterator[GroupStep]:
        """Of topics that are gone, a piece at a time."""
        gone = {name: set(ids) for name, ids in self._gone.items()}
        yield from self._tombstones_where(self._is_gone)
        for name, ids in gone.items():
            self._gone[name] -= ids
            if not self._gone[name]:
                del self._gone[name]

    def _is_gone(self, place: Place, one: Committed) -> bool:
        return one.topic_id in self._gone.get(place[0], ())

    def strangers(self, ids: Mapping[str, bytes], owed: Collection[str]) -> Iterator[GroupStep]:
        """Offsets in topics that are not there, or are others of the same name, a piece at a time.
        `owed`: names whose offsets without a topic id are not of the topic that has the name now.
        """

        def is_strange(place: Place, one: Committed) -> bool:
            if place[0] not in ids:
                return True
            return one.topic_id != ids[place[0]] if one.topic_id != NO_ID else place[0] in owed

        return self._tombstones_where(is_strange)

    def _tombstones_where(self, test: Callable[[Place, Committed], bool]) -> Iterator[GroupStep]:
        piece = Piece()
        for group_id in list(self.offsets):
            for place in list(self.offsets.get(group_id, ())):
                one = self.offsets.get(group_id, {}).get(place)
                if one is not None and test(place, one):
                    _add_tombstone(piece, group_id, place)
                piece.look()
                if piece.is_full:
                    yield piece.take()
        yield piece.take()

    # Groups

    def delete(self, group_id: str, ticket: int, now: Now) -> GroupStep:
        step = GroupStep()
        group = self.groups.get(group_id)
        if group is None and group_id not in self.offsets:
            step.reply(ticket, ErrorCode.GROUP_ID_NOT_FOUND)
        elif group is not None and not group.is_empty:
            step.reply(ticket, ErrorCode.NON_EMPTY_GROUP)
        else:
            step.records += self._tombstones(group_id)
            step.reply(ticket, ErrorCode.NONE)
        return step

    def _tombstones(self, group_id: str) -> Iterator[StateRecord]:
        for place in self.offsets.get(group_id, {}):
            yield _offset_tombstone(group_id, place)
        yield from self._group_tombstones(group_id)

    def _group_tombstones(self, group_id: str) -> Iterator[StateRecord]:
        group = self.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            yield from group.tombstones()
        elif group is not None:
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

    def expiring(self, now: Now) -> Iterator[GroupStep]:
        """Offsets of groups that have had no members for so long, a piece at a time. Then the group
        itself goes."""
        piece = Piece()
        for group_id in self.group_ids():
            kept = 0
            for place in list(self.offsets.get(group_id, ())):
                if self._is_expired(group_id, place, now):
                    _add_tombstone(piece, group_id, place)
                else:
                    kept += 1
                piece.look()
                if piece.is_full:
                    yield piece.take()
            if not kept and self._is_over(group_id, now):
                for record in self._group_tombstones(group_id):
                    piece.add(record, 4 * len(group_id))
            piece.look()
            if piece.is_full:
                yield piece.take()
        yield piece.take()

    def _is_expired(self, group_id: str, place: Place, now: Now) -> bool:
        since = self._since(group_id, now)
        one = self.offsets.get(group_id, {}).get(place)
        if since is None or one is None:
            return False
        return now.wall_ms - max(one.wall_ms, since) >= self._limits.offsets_retention_ms

    def _is_over(self, group_id: str, now: Now) -> bool:
        """Also of a group that has nothing committed."""
        group, since = self.groups.get(group_id), self._since(group_id, now)
        if group is None or since is None or group.members:
            return False
        return now.wall_ms - since >= self._limits.offsets_retention_ms

    def _since(self, group_id: str, now: Now) -> int | None:
        """Since when it has had no members; None: it has. A consumer group's records do not tell:
        it is since somebody looked, and a restart looks anew, so that offsets stay rather too long.
        """
        group = self.groups.get(group_id)
        if group is not None and not group.is_empty:
            self._empty_since.pop(group_id, None)
            return None
        if isinstance(group, ConsumerGroup):
            return self._empty_since.setdefault(group_id, now.wall_ms)
        return -1 if group is None else group.since_wall_ms

    def _classic(self, group_id: str) -> ClassicGroup | None:
        group = self.groups.get(group_id)
        return group if isinstance(group, ClassicGroup) else None

    def _classic_anew(self, group_id: str) -> ClassicGroup:
        """The one that there is, or another one in place of what there is."""
        group = self._classic(group_id)
        if group is None:
            self.groups[group_id] = group = ClassicGroup(group_id, self._limits, self._new_id)
        return group

    def _new_consumer(self, group_id: str) -> ConsumerGroup:
        return ConsumerGroup(group_id, self._limits, self._new_id)

    def _arm(self, group: Group) -> None:
        at_ms = group.wake_ms
        if at_ms < self._armed.get(group.id, inf):
            self._armed[group.id] = at_ms
            heappush(self._wakes, (at_ms, group.id))


def _refused(ticket: int, code: ErrorCode, sentence: str) -> GroupStep:
    step = GroupStep()
    step.reply(ticket, Beaten(error=code, sentence=sentence))
    return step


def _unknown(group_id: str) -> ErrorCode:
    return ErrorCode.UNKNOWN_MEMBER_ID if group_id else ErrorCode.INVALID_GROUP_ID


def _commit_record(group_id: str, commit: Commit, now: Now) -> StateRecord:
    key = OffsetKey(group=group_id, topic=commit.topic, partition=commit.partition)
    value = OffsetValue(
        offset=commit.offset,
        leader_epoch=commit.leader_epoch,
        metadata=commit.metadata,
        commit_timestamp=now.wall_ms,
        topic_id=commit.topic_id or NO_ID,
    )
    return StateRecord(key, value)


def _offset_tombstone(group_id: str, place: Place) -> StateRecord:
    return StateRecord(OffsetKey(group=group_id, topic=place[0], partition=place[1]), None)


def _add_tombstone(piece: Piece, group_id: str, place: Place) -> None:
    # Four bytes a character at most.
    piece.add(_offset_tombstone(group_id, place), 4 * (len(group_id) + len(place[0])))


def _reads_unknown(group: ClassicGroup) -> bool:
    """Members of another kind than consumers (Connect's workers, for one) have words of their own
    for what they read."""
    return not group.is_empty and group.protocol_type != CONSUMER


def _topics_read(group: Group | None, topics: Set[str]) -> Collection[str]:
    """Those of `topics` that members of the group read. Where a member does not say in the words of
    Kafka's consumers, it may be any of them."""
    if isinstance(group, ConsumerGroup):
        return group.topics_read(topics)
    if group is None or group.is_empty:
        return ()
    read: set[str] = set()
    for member in group.members.values():
        found = subscribed_topics(member.metadata(group.protocol))
        if found is None:
            return topics
        read.update(found)
    return read
