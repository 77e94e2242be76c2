"""Pages: older entries of a manifest, and references to such pages.

Immutable objects. A leaf page holds entries, an index page holds references to leaf pages; both in
order, without gap or overlap (skips of rule U10 aside). What a page is about stands in it as well
as in the reference, so a page that got lost can be told apart from another.
"""

from dataclasses import dataclass

from tierlog.cold.entry import Entry
from tierlog.cold.head import PageRef


@dataclass(frozen=True, slots=True, kw_only=True)
class LeafPage:
    topic_id: str
    partition: int
    chain_before: str
    entries: tuple[Entry, ...]
    """At least one."""

    @property
    def chain_after(self) -> str:
        return self.entries[-1].chain


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexPage:
    topic_id: str
    partition: int
    leaves: tuple[PageRef, ...]
    """At least one."""

    @property
    def chain_before(self) -> str:
        return self.leaves[0].chain_before

    @property
    def chain_after(self) -> str:
        return self.leaves[-1].chain_after


Page = LeafPage | IndexPage


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPage:
    """A page that must be in the bucket before the HEAD that refers to it."""

    ref: PageRef
    data: bytes

    @property
    def key(self) -> str:
        """Relative to the partition."""
        return self.ref.key
