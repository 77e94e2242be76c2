import asyncio

from tests.fetchproxy.support import (
    CHUNK,
    WHOLE_CHUNKS,
    HandClock,
    Watched,
    env_on,
    even_history,
    read,
    settled,
    upload,
)
from tierlog.fetchproxy import FetchProxy
from tierlog.fetchproxy.turns import CALM_S, Turns

READERS = 4
BATCHES = 100


def flight() -> asyncio.Future[None]:
    return asyncio.get_running_loop().create_future()


async def test_while_nobody_waited_one_goes_after_the_other() -> None:
    turns = Turns(HandClock(), 12)
    first = flight()
    free = [turns.is_free]
    turns.use(first)
    free.append(turns.is_free)
    first.set_result(None)
    await asyncio.sleep(0)
    free.append(turns.is_free)
    assert free == [True, False, True]


async def test_when_a_reader_waits_all_may_go_and_calm_halves_them() -> None:
    clock = HandClock()
    turns = Turns(clock, 12)
    turns.reader_waited()
    limits = []
    for _ in range(6):
        limits.append(turns.limit)
        clock.seconds += CALM_S
    assert limits == [12, 6, 3, 1, 1, 1]
    clock.seconds += 1e9
    assert turns.limit == 1
    turns.reader_waited()
    assert turns.limit == 12


async def test_a_landing_wakes_the_first_who_waits_and_no_more() -> None:
    turns = Turns(HandClock(), 12)
    under_way = flight()
    turns.use(under_way)
    waiting = [asyncio.create_task(turns.wait()) for _ in range(3)]
    await asyncio.sleep(0)
    under_way.set_exception(OSError("it failed"))
    under_way.exception()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert [one.done() for one in waiting] == [True, False, False]
    turns.wake()  # The first took no turn.
    await asyncio.sleep(0)
    assert [one.done() for one in waiting] == [True, True, False]
    turns.reader_waited()
    await asyncio.gather(*waiting)


async def test_who_gives_up_hands_its_turn_on() -> None:
    turns = Turns(HandClock(), 12)
    under_way = flight()
    turns.use(under_way)
    early, woken, last = [asyncio.create_task(turns.wait()) for _ in range(3)]
    await asyncio.sleep(0)
    early.cancel()
    await asyncio.sleep(0)
    under_way.set_result(None)
    await asyncio.sleep(0)
    woken.cancel()  # Woken already, and has not run yet.
    await asyncio.gather(early, woken, return_exceptions=True)
    await asyncio.wait_for(last, 1)


async def test_readers_in_step_that_find_their_bytes_cause_one_get_after_the_other() -> None:
    clock, store = HandClock(), Watched()
    prefix = await upload(store, even_history(segments=READERS, batches=BATCHES))
    proxy = FetchProxy(env_on(clock=clock), store, WHOLE_CHUNKS, "/data/cache")
    await proxy.start()
    offsets = [number * BATCHES for number in range(READERS)]

    async def go_on(turns: int, *, pause_s: float) -> int:
        """How many bytes were on their way at once, at most."""
        store.under_way_bytes_peak = 0
        for _ in range(turns):
            found = [read(proxy, prefix, offset, bytes_max=1000) for offset in offsets]
            offsets[:] = [one.next_offset for one in await asyncio.gather(*found)]
            await settled()
            clock.seconds += pause_s
        return store.under_way_bytes_peak

    assert await go_on(6, pause_s=0.0) > CHUNK
    await go_on(6, pause_s=CALM_S)
    asked = proxy.stats.ahead_gets
    assert await go_on(20, pause_s=CALM_S) <= CHUNK
    assert proxy.stats.ahead_gets - asked >= 2 * READERS
    assert proxy.stats.reads_at_once >= 20 * READERS
    await proxy.close()
