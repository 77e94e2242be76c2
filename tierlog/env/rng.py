"""Randomness as a port: jitter, choices and ids.

Under simulation one seed answers every call, so a history can be replayed.
"""

import os
import random
import uuid
from typing import Protocol


class Rng(Protocol):
    def random(self) -> float:
        """A number in [0, 1)."""
        ...

    def randrange(self, stop: int) -> int:
        """A whole number in [0, stop)."""
        ...

    def randbytes(self, size: int) -> bytes: ...

    def uuid(self) -> uuid.UUID:
        """A random (version 4) UUID."""
        ...


class SystemRng:
    """The operating system's randomness for ids, a seeded-at-start generator for the rest."""

    __slots__ = ("_random",)

    def __init__(self) -> None:
        self._random = random.Random()

    def random(self) -> float:
        return self._random.random()

    def randrange(self, stop: int) -> int:
        return self._random.randrange(stop)

    def randbytes(self, size: int) -> bytes:
        return os.urandom(size)

    def uuid(self) -> uuid.UUID:
        return uuid.uuid4()
