import asyncio
from collections.abc import Sequence
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fetchproxy.support import (
    SMALL,
    Prefix,
    Watched,
    count_rounds,
    env_on,
    make_batch,
    upload,
)
from tierlog.fetchproxy import FetchProxy
from tierlog.types import Offset, TimestampMs


def batches_of(times: Sequence[Sequence[Sequence[int]]]) -> list[list[bytes]]:
    """By segment and batch, records with these timestamps."""
    rng = Random(1)
    offset = 0
    segments = []
    for segment in times:
        batches = []
        for batch in segment:
            batches.append(
                make_batch(offset, [rng.randrange(700)] * len(batch), rng=rng, times=batch)
            )
            offset += len(batch)
        segments.append(batches)
    return segments


async def begin(times: Sequence[Sequence[Sequence[int]]]) -> tuple[FetchProxy, Prefix, Watched]:
    store = Watched()
    prefix = await upload(store, batches_of(times))
    proxy = FetchProxy(env_on(), store, SMALL, "/data/cache")
    await proxy.start()
    return proxy, prefix, store


TIMES = st.lists(
    st.lists(st.lists(st.integers(0, 60), min_size=1, max_size=4), min_size=1, max_size=12),
    min_size=1,
    max_size=3,
)


@settings(max_examples=80)
@given(times=TIMES, start=st.integers(0, 40), wanted=st.integers(0, 62))
def test_times_are_found_as_by_looking_at_every_record(
    times: list[list[list[int]]], start: int, wanted: int
) -> None:
    flat = [stamp for segment in times for batch in segment for stamp in batch]
    behind = [(offset, stamp) for offset, stamp in enumerate(flat) if offset >= start]
    first = next((one for one in behind if one[1] >= wanted), None)
    latest = min(behind, key=lambda one: (-one[1], one[0]), default=None)

    async def check() -> None:
        proxy, prefix, _ = await begin(times)
        at = Offset(start)
        assert await proxy.search_time(prefix, TimestampMs(wanted), start=at) == first
        assert await proxy.search_latest(prefix, start=at) == latest
        await proxy.close()

    asyncio.run(check())


RISING = [[[1000 * segment + batch] for batch in range(60)] for segment in range(3)]


async def test_a_time_takes_two_round_trips() -> None:
    proxy, prefix, store = await begin(RISING)
    search = proxy.search_time(prefix, TimestampMs(1042))
    assert await count_rounds(store, search) == (2, (102, 1042))
    assert {key for key, _ in store.gets} == {prefix.full_key(prefix.entries[1].key)}
    await proxy.close()


async def test_the_latest_record_takes_two_round_trips() -> None:
    proxy, prefix, store = await begin(RISING)
    rounds, found = await count_rounds(store, proxy.search_latest(prefix))
    assert found == (179, 2059)
    assert rounds <= 2
    await proxy.close()


async def test_a_time_behind_the_last_record_asks_the_store_for_nothing() -> None:
    proxy, prefix, store = await begin(RISING)
    assert await proxy.search_time(prefix, TimestampMs(5000)) is None
    assert not store.gets
    await proxy.close()


async def test_the_log_start_of_the_manifest_counts_unless_another_is_given() -> None:
    proxy, prefix, _ = await begin(RISING)
    later = Prefix(prefix.entries, log_start=70)
    assert await proxy.search_time(later, TimestampMs(0)) == (70, 1010)
    await proxy.close()
