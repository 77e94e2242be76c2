"""When bytes that fail their check count as damage.

A bad wire, a bad proxy or a repair that is under way heal, and clients ask again by themselves;
at the word that records are damaged many of them give up. So an object is damaged once several
reads of it in a row have failed, each after a second try.
"""

CORRUPT_TELLS = 5
"""Reads that fail before clients are told: half a second of a client that asks ten times a second,
two GETs each."""
OBJECTS_MAX = 1000


class Damage:
    def __init__(self) -> None:
        self._failed: dict[str, int] = {}
        """Reads in a row, by object."""

    def is_certain(self, key: str) -> bool:
        """A read of this object failed its check; whether it shall count as damaged."""
        count = self._failed.pop(key, 0) + 1
        self._failed[key] = count
        if len(self._failed) > OBJECTS_MAX:
            del self._failed[next(iter(self._failed))]
        return count >= CORRUPT_TELLS

    def healed(self, key: str) -> None:
        """A read of it passed."""
        self._failed.pop(key, None)
