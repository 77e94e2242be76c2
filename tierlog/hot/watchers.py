"""Callbacks that hear when a log changed, for whoever waits for several logs at once.

Told in the next turn of the loop, once for everything that happened until then: a callback looks at
the log itself to see what is new. One that raises is the loop's to report, and keeps no other from
being told.
"""

import asyncio
from collections.abc import Callable
from typing import TypeAlias

Watcher: TypeAlias = Callable[[], None]


class Watchers:
    __slots__ = ("_is_due", "watching")

    def __init__(self) -> None:
        self._is_due = False
        # A dictionary as an ordered set: told in the order in which they came.
        self.watching: dict[Watcher, None] = {}

    def add(self, callback: Watcher) -> None:
        self.watching[callback] = None

    def remove(self, callback: Watcher) -> None:
        """It is not called any more, not even for what has happened already."""
        self.watching.pop(callback, None)

    def notify(self) -> None:
        """Something changed. Needs a running loop only where somebody watches."""
        if self.watching and not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._tell)

    def _tell(self) -> None:
        self._is_due = False
        for callback in tuple(self.watching):
            if callback not in self.watching:
                continue
            try:
                callback()
            except Exception as fault:  # noqa: BLE001 - the others are told all the same.
                asyncio.get_running_loop().call_exception_handler(
                    {"message": "a watcher of a log failed", "exception": fault}
                )
