"""How fast the disk fills up, and how long there is room: the hours that an outage may last.

Two rates, over the last minutes: what the disk has lost, whoever took it, and what producers sent.
While the store takes what is sealed, the first one counts: a disk that does not shrink lasts for
ever, and a store in a folder of the same disk counts as what it takes. While the store is away
nothing leaves the disk, and producers' rate counts at once, before the disk shows it.
"""

import math
from dataclasses import dataclass

HALF_LIFE_S = 300.0
"""Of a rate's memory. Uploads free the disk in steps of whole segments, minutes apart."""

INTERVAL_S = 5.0
"""Between two looks: a sum over all topics."""


@dataclass(slots=True)
class Decaying:
    """Units a second, of which older ones count less. True from the first interval on."""

    _units: float = 0.0
    _seconds: float = 0.0

    def add(self, units: float, seconds: float) -> None:
        keep = 0.5 ** (seconds / HALF_LIFE_S)
        self._units = self._units * keep + units
        self._seconds = self._seconds * keep + seconds

    @property
    def rate(self) -> float:
        return self._units / self._seconds if self._seconds else 0.0


class Filling:
    def __init__(self) -> None:
        self._lost = Decaying()
        self._produced = Decaying()
        self._last: tuple[float, int, int] | None = None

    def is_due(self, now_s: float) -> bool:
        return self._last is None or now_s - self._last[0] >= INTERVAL_S

    def note(self, now_s: float, *, free_bytes: int, produced_bytes: int) -> None:
        """What is there now; `produced_bytes` is a total that never goes back."""
        last, self._last = self._last, (now_s, free_bytes, produced_bytes)
        if last is not None and now_s > last[0]:
            seconds = now_s - last[0]
            self._lost.add(last[1] - free_bytes, seconds)
            self._produced.add(produced_bytes - last[2], seconds)

    @property
    def produced_rate(self) -> float:
        """Bytes a second that producers send."""
        return self._produced.rate

    def rate(self, *, is_draining: bool) -> float:
        """Bytes a second by which the room shrinks; not below 0."""
        lost = max(self._lost.rate, 0.0)
        return lost if is_draining else max(lost, self._produced.rate)

    def hours_left(self, room_bytes: int, *, is_draining: bool) -> float:
        """Until the room is used up at the present rate. `is_draining`: the store takes what is
        sealed. Infinity while the disk does not fill up."""
        if room_bytes <= 0:
            return 0.0
        rate = self.rate(is_draining=is_draining)
        return room_bytes / rate / 3600 if rate > 0 else math.inf
