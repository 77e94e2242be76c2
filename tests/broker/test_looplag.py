"""The loop's lag as it is sampled."""

import asyncio

import pytest

from tierlog.broker.looplag import SAMPLE_S, LoopLag
from tierlog.broker.stats import Histogram


class StalledClock:
    """A clock that the test moves by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def now_ms(self) -> int:
        return int(self.now * 1000)

    def monotonic(self) -> float:
        return self.now


class Timers(asyncio.SelectorEventLoop):
    """Keeps timers for the test to serve."""

    def __init__(self) -> None:
        super().__init__()
        self.armed: list[asyncio.TimerHandle] = []

    def call_later(self, delay, callback, *args, context=None):  # type: ignore[no-untyped-def, override]  # a fake
        assert delay == SAMPLE_S
        handle = asyncio.TimerHandle(self.time() + delay, callback, args, self, context)
        self.armed.append(handle)
        return handle


def test_each_sample_notes_how_late_its_timer_was_served() -> None:
    clock, histogram = StalledClock(), Histogram((0.01, 1.0))
    lag = LoopLag(clock, histogram)

    async def scenario(loop: Timers) -> None:
        lag.start()
        for late in (0.0, 0.5, -0.001, 3.0):
            clock.now += SAMPLE_S + late
            (timer,) = loop.armed
            loop.armed.clear()
            timer._run()
        lag.stop()
        assert [timer.cancelled() for timer in loop.armed] == [True]

    loop = Timers()
    try:
        loop.run_until_complete(scenario(loop))
    finally:
        loop.close()
    assert histogram.counts == [2, 1, 1]
    assert histogram.total == pytest.approx(3.5)


def test_it_can_be_stopped_before_it_began() -> None:
    LoopLag(StalledClock(), Histogram()).stop()
