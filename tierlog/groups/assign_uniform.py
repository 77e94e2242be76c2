"""The uniform assignor: as even as subscriptions allow, and as few moves as that takes.

Members keep what they had as long as they subscribe to it. If all subscribe to the same topics, a
member keeps no more than its fair share, and what is left over goes to those who have less: no two
members differ by more than one. If they do not, left-over partitions go to the least loaded of
their readers, those with the fewest readers first; then single partitions move from more to less
loaded members while two such members differ by two or more. Every move makes the shares more even,
so this ends.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tierlog.groups.assigning import Shares, Spot, Subscriber


def assign_uniform(members: Mapping[str, Subscriber], topics: Mapping[bytes, int]) -> Shares:
    """`topics`: how many partitions each has."""
    readers = {
        topic_id: [one for one in sorted(members) if topic_id in members[one].topics]
        for topic_id in sorted(topics)
    }
    shares = _kept(members, topics)
    is_alike = len({one.topics.intersection(topics) for one in members.values()}) <= 1
    if is_alike:
        _cut_to_quota(shares, total=sum(topics[one] for one in readers if readers[one]))
    taken = set().union(*shares.values())
    free = [
        (topic_id, partition)
        for topic_id in sorted(readers, key=lambda one: (len(readers[one]), one))
        if readers[topic_id]
        for partition in range(topics[topic_id])
        if (topic_id, partition) not in taken
    ]
    if is_alike:
        _fill(shares, free)
    else:
        for spot in free:
            least = min(readers[spot[0]], key=lambda one: (len(shares[one]), one))
            shares[least].add(spot)
        _balance(shares, readers)
    return {one: frozenset(share) for one, share in shares.items()}


def _kept(members: Mapping[str, Subscriber], topics: Mapping[bytes, int]) -> dict[str, set[Spot]]:
    """What each had and may still have. Should two have had the same, the first keeps it."""
    taken: set[Spot] = set()
    shares = {}
    for one in sorted(members):
        subscriber = members[one]
        shares[one] = {
            spot
            for spot in subscriber.had
            if spot[0] in subscriber.topics
            and spot[1] < topics.get(spot[0], 0)
            and spot not in taken
        }
        taken |= shares[one]
    return shares


def _cut_to_quota(shares: dict[str, set[Spot]], *, total: int) -> None:
    """Nobody keeps more than its fair share; as many as may have one more are those who have it."""
    if not shares:
        return
    quota, more = divmod(total, len(shares))
    for share in shares.values():
        allowed = quota
        if len(share) > quota and more:
            allowed, more = quota + 1, more - 1
        for spot in sorted(share)[allowed:]:
            share.remove(spot)


def _fill(shares: dict[str, set[Spot]], free: list[Spot]) -> None:
    """Each to whoever has least then."""
    heap = [(len(share), one) for one, share in shares.items()]
    heapify(heap)
    for spot in free:
        count, one = heappop(heap)
        shares[one].add(spot)
        heappush(heap, (count + 1, one))


def _balance(shares: dict[str, set[Spot]], readers: Mapping[bytes, list[str]]) -> None:
    """Until no single move makes it more even."""
    is_moving = True
    while is_moving:
        is_moving = False
        for one in sorted(shares, key=lambda one: (-len(shares[one]), one)):
            for spot in sorted(shares[one]):
                least = min(readers[spot[0]], key=lambda other: (len(shares[other]), other))
                if len(shares[one]) - len(shares[least]) >= 2:
                    shares[one].remove(spot)
                    shares[least].add(spot)
                    is_moving = True
