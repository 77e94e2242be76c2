"""Pauses grow, end, and are forgotten."""

from random import Random

from tests.hot.support import FixedClock
from tierlog.cold.pace import Pace
from tierlog.sim.ports import SimRng


def test_pauses_double_up_to_the_longest() -> None:
    clock = FixedClock()
    pace = Pace(clock, SimRng(Random(1)), ms_min=100, ms_max=1000)
    pauses = []
    for _ in range(8):
        began = clock.ms
        pace.failed()
        while pace.is_paused:
            clock.ms += 1
        pauses.append(clock.ms - began)
    for pause, longest in zip(pauses, (100, 200, 400, 800, 1000, 1000, 1000, 1000), strict=True):
        assert longest / 2 <= pause <= longest + 1
    assert pace.failure_count == 8


def test_a_success_ends_the_pause() -> None:
    pace = Pace(FixedClock(), SimRng(Random(1)), ms_min=100, ms_max=1000)
    paused = [pace.is_paused]
    pace.failed()
    paused.append(pace.is_paused)
    pace.succeeded()
    paused.append(pace.is_paused)
    assert (paused, pace.failure_count) == ([False, True, False], 0)
