"""The range assignor: every topic by itself, in runs of partitions.

The members of a topic stand in order, static ones by their instance id, so that one who comes back
under another member id has its old place. Each gets as many partitions as the others; where they do
not come out even, the first get one more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tierlog.groups.assigning import Shares, Spot, Subscriber


def assign_range(members: Mapping[str, Subscriber], topics: Mapping[bytes, int]) -> Shares:
    """`topics`: how many partitions each has."""
    order = sorted(members, key=lambda one: (members[one].instance_id or one, one))
    shares: dict[str, set[Spot]] = {one: set() for one in members}
    for topic_id, count in topics.items():
        readers = [one for one in order if topic_id in members[one].topics]
        for reader, run in zip(readers, _runs(count, len(readers)), strict=True):
            shares[reader].update((topic_id, partition) for partition in run)
    return {one: frozenset(share) for one, share in shares.items()}


def _runs(count: int, readers: int) -> Iterator[range]:
    start = 0
    for number in range(readers):
        end = start + count // readers + (number < count % readers)
        yield range(start, end)
        start = end
