"""Pages: older entries of a manifest, and references to such pages.

Immutable objects. A leaf page holds entries, an index page holds references to leaf pages; both in
order, without gap or overlap (skips of rule U10 aside). What a page is about stands in it as well
as in the reference, so a page that got lost can be told apart from another.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar, overload

from tierlog.cold.entry import Entry
from tierlog.cold.head import PageRef

Row = TypeVar("Row", bound=Entry | PageRef)


class Rows(Sequence[Row], Generic[Row]):
    """Rows of a page, each read and checked when somebody looks at it.

    A search looks at ten of a leaf's 256 entries; reading all of them takes longer than fetching
    the page. A row that makes no sense is `ColdCorrupt` then, not earlier.
    """

    __slots__ = ("_read", "_seen", "_values")

    def __init__(self, values: list[object], read: Callable[[object, int], Row]) -> None:
        self._values = values
        self._read: Callable[[object, int], Row] = read
        self._seen: dict[int, Row] = {}

    def __len__(self) -> int:
        return len(self._values)

    @overload
    def __getitem__(self, number: int) -> Row: ...

    @overload
    def __getitem__(self, number: slice) -> tuple[Row, ...]: ...

    def __getitem__(self, number: int | slice) -> Row | tuple[Row, ...]:
        if isinstance(number, slice):
            return tuple(self[one] for one in range(*number.indices(len(self))))
        place = range(len(self._values))[number]
        if place not in self._seen:
            self._seen[place] = self._read(self._values[place], place)
        return self._seen[place]

    def __iter__(self) -> Iterator[Row]:
        return (self[number] for number in range(len(self)))


@dataclass(frozen=True, slots=True, kw_only=True)
class LeafPage:
    topic_id: str
    partition: int
    chain_before: str
    entries: Sequence[Entry]
    """At least one."""

    @property
    def chain_after(self) -> str:
        return self.entries[-1].chain


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexPage:
    topic_id: str
    partition: int
    leaves: Sequence[PageRef]
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
