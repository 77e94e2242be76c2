"""The uniform assignor: as even as subscriptions allow, and as few moves as that takes.

Members keep what they had as long as they subscribe to it. If all subscribe to the same topics, a
member keeps no more than its fair share, and what is left over goes to those who have less: no two
members differ by more than one. If they do not, left-over partitions go to the least loaded of
their readers, those with the fewest readers first; then single partitions move from more to less
loaded members while two such members differ by two or more. Every move makes the shares more even,
so this ends.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tierlog.groups.assigning import Shares, Spot, Subscriber

Order = list[tuple[int, str]]
"""What members have, and who they are, in order."""
ORDERS_MAX: Final = 16
"""More first ones to be compared take longer than a look at the least loaded of all."""


def assign_uniform(members: Mapping[str, Subscriber], topics: Mapping[bytes, int]) -> Shares:
    """`topics`: how many partitions each has."""
    readers = _readers(members, topics)
    shares = _kept(members, topics)
    is_alike = len({one.topics.intersection(topics) for one in members.values()}) <= 1
    if is_alike:
        _cut_to_quota(shares, total=sum(topics[one] for one in readers))
    taken = set().union(*shares.values())
    free = [
        (topic_id, partition)
        for topic_id in sorted(readers, key=lambda one: (len(readers[one]), one))
        for partition in range(topics[topic_id])
        if (topic_id, partition) not in taken
    ]
    if is_alike:
        _fill(shares, free)
    else:
        loads = Loads(shares, members, readers)
        for spot in free:
            loads.give(spot)
        loads.balance()
    return {one: frozenset(share) for one, share in shares.items()}


def _readers(
    members: Mapping[str, Subscriber], topics: Mapping[bytes, int]
) -> dict[bytes, list[str]]:
    """By name, of topics that have any."""
    readers = defaultdict(list)
    for one in sorted(members):
        for topic_id in members[one].topics:
            if topic_id in topics:
                readers[topic_id].append(one)
    return readers


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


class Loads:
    """Who has least of those who may have a partition; exact at any time.

    Members that subscribe to the same topics are kept in order of what they have, and so are all
    members together. Where few such lists read a topic, the least is the first of one of them;
    where many do, one of the first of all members reads it, too, and is soon found.
    """

    def __init__(
        self,
        shares: dict[str, set[Spot]],
        members: Mapping[str, Subscriber],
        readers: Mapping[bytes, Sequence[str]],
    ) -> None:
        self._shares = shares
        self._readers = {topic_id: frozenset(some) for topic_id, some in readers.items()}
        self._all = sorted((len(share), one) for one, share in shares.items())
        alike: dict[frozenset[bytes], Order] = {}
        for load in self._all:
            alike.setdefault(members[load[1]].topics.intersection(readers), []).append(load)
        self._alike = {one: order for order in alike.values() for _, one in order}
        self._of_topic: dict[bytes, list[Order]] = {topic_id: [] for topic_id in readers}
        for topics, order in alike.items():
            for topic_id in topics:
                self._of_topic[topic_id].append(order)

    def _least(self, topic_id: bytes) -> tuple[int, str]:
        orders = self._of_topic[topic_id]
        if len(orders) <= ORDERS_MAX:
            return min(order[0] for order in orders)
        readers = self._readers[topic_id]
        return next(load for load in self._all if load[1] in readers)

    def give(self, spot: Spot) -> None:
        """To the least loaded of its readers."""
        load, one = self._least(spot[0])
        self._shares[one].add(spot)
        self._put(one, load, load + 1)

    def balance(self) -> None:
        """Until no single move makes it more even."""
        is_moving = True
        while is_moving:
            is_moving = False
            for load, one in sorted(self._all, key=lambda load: (-load[0], load[1])):
                for spot in sorted(self._shares[one]) if load else ():
                    is_moving |= self._move(one, spot)

    def _move(self, one: str, spot: Spot) -> bool:
        share = self._shares[one]
        if len(share) - self._least(spot[0])[0] < 2:
            return False
        share.remove(spot)
        self._put(one, len(share) + 1, len(share))
        self.give(spot)
        return True

    def _put(self, one: str, before: int, after: int) -> None:
        for order in (self._all, self._alike[one]):
            del order[bisect_left(order, (before, one))]
            insort(order, (after, one))
