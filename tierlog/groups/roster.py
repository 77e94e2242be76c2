"""Who is in a classic group, and what all of them have in common.

What a join has to be held against (a protocol that all know, how much members say of themselves,
whether everybody has come) is counted as members come, change and go: a group of thousands forms
without a look at all of them for each.

Invariant: the counts are those of `members`.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tierlog.groups.member import Member
    from tierlog.groups.values import Join, Protocol

K = TypeVar("K")


class Roster:
    def __init__(self) -> None:
        self.members: dict[str, Member] = {}
        """Always this dict: whoever has it sees who comes and goes."""
        self.statics: dict[str, str] = {}
        """Member ids by instance id."""
        self.joining: set[str] = set()
        """Ids of those whose join waits for the generation."""
        self.said_bytes = 0
        """What members say of themselves, all together."""
        self._know: Counter[str] = Counter()
        """How many know a protocol."""
        self._wishes: Counter[tuple[str, ...]] = Counter()
        """How many know just these, in this order."""

    def add(self, member: Member) -> None:
        self.members[member.id] = member
        if member.instance_id is not None:
            self.statics[member.instance_id] = member.id
        self._count(member, 1)

    def remove(self, member: Member) -> None:
        del self.members[member.id]
        self.joining.discard(member.id)
        if member.instance_id is not None and self.statics.get(member.instance_id) == member.id:
            del self.statics[member.instance_id]
        self._count(member, -1)

    def update(self, member: Member, join: Join) -> None:
        """It says something else of itself."""
        self._count(member, -1)
        member.update(join)
        self._count(member, 1)

    def set(self, members: Iterable[Member]) -> None:
        """These and no others."""
        kept = list(members)
        for member in list(self.members.values()):
            self.remove(member)
        for member in kept:
            self.add(member)
            if member.joining is not None:
                self.joining.add(member.id)

    def _count(self, member: Member, by: int) -> None:
        self.said_bytes += by * member.said_bytes
        wishes = _names(member.protocols)
        _bump(self._wishes, wishes, by)
        for name in set(wishes):
            _bump(self._know, name, by)

    @property
    def is_complete(self) -> bool:
        """Everybody has joined."""
        return len(self.joining) == len(self.members)

    def is_alone(self, member_id: str) -> bool:
        """Whether there is nobody else, be it a member or not."""
        return len(self.members) == (member_id in self.members)

    def agrees(self, join: Join) -> bool:
        """Whether the others and who joins would have a protocol in common."""
        me = self.members.get(join.member_id)
        mine = frozenset[str]() if me is None else frozenset(_names(me.protocols))
        others = len(self.members) - (me is not None)
        return any(self._know[one.name] - (one.name in mine) == others for one in join.protocols)

    def says_without(self, member_id: str) -> int:
        """Bytes of all others."""
        member = self.members.get(member_id)
        return self.said_bytes - (0 if member is None else member.said_bytes)

    def selected_protocol(self) -> str:
        """Each votes for the first of its own that all have; the most votes win."""
        votes: Counter[str] = Counter()
        for wishes, count in self._wishes.items():
            votes[next(one for one in wishes if self._know[one] == len(self.members))] += count
        return max(votes, key=lambda name: votes[name])


def _bump(counter: Counter[K], key: K, by: int) -> None:
    """What nobody has any more is not kept."""
    counter[key] += by
    if not counter[key]:
        del counter[key]


def _names(protocols: Iterable[Protocol]) -> tuple[str, ...]:
    return tuple(one.name for one in protocols)
