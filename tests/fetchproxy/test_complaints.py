"""Failing cold reads in the log: who, what, where and why, and not again at once."""

import logging

import pytest

from tests.fetchproxy.support import (
    WHOLE_CHUNKS,
    BrokenPrefix,
    HandClock,
    Prefix,
    begin,
    even_history,
    read,
    settled,
)
from tierlog.errors import TierlogError
from tierlog.fetchproxy import FetchProxy
from tierlog.fetchproxy.complaints import Complaints
from tierlog.fetchproxy.errors import map_store_errors
from tierlog.hot.errors import OffsetOutOfRange
from tierlog.objectstore.errors import StoreDenied, StoreUnavailable
from tierlog.types import Offset, TimestampMs

Log = pytest.LogCaptureFixture


async def fails(proxy: FetchProxy, prefix: Prefix, offset: int = 7) -> None:
    with pytest.raises(TierlogError):
        await read(proxy, prefix, offset, bytes_max=1000)


def lines(caplog: Log) -> list[str]:
    assert all(one.levelno == logging.ERROR for one in caplog.records)
    return [one.getMessage() for one in caplog.records]


async def test_a_store_that_is_away_is_told_of_with_the_key(caplog: Log) -> None:
    proxy, prefix, store = await begin(even_history(), WHOLE_CHUNKS)
    store.fault = StoreUnavailable("connection refused")
    await fails(proxy, prefix)
    (line,) = lines(caplog)
    assert line.startswith("cold read of t-0 at offset 7 failed, store away: c/t/id/0/seg/")
    assert line.endswith("connection refused")
    await proxy.close()


async def test_an_object_that_is_gone_is_told_of(caplog: Log) -> None:
    proxy, prefix, store = await begin(even_history(), WHOLE_CHUNKS)
    for key in list(store.shelf.items):
        del store.shelf.items[key]
    await fails(proxy, prefix)
    (line,) = lines(caplog)
    assert "t-0 at offset 7 failed, missing object: c/t/id/0/seg/" in line
    await proxy.close()


async def test_bytes_that_are_wrong_are_told_of(caplog: Log) -> None:
    proxy, prefix, store = await begin(even_history(), WHOLE_CHUNKS)
    store.spoil = lambda _key, _span, data: bytes(len(data))
    await fails(proxy, prefix)
    (line,) = lines(caplog)
    assert "t-0 at offset 7 failed, corrupt chunk: c/t/id/0/seg/" in line
    await proxy.close()


async def test_a_read_that_nobody_waits_for_any_more_is_told_of(caplog: Log) -> None:
    proxy, prefix, store = await begin(even_history(), WHOLE_CHUNKS)
    store.fault = StoreUnavailable("connection refused")
    proxy.read(prefix, Offset(7), bytes_max=1000)
    await settled()
    assert len(lines(caplog)) == 1
    await proxy.close()


async def test_a_search_by_time_is_told_of(caplog: Log) -> None:
    proxy, prefix, _ = await begin(even_history(), WHOLE_CHUNKS)
    with pytest.raises(TierlogError):
        await proxy.search_time(BrokenPrefix(prefix.entries), TimestampMs(5))
    (line,) = lines(caplog)
    assert "t-0 at time 5 failed, missing object" in line
    await proxy.close()


async def test_an_offset_that_never_was_is_the_readers_mistake(caplog: Log) -> None:
    proxy, prefix, _ = await begin(even_history(), WHOLE_CHUNKS)
    with pytest.raises(OffsetOutOfRange):
        await read(proxy, prefix, 1000, bytes_max=1000)
    assert lines(caplog) == []
    await proxy.close()


async def test_a_consumer_that_asks_on_fills_no_log(caplog: Log) -> None:
    proxy, prefix, store = await begin(even_history(), WHOLE_CHUNKS)
    store.fault = StoreUnavailable("connection refused")
    for _ in range(100):
        await fails(proxy, prefix)
    assert len(lines(caplog)) == 1
    assert proxy.stats.reads_failed == 100
    await proxy.close()


class Named(Prefix):
    def __init__(self, name: str) -> None:
        super().__init__(())
        self._name = name

    @property
    def head(self) -> None:  # type: ignore[override]  # Not published yet, as far as is known.
        return None

    def full_key(self, key: str) -> str:
        return f"{self._name}/{key}"


def trouble(fault: Exception) -> TierlogError:
    try:
        with map_store_errors("key"):
            raise fault
    except TierlogError as error:
        return error


def test_a_partition_is_told_of_once_a_minute_and_a_reason_every_ten_seconds(caplog: Log) -> None:
    clock = HandClock()
    complaints = Complaints(clock)
    away, denied = trouble(StoreUnavailable("x")), trouble(StoreDenied("y"))

    def tell(name: str, error: TierlogError) -> int:
        before = len(caplog.records)
        complaints.tell(Named(name), "offset 1", error)
        return len(caplog.records) - before

    assert tell("a", away) == 1
    assert tell("b", away) == 0
    assert tell("a", denied) == 1, "another reason is news"
    clock.seconds += 11
    assert tell("a", away) == 0
    assert tell("b", away) == 1
    assert caplog.records[-1].getMessage().endswith("(and 2 more for this reason)")
    clock.seconds += 60
    assert tell("a", away) == 1
    assert tell("c", trouble(OSError("I/O error"))) == 1
    assert "c/ at offset 1 failed, local disk: " in caplog.records[-1].getMessage()
