"""The history of a simulated run, folded into one hash.

Two runs with the same hash ran the same callbacks at the same virtual times and saw the same events
of network and disks. What is folded never contains an address, an id or anything ordered by hash.
"""

import hashlib
from collections.abc import Callable
from typing import TypeAlias

Listener: TypeAlias = Callable[[str], None]

TAIL_LINES = 20
HASH_LINES = 512
"""Lines hashed at a time; a call for each would cost more than the hashing."""


class Trace:
    """Counts and hashes lines; keeps the last few for the report of a failure."""

    __slots__ = ("_digest", "_lines", "listener")

    def __init__(self) -> None:
        self._digest = hashlib.blake2b(digest_size=16)
        self._lines: list[str] = []
        self.listener: Listener | None = None
        """Hears every line: for a replay that wants to see the whole history."""

    def fold(self, line: str) -> None:
        self._lines.append(line)
        if self.listener is not None:
            self.listener(line)
        if len(self._lines) > HASH_LINES:
            self._hash(HASH_LINES - TAIL_LINES)

    def tail(self) -> list[str]:
        return self._lines[-TAIL_LINES:]

    def hexdigest(self) -> str:
        rest = self._digest.copy()
        for line in self._lines:
            rest.update(f"{line}\n".encode())
        return rest.hexdigest()

    def _hash(self, count: int) -> None:
        text = "\n".join(self._lines[:count])
        self._digest.update(f"{text}\n".encode())
        del self._lines[:count]
