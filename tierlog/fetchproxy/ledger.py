"""What the chunk cache holds, and what goes first when room is needed. Pure bookkeeping.

Two pools. What came in once, for one reader, waits in the first and leaves in the order in which it
was last used; what a second reader asked for moves to the second, which takes up to 60 % of the
budget and is touched only when the first is empty. So a replay of years flows through the first
pool and evicts nothing that others use.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator

SHARED_PERCENT = 60


class Ledger:
    """Invariant: `used` is the size of all names in both pools."""

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.used = 0
        self._single: OrderedDict[str, tuple[int, object]] = OrderedDict()
        self._shared: OrderedDict[str, int] = OrderedDict()
        self._shared_used = 0

    def __contains__(self, name: str) -> bool:
        return name in self._single or name in self._shared

    def __len__(self) -> int:
        return len(self._single) + len(self._shared)

    def __iter__(self) -> Iterator[str]:
        """In the order in which they would go."""
        yield from self._single
        yield from self._shared

    def add(self, name: str, size: int, *, reader: object = None) -> None:
        """`reader` is who asked for it first; None if that is not known."""
        assert name not in self
        self._single[name] = (size, reader)
        self.used += size

    def touch(self, name: str, *, reader: object = None) -> None:
        """Used, by this reader. A name that is not there is fine."""
        if name in self._shared:
            self._shared.move_to_end(name)
        elif name in self._single:
            size, first = self._single[name]
            if first is None or first is reader:
                self._single[name] = (size, reader)
                self._single.move_to_end(name)
            else:
                del self._single[name]
                self._share(name, size)

    def _share(self, name: str, size: int) -> None:
        self._shared[name] = size
        self._shared_used += size
        while self._shared_used * 100 > self.budget * SHARED_PERCENT and len(self._shared) > 1:
            demoted, size = self._shared.popitem(last=False)
            self._shared_used -= size
            self._single[demoted] = (size, None)

    def remove(self, name: str) -> int:
        """Its size; 0 if it is not there."""
        if name in self._shared:
            size = self._shared.pop(name)
            self._shared_used -= size
        else:
            size, _ = self._single.pop(name, (0, None))
        self.used -= size
        return size

    def take_down_to(self, size: int) -> Iterable[tuple[str, int]]:
        """Remove, in order, until no more than `size` bytes are used."""
        gone = []
        while self.used > size:
            name = next(iter(self))
            gone.append((name, self.remove(name)))
        return gone
