"""One member of a consumer group (KIP-848), and how it gets to what it should have.

    STABLE         it has what it should have, as far as it was told
    UNREVOKED      it has to give something back, and has not confirmed that yet
    UNRELEASED     what it should have is still with others

A member is in an epoch. It goes on to the target's epoch once it has given back what it should not
have; from then on it is given what nobody else holds. What it has to give back counts as its own
until it says that it does not have it any more. Values, and functions of values.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from tierlog.groups.consumer_formats import (
    CurrentTopic,
    CurrentValue,
    SubscriberValue,
    TargetTopic,
    TargetValue,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from tierlog.groups.assigning import Spot
    from tierlog.groups.values import ConsumerBeat

JOINING: Final = 0
"""The epoch of a member that comes, or comes back."""
LEFT: Final = -1
LEFT_FOR_A_WHILE: Final = -2
"""Of a static member that will come back under its instance id."""


class MemberState(IntEnum):
    """By the numbers in Kafka's records."""

    STABLE = 0
    UNREVOKED = 1
    UNRELEASED = 2
    UNKNOWN = 127
    """A newer node wrote it: it begins anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMember:
    id: str
    # What it says:
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    host: str = ""
    topics: frozenset[str] = frozenset()
    regex: str | None = None
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    # What it has:
    epoch: int = JOINING
    previous_epoch: int = JOINING
    """It may come with this one, should an answer have been lost."""
    state: MemberState = MemberState.STABLE
    assigned: Mapping[Spot, int] = field(default_factory=dict)
    """With the target's epoch in which each came to it."""
    revoking: Mapping[Spot, int] = field(default_factory=dict)

    @property
    def held(self) -> Collection[Spot]:
        """What nobody else may have."""
        return self.assigned.keys() | self.revoking.keys()

    @property
    def said_bytes(self) -> int:
        """What it says of itself."""
        names = (self.id, self.instance_id, self.rack_id, self.client_id, self.regex)
        return sum(map(len, self.topics)) + sum(len(one) for one in names if one is not None)

    def commits(self, spot: Spot, epoch: int) -> bool:
        """Whether it may commit, in that epoch, to a partition. An epoch that is past will do, if
        the partition was its own then (KIP-1251)."""
        if epoch == self.epoch:
            return True
        since = self.assigned.get(spot, self.revoking.get(spot))
        return since is not None and since <= epoch < self.epoch


def told(member: ConsumerMember, beat: ConsumerBeat) -> ConsumerMember:
    """With what it says now. What it does not mention has not changed."""
    if beat.is_bare and (beat.client_id, beat.host) == (member.client_id, member.host):
        return member
    return replace(
        member,
        instance_id=_or(beat.instance_id, member.instance_id),
        rack_id=_or(beat.rack_id, member.rack_id),
        client_id=beat.client_id,
        host=beat.host,
        topics=member.topics if beat.topics is None else frozenset(beat.topics),
        regex=member.regex if beat.regex is None else beat.regex or None,
        rebalance_timeout_ms=member.rebalance_timeout_ms
        if beat.rebalance_timeout_ms < 0
        else beat.rebalance_timeout_ms,
        assignor=_or(beat.assignor, member.assignor),
    )


def _or(said: str | None, known: str | None) -> str | None:
    return known if said is None else said


def reconciled(
    member: ConsumerMember,
    target: Iterable[Spot],
    target_epoch: int,
    *,
    owned: Collection[Spot] | None,
    is_free: Callable[[Spot], bool],
) -> ConsumerMember:
    """One step towards the target. `owned` is what it says to have, None if it does not say."""
    if member.state is MemberState.STABLE and member.epoch == target_epoch:
        return member
    if member.state is MemberState.UNREVOKED and _has_any(owned, member.revoking):
        return member
    wanted = frozenset(target)
    kept = {spot: epoch for spot, epoch in member.assigned.items() if spot in wanted}
    leaving = {spot: epoch for spot, epoch in member.assigned.items() if spot not in wanted}
    if leaving and _has_any(owned, leaving):
        return replace(member, state=MemberState.UNREVOKED, assigned=kept, revoking=leaving)
    coming = [spot for spot in wanted if spot not in kept]
    given = {spot: target_epoch for spot in coming if is_free(spot)}
    return replace(
        member,
        epoch=target_epoch,
        previous_epoch=member.previous_epoch if member.epoch == target_epoch else member.epoch,
        state=MemberState.STABLE if len(given) == len(coming) else MemberState.UNRELEASED,
        assigned=kept | given,
        revoking={},
    )


def _has_any(owned: Collection[Spot] | None, spots: Mapping[Spot, int]) -> bool:
    """Who does not say may have them all."""
    return owned is None or any(spot in spots for spot in owned)


# As they are written down


def subscriber_value(member: ConsumerMember) -> SubscriberValue:
    return SubscriberValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.host,
        topics=sorted(member.topics),
        regex=member.regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        assignor=member.assignor,
    )


def with_subscriber(member: ConsumerMember, value: SubscriberValue) -> ConsumerMember:
    return replace(
        member,
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        host=value.client_host,
        topics=frozenset(value.topics),
        regex=value.regex or None,
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        assignor=value.assignor,
    )


def current_value(member: ConsumerMember) -> CurrentValue:
    return CurrentValue(
        epoch=member.epoch,
        previous_epoch=member.previous_epoch,
        state=member.state,
        assigned=_current_topics(member.assigned),
        revoking=_current_topics(member.revoking),
    )


def with_current(member: ConsumerMember, value: CurrentValue | None) -> ConsumerMember:
    """None: it has nothing, and is in no epoch."""
    if value is None:
        value = CurrentValue(epoch=0, previous_epoch=0, state=0, assigned=[], revoking=[])
    known = value.state in MemberState.__members__.values()
    return replace(
        member,
        epoch=value.epoch,
        previous_epoch=value.previous_epoch,
        state=MemberState(value.state) if known else MemberState.UNKNOWN,
        assigned=_spots(value.assigned, value.epoch),
        revoking=_spots(value.revoking, value.epoch),
    )


def _current_topics(spots: Mapping[Spot, int]) -> list[CurrentTopic]:
    return [
        CurrentTopic(
            topic_id=topic_id,
            partitions=partitions,
            assignment_epochs=[spots[topic_id, one] for one in partitions],
        )
        for topic_id, partitions in by_topic(spots).items()
    ]


def _spots(topics: Iterable[CurrentTopic], epoch: int) -> dict[Spot, int]:
    """Older nodes did not write since when: then since now, and nothing of before counts."""
    found: dict[Spot, int] = {}
    for one in topics:
        epochs = one.assignment_epochs or [epoch] * len(one.partitions)
        found |= {
            (one.topic_id, number): since
            for number, since in zip(one.partitions, epochs, strict=False)
        }
    return found


def target_value(spots: Iterable[Spot]) -> TargetValue:
    return TargetValue(
        topics=[
            TargetTopic(topic_id=topic_id, partitions=partitions)
            for topic_id, partitions in by_topic(spots).items()
        ]
    )


def target_spots(value: TargetValue) -> frozenset[Spot]:
    return frozenset((one.topic_id, number) for one in value.topics for number in one.partitions)


def by_topic(spots: Iterable[Spot]) -> dict[bytes, list[int]]:
    found: dict[bytes, list[int]] = defaultdict(list)
    for topic_id, partition in sorted(spots):
        found[topic_id].append(partition)
    return found
