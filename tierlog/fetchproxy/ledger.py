"""What the chunk cache holds, and what goes first when room is needed. Pure bookkeeping.

Two pools. What came in once, for one reader, waits in the first; what a second reader asked for
moves to the second, which takes up to 60 % of the budget and is touched only when the first is
empty.

Of the first pool goes what was used longest ago, but not at the cost of somebody else: while that
was used not so long ago, the reader that holds most gives up its own oldest instead. So a replay of
years flows through its own share and evicts nothing that others use.
"""

from collections import OrderedDict
from collections.abc import Iterator
from typing import NamedTuple

from tierlog.fetchproxy.clients import Reader

SHARED_PERCENT = 60
STALE_BUDGETS = 4
"""What was not used while so many times the budget came in is nobody's any more."""


class Kept(NamedTuple):
    """A file of the first pool."""

    size: int
    reader: Reader | None
    """Who asked for it; None if that is not known."""
    is_read: bool
    used_at: int
    """What had come in, in bytes, when it was last used."""


class Gone(NamedTuple):
    name: str
    size: int
    reader: Reader | None
    is_read: bool


class Ledger:
    """Invariant: `used` is the size of all names in both pools."""

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.used = 0
        self._added = 0
        """Bytes that ever came in: the clock of this page."""
        self._single: OrderedDict[str, Kept] = OrderedDict()
        self._shared: OrderedDict[str, int] = OrderedDict()
        self._shared_used = 0
        self._of_reader: dict[Reader | None, OrderedDict[str, int]] = {}
        """The first pool once more, by reader."""
        self._bytes_of: dict[Reader | None, int] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._single or name in self._shared

    def __len__(self) -> int:
        return len(self._single) + len(self._shared)

    def __iter__(self) -> Iterator[str]:
        """In the order of their last use, pool by pool."""
        yield from self._single
        yield from self._shared

    @property
    def shared_bytes(self) -> int:
        """Of the second pool."""
        return self._shared_used

    def add(
        self, name: str, size: int, *, reader: Reader | None = None, is_read: bool = True
    ) -> None:
        """`reader` is who asked for it first; None if that is not known."""
        assert name not in self
        self._added += size
        self.used += size
        self._put(name, size, reader, is_read=is_read)

    def touch(self, name: str, *, reader: Reader | None = None) -> None:
        """Used, by this reader. A name that is not there is fine."""
        if name in self._shared:
            self._shared.move_to_end(name)
        elif (kept := self._single.get(name)) is not None:
            self._take(name)
            # Who was fetched for and never came is no first reader.
            if kept.reader is None or kept.reader is reader or not kept.is_read:
                self._put(name, kept.size, reader, is_read=True)
            else:
                self._share(name, kept.size)

    def _put(self, name: str, size: int, reader: Reader | None, *, is_read: bool) -> None:
        self._single[name] = Kept(size, reader, is_read, self._added)
        self._of_reader.setdefault(reader, OrderedDict())[name] = size
        self._bytes_of[reader] = self._bytes_of.get(reader, 0) + size

    def _take(self, name: str) -> Kept:
        kept = self._single.pop(name)
        names = self._of_reader[kept.reader]
        del names[name]
        self._bytes_of[kept.reader] -= kept.size
        if not names:
            del self._of_reader[kept.reader], self._bytes_of[kept.reader]
        return kept

    def _share(self, name: str, size: int) -> None:
        self._shared[name] = size
        self._shared_used += size
        while self._shared_used * 100 > self.budget * SHARED_PERCENT and len(self._shared) > 1:
            demoted, size = self._shared.popitem(last=False)
            self._shared_used -= size
            self._put(demoted, size, None, is_read=True)

    def remove(self, name: str) -> int:
        """Its size; 0 if it is not there."""
        return self._gone(name).size if name in self else 0

    def _gone(self, name: str) -> Gone:
        if name in self._shared:
            size = self._shared.pop(name)
            self._shared_used -= size
            self.used -= size
            return Gone(name, size, None, is_read=True)
        kept = self._take(name)
        self.used -= kept.size
        return Gone(name, kept.size, kept.reader, kept.is_read)

    def take_down_to(self, size: int) -> list[Gone]:
        """Remove, in order, until no more than `size` bytes are used."""
        gone = []
        while self.used > size:
            gone.append(self._gone(self._next()))
        return gone

    def _next(self) -> str:
        if not self._single:
            return next(iter(self._shared))
        oldest = next(iter(self._single))
        kept = self._single[oldest]
        if self._added - kept.used_at > STALE_BUDGETS * self.budget:
            return oldest
        largest = max(self._bytes_of, key=lambda reader: self._bytes_of[reader])
        return next(iter(self._of_reader[largest]))
