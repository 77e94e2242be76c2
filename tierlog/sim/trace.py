"""The history of a simulated run, folded into one hash.

Two runs with the same hash ran the same callbacks at the same virtual times and saw the same events
of network and disks. What is folded never contains an address, an id or anything ordered by hash.
"""

import hashlib
from collections import deque
from collections.abc import Callable
from typing import TypeAlias

Listener: TypeAlias = Callable[[str], None]

TAIL_LINES = 20


class Trace:
    """Counts and hashes lines; keeps the last few for the report of a failure."""

    __slots__ = ("_digest", "count", "listener", "tail")

    def __init__(self) -> None:
        self._digest = hashlib.blake2b(digest_size=16)
        self.count = 0
        self.tail: deque[str] = deque(maxlen=TAIL_LINES)
        self.listener: Listener | None = None
        """Hears every line: for a replay that wants to see the whole history."""

    def fold(self, line: str) -> None:
        self.count += 1
        self._digest.update(line.encode())
        self._digest.update(b"\n")
        self.tail.append(line)
        if self.listener is not None:
            self.listener(line)

    def hexdigest(self) -> str:
        return self._digest.hexdigest()
