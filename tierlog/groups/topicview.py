"""The topics of a cluster as groups see them: names, ids and how many partitions each has.

A value, made anew when topics change. Patterns of subscriptions are matched here, by RE2: its time
is linear in the name whatever the pattern, and its memory bounded. A pattern must match the whole
name. Topics of the node itself are not matched: whoever commits while it reads
`__consumer_offsets` would never come to its end.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Final, NamedTuple

import re2

from tierlog.errors import Kind, TierlogError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

PATTERN_BYTES_MAX: Final = 1 << 20
"""Of a compiled pattern; RE2 refuses what needs more."""


class InvalidPattern(TierlogError):
    """A subscription's pattern is not in RE2's language, or too large."""

    kind = Kind.INVALID


class KnownTopic(NamedTuple):
    topic_id: bytes
    partition_count: int
    is_internal: bool = False


class TopicView:
    def __init__(self, topics: Mapping[str, KnownTopic], *, generation: int = -1) -> None:
        """`generation` differs from that of every other view of the same node."""
        self.generation = generation
        self.by_name = topics
        self.names = {one.topic_id: name for name, one in topics.items()}
        self._matched: dict[str, frozenset[str]] = {}

    def matching(self, pattern: str) -> frozenset[str]:
        """Raises `InvalidPattern`."""
        found = self._matched.get(pattern)
        if found is None:
            is_match = compiled(pattern).fullmatch
            found = self._matched[pattern] = frozenset(
                name
                for name, one in self.by_name.items()
                if not one.is_internal and is_match(name) is not None
            )
        return found

    def subscribed(self, topics: Iterable[str], pattern: str | None) -> frozenset[str]:
        """Those that are there, by name or by pattern."""
        named = frozenset(name for name in topics if name in self.by_name)
        return named | self.matching(pattern) if pattern else named

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


def compiled(pattern: str) -> re2._Regexp:
    """Raises `InvalidPattern`."""
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    options.max_mem = PATTERN_BYTES_MAX
    try:
        return re2.compile(pattern, options)
    except (re2.error, UnicodeEncodeError) as error:
        raise InvalidPattern(
            f"{pattern!r:.300} is not a regular expression of RE2: {error}; see its syntax page"
        ) from None


EMPTY: Final = TopicView({})
