"""A number that several threads add to."""

import threading


class Tally:
    def __init__(self) -> None:
        self._value = 0
        self._lock = threading.Lock()

    def add(self, count: int) -> int:
        """What it is with this; nobody else adds in between."""
        with self._lock:
            self._value += count
            return self._value
