"""Objects that somebody could not read, for the scrubber to look at before their turn. Pure.

Consumers ask for what is damaged again and again, and one cause often damages much: a key waits
once, is not taken again for a while after it was looked at, and only so many wait. What finds no
place has its turn in the scrubber's rounds.
"""

from tierlog.env import Clock

WAITING_MAX = 100
"""A look reads an object to its end: at 64 MiB a second so many usual ones take a few minutes."""
AGAIN_S = 600.0
"""Between two looks at one object."""
REMEMBERED_MAX = 1000


class Suspects:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: dict[str, int] = {}
        """Oldest first, with the looks that the store did not answer."""
        self._looked: dict[str, float] = {}
        """When, oldest first."""

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, key: str) -> bool:
        """Whether it is new here."""
        since = self._looked.get(key)
        is_recent = since is not None and self._clock.monotonic() - since < AGAIN_S
        if is_recent or key in self._waiting or len(self._waiting) >= WAITING_MAX:
            return False
        self._waiting[key] = 0
        return True

    def first(self) -> str | None:
        """It waits until `looked`, or until it was `put_off` too often."""
        return next(iter(self._waiting), None)

    def looked(self, key: str) -> None:
        self._waiting.pop(key, None)
        self._looked.pop(key, None)
        self._looked[key] = self._clock.monotonic()
        if len(self._looked) > REMEMBERED_MAX:
            del self._looked[next(iter(self._looked))]

    def put_off(self, key: str, *, tries_max: int) -> None:
        """The store did not answer: behind all others, or given up."""
        tries = self._waiting.pop(key, 0) + 1
        if tries < tries_max:
            self._waiting[key] = tries
