"""What a restart remembers of a consumer group (KIP-848), and what follows from that.

The records of `consumer_formats` make it, one by one and in any order that compaction leaves; each
replaces what its key said before. Who holds a partition follows from what members have and have to
give back.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from tierlog.groups.consumer_formats import (
    CurrentKey,
    CurrentValue,
    EpochKey,
    EpochValue,
    SubscriberKey,
    SubscriberValue,
    TargetEpochKey,
    TargetEpochValue,
    TargetKey,
    TargetValue,
)
from tierlog.groups.consumer_member import (
    ConsumerMember,
    MemberState,
    target_spots,
    with_current,
    with_subscriber,
)
from tierlog.groups.formats import StateRecord

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tierlog.groups.assigning import Spot
    from tierlog.groups.consumer_formats import ConsumerKey, ConsumerValue

PROTOCOL_TYPE = "consumer"


class ConsumerState(Enum):
    """By the names that clients are told."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class ConsumerMemory:
    def __init__(self, group_id: str) -> None:
        self.id = group_id
        self.epoch = 0
        self.topics_hash = 0
        self.assignment_epoch = 0
        self.members: dict[str, ConsumerMember] = {}
        self.targets: dict[str, frozenset[Spot]] = {}
        self._statics: dict[str, str] = {}
        """Member ids by instance id."""
        self._owners: dict[Spot, str] = {}
        """Who holds a partition, whether it should or not."""

    # What others see

    @property
    def protocol_type(self) -> str:
        return PROTOCOL_TYPE

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def state(self) -> ConsumerState:
        if not self.members:
            return ConsumerState.EMPTY
        if self.epoch > self.assignment_epoch:
            return ConsumerState.ASSIGNING
        if all(self._is_there(one) for one in self.members.values()):
            return ConsumerState.STABLE
        return ConsumerState.RECONCILING

    def _is_there(self, member: ConsumerMember) -> bool:
        return member.state is MemberState.STABLE and member.epoch == self.assignment_epoch

    # Remembering

    def apply(self, key: ConsumerKey, value: ConsumerValue | None) -> None:
        if isinstance(key, SubscriberKey):
            assert value is None or isinstance(value, SubscriberValue), "of its key's kind"
            self._apply_subscriber(key.member_id, value)
        elif isinstance(key, CurrentKey):
            assert value is None or isinstance(value, CurrentValue), "of its key's kind"
            self._apply_current(key.member_id, value)
        elif isinstance(key, TargetKey):
            if isinstance(value, TargetValue):
                self.targets[key.member_id] = target_spots(value)
            else:
                self.targets.pop(key.member_id, None)
        elif isinstance(value, EpochValue):
            self.epoch, self.topics_hash = value.epoch, value.metadata_hash
        elif isinstance(value, TargetEpochValue):
            self.assignment_epoch = value.epoch

    def _apply_subscriber(self, member_id: str, value: SubscriberValue | None) -> None:
        known = self.members.get(member_id)
        instance_id = None if known is None else known.instance_id
        if instance_id is not None and self._statics.get(instance_id) == member_id:
            del self._statics[instance_id]
        if value is None:
            if known is not None:
                self._own(known, with_current(known, None))
                del self.members[member_id]
            return
        member = with_subscriber(known or ConsumerMember(id=member_id), value)
        self.members[member_id] = member
        if member.instance_id is not None:
            self._statics[member.instance_id] = member_id

    def _apply_current(self, member_id: str, value: CurrentValue | None) -> None:
        known = self.members.get(member_id)
        if known is None:
            if value is None:
                return
            known = ConsumerMember(id=member_id)
        self.members[member_id] = member = with_current(known, value)
        self._own(known, member)

    def _own(self, before: ConsumerMember, after: ConsumerMember) -> None:
        for spot in before.held:
            if self._owners.get(spot) == before.id:
                del self._owners[spot]
        for spot in after.held:
            self._owners[spot] = after.id

    def tombstones(self) -> Iterator[StateRecord]:
        """Of the whole group, in Kafka's order."""
        for one in self.members:
            yield from self._member_tombstones(one)
        yield StateRecord(TargetEpochKey(group=self.id), None)
        yield StateRecord(EpochKey(group=self.id), None)

    def _member_tombstones(self, member_id: str) -> Iterator[StateRecord]:
        yield StateRecord(CurrentKey(group=self.id, member_id=member_id), None)
        yield StateRecord(TargetKey(group=self.id, member_id=member_id), None)
        yield StateRecord(SubscriberKey(group=self.id, member_id=member_id), None)
