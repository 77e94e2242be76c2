"""The limit of GETs a second, in virtual time."""

import asyncio
from dataclasses import replace

import pytest

from tests.fetchproxy.support import WHOLE_CHUNKS, Watched, even_history, read_all, upload, whole
from tierlog.fetchproxy import FetchProxy
from tierlog.sim import SimWorld


class Timed(Watched):
    """Knows when each GET came."""

    def __init__(self, world: SimWorld) -> None:
        super().__init__()
        self._world_clock = world.env("node").clock
        self.times: list[float] = []

    async def _answer_time(self) -> None:
        self.times.append(self._world_clock.monotonic())
        await asyncio.sleep(0.001)


async def replayed(world: SimWorld, rate: float | None) -> Timed:
    segments = even_history(segments=4)
    store = Timed(world)
    prefix = await upload(store, segments)
    limited = replace(WHOLE_CHUNKS, gets_per_second=rate)
    proxy = FetchProxy(world.env("node"), store, limited, "/data/cache")
    await proxy.start()
    assert await read_all(proxy, prefix) == whole(segments)
    assert proxy.stats.gets == len(store.times)
    assert (proxy.stats.gets_late > 0) == (rate is not None)
    await proxy.close()
    return store


def play(rate: float | None) -> Timed:
    world = SimWorld(1)

    async def run() -> Timed:
        return await world.start("node", replayed(world, rate), what="node")

    return world.run(run())


@pytest.mark.parametrize("rate", [2.0, 10.0])
def test_over_any_while_there_are_no_more_gets_than_the_limit_says(rate: float) -> None:
    times = play(rate).times
    for first in range(len(times)):
        for last in range(first + 1, len(times)):
            assert last - first <= (times[last] - times[first]) * rate + 1e-6


def test_a_limit_changes_when_and_not_what() -> None:
    """Nothing is fetched twice for it, and without one nobody waits."""
    free, limited = play(None), play(5.0)
    assert sorted(free.gets) == sorted(limited.gets)
    assert free.times[-1] - free.times[0] < 1.0
