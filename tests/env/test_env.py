"""Clock and randomness of this machine."""

import time

from tierlog.env import local_env


def test_the_wall_clock_tells_milliseconds_and_the_other_never_goes_back() -> None:
    clock = local_env().clock
    assert abs(clock.now_ms() - time.time() * 1000) < 60_000
    readings = [clock.monotonic() for _ in range(1000)]
    assert readings == sorted(readings)


def test_randomness_stays_in_its_bounds_and_does_not_repeat() -> None:
    rng = local_env().rng
    assert all(0 <= rng.random() < 1 for _ in range(100))
    assert {rng.randrange(3) for _ in range(200)} == {0, 1, 2}
    assert len(rng.randbytes(16)) == 16
    assert rng.randbytes(16) != rng.randbytes(16)
    assert rng.uuid() != rng.uuid()
    assert rng.uuid().version == 4
