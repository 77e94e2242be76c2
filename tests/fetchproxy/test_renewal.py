"""Segments that were merged behind a reader's back: he is told nothing of it."""

from dataclasses import replace
from random import Random

import pytest

from tests.fetchproxy.support import (
    SMALL,
    Prefix,
    Watched,
    begin,
    env_on,
    history,
    make_segment,
    read,
    read_all,
    whole,
)
from tierlog.cold.entry import Entry
from tierlog.fetchproxy import FetchProxy
from tierlog.fetchproxy.errors import ColdUnavailable
from tierlog.objectstore.body import BytesBody
from tierlog.objectstore.port import Doomed
from tierlog.types import Offset, TimestampMs

SIZES = [[[300, 200]] * 4] * 3


class OldPrefix(Prefix):
    """Knows an old HEAD, until it asks."""

    def __init__(self, old: tuple[Entry, ...], new: tuple[Entry, ...]) -> None:
        super().__init__(old)
        self.new = new
        self.asked = 0

    async def renew(self) -> None:
        self.asked += 1
        self.entries = self.new


async def merged_behind_the_back() -> tuple[FetchProxy, OldPrefix, Watched, bytes]:
    segments = history(Random(1), segment_sizes=SIZES)
    _, prefix, store = await begin(segments)
    data, entry = make_segment(0, [batch for segment in segments for batch in segment])
    entry = replace(entry, key="seg/merged.seg")
    await store.put(prefix.full_key(entry.key), BytesBody(data))
    await store.delete([Doomed(prefix.full_key(one.key)) for one in prefix.entries])
    proxy = FetchProxy(env_on(), store, SMALL, "/data/cache")
    await proxy.start()
    return proxy, OldPrefix(prefix.entries, (entry,)), store, whole(segments)


async def test_a_read_that_meets_a_missing_object_is_planned_again_by_a_newer_head() -> None:
    proxy, prefix, _, everything = await merged_behind_the_back()
    assert await read_all(proxy, prefix) == everything
    assert prefix.asked == 1
    assert proxy.stats.reads_failed == 0
    await proxy.close()


async def test_a_question_about_time_is_asked_again_as_well() -> None:
    proxy, prefix, _, _ = await merged_behind_the_back()
    old = prefix.entries
    assert await proxy.search_time(prefix, TimestampMs(0)) is not None
    assert prefix.asked == 1
    prefix.entries = old
    assert await proxy.search_latest(prefix) is not None
    assert prefix.asked == 2
    await proxy.close()


async def test_a_reader_goes_on_in_the_middle_of_what_was_merged() -> None:
    proxy, prefix, _, everything = await merged_behind_the_back()
    tail = await read_all(proxy, prefix, start=prefix.entries[1].base)
    assert everything.endswith(tail)
    assert len(tail) * 3 == len(everything) * 2
    await proxy.close()


async def test_an_object_that_a_newer_head_names_as_well_is_missed_aloud() -> None:
    proxy, prefix, _, _ = await merged_behind_the_back()
    prefix.new = prefix.entries
    with pytest.raises(ColdUnavailable):
        await read(proxy, prefix, Offset(0), bytes_max=1000)
    assert prefix.asked == 1
    assert proxy.stats.reads_failed == 1
    await proxy.close()
