"""How long to wait before the store is asked again, after it did not answer."""

from tierlog.env import Clock, Rng


class Pace:
    """Twice as long after each failure in a row, never in step with other nodes."""

    def __init__(self, clock: Clock, rng: Rng, *, ms_min: int, ms_max: int) -> None:
        self._clock = clock
        self._rng = rng
        self._ms_min = ms_min
        self._ms_max = ms_max
        self._until = 0.0
        self.failure_count = 0
        """In a row."""
        self.since_ms: int | None = None
        """Wall clock of the first failure since it last went well."""

    @property
    def left_ms(self) -> int:
        """How long the pause still takes."""
        return max(round((self._until - self._clock.monotonic()) * 1000), 0)

    @property
    def is_paused(self) -> bool:
        return self._clock.monotonic() < self._until

    def failed(self) -> None:
        longest_ms = min(self._ms_min << min(self.failure_count, 20), self._ms_max)
        self.failure_count += 1
        self.since_ms = self._clock.now_ms() if self.since_ms is None else self.since_ms
        self._until = self._clock.monotonic() + longest_ms * (0.5 + self._rng.random() / 2) / 1000

    def resume(self) -> None:
        """Go on now; whether it goes well is to be seen."""
        self._until = 0.0

    def succeeded(self) -> None:
        self.failure_count = 0
        self.since_ms = None
        self._until = 0.0
