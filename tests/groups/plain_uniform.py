"""The uniform assignor in the plainest words: whoever has least is looked for among all readers,
every time. What the real one must come to, faster."""

from collections.abc import Mapping

from tierlog.groups.assigning import Shares, Spot, Subscriber


def plain_uniform(members: Mapping[str, Subscriber], topics: Mapping[bytes, int]) -> Shares:
    readers = {
        topic_id: [one for one in sorted(members) if topic_id in members[one].topics]
        for topic_id in sorted(topics)
    }
    shares = _kept(members, topics)
    taken = {spot for share in shares.values() for spot in share}
    for topic_id in sorted(readers, key=lambda one: (len(readers[one]), one)):
        for partition in range(topics[topic_id]) if readers[topic_id] else ():
            if (topic_id, partition) not in taken:
                shares[_least(shares, readers[topic_id])].add((topic_id, partition))
    is_moving = True
    while is_moving:
        is_moving = False
        for one in sorted(shares, key=lambda one: (-len(shares[one]), one)):
            for spot in sorted(shares[one]):
                least = _least(shares, readers[spot[0]])
                if len(shares[one]) - len(shares[least]) >= 2:
                    shares[one].remove(spot)
                    shares[least].add(spot)
                    is_moving = True
    return {one: frozenset(share) for one, share in shares.items()}


def _kept(members: Mapping[str, Subscriber], topics: Mapping[bytes, int]) -> dict[str, set[Spot]]:
    taken: set[Spot] = set()
    shares: dict[str, set[Spot]] = {}
    for one in sorted(members):
        may_have = {
            (topic_id, number)
            for topic_id in members[one].topics
            for number in range(topics.get(topic_id, 0))
        }
        shares[one] = (may_have & members[one].had) - taken
        taken |= shares[one]
    return shares


def _least(shares: Mapping[str, set[Spot]], readers: list[str]) -> str:
    return min(readers, key=lambda one: (len(shares[one]), one))
