"""The topics of a cluster as groups see them: names, ids and how many partitions each has.

A value, made anew when topics change. It knows which topics the patterns of subscriptions match
(`patterns`); what the view before it knew of other topics holds here, too. Topics of the node
itself are not matched: whoever commits while it reads `__consumer_offsets` would never come to its
end.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Final, NamedTuple

from tierlog.groups.patterns import Found, Matches, steps

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Mapping


class KnownTopic(NamedTuple):
    topic_id: bytes
    partition_count: int
    is_internal: bool = False


class TopicView:
    def __init__(
        self,
        topics: Mapping[str, KnownTopic],
        *,
        generation: int = -1,
        before: TopicView | None = None,
    ) -> None:
        """`generation` differs from that of every other view of the same node; `before` is the one
        that this one replaces."""
        self.generation = generation
        self.by_name = topics
        self.names = {one.topic_id: name for name, one in topics.items()}
        self._public = frozenset(name for name, one in topics.items() if not one.is_internal)
        self._matches = Matches()
        self._latest: Matches = Matches() if before is None else before._latest
        """Of this view and those before it."""

    def knows(self, pattern: str) -> bool:
        """Whether it takes no time to say what it matches."""
        return self._matches.get(pattern) is not None

    def match(
        self, pattern: str, known: Found | None = None
    ) -> Generator[None, None, frozenset[str]]:
        """Find out what it matches, in steps. `known` is what it matches among other names. Raises
        `InvalidPattern`."""
        found = self._matches.get(pattern)
        if found is None:
            known = self._latest.get(pattern) or known
            found = yield from steps(pattern, self._public, known)
            self._matches.put(pattern, found)
            self._latest.put(pattern, found)
        return found.names

    def matching(self, pattern: str) -> frozenset[str]:
        """The same at once."""
        found = self.match(pattern)
        while True:
            try:
                next(found)
            except StopIteration as stop:
                names: frozenset[str] = stop.value
                return names

    def holding(self, before: HeldView | None = None) -> HeldView:
        """The same topics, for one decision. `before` is one that was begun with other topics."""
        return HeldView(self, before)

    @property
    def plain(self) -> TopicView:
        """That remembers no more than it may, to be kept."""
        return self

    def subscribed(self, topics: Iterable[str], pattern: str | None) -> frozenset[str]:
        """Those that are there, by name or by pattern."""
        named = frozenset(name for name in topics if name in self.by_name)
        return named | self.matching(pattern) if pattern else named

    def is_internal(self, name: str) -> bool:
        return name in self.by_name and self.by_name[name].is_internal

    def ids(self, names: Iterable[str]) -> frozenset[bytes]:
        return frozenset(self.by_name[name].topic_id for name in names)

    def hash_of(self, names: Iterable[str]) -> int:
        """Another one when a topic of these comes, goes, grows or is another one of its name.
        64 bits with a sign, as they are written down; 0 for none."""
        digest = blake2b(digest_size=8)
        for name in sorted(names):
            topic = self.by_name[name]
            digest.update(name.encode() + b"\0" + topic.topic_id)
            digest.update(topic.partition_count.to_bytes(4, "big"))
        return int.from_bytes(digest.digest(), "big", signed=True) if names else 0


class HeldView(TopicView):
    """The same view, which forgets nothing that it was asked: a decision may need more patterns
    than are remembered, and none may go while the others are matched. For a short life."""

    def __init__(self, view: TopicView, before: HeldView | None = None) -> None:
        # Not as a view is made: everything but the matches is the other one's.
        self.generation, self.by_name, self.names = view.generation, view.by_name, view.names
        self._view = view
        self._held: dict[str, Found] = {}
        self._before: dict[str, Found] = {} if before is None else before._held

    def knows(self, pattern: str) -> bool:
        if pattern not in self._held and (found := self._view._matches.get(pattern)) is not None:
            self._held[pattern] = found
        return pattern in self._held

    def match(
        self, pattern: str, known: Found | None = None
    ) -> Generator[None, None, frozenset[str]]:
        if not self.knows(pattern):
            names = yield from self._view.match(pattern, known or self._before.get(pattern))
            self._held[pattern] = Found(names, self._view._public)
        return self._held[pattern].names

    @property
    def plain(self) -> TopicView:
        return self._view


EMPTY: Final = TopicView({})
